"""Columns of Parquet and Avro as the JSON text that a type of Serde.json reads.

Owns that text. Rule: it is what Serde.json itself writes for the value in that type: dates, times and timestamps as
text with all their microseconds, NaN and infinities as Jackson has them. A cell that the type cannot hold is bad.
What Arrow can cast is no measure: to it a number is a time, in the unit of that type, and a time is a date.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import is_list
from ....state.errors import ConfigError
from ....state.serdes.json_text.json_schema import parse_schema, type_text
from ....state.serdes.json_text.json_writer import json_texts
from .columns import BadValue, BadValuesError, is_text, is_text_or_bytes


def has_own_text(kind: pa.DataType) -> bool:
    """Is ``kind`` a whole number, which files may have as 42.0, or is in it a date, a time, a timestamp or a double,
    whose text Kafka Connect's JSON has otherwise?
    """
    return bool(pa.types.is_integer(kind)) or _has_own_text(kind)


def _has_own_text(kind: pa.DataType) -> bool:
    if pa.types.is_temporal(kind) or pa.types.is_floating(kind):
        return True
    return any(_has_own_text(kind.field(index).type) for index in range(kind.num_fields))


def can_be(kind: pa.DataType, type_text: str) -> bool:
    """Can a column of ``kind`` be written as the type with these words? Numbers are made of numbers, times of times."""
    return _can_be(kind, _type(type_text))


def _can_be(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _can_be(kind.value_type, wanted)
    if pa.types.is_null(kind):
        return True
    if pa.types.is_struct(wanted):
        return pa.types.is_struct(kind) and all(
            _can_be(kind.field(field.name).type, field.type) for field in wanted if _has(kind, field.name)
        )
    if pa.types.is_list(wanted):
        return is_list(kind) and _can_be(kind.value_type, wanted.value_type)
    if pa.types.is_map(wanted):
        return pa.types.is_map(kind) and is_text(kind.key_type) and _can_be(kind.item_type, wanted.item_type)
    if is_text(kind) and pa.types.is_temporal(wanted):
        return True
    if is_text(wanted) and (pa.types.is_decimal(kind) or kind == _UUID):
        return True
    return any(are(kind) and are(wanted) for are in _ALIKE)


def _has(kind: pa.StructType, name: str) -> bool:
    return bool(kind.get_field_index(name) >= 0)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_text_or_bytes(kind: pa.DataType) -> bool:
    return is_text_or_bytes(kind) or bool(pa.types.is_fixed_size_binary(kind))


_UUID = pa.uuid()
_ALIKE: tuple[Callable[[pa.DataType], bool], ...] = (
    _is_number, _is_text_or_bytes, pa.types.is_boolean, pa.types.is_date, pa.types.is_time, pa.types.is_timestamp
)  # fmt: skip
"""Kinds of types: a value of one is a value of each other type of its kind that can hold it."""


def serde_texts(values: pa.Array, type_text: str, zone: str | None) -> pa.StringArray:
    """JSON text of each value, ``null`` for null. ``zone``: of times that have none where the type is an instant; None:
    they are bad. BadValuesError with the rows that the type cannot hold.
    """
    kind = _type(type_text)
    try:
        return _texts(values, kind, zone)
    except (pa.ArrowException, ConfigError, ValueError):
        pass
    texts, bad = [], []
    for row in range(len(values)):
        try:
            texts += _texts(values.slice(row, 1), kind, zone).to_pylist()
        except (pa.ArrowException, ConfigError, ValueError) as error:
            bad.append(BadValue(row, f"a value that is a {type_text}", str(error).splitlines()[0][:200]))
    if bad:
        raise BadValuesError(bad)
    return pa.array(texts, pa.string())


@cache
def _type(type_text: str) -> pa.DataType:
    return parse_schema(f"v {type_text}").field(0).type


def _texts(values: pa.Array, kind: pa.DataType, zone: str | None) -> pa.StringArray:
    return json_texts(_as(values, kind, zone))


def _as(values: pa.Array, kind: pa.DataType, zone: str | None) -> pa.Array:
    """Values as ``kind``, which ``_can_be`` allows."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), kind)
    if pa.types.is_struct(kind):
        return _struct_as(values, kind, zone)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _elements_as(values, kind, zone)
    if _is_number(kind):
        return _number_as(values, kind)
    if values.type == _UUID:
        return pa.array([None if each is None else str(each) for each in values.to_pylist()], pa.string())
    if pa.types.is_timestamp(values.type) and values.type.tz is None and pa.types.is_timestamp(kind) and kind.tz:
        if zone is None and values.null_count < len(values):
            raise ValueError("a time without a zone (--zone)")
        values = pc.assume_timezone(values, zone or "UTC", ambiguous="earliest", nonexistent="raise")
    return values.cast(kind)


def _struct_as(values: pa.StructArray, kind: pa.StructType, zone: str | None) -> pa.StructArray:
    columns = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
    fields = [
        _as(columns[field.name], field.type, zone)
        if _has(values.type, field.name)
        else pa.nulls(len(values), field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pc.is_null(values))


def _elements_as(values: pa.Array, kind: pa.DataType, zone: str | None) -> pa.Array:
    """Of lists and maps. A map is a list of pairs, whose slices know where they begin."""
    if pa.types.is_map(kind):
        values = values.cast(pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])))
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
    elements, mask = values.flatten(), pc.is_null(values)
    if not pa.types.is_map(kind):
        return pa.ListArray.from_arrays(offsets, _as(elements, kind.value_type, zone), kind, mask=mask)
    keys, items = elements.flatten()
    items = _as(items, kind.item_type, zone)
    return pa.MapArray.from_arrays(offsets, keys.cast(kind.key_type), items, kind, mask=mask)


def _number_as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The number that the serde reads from the digits: a double is the nearest one to them."""
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float64())
    if pa.types.is_integer(kind):
        # By its shortest digits, as everywhere: 1e11 of 32 bits is 99999997952 to a cast.
        values = _number_as(values, pa.float64()) if pa.types.is_floating(values.type) else values
        return values.cast(kind)
    if values.type == kind or (pa.types.is_decimal(values.type) and pa.types.is_decimal(kind)):
        return values.cast(kind)
    texts = values.cast(pa.string())
    if pa.types.is_decimal(kind):
        return texts.cast(kind)
    numbers = (values if values.type == pa.float64() else texts).cast(kind)
    if pc.any(pc.and_(pc.is_inf(numbers), pc.invert(pc.match_substring(texts, "inf")))).as_py():
        raise ValueError(f"a number too big for a {type_text(kind)}")
    return numbers
