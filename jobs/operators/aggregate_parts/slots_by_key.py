"""The store of session and sliding windows: slots, found by their key's list
(jobs/operators/aggregate_parts/slots_by_key_kernel.py).
"""

import numpy as np

from ....state.errors import ConfigError
from ....state.stores.skip_lists import SkipLists
from ....state.stores.slots import CHANGED, LIVE, Slots
from . import slots_by_key_kernel
from .aggregate import Aggregate


class ListedSlots(Slots):
    """Slots and, for every one, the window of its key that ends before it; ``head``: by key code, the last to end."""

    beside = ("following",)
    is_indexed = False
    following: np.ndarray

    def __init__(self) -> None:
        super().__init__()
        self.head = np.empty(0, np.int32)
        self.skip_lists = SkipLists()

    def reserve_keys(self, keys: int) -> None:
        """Make room for keys of codes below ``keys``."""
        more = keys - len(self.head)
        if more > 0:
            self.head = np.concatenate([self.head, np.full(more, slots_by_key_kernel.NO_SLOT, np.int32)])
        self.skip_lists.reserve(keys, self.capacity)

    @property
    def lists(self) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """What kernels take as ``lists``; right until the next ``reserve``."""
        return self.head, self.following, self.skip_lists.columns()


class ListedAggregate(Aggregate):
    """An aggregate over ListedSlots."""

    slots: ListedSlots

    def _reserve_keys(self) -> None:
        self.slots.reserve_keys(len(self.context.keys))

    def _arrays(self) -> list[np.ndarray]:
        head, following, skip_lists = self.slots.lists
        return [*super()._arrays(), head, following, *skip_lists]

    def _released(self) -> None:
        self._reserve_keys()
        self.slots.skip_lists.clear()
        live = self.slots.live()
        by_end = live[np.argsort(self.slots.end[live], kind="stable")]
        slots_by_key_kernel.relink(by_end, self.slots.columns(), self.slots.lists)

    def _slot_of(self, key: int, start_ms: int, end_ms: int, *, enters: bool) -> int:
        """Raises ConfigError for a new window that is not apart from the others of its key."""
        self._reserve_keys()
        head, following, _ = self.slots.lists
        slot = int(head[key])
        while slot != slots_by_key_kernel.NO_SLOT:
            start, end = int(self.slots.start[slot]), int(self.slots.end[slot])
            if (start, end) == (start_ms, end_ms):
                self.slots.flags[slot] |= CHANGED if enters else 0
                return slot
            if enters and start <= end_ms and end >= start_ms:
                expected, got = "sessions of a key that are apart", f"one that overlaps that from {start} to {end} ms"
                raise ConfigError("", expected, got, "remove the other first, or put one session for both")
            slot = int(following[slot])
        if not enters:
            return slots_by_key_kernel.NO_SLOT
        entered: int = slots_by_key_kernel.enter_window(self.slots.columns(), self.slots.lists, key, start_ms, end_ms)
        return entered

    def _remove(self, slot: int) -> None:
        if self.slots.flags[slot] & LIVE:
            slots_by_key_kernel.unlink(self.slots.columns(), self.slots.lists, slot)
