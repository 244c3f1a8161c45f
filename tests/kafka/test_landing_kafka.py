"""Landing from a real broker: what was produced is in the landed table, once, in order, whatever happens meanwhile."""

import json
import os
import random
import signal
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

from examples.broker import Broker, running_broker, started_again
from kstreams_replay.jobs.landing import from_kafka, kafka_files
from kstreams_replay.jobs.landing.from_kafka import share_out
from kstreams_replay.jobs.landing.landing import FileSource, KafkaSource, land_files, land_kafka
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError, LandingError, LedgerConflict
from kstreams_replay.state.kafka import committed_records
from kstreams_replay.state.tables.ledger import LandingLedger
from tests.kafka.producing import Producing, numbered
from tests.landing.landed_rows import KilledError, landed

pytestmark = [pytest.mark.sampled, pytest.mark.jvm]


@pytest.mark.parametrize("compiled_from", [0, 1_000_000])
def test_partitions_keys_times_and_headers_land_as_they_were_produced(
    warehouse, broker, source, topic, monkeypatch, compiled_from
):
    monkeypatch.setattr(committed_records, "_COMPILED_FROM", compiled_from)
    broker.create_topic(topic, partitions=3)
    producing = Producing(broker, topic)
    producing.send([b"a"], partition=2, key=b"\x00\xff", timestamp=1_000, headers=[("h", b"1"), ("h", None), ("", b"")])
    producing.send([b"", b"b"], partition=0, timestamp=999)
    producing.producer.produce(topic, None, key=b"tombstone", partition=0, timestamp=2_000)
    producing.producer.flush(30)

    report = land_kafka(None, warehouse, topic, source)

    assert landed(warehouse, topic, "partition", "offset", "timestamp", "timestamp_type", "key", "value") == [
        (0, 0, 999, "CreateTime", None, b""),
        (0, 1, 999, "CreateTime", None, b"b"),
        (0, 2, 2_000, "CreateTime", b"tombstone", None),
        (2, 0, 1_000, "CreateTime", b"\x00\xff", b"a"),
    ]
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}, {"key": "", "value": b""}]
    assert landed(warehouse, topic, "headers", "increment") == [([], 1), ([], 1), ([], 1), (headers, 1)]
    assert (report.increments, report.records, report.partitions) == ((1,), 4, 3)
    assert (report.cut_from, report.cut_to) == ({0: 0, 1: 0, 2: 0}, {0: 3, 1: 0, 2: 1})


def test_the_brokers_own_time_is_told_apart_from_the_producers(warehouse, broker, source, topic):
    broker.create_topic(topic, message_timestamp_type="LogAppendTime")
    Producing(broker, topic).send([b"a"], timestamp=5)

    land_kafka(None, warehouse, topic, source)

    [(kind, time_ms)] = landed(warehouse, topic, "timestamp_type", "timestamp")
    assert kind == "LogAppendTime"
    assert time_ms > 5


def test_an_empty_topic_lands_once_so_that_its_partitions_are_known(warehouse, broker, source, topic):
    broker.create_topic(topic, partitions=2)

    first = land_kafka(None, warehouse, topic, source)
    second = land_kafka(None, warehouse, topic, source)

    assert (first.increments, first.records, first.cut_to) == ((1,), 0, {0: 0, 1: 0})
    assert second.increments == ()
    assert landed(warehouse, topic, "offset") == []
    assert warehouse.topics() == [topic]


def test_a_table_that_kafka_creates_is_as_any_other_landed_table(warehouse, broker, source, topic, tmp_path):
    broker.create_topic(topic)
    Producing(broker, topic).send([b"a"])
    (tmp_path / "in").mkdir()

    land_kafka(None, warehouse, topic, source)
    land_files(None, warehouse, "from_files", FileSource(tmp_path / "in", "jsonl", timestamp="t"))

    ours, other = (DeltaTable(warehouse.landed(name)) for name in (topic, "from_files"))
    assert ours.schema().to_json() == other.schema().to_json()
    assert ours.metadata().partition_columns == other.metadata().partition_columns == ["partition"]
    assert ours.metadata().configuration == other.metadata().configuration
    assert str(ours.protocol()) == str(other.protocol())


def test_nothing_new_is_no_new_increment(warehouse, broker, source, topic):
    broker.create_topic(topic)
    Producing(broker, topic).send([b"a"])
    land_kafka(None, warehouse, topic, source)

    report = land_kafka(None, warehouse, topic, source)

    assert (report.increments, report.records, report.cut_from, report.cut_to) == ((), 0, {0: 1}, {0: 1})
    assert [row.increment for row in LandingLedger(warehouse.landing_ledger(topic)).rows()] == [1, 1]


def test_increments_of_any_size_give_the_committed_records_of_all_transactions(warehouse, broker, source, topic):
    """Ranges begin and end anywhere: among aborted records, on a transaction's marker, behind everything visible."""
    broker.create_topic(topic, partitions=2)
    dice = random.Random(7)
    producing = Producing(broker, topic, transactional_id=topic)
    for number in range(12):
        partition, size, commit = dice.randrange(2), dice.randrange(1, 400), dice.random() < 0.5
        producing.transaction(numbered(f"{number}-", size), commit=commit, partition=partition)
    producing.transaction(numbered("aborted", 700), commit=False, partition=0)

    reports = []
    while not reports or reports[-1].increments:
        reports.append(land_kafka(None, warehouse, topic, source, max_records=450))

    assert landed(warehouse, topic, "partition", "offset", "value") == sorted(producing.positions)
    assert len(reports) > 5
    assert sum(report.records for report in reports) == len(producing.positions)


def test_an_open_transaction_holds_back_what_comes_after_it(warehouse, broker, source, topic):
    broker.create_topic(topic)
    open_one = broker.producer(transactional_id=topic)
    open_one.init_transactions(30)
    plain = Producing(broker, topic)
    plain.send([b"before"])
    open_one.begin_transaction()
    open_one.produce(topic, b"within", partition=0)
    open_one.flush(30)
    plain.send([b"after"])

    land_kafka(None, warehouse, topic, source)
    assert landed(warehouse, topic, "offset", "value") == [(0, b"before")]

    open_one.commit_transaction(30)
    land_kafka(None, warehouse, topic, source)
    assert landed(warehouse, topic, "offset", "value") == [(0, b"before"), (1, b"within"), (2, b"after")]


def test_holes_left_by_compaction_are_no_gaps(warehouse, broker, source, topic):
    broker.create_topic(
        topic, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001", delete_retention_ms="0"
    )
    producing = Producing(broker, topic)
    for number in range(6):  # a segment each, because the times are far apart
        producing.send([b"%d" % number], key=b"same", timestamp=1_000 + 10_000 * number)
    producing.send([b"other"], key=b"other", timestamp=100_000)
    kept = [(5, b"5"), (6, b"other")]
    until_compacted(broker, topic, to=kept)

    land_kafka(None, warehouse, topic, source)
    producing.send([b"last"], key=b"same", timestamp=200_000)
    land_kafka(None, warehouse, topic, source)

    assert landed(warehouse, topic, "offset", "value") == [*kept, (7, b"last")]


def until_compacted(broker: Broker, topic: str, *, to: list[tuple[int, bytes]]) -> None:
    """Returns once the broker keeps these records of partition 0, after however many runs of its cleaner."""
    deadline = time.monotonic() + 60
    while (seen := consume(broker, topic)) != to:
        assert time.monotonic() < deadline, f"not compacted: {seen}"
        time.sleep(0.1)


def consume(broker: Broker, topic: str) -> list[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        consumer.assign([TopicPartition(topic, 0, 0)])
        records: list[tuple[int, bytes]] = []
        while not records or records[-1][0] < end - 1:
            message = consumer.poll(30)
            assert message is not None, records
            assert message.error() is None, message.error()
            records.append((message.offset(), message.value()))
        return records
    finally:
        consumer.close()


@pytest.mark.parametrize("dies_in", ["before_the_write", "between_write_and_ledger"])
def test_a_killed_landing_run_again_lands_every_record_once(warehouse, broker, source, monkeypatch, dies_in):
    topic = broker.create_topic(dies_in, partitions=2)
    producing = Producing(broker, topic)
    producing.send(numbered("a", 5), partition=0)
    producing.send(numbered("b", 3), partition=1)
    land_kafka(None, warehouse, topic, source)
    producing.send(numbered("c", 4), partition=1)

    def die(*_: Any, **__: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(
            *{
                "before_the_write": (from_kafka, "write_ranges", die),
                "between_write_and_ledger": (LandingLedger, "done", die),
            }[dies_in]
        )
        with pytest.raises(KilledError):
            land_kafka(None, warehouse, topic, source)
    producing.send(numbered("d", 2), partition=0)

    report = land_kafka(None, warehouse, topic, source)

    assert landed(warehouse, topic, "partition", "offset", "value") == sorted(producing.positions)
    assert sorted(landed(warehouse, topic, "increment", "value"))[8:] == [
        *((2, value) for value in numbered("c", 4)),  # the plan was kept: what came later is another increment
        *((3, value) for value in numbered("d", 2)),
    ]
    assert (report.increments, report.records) == ((2, 3), 6)
    assert (report.cut_from, report.cut_to) == ({0: 5, 1: 3}, {0: 7, 1: 7})


def test_of_two_runners_with_one_plan_one_is_refused_and_nothing_is_landed_twice(
    warehouse, broker, source, topic, monkeypatch
):
    broker.create_topic(topic)
    producing = Producing(broker, topic)
    producing.send(numbered("a", 3))
    write = from_kafka.write_ranges

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(from_kafka, "write_ranges", write)
        land_kafka(None, warehouse, topic, source)  # another runner finds the plan and finishes it
        return write(*arguments)

    monkeypatch.setattr(from_kafka, "write_ranges", overtaken)
    with pytest.raises(LedgerConflict, match="let the other runner finish"):
        land_kafka(None, warehouse, topic, source)

    assert landed(warehouse, topic, "partition", "offset", "value") == producing.positions


def test_a_topic_created_anew_under_the_same_name_is_refused(warehouse, broker, source, topic):
    broker.create_topic(topic)
    Producing(broker, topic).send([b"a"])
    land_kafka(None, warehouse, topic, source)
    admin = broker.admin()
    admin.delete_topics([topic], operation_timeout=30)[topic].result(30)
    broker.create_topic(topic)

    with pytest.raises(LandingError, match=r"created again: its offsets mean other records; land it into a topic"):
        land_kafka(None, warehouse, topic, source)


def test_a_topic_that_is_created_anew_while_it_is_read_is_refused_and_nothing_lands(
    warehouse, broker, source, topic, monkeypatch
):
    broker.create_topic(topic)
    Producing(broker, topic).send([b"a"])
    write = from_kafka.write_ranges

    def while_somebody_makes_it_anew(*arguments: Any) -> Any:
        written = write(*arguments)
        admin = broker.admin()  # lives until the answer is there
        admin.delete_topics([topic], operation_timeout=30)[topic].result(30)
        broker.create_topic(topic)
        return written

    monkeypatch.setattr(from_kafka, "write_ranges", while_somebody_makes_it_anew)
    with pytest.raises(LandingError, match="created again: its offsets mean other records"):
        land_kafka(None, warehouse, topic, source)

    assert LandingLedger(warehouse.landing_ledger(topic)).last_done() is None


def test_more_partitions_than_are_read_at_once_land_whole(warehouse, broker, source, topic):
    broker.create_topic(topic, partitions=committed_records.PARTITIONS_AT_ONCE + 3)
    producing = Producing(broker, topic)
    for partition in range(committed_records.PARTITIONS_AT_ONCE + 3):
        producing.send(numbered(f"{partition}-", 3 * (partition % 3)), partition=partition)

    land_kafka(None, warehouse, topic, source)

    assert landed(warehouse, topic, "partition", "offset", "value") == sorted(producing.positions)


@pytest.mark.nightly
def test_a_broker_that_dies_while_it_is_read_loses_nothing(warehouse, tmp_path, topic, monkeypatch):
    little = {
        "queued.min.messages": "1", "queued.max.messages.kbytes": "1", "fetch.message.max.bytes": "1000",
        "default.api.timeout.ms": "3000",
    }  # fmt: skip
    monkeypatch.setattr(committed_records, "BATCH", 100)
    with running_broker(tmp_path) as broker:
        broker.create_topic(topic, partitions=2)
        producing = Producing(broker, topic)
        for partition in range(2):
            producing.send(numbered(f"{partition}-", 5_000), partition=partition)
        source, read = KafkaSource(broker.bootstrap_servers, options=little), kafka_files._rows
        seen = []

        def until_it_dies(*given: Any) -> Any:
            seen.append(read(*given))
            if len(seen) == 3:
                os.kill(broker.pid, signal.SIGKILL)
            return seen[-1]

        with monkeypatch.context() as patch:
            patch.setattr(kafka_files, "_rows", until_it_dies)
            with pytest.raises(LandingError, match=r"expected an answer, got .*Connection refused"):
                land_kafka(None, warehouse, topic, source)
        assert 0 < sum(map(len, seen)) < 10_000

        with started_again(broker):
            report = land_kafka(None, warehouse, topic, source)

    assert landed(warehouse, topic, "partition", "offset", "value") == sorted(producing.positions)
    assert report.increments == (1,)


def test_a_topic_that_is_not_there_and_a_broker_that_does_not_answer_are_told_apart(warehouse, broker, source):
    with pytest.raises(LandingError, match="expected a topic absent, got no such topic; correct the topic's name"):
        land_kafka(None, warehouse, "absent", source)

    impatient = {"default.api.timeout.ms": "1500", "request.timeout.ms": "1000"}
    with pytest.raises(LandingError, match=r"expected an answer, got _TIMED_OUT: .*Connection refused"):
        land_kafka(None, warehouse, "absent", KafkaSource("127.0.0.1:1", options=impatient))


def test_a_topic_landed_from_files_is_not_continued_from_kafka(warehouse, broker, source, topic, tmp_path):
    (tmp_path / "in").mkdir()
    land_files(None, warehouse, topic, FileSource(tmp_path / "in", "jsonl", timestamp="t"))

    expected = "expected a source of the kind files without known offsets, which gave it its offsets, got kafka"
    with pytest.raises(LandingError, match=expected):
        land_kafka(None, warehouse, topic, source)


def test_a_partition_added_later_is_landed_from_its_beginning(warehouse, broker, source, topic):
    broker.create_topic(topic)
    producing = Producing(broker, topic)
    producing.send([b"a"])
    land_kafka(None, warehouse, topic, source)
    broker.add_partitions(topic, 2)
    Producing(broker, topic).send([b"b"], partition=1)  # a producer that knows of the new partition

    report = land_kafka(None, warehouse, topic, source)

    assert landed(warehouse, topic, "partition", "offset", "value") == [(0, 0, b"a"), (1, 0, b"b")]
    assert (report.partitions, report.cut_from, report.cut_to) == (2, {0: 1, 1: 0}, {0: 1, 1: 1})


def test_a_dry_run_says_how_far_the_topic_lags_and_lands_nothing(warehouse, broker, source, topic, capsys):
    broker.create_topic(topic, partitions=2)
    producing = Producing(broker, topic)
    producing.send(numbered("a", 3), partition=1)
    land_kafka(None, warehouse, topic, source)
    producing.send(numbered("b", 4), partition=1)
    command = ["land", topic, "--warehouse", warehouse.root, "--kafka", broker.bootstrap_servers, "--dry-run"]

    assert main([*command, "--json"]) == 0

    assert json.loads(capsys.readouterr().out) == {
        "topic": topic,
        "offsets": 4,
        "partitions": [
            {"partition": 0, "from": 0, "to": 0, "offsets": 0},
            {"partition": 1, "from": 3, "to": 7, "offsets": 4},
        ],
    }
    assert len(landed(warehouse, topic, "offset")) == 3


@pytest.mark.parametrize(
    ("available", "limit", "want"),
    [
        ({0: 5, 1: 7}, None, {0: 5, 1: 7}),
        ({0: 5, 1: 7}, 100, {0: 5, 1: 7}),
        ({0: 1, 1: 7, 2: 9}, 9, {0: 1, 1: 4, 2: 4}),
        ({0: 3, 1: 3, 2: 4}, 1, {0: 0, 1: 0, 2: 1}),  # the fullest goes first, so none waits for ever
        ({0: 0, 1: 0}, 5, {0: 0, 1: 0}),
    ],
)
def test_a_limit_is_shared_out_as_equally_as_it_can_be(available, limit, want):
    assert share_out(available, limit) == want


def test_a_limit_below_one_is_refused(warehouse, source):
    with pytest.raises(ConfigError, match="max_records: expected at least 1, got 0"):
        land_kafka(None, warehouse, "any", source, max_records=0)
