"""Outputs that are published to a real broker: what readers see, and what is refused."""

import json
import re
import shutil
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.schema_registry import SchemaRegistryClient

from examples.broker import Broker
from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.publish.kafka_target import KafkaTarget
from kstreams_replay.jobs.publish.publishing import publish
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError, PublisherFenced, PublishError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.kafka.published import Seen, again, forwarded, long, published, run, seen, table_of
from tests.once_a_run import once_a_run
from tests.planted import LandedRecord

pytestmark = [pytest.mark.sampled, pytest.mark.jvm]

TEXT = Consumed(Serde.string(), Serde.string())


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic's name that no other test has."""
    return re.sub(r"[^\w.-]", "-", request.node.name.removeprefix("test_"))[:200]


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "w"))


def removed(broker: Broker, topic: str) -> None:
    admin: AdminClient = broker.admin()
    for done in admin.delete_topics([topic]).values():
        done.result(30)


@pytest.mark.every_run
def test_readers_see_rows_in_order_with_key_headers_time_and_partition(broker, topic, warehouse):
    """Partitions are Kafka's own examples of murmur2 (UtilsTest): modulo 4 those of 21, foobar and abc are 0, 2, 3."""
    first = [
        LandedRecord(0, b"foobar", b"1", 5, (("h", b"x"), ("h", b""))),
        LandedRecord(0, b"abc", b"", 7),
        LandedRecord(1, b"21", b"2", 6),
        LandedRecord(1, None, b"nobody", 9),
    ]
    run(warehouse, forwarded(), first, partitions=2)
    run(warehouse, forwarded(), [LandedRecord(0, b"abc", None, 4), LandedRecord(0, b"foobar", b"3", 3)], partitions=2)
    broker.create_topic(topic, 4)

    report = published(broker, warehouse, forwarded(), topic)

    assert seen(broker, topic) == [
        Seen(0, b"21", b"2", 6),
        Seen(1, None, b"nobody", 9),
        Seen(2, b"foobar", b"1", 5, (("h", b"x"), ("h", b""))),
        Seen(2, b"foobar", b"3", 3),
        Seen(3, b"abc", b"", 7),
        Seen(3, b"abc", None, 4),
    ]
    assert (report.rows, report.increments, report.transactions, report.through) == (6, 2, 2, 2)
    nothing = published(broker, warehouse, forwarded(), topic)
    assert (nothing.is_nothing_new, nothing.through) == (True, 2)
    run(warehouse, forwarded(), [LandedRecord(0, b"21", b"4", 8)], partitions=2)
    published(broker, warehouse, forwarded(), topic)
    assert seen(broker, topic)[:2] == [Seen(0, b"21", b"2", 6), Seen(0, b"21", b"4", 8)]


@pytest.mark.parametrize("kind", ["time", "session"])
def test_windowed_keys_have_their_window_behind_them_and_the_partition_of_the_key(broker, topic, warehouse, kind):
    builder = StreamsBuilder()
    windows = TimeWindows.of_size(10) if kind == "time" else SessionWindows.with_inactivity_gap(10)
    builder.stream("in", TEXT).group_by_key().windowed_by(windows).count().to_stream().to("out")
    topology = builder.build()
    run(warehouse, topology, [LandedRecord(0, b"foobar", b"x", 25), LandedRecord(0, b"abc", b"x", 26)])
    broker.create_topic(topic, 4)

    published(broker, warehouse, topology, topic)

    windows_of = {"foobar": long(20), "abc": long(20)} if kind == "time" else {
        "foobar": long(25) + long(25), "abc": long(26) + long(26),
    }  # fmt: skip
    assert seen(broker, topic) == [
        Seen(2, b"foobar" + windows_of["foobar"], long(1), 25), Seen(3, b"abc" + windows_of["abc"], long(1), 26),
    ]  # fmt: skip


def test_a_partitioner_has_chosen_and_the_topic_must_have_its_partitions(broker, topic, warehouse):
    builder = StreamsBuilder()
    builder.stream("in", TEXT).to("out", partitioner=lambda topic, key, value, partitions: {int(value)}, partitions=3)
    topology = builder.build()
    run(warehouse, topology, [LandedRecord(0, b"a", b"2", 5), LandedRecord(0, b"b", b"0", 6)])
    broker.create_topic(topic, 3)
    broker.create_topic(f"{topic}-4", 4)

    with pytest.raises(PublishError, match="expected 3 partitions, to which the sink's partitioner wrote, got 4"):
        published(broker, warehouse, topology, f"{topic}-4")
    published(broker, warehouse, topology, topic)

    assert seen(broker, topic) == [Seen(0, b"b", b"0", 6), Seen(2, b"a", b"2", 5)]


def test_a_dry_run_counts_what_is_published_then_and_writes_nothing(broker, topic, warehouse):
    run(warehouse, forwarded(), [LandedRecord(0, b"a", b"1", 1), LandedRecord(0, b"a", b"2", 2)])
    run(warehouse, forwarded(), [LandedRecord(0, b"b", b"3", 3)])
    broker.create_topic(topic)

    counted = published(broker, warehouse, forwarded(), topic, dry_run=True, rows_per_transaction=1)

    assert (counted.rows, counted.increments, counted.transactions) == (3, 2, 3)
    assert topic in broker.admin().list_topics(timeout=30).topics
    assert f"{topic}-replay-position" not in broker.admin().list_topics(timeout=30).topics
    assert seen(broker, topic, "read_uncommitted") == []
    report = published(broker, warehouse, forwarded(), topic, rows_per_transaction=1)
    assert (report.rows, report.increments, report.transactions) == (3, 2, 3)


def test_an_increment_that_is_named_is_the_last_one(broker, topic, warehouse):
    for number in range(1, 4):
        run(warehouse, forwarded(), [LandedRecord(0, b"a", str(number).encode(), number)])
    broker.create_topic(topic)

    published(broker, warehouse, forwarded(), topic, increment=2)

    assert [record.value for record in seen(broker, topic)] == [b"1", b"2"]
    published(broker, warehouse, forwarded(), topic)
    assert [record.value for record in seen(broker, topic)] == [b"1", b"2", b"3"]


# --- two publishers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["begin transaction", "produce", "produce position", "commit transaction"])
def test_of_two_publishers_the_later_one_wins_and_the_other_is_told(broker, topic, warehouse, call):
    run(warehouse, forwarded(), [LandedRecord(0, b"a", str(number).encode(), 1 + number) for number in range(6)])
    broker.create_topic(topic)
    calls: list[str] = []

    def stop_here(made: str) -> None:
        calls.append(made)
        if calls.count(call) == 3 and made == call:
            published(broker, warehouse, forwarded(), topic)

    with pytest.raises(PublisherFenced, match="another one that began since"):
        published(broker, warehouse, forwarded(), topic, on_call=stop_here, rows_per_transaction=2)

    assert [record.value for record in seen(broker, topic)] == [b"0", b"1", b"2", b"3", b"4", b"5"]


# --- restated outputs ------------------------------------------------------------------------------------------------


def counts(*, without_bots: bool = False) -> Topology:
    """Visits of each user."""
    builder = StreamsBuilder()
    visits = builder.stream("in", TEXT)
    visits = visits.filter("value != 'bot'") if without_bots else visits
    visits.group_by_key().count(Materialized.as_("visits")).to_stream().to("out")
    return builder.build()


def _begun(folder: Path) -> None:
    """Pipeline p has three increments; b, forked after the first, counts no bots."""
    warehouse = Warehouse(str(folder / "w"))
    run(warehouse, counts(), [LandedRecord(0, b"ann", b"home", 1), LandedRecord(0, b"bob", b"home", 2)])
    run(warehouse, counts(), [LandedRecord(0, b"ann", b"bot", 3), LandedRecord(0, b"eve", b"bot", 4)])
    run(warehouse, counts(), [LandedRecord(0, b"bob", b"home", 5), LandedRecord(0, b"ann", b"home", 6)])
    fork(warehouse, "p", 1, "b", topology=counts(without_bots=True))
    again(warehouse, counts(without_bots=True), pipeline="b")


@pytest.fixture
def branched(tmp_path: Path) -> Warehouse:
    return Warehouse(shutil.copytree(once_a_run("published", _begun) / "w", tmp_path / "w"))


WITH_BOTS = {b"ann": long(3), b"bob": long(2), b"eve": long(1)}
"""ann came at 1, 3 and 6, bob at 2 and 5, eve at 4."""


@pytest.mark.every_run
def test_a_promote_of_what_was_published_is_refused_or_corrected_by_key(broker, topic, branched):
    broker.create_topic(topic)
    published(broker, branched, counts(), topic)
    promote(branched, "b")
    before = seen(broker, topic)
    assert table_of(before) == {(0, key): value for key, value in WITH_BOTS.items()}

    with pytest.raises(PublishError, match="4 rows that were taken back since by a restatement"):
        published(broker, branched, counts(without_bots=True), topic)
    assert seen(broker, topic) == before
    report = published(broker, branched, counts(without_bots=True), topic, on_restated="corrections")

    assert seen(broker, topic)[len(before) :] == [Seen(0, b"eve", None, 4), Seen(0, b"ann", long(2), 6)]
    assert (report.corrections, report.tombstones, report.rows) == (1, 1, 0)
    assert published(broker, branched, counts(without_bots=True), topic).is_nothing_new


def test_keys_that_are_gone_stay_where_no_tombstones_are_asked_for(broker, topic, branched):
    broker.create_topic(topic)
    published(broker, branched, counts(), topic)
    promote(branched, "b")

    report = published(
        broker, branched, counts(without_bots=True), topic, on_restated="corrections", tombstones="leave",
    )  # fmt: skip

    assert (report.corrections, report.tombstones) == (1, 0)
    assert table_of(seen(broker, topic))[0, b"eve"] == long(1)


def test_a_restore_and_the_same_rows_again_need_no_correction(broker, topic, branched):
    broker.create_topic(topic)
    published(broker, branched, counts(), topic)
    before = seen(broker, topic)
    restore(branched, "p", 1)
    again(branched, counts())

    report = published(broker, branched, counts(), topic, on_restated="corrections")

    assert (report.corrections, report.tombstones, report.rows) == (0, 0, 0)
    assert seen(broker, topic) == before


def test_rows_that_were_taken_back_before_they_were_published_are_no_restatement(broker, topic, branched):
    promote(branched, "b")
    broker.create_topic(topic)

    published(broker, branched, counts(without_bots=True), topic)

    assert table_of(seen(broker, topic)) == {(0, b"ann"): long(2), (0, b"bob"): long(2)}


class Killed(BaseException):
    """The publisher died here."""


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6])
def test_an_increment_that_was_published_in_part_is_corrected_as_far_as_it_was(broker, topic, branched, rows):
    """Killed after so many rows of six, each in a transaction; then the branch takes the place of the rest."""
    broker.create_topic(topic)
    calls: list[str] = []

    def kill(call: str) -> None:
        calls.append(call)
        if calls.count("commit transaction") > 1 + rows:  # the first one begins the position
            raise Killed

    try:
        published(broker, branched, counts(), topic, on_call=kill, rows_per_transaction=1)
    except Killed:
        assert rows < 6
    promote(branched, "b")

    published(broker, branched, counts(without_bots=True), topic, on_restated="corrections")

    assert table_of(seen(broker, topic)) == {(0, b"ann"): long(2), (0, b"bob"): long(2)}
    assert len(seen(broker, topic)[:rows]) == rows


@pytest.mark.parametrize(("commits", "corrected"), [(1, 2), (2, 1)])
def test_corrections_of_a_publisher_that_died_are_finished_by_the_next_one(broker, topic, branched, commits, corrected):
    """They are a tombstone for eve and the present count of ann; the next publisher was asked to refuse."""
    broker.create_topic(topic)
    published(broker, branched, counts(), topic)
    before = seen(broker, topic)
    promote(branched, "b")
    calls: list[str] = []

    def kill(call: str) -> None:
        calls.append(call)
        if calls.count("commit transaction") >= commits:
            raise Killed

    with pytest.raises(Killed):
        published(
            broker, branched, counts(), topic, on_call=kill, on_restated="corrections", rows_per_transaction=1,
        )  # fmt: skip
    if corrected == 2:  # nothing of them is committed
        with pytest.raises(PublishError, match="taken back since by a restatement"):
            published(broker, branched, counts(), topic)
    report = published(broker, branched, counts(), topic, on_restated="corrections" if corrected == 2 else "refuse")

    assert seen(broker, topic)[len(before) :] == [Seen(0, b"eve", None, 4), Seen(0, b"ann", long(2), 6)]
    assert report.corrections + report.tombstones == corrected


def test_rows_without_a_key_cannot_be_corrected(broker, topic, warehouse):
    run(warehouse, forwarded(), [LandedRecord(0, b"a", b"1", 1)])
    run(warehouse, forwarded(), [LandedRecord(0, None, b"2", 2)])
    broker.create_topic(topic)
    published(broker, warehouse, forwarded(), topic)
    restore(warehouse, "p", 1)

    with pytest.raises(PublishError, match="expected a key in every row, got one without, at partition 0, offset 1"):
        published(broker, warehouse, forwarded(), topic, on_restated="corrections")


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.fixture
def one_row(warehouse) -> Warehouse:
    run(warehouse, forwarded(), [LandedRecord(0, b"a", b"1", 1)])
    return warehouse


def test_there_must_be_a_topic(broker, topic, one_row):
    with pytest.raises(PublishError, match=r"expected a topic .*, got no such topic; create it"):
        published(broker, one_row, forwarded(), topic)


@pytest.mark.nightly
def test_a_schema_is_registered_with_the_first_rows(broker, topic, warehouse, monkeypatch):
    """Not where the publication is refused: a schema stays in a registry."""
    registry = SchemaRegistryClient.new_client({"url": "mock://"})
    monkeypatch.setattr("confluent_kafka.schema_registry.SchemaRegistryClient", lambda settings: registry)
    order = {"type": "record", "name": "Order", "fields": [{"name": "cents", "type": "long"}]}
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.confluent_avro(order, write_id=7))).to("out")
    topology = builder.build()
    run(warehouse, topology, [LandedRecord(0, b"a", b"\0\0\0\0\x07\xf4\x03", 1)])
    target = KafkaTarget(broker.bootstrap_servers, topic, registry="http://localhost:1", register_schemas=True)

    with pytest.raises(PublishError, match="no such topic"):
        publish(warehouse, topology, "out", pipeline="p", to=target)
    assert registry.get_subjects() == []
    broker.create_topic(topic)
    publish(warehouse, topology, "out", pipeline="p", to=target)

    (version,) = registry.get_versions(f"{topic}-value")
    schema_id = registry.get_version(f"{topic}-value", version).schema_id
    (record,) = seen(broker, topic)
    assert record.value == b"\0" + schema_id.to_bytes(4, "big") + b"\xf4\x03"


def test_a_topic_that_has_held_records_of_others_is_begun_only_where_its_readers_are_known(broker, topic, one_row):
    run(one_row, forwarded(), [LandedRecord(0, b"a", b"2", 2)])
    broker.create_topic(topic)
    producer = broker.producer()
    producer.produce(topic, b"1", b"a", 0, timestamp=1)
    producer.flush(30)

    with pytest.raises(PublishError, match=r"say up to which increment readers have all \(--after N"):
        published(broker, one_row, forwarded(), topic)
    published(broker, one_row, forwarded(), topic, after=1)

    assert [record.value for record in seen(broker, topic)] == [b"1", b"2"]
    with pytest.raises(ConfigError, match="leave it out: publishing continues there"):
        published(broker, one_row, forwarded(), topic, after=1)


def test_a_topic_that_was_made_again_does_not_continue(broker, topic, one_row):
    broker.create_topic(topic)
    published(broker, one_row, forwarded(), topic)
    removed(broker, topic)
    broker.create_topic(topic)

    published(broker, one_row, forwarded(), topic)

    assert [record.value for record in seen(broker, topic)] == [b"1"]


def test_partitions_that_were_added_are_refused(broker, topic, one_row):
    broker.create_topic(topic)
    published(broker, one_row, forwarded(), topic)
    broker.add_partitions(topic, 2)

    with pytest.raises(PublishError, match="expected 1 partitions, as when publishing began, got 2"):
        published(broker, one_row, forwarded(), topic)


def test_a_topic_has_the_rows_of_one_output(broker, topic, one_row, tmp_path):
    other = Warehouse(str(tmp_path / "other"))
    run(other, forwarded(), [LandedRecord(0, b"a", b"1", 1)])
    broker.create_topic(topic)
    published(broker, one_row, forwarded(), topic)

    with pytest.raises(PublishError, match="got output 'out' of pipeline 'p' of another warehouse or ledger"):
        published(broker, other, forwarded(), topic)


@pytest.mark.parametrize("settings", [{"cleanup_policy": "delete"}, {"cleanup_policy": "compact,delete"}])
def test_positions_stand_in_a_topic_that_keeps_them(broker, topic, one_row, settings):
    broker.create_topic(topic)
    broker.create_topic(f"{topic}-replay-position", **settings)

    with pytest.raises(PublishError, match=r"expected 1 partition and cleanup\.policy=compact"):
        published(broker, one_row, forwarded(), topic)


def test_a_time_that_the_client_cannot_send_is_refused(broker, topic, warehouse):
    run(warehouse, forwarded(), [LandedRecord(0, b"a", b"1", 0)])
    broker.create_topic(topic)

    with pytest.raises(PublishError, match="expected record times from 1 ms on, since the client cannot send others"):
        published(broker, warehouse, forwarded(), topic)

    assert seen(broker, topic, "read_uncommitted") == []


def test_another_topology_than_that_of_the_rows_is_refused(broker, topic, one_row):
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.long())).to("out")
    broker.create_topic(topic)

    with pytest.raises(ConfigError, match="expected the topology with which the rows were made, got another type of"):
        published(broker, one_row, builder.build(), topic)


def test_settings_on_which_exactly_once_depends_are_not_for_users():
    with pytest.raises(ConfigError, match=r"got acks, transactional\.id; leave them out"):
        KafkaTarget("localhost:1", "t", {"transactional.id": "mine", "acks": "1"})


def test_a_setting_that_the_client_does_not_know_is_refused(one_row):
    to = KafkaTarget("127.0.0.1:1", "t", {"no.such.setting": "1"})

    with pytest.raises(ConfigError, match=r'client knows, got No such configuration property: "no\.such\.setting"'):
        published(None, one_row, forwarded(), "t", to=to)


def test_a_broker_that_does_not_answer_is_named(warehouse, one_row, monkeypatch):
    monkeypatch.setattr("kstreams_replay.jobs.publish.kafka_client.PATIENCE_S", 1.0)

    with pytest.raises(PublishError, match=r"Kafka at 127\.0\.0\.1:1, topic t, describe topic: expected an answer"):
        published(None, one_row, forwarded(), "t", to=KafkaTarget("127.0.0.1:1", "t"))


# --- the command -----------------------------------------------------------------------------------------------------

TOPOLOGY = """
from kstreams_replay import Consumed, Serde, StreamsBuilder

builder = StreamsBuilder()
builder.stream("in", Consumed(Serde.string(), Serde.string())).to("out")
topology = builder.build()
"""


def test_the_command_publishes_and_says_what(broker, topic, one_row, tmp_path, capsys):
    (tmp_path / "topology.py").write_text(TOPOLOGY)
    broker.create_topic(topic, retention_ms="3600000")
    command = [
        "publish", "out", "--topology", f"{tmp_path}/topology.py:topology", "--warehouse", one_row.root,
        "--pipeline", "p", "--kafka", broker.bootstrap_servers, "--topic", topic, "--position-topic", f"{topic}-at",
    ]  # fmt: skip

    assert main([*command, "--dry-run"]) == 0
    assert "1 row of 1 increment would be published, in 1 transaction, up to increment 1" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["rows"] == 1
    assert "retention.ms=3600000: the broker deletes rows with times 1 hours ago" in said.err
    assert main(command) == 0
    assert "nothing new, it has out up to increment 1" in capsys.readouterr().out
    assert len(seen(broker, f"{topic}-at")) == 2
