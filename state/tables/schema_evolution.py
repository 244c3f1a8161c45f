"""Columns of a Delta table against those that an increment writes.

Owns what counts as the same columns, and the adding of nullable ones. Rule: a table may gain columns, and fields of
structs, which are null in every row from before; it never loses one and none changes its type. Adding is a metadata
commit of its own before the increment's transaction: a crash between the two leaves a column that nobody has filled,
and adding it again changes nothing. Delta has no type for a time of day: it is a long, microseconds since midnight.
"""

from collections.abc import Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema

from ..errors import ConfigError
from .data_files import OpenTables, open_table
from .object_stores import is_remote, timeout_seconds
from .patience import patiently


def refuse_other_columns(table: DeltaTable, path: str, schema: pa.Schema) -> None:
    """Raises ConfigError unless the table has the columns of ``schema`` and no others."""
    want, have = _delta_types(Schema.from_arrow(schema)), _delta_types(table.schema())
    if want != have:
        wanted = ", ".join(f"{name} {kind}" for name, kind in want.items() if have.get(name) != kind)
        got = ", ".join(f"{name} {kind}" for name, kind in have.items() if want.get(name) != kind)
        raise ConfigError(
            path,
            f"columns {wanted or '(no more)'}",
            got or "a table without them",
            "write to another pipeline or output",
        )


def union(have: pa.Schema, want: pa.Schema) -> pa.Schema:
    """Columns and fields of structs of both, first those of ``have``; of what both have, the types fit."""
    fields = [
        pa.field(field.name, _union(field.type, want.field(field.name).type)) if field.name in want.names else field
        for field in have
    ]
    return pa.schema([*fields, *(field for field in want if field.name not in have.names)])


def _union(have: pa.DataType, want: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        return pa.struct(list(union(pa.schema(list(have)), pa.schema(list(want)))))
    if pa.types.is_list(have) and pa.types.is_list(want):
        return pa.list_(_union(have.value_type, want.value_type))
    return have


def other_types(table: DeltaTable, schema: pa.Schema) -> list[str]:
    """Columns of ``schema`` whose rows cannot be in the table's, however many columns and fields it gains."""
    have = dict(zip(*_columns(pa.schema(table.schema().to_arrow())), strict=True))
    # Through Delta's types and back, since Arrow has more: a large string is a string there.
    want = dict(zip(*_columns(pa.schema(Schema.from_arrow(schema).to_arrow())), strict=True))
    return [name for name, kind in want.items() if name in have and not _fits(have[name], kind)]


def grow(
    table: DeltaTable,
    path: str,
    schema: pa.Schema,
    *,
    opened: OpenTables | None = None,
) -> DeltaTable:
    """The table with every column and field of ``schema``, added where they were missing. ``opened``: as of
    ``open_table``.

    Raises ConfigError when one that it has is of another type; CommitFailedError when somebody else changed it.
    """
    have = dict(zip(*_columns(pa.schema(table.schema().to_arrow())), strict=True))
    want = dict(zip(*_columns(pa.schema(Schema.from_arrow(schema).to_arrow())), strict=True))
    wrong = other_types(table, schema)
    if wrong:
        name = wrong[0]
        next_step = "write to another pipeline or output, or migrate the store"
        raise ConfigError(path, f"column {name} {want[name]}", f"{name} {have[name]}", next_step)
    missing = [name for name, kind in want.items() if name not in have or _lacks(have[name], kind)]
    if not missing:
        return table
    fields = [field for field in Schema.from_arrow(schema).fields if field.name in missing]
    added = CommitProperties(custom_metadata={"replayColumns": ", ".join(missing)})

    def add() -> None:
        now = open_table(path) if is_remote(path) else None
        if now is None or not _are_there(now, fields):  # the answer to a first try may have been lost
            table.alter.add_columns(fields, commit_properties=added)

    patiently(add, timeout_seconds(path))
    grown = open_table(path, opened=opened)
    assert grown is not None, f"{path}: grown, yet not there"
    return grown


def _are_there(table: DeltaTable, fields: Sequence[Field]) -> bool:
    have = {field.name: field for field in table.schema().fields}
    return all(have.get(field.name) == field for field in fields)


def _delta_types(schema: Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema.fields}


def _columns(schema: pa.Schema) -> tuple[list[str], list[pa.DataType]]:
    return schema.names, schema.types


def _fits(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether rows of ``want`` can be in a column of ``have``, perhaps with more fields."""
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        known = {field.name: field.type for field in have}
        return all(_fits(known[field.name], field.type) for field in want if field.name in known)
    if pa.types.is_list(have) and pa.types.is_list(want):
        return _fits(have.value_type, want.value_type)
    return bool(have == want)


def _lacks(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether ``want`` has a field that ``have`` does not."""
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        known = {field.name: field.type for field in have}
        return any(field.name not in known or _lacks(known[field.name], field.type) for field in want)
    return bool(pa.types.is_list(want) and _lacks(have.value_type, want.value_type))


# --- what Delta has no type for


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Type in a table: a long for a time of day, whatever it is nested in; ``kind`` itself where Delta has it. Whoever
    reads with the declared columns (``conformed``) has the time back.
    """
    if pa.types.is_time(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        fields = [pa.field(field.name, stored_type(field.type), field.nullable) for field in kind]
        return kind if [field.type for field in fields] == [field.type for field in kind] else pa.struct(fields)
    if pa.types.is_list(kind):
        inner = stored_type(kind.value_type)
        return kind if inner == kind.value_type else pa.list_(inner)
    if pa.types.is_map(kind):
        inner = stored_type(kind.item_type)
        return kind if inner == kind.item_type else pa.map_(kind.key_type, inner)
    return kind


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Columns as a table has them; ``schema`` itself where it may be so."""
    kinds = [stored_type(kind) for kind in schema.types]
    if kinds == schema.types:
        return schema
    return pa.schema([pa.field(name, kind) for name, kind in zip(schema.names, kinds, strict=True)])


def as_stored(table: pa.Table) -> pa.Table:
    """Rows as a table has them."""
    schema = stored_schema(table.schema)
    return table if schema is table.schema or schema == table.schema else table.cast(schema)
