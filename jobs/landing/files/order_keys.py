"""Bytes whose order is that of rows: for landings whose rows are ordered by columns.

Rule: numbers are before text and compare by their value, whether they are numbers or text of whole numbers, of any
size and with any fraction. Times and dates are numbers. Text compares by its code points, bytes by theirs.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from .columns import JsonNumber, each, listed, of_column

_WHOLE = re.compile(r"-?[0-9]{1,37}")
_NUMBER, _TEXT, _BYTES = b"\x01", b"\x02", b"\x03"
_BIAS, _WIDTH = 1 << 127, 16
_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_NS = 86_400_000_000_000
_PLACES = 1_100
"""Behind the point; the smallest double has 1,074."""


def order_keys(columns: Sequence[Sequence[Any] | pa.Array], names: Sequence[str] = ()) -> pa.Array:
    """One key a row, of the values of ``columns``, the first of which counts most. ``names``: theirs, for errors."""
    parts = []
    for values, name in zip_longest(columns, names):
        with of_column(name):
            parts.append(each(_comparable(values), "a value to order by, and no null", _key))
    return pa.array([b"".join(row) for row in zip(*parts, strict=True)], pa.binary())


def _comparable(values: Sequence[Any] | pa.Array) -> Sequence[Any]:
    """Times and dates as nanoseconds."""
    if isinstance(values, pa.Array):
        kind = values.type
        unit = None
        if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
            unit = _NS[kind.unit]
        elif pa.types.is_date(kind):
            unit = _DAY_NS if pa.types.is_date32(kind) else _NS["ms"]
        if unit is not None:
            whole = values.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
            return [None if number is None else number * unit for number in whole]
    return listed(values)


def _key(value: Any) -> bytes:
    if isinstance(value, str):
        if not _WHOLE.fullmatch(value):
            return _TEXT + _ended(value.encode())
        value = int(value)
    if isinstance(value, bytes):
        return _BYTES + _ended(value)
    if isinstance(value, int):
        return _number(int(value), "")
    if isinstance(value, float | Decimal | JsonNumber):
        number = Decimal(value.text) if isinstance(value, JsonNumber) else Decimal(value)
        if not number.is_finite() or number.adjusted() > 36:
            raise ValueError(value)
        sign, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int)
        if exponent < -_PLACES:
            raise ValueError(value)
        scale = max(0, -exponent)
        scaled = int("".join(map(str, digits))) * 10 ** max(0, exponent) * (-1 if sign else 1)
        whole, fraction = divmod(scaled, 10**scale)
        return _number(whole, f"{fraction:0{scale}d}".rstrip("0") if scale else "")
    raise TypeError(value)


def _number(whole: int, fraction: str) -> bytes:
    return _NUMBER + (whole + _BIAS).to_bytes(_WIDTH, "big") + fraction.encode() + b"\x00"


def _ended(data: bytes) -> bytes:
    """With an end that is before all that could follow."""
    return data.replace(b"\x00", b"\x00\xff") + b"\x00\x00"
