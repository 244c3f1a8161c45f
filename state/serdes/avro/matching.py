"""Which schemas fit each other: branches of unions, names with their aliases, and defaults.

Owns the comparisons of schema resolution; the rules are those of Java's ``org.apache.avro.Resolver``.
"""

from typing import Any

from .schema import (
    MISSING,
    ArraySchema,
    EnumSchema,
    Field,
    FixedSchema,
    MapSchema,
    Named,
    RecordSchema,
    Schema,
    UnionSchema,
    short_name,
)

PROMOTED = {
    "long": ("int",), "float": ("int", "long"), "double": ("int", "long", "float"), "string": ("bytes",),
    "bytes": ("string",),
}  # fmt: skip
"""What else may have been written where the reader has a type."""
_BRANCH_PROMOTED = {
    "int": ("long", "double", "float"), "long": ("double", "float"), "float": ("double",), "string": ("bytes",),
    "bytes": ("string",),
}  # fmt: skip


def field_aliases(writer: RecordSchema, reader: RecordSchema) -> dict[str, str]:
    """The reader's name of each field that it has an alias for; of records of one name only, as Java."""
    if not _same_full_name(writer, reader):
        return {}
    return {alias: one.name for one in reader.fields for alias in one.aliases}


def _same_full_name(writer: Named, reader: Named) -> bool:
    return writer.name == reader.name or writer.name in reader.aliases


def same_name(writer: Named, reader: Named) -> bool:
    """Whether two enums or fixeds are the same: by their short names, or by an alias of the reader\'s."""
    return short_name(writer.name) == short_name(reader.name) or writer.name in reader.aliases


def matching_branch(writer: Schema, reader: UnionSchema) -> int | None:
    """Number of the reader's branch for a writer that is no union; None when there is none."""
    alike = None
    for at, one in enumerate(reader.branches):
        if one.kind != writer.kind:
            continue
        if not isinstance(one, RecordSchema | EnumSchema | FixedSchema):
            return at
        assert isinstance(writer, RecordSchema | EnumSchema | FixedSchema)
        if _same_full_name(writer, one):
            return at
        if isinstance(writer, RecordSchema) and isinstance(one, RecordSchema) and _fields_fit(writer, one):
            is_named = short_name(writer.name) == short_name(one.name)
            alike = at if alike is None or is_named else alike
    if alike is not None:
        return alike
    promoted = _BRANCH_PROMOTED.get(writer.kind, ())
    return next((at for at, one in enumerate(reader.branches) if one.kind in promoted), None)


def _fields_fit(writer: RecordSchema, reader: RecordSchema) -> bool:
    """Whether no field of the reader is missing and none is of a type that cannot be read, looked at one level deep."""
    written = {one.name: one.type for one in writer.fields}
    return all(
        one.default is not MISSING if one.name not in written else _may_resolve(written[one.name], one.type)
        for one in reader.fields
    )


def _may_resolve(writer: Schema, reader: Schema) -> bool:
    if isinstance(writer, UnionSchema):
        return True
    if isinstance(reader, UnionSchema):
        return matching_branch(writer, reader) is not None
    if (
        isinstance(writer, FixedSchema | EnumSchema)
        and isinstance(reader, FixedSchema | EnumSchema)
        and writer.kind == reader.kind
    ):
        size = isinstance(writer, FixedSchema) and isinstance(reader, FixedSchema) and writer.size != reader.size
        return short_name(writer.name) == short_name(reader.name) and not size
    if isinstance(writer, RecordSchema) and isinstance(reader, RecordSchema):
        written = {one.name for one in writer.fields}
        return all(one.name in written or one.default is not MISSING for one in reader.fields)
    return writer.kind == reader.kind or writer.kind in PROMOTED.get(reader.kind, ())


def are_equivalent(writer: Schema, reader: Schema, seen: frozenset[tuple[str, str]] = frozenset()) -> bool:
    """Whether two unions have the same branches, so that the number of one is the number of the other."""
    if writer.kind != reader.kind:
        return False
    if isinstance(writer, RecordSchema | EnumSchema | FixedSchema) and isinstance(
        reader, RecordSchema | EnumSchema | FixedSchema
    ):
        if short_name(writer.name) != short_name(reader.name):
            return False
        if isinstance(writer, RecordSchema) and isinstance(reader, RecordSchema):
            if (pair := (writer.name, reader.name)) in seen:
                return True
            return [one.name for one in writer.fields] == [one.name for one in reader.fields] and all(
                are_equivalent(one.type, other.type, seen | {pair})
                for one, other in zip(writer.fields, reader.fields, strict=True)
            )
        if isinstance(writer, EnumSchema) and isinstance(reader, EnumSchema):
            return writer.symbols == reader.symbols
        return isinstance(writer, FixedSchema) and isinstance(reader, FixedSchema) and writer.size == reader.size
    if isinstance(writer, ArraySchema) and isinstance(reader, ArraySchema):
        return are_equivalent(writer.items, reader.items, seen)
    if isinstance(writer, MapSchema) and isinstance(reader, MapSchema):
        return are_equivalent(writer.values, reader.values, seen)
    if isinstance(writer, UnionSchema) and isinstance(reader, UnionSchema):
        return len(writer.branches) == len(reader.branches) and all(
            are_equivalent(one, other, seen) for one, other in zip(writer.branches, reader.branches, strict=True)
        )
    return True


def said(schema: Schema) -> str:
    """A type in a sentence."""
    if isinstance(schema, UnionSchema):
        return " or ".join(said(one) for one in schema.branches)
    return schema.name if isinstance(schema, RecordSchema | EnumSchema | FixedSchema) else schema.kind


def may_be(schema: Schema, value: Any) -> bool:
    """Whether a default's JSON is of a type."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(schema, RecordSchema):
        return isinstance(value, dict) and all(_has(one, value) for one in schema.fields)
    if isinstance(schema, ArraySchema):
        return isinstance(value, list) and all(may_be(schema.items, one) for one in value)
    if isinstance(schema, MapSchema):
        return isinstance(value, dict) and all(may_be(schema.values, one) for one in value.values())
    if isinstance(schema, UnionSchema):
        return any(may_be(one, value) for one in schema.branches)
    if isinstance(schema, EnumSchema):
        return value in schema.symbols
    if isinstance(schema, FixedSchema):
        return isinstance(value, str) and all(ord(one) < 256 for one in value) and len(value) == schema.size
    if schema.kind in ("int", "long"):
        limit = 2 ** (31 if schema.kind == "int" else 63)
        return is_whole and -limit <= value < limit
    if schema.kind in ("float", "double"):
        return is_whole or isinstance(value, float)
    if schema.kind == "bytes":
        return isinstance(value, str) and all(ord(one) < 256 for one in value)
    kinds: dict[str, type] = {"null": type(None), "boolean": bool, "string": str}
    return isinstance(value, kinds[schema.kind])


def _has(one: Field, value: dict[str, Any]) -> bool:
    field_value = value.get(one.name, one.default)
    return field_value is not MISSING and may_be(one.type, field_value)
