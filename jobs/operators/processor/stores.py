"""Key-value stores of Python processors (KeyValueStore of Kafka Streams, in memory).

Owns serialized keys and values. Rule: keys are ordered by their unsigned bytes; what is put is serialized at once, so
that changing an object afterwards changes nothing.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ....state.serdes import Serde
from ...functions.processor_api import KeyValues, KeyValueStore
from ..base.operator import Counters, StoreContents
from .value_coders import KeyCoder, coder_of, prefix_bytes

_BLOCK = 1_024


class OrderedKeys:
    """Keys in order, in blocks of at most ``_BLOCK``, so that a key that comes or goes moves few others."""

    def __init__(self, keys: list[bytes]) -> None:
        """``keys``: in order, each once."""
        half = _BLOCK // 2
        self._blocks = [keys[first : first + half] for first in range(0, len(keys), half)] or [[]]
        self._lasts = [block[-1] if block else b"" for block in self._blocks]
        """Of each block; what is after the last of them goes to the last block."""

    def add(self, key: bytes) -> None:
        """A key that is not there."""
        number = self._number(key)
        block = self._blocks[number]
        block.insert(bisect_left(block, key), key)
        if len(block) > _BLOCK:
            self._blocks[number : number + 1] = [block[: _BLOCK // 2], block[_BLOCK // 2 :]]
            self._lasts.insert(number, b"")
            self._lasts[number] = self._blocks[number][-1]
            number += 1
        self._lasts[number] = self._blocks[number][-1]

    def remove(self, key: bytes) -> None:
        """A key that is there."""
        number = self._number(key)
        block = self._blocks[number]
        del block[bisect_left(block, key)]
        if block:
            self._lasts[number] = block[-1]
        elif len(self._blocks) > 1:
            del self._blocks[number], self._lasts[number]

    def between(self, first: bytes | None, last: bytes | None) -> list[bytes]:
        """Keys from ``first`` to ``last``, both included; None is no bound."""
        begin = 0 if first is None else self._number(first)
        end = len(self._blocks) - 1 if last is None else self._number(last)
        found = []
        for number in range(begin, end + 1):
            block = self._blocks[number]
            low = bisect_left(block, first) if first is not None and number == begin else 0
            high = bisect_right(block, last) if last is not None and number == end else len(block)
            found += block[low:high]
        return found

    def _number(self, key: bytes) -> int:
        """Of the block where a key is or would be."""
        return min(bisect_left(self._lasts, key), len(self._blocks) - 1)


class SerializedRows:
    """Rows as bytes by name, in order of their places, and which of them changed since they were loaded."""

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._order = OrderedKeys([])
        """Places of all rows."""
        self._durable: set[bytes] = set()
        self._changed: set[bytes] = set()

    def _place(self, name: bytes) -> bytes:
        """Bytes by which rows are in order."""
        return name

    def _put(self, name: bytes, value: bytes | None) -> None:
        self._changed.add(name)
        if value is None:
            if name in self._rows:
                self._remove(name)
            return
        if name not in self._rows:
            self._add(name)
        self._rows[name] = value

    def _add(self, name: bytes) -> None:
        self._order.add(self._place(name))

    def _remove(self, name: bytes) -> None:
        del self._rows[name]
        self._order.remove(self._place(name))

    def load(self, rows: pa.Table, counters: Counters) -> None:
        """Take back what ``alive`` and ``counters`` gave."""
        self._rows = dict(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))
        self._order, self._durable = OrderedKeys(sorted(map(self._place, self._rows))), set(self._rows)

    def counters(self) -> Counters:
        """What ``load`` needs beside the rows."""
        return {}

    def alive(self, *, only_changed: bool) -> list[tuple[bytes, bytes]]:
        """(name, serialized value), in order of the names; those that changed since ``load``, or all."""
        names = self._changed & self._rows.keys() if only_changed else self._rows.keys()
        return [(name, self._rows[name]) for name in sorted(names)]

    def clear(self) -> None:
        """Delete all rows."""
        for name in list(self._rows):
            self._put(name, None)

    def gone(self) -> list[bytes]:
        """Names of rows that were there at ``load`` and are not any more, in order."""
        return sorted(self._durable - self._rows.keys())


class Store(SerializedRows, KeyValueStore):
    """``place``: named in errors."""

    def __init__(self, spec: KeyValues, place: str) -> None:
        super().__init__()
        self.name, self.place = spec.name, f"{place}, store {spec.name!r}"
        self._key, self._value = KeyCoder(spec.key, self.place), coder_of(spec, self.place)

    def get(self, key: Any) -> Any:
        return self._shown(self._rows.get(self._key.encode(key)))

    def put(self, key: Any, value: Any) -> None:
        self._put(self._key.encode(key), self._value.encode_put(value))

    def delete(self, key: Any) -> Any:
        data = self._key.encode(key)
        before = self._shown(self._rows.get(data))
        self._put(data, None)
        return before

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        return self._shown_rows(self._between(first, last))

    def reverse_range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        return self._shown_rows(self._between(first, last)[::-1])

    def prefix_scan(self, prefix: Any, serde: Serde) -> Iterator[tuple[Any, Any]]:
        begin = prefix_bytes(prefix, serde, self.place)
        return self._shown_rows([key for key in self._order.between(begin, None) if key.startswith(begin)])

    def __len__(self) -> int:
        return len(self._rows)

    def contents(self) -> StoreContents:
        """What it shows, with the times and headers of its values if its kind keeps them."""
        keys, values = zip(*self.alive(only_changed=False), strict=True) if self._rows else ((), ())
        key = self._key.serde.decode(pa.array(keys, pa.binary())).values
        return StoreContents(self._key.serde, self._value.serde, pa.table({"key": key, **self._value.columns(values)}))

    def _between(self, first: Any, last: Any) -> list[bytes]:
        return self._order.between(*(None if bound is None else self._key.encode(bound) for bound in (first, last)))

    def _shown(self, value: bytes | None) -> Any:
        return None if value is None else self._value.decode(value)

    def _shown_rows(self, keys: list[bytes]) -> Iterator[tuple[Any, Any]]:
        rows = [(key, self._rows[key]) for key in keys]
        return ((self._key.decode(key), self._value.decode(value)) for key, value in rows)
