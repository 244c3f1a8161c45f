"""Stores of Python processors that forget: what stores of windows and of sessions have in common.

Owns the store's time, and what it refuses and forgets. Rule: the time is the largest that was put, refused puts too;
what is ``retention`` older than it, or more, is gone. An in-memory store refuses to put such, a persistent one only
what is in a segment that ended before, which is then not seen all the same.
"""

from abc import abstractmethod
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import pyarrow as pa

from ...functions.state_stores import StoreBuilder
from ..base.operator import Counters
from .stores import SerializedRows
from .value_coders import KeyCoder, coder_of

_LATEST = 2**63 - 1
"""Java's largest long."""


class Refused(NamedTuple):
    """A put of a window that started then, by the store's time; at ``limit_ms`` and below none is taken."""

    start_ms: int
    end_ms: int
    store_time_ms: int
    limit_ms: int


class ExpiringRows(SerializedRows):
    """``keeper``: the processor that keeps its rows. A place begins with the row's time; in a persistent store, with
    the segment of that time.
    """

    def __init__(self, spec: StoreBuilder, keeper: str) -> None:
        super().__init__()
        self.spec, self.keeper, self.place = spec, keeper, f"{keeper}, store {spec.name!r}"
        self._key, self._value = KeyCoder(spec.key, self.place), coder_of(spec, self.place)
        self._time_ms = -1
        self._oldest: list[tuple[int, bytes]] = []
        """A heap of (time, name of a row), for what expires; of rows that are gone already, too."""
        self.refused: list[Refused] = []
        """Since somebody took them."""

    @abstractmethod
    def _time_of(self, name: bytes) -> int:
        """By which a row expires."""

    @abstractmethod
    def _name_at(self, place: bytes) -> bytes:
        """The name of the row at ``place``."""

    def _is_refused(self, time_ms: int) -> bool:
        limit_ms = self._time_ms - self.spec.retention_ms
        if not self.spec.is_persistent:
            return time_ms <= limit_ms
        segment_ms = self.spec.segment_ms
        return time_ms // segment_ms < (limit_ms // segment_ms if limit_ms >= 0 else 0)

    def _add(self, name: bytes) -> None:
        super()._add(name)
        heappush(self._oldest, (self._time_of(name), name))

    def _expire(self) -> None:
        limit_ms = self._time_ms - self.spec.retention_ms
        while self._oldest and self._oldest[0][0] <= limit_ms:
            _, name = heappop(self._oldest)
            if name in self._rows:
                self._remove(name)

    def _in_order(self) -> list[bytes]:
        """Names of all rows."""
        return [self._name_at(place) for place in self._order.between(None, None)]

    def _names_around(self, from_ms: int, to_ms: int | None = None) -> list[bytes]:
        """In order, the names of all rows with times in ``[from_ms, to_ms]`` (None: no bound), and of some around."""
        unit = self.spec.segment_ms if self.spec.is_persistent else 1
        first = min(max(from_ms, 0), _LATEST) // unit
        last = None if to_ms is None else min(max(to_ms + 1, 0), _LATEST) // unit + 1
        bounds = (None if time is None else time.to_bytes(8, "big") for time in (first, last))
        return [self._name_at(place) for place in self._order.between(*bounds)]

    # --- state -----------------------------------------------------------------------------------------------

    def load(self, rows: pa.Table, counters: Counters) -> None:
        super().load(rows, counters)
        self._oldest = [(self._time_of(name), name) for name in self._rows]
        heapify(self._oldest)
        self._time_ms = counters.get(f"{self.spec.name}_time_ms", -1)

    def counters(self) -> Counters:
        return {f"{self.spec.name}_time_ms": self._time_ms}
