"""A topic that files begin and Kafka continues, and the other way. The broker is made up."""

import json
from collections.abc import Mapping

import pyarrow as pa
import pytest

from kstreams_replay.jobs.landing import from_kafka
from kstreams_replay.jobs.landing.kafka_files import WrittenRanges
from kstreams_replay.jobs.landing.kafka_offsets import TopicState
from kstreams_replay.jobs.landing.landing import KafkaSource, LandingReport, LandingRules, land_kafka, land_records
from kstreams_replay.state.errors import LandingError, RetentionGap
from kstreams_replay.state.tables.parquet_writer import write_task_file
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA
from tests.landing.file_folders import NOON, dies, land, write
from tests.landing.landed_records import records
from tests.landing.landed_rows import landed

OFFSETS = {"partition": "p", "offset": "o", "partitions": 2, "value": "v"}
PLACE = ("partition", "offset", "value")


class Broker:
    """A topic: value by partition and offset."""

    def __init__(self, earliest: Mapping[int, int], stable: Mapping[int, int]) -> None:
        self.state = TopicState("id-1", earliest, stable)

    def read(self, lander, ranges, row):
        """In the place of the client's read: a record at each offset of the ranges."""
        path = lander.warehouse.landed(lander.topic)
        files = []
        for p, (begin, end) in ranges.items():
            rows = [
                {"partition": p, "offset": o, "timestamp": NOON, "timestamp_type": "CreateTime", "key": None,
                 "value": f"k{p}:{o}".encode(), "headers": [], "increment": row.increment}
                for o in range(begin, end)
            ]  # fmt: skip
            table = pa.Table.from_pylist(rows, LANDED_SCHEMA)
            files.append(write_task_file(path, table, partition=p, name=f"{row.increment:08d}-{p:05d}"))
        return WrittenRanges(files, ())


@pytest.fixture
def broker(monkeypatch) -> Broker:
    """Partition 0 has offsets 3 to 7, partition 1 has 0 to 3."""
    broker = Broker({0: 3, 1: 0}, {0: 8, 1: 4})
    monkeypatch.setattr(from_kafka, "topic_state", lambda *_: broker.state)
    monkeypatch.setattr(from_kafka.KafkaLander, "_read_ranges", lambda *given: broker.read(*given))
    return broker


def from_broker(warehouse, **rules) -> LandingReport:
    source = KafkaSource("broker:9092", on_gap=rules.pop("on_gap", "refuse"))
    return land_kafka(None, warehouse, "t", source, rules=LandingRules(**rules), clock_ms=lambda: NOON)


def lines(*rows: tuple[int, int, str]) -> str:
    return "".join(json.dumps({"t": NOON, "p": p, "o": o, "v": v}) + "\n" for p, o, v in rows)


def test_kafka_continues_where_files_end_and_files_where_kafka_ends(warehouse, tmp_path, broker):
    directory = write(tmp_path / "in", {"history.json": lines((0, 5, "f5"), (0, 4, "f4"), (1, 1, "f1"))})
    land(warehouse, directory, **OFFSETS)

    report = from_broker(warehouse)

    assert (report.cut_from, report.cut_to, report.gaps) == ({0: 6, 1: 2}, {0: 8, 1: 4}, {})
    write(directory, {"later.json": lines((0, 7, "k0:7"), (0, 9, "f9"), (1, 4, "f4"))})

    report = land(warehouse, directory, **OFFSETS)

    assert landed(warehouse, "t", *PLACE) == [
        (0, 4, b"f4"), (0, 5, b"f5"), (0, 6, b"k0:6"), (0, 7, b"k0:7"), (0, 9, b"f9"),
        (1, 1, b"f1"), (1, 2, b"k1:2"), (1, 3, b"k1:3"), (1, 4, b"f4"),
    ]  # fmt: skip
    assert (report.increments, report.records, report.gaps) == ((3,), 2, {0: (8, 9)})
    assert report.warnings == ("t: 1 row has the offset and the bytes of a record that has landed before",)
    assert from_broker_again(warehouse, broker).cut_to == {0: 12, 1: 5}


def from_broker_again(warehouse, broker) -> LandingReport:
    """The broker has gone on to offset 12 of partition 0."""
    broker.state = TopicState("id-1", {0: 3, 1: 0}, {0: 12, 1: 5})
    return from_broker(warehouse)


def test_offsets_that_are_in_no_file_and_gone_from_the_broker_are_a_gap(warehouse, tmp_path, broker):
    land(warehouse, write(tmp_path / "in", {"a.json": lines((0, 1, "a"), (1, 0, "b"))}), **OFFSETS)

    with pytest.raises(RetentionGap, match=r"\[2, 3\) of partition 0"):
        from_broker(warehouse)

    assert from_broker(warehouse, on_gap="skip").gaps == {0: (2, 3)}


def test_files_that_are_ahead_of_the_broker_are_refused(warehouse, tmp_path, broker):
    land(warehouse, write(tmp_path / "in", {"a.json": lines((0, 20, "a"))}), **OFFSETS)

    with pytest.raises(LandingError, match="partition 0: expected offsets up to 21, which are landed"):
        from_broker(warehouse)


def test_a_broker_with_fewer_partitions_is_refused(warehouse, tmp_path, broker):
    land(warehouse, write(tmp_path / "in", {"a.json": lines((2, 3, "a"))}), **{**OFFSETS, "partitions": 3})

    with pytest.raises(LandingError, match="expected 3 partitions, as landed before, got t without partition 2"):
        from_broker(warehouse)


def test_a_topic_created_again_is_known_after_files_came_between(warehouse, tmp_path, broker):
    from_broker(warehouse)
    land(warehouse, write(tmp_path / "in", {"a.json": lines((0, 8, "a"))}), **OFFSETS)
    broker.state = TopicState("id-2", {0: 0, 1: 0}, {0: 20, 1: 20})

    with pytest.raises(LandingError, match="expected the topic of id id-1"):
        from_broker(warehouse)


def test_another_mapping_is_known_after_kafka_came_between(warehouse, tmp_path, broker):
    directory = write(tmp_path / "in", {"a.json": lines((0, 5, "a"), (1, 0, "b"))})
    land(warehouse, directory, **OFFSETS)
    from_broker(warehouse)

    with pytest.raises(LandingError, match="expected the mapping of its last landing, value 'v', got value None"):
        land(warehouse, directory, **{**OFFSETS, "value": None})


@pytest.mark.parametrize(
    "mapping", [{"value": "v", "partitions": 2}, {"value": "v", "partitions": 2, "path_pattern": "confluent"}]
)
def test_files_without_a_column_of_offsets_and_kafka_do_not_mix(warehouse, tmp_path, broker, mapping):
    directory = write(tmp_path / "in", {"t+0+3.json": lines((0, 0, "a"))})
    land(warehouse, directory, **mapping)

    with pytest.raises(LandingError) as error:
        from_broker(warehouse)

    has = "with offsets of paths" if "path_pattern" in mapping else "without known offsets"
    assert error.value.expected == f"a source of the kind files {has}, which gave it its offsets"
    assert "--offset" in error.value.next_step


def test_a_topic_without_offsets_gets_none_later(warehouse, tmp_path):
    directory = write(tmp_path / "in", {"a.json": lines((0, 0, "a"))})
    land(warehouse, directory, value="v", partition="p", partitions=2)
    write(directory, {"b.json": lines((0, 9, "b"))})

    with pytest.raises(LandingError, match="expected a source of the kind files without known offsets"):
        land(warehouse, directory, rules={"new_mapping": True}, **OFFSETS)


def test_records_of_python_and_files_do_not_mix(warehouse, tmp_path):
    land_records(warehouse, "t", records((0, 1, None, b"a")), partitions=2, clock_ms=lambda: NOON)

    with pytest.raises(LandingError, match="expected a source of the kind records"):
        land(warehouse, write(tmp_path / "in", {"a.json": lines((0, 9, "b"))}), **OFFSETS)


def test_an_unfinished_landing_is_finished_by_the_source_that_planned_it(warehouse, tmp_path, monkeypatch, broker):
    directory = write(tmp_path / "in", {"a.json": lines((0, 5, "a"), (1, 0, "b"))})
    with dies(monkeypatch, in_="before_the_commit"):
        land(warehouse, directory, **OFFSETS)

    with pytest.raises(LandingError, match=r"unfinished: expected the source of the kind files, which planned it"):
        from_broker(warehouse)
    land(warehouse, directory, **OFFSETS)

    assert from_broker(warehouse).cut_to == {0: 8, 1: 4}
