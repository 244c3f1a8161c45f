"""Python values as columns of the types that a JSON schema declares, and back.

Owns the Python type of each. Scalars are str, bool, int, float, Decimal, bytes, date and time without a zone. Others
are datetime (with a zone for a timestamp, without for a timestamp_ntz), list, dict for a struct and a map. Rule: an int
becomes a double or a decimal, and a float the nearest of 32 bits; nothing else is converted. A value that does not fit
is a ConfigError.
"""

from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import ConfigError
from ..codec import is_in_utc, refuse_field, refuse_value
from ..exact_decimals import with_scale
from ..fixed_width import KINDS, number, numbers_from_python

_NULL = type(None)
_YEAR_MAX = 9999
_OFFSET_MAX = 2**31 - 1


def values_to_python(values: pa.Array) -> list[Any]:
    """Python values of a column; a map is a dict."""
    return list(values.to_pylist(maps_as_pydicts="strict"))


def values_from_python(values: list[Any], kind: pa.DataType, place: str) -> pa.Array:
    """Column of ``kind``. Raises ConfigError that names row and field."""
    try:
        return _columns(values, kind)
    except (_NotPlain, ConfigError):
        pass  # convert what can be converted; say in which row something else stands
    rows = [_checked(value, kind, f"{place}, row {row}") for row, value in enumerate(values)]
    return pa.array(rows, kind)


class _NotPlain(Exception):
    """Values that are to be looked at one by one."""


def _columns(values: list[Any], arrow_type: pa.DataType) -> pa.Array:
    """Array of plain Python values, column by column. Raises _NotPlain when some value is not exactly of its type, and
    ConfigError when a number does not fit.
    """
    kinds = set(map(type, values))
    if pa.types.is_struct(arrow_type):
        return _struct_columns(values, kinds, arrow_type)
    if pa.types.is_list(arrow_type):
        items, offsets, mask = _elements(values, kinds, list)
        return pa.ListArray.from_arrays(offsets, _columns(items, arrow_type.value_type), arrow_type, mask=mask)
    if pa.types.is_map(arrow_type):
        items, offsets, mask = _elements(values, kinds, dict)
        keys, parts = _columns(items, pa.string()), [one[key] for one in values if one is not None for key in one]
        if keys.null_count:
            raise _NotPlain
        return pa.MapArray.from_arrays(offsets, keys, _columns(parts, arrow_type.item_type), arrow_type, mask=mask)
    if arrow_type in KINDS:
        kind = KINDS[arrow_type]
        if not kinds <= ({int, float, _NULL} if pa.types.is_floating(arrow_type) else {int, _NULL}):
            raise _NotPlain
        return numbers_from_python(values, kind, "")
    if not kinds <= {*_plain_types(arrow_type), _NULL}:
        raise _NotPlain
    if _has_clock(arrow_type) and any(value is not None and not _fits_clock(value, arrow_type) for value in values):
        raise _NotPlain
    try:
        if pa.types.is_decimal(arrow_type):
            values = [None if value is None else with_scale(Decimal(value), arrow_type.scale) for value in values]
        return pa.array(values, arrow_type)
    except (UnicodeError, ArithmeticError, pa.ArrowException) as error:
        raise _NotPlain from error


def _elements(values: list[Any], kinds: set[type], kind: type) -> tuple[list[Any], pa.Array, pa.Array]:
    """Elements of all lists (keys of all dicts), the offsets of each value, and which values are null."""
    if not kinds <= {kind, _NULL}:
        raise _NotPlain
    lengths = [0 if value is None else len(value) for value in values]
    items = [one for value in values if value is not None for one in value]
    offsets = np.concatenate([[0], np.cumsum(np.array(lengths, np.int64))])
    if offsets[-1] > _OFFSET_MAX:
        raise _NotPlain
    return items, pa.array(offsets.astype(np.int32)), pa.array([value is None for value in values], pa.bool_())


def _struct_columns(values: list[Any], kinds: set[type], arrow_type: pa.StructType) -> pa.Array:
    if not kinds <= {dict, _NULL}:
        raise _NotPlain
    objects = [{} if value is None else value for value in values] if _NULL in kinds else values
    names = [field.name for field in arrow_type]
    orders = set(map(tuple, objects))
    if not all(set(names).issuperset(order) for order in orders):
        raise _NotPlain
    arrays = []
    for field in arrow_type:
        get = (
            itemgetter(field.name) if all(field.name in order for order in orders) else methodcaller("get", field.name)
        )
        arrays.append(_columns(list(map(get, objects)), field.type))
    mask = pa.array([value is None for value in values], pa.bool_()) if _NULL in kinds else None
    return pa.StructArray.from_arrays(arrays, fields=list(arrow_type), mask=mask)


def _checked(value: Any, arrow_type: pa.DataType, place: str) -> Any:
    """``value`` as it is stored; ConfigError names the place where it is not of ``arrow_type``."""
    if value is None:
        return None
    if arrow_type in KINDS:
        return number(value, KINDS[arrow_type], place)
    if pa.types.is_struct(arrow_type):
        return _checked_fields(value, arrow_type, place)
    if pa.types.is_list(arrow_type):
        if not isinstance(value, list | tuple):
            refuse_value(place, "a list", value)
        return [_checked(one, arrow_type.value_type, f"{place}[{at}]") for at, one in enumerate(value)]
    if pa.types.is_map(arrow_type):
        return _checked_entries(value, arrow_type, place)
    if pa.types.is_boolean(arrow_type):
        if not isinstance(value, bool | np.bool_):
            refuse_value(place, "a bool", value)
        return bool(value)
    if pa.types.is_decimal(arrow_type):
        return _checked_decimal(value, arrow_type, place)
    if not pa.types.is_string(arrow_type):
        return _checked_plain(value, arrow_type, place)
    if not isinstance(value, str):
        refuse_value(place, "a str", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        refuse_value(place, "a str that UTF-8 can write", value, "remove the lone surrogate")
    return value


def _checked_fields(value: Any, arrow_type: pa.StructType, place: str) -> dict[str, Any]:
    names = [field.name for field in arrow_type]
    if not isinstance(value, dict):
        refuse_value(place, f"a dict with the fields {', '.join(names)}", value)
    for name in value:
        if name not in names:
            refuse_field(place, names, name)
    return {
        field.name: _checked(value.get(field.name), field.type, f"{place}, field {field.name}") for field in arrow_type
    }


def _checked_entries(value: Any, arrow_type: pa.MapType, place: str) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        refuse_value(place, "a dict", value)
    for key in value:
        if key is None:
            refuse_value(place, "keys that are a str", key)
    return [
        (_checked(key, pa.string(), f"{place}, a key"), _checked(one, arrow_type.item_type, f"{place}[{key!r}]"))
        for key, one in value.items()
    ]


def _checked_decimal(value: Any, arrow_type: pa.Decimal128Type, place: str) -> Decimal:
    expected = f"a Decimal that fits decimal({arrow_type.precision},{arrow_type.scale})"
    if not isinstance(value, Decimal | int) or isinstance(value, bool):
        refuse_value(place, expected, value)
    try:
        stored = with_scale(Decimal(value), arrow_type.scale)
        pa.array([stored], arrow_type)
    except (pa.ArrowException, ArithmeticError):
        refuse_value(place, expected, value, "round it, or declare more digits")
    return stored


def _checked_plain(value: Any, arrow_type: pa.DataType, place: str) -> Any:
    """Of bytes, dates and times."""
    if isinstance(value, np.datetime64) or type(value) not in _plain_types(arrow_type):
        refuse_value(place, _expected(arrow_type), value)
    if _has_clock(arrow_type) and not _fits_clock(value, arrow_type):
        is_beyond = pa.types.is_timestamp(arrow_type) and arrow_type.tz is not None and value.tzinfo is not None
        refuse_value(place, f"{_expected(arrow_type)}{', of the years 1 to 9999 in UTC' if is_beyond else ''}", value)
    return value


def _expected(arrow_type: pa.DataType) -> str:
    if pa.types.is_timestamp(arrow_type):
        return "a datetime without a zone" if arrow_type.tz is None else "a datetime with a zone"
    if pa.types.is_time(arrow_type):
        return "a time without a zone"
    return "a date" if pa.types.is_date(arrow_type) else "bytes"


def _plain_types(arrow_type: pa.DataType) -> Sequence[type]:
    """Of the Python values that Arrow takes as they are."""
    if pa.types.is_decimal(arrow_type):
        return (Decimal, int)
    if pa.types.is_timestamp(arrow_type):
        return (datetime,)
    if pa.types.is_time(arrow_type):
        return (time,)
    if pa.types.is_date(arrow_type):
        return (date,)
    if pa.types.is_binary(arrow_type):
        return (bytes,)
    return (bool,) if pa.types.is_boolean(arrow_type) else (str,)


def _has_clock(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(arrow_type) or pa.types.is_time(arrow_type))


def _fits_clock(value: datetime | time, arrow_type: pa.DataType) -> bool:
    """Has a zone exactly where the type is one of instants, and then is one of Python's in UTC."""
    has_zone = pa.types.is_timestamp(arrow_type) and arrow_type.tz is not None
    if (value.tzinfo is not None) != has_zone:
        return False
    return not isinstance(value, datetime) or not has_zone or 1 < value.year < _YEAR_MAX or is_in_utc(value)
