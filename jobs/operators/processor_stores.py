"""Key-value stores of Python processors (KeyValueStore of Kafka Streams, in memory).

Owns serialized keys and values. Rule: keys are ordered by their unsigned bytes; what is put is serialized at once, so
that changing an object afterwards changes nothing.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from jobs.processing import KeyValues, KeyValueStore
from state.errors import ConfigError
from state.serdes import Serde

ROWS = pa.schema([("store", pa.string()), ("key", pa.binary()), ("value", pa.binary())])
"""Durable rows of all stores of one processor."""

_REMEMBERED = 65_536
_FROZEN = (str, int, bytes)
"""Types whose values never change, and are equal only when their bytes are."""


class Coder:
    """Single values of ``serde``, and the bytes of them that were met."""

    def __init__(self, serde: Serde) -> None:
        self.serde = serde
        self._bytes: dict[tuple[type, Any], bytes] = {}

    def encode(self, value: Any) -> bytes:
        """Raises ConfigError for a value that is not of the serde's type."""
        if type(value) not in _FROZEN:
            return self._encoded(value)
        found = self._bytes.get((type(value), value))
        if found is None:
            if len(self._bytes) >= _REMEMBERED:
                self._bytes.clear()
            found = self._bytes[type(value), value] = self._encoded(value)
        return found

    def decode(self, data: bytes) -> Any:
        return self.serde.to_python(self.serde.decode(pa.array([data], pa.binary())).values)[0]

    def _encoded(self, value: Any) -> bytes:
        data: bytes = self.serde.encode(self.serde.from_python([value]))[0].as_py()
        return data


class Store(KeyValueStore):
    """``place``: named in errors."""

    def __init__(self, spec: KeyValues, place: str) -> None:
        self.name, self.place = spec.name, f"{place}, store {spec.name!r}"
        self._key, self._value = Coder(spec.key), Coder(spec.value)
        self._rows: dict[bytes, bytes] = {}
        self._order: list[bytes] = []
        self._durable: set[bytes] = set()
        self._changed: set[bytes] = set()

    def get(self, key: Any) -> Any:
        return self._shown(self._rows.get(self._bytes(key)))

    def put(self, key: Any, value: Any) -> None:
        self._put(self._bytes(key), None if value is None else self._value.encode(value))

    def put_if_absent(self, key: Any, value: Any) -> Any:
        found = self.get(key)
        if found is None:
            self.put(key, value)
        return found

    def delete(self, key: Any) -> Any:
        data = self._bytes(key)
        before = self._shown(self._rows.get(data))
        self._put(data, None)
        return before

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        return self._shown_rows(self._between(first, last))

    def reverse_range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        return self._shown_rows(self._between(first, last)[::-1])

    def __len__(self) -> int:
        return len(self._rows)

    def load(self, rows: pa.Table) -> None:
        """Take back what ``alive`` gave."""
        self._rows = dict(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))
        self._order, self._durable = sorted(self._rows), set(self._rows)

    def alive(self, *, only_changed: bool) -> list[tuple[bytes, bytes]]:
        """Serialized (key, value), in order; those that changed since ``load``, or all."""
        return [(key, self._rows[key]) for key in self._order if not only_changed or key in self._changed]

    def gone(self) -> list[bytes]:
        """Serialized keys that were there at ``load`` and are not any more, in order."""
        return sorted(self._durable - self._rows.keys())

    def _bytes(self, key: Any) -> bytes:
        if key is None:
            raise ConfigError(self.place, "a key", "None", "leave records without a key alone")
        return self._key.encode(key)

    def _put(self, key: bytes, value: bytes | None) -> None:
        self._changed.add(key)
        if value is not None:
            if key not in self._rows:
                insort(self._order, key)
            self._rows[key] = value
        elif self._rows.pop(key, None) is not None:
            del self._order[bisect_left(self._order, key)]

    def _between(self, first: Any, last: Any) -> list[bytes]:
        begin = 0 if first is None else bisect_left(self._order, self._bytes(first))
        end = len(self._order) if last is None else bisect_right(self._order, self._bytes(last))
        return self._order[begin:end]

    def _shown(self, value: bytes | None) -> Any:
        return None if value is None else self._value.decode(value)

    def _shown_rows(self, keys: list[bytes]) -> Iterator[tuple[Any, Any]]:
        rows = [(key, self._rows[key]) for key in keys]
        return ((self._key.decode(key), self._value.decode(value)) for key, value in rows)


def stores_of(specs: tuple[KeyValues | str, ...], key: Serde, value: Serde, place: str) -> dict[str, Store]:
    """Stores by name. Raises ConfigError for a name twice."""
    stores: dict[str, Store] = {}
    for spec in specs:
        full = KeyValues(spec, key, value) if isinstance(spec, str) else spec
        if full.name in stores:
            raise ConfigError(place, "stores of different names", f"{full.name!r} twice", "rename one of them")
        stores[full.name] = Store(full, place)
    return stores
