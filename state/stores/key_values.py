"""A table in memory: values of any Arrow type by key, or by key and window, each with its record time.

Owns the slots and the values that they refer to. Rule: a kernel refers to row r of the batch it is called with as
``row_reference(r)``. ``gather`` reads such references, and ``keep`` copies the rows that are still referred to into the
heap, before the batch is gone.
"""

import numpy as np
import pyarrow as pa

from ..buffers import only_chunk
from ..records.keys import Keys
from ..serdes import Serde
from ..tables.warehouse import WINDOW
from .slots import STORED
from .table_slots import TableSlots
from .value_heap import NO_REFERENCE, ValueHeap

FIRST_ROW = -2
"""Reference of row 0; that of row r is ``FIRST_ROW - r``."""
_FEW_TO_ONE = 64
"""With so many slots for one that was put, the others are not looked at: a chunk may be one record."""


class KeyValueRows:
    """``key``: serde of the keys that ``keys`` codes; ``kind``: Arrow type of the values."""

    def __init__(self, key: Serde, keys: Keys, kind: pa.DataType, *, is_windowed: bool) -> None:
        self.key, self.keys, self.is_windowed = key, keys, is_windowed
        self.slots = TableSlots(is_windowed=is_windowed)
        self.heap = ValueHeap(kind)

    def gather(self, references: np.ndarray, rows: pa.Array) -> pa.Array:
        """Values of ``references`` into the heap or into ``rows``, null for NO_REFERENCE."""
        is_row = references <= FIRST_ROW
        if not is_row.any():
            return self.heap.take(references)
        fresh = rows.take(pa.array(FIRST_ROW - references[is_row]))
        if is_row.all():
            return fresh
        kept = self.heap.take(references[~is_row])
        indices = np.empty(len(references), np.int64)
        indices[~is_row] = np.arange(len(kept))
        indices[is_row] = len(kept) + np.arange(len(fresh))
        return pa.concat_arrays([kept, fresh]).take(pa.array(indices))

    def keep(self, rows: pa.Array, at: np.ndarray) -> None:
        """Take the values of ``rows`` that slots refer to into the heap; no others than those of ``at`` do."""
        reference = self.slots.reference
        if _FEW_TO_ONE * len(at) < len(reference):
            stays = np.unique(at[reference[at] <= FIRST_ROW])
        else:
            stays = np.flatnonzero(reference <= FIRST_ROW)
        if len(stays):
            base = self.heap.append(rows.take(pa.array(FIRST_ROW - reference[stays])))
            reference[stays] = base + np.arange(len(stays))
        self.heap.keep_only(reference)

    def load(self, rows: pa.Table) -> np.ndarray:
        """Enter durable rows (key, [window bounds], value, record_time_ms); their slots."""
        rows = rows.combine_chunks()
        key = self.keys.intern(self.key.encode(only_chunk(rows, "key")))
        bounds = [rows[name].to_numpy().copy() for name in self._bounds()] if self.is_windowed else [None, None]
        at = self.slots.enter(key, *bounds)
        value = only_chunk(rows, "value")
        self.slots.reference[at] = self.heap.append(value) + np.arange(len(at))
        self.slots.time[at] = rows["record_time_ms"].to_numpy()
        self.slots.flags[at] |= STORED
        return at

    def schema(self) -> pa.Schema:
        """Columns of ``table``."""
        return key_value_schema(self.key.arrow_type, self.heap.kind, is_windowed=self.is_windowed)

    def table(self, at: np.ndarray) -> pa.Table:
        """Rows of the slots ``at``; the value is null where there is none any more."""
        slots = self.slots
        bounds = [slots.start[at], slots.end[at]] if self.is_windowed else []
        value = self.heap.take(slots.reference[at])
        columns = [self.keys.typed(slots.key[at].astype(np.int32)), *bounds, value, slots.time[at]]
        return pa.table(columns, schema=self.schema())

    def _bounds(self) -> tuple[str, ...]:
        return WINDOW if self.is_windowed else ()


def key_value_schema(key: pa.DataType, value: pa.DataType, *, is_windowed: bool) -> pa.Schema:
    """Columns of the durable rows of KeyValueRows: key, [window bounds], value, record_time_ms."""
    bounds = [(name, pa.int64()) for name in WINDOW] if is_windowed else []
    return pa.schema([("key", key), *bounds, ("value", value), ("record_time_ms", pa.int64())])


__all__ = ["FIRST_ROW", "NO_REFERENCE", "KeyValueRows"]
