"""Key-value stores of Python processors (KeyValueStore of Kafka Streams, in memory).

Owns serialized keys and values. Rule: keys are ordered by their unsigned bytes; what is put is serialized at once, and
what is read is decoded for each caller, so that changing an object afterwards changes nothing. A stored row is looked
up when somebody asks for it; only who goes through a range reads all stored rows, as columns.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.serdes import Serde
from ....state.tables.warehouse import HEADERS
from ...functions.processor_api import KeyValues, KeyValueStore
from ..base.changelogs import Changelog
from ..base.operator import Counters, StoreContents
from .rows_of_store import RowsOfStore
from .sorted_rows import SortedRows
from .value_coders import Coder, KeyCoder, after_prefix, coder_of, prefix_bytes


class SerializedRows:
    """Rows of ``store`` as bytes by name: the stored ones, and over them those that were looked up or changed."""

    _coder: Coder

    def __init__(self, store: str) -> None:
        self._stored = RowsOfStore(store)
        self._seen: dict[bytes, bytes | None] = {}
        """Rows that were looked up or changed; None where there is none."""
        self._changed: set[bytes] = set()
        self._orders: list[SortedRows] = []
        """Those that somebody has asked for, which see all changes."""

    def _value(self, name: bytes) -> bytes | None:
        try:
            return self._seen[name]
        except KeyError:
            value = self._seen[name] = self._stored.find(name)
            return value

    def _put(self, name: bytes, value: bytes | None) -> None:
        self._changed.add(name)
        self._seen[name] = value
        for order in self._orders:
            order.note(name, is_there=value is not None)

    @cached_property
    def _by_name(self) -> SortedRows:
        names, values = self._stored.columns()
        return self._followed(SortedRows(names, values, names, _name_as_it_is))

    def _followed(self, order: SortedRows) -> SortedRows:
        """``order``, which from now on sees changes."""
        order.begin((name, self._seen[name]) for name in self._changed)
        self._orders.append(order)
        return order

    def expect(self, names: pa.BinaryArray) -> None:
        """Look up rows at once that are likely to be asked for one by one."""
        unseen = [name for name in names.to_pylist() if name not in self._seen]
        stored = self._stored.find_all(unseen)
        self._seen.update((name, stored.get(name)) for name in unseen)

    @property
    def has_stored(self) -> bool:
        """Whether rows are stored, so that to ``expect`` some spares time."""
        return bool(self._stored)

    def restored(self, log: Changelog) -> tuple[list[tuple[bytes, bytes]], Counters]:
        """What ``load`` needs, (name, serialized value) and counters, of an application's changelog."""
        return self._restored(log), {}

    def _restored(self, log: Changelog) -> list[tuple[bytes, bytes]]:
        """Of the last record of each key. The changelog has times and headers of values beside them."""
        last = log.last()
        headers = [None] * len(last) if last.headers is None else last.headers.to_pylist()
        columns = last.key.to_pylist(), last.value.to_pylist(), last.time_ms.tolist(), headers
        return [
            (key, self._coder.logged(value, time_ms, [(one["key"], one["value"]) for one in structs or ()]))
            for key, value, time_ms, structs in zip(*columns, strict=True)
        ]

    def logged(self, topic: str, names: list[bytes], values: list[bytes]) -> Changelog:
        """The reverse of ``restored``: records of the changelog ``topic``."""
        parted = [self._coder.parted(value) for value in values]
        times = np.array([self._logged_at(name, time_ms) for name, (_, time_ms, _) in zip(names, parted, strict=True)])
        headers = [[{"key": name, "value": content} for name, content in pairs] for _, _, pairs in parted]
        return Changelog(
            topic,
            pa.array(names, pa.binary()),
            pa.array([value for value, _, _ in parted], pa.binary()),
            times.astype(np.int64),
            pa.array(headers, HEADERS) if any(headers) else None,
        )

    def _logged_at(self, name: bytes, time_ms: int) -> int:
        """Time of a record of the changelog, of whose value the time is ``time_ms``; NO_TIMESTAMP_MS for any."""
        return time_ms

    def load(self, stored: RowsOfStore, counters: Counters) -> None:
        """Continue with what ``alive`` and ``counters`` gave. Called once, before anything else."""
        self._stored = stored

    def counters(self) -> Counters:
        """What ``load`` needs beside the rows."""
        return {}

    def alive(self, *, only_changed: bool) -> list[tuple[bytes, bytes]]:
        """(name, serialized value), in order of the names; those that changed since ``load``, or all."""
        if not only_changed:
            return self._by_name.between(None, None, self._seen)
        return [(name, value) for name in sorted(self._changed) if (value := self._seen[name]) is not None]

    def clear(self) -> None:
        """Delete all rows."""
        for name, _ in self.alive(only_changed=False):
            self._put(name, None)

    def gone(self) -> list[bytes]:
        """Names of rows that were there at ``load`` and are not any more, in order."""
        deleted = [name for name in self._changed if self._seen[name] is None]
        return sorted(self._stored.find_all(deleted).keys() & set(deleted))


def _name_as_it_is(name: bytes) -> bytes:
    return name


class Store(SerializedRows, KeyValueStore):
    """``place``: named in errors. Rows are named by their serialized keys."""

    def __init__(self, spec: KeyValues, place: str) -> None:
        super().__init__(spec.name)
        self.store_name, self.place = spec.name, f"{place}, store {spec.name!r}"
        self._key, self._coder = KeyCoder(spec.key, self.place), coder_of(spec, self.place)

    @property
    def key(self) -> Serde:
        """Of its keys."""
        return self._key.serde

    @property
    def value(self) -> Serde:
        """Of its values, without their times and headers."""
        return self._coder.serde

    def get(self, key: Any) -> Any:
        return self._shown(self._value(self._key.encode(key)))

    def put(self, key: Any, value: Any) -> None:
        self._put(self._key.encode(key), self._coder.encode_put(value))

    def delete(self, key: Any) -> Any:
        data = self._key.encode(key)
        before = self._shown(self._value(data))
        self._put(data, None)
        return before

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        return self._shown_rows(self._between(first, last))

    def reverse_range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        return self._shown_rows(self._between(first, last)[::-1])

    def prefix_scan(self, prefix: Any, serde: Serde) -> Iterator[tuple[Any, Any]]:
        begin = prefix_bytes(prefix, serde, self.place)
        rows = self._by_name.between(begin, after_prefix(begin), self._seen)
        return self._shown_rows([(key, value) for key, value in rows if key.startswith(begin)])

    def __len__(self) -> int:
        return len(self._by_name)

    def contents(self) -> StoreContents:
        """What it shows, with the times and headers of its values if its kind keeps them."""
        return self._contents(self.alive(only_changed=False))

    def contents_of(self, key: bytes) -> StoreContents:
        value = self._value(key)
        return self._contents([] if value is None else [(key, value)])

    def _contents(self, rows: list[tuple[bytes, bytes]]) -> StoreContents:
        keys, values = zip(*rows, strict=True) if rows else ((), ())
        key = self.key.decode(pa.array(keys, pa.binary())).values
        return StoreContents(self.key, self._coder.serde, pa.table({"key": key, **self._coder.columns(values)}))

    def _between(self, first: Any, last: Any) -> list[tuple[bytes, bytes]]:
        low, high = (None if bound is None else self._key.encode(bound) for bound in (first, last))
        return self._by_name.between(low, high, self._seen)

    def _shown(self, value: bytes | None) -> Any:
        return None if value is None else self._coder.decode(value)

    def _shown_rows(self, rows: list[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any]]:
        return ((self._key.decode(key), self._coder.decode(value)) for key, value in rows)
