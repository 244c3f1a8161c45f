"""A read-only look into a running task's store."""

from typing import Any, NamedTuple

import pyarrow.compute as pc

from ...state.records.keys import Keys
from ...state.times import UNBOUNDED
from ..functions.expressions import Shape
from ..functions.session_and_versioned_stores import VersionedRecord
from ..operators.base.operator import StoreContents, StoreVersions
from ..operators.tables.versioned_store import VersionedTableStore
from .driver_inputs import encoded


class StoreView:
    """Read-only look into a store: ``all``, ``get``, ``fetch``."""

    def __init__(self, contents: StoreContents) -> None:
        table = contents.rows
        keys = contents.key.to_python(table["key"].combine_chunks())
        windows: list[tuple[int, int] | None] = [None] * len(keys)
        if contents.window is not None:
            bounds = (table[column].to_pylist() for column in ("window_start_ms", "window_end_ms"))
            windows = list(zip(*bounds, strict=True))
        rows = zip(keys, windows, contents.value.to_python(table["value"].combine_chunks()), strict=True)
        self._rows = sorted(rows, key=lambda row: (repr(row[0]) if isinstance(row[0], dict) else row[0], row[1]))

    def all(self) -> list[tuple[Any, tuple[int, int] | None, Any]]:
        """(key, window or None, value) of every row, by key and window."""
        return self._rows

    def get(self, key: Any) -> Any:
        """The value of ``key`` in a store without windows, or None."""
        return next((value for stored, window, value in self._rows if stored == key and window is None), None)

    def fetch(self, key: Any, from_ms: int = 0, to_ms: int = UNBOUNDED) -> list[tuple[tuple[int, int], Any]]:
        """(window, value) of ``key``'s windows that start in ``[from_ms, to_ms]``, by start."""
        return [
            (window, value)
            for stored, window, value in self._rows
            if stored == key and window is not None and from_ms <= window[0] <= to_ms
        ]


class Version(NamedTuple):
    """Valid in ``[valid_from_ms, valid_to_ms)``. ``valid_to_ms`` None: the latest. ``value`` None: deleted."""

    valid_from_ms: int
    valid_to_ms: int | None
    value: Any


class VersionedStoreView(StoreView):
    """Of a versioned store (KIP-889): ``all`` and ``get`` show the latest versions, ``get`` others as of a time."""

    def __init__(self, name: str, shape: Shape, versions: StoreVersions) -> None:
        table = versions.rows
        latest = table.filter(pc.is_null(table["valid_to_ms"]))
        super().__init__(StoreContents(shape.key, shape.value, latest))
        retention_ms = versions.retention_ms
        self._store = VersionedTableStore(
            shape, Keys(shape.key), node=name, history_retention_ms=retention_ms, sends_old=False
        )
        self._store.resume(table, {"store_time_ms": versions.observed_ms})
        self._key = shape.key
        self._versions: dict[bytes | None, list[Version]] = {}
        """By serialized key: a Python key may be a dict, which cannot be looked up."""
        table = table.filter(pc.invert(table["is_mark"])).sort_by("valid_from_ms")
        keys = shape.key.encode(table["key"].combine_chunks()).to_pylist()
        bounds = (table[column].to_pylist() for column in ("valid_from_ms", "valid_to_ms"))
        values = shape.value.to_python(table["value"].combine_chunks())
        for key, *version in zip(keys, *bounds, values, strict=True):
            self._versions.setdefault(key, []).append(Version(*version))

    def get(self, key: Any, as_of_ms: int | None = None) -> Any:
        """The latest value of ``key``, or that as of a time, inclusive; None when there was none, or when the history
        retention has passed the time and the latest is newer.
        """
        version = self._store.version(key, as_of_ms)
        return None if version is None else version[0]

    def record(self, key: Any, as_of_ms: int | None) -> VersionedRecord | None:
        """As ``get``, with the times from and to which the version is valid."""
        version = self._store.version(key, as_of_ms)
        return None if version is None else VersionedRecord(*version)

    def versions(self, key: Any) -> list[Version]:
        """What is left of ``key``'s history and its latest version, by time; deletions are versions of value None."""
        return self._versions.get(encoded(self._key, [key])[0], [])
