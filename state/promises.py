"""What an operator promises of rows that it leaves in tables, in numbers and names of tables alone.

Owns the words in which a topology's nodes (``jobs``) tell the checks (``expectations``) what must hold; neither knows
the other. Rule: a promise names tables as the ledger does ("outputs/x", "state/y"), and settings as the user gave them;
how it is judged stands beside the guarantee.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

WindowKind = Literal["time", "sliding", "session"]


class Grid(NamedTuple):
    """Where windows may lie. ``time``: ``[start, start + size)`` with a start at a multiple of the advance, counted
    from ``first_ms``; ``sliding``: ``[start, start + size]``; ``session``: ``[start, end]``. ``size_ms`` None: the end
    is not said (a session), or is the end of time (an unlimited window).
    """

    kind: WindowKind
    size_ms: int | None = None
    advance_ms: int | None = None
    first_ms: int = 0


@dataclass(frozen=True, slots=True)
class WindowedRows:
    """The rows of ``table`` have windows on ``grid`` (columns window_start_ms, window_end_ms)."""

    table: str
    grid: Grid


Promise = WindowedRows
