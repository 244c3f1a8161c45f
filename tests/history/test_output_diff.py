"""Two outputs side by side: what differs, by key and window."""

import struct

import polars as pl
import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.folds.fold import Fold
from kstreams_replay.jobs.history.output_diff import diff_output, outputs_of
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, TimeWindows, Topology, fold
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant


def totals(least: int = 0, *, mean: bool = False, all_of: Fold | None = None) -> Topology:
    """Sums a window, of values from ``least`` on."""
    builder = StreamsBuilder()
    values = builder.stream("in", Consumed(Serde.string(), Serde.json("n long"))).filter(f"n >= {least}")
    windows = values.group_by_key().windowed_by(TimeWindows.of_size(10))
    more = {"mean": fold.mean("n")} if mean else {} if all_of is None else {"all": all_of}
    windows.aggregate(total=fold.sum("n"), **more).to("totals")
    return builder.build()


def record(key: bytes, time_ms: int, n: int) -> LandedRecord:
    return LandedRecord(0, key, b'{"n": %d}' % n, time_ms)


@pytest.fixture
def compared(warehouse) -> Warehouse:
    """
    a sums everything; b what is 5 or more, so window [10, 20) of x is another, and y has only one window.
    """
    records = [record(b"x", 1, 7), record(b"x", 11, 5), record(b"x", 12, 2), record(b"y", 13, 1), record(b"y", 21, 9)]
    plant(warehouse, "in", records, partitions=1)
    for pipeline, topology in (("a", totals()), ("b", totals(5)), ("c", totals(5, mean=True))):
        list(replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner()))
    return warehouse


def test_a_key_that_is_negative_zero_is_another_one_than_zero(warehouse):
    def counts(least: float) -> Topology:
        builder = StreamsBuilder()
        values = builder.stream("in", Consumed(Serde.double(), Serde.json("n long"))).filter(f"n >= {least}")
        values.group_by_key().count().to("totals")
        return builder.build()

    keys = [struct.pack(">d", key) for key in (0.0, -0.0, 0.0, -0.0, 0.0)]
    plant(warehouse, "in", [record(key, at, at) for at, key in enumerate(keys)], partitions=1)
    for pipeline, least in (("a", 0), ("b", 4)):
        list(replay(warehouse, counts(least), pipeline=pipeline, runner=LocalRunner(), max_records=1))

    diff = diff_output(warehouse, "a", "b", "totals")

    shown = diff.rows.select("difference", pl.col("key").cast(pl.String), "A.value", "B.value")
    assert shown.sort("key").rows() == [("only in A", "-0.0", 2, None), ("differs", "0.0", 3, 1)]


def test_rows_that_differ_stand_by_key_and_window_with_both_sides(compared):
    diff = diff_output(compared, "a", "b", "totals")

    assert diff.rows.to_dicts() == [
        {
            "difference": "differs", "key": "x", "window_start_ms": 10, "window_end_ms": 20,
            "A.total": 7, "B.total": 5, "A.record_time_ms": 12, "B.record_time_ms": 11,
        },
        {
            "difference": "only in A", "key": "y", "window_start_ms": 10, "window_end_ms": 20,
            "A.total": 1, "B.total": None, "A.record_time_ms": 13, "B.record_time_ms": None,
        },
    ]  # fmt: skip
    assert (diff.equal, diff.records, diff.is_empty) == (2, (5, 3), False)


def test_the_other_way_round_the_sides_change_places(compared):
    assert diff_output(compared, "b", "a", "totals").rows["difference"].to_list() == ["differs", "only in B"]


def test_a_pipeline_does_not_differ_from_itself_and_does_from_what_it_was(compared):
    assert diff_output(compared, "a", "a", "totals").is_empty
    plant(compared, "in", [record(b"z", 30, 6)], partitions=1)
    list(replay(compared, totals(), pipeline="a", runner=LocalRunner()))

    diff = diff_output(compared, "a", "a", "totals", increment_a=1)
    assert diff.rows.select("difference", "key").rows() == [("only in B", "z")]


def test_a_field_that_only_one_side_has_differs_everywhere(compared):
    diff = diff_output(compared, "b", "c", "totals")

    assert diff.rows.select("A.mean", "B.mean").rows() == [(None, 7.0), (None, 5.0), (None, 9.0)]
    assert diff.rows.schema["B.mean"] == pl.Float64


def test_outputs_are_those_of_the_ledger_and_others_are_refused(compared):
    assert outputs_of(compared, "a") == ["totals"]
    with pytest.raises(ConfigError, match=r"expected one of .*outputs/totals.*, got 'outputs/none'"):
        diff_output(compared, "a", "b", "none")


def test_lists_are_compared_whatever_stands_on_the_other_side(compared):
    """
    `replay diff` ended with "this is a bug" where only one side had the list.
    """
    topologies = {"lists": totals(all_of=fold.collect("n")), "long": totals(all_of=fold.last("n"))}
    for pipeline, topology in (topologies | {"fewer": totals(5, all_of=fold.collect("n"))}).items():
        list(replay(compared, topology, pipeline=pipeline, runner=LocalRunner()))

    assert diff_output(compared, "lists", "lists", "totals").is_empty
    got = diff_output(compared, "lists", "fewer", "totals").rows.select("key", "A.all", "B.all").rows()
    assert got == [("x", [5, 2], [5]), ("y", [1], None)]
    for other in ("long", "a"):
        for sides in (("lists", other), (other, "lists")):
            assert len(diff_output(compared, *sides, "totals").rows) == 4  # every key and window
