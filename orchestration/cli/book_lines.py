"""The books of increments as lines of a table."""

from collections.abc import Iterable, Sequence
from typing import Any

from ...jobs.history.exclusions import excluded_by
from ...jobs.replay.books import add_refusals
from ...jobs.replay.increment_report import IncrementReport
from ...state.tables.ledger import LandingLedger, LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.warehouse import Warehouse


def books_line(report: IncrementReport) -> dict[str, Any]:
    """What became of the records of one increment. ``refused``: records that operators refused, also those of which
    another had something.
    """
    books = report.books
    return {
        "increment": report.increment,
        "read": books.read,
        "applied": books.applied,
        "left_out": books.left_out,
        "dropped": books.dropped,
        "undecodable": books.undecodable,
        "refused": report.refused,
        **dict(sorted(books.dropped_by_reason.items())),
        "emitted": sum(report.outputs.values()),
        "late_max_ms": report.lateness["max"],
        "seconds": round(sum(report.seconds.get(part, 0.0) for part in ("plan", "compute", "commit")), 2),
    }


def counted(lines: list[dict[str, Any]]) -> list[str]:
    """Names of the numbers in ``lines`` that have a sum."""
    names = dict.fromkeys(name for line in lines for name in line)
    return [name for name in names if name not in ("increment", "late_max_ms", "restated")]


def own_increments(rows: list[LedgerRow[DoneRow]]) -> list[int]:
    """Of done rows, those that the pipeline itself did: not the one that it begins with where others made that."""
    return [row.increment for row in rows if not row.content.has_no_plan]


def refusal_lines(reports: Iterable[IncrementReport]) -> list[dict[str, Any]]:
    """What operators refused, by operator and reason: how many records, and how often. A record that one refused may
    have been applied by another.
    """
    total = add_refusals([report.books.refused for report in reports])
    return [
        {"operator": node, "reason": reason, "records": records, "refusals": refusals}
        for node, reasons in total.items()
        for reason, (records, refusals) in sorted(reasons.items())
    ]


def put_aside_lines(warehouse: Warehouse, topics: Iterable[str]) -> list[dict[str, Any]]:
    """Rows that became no record while ``topics`` were landed, by topic; a topic without such rows has no line."""
    lines = []
    for topic in sorted(topics):
        ledger = LandingLedger(warehouse.landing_ledger(topic))
        if ledger.last_done() is None:
            continue
        done = [row.content for row in ledger.done_rows()]
        aside = sum(row.dead_letters or 0 for row in done)
        if aside:
            lines.append({"topic": topic, "landed": sum(row.records or 0 for row in done), "put_aside": aside})
    return lines


def excluded_lines(warehouse: Warehouse, done: DoneRow) -> list[dict[str, Any]]:
    """Records that are out of play, of the topics that were read: whether the pipeline has left each out, has read it
    before, or has not come to it, and why it is out.
    """
    return [
        {"record": f"{out.topic}:{out.partition}:{out.offset}", "pipeline": state, "reason": out.why}
        for out, state in excluded_by(warehouse, done)
    ]


def verdict_line(reports: Sequence[IncrementReport]) -> str:
    """What became of all records, in a line: "5,000 read = 4,956 applied + 44 dropped; refused: once null-key 44"."""
    numbers = {name: sum(getattr(report.books, name) for report in reports) for name in _VERDICTS}
    parts = " + ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in numbers.items() if number)
    read = sum(report.books.read for report in reports)
    refused = [f"{line['operator']} {line['reason']} {line['records']:,}" for line in refusal_lines(reports)]
    return f"{read:,} read = {parts or 0}" + (f"; records refused: {', '.join(refused)}" if refused else "")


_VERDICTS = ("applied", "left_out", "dropped", "undecodable")
