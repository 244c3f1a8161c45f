"""Done rows of a pipeline that count: those on which its last increment builds, and the first of them.

Owns the walk from row to row. Rule: a restatement continues from the row that it names, and leaves out all between. A
branch begins with the rows of the pipeline that it was forked from.
"""

from ..times import UNBOUNDED
from .ledger import Ledger, LedgerRow
from .ledger_rows import DoneRow
from .warehouse import Warehouse


def in_force(rows: list[LedgerRow[DoneRow]]) -> list[LedgerRow[DoneRow]]:
    """The done rows of a ledger that no restatement undid, in order: those that the last increment builds on."""
    before: dict[int, int] = {}
    last = -1  # below the 0 with which a branch from the start begins
    for row in rows:
        before[row.increment] = last if row.content.restates is None else row.content.restates
        last = row.increment
    chain = set()
    while last in before:
        chain.add(last)
        last = before[last]
    return [row for row in rows if row.increment in chain]


def first_in_force(
    warehouse: Warehouse, pipeline: str, increment: int = UNBOUNDED
) -> tuple[str, LedgerRow[DoneRow]] | None:
    """The row with which those in force as of ``increment`` begin, and the pipeline that has it: this one or the one
    that it was forked from. None: there is none.
    """
    rows = in_force(Ledger(warehouse.pipeline(pipeline).ledger).done_rows(highest=increment))
    if not rows:
        return None
    forked = rows[0].content.forked
    return (pipeline, rows[0]) if forked is None else first_in_force(warehouse, forked["pipeline"], forked["increment"])


def begins_with_application(warehouse: Warehouse, pipeline: str, increment: int = UNBOUNDED) -> bool:
    """Whether the rows as of ``increment`` continue an application's state (jobs/bootstrap). What the application wrote
    before is in no table.
    """
    first = first_in_force(warehouse, pipeline, increment)
    return first is not None and first[1].content.bootstrap is not None
