"""A value as text, as Java's ``toString`` gives it, which Kafka prints.

Rule: where Java has one class for the type, the text is that of its class. Records of fields are of a class of the
user's in Java, and an array of bytes has its address there: of these the text is Python's.
"""

import math
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ...state.serdes.windowed_codec import Windowed

_MILLISECOND = 1_000
"""In microseconds."""


def java_text(value: Any, kind: pa.DataType | None = None) -> str:
    """Of a Python value; ``kind``: its Arrow type if it is known, which says whether a float is one of 32 bits."""
    if value is None:
        return "null"
    if isinstance(value, Windowed):
        return f"[{java_text(value.key)}@{value.window_start_ms}/{value.window_end_ms}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value, is_single=kind is not None and pa.types.is_float32(kind))
    if isinstance(value, list):
        inner = kind.value_type if kind is not None and pa.types.is_list(kind) else None
        return f"[{', '.join(java_text(one, inner) for one in value)}]"
    if isinstance(value, dict) and kind is not None and pa.types.is_map(kind):
        entries = (f"{java_text(key, kind.key_type)}={java_text(one, kind.item_type)}" for key, one in value.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, datetime | time):
        return _clock_text(value)
    return str(value)


def _float_text(value: float, *, is_single: bool) -> str:
    """As Double.toString and Float.toString of Java 19 and later: at least one digit on each side of the point, and an
    exponent below 0.001 and from 10,000,000 on.
    """
    if not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    shortest = np.format_float_scientific(np.float32(value), unique=True) if is_single else repr(value)
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    if len(digits) == 1 and value:
        # Of several numbers of two digits Java takes the nearest, which may be nearer than that of one digit.
        sign, digits, exponent = Decimal(f"{value:.1e}").as_tuple()
        assert isinstance(exponent, int)
    text, point = "".join(map(str, digits)), len(digits) + exponent
    minus = "-" if sign else ""
    if not value:
        return f"{minus}0.0"
    if 1e-3 <= abs(value) < 1e7:
        whole, part = (text[:point].ljust(point, "0"), text[point:]) if point > 0 else ("0", "0" * -point + text)
        return f"{minus}{whole}.{part.rstrip('0') or '0'}"
    return f"{minus}{text[0]}.{text[1:].rstrip('0') or '0'}E{point - 1}"


def _clock_text(value: datetime | time) -> str:
    """As Instant, LocalDateTime and LocalTime: a fraction of 3 or 6 digits, and local times without seconds of zero."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return f"{_with_fraction(value.astimezone(UTC).replace(tzinfo=None))}Z"
    if not value.second and not value.microsecond:
        return value.isoformat("T", "minutes") if isinstance(value, datetime) else value.isoformat("minutes")
    return _with_fraction(value)


def _with_fraction(value: datetime | time) -> str:
    in_ms = value.microsecond and not value.microsecond % _MILLISECOND
    units = "milliseconds" if in_ms else "microseconds" if value.microsecond else "seconds"
    return value.isoformat("T", units) if isinstance(value, datetime) else value.isoformat(units)
