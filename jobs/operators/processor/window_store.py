"""Window stores of Python processors (InMemoryWindowStore, RocksDBWindowStore over segments).

Owns serialized keys with their window's start. Rule: a window expires by its start (expiring_rows.py).
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from ....state.errors import ConfigError
from ...functions.expressions import Windowed
from ...functions.state_stores import StoreBuilder, WindowStore
from ..base.operator import Counters, StoreContents
from .expiring_rows import ExpiringRows, Refused

_SEQUENCES = 0x7FFF_FFFF
_SUFFIX = 12
"""Bytes of a start and a sequence number."""


class Windows(ExpiringRows, WindowStore):
    """``keeper``: the processor that keeps its rows, named by key, start and sequence number."""

    def __init__(self, spec: StoreBuilder, keeper: str) -> None:
        super().__init__(spec, keeper)
        self._sequence = 0
        self._starts: dict[bytes, list[tuple[int, int]]] = {}
        """(start, sequence number) of each key, in order."""

    # --- write -----------------------------------------------------------------------------------------------

    def put(self, key: Any, value: Any, window_start_ms: int) -> None:
        data = self._key.encode(key)
        if window_start_ms < 0:
            raise ConfigError(self.place, "a window's start of 0 ms or more", f"{window_start_ms} ms", "correct it")
        keeps, spec = self.spec.retain_duplicates, self.spec
        coded = self._value.encode_put(value)
        if coded is None and keeps and spec.is_persistent:
            return
        self._time_ms = max(self._time_ms, window_start_ms)
        if keeps and (spec.is_persistent or (coded is not None and not self._is_refused(window_start_ms))):
            self._sequence = (self._sequence + 1) & _SEQUENCES
        if self._is_refused(window_start_ms):
            end_ms = window_start_ms + spec.window_size_ms
            limit_ms = self._time_ms - spec.retention_ms
            self.refused.append(Refused(window_start_ms, end_ms, self._time_ms, limit_ms))
        elif not (coded is None and keeps) and window_start_ms > self._time_ms - spec.retention_ms:
            self._put(_name(data, window_start_ms, self._sequence), coded)
        self._expire()

    def _add(self, name: bytes) -> None:
        super()._add(name)
        key, start_ms, sequence = _parts(name)
        insort(self._starts.setdefault(key, []), (start_ms, sequence))

    def _remove(self, name: bytes) -> None:
        super()._remove(name)
        key, start_ms, sequence = _parts(name)
        starts = self._starts[key]
        del starts[bisect_left(starts, (start_ms, sequence))]
        if not starts:
            del self._starts[key]

    def _time_of(self, name: bytes) -> int:
        return _parts(name)[1]

    def _place(self, name: bytes) -> bytes:
        key, start_ms, sequence = _parts(name)
        if self.spec.is_persistent:
            return (start_ms // self.spec.segment_ms).to_bytes(8, "big") + name
        suffix = sequence.to_bytes(4, "big") if self.spec.retain_duplicates else b""
        return start_ms.to_bytes(8, "big") + key + suffix

    def _name_at(self, place: bytes) -> bytes:
        if self.spec.is_persistent:
            return place[8:]
        start, rest = place[:8], place[8:]
        return rest[:-4] + start + rest[-4:] if self.spec.retain_duplicates else rest + start + bytes(4)

    # --- read ------------------------------------------------------------------------------------------------

    def fetch(self, key: Any, time_ms: int) -> Any:
        data = self._key.encode(key)
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

    def _between(self, key: Any, from_ms: int, to_ms: int) -> list[bytes]:
        data = self._key.encode(key)
        starts = self._starts.get(data, [])
        found = starts[bisect_left(starts, (from_ms, 0)) : bisect_right(starts, (to_ms, _SEQUENCES))]
        return [_name(data, *one) for one in found]

    def _of_keys(self, first: Any, last: Any, from_ms: int, to_ms: int) -> list[bytes]:
        low, high = (None if bound is None else self._key.encode(bound) for bound in (first, last))
        found = []
        for name in self._names_around(from_ms, to_ms):
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

    # --- state -----------------------------------------------------------------------------------------------

    def load(self, rows: pa.Table, counters: Counters) -> None:
        super().load(rows, counters)
        for name in sorted(self._rows):
            key, start_ms, sequence = _parts(name)
            insort(self._starts.setdefault(key, []), (start_ms, sequence))
        self._sequence = counters.get(f"{self.spec.name}_sequence", 0)

    def counters(self) -> Counters:
        return super().counters() | {f"{self.spec.name}_sequence": self._sequence}

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
