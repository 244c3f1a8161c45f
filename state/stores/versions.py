"""The working form of a versioned store (KIP-889): every key's versions by time, and the store's own stream time.

Owns memory only; puts and lookups are in jobs/operators/tables/versioned_store_kernel.py. A slot is a version ``[start,
end)`` of ``key``: ``reference`` is its value in the heap (TOMBSTONE: deleted), ``older`` the slot of the version before
it. ``heads[key code]`` is the key's newest version, and a long history has ``skip_lists``. The version with ``end``
LATEST is the one that ``get`` answers. A *mark* (``start == end``) is a deletion of a key that had no version. Rule: a
version whose end is not after ``stream time - history retention`` is never answered again, and no put depends on it, so
it is removed from the store. A latest one never is.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..records.keys import Keys
from ..serdes import Serde
from ..times import UNBOUNDED
from .skip_lists import SkipLists
from .slots import CHANGED, LIVE, LIVE_COUNT, OBSERVED_MS, STORED, Slots
from .value_heap import ValueHeap

LATEST = UNBOUNDED
"""``end`` of a latest version."""
TOMBSTONE = -1
NO_SLOT = -1
_KEPT_SLOTS = 65_536
"""Below this many versions a store is not swept."""


class VersionColumns(NamedTuple):
    """What kernels see of Versions. Shape (capacity,), but for ``counts``, ``heads``, ``skip_lists``; times in ms."""

    key: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    """Exclusive; LATEST, and that of a mark is its start."""
    reference: NDArray[np.int64]
    """Of the value in the heap, or TOMBSTONE."""
    older: NDArray[np.int64]
    """Slot of the version before, or NO_SLOT."""
    flags: NDArray[np.uint8]
    """LIVE, STORED, CHANGED."""
    free: NDArray[np.int32]
    """Free slots, a stack."""
    counts: NDArray[np.int64]
    """FREE_TOP, OBSERVED_MS, LIVE_COUNT."""
    heads: NDArray[np.int64]
    """Slot of a key's newest version by key code, or NO_SLOT."""
    skip_lists: tuple[np.ndarray, ...]
    """As in state/stores/skip_lists.py."""


class VersionSlots(Slots):
    """Versions; a durable row is named by key, start and whether it is a mark."""

    beside = ("reference", "older")
    is_indexed = False
    reference: np.ndarray
    older: np.ndarray

    def _identity(self, slots: np.ndarray) -> np.ndarray:
        columns = np.stack([self.key[slots], self.start[slots], self.start[slots] == self.end[slots]], axis=1)
        return np.ascontiguousarray(columns).view("V24").ravel()


class Versions:
    """Versions of the keys of ``keys`` with values of ``value``; ``retention_ms`` >= 0."""

    def __init__(self, keys: Keys, value: Serde, retention_ms: int) -> None:
        self.keys, self.retention_ms = keys, retention_ms
        self.slots = VersionSlots()
        self.heap = ValueHeap(value.arrow_type)
        self.heads = np.full(1024, NO_SLOT, np.int64)
        self.skip_lists = SkipLists()
        self._kept = 0

    @property
    def observed_ms(self) -> int:
        """Largest time of any accepted put; -1 before the first."""
        return self.slots.observed_stream_time_ms

    def columns(self) -> tuple[np.ndarray | tuple[np.ndarray, ...], ...]:
        """What kernels take as ``versions``: fields of VersionColumns; right until the next ``reserve``."""
        s = self.slots
        skip_lists = self.skip_lists.columns()
        return s.key, s.start, s.end, s.reference, s.older, s.flags, s.free, s.counts, self.heads, skip_lists

    def reserve(self, puts: int) -> None:
        """Make room for ``puts`` more, each of which may need two versions."""
        self.slots.reserve(2 * puts)
        self.cover()

    def cover(self) -> None:
        """Make room for every key so far."""
        if len(self.keys) > len(self.heads):
            heads = np.full(max(2 * len(self.heads), len(self.keys)), NO_SLOT, np.int64)
            heads[: len(self.heads)] = self.heads
            self.heads = heads
        self.skip_lists.reserve(len(self.heads), self.slots.capacity)

    def append(self, values: pa.Array, valid: np.ndarray) -> np.ndarray:
        """References of ``values``; TOMBSTONE where not ``valid``."""
        return np.where(valid, self.heap.append(values) + np.arange(len(values)), TOMBSTONE)

    def tidy(self) -> None:
        """Between chunks: forget versions of the past once they outweigh the rest, and values nobody refers to."""
        if int(self.slots.counts[LIVE_COUNT]) > 2 * self._kept + _KEPT_SLOTS:
            self.expire()
            self._kept = int(self.slots.counts[LIVE_COUNT])
        self.heap.keep_only(self.slots.reference)

    def expire(self) -> None:
        """Forget all that the history retention has passed; versions with a durable row leave a grave."""
        self.skip_lists.clear()
        s, limit = self.slots, self.observed_ms - self.retention_ms
        is_over = ((s.flags & LIVE) > 0) & (s.end <= limit)
        over = np.flatnonzero(is_over)
        if len(over):
            for links in (s.older, self.heads):
                links[(links >= 0) & is_over[links]] = NO_SLOT
            s.reference[over] = TOMBSTONE
            s.bury(over)
        self._trim(limit)

    def _trim(self, limit: int) -> None:
        """Forget deletions that history now begins with: they look the same as having had no version. Only their end
        matters when nothing else of history is left, and a mark keeps that.
        """
        s = self.slots
        is_bare = ((s.flags & LIVE) > 0) & (s.older == NO_SLOT) & (s.reference == TOMBSTONE)
        first = np.flatnonzero(is_bare & (s.start < s.end) & (s.start <= limit))
        if len(first) == 0:
            return
        linked = np.flatnonzero(((s.flags & LIVE) > 0) & (s.older >= 0) & (s.start < s.end))
        newer = np.full(s.capacity, NO_SLOT, np.int64)
        newer[s.older[linked]] = linked
        after = newer[first]
        is_alone = (after == NO_SLOT) | (s.end[after] == LATEST)
        self._link(s.key[first], after, np.full(len(first), NO_SLOT, np.int64))
        key, end, above = s.key[first[is_alone]], s.end[first[is_alone]], after[is_alone]
        s.bury(first)
        # It may take the slots of ``first``, which are free now: nothing of theirs is read behind this line.
        marks = s.add(key, end, end, end)
        s.flags[marks] = LIVE | CHANGED
        s.reference[marks], s.older[marks] = TOMBSTONE, NO_SLOT
        self._link(key, above, marks)

    def _link(self, key: np.ndarray, newer: np.ndarray, slots: np.ndarray) -> None:
        """Let ``slots`` be what is before the versions ``newer``, or the newest of their keys (NO_SLOT)."""
        is_head = newer == NO_SLOT
        self.heads[key[is_head]] = slots[is_head]
        self.slots.older[newer[~is_head]] = slots[~is_head]

    def load(
        self,
        key: np.ndarray,
        start: np.ndarray,
        end: np.ndarray,
        values: pa.Array,
        valid: np.ndarray,
        observed_ms: int,
        *,
        is_durable: bool,
    ) -> None:
        """Enter the versions of an empty store, in any order, and its stream time. ``is_durable``: they are rows of the
        durable table.
        """
        self.reserve(0)
        self.slots.counts[OBSERVED_MS] = observed_ms
        order = np.lexsort((end, start, key))
        key, start, end = key[order].astype(np.int64), start[order], end[order]
        slots = self.slots.add(key, start, end, start)
        self.slots.flags[slots] = LIVE | STORED if is_durable else LIVE
        self.slots.reference[slots] = self.append(values, valid)[order]
        is_first = np.append(True, key[1:] != key[:-1]) if len(key) else np.zeros(0, np.bool_)
        self.slots.older[slots] = np.where(is_first, NO_SLOT, np.roll(slots, 1))
        newest = np.append(is_first[1:], True) if len(key) else is_first
        self.heads[key[newest]] = slots[newest]
