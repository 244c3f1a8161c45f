"""The working form of a table: one slot for every key (and window) that ever occurred, whether it has a value or not.

Owns memory only. Rule: a slot is found once for every row, compiled, and is a plain number from then on; a plain key's
slot is its code, a windowed key's slot is found through the index. ``reference`` says where the value is, NO_REFERENCE
that there is none: a deletion keeps its slot until the increment ends, so that slots need no order of removal.
"""

from typing import ClassVar

import numpy as np

from ..compilation.kernel_compilation import kernel
from .slot_index import find, insert
from .slots import CHANGED, FREE_TOP, LIVE, LIVE_COUNT, STORED, Slots
from .value_heap import NO_REFERENCE


class TableSlots(Slots):
    """``reference`` int64: of the value. ``newest`` int64: for a kernel's own notes, 0 between two calls."""

    beside: ClassVar[tuple[str, ...]] = ("reference", "newest")
    reference: np.ndarray
    newest: np.ndarray

    def __init__(self, *, is_windowed: bool, capacity: int = 1024) -> None:
        self.is_indexed = is_windowed
        super().__init__(capacity)

    def enter(self, key: np.ndarray, start: np.ndarray | None, end: np.ndarray | None) -> np.ndarray:
        """Slot of every row's key (a code, not NULL_CODE) and window; new keys get one."""
        if not self.is_indexed:
            most = int(key.max(initial=-1)) + 1
            if most > self.capacity:
                self._grow(max(2 * self.capacity, most))
            at = key.astype(np.int64)
            self.key[at] = at
            self.flags[at] |= LIVE
            return at
        assert start is not None
        assert end is not None
        self.reserve(len(key))
        at = np.empty(len(key), np.int64)
        with np.errstate(over="ignore"):  # the hash wraps; NumPy would say so when JIT is off
            enter_windows(key, start, end, self.columns(), self.reference, at)
        return at

    def find(self, key: np.ndarray, start: np.ndarray | None, end: np.ndarray | None) -> np.ndarray:
        """Slot of every row's key and window, -1 for one that never occurred and for NULL_CODE."""
        if not self.is_indexed:
            return np.where(key < self.capacity, key, -1).astype(np.int64)
        assert start is not None
        assert end is not None
        at = np.empty(len(key), np.int64)
        with np.errstate(over="ignore"):
            find_windows(key, start, end, self.columns(), at)
        return at

    def live(self) -> np.ndarray:
        """Slots that have a value."""
        return np.flatnonzero(self.reference != NO_REFERENCE)

    def changed(self) -> np.ndarray:
        return np.flatnonzero((self.reference != NO_REFERENCE) & (self.flags & CHANGED > 0))

    def graves(self) -> np.ndarray:
        """Slots whose row the durable table still has, and that have no value any more."""
        return np.flatnonzero((self.reference == NO_REFERENCE) & (self.flags & STORED > 0))

    def _grow(self, capacity: int) -> None:
        before = self.capacity
        super()._grow(capacity)
        self.reference[before:] = NO_REFERENCE


@kernel
def enter_windows(key, start, end, slots, reference, at):  # type: ignore[no-untyped-def]
    """Fill ``at`` with the slot of each (key, start, end), taking a free one for those that have none."""
    s_key, s_start, s_end, _, s_flags, table, free, counts = slots
    for row in range(key.shape[0]):
        slot = find(table, s_key, s_start, s_end, key[row], start[row], end[row])
        if slot < 0:
            counts[FREE_TOP] -= 1
            counts[LIVE_COUNT] += 1
            slot = free[counts[FREE_TOP]]
            s_key[slot], s_start[slot], s_end[slot], s_flags[slot] = key[row], start[row], end[row], LIVE
            reference[slot] = NO_REFERENCE
            insert(table, s_key, s_start, s_end, slot)
        at[row] = slot


@kernel
def find_windows(key, start, end, slots, at):  # type: ignore[no-untyped-def]
    """Fill ``at`` with the slot of each (key, start, end), -1 where there is none."""
    s_key, s_start, s_end, _, _, table, _, _ = slots
    for row in range(key.shape[0]):
        at[row] = -1
        if key[row] >= 0:
            at[row] = find(table, s_key, s_start, s_end, key[row], start[row], end[row])
