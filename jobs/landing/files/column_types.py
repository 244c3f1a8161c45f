"""Types of keys and values in files that have types, and what becomes of equal values where a file has others.

Owns the comparison. Rule: a column changes where equal values get other text, as 42 and 42.0 do; an int of 32 bits and
one of 64 do not.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from ..file_source import FileSource
from .columns import is_text, is_text_or_bytes
from .serde_texts import can_be

_SERIALIZED = ("int", "long", "double", "boolean")
"""Types of a serializer: its bytes are of the value, whatever text the value has."""


class ColumnType(NamedTuple):
    """``spelled``: how values are written; columns of one spelling write equal values alike. ``type``: Arrow's.
    ``file``: that has the column so; "": not said.
    """

    spelled: str
    type: str
    file: str = ""


class TypeChange(NamedTuple):
    """A column of a key or a value is written otherwise in ``now`` than in ``before``; ``more``: times after that."""

    column: str
    before: ColumnType
    now: ColumnType
    more: int


def column_types(source: FileSource, kinds: Mapping[str, pa.DataType]) -> dict[str, ColumnType]:
    """Of columns ``kinds`` those that keys and values are made of, and what is in them, by their path."""
    spelled_by_path: dict[str, dict[str, str]] = {}
    types: dict[str, str] = {}
    parts = (("key", source.key or (), source.key_type), ("value", source.value or tuple(kinds), source.value_type))
    for part, names, serializer in parts:
        is_alone = isinstance(names, str)
        if is_alone and serializer in _SERIALIZED:
            continue
        for name in [names] if isinstance(names, str) else names:
            if (kind := kinds.get(name)) is None:
                continue
            for path, spelled, of in _written(name, kind, source.json_types_of(part), is_alone=is_alone):
                spelled_by_path.setdefault(path, {})[part] = spelled
                types[path] = str(of)
    return {
        path: ColumnType(", ".join(f"{part} {how}" for part, how in sorted(spelled.items())), types[path])
        for path, spelled in spelled_by_path.items()
    }


def type_changes(
    known: Mapping[str, ColumnType], files: Iterable[Mapping[str, ColumnType]]
) -> tuple[list[TypeChange], dict[str, ColumnType]]:
    """Columns that are written otherwise in ``files``, in their order, than in what was ``known`` or in the file
    before; and what is known now and was not.
    """
    changes: dict[str, TypeChange] = {}
    new: dict[str, ColumnType] = {}
    for types in files:
        for column, now in types.items():
            before = new.get(column, known.get(column))
            if before is not None and before.spelled == now.spelled:
                continue
            new[column] = now
            if before is not None:
                first = changes.get(column)
                changes[column] = (
                    TypeChange(column, before, now, 0) if first is None else first._replace(more=first.more + 1)
                )
    return list(changes.values()), new


def _written(
    name: str, kind: pa.DataType, json_types: Mapping[str, str], *, is_alone: bool
) -> Iterator[tuple[str, str, pa.DataType]]:
    """(path, how values are written, type) of a column and all that is in it; nothing of one that has only nulls."""
    declared = json_types.get(name)
    if declared is not None and can_be(kind, declared):
        yield name, declared, kind
    elif pa.types.is_dictionary(kind):
        yield from _written(name, kind.value_type, json_types, is_alone=is_alone)
    elif kind.num_fields:
        for index in range(kind.num_fields):
            field = kind.field(index)
            yield from _written(f"{name}.{field.name}", field.type, json_types, is_alone=False)
    elif not pa.types.is_null(kind):
        yield name, _spelled(kind, is_alone=is_alone), kind


def _spelled(kind: pa.DataType, *, is_alone: bool) -> str:
    """``is_alone``: not within an object, where text has quotes, and bytes and decimals are text."""
    if pa.types.is_string_view(kind) or kind == pa.uuid():
        kind = pa.string()
    elif pa.types.is_binary_view(kind):
        kind = pa.binary()
    if pa.types.is_integer(kind):
        return "as it is" if is_alone else "whole"
    if pa.types.is_decimal(kind):
        return "as it is" if is_alone and kind.scale == 0 else f"{kind.scale} digits"
    if is_alone and (is_text_or_bytes(kind) or pa.types.is_fixed_size_binary(kind)):
        return "as it is"
    if is_text(kind):
        return "text"
    if is_text_or_bytes(kind) or pa.types.is_fixed_size_binary(kind):
        return "base64"
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        return "ms"
    return "days" if pa.types.is_date(kind) else str(kind)
