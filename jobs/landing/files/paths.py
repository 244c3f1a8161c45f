"""Columns within columns: ``payload.after.id`` is the field id of the object after in the column payload.

Owns what such a name means. Rule: a column that is so called as a whole counts first. Within an object that is null,
everything is null.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

MISSING = object()
"""Of a row that has no such column, which is not null."""


def value_at(row: Mapping[str, Any], name: str) -> Any:
    """The value of column ``name`` of a row of JSON, or MISSING."""
    if name in row:
        return row[name]
    value: Any = row
    for part in name.split("."):
        if value is None:
            return None
        if not isinstance(value, dict) or part not in value:
            return MISSING
        value = value[part]
    return value


def root_of(name: str, names: Sequence[str]) -> str:
    """The column of a file with columns ``names`` in which column ``name`` is."""
    return name if name in names else name.split(".")[0]


def has_column(schema: pa.Schema | pa.StructType, name: str) -> bool:
    """Is there a column ``name`` of that type, or a field of that path?"""
    if schema.get_field_index(name) >= 0:
        return True
    kind: Any = schema
    for part in name.split("."):
        is_nested = isinstance(kind, pa.Schema) or pa.types.is_struct(kind)
        if not is_nested or kind.get_field_index(part) < 0:
            return False
        kind = kind.field(part).type
    return True


def kind_at(schema: pa.Schema, name: str) -> pa.DataType:
    """The type of column ``name``, or of the field of that path, of which ``has_column`` is true."""
    root = root_of(name, schema.names)
    kind = schema.field(root).type
    for part in [] if name == root else name.split(".")[1:]:
        kind = kind.field(part).type
    return kind


def column_at(columns: Mapping[str, pa.Array], name: str) -> pa.Array:
    """Column ``name``, or the field of that path, of which ``has_column`` is true."""
    if name in columns:
        return columns[name]
    root, *path = name.split(".")
    return pc.struct_field(columns[root], path)
