"""Stores of Python processors that forget: what stores of windows and of sessions have in common.

Owns the store's time, and what it refuses and forgets. Rule: the time is the largest that was put, refused puts too;
what is ``retention`` older than it, or more, is gone. An in-memory store refuses to put such, a persistent one only
what is in a segment that ended before, which is then not seen all the same.
"""

from abc import abstractmethod
from functools import cached_property
from heapq import heappop, heappush
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import big_endian, big_endian_at
from ....state.serdes import Serde
from ...functions.state_stores import StoreBuilder
from ..base.changelogs import Changelog
from ..base.operator import Counters, StoreContents
from ..base.store_segments import is_put_expired
from .rows_of_store import RowsOfStore
from .sorted_rows import SortedRows
from .stores import SerializedRows
from .value_coders import KeyCoder, coder_of

_LATEST = 2**63 - 1
"""Java's largest long."""


class RefusedPut(NamedTuple):
    """A put of a window that started then, by the store's time; at ``limit_ms`` and below none is taken."""

    start_ms: int
    end_ms: int
    store_time_ms: int
    limit_ms: int


class ExpiringRows(SerializedRows):
    """``keeper``: the processor that keeps its rows. A sort key begins with the row's time; in a persistent store, with
    the segment of that time.
    """

    def __init__(self, spec: StoreBuilder, keeper: str) -> None:
        super().__init__(spec.name)
        self.spec, self.keeper, self.place = spec, keeper, f"{keeper}, store {spec.name!r}"
        self._key, self._coder = KeyCoder(spec.key, self.place), coder_of(spec, self.place)
        self._time_ms = -1
        self._oldest: list[tuple[int, bytes]] = []
        """A heap of (time, name of the row), by which rows expire. A row that was deleted stays in it until then."""
        self.refused: list[RefusedPut] = []
        """Since somebody took them."""

    @property
    def key(self) -> Serde:
        """Of its keys."""
        return self._key.serde

    def contents(self) -> StoreContents:
        """What it shows."""
        return self._contents(self._in_order())

    def contents_of(self, key: bytes) -> StoreContents:
        """What it shows of one serialized key."""
        return self._contents(self._rows_of(key, 0, _LATEST))

    @abstractmethod
    def _rows_of(self, key: bytes, first_ms: int, last_ms: int) -> list[tuple[bytes, bytes]]:
        """In order, the rows of a serialized key: windows that start in ``[first_ms, last_ms]``, sessions that end at
        ``first_ms`` or later and start at ``last_ms`` or earlier.
        """

    @abstractmethod
    def _contents(self, rows: list[tuple[bytes, bytes]]) -> StoreContents:
        """Rows as a reader sees them."""

    time_at: ClassVar[int]
    """Where the time by which a row expires begins in its name, counted from the end."""

    def _time_of(self, name: bytes) -> int:
        return int.from_bytes(name[self.time_at :][:8], "big")

    @abstractmethod
    def _sort_key(self, name: bytes) -> bytes:
        """Bytes by which rows are in order in memory."""

    @abstractmethod
    def _sort_keys(self, names: pa.BinaryArray) -> pa.BinaryArray:
        """As ``_sort_key``, of all ``names``."""

    def _is_refused(self, time_ms: int) -> bool:
        segment_ms = self.spec.segment_ms if self.spec.is_persistent else 0
        return is_put_expired(time_ms, self._time_ms - self.spec.retention_ms, segment_ms)

    def _put(self, name: bytes, value: bytes | None) -> None:
        if value is not None and self._seen.get(name) is None:
            heappush(self._oldest, (self._time_of(name), name))
        super()._put(name, value)

    def _expire(self) -> None:
        limit_ms = self._time_ms - self.spec.retention_ms
        while self._oldest and self._oldest[0][0] <= limit_ms:
            self._delete(heappop(self._oldest)[1])
        if self._stored:
            for name in self._stored_times.take_until(limit_ms):
                self._delete(name)

    def _delete(self, name: bytes) -> None:
        """The row, where it is not deleted already."""
        if self._value(name) is not None:
            self._put(name, None)

    @cached_property
    def _stored_times(self) -> "_StoredTimes":
        names, _ = self._stored.columns()
        return _StoredTimes(names, big_endian_at(names, self.time_at))

    @cached_property
    def _by_sort_key(self) -> SortedRows:
        names, values = self._stored.columns()
        if not self.spec.is_persistent:
            return self._followed(SortedRows(names, values, self._sort_keys(names), self._sort_key))
        segments = big_endian_at(names, self.time_at) // self.spec.segment_ms
        sort_keys = pc.binary_join_element_wise(big_endian(segments), names, pa.scalar(b"", pa.binary()))
        return self._followed(SortedRows(names, values, sort_keys, self._sort_key_in_segment))

    def _sort_key_in_segment(self, name: bytes) -> bytes:
        return (self._time_of(name) // self.spec.segment_ms).to_bytes(8, "big") + name

    def _in_order(self) -> list[tuple[bytes, bytes]]:
        """(name, value) of all rows."""
        return self._by_sort_key.between(None, None, self._seen)

    def _rows_around(self, from_ms: int, to_ms: int | None = None) -> list[tuple[bytes, bytes]]:
        """In order, the rows with times in ``[from_ms, to_ms]`` (None: no bound), and some around them."""
        unit = self.spec.segment_ms if self.spec.is_persistent else 1
        first = (min(max(from_ms, 0), _LATEST) // unit).to_bytes(8, "big")
        last = None if to_ms is None else (min(max(to_ms + 1, 0), _LATEST) // unit + 1).to_bytes(8, "big")
        return self._by_sort_key.between(first, last, self._seen)

    # --- state -----------------------------------------------------------------------------------------------

    def restored(self, log: Changelog) -> tuple[list[tuple[bytes, bytes]], Counters]:
        time_ms = int(big_endian_at(log.key, self.time_at).max(initial=-1))
        limit_ms = time_ms - self.spec.retention_ms
        rows = [row for row in self._restored(log) if self._time_of(row[0]) > limit_ms]
        return rows, {f"{self.spec.name}_time_ms": time_ms}

    def _logged_at(self, name: bytes, time_ms: int) -> int:
        return max(time_ms, self._time_of(name))

    def load(self, stored: RowsOfStore, counters: Counters) -> None:
        super().load(stored, counters)
        self._time_ms = counters.get(f"{self.spec.name}_time_ms", -1)

    def counters(self) -> Counters:
        return {f"{self.spec.name}_time_ms": self._time_ms}


class _StoredTimes:
    """Stored rows by the time at which they expire, of which no name is read before."""

    def __init__(self, names: pa.BinaryArray, times: np.ndarray) -> None:
        order = np.argsort(times, kind="stable")
        self._names, self._order, self._times, self._taken = names, order, times[order], 0

    def take_until(self, time_ms: int) -> list[bytes]:
        """Names of the rows with times up to ``time_ms`` that were not taken before."""
        if self._taken == len(self._times) or self._times[self._taken] > time_ms:
            return []
        first, self._taken = self._taken, int(np.searchsorted(self._times, time_ms, "right"))
        names: list[bytes] = self._names.take(pa.array(self._order[first : self._taken])).to_pylist()
        return names
