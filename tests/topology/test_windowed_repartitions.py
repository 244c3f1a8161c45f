"""Streams of windowed keys through a repartition table: where the records are, and that they keep their windows."""

import pytest

from kstreams_replay import (
    Consumed,
    LocalRunner,
    Serde,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
    Windowed,
    replay,
)
from kstreams_replay.expectations.verdicts import check_increment
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

TEXT = Serde.string()
WINDOWS = {"time": TimeWindows.of_size(10), "session": SessionWindows.with_inactivity_gap(5)}
TAPE = [(b"a", 1), (b"b", 2), (b"a", 4), (b"a", 15), (b"b", 12)]
"""Keys and times."""


def repartitioned(kind, **options):
    """The newest value of every window, repartitioned, with what a step and a function see of the key."""
    builder = StreamsBuilder()
    newest = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key().windowed_by(WINDOWS[kind])
    stream = newest.reduce(lambda one, other: other).to_stream().repartition(name="r", partitions=3, **options)
    seen = stream.map_values(said="record_key || window_start_ms || '-' || window_end_ms", value="value")
    seen.to("steps")
    stream.map_values(lambda key, value: f"{key.key}{key.window_start_ms}", returns=TEXT).to("functions")
    return builder.build()


def replayed(path, topology, max_records=None):
    warehouse = Warehouse(path)
    plant(warehouse, "in", [LandedRecord(0, key, b"%d" % time, time) for key, time in TAPE], partitions=1)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed", max_records=max_records))
    verdicts = check_increment(warehouse, "p", replay_facts(topology), engine="plain")
    assert [verdict for verdict in verdicts if verdict.answer == "false"] == []
    return warehouse


def rows(warehouse):
    """Partition, offset, key and its window, and what a step made of them, None of a tombstone."""
    found = read_table(warehouse, "p", "outputs/steps").to_pylist()
    columns = ("partition", "offset", "key", "window_start_ms", "window_end_ms")
    return sorted((*(row[name] for name in columns), row["value"] and tuple(row["value"].values())) for row in found)


@pytest.mark.parametrize("max_records", [None, 1])
def test_time_windows_go_by_their_key_and_start_and_come_out_as_they_went_in(tmp_path, max_records):
    warehouse = replayed(tmp_path, repartitioned("time"), max_records)

    # Kafka's RecordCollectorImpl sends (a, 0) to 2 and the others to 1
    assert rows(warehouse) == [
        (1, 0, "b", 0, 10, ("b0-10", "2")),
        (1, 1, "a", 10, 20, ("a10-20", "15")),
        (1, 2, "b", 10, 20, ("b10-20", "12")),
        (2, 0, "a", 0, 10, ("a0-10", "1")),
        (2, 1, "a", 0, 10, ("a0-10", "4")),
    ]
    said = read_table(warehouse, "p", "outputs/functions")["value"].to_pylist()
    assert sorted(said) == ["a0", "a0", "a10", "b0", "b10"]


@pytest.mark.parametrize("max_records", [None, 1])
def test_tombstones_of_sessions_keep_their_window(tmp_path, max_records):
    warehouse = replayed(tmp_path, repartitioned("session"), max_records)

    # Kafka's RecordCollectorImpl sends (a, 1, 1) to 0, (b, 12, 12) to 2 and the others to 1
    assert rows(warehouse) == [
        (0, 0, "a", 1, 1, ("a1-1", "1")),
        (0, 1, "a", 1, 1, None),
        (1, 0, "b", 2, 2, ("b2-2", "2")),
        (1, 1, "a", 1, 4, ("a1-4", "4")),
        (1, 2, "a", 15, 15, ("a15-15", "15")),
        (2, 0, "b", 12, 12, ("b12-12", "12")),
    ]


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_partitioner_gets_the_windowed_key(tmp_path, kind):
    def by_window(topic, key, value, partitions):
        assert isinstance(key, Windowed)
        return key.window_start_ms // 10

    warehouse = replayed(tmp_path, repartitioned(kind, partitioner=by_window))

    assert {(partition, start // 10) for partition, _, _, start, *_ in rows(warehouse)} == {(0, 0), (1, 1)}


def test_kafka_sees_one_repartition_topic():
    assert "r-repartition" in repartitioned("time").describe()
    assert ":" not in repartitioned("time").describe().replace(": ", "").replace(":\n", "")


def test_the_test_driver_repartitions_windowed_keys():
    driver = TopologyTestDriver(repartitioned("time"))
    driver.pipe_key_values("in", [("a", "x")])

    assert [one.value for one in driver.read_outputs("steps")] == [{"said": "a0-10", "value": "x"}]
