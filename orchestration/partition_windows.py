"""Which partition may run now: what is before it, whether it has landed whole, and what running it again withdraws.

Owns the order of partitions. Rule: the ledger has the position of the pipeline (`until_ms` of a plan), never Dagster.
A partition is done when the pipeline has reached its end. It runs when everything before its begin is read and
nothing before its end can come any more.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import dagster as dg

from ..jobs.branches.restatement import done_at
from ..jobs.replay.backlog import Backlog
from ..jobs.replay.landed_times import LandedTimes
from ..jobs.replay.planner import Planner
from ..state.errors import ConfigError, LedgerError, NotYetLanded
from ..state.tables.ledger_rows import DoneRow, PlanRow
from ..state.tables.parquet_reader import restore_command
from ..state.tables.rows_in_force import in_force
from .pipeline import Pipeline
from .text_tables import utc
from .what_waits import advance_command

NAMED_MAX = 5
"""So many partitions or days are named in a sentence."""


@dataclass(frozen=True)
class Window:
    """A partition of Dagster's: record times ``[start_ms, end_ms)``."""

    key: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Reached:
    """How far a pipeline has come. ``until_ms``: up to which time its last increment read; None: before any increment.
    ``increments``: end in ms → the increments that read up to it, in order. ``before``: of an end, the increment
    before its first. ``previous``: of each of them, the increment that it continued from, 0 for none.
    """

    until_ms: int | None
    increments: dict[int, list[int]]
    before: dict[int, int]
    previous: dict[int, int]

    def of(self, window: Window) -> list[int]:
        """Increments that read up to a time in the partition, or to its end: it may have been cut on the way."""
        return [number for end in self.ends_from(window) if end <= window.end_ms for number in self.increments[end]]

    def ends_from(self, window: Window) -> list[int]:
        """Up to which times the increments of the partition and of all later ones read, in order."""
        return sorted(end for end in self.increments if end > window.start_ms)


class Behind(NamedTuple):
    """A Kafka partition that has landed nothing of some time or later; ``time_ms``: how far it has come, None: it has
    no record.
    """

    topic: str
    partition: str
    time_ms: int | None

    def __str__(self) -> str:
        """In words."""
        reached = "nothing" if self.time_ms is None else utc(self.time_ms)
        return f"{self.topic}, partition {self.partition}, has come to {reached}"


def windows_of(definition: dg.TimeWindowPartitionsDefinition, keys: list[str]) -> list[Window]:
    """In the order of their times."""
    windows = []
    for key in keys:
        window = definition.time_window_for_partition_key(key)
        windows.append(Window(key, round(window.start.timestamp() * 1000), round(window.end.timestamp() * 1000)))
    return sorted(windows, key=lambda window: window.start_ms)


def reached(pipeline: Pipeline) -> Reached:
    """LedgerError when records were read by an increment that is no partition's, so that it is unknown how far it
    came. One that reads nothing, a migration or the flush at the end of history, is between partitions.
    """
    ledger = pipeline.ledger
    plans = {row.increment: row.content for row in ledger.plans()}
    done = in_force(ledger.done_rows())
    rows = [row for row in done if row.content.restates is None and not row.content.has_no_plan]
    increments: dict[int, list[int]] = {}
    for row in rows:
        plan = plans[row.increment]
        until_ms = plan.until_ms
        if until_ms is None and _reads_nothing(plan):
            continue
        if until_ms is None:
            earlier = ledger.done_before(row.increment)
            back = restore_command(pipeline.own.root, 0 if earlier is None else earlier.increment)
            raise LedgerError(
                f"pipeline {pipeline.name!r}", "increments that each belong to a partition",
                f"increment {row.increment}, which was run without --until",
                f"go back before it: {back}; or give this pipeline no partitions",
            )  # fmt: skip
        increments.setdefault(until_ms, []).append(row.increment)
    numbers = [0, *(row.increment for row in rows)]
    previous = {increment: last for last, increment in pairwise(numbers)}
    before = {until_ms: previous[mine[0]] for until_ms, mine in increments.items()}
    return Reached(max(increments, default=None), increments, before, previous)


def last_increment(so_far: Reached, window: Window) -> int | None:
    """The increment whose tables are those of the partition's end; None before any."""
    return max((numbers[-1] for end, numbers in so_far.increments.items() if end <= window.end_ms), default=None)


def partition_of(pipeline: Pipeline, increment: int) -> str | None:
    """Key of the partition that an increment read up to; None: it is none's."""
    planned, definition = pipeline.ledger.rows_of(increment).planned, pipeline.partitions
    if definition is None or planned is None or planned.content.until_ms is None:
        return None
    return next((window.key for window in _windows_at(definition, [planned.content.until_ms])), None)


def _windows_at(definition: dg.TimeWindowPartitionsDefinition, ends: list[int]) -> list[Window]:
    """Partitions that increments which read up to ``ends`` belong to."""
    windows = windows_of(definition, list(definition.get_partition_keys()))
    return [window for window in windows if any(window.start_ms < end <= window.end_ms for end in ends)]


def later_partitions(pipeline: Pipeline, so_far: Reached, window: Window) -> int:
    """How many partitions after ``window`` have increments."""
    assert pipeline.partitions is not None
    return len(_windows_at(pipeline.partitions, [end for end in so_far.ends_from(window) if end > window.end_ms]))


def _reads_nothing(plan: PlanRow) -> bool:
    """No record, that is: recorded times are of no partition."""
    return plan.cut_from == plan.cut_to


def refuse_what_cannot_run(pipeline: Pipeline, window: Window, so_far: Reached, times: LandedTimes) -> None:
    """ConfigError when records before the partition are unread, or when it is before what was run last. NotYetLanded
    when it has not landed whole.
    """
    place = f"pipeline {pipeline.name!r}, partition {window.key}"
    if so_far.until_ms is not None and window.end_ms < so_far.until_ms:
        later = later_partitions(pipeline, so_far, window)
        raise ConfigError(
            place, f"a partition from {utc(so_far.until_ms)} on", f"one that ends at {utc(window.end_ms)}",
            f"to run it again withdraws it and {later} later partitions, which must then run again, too: if that is "
            "meant, launch it with `restore: true` in its config",
        )  # fmt: skip
    unread = backlog_of(pipeline, times)
    before = unread.records_before(window.start_ms)
    if before:
        raise ConfigError(
            place, f"nothing unread before {utc(window.start_ms)}", f"{before:,} records",
            f"run {_missing(pipeline, window, so_far, unread)} first",
        )  # fmt: skip
    waiting = still_to_come(pipeline, unread, window.end_ms)
    if waiting:
        raise NotYetLanded(
            place, f"a record, or a recorded time, of {utc(window.end_ms)} or later in every Kafka partition",
            in_words(waiting), what_to_do(waiting, window.end_ms, pipeline.warehouse.root),
        )  # fmt: skip


def refuse_read_over(pipeline: Pipeline, window: Window, so_far: Reached, times: LandedTimes) -> None:
    """LedgerError when one increment has read records of a partition that is done, and records of later ones: there are
    no tables of its end.
    """
    later = next((end for end in so_far.ends_from(window) if end > window.end_ms), None)
    if later is None or window.end_ms in so_far.increments:
        return
    over = so_far.increments[later][0]
    back = so_far.previous[over]
    if planner_after(pipeline, back, times).backlog().records_before(window.end_ms):
        raise LedgerError(
            f"pipeline {pipeline.name!r}, partition {window.key}", f"an increment that ends at {utc(window.end_ms)}",
            f"increment {over}, which read over it up to {utc(later)}",
            f"go back before it: {restore_command(pipeline.own.root, back)}; then run the partitions from there",
        )  # fmt: skip


def refuse_half(pipeline: Pipeline, window: Window, times: LandedTimes) -> None:
    """After it has run. ConfigError when records before its end are unread, so that nobody takes it for done."""
    unread = backlog_of(pipeline, times).records_before(window.end_ms)
    if unread:
        raise ConfigError(
            f"pipeline {pipeline.name!r}, partition {window.key}", "all of its records read", f"{unread:,} unread",
            "run it again, which continues from there",
        )  # fmt: skip


def still_to_come(pipeline: Pipeline, unread: Backlog, end_ms: int) -> list[Behind]:
    """Kafka partitions in which records before ``end_ms`` may still land; [] when the partition is whole."""
    quiet = set(quiet_at(pipeline, unread, end_ms))
    return [behind for behind in map(Behind._make, unread.not_yet_at(end_ms)) if behind not in quiet]


def quiet_at(pipeline: Pipeline, unread: Backlog, end_ms: int) -> list[Behind]:
    """Kafka partitions that have not come to ``end_ms`` and need not: another one is past it by as long as theirs may
    be idle.
    """
    behind, idle_ms = map(Behind._make, unread.not_yet_at(end_ms)), pipeline.idle_after_ms
    return [each for each in behind if each.topic in idle_ms and unread.furthest_ms >= end_ms + idle_ms[each.topic]]


def in_words(waiting: list[Behind]) -> str:
    """As "clicks, partition 0, has come to 2026-01-02 00:00:00"."""
    more = len(waiting) - NAMED_MAX
    return "; ".join([*map(str, waiting[:NAMED_MAX]), *([f"and {more} more"] if more > 0 else [])])


def what_to_do(waiting: list[Behind], end_ms: int, warehouse: str) -> str:
    """About Kafka partitions that a partition waits for."""
    topics = list(dict.fromkeys(each.topic for each in waiting))
    advance = f"`{advance_command(topics[0], warehouse, end_ms)}`"
    return (
        f"nothing, if more of {', '.join(topics)} comes: run it after the next landing; where nothing more comes, "
        f"{advance} records that, and idle_after in the definitions does so from then on"
    )


def next_or_why_not(pipeline: Pipeline) -> Window | str:
    """The partition that runs next, once it has landed whole; or in words why none does now."""
    assert pipeline.partitions is not None
    last = pipeline.ledger.last_done()
    if last is not None and last.content.flushed:
        return f"history was flushed after increment {last.increment}, and takes no more records"
    unread = backlog_of(pipeline, LandedTimes())
    window = next_window(pipeline, pipeline.partitions, unread)
    if window is None:
        return "every partition that has ended was run"
    waiting = still_to_come(pipeline, unread, window.end_ms)
    if waiting:
        said = f"partition {window.key} has not landed whole: {in_words(waiting)}"
        return f"{said}. What to do: {what_to_do(waiting, window.end_ms, pipeline.warehouse.root)}"
    return window


def next_window(pipeline: Pipeline, definition: dg.TimeWindowPartitionsDefinition, unread: Backlog) -> Window | None:
    """The first partition that is not done; None when the last one is. One that has landed whole, without a record, is
    passed over.
    """
    until_ms = reached(pipeline).until_ms
    for window in windows_of(definition, list(definition.get_partition_keys())):
        # The partition that ends at `until_ms` itself may be half done, if a run died between two of its increments.
        is_before = until_ms is not None and window.end_ms < until_ms
        if not is_before and (unread.records_before(window.end_ms) or still_to_come(pipeline, unread, window.end_ms)):
            return window
    return None


def backlog_of(pipeline: Pipeline, times: LandedTimes) -> Backlog:
    """What has landed and was not replayed."""
    last = pipeline.ledger.last_done()
    done, increment = (DoneRow(), 0) if last is None else (last.content, last.increment)
    return _planner(pipeline, increment, done, times).backlog()


def planner_after(pipeline: Pipeline, increment: int, times: LandedTimes) -> Planner:
    """Plans what comes after an increment; 0: after nothing."""
    return _planner(pipeline, increment, done_at(pipeline.warehouse, pipeline.name, increment), times)


def _planner(pipeline: Pipeline, increment: int, done: DoneRow, times: LandedTimes) -> Planner:
    # Whether a Kafka partition lags is decided by the end of Dagster's partition (`still_to_come`).
    return Planner(
        pipeline.warehouse, pipeline.topology, increment=increment + 1, previous=done, idle="proceed", times=times
    )


def _missing(pipeline: Pipeline, window: Window, so_far: Reached, unread: Backlog) -> str:
    """Names of the partitions before ``window`` that were not run."""
    assert pipeline.partitions is not None
    until_ms = so_far.until_ms
    is_whole = until_ms is not None and not unread.records_before(until_ms)
    # Of the partition that was reached last, records may be unread; if none are, the next one is the first missing.
    keys = [
        each.key
        for each in windows_of(pipeline.partitions, list(pipeline.partitions.get_partition_keys()))
        if each.end_ms <= window.start_ms and (until_ms is None or each.end_ms >= until_ms + is_whole)
    ]
    if not keys:
        return "a partitions definition that begins with the first record"
    return ", ".join(keys[:NAMED_MAX]) + (f" and {len(keys) - NAMED_MAX} more" if len(keys) > NAMED_MAX else "")
