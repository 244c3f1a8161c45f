"""Session stores of Python processors (InMemorySessionStore, RocksDBSessionStore over segments).

Owns serialized keys with their session's bounds. Rule: a session expires by its end (expiring_rows.py).
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import big_endian, big_endian_at
from ....state.errors import ConfigError
from ....state.times import FOREVER, whole_ms
from ...functions.expressions import Windowed
from ...functions.processor_api import NOT_GIVEN
from ...functions.session_and_versioned_stores import SessionStore
from ..base.operator import StoreContents
from .expiring_rows import ExpiringRows, RefusedPut

_LATEST = 2**63 - 1
_BOUNDS = 16
"""Bytes of an end and a start."""


class SessionStoreRows(ExpiringRows, SessionStore):
    """``keeper``: the processor that keeps its rows, named by key, end and start."""

    time_at = -_BOUNDS

    # --- write -----------------------------------------------------------------------------------------------

    def put(self, session_key: Windowed, aggregate: Any) -> None:
        name = self._named(session_key)
        coded = self._coder.encode_put(aggregate)
        end_ms = session_key.window_end_ms
        self._time_ms = max(self._time_ms, end_ms)
        limit_ms = self._time_ms - self.spec.retention_ms
        if self._is_refused(end_ms):
            self.refused.append(RefusedPut(session_key.window_start_ms, end_ms, self._time_ms, limit_ms))
        elif end_ms > limit_ms:
            self._put(name, coded)
        self._expire()

    def remove(self, session_key: Windowed) -> None:
        name = self._named(session_key)
        # AbstractRocksDBSegmentedBytesStore.remove moves the store's time, InMemorySessionStore.remove does not.
        if self.spec.is_persistent:
            self._time_ms = max(self._time_ms, session_key.window_end_ms)
        self._put(name, None)
        self._expire()

    def _sort_key(self, name: bytes) -> bytes:
        """By end, key and start, the latest start first."""
        key, start_ms, _ = _parts(name)
        return name[-_BOUNDS:-8] + key + (FOREVER - start_ms).to_bytes(8, "big")

    def _sort_keys(self, names: pa.BinaryArray) -> pa.BinaryArray:
        ends, keys = pc.binary_slice(names, -_BOUNDS, -8), pc.binary_slice(names, 0, -_BOUNDS)
        starts = big_endian(FOREVER - big_endian_at(names, -8))
        return pc.binary_join_element_wise(ends, keys, starts, pa.scalar(b"", pa.binary()))

    # --- read ------------------------------------------------------------------------------------------------

    def fetch_session(self, key: Any, session_start_ms: int, session_end_ms: int) -> Any:
        data, bounds = self._key.encode(key), (session_start_ms, session_end_ms)
        start_ms, end_ms = (whole_ms(bound, self.place) for bound in bounds)
        value = self._value(_name(data, start_ms, end_ms)) if 0 <= start_ms <= end_ms < FOREVER else None
        return None if value is None else self._coder.decode(value)

    def fetch(self, key: Any, last: Any = NOT_GIVEN) -> Iterator[tuple[Windowed, Any]]:
        return self._shown(self._of(key, last))

    def backward_fetch(self, key: Any, last: Any = NOT_GIVEN) -> Iterator[tuple[Windowed, Any]]:
        return self._shown(self._of(key, last)[::-1])

    def _of(self, key: Any, last: Any) -> list[tuple[bytes, bytes]]:
        if last is NOT_GIVEN:
            self._key.encode(key)
        return self._between(key, key if last is NOT_GIVEN else last, 0, FOREVER)

    def find_sessions(self, *bounds: Any) -> Iterator[tuple[Windowed, Any]]:
        return self._shown(self._found(bounds))

    def backward_find_sessions(self, *bounds: Any) -> Iterator[tuple[Windowed, Any]]:
        return self._shown(self._found(bounds)[::-1])

    def _found(self, bounds: tuple[Any, ...]) -> list[tuple[bytes, bytes]]:
        if len(bounds) not in (2, 3, 4):
            expected = "a key, or two, the earliest end and the latest start; or the earliest and the latest end"
            raise ConfigError(self.place, expected, f"{len(bounds)} arguments", "correct the call")
        *keys, first, second = bounds
        first, second = whole_ms(first, self.place), whole_ms(second, self.place)
        if not keys:
            if self.spec.is_persistent:
                got, next_step = (
                    "of a persistent one, which Kafka's cannot either",
                    "use Stores.in_memory_session_store",
                )
                raise ConfigError(self.place, "sessions of all keys of an in-memory store", got, next_step)
            return [row for row in self._rows_around(first, second) if first <= _parts(row[0])[2] <= second]
        if len(keys) == 1:
            self._key.encode(keys[0])
        return self._between(keys[0], keys[-1], first, second)

    def _between(self, first: Any, last: Any, earliest_end_ms: int, latest_start_ms: int) -> list[tuple[bytes, bytes]]:
        low, high = (None if bound is None else self._key.encode(bound) for bound in (first, last))
        if low is not None and low == high:
            return self._rows_of(low, earliest_end_ms, latest_start_ms)
        rows = []
        for name, value in self._rows_around(earliest_end_ms):
            key, start_ms, end_ms = _parts(name)
            is_key = (low is None or key >= low) and (high is None or key <= high)
            if is_key and end_ms >= earliest_end_ms and start_ms <= latest_start_ms:
                rows.append((name, value))
        return rows

    def _rows_of(self, key: bytes, first_ms: int, last_ms: int) -> list[tuple[bytes, bytes]]:
        """Between them may be rows of longer keys that begin as the key does."""
        first_ms = min(max(first_ms, 0), _LATEST)
        rows = self._by_name.between(_name(key, 0, first_ms), _name(key, _LATEST, _LATEST), self._seen)
        size, sort_key = len(key) + _BOUNDS, self._sort_key_in_segment if self.spec.is_persistent else self._sort_key
        of_key = [row for row in rows if len(row[0]) == size and _parts(row[0])[1] <= last_ms]
        return sorted(of_key, key=lambda row: sort_key(row[0]))

    def _shown(self, rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[Windowed, Any]]:
        parted = ((*_parts(name), value) for name, value in rows)
        return (
            (Windowed(self._key.decode(key), start, end), self._coder.decode(value))
            for key, start, end, value in parted
        )

    def _named(self, session_key: Any) -> bytes:
        if not isinstance(session_key, Windowed):
            next_step = "write Windowed(key, start, end), both bounds within the session"
            raise ConfigError(self.place, "a Windowed key", repr(session_key), next_step)
        bounds = session_key.window_start_ms, session_key.window_end_ms
        start_ms, end_ms = (whole_ms(bound, self.place, "a session's bound", earliest=0) for bound in bounds)
        if start_ms > end_ms:
            got = f"{start_ms} to {end_ms} ms"
            raise ConfigError(self.place, "a session that does not end before it begins", got, "correct it")
        return _name(self._key.encode(session_key.key), start_ms, end_ms)

    def _contents(self, rows: list[tuple[bytes, bytes]]) -> StoreContents:
        parted = [(*_parts(name), value) for name, value in rows]
        keys, starts, ends, values = zip(*parted, strict=True) if parted else ((), (), (), ())
        columns = {
            "key": self.spec.key.decode(pa.array(keys, pa.binary())).values,
            "window_start_ms": pa.array(starts, pa.int64()),
            "window_end_ms": pa.array(ends, pa.int64()),
            **self._coder.columns(values),
        }
        return StoreContents(self.spec.key, self.spec.value, pa.table(columns), "session")


def _name(key: bytes, start_ms: int, end_ms: int) -> bytes:
    return key + end_ms.to_bytes(8, "big") + start_ms.to_bytes(8, "big")


def _parts(name: bytes) -> tuple[bytes, int, int]:
    """Key, start and end."""
    return name[:-_BOUNDS], int.from_bytes(name[-8:], "big"), int.from_bytes(name[-_BOUNDS:-8], "big")
