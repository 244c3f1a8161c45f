"""Single values of JSON types: functions that are made once for a type and then write, read or convert one value.

Owns the quick way of JSON texts, for values of exactly the types of python_values and for texts as json_writer writes
them. Rule: they give the same as the columns. A value or text that they do not take raises one of
LEFT_TO_COLUMNS: a field or a name that is missing, twice or too many, an escape by number, a number in another form.
"""

import json
import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, Inexact, InvalidOperation
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import pyarrow as pa

from ..codec import LeftToColumns, Read, Write
from ..fixed_width import KINDS
from .spelled_types import has_decimal

One = Callable[[Any], Any]

_FEWEST_AS_IT_IS, _MOST_AS_IT_IS, _WITH_EXPONENT = 1e-4, 1e10, 1e16
"""Between these Python writes a double as Arrow does, and from the third on."""
_LEAST_POINT = -6
_SINGLE = struct.Struct(">f")
_EXACT = Context(prec=80, traps=[Inexact, InvalidOperation])
_ARROWS_UTC = pa.scalar(0, pa.timestamp("us", "UTC")).as_py().tzinfo
_LIMITS = {"byte": 2**7, "short": 2**15, "int": 2**31, "long": 2**63}
_WHOLE_DOUBLES = 2**53
_NULL = type(None)


def value_writer(kind: pa.DataType) -> Write:
    """Bytes of a Python value that is not None."""
    text = _writer(kind)
    return lambda value: text(value).encode()


def value_reader(kind: pa.DataType) -> Read:
    """The Python value of the bytes of a text."""
    parse_float = Decimal if has_decimal(kind) else float
    decode = json.JSONDecoder(object_pairs_hook=_each_once, parse_constant=_refuse, parse_float=parse_float).raw_decode
    read = _reader(kind)

    def read_value(data: bytes) -> Any:
        # It may spell half a surrogate pair, which Arrow refuses and Python's parser reads.
        if b"\\u" in data:
            raise LeftToColumns
        text = data.decode()
        parsed, end = decode(text)
        if parsed is None or end != len(text):
            raise LeftToColumns
        return read(parsed)

    return read_value


def converter(kind: pa.DataType) -> One:
    """A Python value that is not None, as a column of ``kind`` gives it back."""
    return _converter(kind)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise LeftToColumns
    return members


def _refuse(_: str) -> Any:
    raise LeftToColumns


def _exactly(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise LeftToColumns
    return value


# --- writing ------------------------------------------------------------------------------------------------------


def _writer(kind: pa.DataType) -> Callable[[Any], str]:
    """Text of a value that is not None."""
    if pa.types.is_struct(kind):
        return _object_writer(kind)
    if pa.types.is_list(kind):
        return _array_writer(kind)
    if pa.types.is_map(kind):
        item = _or_null(_writer(kind.item_type))
        return lambda value: (
            "{"
            + ",".join([f"{encode_basestring(key)}:{item(one)}" for key, one in _exactly(value, dict).items()])
            + "}"
        )
    if pa.types.is_string(kind):
        return encode_basestring
    if pa.types.is_boolean(kind):
        return lambda value: "true" if _exactly(value, bool) else "false"
    if pa.types.is_floating(kind):
        stored = _converter(kind)
        digits = repr if kind == pa.float64() else _digits_of_single
        return lambda value: number_text(stored(value), digits)
    if pa.types.is_decimal(kind) or kind in KINDS:
        stored = _converter(kind)
        return lambda value: str(stored(value))
    spell = _speller(kind)
    return lambda value: f'"{spell(value)}"'


def _or_null(text: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "null" if value is None else text(value)


def _object_writer(kind: pa.StructType) -> Callable[[Any], str]:
    if not kind.num_fields:
        raise AssertionError("an object has fields")
    heads = [("{" if index == 0 else ",") + encode_basestring(field.name) + ":" for index, field in enumerate(kind)]
    fields = [(field.name, head, _writer(field.type)) for field, head in zip(kind, heads, strict=True)]
    names = {field.name for field in kind}

    def write(value: Any) -> str:
        if not names.issuperset(_exactly(value, dict)):
            raise LeftToColumns
        get, text = value.get, ""
        for name, head, one in fields:
            item = get(name)
            text += head + ("null" if item is None else one(item))
        return text + "}"

    return write


def _array_writer(kind: pa.ListType) -> Callable[[Any], str]:
    one = _writer(kind.value_type)
    each = _or_null(one)
    is_text = pa.types.is_string(kind.value_type)

    def write(value: Any) -> str:
        if type(value) is not list and type(value) is not tuple:
            raise LeftToColumns
        return "[" + ",".join(map(one if is_text and None not in value else each, value)) + "]"

    return write


def number_text(value: float, digits: Callable[[float], str]) -> str:
    """As Arrow writes a number with the shortest ``digits`` that restore it, a whole one with ``.0``."""
    size = abs(value)
    if digits is repr and (_FEWEST_AS_IT_IS <= size < _MOST_AS_IT_IS or size == 0 or _WITH_EXPONENT <= size < math.inf):
        return repr(value)
    if not math.isfinite(value):
        raise LeftToColumns
    sign, figures, exponent = Decimal(digits(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text, point = "".join(map(str, figures)), len(figures) + exponent
    if value == 0:
        text, point = "0", 1
    if not _LEAST_POINT < point <= 10:
        more = f".{text[1:]}" if len(text) > 1 else ""
        shown = f"{text[0]}{more}e{point - 1:+d}"
    elif point <= 0:
        shown = "0." + "0" * -point + text
    else:
        shown = text.ljust(point, "0")
        shown = f"{shown[:point]}.{shown[point:] or '0'}"
    return "-" + shown if sign else shown


def _digits_of_single(value: float) -> str:
    """Of a number of 32 bits."""
    return np.format_float_scientific(np.float32(value), unique=True)


def _speller(kind: pa.DataType) -> Callable[[Any], str]:
    """The text inside its quotes of a value of a type that JSON has no form for."""
    if pa.types.is_binary(kind):
        return lambda value: b64encode(_exactly(value, bytes)).decode()
    stored = _converter(kind)
    if pa.types.is_date(kind):
        return lambda value: str(stored(value).isoformat())
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return lambda value: _short(stored(value).replace(tzinfo=None).isoformat()) + "Z"
    return lambda value: _short(stored(value).isoformat())


def _short(text: str) -> str:
    """Six digits of a fraction as none, three or six."""
    return text.removesuffix("000") if "." in text else text


# --- reading ------------------------------------------------------------------------------------------------------


def _reader(kind: pa.DataType) -> One:
    """Of a parsed value that is not None."""
    if pa.types.is_struct(kind):
        return _object_reader(kind)
    if pa.types.is_list(kind):
        return _array_reader(kind)
    if pa.types.is_map(kind):
        item = _or_none(_reader(kind.item_type))
        return lambda value: {key: item(one) for key, one in _exactly(value, dict).items()}
    if pa.types.is_string(kind):
        return lambda value: _exactly(value, str)
    if pa.types.is_boolean(kind):
        return lambda value: _exactly(value, bool)
    if pa.types.is_floating(kind):
        return _floating_reader(kind)
    if pa.types.is_decimal(kind):
        return _decimal_reader(kind)
    if kind in KINDS:
        return _converter(kind)
    return _spelled_reader(kind)


def _or_none(read: One) -> One:
    return lambda value: None if value is None else read(value)


def _object_reader(kind: pa.StructType) -> One:
    fields = [(field.name, _reader(field.type)) for field in kind]
    count = len(fields)

    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict or len(value) != count:
            raise LeftToColumns
        return {name: None if (item := value[name]) is None else one(item) for name, one in fields}

    return read


def _array_reader(kind: pa.ListType) -> One:
    one = _or_none(_reader(kind.value_type))
    is_text = pa.types.is_string(kind.value_type)

    def read(value: Any) -> list[Any]:
        _exactly(value, list)
        if is_text and {_NULL, str}.issuperset(map(type, value)):
            return value  # type: ignore[no-any-return]
        return [one(item) for item in value]

    return read


def _floating_reader(kind: pa.DataType) -> One:
    stored = _converter(kind)

    def read(value: Any) -> float:
        if type(value) not in (int, float) or (not value and type(value) is int):
            raise LeftToColumns  # text is no number, and of an int 0 the text may be -0, which is another double
        number = float(value)
        if not math.isfinite(number):
            raise LeftToColumns
        return stored(number)  # type: ignore[no-any-return]

    return read


def _decimal_reader(kind: pa.Decimal128Type) -> One:
    stored = _converter(kind)

    def read(value: Any) -> Decimal:
        if type(value) is int:
            return stored(Decimal(value))  # type: ignore[no-any-return]
        return stored(value)  # type: ignore[no-any-return]

    return read


def _spelled_reader(kind: pa.DataType) -> One:
    """Of texts that are as they are written."""
    spell, parse = _speller(kind), _parser(kind)

    def read(text: Any) -> Any:
        parsed = parse(_exactly(text, str))
        if spell(parsed) != text:
            raise LeftToColumns
        return parsed

    return read


def _parser(kind: pa.DataType) -> One:
    if pa.types.is_binary(kind):
        return lambda text: b64decode(text, validate=True)
    if pa.types.is_date(kind):
        return date.fromisoformat
    if pa.types.is_time(kind):
        return time.fromisoformat
    if kind.tz is None:
        return datetime.fromisoformat
    return lambda text: datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=_ARROWS_UTC)


# --- converting ---------------------------------------------------------------------------------------------------


def _converter(kind: pa.DataType) -> One:
    """A value that is not None as its column gives it back."""
    if pa.types.is_struct(kind):
        return _object_converter(kind)
    if pa.types.is_list(kind):
        one = _or_none(_converter(kind.value_type))
        return lambda value: [one(item) for item in (value if type(value) is tuple else _exactly(value, list))]
    if pa.types.is_map(kind):
        item = _or_none(_converter(kind.item_type))
        return lambda value: {_text(key): item(one) for key, one in _exactly(value, dict).items()}
    if pa.types.is_string(kind):
        return _text
    if pa.types.is_boolean(kind):
        return lambda value: _exactly(value, bool)
    if kind == pa.float64():
        return _double
    if kind == pa.float32():
        return lambda value: _SINGLE.unpack(_SINGLE.pack(_double(value)))[0]
    if pa.types.is_decimal(kind):
        return _decimal_converter(kind)
    if kind in KINDS:
        return _whole_converter(_LIMITS[KINDS[kind]])
    if pa.types.is_binary(kind):
        return lambda value: _exactly(value, bytes)
    if pa.types.is_date(kind):
        return lambda value: _exactly(value, date)
    return _clock_converter(kind)


def _object_converter(kind: pa.StructType) -> One:
    fields = [(field.name, _or_none(_converter(field.type))) for field in kind]
    names = {field.name for field in kind}

    def convert(value: Any) -> dict[str, Any]:
        if not names.issuperset(_exactly(value, dict)):
            raise LeftToColumns
        return {name: one(value.get(name)) for name, one in fields}

    return convert


def _text(value: Any) -> str:
    if type(value) is not str:
        raise LeftToColumns
    if not value.isascii():
        value.encode()
    return value


def _double(value: Any) -> float:
    if type(value) is int and abs(value) <= _WHOLE_DOUBLES:
        return float(value)
    if type(value) is not float or value != value:
        raise LeftToColumns
    return value


def _whole_converter(limit: int) -> One:
    def convert(value: Any) -> int:
        if type(value) is not int or not -limit <= value < limit:
            raise LeftToColumns
        return value

    return convert


def _decimal_converter(kind: pa.Decimal128Type) -> One:
    unit, limit = Decimal((0, (1,), -kind.scale)), 10**kind.precision

    def convert(value: Any) -> Decimal:
        if type(value) is not Decimal:
            value = Decimal(_exactly(value, int))
        if not value.is_finite() or value.as_tuple().exponent < -kind.scale:
            raise LeftToColumns
        rounded = value.quantize(unit, context=_EXACT)
        if abs(rounded.scaleb(kind.scale, _EXACT)) >= limit:
            raise LeftToColumns
        return rounded if rounded else abs(rounded)

    return convert


def _clock_converter(kind: pa.DataType) -> One:
    clock = time if pa.types.is_time(kind) else datetime
    if pa.types.is_time(kind) or kind.tz is None:

        def convert_local(value: Any) -> Any:
            if type(value) is not clock or value.tzinfo is not None:
                raise LeftToColumns
            return value.replace(fold=0)

        return convert_local

    def convert(value: Any) -> datetime:
        if type(value) is not datetime or value.tzinfo is None:
            raise LeftToColumns
        return value.astimezone(UTC).replace(tzinfo=_ARROWS_UTC, fold=0)

    return convert
