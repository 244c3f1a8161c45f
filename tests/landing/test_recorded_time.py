"""Recorded time in landed topics: where it is, what partitions and repartitions make of it, the idle rule, the end
of history. Expected results are worked out by hand.
"""

import pyarrow as pa
import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.landing.exclusions import book_exclusion
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.landing.recorded_time import record_idle, record_time, recorded_times
from kstreams_replay.jobs.replay.increment_report import IncrementReport
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Suppressed, TimeWindows, Topology
from kstreams_replay.state.errors import ConfigError, LedgerError
from kstreams_replay.state.tables.warehouse import Warehouse
from kstreams_replay.state.times import END_OF_TIME_MS, LATEST_MS
from tests.planted import LandedRecord, plant

TEXT = Serde.string()


def counts(*, regroups: bool = False) -> Topology:
    """Final counts of windows of 10 ms, grace 5; ``regroups``: by the value, through a repartition table."""
    builder = StreamsBuilder()
    stream = builder.stream("clicks", Consumed(TEXT, TEXT))
    grouped = stream.group_by("value", name="by-value") if regroups else stream.group_by_key()
    windowed = grouped.windowed_by(TimeWindows.of_size(10, grace=5)).count()
    windowed.suppress(Suppressed.until_window_closes(name="final")).to("counts")
    return builder.build()


class Clicks:
    """A topic of two partitions and pipelines over it."""

    def __init__(self, folder, topology: Topology | None = None) -> None:
        self.warehouse, self.topology = Warehouse(folder), topology or counts()

    def land(self, *records: tuple[int, str, int], partitions: int = 2) -> None:
        """(partition, key and value, time)."""
        rows = [LandedRecord(p, key.encode(), key.encode(), time_ms) for p, key, time_ms in records]
        plant(self.warehouse, "clicks", rows, partitions=partitions)

    def run(self, pipeline: str = "p", *, idle: str = "proceed", **options) -> list[IncrementReport]:
        options = {"runner": LocalRunner(), "pipeline": pipeline, "idle": idle} | options
        return list(replay(self.warehouse, self.topology, **options))

    def counts(self, pipeline: str = "p") -> list[tuple]:
        """(key, window start, count, stream time, offset of the cause), by key and window."""
        names = ("key", "window_start_ms", "value", "stream_time_ms", "cause_offset")
        rows = read_table(self.warehouse, pipeline, "outputs/counts").to_pylist()
        return sorted(tuple(row[name] for name in names) for row in rows)


# --- partitions --------------------------------------------------------------------------------------------------


def test_a_recorded_time_closes_the_windows_of_its_partition_alone(tmp_path):
    clicks = Clicks(tmp_path)
    clicks.land((0, "a", 3), (1, "b", 4))
    clicks.run()

    assert record_time(clicks.warehouse, "clicks", 15, partition=0) == {0: 15}
    (report,) = clicks.run()

    assert clicks.counts() == [("a", 0, 1, 15, -1)]
    assert (report.books.read, report.done.moments) == (0, 1)


@pytest.mark.slow
def test_it_stands_before_what_was_landed_later_for_every_pipeline(tmp_path):
    clicks = Clicks(tmp_path)
    clicks.land((0, "a", 3))
    record_time(clicks.warehouse, "clicks", 15)
    clicks.land((0, "a", 7), (0, "a", 30))

    clicks.run("first")
    clicks.run("second", max_records=1)

    assert clicks.counts("first") == [("a", 0, 1, 15, -1)]  # 7 was late
    assert clicks.counts("second") == clicks.counts("first")
    (late,) = read_table(clicks.warehouse, "first", "dropped").to_pylist()
    assert (late["offset"], late["stream_time_ms"], late["limit_ms"]) == (1, 15, 10)


def test_nothing_is_recorded_that_is_recorded_already(tmp_path):
    clicks = Clicks(tmp_path)
    clicks.land((0, "a", 3))

    assert record_time(clicks.warehouse, "clicks", 15, partition=1) == {1: 15}
    assert record_time(clicks.warehouse, "clicks", 15) == {0: 15}
    assert record_time(clicks.warehouse, "clicks", 14) == {}
    assert record_time(clicks.warehouse, "clicks", 20) == {0: 20, 1: 20}
    found = recorded_times(clicks.warehouse, "clicks", increment=99)
    assert {p: [(each.before_offset, each.time_ms) for each in times] for p, times in found.items()} == {
        "0": [(1, 15), (1, 20)],
        "1": [(0, 15), (0, 20)],
    }


def test_a_topic_goes_on_being_landed_as_before(tmp_path):
    warehouse = Warehouse(tmp_path)
    columns = {"partition": pa.array([0], pa.int32()), "timestamp": pa.array([3]), "key": [b"a"], "value": [b"a"]}
    land_records(warehouse, "clicks", pa.table(columns))
    record_time(warehouse, "clicks", 9)

    report = land_records(warehouse, "clicks", pa.table(columns))

    assert (report.increments, report.cut_from, report.cut_to) == ((3,), {0: 1}, {0: 2})


@pytest.mark.parametrize(
    ("topic", "time_ms", "partition", "message"),
    [
        ("nowhere", 5, None, "topic 'nowhere': expected a landed topic"),
        ("clicks", -1, None, "expected a time of 0 ms or more, got -1"),
        ("clicks", 5, 2, "expected a partition below 2, got 2"),
    ],
)
def test_a_time_that_cannot_be_recorded_is_refused(tmp_path, topic, time_ms, partition, message):
    clicks = Clicks(tmp_path)
    clicks.land((0, "a", 3))

    with pytest.raises(ConfigError) as refused:
        record_time(clicks.warehouse, topic, time_ms, partition=partition)

    assert message in str(refused.value)


# --- through repartitions ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_below_a_repartition_time_moves_when_all_partitions_above_were_told(tmp_path):
    clicks = Clicks(tmp_path, counts(regroups=True))
    clicks.land((0, "a", 3), (1, "b", 4), (0, "c", 12))
    clicks.run()

    record_time(clicks.warehouse, "clicks", 100, partition=0)
    clicks.run()
    assert clicks.counts() == []

    clicks.land((1, "b", 5))
    record_time(clicks.warehouse, "clicks", 15, partition=1)
    clicks.run()
    assert clicks.counts() == [("a", 0, 1, 15, -1), ("b", 0, 2, 15, -1)]

    record_time(clicks.warehouse, "clicks", 200, partition=1)
    clicks.run()
    assert clicks.counts() == [("a", 0, 1, 15, -1), ("b", 0, 2, 15, -1), ("c", 10, 1, 100, -1)]


# --- waiting -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_recorded_time_of_a_quiet_partition_lets_the_others_go_on(tmp_path):
    clicks = Clicks(tmp_path, counts(regroups=True))
    clicks.land((0, "a", 3), (0, "a", 40), (0, "a", 50), (1, "a", 5))
    (report,) = clicks.run(idle="wait")
    assert (report.books.read, report.waiting) == (1, 3)  # what is before 5

    record_time(clicks.warehouse, "clicks", 45, partition=1)
    (report,) = clicks.run(idle="wait")
    assert (report.books.read, report.waiting) == (2, 1)  # 5 and 40; 50 is behind the recorded time

    record_time(clicks.warehouse, "clicks", 60)
    (report,) = clicks.run(idle="wait")
    assert (report.books.read, report.waiting) == (1, 0)
    assert clicks.counts() == [("a", 0, 2, 40, 2), ("a", 40, 1, 60, -1)]


# --- idle partitions ---------------------------------------------------------------------------------------------


def test_partitions_that_lag_by_more_than_the_bound_are_idle_and_all_are_recorded_up_to_it(tmp_path):
    clicks = Clicks(tmp_path)
    clicks.land((0, "a", 1_000), (0, "a", 900), (1, "b", 690), partitions=3)

    assert record_idle(clicks.warehouse, "clicks", 1_001) == {}  # before the beginning of time
    assert record_idle(clicks.warehouse, "clicks", 300) == {0: 700, 1: 700, 2: 700}
    assert record_idle(clicks.warehouse, "clicks", 300) == {}


def test_partitions_that_all_have_records_within_the_bound_are_not_idle(tmp_path):
    clicks = Clicks(tmp_path)
    clicks.land((0, "a", 1_000), (1, "b", 700))

    assert record_idle(clicks.warehouse, "clicks", 300) == {}
    assert record_idle(clicks.warehouse, "clicks", 299) == {0: 701, 1: 701}


@pytest.mark.parametrize("excludes", [False, True])
def test_a_record_that_is_later_than_any_time_may_be_moves_no_time_on(tmp_path, excludes):
    clicks = Clicks(tmp_path)
    clicks.land((0, "a", 1_000), (0, "a", LATEST_MS + 1), (0, "a", 1_100), (1, "b", 700), (1, "b", 2**62))
    if excludes:
        book_exclusion(clicks.warehouse, "clicks", [(0, 2)], "a test")

    assert record_idle(clicks.warehouse, "clicks", 500) == {}
    assert record_idle(clicks.warehouse, "clicks", 200) == dict.fromkeys((0, 1), 800 if excludes else 900)


# --- the end of history --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("regroups", [False, True])
def test_a_flush_reads_everything_and_closes_all_windows(tmp_path, regroups):
    clicks = Clicks(tmp_path, counts(regroups=regroups))
    clicks.land((0, "a", 3), (0, "a", 50), (1, "b", 4))

    reports = clicks.run(idle="wait", flush_at_end=True)

    assert [report.books.read for report in reports] == [3, 0]
    stream_time_ms = {window: time_ms for _, window, _, time_ms, _ in clicks.counts()}
    assert [found[:3] for found in clicks.counts()] == [("a", 0, 1), ("a", 50, 1), ("b", 0, 1)]
    assert stream_time_ms[50] == END_OF_TIME_MS
    assert clicks.run(flush_at_end=True) == []


@pytest.mark.slow
def test_a_pipeline_that_was_flushed_takes_no_more_records(tmp_path):
    clicks = Clicks(tmp_path)
    clicks.land((0, "a", 3))
    clicks.run(flush_at_end=True)
    clicks.land((0, "a", 4))

    with pytest.raises(LedgerError) as refused:
        clicks.run()

    assert "no records after its history was flushed" in str(refused.value)
    clicks.run("another", flush_at_end=True)
    assert [found[:3] for found in clicks.counts("another")] == [("a", 0, 2)]
