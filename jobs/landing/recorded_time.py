"""Recorded time: "stream time of this partition has reached T", written beside a landed topic, so that windows of a
quiet topic close, and every replay sees it at the same place. Kafka Streams has no such thing; off unless asked for.
A tick is the same of the wall clock, "it was T here", which moves on schedules by wall-clock time and nothing else.

Owns the table `landing/<topic>/recorded_time` and the landing increments that write it. Rule: a recorded time is
before the record of ``before_offset``, the next offset of its partition when it was recorded. It takes no offset itself
and is never changed, and since it is a landing increment, nothing can be landed past it unseen.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...state.argument_types import checked_types
from ...state.errors import ConfigError, LandingError
from ...state.tables.branch_files import landed_files, refuse_older_landing_ledger
from ...state.tables.commit import commit_files
from ...state.tables.data_files import DataFile, OpenTables, read_files, read_rows, without_partition
from ...state.tables.foreign_commits import refuse_touched
from ...state.tables.ledger import LandingLedger, LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.parquet_writer import write_task_file
from ...state.tables.warehouse import RECORDED_TIME_SCHEMA, Warehouse
from ...state.times import LATEST_MS, NO_TIMESTAMP_MS, bounded_ms, known_times
from ...state.wall_clock import now_ms
from .erased_records import erase_planned


@dataclass(frozen=True, slots=True)
class Recorded:
    """Stream time, or of a tick the wall clock, has reached ``time_ms`` before the record of ``before_offset``.
    ``arrival``: as of a landed record; None: not known, so that no replay by arrival can take it.
    """

    before_offset: int
    time_ms: int
    arrival: int | None = None
    is_tick: bool = False


RecordedTimes = Mapping[str, tuple[Recorded, ...]]
"""By partition (as text), in the order in which they were recorded, which is that of their places."""


@checked_types
def record_time(
    warehouse: Warehouse,
    topic: str,
    time_ms: int,
    *,
    partition: int | None = None,
    arrival: int | None = None,
    clock_ms: Callable[[], int] = now_ms,
) -> dict[int, int]:
    """Record that stream time of ``partition`` (None: of every one) of a landed topic has reached ``time_ms``.

    Returns the partitions for which this is new, with the time; where a later time is recorded already, nothing is.
    ``arrival``: number of this among all topics' records, for replays by arrival. Raises ConfigError for a topic or
    partition that was never landed, LandingError while a landing is unfinished, LedgerConflict when another runner
    lands meanwhile.
    """
    bounded_ms(time_ms, f"topic {topic!r}", "the time")
    last = last_landing(warehouse, topic, clock_ms)
    partitions = list(range(last.content.partitions))
    if partition is not None and partition not in partitions:
        expected = f"a partition below {len(partitions)}"
        raise ConfigError(f"topic {topic!r}", expected, str(partition), "name a partition of the topic")
    wanted = dict.fromkeys(partitions if partition is None else [partition], time_ms)
    return _record(warehouse, topic, last, wanted, arrival, clock_ms)


@checked_types
def record_tick(
    warehouse: Warehouse,
    topic: str,
    time_ms: int | None = None,
    *,
    arrival: int | None = None,
    clock_ms: Callable[[], int] = now_ms,
) -> dict[int, int]:
    """Record a tick of the wall clock in every partition of the landed ``topic`` of ``warehouse``.

    ``time_ms``: the tick, by default what ``clock_ms`` says now; ConfigError below 0. ``arrival``: its number among
    all topics' records, for replays by arrival; None: not known.

    Processors whose sub-topology reads the topic see it, and call what they scheduled by
    ``PunctuationType.WALL_CLOCK_TIME``; stream time stays. Returns and raises as ``record_time``.
    """
    time_ms = clock_ms() if time_ms is None else time_ms
    bounded_ms(time_ms, f"topic {topic!r}", "the time")
    last = last_landing(warehouse, topic, clock_ms)
    wanted = dict.fromkeys(range(last.content.partitions), time_ms)
    return _record(warehouse, topic, last, wanted, arrival, clock_ms, is_tick=True)


def record_idle(
    warehouse: Warehouse, topic: str, idle_after_ms: int, *, clock_ms: Callable[[], int] = now_ms
) -> dict[int, int]:
    """Record the time of a topic of which some partitions are quiet, when they are; returns as ``record_time``.

    A partition is quiet when its newest record is older than the newest of the whole topic by more than
    ``idle_after_ms``, or when it has none. Then every partition is recorded to have reached that newest time less
    ``idle_after_ms``; the others have, by their records. Record times alone count, and no wall clock.
    """
    if idle_after_ms < 0:
        raise ConfigError(f"topic {topic!r}", "0 ms or more to be idle", str(idle_after_ms), "correct the duration")
    last = last_landing(warehouse, topic, clock_ms)
    newest_ms = dict.fromkeys(range(last.content.partitions), NO_TIMESTAMP_MS)
    for file in landed_files(warehouse, topic, last):
        excluded = (last.content.excluded or {}).get(str(file.partition), [])
        newest_ms[file.partition] = max(newest_ms[file.partition], _newest_ms(warehouse.landed(topic), file, excluded))
    time_ms = max(newest_ms.values()) - idle_after_ms
    if time_ms < 0 or min(newest_ms.values()) >= time_ms:
        return {}
    return _record(warehouse, topic, last, dict.fromkeys(newest_ms, time_ms), None, clock_ms)


def recorded_times(warehouse: Warehouse, topic: str, *, increment: int) -> RecordedTimes:
    """What has been recorded up to the landing increment ``increment``; {} when nothing ever was."""
    path = warehouse.recorded_time(topic)
    opened: OpenTables = {}
    rows = read_rows(path, read_files(path, opened=opened), RECORDED_TIME_SCHEMA).to_pylist()
    if path in opened and opened[path].version() != len({row["increment"] for row in rows}):  # a version each
        refuse_touched(opened[path], path, -1)
    recorded: dict[str, tuple[Recorded, ...]] = {}
    ticks = _ticks(warehouse, topic) if rows else set()
    for row in sorted(rows, key=lambda row: row["increment"]):
        if row["increment"] <= increment:
            here = Recorded(row["before_offset"], row["time_ms"], row["arrival"], row["increment"] in ticks)
            recorded[str(row["partition"])] = (*recorded.get(str(row["partition"]), ()), here)
    return recorded


def _ticks(warehouse: Warehouse, topic: str) -> set[int]:
    """Landing increments that recorded ticks: only the ledger knows whether a recorded time is a tick."""
    ledger = LandingLedger(warehouse.landing_ledger(topic))
    return {row.increment for row in ledger.done_rows() if row.content.is_tick}


def last_landing(warehouse: Warehouse, topic: str, clock_ms: Callable[[], int]) -> LedgerRow[LandingDoneRow]:
    """The last landing increment; one without records that died is finished. Raises ConfigError for a topic that was
    never landed, LandingError while a landing is unfinished.
    """
    ledger = LandingLedger(warehouse.landing_ledger(topic))
    pending = ledger.pending()
    if pending is not None and not pending.content.lands_records:
        return finish_without_records(warehouse, topic, pending, clock_ms)
    last = ledger.last_done()
    if last is None:
        raise ConfigError(f"topic {topic!r}", "a landed topic", "one that was never landed", "land it first")
    if pending is not None:
        expected, got = "no unfinished landing", f"increment {pending.increment} planned only"
        raise LandingError(f"topic {topic}", expected, got, "land the topic again, which finishes it")
    refuse_older_landing_ledger(warehouse, topic, ledger, last)
    return last


def land_no_records(
    warehouse: Warehouse, topic: str, last: LedgerRow[LandingDoneRow], clock_ms: Callable[[], int], **fields: Any
) -> LedgerRow[LandingDoneRow]:
    """A landing increment after ``last`` that lands no records; ``fields`` are what it has instead. Raises
    LedgerConflict when another runner lands meanwhile.
    """
    # What the last increment alone did; all else of its row (cut, exclusions, restarts, what is complete) still holds.
    without: dict[str, Any] = dict.fromkeys(
        ("dead_letters", "implausible", "lost", "recorded_time", "arrival", "is_tick", "exclusion", "restart")
    )
    done = replace(last.content, **{**without, "cut_from": last.content.cut_to, "gaps": {}, "records": 0, **fields})
    plan, ledger = LandingPlanRow.from_json(done.to_json()), LandingLedger(warehouse.landing_ledger(topic))
    planned = ledger.plan(last.increment + 1, plan, epoch=last.epoch, written_at_ms=clock_ms())
    return finish_without_records(warehouse, topic, planned, clock_ms)


def finish_without_records(
    warehouse: Warehouse, topic: str, planned: LedgerRow[LandingPlanRow], clock_ms: Callable[[], int]
) -> LedgerRow[LandingDoneRow]:
    """Commit what a landing increment planned without a source: recorded times, records without their content, or
    nothing; then its done row.
    """
    ledger, done = LandingLedger(warehouse.landing_ledger(topic)), LandingDoneRow.from_json(planned.content.to_json())
    # Each commit looks for the increment's mark in its table first,
    # so an increment that died is finished by doing all of it again.
    if planned.content.recorded_time is not None:
        _commit_times(warehouse, topic, planned, planned.content.recorded_time)
    if (planned.content.exclusion or {}).get("erased_by") is not None:
        last = ledger.last_done()
        done = erase_planned(warehouse, topic, planned, None if last is None else last.content.table_version)
    return ledger.done(planned.increment, done, epoch=planned.epoch, written_at_ms=clock_ms())


def _commit_times(
    warehouse: Warehouse, topic: str, planned: LedgerRow[LandingPlanRow], times: Mapping[str, int]
) -> None:
    path, plan = warehouse.recorded_time(topic), planned.content
    files = [
        write_task_file(
            path,
            _row(plan.cut_to[p], time_ms, plan.arrival, planned.increment),
            partition=int(p),
            name=f"{planned.increment:08d}-{int(p):05d}",
        )
        for p, time_ms in times.items()
    ]
    commit_files(
        path,
        RECORDED_TIME_SCHEMA,
        files,
        app_id=f"landing/{topic}/recorded_time/{planned.epoch}",
        increment=planned.increment,
    )


def _newest_ms(path: str, file: DataFile, excluded: Sequence[int]) -> int:
    """The largest timestamp of a landed file that a record may have, but for the offsets ``excluded``; NO_TIMESTAMP_MS
    without one.
    """
    # A time of the far future is a reason to exclude a record, and bounds may be its
    # time: then rows are read. So they are where the bound is of a record that is
    # a dead letter to every operator, which moves no time on.
    is_of_all = not any(file.may_hold("offset", offset, offset) for offset in excluded)
    if is_of_all and "timestamp" in file.bounds and (newest_ms := file.bounds["timestamp"][1]) <= LATEST_MS:
        return newest_ms
    columns = pa.schema([("offset", pa.int64()), ("timestamp", pa.int64())])
    rows = read_rows(path, [file], columns)
    kept = rows.filter(pc.invert(pc.is_in(rows["offset"], pa.array(excluded, pa.int64()))))
    return int(known_times(kept["timestamp"].to_numpy()).max(initial=NO_TIMESTAMP_MS))


def _record(
    warehouse: Warehouse,
    topic: str,
    last: LedgerRow[LandingDoneRow],
    wanted: dict[int, int],
    arrival: int | None,
    clock_ms: Callable[[], int],
    *,
    is_tick: bool = False,
) -> dict[int, int]:
    known = recorded_times(warehouse, topic, increment=last.increment)
    # Stream time and the wall clock rise each by itself: a tick is no reason to record no stream time, and vice versa.
    new = {
        p: time_ms
        for p, time_ms in wanted.items()
        if time_ms
        > max((each.time_ms for each in known.get(str(p), ()) if each.is_tick == is_tick), default=NO_TIMESTAMP_MS)
    }
    if not new:
        return {}
    times = {str(p): time_ms for p, time_ms in new.items()}
    land_no_records(warehouse, topic, last, clock_ms, recorded_time=times, arrival=arrival, is_tick=is_tick or None)
    return new


def _row(before_offset: int, time_ms: int, arrival: int | None, increment: int) -> pa.Table:
    columns = {"before_offset": before_offset, "time_ms": time_ms, "arrival": arrival, "increment": increment}
    schema = without_partition(RECORDED_TIME_SCHEMA)
    return pa.table({name: [value] for name, value in columns.items()}, schema=schema)
