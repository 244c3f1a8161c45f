"""The books of increments as lines of a table."""

from typing import Any

from ...jobs.replay.increment_report import IncrementReport
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import DoneRow


def books_line(report: IncrementReport) -> dict[str, Any]:
    """What became of the records of one increment."""
    books = report.books
    return {
        "increment": report.increment,
        "read": books.read,
        "applied": books.applied,
        "dropped": books.dropped,
        "undecodable": books.undecodable,
        **dict(sorted(books.dropped_by_reason.items())),
        "emitted": sum(report.outputs.values()),
        "late_max_ms": report.lateness["max"],
        "seconds": round(sum(report.seconds.get(part, 0.0) for part in ("plan", "compute", "commit")), 2),
    }


def counted(lines: list[dict[str, Any]]) -> list[str]:
    """Names of the numbers in ``lines`` that have a sum."""
    names = dict.fromkeys(name for line in lines for name in line)
    return [name for name in names if name not in ("increment", "late_max_ms")]


def own_increments(rows: list[LedgerRow[DoneRow]]) -> list[int]:
    """Of done rows, those that the pipeline itself did: not the one that a branch begins with."""
    return [row.increment for row in rows if row.content.forked is None]
