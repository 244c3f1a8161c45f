"""What a durable row of a store looks like: its columns, and which of them name it.

Rule: a node declares the columns of its store, and its running operator writes such rows. Both take the columns from
one function, here or beside the node, so no operator is built to learn them. Times are int64 milliseconds.
"""

from dataclasses import dataclass

import pyarrow as pa

from ...state.stores.key_values import key_value_schema
from ...state.tables.warehouse import HEADERS, WINDOW, WINDOW_KEY
from ..functions.expressions import Shape

VERSION_KEY = ("key", "valid_from_ms", "is_mark")
BUFFER_KEY = ("record_time_ms", "sequence")
TIME = pa.field("record_time_ms", pa.int64())


@dataclass(frozen=True, slots=True)
class StoreRowSchema:
    """``schema``: the store's own columns. ``row_key``: names of those that name a row, if the schema has them."""

    schema: pa.Schema
    row_key: tuple[str, ...] = WINDOW_KEY

    @property
    def key_columns(self) -> list[str]:
        """Columns of the row key that are there."""
        return [column for column in self.row_key if column in self.schema.names]


def table_rows(shape: Shape, history_retention_ms: int | None) -> StoreRowSchema:
    """Of a table's key-value store; with a history retention it is versioned."""
    if history_retention_ms is not None:
        return StoreRowSchema(version_schema(shape), VERSION_KEY)
    is_windowed = shape.window is not None
    return StoreRowSchema(key_value_schema(shape.key.arrow_type, shape.value.arrow_type, is_windowed=is_windowed))


def version_schema(shape: Shape) -> pa.Schema:
    """Versions of a table of ``shape``: valid in [from, to), to null for the latest."""
    times = [pa.field(name, pa.int64()) for name in ("valid_from_ms", "valid_to_ms")]
    value = pa.field("value", shape.value.arrow_type)
    return pa.schema([pa.field("key", shape.key.arrow_type), *times, value, pa.field("is_mark", pa.bool_())])


def aggregate_schema(key: pa.DataType, aggregate: pa.DataType, *, is_windowed: bool) -> pa.Schema:
    """Aggregates by key, or by key and window. ``aggregate``: durable form of one."""
    window = [pa.field(name, pa.int64()) for name in WINDOW] if is_windowed else []
    return pa.schema([pa.field("key", key), *window, pa.field("aggregate", aggregate), TIME])


def buffer_schema(shape: Shape) -> pa.Schema:
    """Records of ``shape`` that wait and continue as what they were; a null value is a tombstone."""
    bounds = () if shape.window is None else WINDOW
    times = [(name, pa.int64()) for name in (*bounds, *BUFFER_KEY)]
    origin = [("headers", HEADERS), ("topic", pa.string()), ("offset", pa.int64())]
    return pa.schema([("key", shape.key.arrow_type), *times, ("value", shape.value.arrow_type), *origin])
