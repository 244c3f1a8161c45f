"""What Kafka knows of a record besides key, value and time, from columns of files: headers and timestamp types.

Owns the forms in which tools write them. Rule: as in columns.py, nothing is replaced, guessed or left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.tables.in_place import TYPES_OF_TIMESTAMPS, WORDS_OF_TIMESTAMP_TYPES, types_of
from ....state.tables.warehouse import HEADERS
from .columns import Repeating, each, is_text, is_text_or_bytes, json_text, json_with_headers, listed

_CREATE_TIME = 0
"""Kafka's number of it."""


def headers_of(values: Sequence[Any] | pa.Array) -> pa.Array:
    """Headers as the landed table has them: from lists of {key, value}, maps, objects, or names and values in turn, or
    JSON text of these; null: none. Values are bytes, text as UTF-8, or JSON text of what is neither.
    """
    if isinstance(values, pa.Array):
        if is_headers(values.type):
            if values.null_count:
                values = pc.if_else(pc.is_valid(values), values, pa.scalar([], values.type))
            pairs = values.flatten()
            if pairs.null_count == 0 and pc.struct_field(pairs, "key").null_count == 0:
                return values.cast(HEADERS)
        values = values.to_pylist()
    expected = "headers: a list of {key, value}, a map, or names and values in turn"
    return pa.array(each(values, expected, _headers), HEADERS)


def timestamp_types(values: Sequence[Any] | pa.Array) -> pa.Array:
    """``CreateTime``, ``LogAppendTime`` or ``NoTimestampType``, from these words, Kafka's numbers or kcat's words. Null
    is CreateTime, as where no column has them.
    """
    if isinstance(values, pa.Array) and pa.types.is_integer(values.type):
        words = types_of(np.asarray(values.fill_null(_CREATE_TIME)))
        if words is not None:
            return words
    types = each(listed(values), f"a timestamp type ({', '.join(TYPES_OF_TIMESTAMPS.values())})", _timestamp_type)
    return pa.array(types, pa.string())


def is_headers(kind: pa.DataType) -> bool:
    """Lists of (key: text, value: bytes or text), as Spark's Kafka source and Polars give them."""
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    fields = list(kind.value_type)
    named = [field.name for field in fields] == ["key", "value"]
    return named and is_text(fields[0].type) and is_text_or_bytes(fields[1].type)


def _headers(value: Any) -> list[dict[str, Any]]:
    if value is None:
        return []
    if isinstance(value, str):
        value = json_with_headers(value)
        if isinstance(value, str):
            raise TypeError(value)
        return _headers(value)
    if isinstance(value, Mapping):
        pairs = value.pairs if isinstance(value, Repeating) else value.items()
        return [_header(key, each_value) for key, each_value in pairs]
    if not isinstance(value, list):
        raise TypeError(value)
    if all(isinstance(pair, Mapping) for pair in value):
        if any(set(pair) != {"key", "value"} for pair in value):
            raise ValueError(value)
        return [_header(pair["key"], pair["value"]) for pair in value]
    if all(isinstance(pair, tuple) for pair in value):  # a map of Parquet
        return [_header(key, each_value) for key, each_value in value]
    if len(value) % 2:
        raise ValueError(value)
    return [_header(key, each_value) for key, each_value in zip(value[::2], value[1::2], strict=True)]


def _header(key: Any, value: Any) -> dict[str, Any]:
    if isinstance(key, bytes):
        key = key.decode()
    if not isinstance(key, str):
        raise TypeError(key)
    if value is not None and not isinstance(value, bytes):
        value = (value if isinstance(value, str) else json_text(value)).encode()
    return {"key": key, "value": value}


def _timestamp_type(value: Any) -> str:
    value = _CREATE_TIME if value is None else value
    word = WORDS_OF_TIMESTAMP_TYPES.get(str(value).lower())
    if word is None or isinstance(value, bool):
        raise ValueError(value)
    return word
