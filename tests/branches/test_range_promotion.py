"""A backfill that is promoted: the rows of its range are the branch's, and all else is as it was."""

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kstreams_replay.jobs.branches.backfill import backfill
from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import done_row, read_changelog, read_newest
from kstreams_replay.jobs.history.output_changes import read_changes
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.state.errors import ConfigError, LedgerError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.once_a_run import once_a_run
from tests.planted import LandedRecord, plant

HOUR = 3_600_000
MONDAY = 1_767_571_200_000
FROM, TO, END = MONDAY, MONDAY + 6 * HOUR, MONDAY + 12 * HOUR


pytestmark = pytest.mark.sampled


class Killed(Exception):
    """The process died here."""


def hours(*, without_bots: bool = False, is_final: bool = True) -> Topology:
    """Visits of every user and hour."""
    builder = StreamsBuilder()
    visits = builder.stream("visits", Consumed(Serde.string(), Serde.string()))
    visits = visits.filter("value != 'bot'") if without_bots else visits
    windows = TimeWindows.of_size("1h", grace="5m")
    counts = visits.group_by_key().windowed_by(windows).count(Materialized.as_("hours"))
    (counts.suppress(Suppressed.until_window_closes(name="final")) if is_final else counts).to("hourly")
    return builder.build()


def visits(begin_ms: int, end_ms: int) -> list[LandedRecord]:
    """Of ann, every ten minutes; each second one is a bot's."""
    times = range(begin_ms, end_ms, HOUR // 6)
    return [LandedRecord(0, b"ann", (b"home", b"bot")[number % 2], time_ms) for number, time_ms in enumerate(times)]


def run(warehouse: Warehouse, pipeline: str, topology: Topology) -> None:
    list(replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner(), max_records=40, idle="proceed"))


def made(warehouse: Warehouse, topology: Topology, **settings: Any) -> None:
    given: dict[str, Any] = {"pipeline": "p", "name": "b", "from_ms": FROM, "to_ms": TO}
    backfill(warehouse, topology, runner=LocalRunner(), **(given | settings))


def _begun(folder: Path) -> None:
    warehouse = Warehouse(str(folder / "w"))
    plant(warehouse, "visits", visits(MONDAY - 12 * HOUR, END), partitions=1)
    run(warehouse, "p", hours())
    made(warehouse, hours(without_bots=True))


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Pipeline p, which counts bots, from half a day before Monday to its noon; b: six hours of Monday without them."""
    return Warehouse(shutil.copytree(once_a_run("ranges", _begun) / "w", tmp_path / "w"))


def counts(warehouse: Warehouse, pipeline: str = "p") -> dict[int, int]:
    """By hour after Monday began."""
    rows = read_newest(warehouse, pipeline, "hourly").to_pylist()
    return {(row["window_start_ms"] - MONDAY) // HOUR: row["value"] for row in rows}


def offsets(warehouse: Warehouse) -> list[int]:
    return sorted(row["offset"] for row in read_changelog(warehouse, "p", "hourly").to_pylist())


BEFORE = dict.fromkeys(range(-12, 11), 6)
AFTER = BEFORE | dict.fromkeys(range(6), 3)


def test_the_hours_of_the_range_are_the_branchs_and_all_else_is_as_it_was(warehouse):
    assert counts(warehouse) == BEFORE
    last = done_row(warehouse, "p")

    row = promote(warehouse, "b")

    assert counts(warehouse) == AFTER
    assert (row.increment, row.content.kind, row.content.cut_to) == (last.increment + 1, "promote", last.content.cut_to)
    assert promote(warehouse, "b") == row  # once


def test_a_consumer_takes_back_six_hours_and_gets_six(warehouse):
    last = done_row(warehouse, "p").increment
    promote(warehouse, "b")

    found = read_changes(warehouse, "p", "hourly", after=last).to_pylist()

    assert [(row["change"], row["value"]) for row in found] == [("retract", 6)] * 6 + [("insert", 3)] * 6
    assert len(set(offsets(warehouse))) == len(BEFORE)


def test_the_pipeline_goes_on_as_it_would_have(warehouse):
    promote(warehouse, "b")
    plant(warehouse, "visits", visits(END, END + 4 * HOUR), partitions=1)
    run(warehouse, "p", hours())

    assert counts(warehouse) == AFTER | dict.fromkeys(range(11, 15), 6)
    assert len(set(offsets(warehouse))) == len(offsets(warehouse)) == len(BEFORE) + 4


def test_a_promote_that_dies_anywhere_is_finished_by_promoting_again(warehouse, tmp_path):
    steps = list[str]()
    promote(Warehouse(shutil.copytree(warehouse.root, tmp_path / "whole")), "b", on_step=steps.append)
    assert len(steps) > 4

    for number, step in enumerate(steps):
        copy = Warehouse(shutil.copytree(warehouse.root, tmp_path / str(number)))

        def die(at: str, step: str = step) -> None:
            if at == step:
                raise Killed

        with pytest.raises(Killed):
            promote(copy, "b", on_step=die)
        promote(copy, "b")

        assert counts(copy) == AFTER, step
        assert len(set(offsets(copy))) == len(BEFORE), step


def test_going_back_behind_it_is_refused(warehouse):
    last = done_row(warehouse, "p").increment
    promote(warehouse, "b")

    with pytest.raises(
        LedgerError, match=f"go back no further than to increment {last + 1}, which put rows of a range"
    ):
        restore(warehouse, "p", last)
    restore(warehouse, "p", last + 1)
    assert counts(warehouse) == AFTER


# --- forks from before it ------------------------------------------------------------------------------------


def forked(warehouse: Warehouse, increment: int) -> None:
    """The branch f, which counts no bots from an increment of p on."""
    changed = hours(without_bots=True)
    fork(warehouse, "p", increment, "f", topology=changed)
    run(warehouse, "f", changed)


def test_a_fork_of_the_increment_before_it_comes_behind_the_rows_of_the_range(warehouse):
    last = done_row(warehouse, "p").increment
    promote(warehouse, "b")
    plant(warehouse, "visits", visits(END, END + 4 * HOUR), partitions=1)
    forked(warehouse, last)

    promote(warehouse, "f")

    assert counts(warehouse) == AFTER | {11: 6, 12: 3, 13: 3, 14: 3}
    assert len(set(offsets(warehouse))) == len(offsets(warehouse)) == len(BEFORE) + 4
    changes = read_changes(warehouse, "p", "hourly", after=last + 1).to_pylist()
    assert [(row["change"], row["value"]) for row in changes] == [("insert", n) for n in (6, 3, 3, 3)]

    plant(warehouse, "visits", visits(END + 4 * HOUR, END + 6 * HOUR), partitions=1)
    run(warehouse, "p", hours(without_bots=True))
    assert len(set(offsets(warehouse))) == len(offsets(warehouse)) == len(BEFORE) + 6


def test_a_fork_from_before_all_rows_of_the_range_takes_their_place(warehouse):
    """
    Increment 1 has read the visits up to twenty to six on Sunday.
    """
    promote(warehouse, "b")
    forked(warehouse, 1)
    want = counts(warehouse, "f")

    promote(warehouse, "f")

    assert counts(warehouse) == want
    assert [want[hour] for hour in (-12, -8, 0, 10)] == [6, 6, 3, 3]


def test_a_fork_whose_own_rows_the_range_withdrew_is_told_what_gives_them(warehouse):
    """
    Increment 2 has published the first hour of the range, and increments 3 and 4 have read since.
    """
    promote(warehouse, "b")
    forked(warehouse, 2)

    with pytest.raises(LedgerError, match=r"some of them of increments up to 2, got .*increment 2; the branch stays"):
        promote(warehouse, "f")
    assert counts(warehouse) == AFTER

    changed = hours(without_bots=True)
    made(warehouse, changed, name="since", from_ms=FROM - 2 * HOUR, to_ms=END - 2 * HOUR)
    promote(warehouse, "since")
    assert [counts(warehouse)[hour] for hour in (-3, -2, 0, 9, 10)] == [6, 3, 3, 3, 6]


def test_going_back_to_before_all_rows_of_the_range_takes_it_back(warehouse):
    promote(warehouse, "b")

    restore(warehouse, "p", 1)
    run(warehouse, "p", hours())

    assert counts(warehouse) == BEFORE
    assert len(set(offsets(warehouse))) == len(offsets(warehouse))


def test_records_that_landed_since_are_refused_when_they_are_of_the_range(warehouse):
    plant(warehouse, "visits", [LandedRecord(0, b"bob", b"home", END + HOUR)], partitions=1)
    run(warehouse, "p", hours())
    made(warehouse, hours(without_bots=True), name="whole", from_ms=END - 3 * HOUR, to_ms=END - HOUR)
    plant(warehouse, "visits", [LandedRecord(0, b"bob", b"home", END + HOUR + 1)], partitions=1)
    run(warehouse, "p", hours())

    promote(warehouse, "whole")

    assert counts(warehouse)[9] == counts(warehouse)[10] == 3


def test_results_that_wait_are_refused(warehouse):
    made(warehouse, hours(without_bots=True), name="late", from_ms=END - 2 * HOUR, to_ms=END)

    with pytest.raises(LedgerError, match=r"all results of the range, got some that still wait in .*final"):
        promote(warehouse, "late")


def test_a_pipeline_that_has_not_read_the_range_is_refused(warehouse):
    list(replay(warehouse, hours(), pipeline="q", runner=LocalRunner(), max_records=90, increments=1, idle="proceed"))
    made(warehouse, hours(without_bots=True), pipeline="q", name="c")

    with pytest.raises(LedgerError, match=r"'q': expected to have read as far as the backfill c, got visits-0 at 90"):
        promote(warehouse, "c")


def test_a_window_that_goes_on_behind_the_range_is_refused(warehouse):
    """
    Its last count would be one of the range.
    """
    run(warehouse, "q", hours(is_final=False))
    changed = hours(without_bots=True, is_final=False)
    made(warehouse, changed, pipeline="q", name="c", to_ms=TO + HOUR // 2)
    with pytest.raises(
        ConfigError, match=r"key 'ann', window .* with a record of .* choose a --to at which windows end"
    ):
        promote(warehouse, "c")

    made(warehouse, changed, pipeline="q", name="d")
    promote(warehouse, "d")
    assert counts(warehouse, "q") == AFTER | {11: 6}


def test_a_range_in_which_the_pipeline_has_no_row_takes_those_of_the_branch(warehouse):
    """
    Where no row is from the range on, none is behind it.
    """

    def forwarded(*values: str) -> Topology:
        builder = StreamsBuilder()
        clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.string()))
        clicks.filter(pl.col("value").is_in(values)).to("hourly")
        return builder.build()

    landed = [(b"ok", 10), (b"good", 110), (b"bad", 190), (b"bad", 300)]
    plant(warehouse, "clicks", [LandedRecord(0, b"k", value, time_ms) for value, time_ms in landed], partitions=1)
    run(warehouse, "q", forwarded("ok"))
    made(warehouse, forwarded("ok", "good"), pipeline="q", name="c", from_ms=100, to_ms=200)

    promote(warehouse, "c")

    assert read_newest(warehouse, "q", "hourly")["value"].to_pylist() == ["good"]
