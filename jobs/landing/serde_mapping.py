"""A mapping that fits what a topology reads: types of CSV columns, keys and values of one column, by its serdes.

Owns the step from serdes to a mapping. Rule: what the serdes do not say is left as it was declared.
"""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa

from ...state.errors import ConfigError, LandingError
from ...state.serdes import Serde
from ...state.serdes.json_text.json_codec import JsonCodec
from ...state.serdes.json_text.json_schema import type_text
from .file_formats import FORMATS
from .file_source import CSV_TYPES, SERDE_TYPES, FileSource
from .files.columns import SERDES, BadValuesError, json_objects
from .files.records import json_column
from .files.serde_texts import has_own_text
from .first_record import FirstRecord

_TYPES = {SERDES[kind](): kind for kind in SERDE_TYPES}
_TEXT = ("string", "bytes")
_WHOLE = ("byte", "short", "int", "long")


class Serdes(NamedTuple):
    """With which a topic is read."""

    key: Serde
    value: Serde


def with_serdes(source: FileSource, topic: str, serdes: Serdes) -> FileSource:
    """``source``, whose format is known, for a topic that is read with these serdes.

    Raises ConfigError where a number is to be written and no column is named for it.
    """
    key, value = serdes
    key_type, value_type, types = source.key_type, source.value_type, source.types
    if source.key is not None and source.key_type is None and _TYPES.get(key) not in (None, *_TEXT):
        if not isinstance(source.key, str):
            got = f"{len(source.key)}"
            raise ConfigError(f"topic {topic!r}, read as {key}", "one column as the key", got, "name it (--key)")
        key_type = _TYPES[key]
    kind = _TYPES.get(value)
    if kind not in (None, *_TEXT) and source.value_type is None:
        if not isinstance(source.value, str):
            got = "none" if source.value is None else f"{len(source.value)}"
            raise ConfigError(f"topic {topic!r}, read as {value}", "one column as the value", got, "name it (--value)")
        value_type = kind
    has_text_cells = source.format is not None and FORMATS[source.format].has_text_cells
    if value.is_struct and has_text_cells and not source.types and not isinstance(source.value, str):
        of = {field.name: _csv_type(field.type) for field in value.arrow_type}
        types = of if source.value is None else {name: of[name] for name in source.value if name in of}
    if key.is_struct and has_text_cells and not source.types and isinstance(source.key, tuple):
        of = {field.name: _csv_type(field.type) for field in key.arrow_type}
        types = {name: of[name] for name in source.key if name in of} | dict(types)
    json_types, key_json_types = source.json_types, source.key_json_types
    if source.format is not None and FORMATS[source.format].has_arrow_types and not json_types:
        json_types, key_json_types = _json_types_of_parts(source, serdes)
    return replace(
        source, key_type=key_type, value_type=value_type, types=types, json_types=json_types,
        key_json_types=key_json_types,
    )  # fmt: skip


def _json_types_of_parts(source: FileSource, serdes: Serdes) -> tuple[dict[str, str], dict[str, str] | None]:
    """Types of columns of the value and of the key; None: of the key as of the value."""
    value, key = _json_types(source.value, serdes.value), _json_types(source.key, serdes.key)
    # A whole number is 42 in the key as in the value, since a key
    # of 42.0 would be another one; no other type is the key's.
    key = {name: kind for name, kind in value.items() if kind in _WHOLE and _takes(source.key or (), name)} | key
    both = value | key
    is_one = all(
        (key.get(name) == kind or not _takes(source.key or (), name))
        and (value.get(name) == kind or not _takes(source.value, name))
        for name, kind in both.items()
    )
    return (both, None) if is_one else (value, key)


def _takes(columns: str | Sequence[str] | None, name: str) -> bool:
    """Is column ``name``, or a field, in ``columns`` of a key or a value?"""
    if isinstance(columns, str):
        return name == columns or name.startswith(f"{columns}.")
    return columns is None or name in columns


def _json_types(columns: str | Sequence[str] | None, serde: Serde) -> dict[str, str]:
    """Types of columns whose text in Serde.json is another than in Kafka Connect's JSON. Of one column that may be a
    struct, types of its fields, by their paths.
    """
    kind = serde.arrow_type
    if not isinstance(serde.codec, JsonCodec):
        return {}
    if not serde.is_struct:
        return {columns: type_text(kind)} if isinstance(columns, str) and has_own_text(kind) else {}
    within = f"{columns}." if isinstance(columns, str) else ""
    return {
        f"{within}{field.name}": type_text(field.type)
        for field in kind
        if (within or _takes(columns, field.name)) and has_own_text(field.type)
    }


def refuse_undecodable(topic: str, source: FileSource, first: FirstRecord, serdes: Serdes, most: float) -> None:
    """Raises LandingError when more than the share ``most`` of the first records that are not null cannot be decoded.
    Also when a column of Parquet or Avro has a type of which the serde decodes no value.
    """
    for part, serde, column in zip(("key", "value"), serdes, (first.block.key, first.block.value), strict=True):
        decoded = serde.decode(column)
        rows, bad = len(column) - column.null_count, int(decoded.bad.sum())
        if bad and bad > most * rows:
            mapping = "correct the mapping" if serde.is_struct else f"name its one column (--{part})"
            next_step = f"{mapping}, or correct types of CSV columns (--types) or the serde of the topology"
            expected = f"a {part} that {serde} reads"
            got = f"{next(iter(decoded.reasons.values()))} ({bad:,} of the first {rows:,})"
            raise LandingError(f"topic {topic}, {first.file}", expected, got, next_step)
    key, value = serdes
    for part, serde, chosen in (("key", key, source.key), ("value", value, source.value)):
        if serde.is_struct and not isinstance(chosen, str) and not (part == "key" and chosen is None):
            _refuse_types(topic, source, first, serde, part, tuple(first.kinds) if chosen is None else chosen)


def _refuse_types(
    topic: str, source: FileSource, first: FirstRecord, serde: Serde, part: str, columns: Sequence[str]
) -> None:
    fields = {field.name for field in serde.arrow_type}
    for name in columns:
        kind = first.kinds.get(name)
        probe = None if kind is None or name not in fields else _probe(kind)
        if probe is None:
            continue
        try:
            written = json_column(source, source.json_types_of(part), name, probe)
        except BadValuesError:  # as a time without a zone: the type is right
            continue
        decoded = serde.decode(json_objects([name], [written]))
        if decoded.bad[0]:
            place = f"topic {topic}, {first.file}, column {name} ({kind})"
            next_step = "correct the type in the serde of the topology, or leave the column out (--value)"
            raise LandingError(place, f"a type that {serde} reads", decoded.reasons[0], next_step)


def _probe(kind: pa.DataType) -> pa.Array | None:
    """A value that a column of ``kind`` may have; None of types whose values differ in what they can be."""
    if pa.types.is_boolean(kind):
        return pa.array([True], kind)
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(0)], kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_timestamp(kind):
        return pa.array([0], kind)
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return pa.array([0], pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return None


def _csv_type(kind: pa.DataType) -> str:
    names = {
        pa.string(): "string",
        pa.int32(): "int",
        pa.int64(): "long",
        pa.float64(): "double",
        pa.bool_(): "boolean",
        pa.int8(): "int",
        pa.int16(): "int",
        pa.float32(): "double",
    }
    is_text = pa.types.is_temporal(kind) or pa.types.is_binary(kind) or pa.types.is_decimal(kind)
    csv_type = "string" if is_text else names.get(kind, "json")
    assert csv_type in CSV_TYPES
    return csv_type
