"""Versioned stores of Python processors (VersionedKeyValueStore of Kafka Streams, KIP-889).

Rule: a put and a lookup as of a time work as in the versioned store of a table
(jobs/operators/tables/versioned_store_kernel.py). The processor that keeps the rows counts a refused put.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import big_endian_at, binary_view, only_chunk
from ....state.errors import ConfigError
from ....state.records.keys import Keys
from ....state.serdes import Serde
from ....state.stores.versions import LATEST
from ....state.times import FOREVER, whole_ms
from ...functions.expressions import Shape
from ...functions.session_and_versioned_stores import VersionedKeyValueStore, VersionedRecord
from ...functions.state_stores import StoreBuilder
from ...graph.store_rows import version_schema
from ..base.changelogs import Changelog, KeptStore, LeftState
from ..base.operator import Counters, StoreContents, StoreVersions
from ..tables import versioned_store_kernel
from ..tables.versioned_store import VersionedTableStore
from .expiring_rows import RefusedPut
from .rows_of_store import RowsOfStore
from .value_coders import Coder, KeyCoder, misfit_in

_NO_KEY = b""
_END = 8
"""Bytes of a version's end, before the value."""
_SUFFIX = 9
"""Bytes of a start and a mark, behind the key."""
_BYTES_MAX = 2**31 - 1


class VersionedValues(VersionedKeyValueStore):
    """``keeper``: the processor that keeps its rows."""

    def __init__(self, spec: StoreBuilder, keeper: str) -> None:
        self.spec, self.keeper, self.place = spec, keeper, f"{keeper}, store {spec.name!r}"
        self._key, self._value = KeyCoder(spec.key, self.place), Coder(spec.value, self.place)
        self._shape = Shape(spec.key, spec.value)
        self._store = self._made()
        self.refused: list[RefusedPut] = []
        """Since somebody took them."""

    def _made(self) -> VersionedTableStore:
        retention_ms = self.spec.retention_ms
        keys = Keys(self.spec.key)
        return VersionedTableStore(
            self._shape, keys, node=self.keeper, history_retention_ms=retention_ms, sends_old=False
        )

    def put(self, key: Any, value: Any, timestamp_ms: int) -> int:
        data = self._key.encode(key)
        timestamp_ms = whole_ms(timestamp_ms, self.place, earliest=0)
        try:
            column = self.spec.value.from_python([value])
        except ConfigError as error:
            raise misfit_in(self.place, error) from error
        versions, observed_ms = self._store.versions, self._store.versions.observed_ms
        (code,) = self._store.keys.intern(pa.array([data], pa.binary())).tolist()
        versions.reserve(1)
        reference = versions.append(column, np.array([value is not None]))
        answers, old = np.empty(1, np.int64), np.empty(1, np.int64)
        rows = np.array([code], np.int32), np.array([timestamp_ms], np.int64), reference
        versioned_store_kernel.put_all(
            rows, False, versions.retention_ms, versions.columns(), versioned_store_kernel.NO_JOURNAL, answers, old
        )
        versions.tidy()
        if answers[0] == versioned_store_kernel.NOT_PUT:
            limit_ms = observed_ms - versions.retention_ms
            self.refused.append(RefusedPut(timestamp_ms, timestamp_ms, observed_ms, limit_ms))
        return int(answers[0])

    def delete(self, key: Any, timestamp_ms: int) -> VersionedRecord | None:
        timestamp_ms = whole_ms(timestamp_ms, self.place, earliest=0)
        versions = self._store.versions
        is_over = timestamp_ms < versions.observed_ms - versions.retention_ms
        before = None if is_over else self.get(key, timestamp_ms)
        self.put(key, None, timestamp_ms)
        return before

    def get(self, key: Any, as_of_ms: int | None = None) -> VersionedRecord | None:
        self._key.encode(key)
        version = self._store.version(key, None if as_of_ms is None else min(whole_ms(as_of_ms, self.place), FOREVER))
        return None if version is None else VersionedRecord(*version[:2])

    @property
    def key(self) -> Serde:
        """Of its keys."""
        return self._key.serde

    # --- state -----------------------------------------------------------------------------------------------

    def restored(self, log: Changelog) -> tuple[list[tuple[bytes, bytes]], Counters]:
        """What ``load`` needs, of an application's changelog."""
        rows, counters = self._store.restored(LeftState(self.spec.name, (log.topic,), self._shape, None, (log,)))
        return self._named(rows), {f"{self.spec.name}_time_ms": counters["store_time_ms"]}

    def logged(self, topic: str, names: list[bytes], values: list[bytes]) -> Changelog:
        """The reverse of ``restored``: records of the changelog ``topic``."""
        rows = self._rows_of(pa.array(names, pa.binary()), pa.array(values, pa.binary()))
        (log,) = self._store.logged(rows, KeptStore(self.spec.name, (topic,), self._shape, None))
        return log

    def load(self, stored: RowsOfStore, counters: Counters) -> None:
        """Continue with what ``alive`` and ``counters`` gave. All rows are taken, as columns."""
        self._store = self._made()
        self._store.resume(
            self._rows_of(*stored.columns()), {"store_time_ms": counters.get(f"{self.spec.name}_time_ms", -1)}
        )

    def _rows_of(self, names: pa.BinaryArray, coded: pa.BinaryArray) -> pa.Table:
        ends, is_mark, has_value = big_endian_at(coded, 0), _byte_at(names, -1), _byte_at(coded, _END)
        values = pc.binary_slice(coded, _END + 1, _BYTES_MAX)
        columns = [
            self.spec.key.decode(pc.binary_slice(names, 0, -_SUFFIX)).values,
            big_endian_at(names, -_SUFFIX),
            pa.array(ends, mask=ends == LATEST),
            self.spec.value.decode(pc.if_else(pa.array(has_value), values, pa.scalar(None, pa.binary()))).values,
            pa.array(is_mark),
        ]
        return pa.table(columns, schema=version_schema(self._shape))

    def counters(self) -> Counters:
        return {f"{self.spec.name}_time_ms": self._store.versions.observed_ms}

    def alive(self, *, only_changed: bool) -> list[tuple[bytes, bytes]]:
        """(name, serialized version), in order of the names; those that changed since ``load``, or all."""
        return self._named(self._changes(is_gone=False) if only_changed else self._store.rows())

    def _named(self, rows: pa.Table) -> list[tuple[bytes, bytes]]:
        values = self.spec.value.encode(only_chunk(rows, "value")).to_pylist()
        ends = ((LATEST if end is None else end).to_bytes(8, "big") for end in rows["valid_to_ms"].to_pylist())
        coded = (end + (b"\0" if value is None else b"\1" + value) for end, value in zip(ends, values, strict=True))
        return sorted(zip(self._names(rows), coded, strict=True))

    def gone(self) -> list[bytes]:
        """Names of rows that were there at ``load`` and are not any more, in order."""
        return sorted(self._names(self._changes(is_gone=True)))

    def _changes(self, *, is_gone: bool) -> pa.Table:
        changes = self._store.changes()
        return changes.filter(pc.equal(changes["deleted"], is_gone))

    def _names(self, rows: pa.Table) -> list[bytes]:
        """Key, start and whether it is a mark, of every row."""
        keys = self.spec.key.encode(only_chunk(rows, "key")).to_pylist()
        starts, marks = rows["valid_from_ms"].to_pylist(), rows["is_mark"].to_pylist()
        return [
            (key or _NO_KEY) + start.to_bytes(8, "big") + bytes([is_mark])
            for key, start, is_mark in zip(keys, starts, marks, strict=True)
        ]

    def contents(self) -> StoreContents:
        """The latest versions, and all."""
        return self._contents(self._store.rows())

    def contents_of(self, key: bytes) -> StoreContents:
        """As ``contents``, of one serialized key."""
        rows = self._store.rows()
        return self._contents(rows.filter(pc.equal(self.spec.key.encode(only_chunk(rows, "key")), key)))

    def _contents(self, rows: pa.Table) -> StoreContents:
        latest = rows.filter(pc.is_null(rows["valid_to_ms"]))
        columns = {"key": latest["key"], "value": latest["value"], "record_time_ms": latest["valid_from_ms"]}
        versions = StoreVersions(rows, self.spec.retention_ms, self._store.versions.observed_ms)
        return StoreContents(self.spec.key, self.spec.value, pa.table(columns), versions=versions)


def _byte_at(texts: pa.BinaryArray, index: int) -> np.ndarray:
    """Whether the byte at ``place`` of each of ``texts`` is not 0; below 0 it is counted from the end."""
    view = binary_view(texts)
    begins = view.offsets[1:] if index < 0 else view.offsets[:-1]
    return view.data[begins + index] != 0
