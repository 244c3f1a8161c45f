"""JSON texts into columns one by one, by Python's parser: of schemas with a map, and of plain values, no objects.

Arrow's parser has no maps, and takes objects only. Rule: bad texts are those of json_reader. A map is a JSON object,
each key once, values as declared and perhaps null. A text that is ``null`` is bad.
"""

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from ..codec import Decoded
from ..exact_decimals import with_scale
from .json_schema import type_text
from .spelled_types import EXACT, read_spelled, spelled_as

_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"-?[0-9]+")
_LIMITS = {pa.int8(): 2**7, pa.int16(): 2**15, pa.int32(): 2**31, pa.int64(): 2**63}

Reader = Callable[[Any], Any]


class _Number(str):
    """A number as it is in the text."""

    __slots__ = ()


class _Pairs(list[tuple[str, Any]]):
    """Names and values of an object."""

    __slots__ = ()


class _Bad(Exception):
    """Why a text is refused."""


def read_values(binary: pa.BinaryArray, kind: pa.DataType) -> Decoded:
    """Column of ``kind`` out of JSON texts; null rows stay null."""
    read, parsed, reasons = _reader(kind, ""), [], {}
    for row, text in enumerate(binary.to_pylist()):
        value = None
        if text is not None:
            try:
                value = read(_parsed(text))
            except _Bad as error:
                reasons[row] = str(error)
        parsed.append(value)
    values, more = read_spelled(pa.array(parsed, spelled_as(kind)), kind)
    reasons = more | reasons
    bad = np.zeros(len(binary), np.bool_)
    bad[list(reasons)] = True
    if more:
        values = values.take(pa.array(np.arange(len(bad)), mask=bad))
    return Decoded(values, bad, dict(sorted(reasons.items())))


def _parsed(text: bytes) -> Any:
    try:
        parsed = json.loads(
            text.decode(),
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_Number,
            object_pairs_hook=_Pairs,
        )
    except UnicodeDecodeError as error:
        raise _Bad(f"expected UTF-8, got byte 0x{error.object[error.start]:02x} at {error.start}") from None
    except RecursionError:
        raise _Bad("expected JSON, got a fault: too many levels") from None
    except ValueError as error:
        fault = str(error).partition(":")[0]
        got = f"a fault: {fault[:1].lower()}{fault[1:]}" if text.strip() else "nothing"
        raise _Bad(f"expected JSON, got {got}") from None
    if parsed is None:
        raise _Bad("expected a value, got null")
    return parsed


def _reader(kind: pa.DataType, path: str) -> Reader:
    """What makes ``spelled_as(kind)`` of a parsed value that is not null, or raises _Bad."""
    read = _reader_of(kind, path)
    return lambda value: None if value is None else read(value)


def _reader_of(kind: pa.DataType, path: str) -> Reader:
    if pa.types.is_struct(kind):
        return _object(kind, path)
    if pa.types.is_map(kind):
        return _map(_reader(kind.item_type, f"{path}[]"), path)
    if pa.types.is_list(kind):
        element = _reader(kind.value_type, f"{path}[]")
        return lambda value: [element(one) for one in _of(value, list, "an array", path)]
    if pa.types.is_boolean(kind):
        return lambda value: _of(value, bool, "a boolean", path)
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(value, f"a {type_text(kind)}", path)
    if pa.types.is_floating(kind):
        return lambda value: _double(_of(value, _Number, f"a {type_text(kind)}", path), path)
    if pa.types.is_integer(kind):
        return lambda value: _whole(value, kind, path)
    return lambda value: _string(_of(value, str, f"a {type_text(kind)}", path), path)


def _object(kind: pa.StructType, path: str) -> Reader:
    fields = {field.name: _reader(field.type, f"{path}.{field.name}" if path else field.name) for field in kind}

    def read(value: Any) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, one in _of(value, _Pairs, "an object", path):
            if name in fields:
                if name in values:
                    raise _Bad(f"field {path}{'.' if path else ''}{name}: expected once, got twice")
                values[name] = fields[name](one)
        return values

    return read


def _map(item: Reader, path: str) -> Reader:
    def read(value: Any) -> list[tuple[str, Any]]:
        pairs = _of(value, _Pairs, "an object", path)
        entries = {_string(name, path): item(one) for name, one in pairs}
        if len(entries) < len(pairs):
            _refuse("each key once", "one twice", path)
        return list(entries.items())

    return read


def _of(value: Any, kind: type, expected: str, path: str) -> Any:
    """``value``, which must be exactly of ``kind``."""
    if type(value) is not kind:
        _refuse(expected, _got(value), path)
    return value


def _whole(value: Any, kind: pa.DataType, path: str) -> int:
    name, limit = type_text(kind), _LIMITS[kind]
    expected = f"{'an' if name == 'int' else 'a'} {name}"
    text = _of(value, _Number, expected, path)
    # The longest number of 64 bits has 20 characters. Python refuses to make an int of more than 4,300 digits.
    if not _WHOLE.fullmatch(text) or len(text) > 20 or not -limit <= int(text) < limit:
        _refuse(expected, text[:40], path)
    return int(text)


def _double(text: str, path: str) -> float:
    number = float(text)
    if math.isinf(number) and not text.endswith("Infinity"):
        _refuse("a number that a double holds", text[:40], path)
    return number


def _decimal(value: Any, expected: str, path: str) -> Decimal:
    if type(value) not in (_Number, str):
        _refuse(expected, _got(value), path)
    if not _DECIMAL.fullmatch(value) or len(value) > 1000:
        _refuse(expected, value[:40], path)
    try:
        return with_scale(Decimal(value), EXACT.scale)
    except ArithmeticError:
        _refuse(expected, value[:40], path)


def _string(text: str, path: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse("text that UTF-8 can write", "half a surrogate pair", path)
    return text


def _got(value: Any) -> str:
    if isinstance(value, _Number):
        return "a number"
    kinds = {str: "a string", bool: "a boolean", _Pairs: "an object", list: "an array"}
    return kinds.get(type(value), "null")


def _refuse(expected: str, got: str, path: str) -> NoReturn:
    raise _Bad(f"{f'field {path}: ' if path else ''}expected {expected}, got {got}")
