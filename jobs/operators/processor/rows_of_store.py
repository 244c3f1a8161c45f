"""The stored rows of one store among those of its processor."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import only_chunk
from ....state.runs.stored_rows import StoredRows


class RowsOfStore:
    """Of the store ``store``; ``stored``: all rows of the processor that keeps it, None: there are none."""

    def __init__(self, store: str, stored: StoredRows | None = None) -> None:
        self._store, self._stored = store, stored if stored else None

    def __bool__(self) -> bool:
        """Whether there may be rows."""
        return self._stored is not None

    def find(self, name: bytes) -> bytes | None:
        """The value of the row ``name``."""
        if self._stored is None:
            return None
        value: bytes | None = self._stored.find(name, (self._store, name), "value")
        return value

    def find_all(self, names: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Values of the rows with these names, by name. A name without a row is left out; other rows may be in it."""
        if self._stored is None or not names:
            return {}
        own = self._own(self._stored.of(pa.array(names, pa.binary())))
        return dict(zip(own["key"].to_pylist(), own["value"].to_pylist(), strict=True))

    def columns(self) -> tuple[pa.BinaryArray, pa.BinaryArray]:
        """Names and values of all rows."""
        if self._stored is None:
            return pa.array([], pa.binary()), pa.array([], pa.binary())
        own = self._own(self._stored.every)
        return only_chunk(own, "key"), only_chunk(own, "value")

    def _own(self, rows: pa.Table) -> pa.Table:
        return rows.filter(pc.equal(rows["store"], self._store))
