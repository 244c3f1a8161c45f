"""Versioned stores of Python processors (VersionedKeyValueStore of Kafka Streams, KIP-889).

Rule: a put and a lookup as of a time work as in the versioned store of a table
(jobs/operators/tables/versioned_store_kernel.py). The processor that keeps the rows counts a refused put.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.errors import ConfigError
from ....state.records.keys import Keys
from ....state.stores.versions import LATEST
from ...functions.expressions import Shape
from ...functions.session_and_versioned_stores import VersionedKeyValueStore, VersionedRecord
from ...functions.state_stores import StoreBuilder
from ...graph.store_rows import version_schema
from ..base.operator import Counters, StoreContents, StoreVersions
from ..tables import versioned_store_kernel
from ..tables.versioned_store import VersionedTableStore
from .expiring_rows import Refused
from .value_coders import Coder, KeyCoder

_NO_KEY = b""


class VersionedValues(VersionedKeyValueStore):
    """``keeper``: the processor that keeps its rows."""

    def __init__(self, spec: StoreBuilder, keeper: str) -> None:
        self.spec, self.keeper, self.place = spec, keeper, f"{keeper}, store {spec.name!r}"
        self._key, self._value = KeyCoder(spec.key, self.place), Coder(spec.value, self.place)
        self._shape = Shape(spec.key, spec.value)
        self._store = self._made()
        self._durable: dict[bytes, bytes] = {}
        self._coded: dict[bytes, bytes] | None = None
        """All rows as bytes, until the next put."""
        self.refused: list[Refused] = []
        """Since somebody took them."""

    def _made(self) -> VersionedTableStore:
        retention_ms = self.spec.retention_ms
        keys = Keys(self.spec.key)
        return VersionedTableStore(
            self._shape, keys, node=self.keeper, history_retention_ms=retention_ms, sends_old=False
        )

    def put(self, key: Any, value: Any, timestamp_ms: int) -> int:
        data = self._key.encode(key)
        if timestamp_ms < 0:
            raise ConfigError(self.place, "a time of 0 ms or more", f"{timestamp_ms} ms", "correct it")
        versions, observed_ms = self._store.versions, self._store.versions.observed_ms
        (code,) = self._store.keys.intern(pa.array([data], pa.binary())).tolist()
        versions.reserve(1)
        reference = versions.append(self.spec.value.from_python([value]), np.array([value is not None]))
        answers, old = np.empty(1, np.int64), np.empty(1, np.int64)
        rows = np.array([code], np.int32), np.array([timestamp_ms], np.int64), reference
        versioned_store_kernel.put_all(
            rows, False, versions.retention_ms, versions.columns(), versioned_store_kernel.NO_JOURNAL, answers, old
        )
        versions.tidy()
        self._coded = None
        if answers[0] == versioned_store_kernel.NOT_PUT:
            limit_ms = observed_ms - versions.retention_ms
            self.refused.append(Refused(timestamp_ms, timestamp_ms, observed_ms, limit_ms))
        return int(answers[0])

    def delete(self, key: Any, timestamp_ms: int) -> VersionedRecord | None:
        versions = self._store.versions
        is_over = timestamp_ms < versions.observed_ms - versions.retention_ms
        before = None if is_over else self.get(key, timestamp_ms)
        self.put(key, None, timestamp_ms)
        return before

    def get(self, key: Any, as_of_ms: int | None = None) -> VersionedRecord | None:
        self._key.encode(key)
        found = self._store.version(key, as_of_ms)
        return None if found is None else VersionedRecord(*found[:2])

    # --- state -----------------------------------------------------------------------------------------------

    def load(self, rows: pa.Table, counters: Counters) -> None:
        """Take back what ``alive`` and ``counters`` gave."""
        self._coded = None
        self._durable = dict(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))
        names, values = list(self._durable), list(self._durable.values())
        ends = [int.from_bytes(value[:8], "big") for value in values]
        keys = self.spec.key.decode(pa.array([name[:-9] for name in names], pa.binary())).values
        coded = pa.array([value[9:] if value[8] else None for value in values], pa.binary())
        columns = [
            keys,
            pa.array([int.from_bytes(name[-9:-1], "big") for name in names], pa.int64()),
            pa.array([None if end == LATEST else end for end in ends], pa.int64()),
            self.spec.value.decode(coded).values,
            pa.array([bool(name[-1]) for name in names], pa.bool_()),
        ]
        self._store = self._made()
        table = pa.table(columns, schema=version_schema(self._shape))
        self._store.resume(table, {"store_time_ms": counters.get(f"{self.spec.name}_time_ms", -1)})

    def counters(self) -> Counters:
        return {f"{self.spec.name}_time_ms": self._store.versions.observed_ms}

    def alive(self, *, only_changed: bool) -> list[tuple[bytes, bytes]]:
        """(name, serialized version), in order of the names; those that changed since ``load``, or all."""
        rows = self._rows().items()
        return sorted((name, row) for name, row in rows if not only_changed or self._durable.get(name) != row)

    def gone(self) -> list[bytes]:
        """Names of rows that were there at ``load`` and are not any more."""
        return sorted(self._durable.keys() - self._rows().keys())

    def _rows(self) -> dict[bytes, bytes]:
        """By key, start and whether it is a mark: end, whether there is a value, and the value."""
        if self._coded is not None:
            return self._coded
        table = self._store.rows()
        keys = self.spec.key.encode(table["key"].combine_chunks()).to_pylist()
        values = self.spec.value.encode(table["value"].combine_chunks()).to_pylist()
        starts, ends = table["valid_from_ms"].to_pylist(), table["valid_to_ms"].to_pylist()
        found = {}
        for key, start, end, value, is_mark in zip(
            keys, starts, ends, values, table["is_mark"].to_pylist(), strict=True
        ):
            name = (key or _NO_KEY) + start.to_bytes(8, "big") + bytes([is_mark])
            until = (LATEST if end is None else end).to_bytes(8, "big")
            found[name] = until + (b"\0" if value is None else b"\1" + value)
        self._coded = found
        return found

    def contents(self) -> StoreContents:
        """The latest versions, and all."""
        rows = self._store.rows()
        latest = rows.filter(pc.is_null(rows["valid_to_ms"]))
        columns = {"key": latest["key"], "value": latest["value"], "record_time_ms": latest["valid_from_ms"]}
        versions = StoreVersions(rows, self.spec.retention_ms, self._store.versions.observed_ms)
        return StoreContents(self.spec.key, self.spec.value, pa.table(columns), versions=versions)
