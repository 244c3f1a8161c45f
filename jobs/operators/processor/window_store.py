"""Window stores of Python processors (InMemoryWindowStore, RocksDBWindowStore over segments).

Owns serialized keys with their window's start. Rule: the store's time is the largest start that was put, refused ones
too; what started ``retention`` before that or earlier is gone. An in-memory store refuses to put such, a persistent one
only what is in a segment that ended before, which is then not seen all the same.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import pyarrow as pa

from ....state.errors import ConfigError
from ...functions.expressions import Windowed
from ...functions.processor_api import ValueAndTimestamp
from ...functions.state_stores import TIMESTAMPED_WINDOW, StoreBuilder, WindowStore
from ..operator import Counters, StoreContents
from .stores import Coder, OrderedKeys, TimestampedCoder

_SEQUENCES = 0x7FFF_FFFF
_SUFFIX = 12
"""Bytes of a start and a sequence number."""


class Refused(NamedTuple):
    """A put of a window that started then, by the store's time; at ``limit_ms`` and below none is taken."""

    start_ms: int
    end_ms: int
    store_time_ms: int
    limit_ms: int


class Windows(WindowStore):
    """``keeper``: the processor that keeps its rows."""

    def __init__(self, spec: StoreBuilder, keeper: str) -> None:
        self.spec, self.keeper, self.place = spec, keeper, f"{keeper}, store {spec.name!r}"
        self._key = Coder(spec.key)
        self._value = (TimestampedCoder if spec.kind == TIMESTAMPED_WINDOW else Coder)(spec.value, self.place)
        self._time_ms, self._sequence = -1, 0
        self._rows: dict[bytes, bytes] = {}
        """By key, start and sequence number, as Kafka's changelog has them."""
        self._order = OrderedKeys([])
        """Places of all rows."""
        self._starts: dict[bytes, list[tuple[int, int]]] = {}
        """(start, sequence number) of each key, in order."""
        self._oldest: list[tuple[int, bytes]] = []
        """A heap of (start, name of a row), for what expires; of rows that are deleted already, too."""
        self._durable: set[bytes] = set()
        self._changed: set[bytes] = set()
        self.refused: list[Refused] = []
        """Since somebody took them."""

    # --- write -----------------------------------------------------------------------------------------------

    def put(self, key: Any, value: Any, window_start_ms: int) -> None:
        data = self._bytes(key)
        if window_start_ms < 0:
            raise ConfigError(self.place, "a window's start of 0 ms or more", f"{window_start_ms} ms", "correct it")
        if isinstance(value, ValueAndTimestamp) and value.value is None:
            value = None
        keeps, spec = self.spec.retain_duplicates, self.spec
        if value is None and keeps and spec.is_persistent:
            return
        coded = None if value is None else self._value.encode(value)
        self._time_ms = max(self._time_ms, window_start_ms)
        if keeps and (spec.is_persistent or (coded is not None and not self._is_refused(window_start_ms))):
            self._sequence = (self._sequence + 1) & _SEQUENCES
        if self._is_refused(window_start_ms):
            end_ms = window_start_ms + spec.window_size_ms
            limit_ms = self._time_ms - spec.retention_ms
            self.refused.append(Refused(window_start_ms, end_ms, self._time_ms, limit_ms))
        elif not (coded is None and keeps) and window_start_ms > self._time_ms - spec.retention_ms:
            self._put(data, window_start_ms, coded)
        self._expire()

    def _is_refused(self, start_ms: int) -> bool:
        limit_ms = self._time_ms - self.spec.retention_ms
        if not self.spec.is_persistent:
            return start_ms <= limit_ms
        segment_ms = self.spec.segment_ms
        return start_ms // segment_ms < (limit_ms // segment_ms if limit_ms >= 0 else 0)

    def _put(self, key: bytes, start_ms: int, value: bytes | None) -> None:
        name = _name(key, start_ms, self._sequence)
        self._changed.add(name)
        if value is None:
            if name in self._rows:
                self._remove(name)
            return
        if name not in self._rows:
            self._add(name)
        self._rows[name] = value

    def _add(self, name: bytes) -> None:
        key, start_ms, sequence = _parts(name)
        self._order.add(self._place(key, start_ms, sequence))
        insort(self._starts.setdefault(key, []), (start_ms, sequence))
        heappush(self._oldest, (start_ms, name))

    def _remove(self, name: bytes) -> None:
        key, start_ms, sequence = _parts(name)
        del self._rows[name]
        self._order.remove(self._place(key, start_ms, sequence))
        starts = self._starts[key]
        del starts[bisect_left(starts, (start_ms, sequence))]
        if not starts:
            del self._starts[key]

    def _expire(self) -> None:
        limit_ms = self._time_ms - self.spec.retention_ms
        while self._oldest and self._oldest[0][0] <= limit_ms:
            _, name = heappop(self._oldest)
            if name in self._rows:
                self._remove(name)

    def _place(self, key: bytes, start_ms: int, sequence: int) -> bytes:
        """Bytes by which rows are in order."""
        if self.spec.is_persistent:
            return (start_ms // self.spec.segment_ms).to_bytes(8, "big") + _name(key, start_ms, sequence)
        suffix = sequence.to_bytes(4, "big") if self.spec.retain_duplicates else b""
        return start_ms.to_bytes(8, "big") + key + suffix

    def _named(self, place: bytes) -> bytes:
        """The name of the row at ``place``."""
        if self.spec.is_persistent:
            return place[8:]
        start, rest = place[:8], place[8:]
        return rest[:-4] + start + rest[-4:] if self.spec.retain_duplicates else rest + start + bytes(4)

    # --- read ------------------------------------------------------------------------------------------------

    def fetch(self, key: Any, time_ms: int) -> Any:
        data = self._bytes(key)
        if time_ms < 0 or (self.spec.retain_duplicates and not self.spec.is_persistent):
            return None
        found = self._rows.get(_name(data, time_ms, self._sequence))
        return None if found is None else self._value.decode(found)

    def fetch_range(self, key: Any, from_ms: int, to_ms: int) -> Iterator[tuple[int, Any]]:
        return self._of_key(self._between(key, from_ms, to_ms))

    def backward_fetch_range(self, key: Any, from_ms: int, to_ms: int) -> Iterator[tuple[int, Any]]:
        return self._of_key(self._between(key, from_ms, to_ms)[::-1])

    def fetch_keys(self, first: Any, last: Any, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return self._windowed(self._of_keys(first, last, from_ms, to_ms))

    def backward_fetch_keys(self, first: Any, last: Any, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return self._windowed(self._of_keys(first, last, from_ms, to_ms)[::-1])

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return self._windowed(self._of_keys(None, None, from_ms, to_ms))

    def backward_fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return self._windowed(self._of_keys(None, None, from_ms, to_ms)[::-1])

    def all(self) -> Iterator[tuple[Windowed, Any]]:
        return self._windowed(self._in_order())

    def backward_all(self) -> Iterator[tuple[Windowed, Any]]:
        return self._windowed(self._in_order()[::-1])

    def _in_order(self) -> list[bytes]:
        return [self._named(place) for place in self._order.between(None, None)]

    def _between(self, key: Any, from_ms: int, to_ms: int) -> list[bytes]:
        data = self._bytes(key)
        starts = self._starts.get(data, [])
        found = starts[bisect_left(starts, (from_ms, 0)) : bisect_right(starts, (to_ms, _SEQUENCES))]
        return [_name(data, *one) for one in found]

    def _of_keys(self, first: Any, last: Any, from_ms: int, to_ms: int) -> list[bytes]:
        low, high = (None if bound is None else self._bytes(bound) for bound in (first, last))
        begin_ms, end_ms = max(from_ms, 0), max(to_ms + 1, 0)
        unit = self.spec.segment_ms if self.spec.is_persistent else 1
        bounds = (begin_ms // unit).to_bytes(8, "big"), (end_ms // unit + 1).to_bytes(8, "big")
        found = []
        for place in self._order.between(*bounds):
            name = self._named(place)
            key, start_ms, _ = _parts(name)
            is_key = (low is None or key >= low) and (high is None or key <= high)
            if is_key and from_ms <= start_ms <= to_ms:
                found.append(name)
        return found

    def _of_key(self, names: Iterable[bytes]) -> Iterator[tuple[int, Any]]:
        rows = [(_parts(name)[1], self._rows[name]) for name in names]
        return ((start_ms, self._value.decode(value)) for start_ms, value in rows)

    def _windowed(self, names: Iterable[bytes]) -> Iterator[tuple[Windowed, Any]]:
        rows = [(*_parts(name), self._rows[name]) for name in names]
        size_ms = self.spec.window_size_ms
        return (
            (Windowed(self._key.decode(key), start_ms, start_ms + size_ms), self._value.decode(value))
            for key, start_ms, _, value in rows
        )

    def _bytes(self, key: Any) -> bytes:
        if key is None:
            raise ConfigError(self.place, "a key", "None", "leave records without a key alone")
        return self._key.encode(key)

    # --- state -----------------------------------------------------------------------------------------------

    def load(self, rows: pa.Table, counters: Counters) -> None:
        """Take back what ``alive`` and ``counters`` gave."""
        self._rows = dict(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))
        self._durable = set(self._rows)
        self._order = OrderedKeys(sorted(self._place(*_parts(name)) for name in self._rows))
        self._oldest = [(_parts(name)[1], name) for name in self._rows]
        heapify(self._oldest)
        for name in sorted(self._rows):
            key, start_ms, sequence = _parts(name)
            insort(self._starts.setdefault(key, []), (start_ms, sequence))
        self._time_ms = counters.get(f"{self.spec.name}_time_ms", -1)
        self._sequence = counters.get(f"{self.spec.name}_sequence", 0)

    def counters(self) -> Counters:
        return {f"{self.spec.name}_time_ms": self._time_ms, f"{self.spec.name}_sequence": self._sequence}

    def alive(self, *, only_changed: bool) -> list[tuple[bytes, bytes]]:
        """(name, serialized value), in order of the names; those that changed since ``load``, or all."""
        return [(name, self._rows[name]) for name in sorted(self._rows) if not only_changed or name in self._changed]

    def gone(self) -> list[bytes]:
        """Names of rows that were there at ``load`` and are not any more."""
        return sorted(self._durable - self._rows.keys())

    def contents(self) -> StoreContents:
        """What it shows."""
        names = self._in_order()
        key, starts = [_parts(name)[0] for name in names], [_parts(name)[1] for name in names]
        ends = [start + self.spec.window_size_ms for start in starts]
        columns = {
            "key": self.spec.key.decode(pa.array(key, pa.binary())).values,
            "window_start_ms": pa.array(starts, pa.int64()),
            "window_end_ms": pa.array(ends, pa.int64()),
            **self._value.columns([self._rows[name] for name in names]),
        }
        return StoreContents(self.spec.key, self.spec.value, pa.table(columns), "time")


def _name(key: bytes, start_ms: int, sequence: int) -> bytes:
    return key + start_ms.to_bytes(8, "big") + sequence.to_bytes(4, "big")


def _parts(name: bytes) -> tuple[bytes, int, int]:
    """Key, start and sequence number."""
    start, sequence = name[-_SUFFIX:-4], name[-4:]
    return name[:-_SUFFIX], int.from_bytes(start, "big"), int.from_bytes(sequence, "big")
