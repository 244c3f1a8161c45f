"""A value is what it was when it was handed over between the engine and a function of the user's.

Rule: what a function gives is taken at once, as an object of the engine's own that nobody else can reach, and what a
function is given is the function's own, too. So a change in place, before or after, changes nothing that was handed
over already. Kafka Streams does the same by serializing: what is put into a store is bytes before the call returns, and
what is read is a new object. Values that cannot change (numbers, text, bytes, times, None) are nobody's and need no
copy. What is kept as state is taken in the form in which the serde reads it back, so that the next call sees the same
value whether an increment ended in between or not.
"""

import copy
import math
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from .codec import Codec

Take = Callable[[Any], Any]

_UNCHANGEABLE = frozenset((int, str, float, bool, bytes, type(None), Decimal, date, datetime, time, UUID))
_UTC = ZoneInfo("UTC")
_EXACT = 2**53
"""Up to here a double has every whole number."""
_NO_FLOAT = 2.0**127
"""Below it no double is rounded to an infinite float."""


class HandOver:
    """Values of one serde, whose ``codec`` it is.

    ``can_change``: whether its Python values can be changed in place. ``take(value)``: what counts of a value that a
    function gave, as the serde reads it back; ConfigError for one that is not of its type. ``give(value)``: a copy of a
    value that was taken or read, for a function that may change it.
    """

    __slots__ = ("can_change", "give", "take")

    def __init__(self, codec: "Codec") -> None:
        self.can_change, self.take = codec.can_change, codec.taking()
        self.give: Take = own_copy if self.can_change else _as_it_is
        kind = codec.arrow_type
        if self.can_change and pa.types.is_struct(kind) and not any(pa.types.is_nested(one.type) for one in kind):
            self.give = _flat_copy


def own_copy(value: Any) -> Any:
    """A copy down to what cannot change. What cannot be copied is given back: no serde has such values."""
    kind = type(value)
    if kind in _UNCHANGEABLE:
        return value
    if kind is dict:
        return {name: one if type(one) in _UNCHANGEABLE else own_copy(one) for name, one in value.items()}
    if kind is list:
        return [one if type(one) in _UNCHANGEABLE else own_copy(one) for one in value]
    if isinstance(value, tuple):
        parts = [one if type(one) in _UNCHANGEABLE else own_copy(one) for one in value]
        return tuple(parts) if kind is tuple else kind._make(parts) if hasattr(kind, "_make") else value
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def _flat_copy(value: Any) -> Any:
    """Of a dict whose values cannot change."""
    return value.copy() if type(value) is dict else own_copy(value)


def _as_it_is(value: Any) -> Any:
    return value


def taking(kind: pa.DataType, otherwise: Take) -> Take:
    """``take`` of Python values of the Arrow type ``kind``, as state/serdes/json_text/python_values.py converts them.
    ``otherwise``: takes a value of which some part is to be converted or refused.
    """
    plainly = _plainly(kind)

    def take(value: Any) -> Any:
        try:
            return plainly(value)
        except _NotPlain:
            return otherwise(value)

    return take


class _NotPlain(Exception):
    """Some part is not exactly of its type."""


def _plainly(kind: pa.DataType) -> Take:
    """Of values whose parts are exactly of their types; for others it raises _NotPlain."""
    if pa.types.is_struct(kind):
        return _of_fields({field.name: _plainly(field.type) for field in kind})
    if pa.types.is_list(kind):
        return _of_list(_plainly(kind.value_type))
    if pa.types.is_map(kind):
        return _of_map(_plainly(kind.item_type))
    if pa.types.is_integer(kind):
        return _of_whole(kind.bit_width)
    if pa.types.is_decimal(kind):
        return _of_decimal(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return _datetime if kind.tz is None else _instant
    found = [take for is_kind, take in _SCALARS if is_kind(kind)]
    return found[0] if found else _never


def _of_fields(takes: dict[str, Take]) -> Take:
    items, count, names = list(takes.items()), len(takes), takes.keys()

    def take(value: Any) -> Any:
        if type(value) is dict:
            if len(value) == count:
                try:
                    return {name: take_one(value[name]) for name, take_one in items}
                except KeyError:
                    pass
            if value.keys() <= names:
                return {name: take_one(value.get(name)) for name, take_one in items}
        elif value is None:
            return None
        raise _NotPlain

    return take


def _of_list(take_one: Take) -> Take:
    def take(value: Any) -> Any:
        if type(value) is list:
            return [take_one(one) for one in value]
        if value is None:
            return None
        raise _NotPlain

    return take


def _of_map(take_one: Take) -> Take:
    def take(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not dict or None in value:
            raise _NotPlain
        return {_text(name): take_one(one) for name, one in value.items()}

    return take


def _of_whole(bits: int) -> Take:
    end = 1 << (bits - 1)

    def take(value: Any) -> Any:
        if value is None or (type(value) is int and -end <= value < end):
            return value
        raise _NotPlain

    return take


def _of_decimal(precision: int, scale: int) -> Take:
    def take(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is Decimal:
            sign, digits, exponent = value.as_tuple()
            if exponent == -scale and len(digits) <= precision and not (sign and digits == (0,)):
                return value
        raise _NotPlain

    return take


def _text(value: Any) -> Any:
    if type(value) is str:
        if value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise _NotPlain from error
        return value
    if value is None:
        return None
    raise _NotPlain


def _double(value: Any) -> Any:
    kind = type(value)
    if kind is float or value is None:
        return value
    if kind is int and -_EXACT <= value <= _EXACT:
        return float(value)
    raise _NotPlain


def _float(value: Any) -> Any:
    found = _double(value)
    if found is None or not math.isfinite(found):
        return found
    if abs(found) < _NO_FLOAT:
        return float(np.float32(found))
    raise _NotPlain


def _datetime(value: Any) -> Any:
    if value is None or (type(value) is datetime and value.tzinfo is None and not value.fold):
        return value
    raise _NotPlain


def _instant(value: Any) -> Any:
    if value is None:
        return None
    if type(value) is datetime and value.tzinfo is not None:
        return value if value.tzinfo is _UTC else value.astimezone(_UTC)
    raise _NotPlain


def _exactly(kind: type) -> Take:
    def take(value: Any) -> Any:
        if value is None or type(value) is kind:
            return value
        raise _NotPlain

    return take


def _time(value: Any) -> Any:
    if value is None or (type(value) is time and value.tzinfo is None and not value.fold):
        return value
    raise _NotPlain


def _never(value: Any) -> Any:
    raise _NotPlain


_SCALARS: list[tuple[Callable[[pa.DataType], bool], Take]] = [
    (pa.types.is_string, _text),
    (pa.types.is_boolean, _exactly(bool)),
    (pa.types.is_float64, _double),
    (pa.types.is_float32, _float),
    (pa.types.is_binary, _exactly(bytes)),
    (pa.types.is_date32, _exactly(date)),
    (pa.types.is_time, _time),
]
