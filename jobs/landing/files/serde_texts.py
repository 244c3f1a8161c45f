"""Columns of Parquet and Avro as the JSON text that a type of Serde.json reads.

Owns that text. Rule: it is what Serde.json itself writes for the value in that type: dates, times and timestamps as
text with all their microseconds, NaN and infinities as Jackson has them. A cell that the type cannot hold is bad.
"""

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from ....state.errors import ConfigError
from ....state.serdes.json_text.json_schema import parse_schema
from ....state.serdes.json_text.json_writer import json_texts
from .columns import BadValue, BadValuesError, with_leaves


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
    """Can a column of ``kind`` be written as the type with these words? A whole number is made of numbers only."""
    wanted = _type(type_text)
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
    try:
        pa.array([], kind).cast(wanted)
    except (pa.ArrowException, ValueError):
        return False
    return True


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
    is_naive = pa.types.is_timestamp(values.type) and values.type.tz is None
    if is_naive and pa.types.is_timestamp(kind) and kind.tz is not None:
        if zone is None and values.null_count < len(values):
            raise ValueError("a time without a zone (--zone)")
        values = pc.assume_timezone(values, zone or "UTC", ambiguous="earliest", nonexistent="raise")
    # By the shortest digits: a cast of 0.1 from 32 to 64 bits gives 0.10000000149011612.
    digits = with_leaves(values.type, lambda leaf: pa.string() if leaf == pa.float32() else leaf)
    return json_texts((values if digits == values.type else values.cast(digits)).cast(kind))
