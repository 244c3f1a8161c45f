"""Window stores of Python processors (InMemoryWindowStore, RocksDBWindowStore over segments).

Owns serialized keys with their window's start. Rule: a window expires by its start (expiring_rows.py).
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ....state.times import whole_ms
from ...functions.expressions import Windowed
from ...functions.state_stores import StoreBuilder, WindowStore, key_of_window
from ..base.operator import Counters, StoreContents
from .expiring_rows import ExpiringRows, RefusedPut
from .rows_of_store import RowsOfStore

_SEQUENCES = 0x7FFF_FFFF
_LATEST = 2**63 - 1
_NAME_BYTES_MAX = 2**31 - 1
_SUFFIX = 12
"""Bytes of a start and a sequence number."""


class WindowStoreRows(ExpiringRows, WindowStore):
    """``keeper``: the processor that keeps its rows, named by key, start and sequence number."""

    time_at = -_SUFFIX

    def __init__(self, spec: StoreBuilder, keeper: str) -> None:
        super().__init__(spec, keeper)
        self._sequence = 0

    # --- write -----------------------------------------------------------------------------------------------

    def put(self, key: Any, value: Any, window_start_ms: int) -> None:
        data = self._key.encode(key)
        window_start_ms = whole_ms(window_start_ms, self.place, "a window's start", earliest=0)
        keeps, spec = self.spec.retain_duplicates, self.spec
        coded = self._coder.encode_put(value)
        # RocksDBWindowStore.put: a null would delete nothing among duplicates, so it does not even move the store's
        # time.
        if coded is None and keeps and spec.is_persistent:
            return
        self._time_ms = max(self._time_ms, window_start_ms)
        # maybeUpdateSeqnumForDups: RocksDBWindowStore counts before its segments refuse a put, InMemoryWindowStore only
        # what it takes.
        if keeps and (spec.is_persistent or (coded is not None and not self._is_refused(window_start_ms))):
            self._sequence = (self._sequence + 1) & _SEQUENCES
        if self._is_refused(window_start_ms):
            end_ms = window_start_ms + spec.window_size_ms
            limit_ms = self._time_ms - spec.retention_ms
            self.refused.append(RefusedPut(window_start_ms, end_ms, self._time_ms, limit_ms))
        elif not (coded is None and keeps) and window_start_ms > self._time_ms - spec.retention_ms:
            self._put(_name(data, window_start_ms, self._sequence), coded)
        self._expire()

    def _sort_key(self, name: bytes) -> bytes:
        """By start and key, and where a key and start may be there twice by the sequence number."""
        suffix = name[-4:] if self.spec.retain_duplicates else b""
        return name[-_SUFFIX:-4] + name[:-_SUFFIX] + suffix

    def _sort_keys(self, names: pa.BinaryArray) -> pa.BinaryArray:
        parts = [pc.binary_slice(names, -_SUFFIX, -4), pc.binary_slice(names, 0, -_SUFFIX)]
        if self.spec.retain_duplicates:
            parts.append(pc.binary_slice(names, -4, _NAME_BYTES_MAX))
        return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))

    # --- read ------------------------------------------------------------------------------------------------

    def fetch(self, key: Any, time_ms: int) -> Any:  # type: ignore[override]  # the base takes the other forms
        data, time_ms = self._key.encode(key), min(whole_ms(time_ms, self.place), _LATEST)
        # InMemoryWindowStore.fetch looks for the key without a sequence number, under which no duplicate is;
        # RocksDBWindowStore looks for the number of its last put.
        if time_ms < 0 or (self.spec.retain_duplicates and not self.spec.is_persistent):
            return None
        value = self._value(_name(data, time_ms, self._sequence))
        return None if value is None else self._coder.decode(value)

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

    def _between(self, key: Any, from_ms: int, to_ms: int) -> list[tuple[bytes, bytes]]:
        return self._rows_of(self._key.encode(key), whole_ms(from_ms, self.place), whole_ms(to_ms, self.place))

    def _rows_of(self, key: bytes, first_ms: int, last_ms: int) -> list[tuple[bytes, bytes]]:
        """Between them may be rows of longer keys that begin as the key does."""
        first_ms, last_ms = max(first_ms, 0), min(last_ms, _LATEST)
        if last_ms < first_ms:
            return []
        rows = self._by_name.between(_name(key, first_ms, 0), _name(key, last_ms, _SEQUENCES), self._seen)
        size = len(key) + _SUFFIX
        return [row for row in rows if len(row[0]) == size and first_ms <= _parts(row[0])[1] <= last_ms]

    def _of_keys(self, first: Any, last: Any, from_ms: int, to_ms: int) -> list[tuple[bytes, bytes]]:
        low, high = (None if bound is None else self._key.encode(bound) for bound in (first, last))
        from_ms, to_ms = whole_ms(from_ms, self.place), whole_ms(to_ms, self.place)
        rows = []
        for name, value in self._rows_around(from_ms, to_ms):
            key, start_ms, _ = _parts(name)
            is_key = (low is None or key >= low) and (high is None or key <= high)
            if is_key and from_ms <= start_ms <= to_ms:
                rows.append((name, value))
        return rows

    def _of_key(self, rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[int, Any]]:
        return ((_parts(name)[1], self._coder.decode(value)) for name, value in rows)

    def _windowed(self, rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[Windowed, Any]]:
        place, size_ms = self.place, self.spec.window_size_ms
        parted = ((*_parts(name), value) for name, value in rows)
        return (
            (key_of_window(place, self._key.decode(key), start_ms, start_ms + size_ms), self._coder.decode(value))
            for key, start_ms, _, value in parted
        )

    # --- state -----------------------------------------------------------------------------------------------

    def load(self, stored: RowsOfStore, counters: Counters) -> None:
        super().load(stored, counters)
        self._sequence = counters.get(f"{self.spec.name}_sequence", 0)

    def counters(self) -> Counters:
        return super().counters() | {f"{self.spec.name}_sequence": self._sequence}

    def _contents(self, rows: list[tuple[bytes, bytes]]) -> StoreContents:
        names = [name for name, _ in rows]
        key, starts = [_parts(name)[0] for name in names], [_parts(name)[1] for name in names]
        ends = [start + self.spec.window_size_ms for start in starts]
        columns = {
            "key": self.spec.key.decode(pa.array(key, pa.binary())).values,
            "window_start_ms": pa.array(starts, pa.int64()),
            "window_end_ms": pa.array(ends, pa.int64()),
            **self._coder.columns([value for _, value in rows]),
        }
        return StoreContents(self.spec.key, self.spec.value, pa.table(columns), "time")


def _name(key: bytes, start_ms: int, sequence: int) -> bytes:
    return key + start_ms.to_bytes(8, "big") + sequence.to_bytes(4, "big")


def _parts(name: bytes) -> tuple[bytes, int, int]:
    """Key, start and sequence number."""
    start, sequence = name[-_SUFFIX:-4], name[-4:]
    return name[:-_SUFFIX], int.from_bytes(start, "big"), int.from_bytes(sequence, "big")
