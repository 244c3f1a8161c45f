"""What the commands `describe` and `books` do.

Owns their output. Rule: results go to stdout, progress and errors to stderr; each returns the exit code. They call the
same functions as Dagster's steps, so both see one ledger and can take turns.
"""

from argparse import Namespace
from typing import Any

from ...jobs.branches.restatement import in_force
from ...jobs.history.committed_tables import done_row
from ...jobs.replay.increment_report import report_of
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.warehouse import Warehouse
from ..text_tables import text_table
from .book_lines import books_line, counted
from .topology_loading import load_topology


def describe(options: Namespace) -> int:
    """Print the topology as Kafka Streams would."""
    print(load_topology(options.topology).describe())
    return 0


def books(options: Namespace) -> int:
    """One line an increment: what became of the records that it read."""
    warehouse = Warehouse(options.warehouse)
    last = done_row(warehouse, options.pipeline)
    ledger = Ledger(warehouse.pipeline(options.pipeline).ledger, warehouse.storage_options)
    rows = ledger.done_rows(max(1, last.increment - options.last + 1))
    pairs = [ledger.rows_of(increment) for increment in own_increments(rows)]
    lines = [
        books_line(report_of(done.increment, planned.content, done.content))
        for planned, done in pairs
        if planned is not None and done is not None
    ]
    if not lines:
        print(f"nothing replayed yet by {options.pipeline}")
        return 0
    counting = {row.increment for row in in_force(rows)}
    in_sum = [line for line in lines if line["increment"] in counting]
    total: dict[str, Any] = {name: sum(line.get(name) or 0 for line in in_sum) for name in counted(lines)}
    lines = [line if line in in_sum else line | {"restated": "yes"} for line in lines]
    print(
        text_table([*lines, {"increment": "all" if lines[0]["increment"] == 1 else "these", **total}], thousands=True)
    )
    return 0


def own_increments(rows: list[LedgerRow[DoneRow]]) -> list[int]:
    """Of done rows, those that the pipeline itself did: not the one that a branch begins with."""
    return [row.increment for row in rows if row.content.forked is None]
