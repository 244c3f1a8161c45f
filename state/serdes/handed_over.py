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
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from .rebuilding import Take, Unlike, rebuilding

if TYPE_CHECKING:
    from .codec import Codec

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
    value that was taken or read, for a function that may change it. ``own(value)``: a copy of a value that a function
    gave, of any type, which the serde need not carry. ``keep(value)``: as ``take``, of what goes into a store; a serde
    of the user's own writes and reads it.
    """

    __slots__ = ("can_change", "give", "keep", "own", "take")

    def __init__(self, codec: "Codec") -> None:
        self.can_change, self.take = codec.can_change, codec.taking()
        self.keep: Take = codec.keeping()
        self.own: Take = _own_copies(codec.arrow_type) if self.can_change else own_copy
        self.give: Take = _copies(codec.arrow_type) if self.can_change else _as_it_is


@lru_cache(maxsize=1_000)
def _copies(kind: pa.DataType) -> Take:
    """Of values of ``kind`` as the serde reads them: what has scalars only is copied at once."""
    if not pa.types.is_nested(kind):
        return own_copy
    parts = [kind.item_type] if pa.types.is_map(kind) else [kind.field(at).type for at in range(kind.num_fields)]
    if not any(pa.types.is_nested(part) for part in parts):
        return _flat_copy
    return rebuilding(kind, _class_of, _copies, own_copy)


@lru_cache(maxsize=1_000)
def _own_copies(kind: pa.DataType) -> Take:
    """``own_copy``, quick for Python values of ``kind``."""
    return rebuilding(kind, _class_of, _own_copies, own_copy) if pa.types.is_nested(kind) else own_copy


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
    """Of a dict or list whose parts cannot change."""
    kind = type(value)
    return value.copy() if kind is dict or kind is list else own_copy(value)


def _as_it_is(value: Any) -> Any:
    return value


def taking(kind: pa.DataType, otherwise: Take) -> Take:
    """``take`` of Python values of the Arrow type ``kind``, as state/serdes/json_text/python_values.py converts them.
    ``otherwise``: takes a value of which some part is to be converted or refused.
    """
    plainly = _plainly(kind)

    def not_at_once(value: Any) -> Any:
        if value is None:
            return None
        try:
            return plainly(value)
        except Unlike:
            return otherwise(value)

    return rebuilding(kind, _plain, _plainly, not_at_once)


@lru_cache(maxsize=1_000)
def _plainly(kind: pa.DataType) -> Take:
    """Of values whose parts are exactly of their types; for others it raises Unlike."""
    if pa.types.is_struct(kind):
        return _of_fields(kind)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return rebuilding(kind, _plain, _plainly, _only_none)
    if pa.types.is_integer(kind):
        return _of_whole(kind.bit_width)
    if pa.types.is_decimal(kind):
        return _of_decimal(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return _datetime if kind.tz is None else _instant
    takes = [take for is_kind, take in _SCALARS if is_kind(kind)]
    return takes[0] if takes else _only_none


def _of_fields(kind: pa.StructType) -> Take:
    """A field that is left out is None."""
    nothing = dict.fromkeys(field.name for field in kind)

    def otherwise(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is dict and len(value) < len(nothing) and value.keys() <= nothing.keys():
            return take(nothing | value)
        raise Unlike

    take = rebuilding(kind, _plain, _plainly, otherwise)
    return take


def _class_of(kind: pa.DataType) -> str:
    """Class of the Python values of a scalar type."""
    names = [name for is_kind, name in _CLASSES if is_kind(kind)]
    return names[0] if names else "NoneType"


def _plain(kind: pa.DataType) -> str:
    """Values ``v`` of a scalar type that are kept as they are, as what follows ``type(v) is``."""
    if pa.types.is_integer(kind):
        end = 1 << (kind.bit_width - 1)
        return f"int and {-end} <= v < {end}"
    if pa.types.is_string(kind):
        # Other text may have half a surrogate pair, which UTF-8 cannot write; ``_text`` looks for one.
        return "str and v.isascii()"
    is_whole = any(is_kind(kind) for is_kind in _KEPT)
    return _class_of(kind) if is_whole else "NoneType"


def _of_whole(bits: int) -> Take:
    end = 1 << (bits - 1)

    def take(value: Any) -> Any:
        if value is None or (type(value) is int and -end <= value < end):
            return value
        raise Unlike

    return take


def _of_decimal(precision: int, scale: int) -> Take:
    def take(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is Decimal:
            sign, digits, exponent = value.as_tuple()
            if exponent == -scale and len(digits) <= precision and not (sign and digits == (0,)):
                return value
        raise Unlike

    return take


def _text(value: Any) -> Any:
    if type(value) is str:
        if value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Unlike from error
        return value
    if value is None:
        return None
    raise Unlike


def _double(value: Any) -> Any:
    kind = type(value)
    if kind is float or value is None:
        return value
    if kind is int and -_EXACT <= value <= _EXACT:
        return float(value)
    raise Unlike


def _float(value: Any) -> Any:
    double = _double(value)
    if double is None or not math.isfinite(double):
        return double
    if abs(double) < _NO_FLOAT:
        return float(np.float32(double))
    raise Unlike


def _datetime(value: Any) -> Any:
    if value is None or (type(value) is datetime and value.tzinfo is None and not value.fold):
        return value
    raise Unlike


def _instant(value: Any) -> Any:
    if value is None:
        return None
    if type(value) is datetime and value.tzinfo is not None:
        try:
            return (value if value.tzinfo is _UTC else value.astimezone(_UTC)).replace(fold=0)
        except OverflowError as error:
            raise Unlike from error
    raise Unlike


def _exactly(kind: type) -> Take:
    def take(value: Any) -> Any:
        if value is None or type(value) is kind:
            return value
        raise Unlike

    return take


def _time(value: Any) -> Any:
    if value is None or (type(value) is time and value.tzinfo is None and not value.fold):
        return value
    raise Unlike


def _only_none(value: Any) -> Any:
    if value is None:
        return None
    raise Unlike


_KEPT = pa.types.is_boolean, pa.types.is_float64, pa.types.is_binary, pa.types.is_date32
"""Of these every value of the class is kept as it is."""
_CLASSES: list[tuple[Callable[[pa.DataType], bool], str]] = [
    (pa.types.is_integer, "int"),
    (pa.types.is_string, "str"),
    (pa.types.is_boolean, "bool"),
    (pa.types.is_floating, "float"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_date32, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_timestamp, "datetime"),
    (pa.types.is_decimal, "Decimal"),
]


_SCALARS: list[tuple[Callable[[pa.DataType], bool], Take]] = [
    (pa.types.is_string, _text),
    (pa.types.is_boolean, _exactly(bool)),
    (pa.types.is_float64, _double),
    (pa.types.is_float32, _float),
    (pa.types.is_binary, _exactly(bytes)),
    (pa.types.is_date32, _exactly(date)),
    (pa.types.is_time, _time),
]
