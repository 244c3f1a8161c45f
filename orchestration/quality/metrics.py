"""Numbers of increments, each with the name that Kafka Streams' metrics have, where there is one.

Owns the names. Rule: every number is read from the ledger, so an increment says the same whenever it is asked. Open
windows alone are counted in stores, by checks, and read from what these recorded. Totals are of the increment alone,
and not since the beginning; a number that was not taken is left out, never 0.
"""

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow.compute as pc

from ...expectations.quality_tables import METRICS_SCHEMA, Row, read_quality
from ...jobs.replay.increment_report import IncrementReport, report_of
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import DoneRow, PlanRow
from ...state.tables.names import TaskId
from ...state.tables.rows_in_force import in_force
from ...state.tables.warehouse import Warehouse

SUPPRESSION = {
    "emitted": "suppression-emit-total",
    "count_current": "suppression-buffer-count-current",
    "count_max": "suppression-buffer-count-max",
    "count_avg": "suppression-buffer-count-avg",
    "bytes_current": "suppression-buffer-size-current",
    "bytes_max": "suppression-buffer-size-max",
    "bytes_avg": "suppression-buffer-size-avg",
    "overtime_min_ms": "suppression-overtime-min",
    "overtime_avg_ms": "suppression-overtime-avg",
}
"""Of an operator's number in the ledger (KIP-328; sizes in bytes, times in ms) to its name."""

COUNTS = {
    "forwarded": "deduplicate-forwarded-total",
    "duplicates": "duplicates-total",
    "looked_up": "join-looked-up-total",
    "matched": "join-matched-total",
}
"""Numbers of deduplications and joins, likewise."""
SHARES = {
    "duplicates-share": ("duplicates", ("forwarded", "duplicates")),
    "join-match-rate": ("matched", ("looked_up",)),
}
"""A number, and the numbers whose sum it is a share of."""

BOOKS = {
    "read": "process-total",
    "applied": "records-applied-total",
    "left_out": "records-left-out-total",
    "dropped": "records-dropped-total",
    "undecodable": "records-undecodable-total",
    "windows_refused": "windows-refused-total",
}
"""Of a number of the books to its name. ``records-dropped-total`` counts records, ``dropped-records-total`` refusals,
as Kafka's sensor does: a record may be refused by several windows."""

DROPPED = "dropped-records-total"
LATENESS_AVG, LATENESS_MAX = "record-lateness-avg", "record-lateness-max"
PERCENTILES = {50: "record-lateness-p50", 90: "record-lateness-p90", 99: "record-lateness-p99"}
"""Nearest rank. Above 15 ms the largest lateness of a class is taken, which is at most an eighth more."""
EMITTED, WAITING = "records-emitted-total", "records-waiting"
STREAM_TIME, LAG = "stream-time-ms", "stream-time-lag-ms"
SECONDS, MEMORY = "seconds", "memory-bytes-max"
OPEN_WINDOWS = "open-windows"
"""Read from stores, when verdicts are recorded (recording.py)."""


Increment = tuple[PlanRow, LedgerRow[DoneRow]]
"""Plan and done row."""


def increments_in_force(warehouse: Warehouse, pipeline: str) -> list[Increment]:
    """Plan and done row of every increment that counts, in order: not those that a restore withdrew, nor the restore,
    nor the first row of a branch or of an application's state, which read nothing. A promoted branch is one increment,
    with the books of all of it.
    """
    ledger = Ledger(warehouse.pipeline(pipeline).ledger)
    plans: dict[int, PlanRow] = {}
    done: list[LedgerRow[DoneRow]] = []
    for row in ledger.rows():
        if isinstance(row.content, PlanRow):
            plans[row.increment] = row.content
        else:
            done.append(row)
    rows = [row for row in in_force(done) if not row.content.has_no_plan]
    own = [row for row in rows if row.content.restates is None or row.content.branch is not None]  # a promote has one
    return [(plans[row.increment], row) for row in own]


def metric_rows(planned: PlanRow, row: LedgerRow[DoneRow]) -> list[Row]:
    """The numbers of one increment, as rows of `quality_metrics`."""
    report = report_of(row.increment, planned, row.content)
    rows: list[Row] = []

    def add(
        metric: str, value: float | None, sub: int | None = None, operator: str | None = None, label: str = ""
    ) -> None:
        if value is not None:
            rows.append(
                {
                    "increment": row.increment,
                    "epoch": row.epoch,
                    "sub_topology": sub,
                    "operator": operator,
                    "metric": metric,
                    "label": label or None,
                    "value": float(value),
                    "committed_at_ms": row.written_at_ms,
                }
            )

    for name, books in report.books_by_sub_topology.items():
        sub = int(name)
        for field, metric in BOOKS.items():
            add(metric, getattr(books, field), sub)
        for operator, reason, refusals in _refusals(books):
            add(DROPPED, refusals, sub, operator, reason)
        lateness = report.lateness_by_sub_topology.get(name, {})
        add(LATENESS_AVG, lateness.get("avg"), sub)
        add(LATENESS_MAX, lateness.get("max"), sub)
        for percent, metric in PERCENTILES.items():
            add(metric, report.lateness_percentile_ms(name, percent), sub)
        time_ms = _stream_time_ms(report, sub)
        add(STREAM_TIME, time_ms, sub)
        add(LAG, None if time_ms is None else row.written_at_ms - time_ms, sub)
    for operator, numbers in report.operators.items():
        is_counted = bool(numbers.get("bytes_max") or not numbers.get("count_max"))
        for field, number in numbers.items():
            if field.startswith("bytes") and not is_counted:
                continue  # only a buffer with a limit of bytes counts them
            add((SUPPRESSION | COUNTS).get(field, field.replace("_", "-")), number, operator=operator)
        for metric, (part, whole) in SHARES.items():
            of = sum(numbers.get(each) or 0 for each in whole)
            add(metric, (numbers.get(part) or 0) / of if of else None, operator=operator)
    for output, records in report.outputs.items():
        add(EMITTED, records, label=output)
    for part, seconds in report.seconds.items():
        add(SECONDS, seconds, label=part)
    add(WAITING, report.waiting)
    add(MEMORY, report.rss_bytes_max or None)
    return rows


def recorded_open_windows(warehouse: Warehouse, pipeline: str, increments: Collection[Increment]) -> list[Row]:
    """Rows of `quality_metrics` with the open windows of ``increments``; none of those that nobody checked."""
    path = warehouse.pipeline(pipeline).quality_metrics
    table = read_quality(path, METRICS_SCHEMA)
    wanted = {(done.increment, done.epoch) for _, done in increments}
    rows = [] if table is None else table.filter(pc.equal(table["metric"], OPEN_WINDOWS)).to_pylist()
    return [row for row in rows if (row["increment"], row["epoch"]) in wanted]


def _refusals(books: Any) -> Iterator[tuple[str | None, str, int]]:
    """Operator, reason and refusals; of an increment that an older version ran, records by reason alone."""
    if not books.refused:
        for reason, records in books.dropped_by_reason.items():
            yield None, reason, records
    for operator, reasons in books.refused.items():
        for reason, (_, refusals) in reasons.items():
            yield operator, reason, refusals


def _stream_time_ms(report: IncrementReport, sub: int) -> int | None:
    """The largest of the sub-topology's tasks; None before any record."""
    tasks = {TaskId.of(name): task for name, task in report.done.tasks.items()}
    times = [task.stream_time_ms for name, task in tasks.items() if name.sub_topology == sub]
    return max((time_ms for time_ms in times if time_ms >= 0), default=None)
