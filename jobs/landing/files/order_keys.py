"""Bytes whose order is that of rows: for landings whose rows are ordered by columns.

Rule: numbers are before text and compare by their value, whether they are numbers or text, of any size and with any
fraction or exponent. Times are numbers of nanoseconds, also as ISO 8601 text with its date and time; so are numbers in
the column of the record time, by their unit. Other text compares by its code points, bytes by theirs.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import zip_longest
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from .columns import JsonNumber, each, instant_ms, is_local, listed, of_column

_NUMBER_TEXT = re.compile(r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")
_TIME_TEXT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_FRACTION = re.compile(r"([^.,]*)[.,]([0-9]+)(.*)")
_NUMBER, _TEXT, _BYTES = b"\x01", b"\x02", b"\x03"
_BELOW, _ZERO, _ABOVE = b"\x01", b"\x02", b"\x03"
_OPPOSITE = bytes(range(255, -1, -1))
_BIAS = 1 << 63
_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_NS = 86_400_000_000_000


def order_keys(
    columns: Sequence[Sequence[Any] | pa.Array],
    names: Sequence[str] = (),
    *,
    time: str | None = None,
    unit: str = "ms",
    zone: str | None = None,
) -> pa.Array:
    """One key a row, of the values of ``columns``, the first of which counts most. ``names``: theirs, for errors.
    ``time``: the one of the record time, with its ``unit``; ``zone``: of times that have none, None: UTC.
    """
    parts, there = [], None if zone is None else ZoneInfo(zone)
    for values, name in zip_longest(columns, names):
        key = _Key(unit if name is not None and name == time else None, there)
        with of_column(name):
            parts.append(each(_comparable(values, there), "a value to order by, and no null", key))
    return pa.array([b"".join(row) for row in zip(*parts, strict=True)], pa.binary())


class _Nanoseconds(int):
    """Since 1970, or of a day, or of a duration: no number in a unit of its column."""


def _comparable(values: Sequence[Any] | pa.Array, there: ZoneInfo | None) -> Sequence[Any]:
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
            nanoseconds = [None if number is None else _Nanoseconds(number * unit) for number in whole]
            if there is None or not is_local(kind):
                return nanoseconds
            return each(nanoseconds, "a time of its zone, and no null", lambda ns: _local_ns(ns, there))
    return listed(values)


def _local_ns(ns: int, there: ZoneInfo) -> _Nanoseconds:
    seconds, fraction = divmod(ns, 1_000_000_000)
    whole = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    return _Nanoseconds(instant_ms(whole, there) * 1_000_000 + fraction)


class _Key:
    """Makes the key of a value. ``unit``: of numbers that are record times; None: they are none."""

    def __init__(self, unit: str | None, there: ZoneInfo | None) -> None:
        self.power = {"s": 9, "ms": 6, "us": 3}.get(unit or "", 0)
        self.unit, self.there = unit, there

    def __call__(self, value: Any) -> bytes:
        if isinstance(value, _Nanoseconds):
            return _whole(value, 0)
        if isinstance(value, datetime):
            return _whole(instant_ms(value, self.there) * 1_000_000 + value.microsecond % 1_000 * 1_000, 0)
        if isinstance(value, date):
            return _whole(instant_ms(datetime(value.year, value.month, value.day), self.there) * 1_000_000, 0)
        if isinstance(value, str):
            if self.unit == "iso" or (self.unit is None and _TIME_TEXT.fullmatch(value)):
                return _number(_text_ns(value, self.there))
            if not _NUMBER_TEXT.fullmatch(value):
                return _TEXT + _ended(value.encode())
            return _number(Decimal(value), self.power)
        if isinstance(value, bytes):
            return _BYTES + _ended(value)
        if isinstance(value, int):
            return _whole(int(value), self.power)
        if isinstance(value, float | Decimal | JsonNumber):
            return _number(Decimal(value.text) if isinstance(value, JsonNumber) else Decimal(value), self.power)
        raise TypeError(value)


def _text_ns(text: str, there: ZoneInfo | None) -> Decimal:
    """Of ISO 8601, with all digits of its fraction."""
    match = _FRACTION.fullmatch(text)
    whole, digits = (text, "") if match is None else (match[1] + match[3], match[2])
    seconds = instant_ms(datetime.fromisoformat(whole), there) // 1_000
    return Decimal(f"{seconds * 10 ** len(digits) + int(digits or 0)}e{9 - len(digits)}")


def _whole(number: int, power: int) -> bytes:
    digits = str(abs(number))
    return _sized(number < 0, digits, len(digits) - 1 + power)


def _number(number: Decimal, power: int = 0) -> bytes:
    """Of ``number`` times ten to the ``power``."""
    if not number.is_finite():
        raise ValueError(number)
    sign, digits, _ = number.as_tuple()
    return _sized(bool(sign), "".join(map(str, digits)), number.adjusted() + power)


def _sized(is_negative: bool, digits: str, power: int) -> bytes:
    """Of a number that has the first of its ``digits`` at ten to the ``power``, whatever its size."""
    kept = digits.rstrip("0")
    if not kept:
        return _NUMBER + _ZERO
    # Of equal signs the higher power of ten is larger, then the digits as text; the
    # end is below any digit. Below zero all of it is inverted, the end as well.
    size = (power + _BIAS).to_bytes(8, "big") + kept.encode() + b"\x00"
    return _NUMBER + (_BELOW + size.translate(_OPPOSITE) if is_negative else _ABOVE + size)


def _ended(data: bytes) -> bytes:
    """With an end that is before all that could follow."""
    return data.replace(b"\x00", b"\x00\xff") + b"\x00\x00"
