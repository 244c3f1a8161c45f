"""The working form of a store: rows as slots of parallel arrays that grow, with an index and a free list.

Owns memory only. The columns that a kernel reads of one slot are adjacent (``block``: a row a slot, with arrays as
views of its columns). The reason: slots are read at random and a cache miss costs more than all the arithmetic. Rule: a
slot is *live* (found by key), *free*, or a *grave*: removed in this increment while the durable table still has its
row. Of a grave a deleted mark must be written. Kernels allocate and remove slots; between two kernel calls ``reserve``
makes room, since a kernel cannot.
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import slot_index

LIVE = 1
STORED = 2
"""The durable table has a row of this slot."""
CHANGED = 4
"""The slot differs from the durable row."""

FREE_TOP, OBSERVED_MS, LIVE_COUNT = 0, 1, 2
"""Places in ``Slots.counts``: free slots left, the store's own stream time (-1: none yet), live slots."""


class SlotColumns(NamedTuple):
    """What kernels see of Slots. Shape (capacity,), but for ``table`` and ``counts``; times in ms, bounds inclusive."""

    key: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    time: NDArray[np.int64]
    flags: NDArray[np.uint8]
    """LIVE, STORED, CHANGED."""
    table: NDArray[np.int32]
    """Index by (key, start, end): state/stores/slot_index.py."""
    free: NDArray[np.int32]
    """Free slots, a stack."""
    counts: NDArray[np.int64]
    """FREE_TOP, OBSERVED_MS, LIVE_COUNT."""


class Slots:
    """Columns, one element a slot: ``key`` (code), ``start``/``end``/``time`` (ms) int64, ``flags`` uint8.

    ``table`` int32 is the index of slot_index, ``free`` int32 the stack of free slots, ``counts`` int64 the numbers
    that kernels change. ``beside`` names further int64 columns of the block, ``extra`` further arrays and their types.
    """

    beside: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[Mapping[str, type]] = {}
    is_indexed = True
    """False: found by other means than the index, which is then not kept."""

    def __init__(self, capacity: int = 1024) -> None:
        self.capacity = 0
        self.key = self.start = self.end = self.time = np.empty(0, np.int64)
        self.flags = np.empty(0, np.uint8)
        self.free = np.empty(0, np.int32)
        self.table = np.empty(0, np.int32)
        self.counts = np.array([0, -1, 0], np.int64)
        for name, dtype in self.extra.items():
            setattr(self, name, np.empty(0, dtype))
        self._grow(capacity)

    @property
    def observed_stream_time_ms(self) -> int:
        return int(self.counts[OBSERVED_MS])

    def columns(self) -> tuple[np.ndarray, ...]:
        """What kernels take as ``slots``: fields of SlotColumns; right until the next ``reserve``."""
        return self.key, self.start, self.end, self.time, self.flags, self.table, self.free, self.counts

    def reserve(self, slots: int) -> None:
        """Make room for ``slots`` more live slots."""
        missing = slots - int(self.counts[FREE_TOP])
        if missing > 0:
            self._grow(max(self.capacity * 2, self.capacity + missing))

    def live(self) -> np.ndarray:
        return np.flatnonzero(self.flags & LIVE)

    def changed(self) -> np.ndarray:
        """Live slots that differ from their durable row."""
        return np.flatnonzero((self.flags & (LIVE | CHANGED)) == (LIVE | CHANGED))

    def graves(self) -> np.ndarray:
        """Removed slots whose row the durable table still has, and that no live slot replaces."""
        graves = np.flatnonzero((self.flags & (LIVE | STORED)) == STORED)
        if len(graves) == 0:
            return graves
        return graves[~np.isin(self._identity(graves), self._identity(self.changed()))]

    def _identity(self, slots: np.ndarray) -> np.ndarray:
        """(key, start, end) of ``slots`` as one comparable value each."""
        columns = np.stack([self.key[slots].astype(np.int64), self.start[slots], self.end[slots]], axis=1)
        return np.ascontiguousarray(columns).view("V24").ravel()

    def add(self, key: np.ndarray, start: np.ndarray, end: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Enter rows read from the durable table; returns their slots."""
        self.reserve(len(key))
        top = int(self.counts[FREE_TOP])
        slots = self.free[top - len(key) : top][::-1].astype(np.int64)
        self.counts[FREE_TOP] = top - len(key)
        self.counts[LIVE_COUNT] += len(key)
        self.key[slots], self.start[slots], self.end[slots], self.time[slots] = key, start, end, time
        self.flags[slots] = LIVE | STORED
        self._index()
        return slots

    def release(self, slots: np.ndarray) -> None:
        """Free live slots whose time is over. The index is built again, so release many at once."""
        if len(slots) == 0:
            return
        top = int(self.counts[FREE_TOP])
        self.free[top : top + len(slots)] = slots
        self.counts[FREE_TOP] = top + len(slots)
        self.counts[LIVE_COUNT] -= len(slots)
        self.flags[slots] = 0
        self._index()

    def bury(self, slots: np.ndarray) -> None:
        """As ``release``, and those that the durable table has stay behind as graves."""
        is_stored = self.flags[slots] & STORED > 0
        self.flags[slots[is_stored]] = STORED
        self.counts[LIVE_COUNT] -= int(is_stored.sum())
        if is_stored.any():
            self._index()
        self.release(slots[~is_stored])

    def _index(self) -> None:
        if self.is_indexed:
            slot_index.rebuild(self.table, self.key, self.start, self.end, self.flags)

    def _grow(self, capacity: int) -> None:
        grown = capacity - self.capacity
        names = ("key", "start", "end", "time", *self.beside)
        block = np.zeros((capacity, len(names)), np.int64)
        for column, name in enumerate(names):
            block[: self.capacity, column] = getattr(self, name, ())
            setattr(self, name, block[:, column])
        for name in ("flags", *self.extra):
            old = getattr(self, name)
            new = np.zeros(capacity, old.dtype)
            new[: self.capacity] = old
            setattr(self, name, new)
        free = np.empty(capacity, np.int32)
        top = int(self.counts[FREE_TOP])
        # New slots go below the freed ones and in falling order, so that the lowest number is taken first.
        free[:grown] = np.arange(capacity - 1, self.capacity - 1, -1)
        free[grown : grown + top] = self.free[:top]
        self.free = free
        self.counts[FREE_TOP] = top + grown
        self.capacity = capacity
        self.table = np.empty(1 << (2 * capacity - 1).bit_length() if self.is_indexed else 0, np.int32)
        self._index()
