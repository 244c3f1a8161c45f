"""Records for a Python aggregator: many are decided at once, as if no aggregate became None.

Owns how many, and the restoring of the store. Rule: a None takes its aggregate out of the store before the next record
is decided, so decisions after it do not count. The store is restored, and the rows up to that one are decided again,
with the same results. The functions are called once for every record, in order, whatever is decided again. To go back
costs a copy of the store, so where a None is to be expected soon, rows are decided one by one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ....state.records.batches import Batch
from ...functions.folds.fold_program import FoldProgram
from ...functions.folds.python import PythonState
from .kernel_decisions import Decisions, joined

_ROWS_MAX = 65_536
"""Decided at once at most."""
_ROWS_MIN = 8
_SLOTS_PER_ROW = 256
"""So many slots are copied in the time that it takes to decide one row by itself."""


@dataclass
class DecidingAhead:
    """Over one store. ``decide``: the kernel over rows from, up to. ``keep``: gives what puts the store back to how it
    is. ``remove``: called after a row that left a None, or after every row, with its program, which was carried out.
    ``every_row``: for such a ``remove``, so rows are decided one by one.
    """

    state: PythonState
    decide: Callable[[Batch, int, int], Decisions]
    keep: Callable[[], Callable[[], None]]
    remove: Callable[[FoldProgram, PythonState], None]
    every_row: bool = False
    rows_since_null: int = field(default=_ROWS_MAX, init=False)
    """A speculative batch has at most twice as many rows."""

    def run(self, batch: Batch, begin: int, end: int, slots: int) -> Iterator[Decisions]:
        """What was decided of the rows, piece by piece, carried out; ``slots``: how many the store has."""
        least = max(_ROWS_MIN, slots // _SLOTS_PER_ROW)
        while begin < end:
            ahead = min(2 * self.rows_since_null, _ROWS_MAX, end - begin)
            if ahead >= least and not self.every_row:
                decided, begin = self._together(batch, begin, begin + ahead)
                yield decided
                continue
            stop = min(begin + least, end)
            yield joined([self._alone(batch, row) for row in range(begin, stop)])
            begin = stop

    def _alone(self, batch: Batch, row: int) -> Decisions:
        decided = self.decide(batch, row, row + 1)
        has_null = self.state.carry_out(decided.program, batch) >= 0
        self.rows_since_null = 0 if has_null else self.rows_since_null + 1
        if has_null or self.every_row:
            self.remove(decided.program, self.state)
        return decided

    def _together(self, batch: Batch, begin: int, end: int) -> tuple[Decisions, int]:
        """What was decided, and the row up to which."""
        put_back = self.keep()
        decided = self.decide(batch, begin, end)
        null = self.state.carry_out(decided.program, batch, stops=True)
        if null < 0:
            self.rows_since_null += end - begin
            return decided, end
        end = int(decided.program.arguments[null]) + 1
        put_back()
        decided = self.decide(batch, begin, end)
        flags, slots, arguments = decided.program
        self.state.carry_out(FoldProgram(flags[null + 1 :], slots[null + 1 :], arguments[null + 1 :]), batch)
        self.remove(FoldProgram(flags[null:], slots[null:], arguments[null:]), self.state)
        self.rows_since_null = 0
        return decided, end


def keeper(arrays: list[np.ndarray]) -> Callable[[], None]:
    """What puts ``arrays`` back to how they are now. Columns of one block are copied once."""
    owners = {id(owner): owner for owner in (array if array.base is None else array.base for array in arrays)}
    kept = [(owner, owner.copy()) for owner in owners.values()]

    def put_back() -> None:
        for owner, copy in kept:
            owner[...] = copy

    return put_back
