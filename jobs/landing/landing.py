"""Landing: records of a topic come into its landed table, increment by increment.

Owns the way of one landing increment: plan into the ledger, rows into the table in one Delta transaction marked with
the increment, done row. Rule: nothing is interpreted, so nothing can be lost to a parser; what was planned is what is
landed, however often it is run. A call first finishes an increment that an earlier one left behind, then lands what is
new. The sources (`landing_files`, `landing_kafka`) say what is new and write it.

A topic's first landing is always written, even without records, so that its partitions are known.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from ...state.errors import CommitLost, LandingError
from ...state.tables.commit import transaction_version
from ...state.tables.compaction import compact
from ...state.tables.data_files import live_files, open_table
from ...state.tables.ledger import LandingLedger, LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.warehouse import Warehouse
from ...state.wall_clock import now_ms
from .file_source import FileSource
from .from_files import FileLander
from .from_kafka import KafkaLander, KafkaSource
from .from_records import RecordLander
from .recorded_time import finish_recording

__all__ = ["FileSource", "KafkaSource", "LandingReport", "land_files", "land_kafka", "land_records"]


@dataclass(frozen=True)
class LandingReport:
    """What one call landed. ``increments`` is () when nothing was new.

    ``cut_from``/``cut_to``: per partition, the first offset landed by this call and the one after the last.
    ``gaps``: offsets ``[from, to)`` that were gone from the broker and skipped on request.
    """

    topic: str
    increments: tuple[int, ...]
    records: int
    partitions: int
    cut_from: Mapping[int, int]
    cut_to: Mapping[int, int]
    gaps: Mapping[int, tuple[int, int]]
    table_version: int | None
    seconds: float


PlannedRows = Callable[[], list[LedgerRow[LandingPlanRow]]]


class Lander(Protocol):
    """A source, seen by the landing of one topic."""

    @property
    def kind(self) -> str:
        """What the source is, in the ledger."""
        ...

    def next_plan(self, last: LedgerRow[LandingDoneRow] | None, planned: PlannedRows, /) -> LandingPlanRow | None:
        """The plan of what is new after the done row ``last``; None when nothing is.

        ``planned``: reads the plans of all landings, which cost more with every one; for those who need more than the
        last.
        """
        ...

    def write(self, row: LedgerRow[LandingPlanRow], app_id: str) -> dict[str, Any]:
        """Commit the records of the plan ``row`` under ``app_id``; the fields that this adds to the done row."""
        ...


def land_files(
    spark: SparkSession | None,
    warehouse: Warehouse,
    topic: str,
    source: FileSource,
    *,
    clock_ms: Callable[[], int] | None = None,
) -> LandingReport:
    """Land the files of ``source`` that are not landed yet, in the order of their names.

    ``spark`` None reads them in this process. Raises LandingError for a bad row (file and line), a file that changed
    after it was landed, a topic landed otherwise; LedgerConflict when another runner lands the same increment.
    """
    return _land(warehouse, topic, FileLander(spark, warehouse, topic, source), clock_ms or now_ms)


def land_kafka(
    spark: SparkSession,
    warehouse: Warehouse,
    topic: str,
    source: KafkaSource,
    *,
    max_records: int | None = None,
    clock_ms: Callable[[], int] | None = None,
) -> LandingReport:
    """Land what the broker has after the last landed offsets, up to the last stable ones, at most ``max_records``.

    Raises RetentionGap when offsets that come next are gone (see ``KafkaSource.on_gap``); LandingError when the broker
    does not answer, or its topic is another one; LedgerConflict when another runner lands the same increment.
    """
    lander = KafkaLander(spark, warehouse, topic, source, max_records)
    return _land(warehouse, topic, lander, clock_ms or now_ms)


def land_records(
    warehouse: Warehouse,
    topic: str,
    records: pa.Table,
    *,
    partitions: int = 1,
    clock_ms: Callable[[], int] | None = None,
) -> LandingReport:
    """Land ``records`` (see RecordLander for the columns) after those landed before, in their order.

    Raises LandingError when an unfinished landing was of other records, LedgerConflict when another runner lands the
    same increment.
    """
    return _land(warehouse, topic, RecordLander(warehouse, topic, records, partitions), clock_ms or now_ms)


def _land(warehouse: Warehouse, topic: str, lander: Lander, clock_ms: Callable[[], int]) -> LandingReport:
    started = time.monotonic()
    ledger = LandingLedger(warehouse.landing_ledger(topic), warehouse.storage_options)
    pending, last = ledger.pending(), ledger.last_done()
    newest = pending or last
    if newest is not None:
        _refuse_other_source(topic, newest.content.source, lander)
    done: list[LedgerRow[LandingDoneRow]] = []
    if pending is not None and pending.content.recorded_time is not None:
        last = finish_recording(warehouse, topic, pending, clock_ms)
    elif pending is not None:
        last = _run(warehouse, topic, ledger, lander, pending, clock_ms)
        done.append(last)
    plan = lander.next_plan(last, lambda: _landing_plans(ledger))
    if plan is not None:
        increment, epoch = (1, 0) if last is None else (last.increment + 1, last.epoch)
        planned = ledger.plan(increment, plan, epoch=epoch, written_at_ms=clock_ms())
        last = _run(warehouse, topic, ledger, lander, planned, clock_ms)
        done.append(last)
    assert last is not None, f"{topic}: a first landing always has an increment"
    return _report(topic, done, last, time.monotonic() - started)


def _run(
    warehouse: Warehouse,
    topic: str,
    ledger: LandingLedger,
    lander: Lander,
    planned: LedgerRow[LandingPlanRow],
    clock_ms: Callable[[], int],
) -> LedgerRow[LandingDoneRow]:
    """Commit the planned increment unless the table has it already; then its done row."""
    path, app_id = warehouse.landed(topic), f"landing/{topic}/{planned.epoch}"
    added: dict[str, Any] = {}
    if not _is_committed(path, app_id, planned.increment, warehouse):
        added = lander.write(planned, app_id)
    if not _is_committed(path, app_id, planned.increment, warehouse):
        raise CommitLost(
            path, f"increment {planned.increment} when read back", "a table without it", "land the topic again"
        )
    compact(path, app_id=app_id, increment=planned.increment, storage_options=warehouse.storage_options)
    ledger.compact(planned.increment)
    table = open_table(path, storage_options=warehouse.storage_options)
    assert table is not None, f"{path}: committed, yet not there"
    own = planned.increment, planned.increment
    files = live_files(table, ("increment", *own))
    plan = planned.content
    row = LandingDoneRow(
        partitions=plan.partitions,
        cut_from=plan.cut_from,
        cut_to=plan.cut_to,
        gaps=plan.gaps,
        source=plan.source,
        records=sum(file.records for file in files if file.bounds.get("increment") == own),
        table_version=table.version(),
    )
    return ledger.done(planned.increment, replace(row, **added), epoch=planned.epoch, written_at_ms=clock_ms())


def _is_committed(path: str, app_id: str, increment: int, warehouse: Warehouse) -> bool:
    committed = transaction_version(path, app_id, storage_options=warehouse.storage_options)
    if committed is not None and committed > increment:
        raise CommitLost(
            f"{path}, {app_id}",
            f"no increment after {increment}",
            f"increment {committed}",
            "the ledger is older than the table: restore the ledger that belongs to it",
        )
    return committed == increment


def _landing_plans(ledger: LandingLedger) -> list[LedgerRow[LandingPlanRow]]:
    """Plans of records, not of recorded times."""
    return [row for row in ledger.plans() if row.content.recorded_time is None]


def _refuse_other_source(topic: str, source: Mapping[str, Any], lander: Lander) -> None:
    """``source``: of the newest row."""
    landed = source["kind"]
    if landed != lander.kind:
        raise LandingError(
            f"topic {topic}",
            f"a source of the kind {landed}, which gave it its offsets",
            lander.kind,
            "land into a topic of another name",
        )


def _report(
    topic: str, done: list[LedgerRow[LandingDoneRow]], last: LedgerRow[LandingDoneRow], seconds: float
) -> LandingReport:
    cut_from: dict[int, int] = {}
    gaps: dict[int, tuple[int, int]] = {}
    for row in done or [last]:
        begun = row.content.cut_from if done else row.content.cut_to
        cut_from = {int(p): offset for p, offset in begun.items()} | cut_from
        gaps |= {int(p): (a, b) for p, (a, b) in row.content.gaps.items()} if done else {}
    return LandingReport(
        topic=topic,
        increments=tuple(row.increment for row in done),
        records=sum(row.content.records or 0 for row in done),
        partitions=last.content.partitions,
        cut_from=dict(sorted(cut_from.items())),
        cut_to={int(p): offset for p, offset in sorted(last.content.cut_to.items(), key=lambda item: int(item[0]))},
        gaps=gaps,
        table_version=last.content.table_version,
        seconds=seconds,
    )
