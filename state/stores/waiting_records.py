"""Records that wait for a match, in slots that stay where they are.

Owns memory only; who waits and in which order they leave is in
jobs/operators/joins/stream_join_unmatched_kernel.py.
"""

import numpy as np

KEY, SEQUENCE, SIDE, TIME, REFERENCE, RANK = range(6)
"""Columns of ``rows``: key code, number of the record (-1: the slot is free), side, record time, of the value, place in
the order of this call.
"""

_SLOTS_MIN = 1024


class WaitingRecords:
    """``rows`` int64 one row a slot, ``free`` int32 the stack of free slots, ``free_top`` int64 how many these are.

    ``order`` int32: slots in use, in the order in which they leave.
    """

    def __init__(self) -> None:
        self.rows = np.full((_SLOTS_MIN, 6), -1, np.int64)
        self.free = np.arange(_SLOTS_MIN - 1, -1, -1, dtype=np.int32)
        self.free_top = np.array([_SLOTS_MIN], np.int64)
        self.order = np.empty(0, np.int32)

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What kernels take; right until the next ``reserve``."""
        return self.rows, self.free, self.free_top

    def reserve(self, slots: int) -> None:
        """Make room for ``slots`` more."""
        old, top = len(self.rows), int(self.free_top[0])
        if slots <= top:
            return
        more = max(old, slots - top)
        self.rows = np.concatenate([self.rows, np.full((more, 6), -1, np.int64)])
        fresh = np.arange(old + more - 1, old - 1, -1, dtype=np.int32)
        self.free = np.concatenate([fresh, self.free[:top], np.empty(old - top, np.int32)])
        self.free_top[0] = top + more

    def add(
        self, key: np.ndarray, sequence: np.ndarray, side: np.ndarray, time_ms: np.ndarray, reference: np.ndarray
    ) -> np.ndarray:
        """Enter records; returns their slots."""
        self.reserve(len(key))
        top = int(self.free_top[0])
        slots = self.free[top - len(key) : top].copy()
        self.free_top[0] = top - len(key)
        for column, values in ((KEY, key), (SEQUENCE, sequence), (SIDE, side), (TIME, time_ms), (REFERENCE, reference)):
            self.rows[slots, column] = values
        return slots
