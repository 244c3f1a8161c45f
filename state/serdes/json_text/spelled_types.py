"""Types that JSON has no form for, and how its strings and numbers spell them.

Owns the step from what a parser gives (``spelled_as``) to the declared type, and back. Rule, whole columns at once:

- date: ``"2026-11-24"``, of the years 0001 to 9999; time: ``"16:30"``, ``"16:30:05"``, up to 6 digits of a fraction
- timestamp: date, ``T``, time and ``Z`` or an offset such as ``+01:00``, kept and written in UTC; timestamp_ntz: none
- binary: base64 with its padding (RFC 4648, not the URL-safe letters)
- decimal(p,s): a number, or a string of one as Java's BigDecimal reads it, that loses no digit
- float: the double that a number is, rounded to the nearest float; too big is bad

Written times have no fraction, or 3 or 6 digits of one, and decimals are Java's ``BigDecimal.toString``: as Jackson
writes them.
"""

from decimal import Decimal
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ...buffers import fixed_array, is_valid
from ...errors import ConfigError

EXACT = pa.decimal256(76, 38)
"""Numbers with all their digits, 38 on either side of the point."""

_DATE = r"(?P<y>\d{4})-(?P<mo>\d{2})-(?P<d>\d{2})"
_TIME = r"(?P<h>\d{2}):(?P<mi>\d{2})(?::(?P<s>\d{2})(?:\.(?P<f>\d{1,6})0*)?)?"
_ZONE = r"(?P<z>Z|[+-]\d{2}:\d{2})"
_DAY_US = 86_400_000_000
_MIN_DAY, _MAX_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31."""
_MIN_US, _MAX_US = _MIN_DAY * _DAY_US, (_MAX_DAY + 1) * _DAY_US - 1


def spelled_as(kind: pa.DataType) -> pa.DataType:
    """What a parser of JSON is to read for ``kind``; ``kind`` itself where JSON has it."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, spelled_as(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(spelled_as(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), spelled_as(kind.item_type))
    if pa.types.is_decimal(kind):
        return EXACT
    if kind == pa.float32():
        return pa.float64()
    return pa.string() if _is_text(kind) else kind


def has_map(kind: pa.DataType) -> bool:
    """Whether a map is in ``kind``, which Arrow's parser cannot read."""
    if pa.types.is_struct(kind):
        return any(has_map(field.type) for field in kind)
    return bool(pa.types.is_map(kind) or (pa.types.is_list(kind) and has_map(kind.value_type)))


def has_decimal(kind: pa.DataType) -> bool:
    """Whether a decimal is in ``kind``."""
    if pa.types.is_struct(kind):
        return any(has_decimal(field.type) for field in kind)
    if pa.types.is_map(kind):
        return has_decimal(kind.item_type)
    return has_decimal(kind.value_type) if pa.types.is_list(kind) else bool(pa.types.is_decimal(kind))


class Read(NamedTuple):
    """``values``, null where they are bad, and the sentence of each bad one."""

    values: pa.Array
    reasons: dict[int, str]


def read_spelled(array: pa.Array, kind: pa.DataType, path: str = "") -> Read:
    """``array`` of ``spelled_as(kind)`` as ``kind``; ``path``: of the field, for sentences."""
    if array.type == kind:
        return Read(array, {})
    if pa.types.is_struct(kind):
        return _read_fields(array, kind, path)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _read_elements(array, kind, path)
    values = _leaf(array, kind)
    bad = np.flatnonzero(is_valid(array) & ~is_valid(values))
    expected = f"{f'field {path}: ' if path else ''}expected {_WORDS[_word(kind)]}"
    return Read(values, {int(row): f"{expected}, got {_shown(array[int(row)])}" for row in bad})


def _read_fields(array: pa.StructArray, kind: pa.StructType, path: str) -> Read:
    columns: list[pa.Array] = []
    reasons: dict[int, str] = {}
    for column, field in zip(array.flatten(), kind, strict=True):
        read = read_spelled(column, field.type, f"{path}.{field.name}" if path else field.name)
        columns.append(read.values)
        reasons = read.reasons | reasons
    mask = pa.array(~is_valid(array)) if array.null_count else None
    return Read(pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask), reasons)


def _read_elements(array: pa.Array, kind: pa.DataType, path: str) -> Read:
    """Of lists and maps; ``array`` begins with its buffers."""
    is_map = pa.types.is_map(kind)
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0)) if not is_map else np.diff(_offsets(array))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    inner = kind.item_type if is_map else kind.value_type
    read = read_spelled(array.items if is_map else array.flatten(), inner, f"{path}[]")
    mask = pa.array(~is_valid(array)) if array.null_count else None
    starts = pa.array(offsets.astype(np.int32))
    if is_map:
        values = pa.MapArray.from_arrays(starts, array.keys, read.values, kind, mask=mask)
    else:
        values = pa.ListArray.from_arrays(starts, read.values, kind, mask=mask)
    reasons: dict[int, str] = {}
    for element, reason in read.reasons.items():
        reasons.setdefault(int(np.searchsorted(offsets, element, side="right")) - 1, reason)
    return Read(values, reasons)


def _offsets(array: pa.MapArray) -> np.ndarray:
    assert array.offset == 0, "a map out of the parser begins with its buffers"
    return np.asarray(array.offsets)


def _leaf(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Null where it is null, and where it is bad."""
    if pa.types.is_decimal(kind):
        return decimals(array, kind)
    if kind == pa.float32():
        rounded = array.cast(pa.float32(), safe=False)
        is_too_big = pc.and_(pc.is_finite(array), pc.invert(pc.is_finite(rounded)))
        return pc.if_else(is_too_big, pa.scalar(None, pa.float32()), rounded)
    if pa.types.is_binary(kind):
        series = pl.Series(array).cast(pl.String).str.decode("base64", strict=False)
        return series.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(kind)
    return _timestamps(array, kind)


def decimals(exact: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numbers of EXACT as the decimal ``kind``; null where one would lose a digit."""
    try:
        return exact.cast(kind)
    except pa.ArrowInvalid:
        pass  # some do not fit: which?
    largest = pa.scalar(Decimal((0, (9,) * kind.precision, -kind.scale)), EXACT)
    fits = pc.less_equal(pc.abs(exact), largest)
    cut = pc.if_else(fits, exact, pa.scalar(None, EXACT)).cast(kind, safe=False)
    same = pc.fill_null(pc.equal(cut.cast(EXACT), exact), False)
    return pc.if_else(same, cut, pa.scalar(None, kind))


def _timestamps(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Dates, times and timestamps."""
    has_date, has_time = not pa.types.is_time(kind), not pa.types.is_date(kind)
    has_zone = pa.types.is_timestamp(kind) and kind.tz is not None
    parts = [_DATE] * has_date + [_TIME] * has_time
    spelled = pc.extract_regex(texts, "^" + "T".join(parts) + (_ZONE if has_zone else "") + "$")
    good, number = is_valid(spelled), np.zeros(len(texts), np.int64)
    if has_date:
        days, is_day = _days(spelled)
        good &= is_day
        number += days
    if has_time:
        of_day, is_time = _microseconds(spelled)
        good &= is_time
        number = number * _DAY_US + of_day
    if has_zone:
        shift, is_zone = _shift(spelled)
        number -= shift
        good &= is_zone
    if pa.types.is_timestamp(kind):
        good &= (number >= _MIN_US) & (number <= _MAX_US)
    return fixed_array(number.astype(np.int32) if pa.types.is_date(kind) else number, good, kind)


def _days(groups: pa.StructArray) -> tuple[np.ndarray, np.ndarray]:
    """Days since 1970, and which there are."""
    year, month, day = (_numbers(groups, name) for name in ("y", "mo", "d"))
    good = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    months = ((year - 1970) * 12 + np.where(good, month, 1) - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + np.where(good, day, 1) - 1
    return days.astype(np.int64), good & (days.astype("datetime64[M]") == months)


def _microseconds(groups: pa.StructArray) -> tuple[np.ndarray, np.ndarray]:
    """Since midnight, and which times there are."""
    hour, minute, second = (_numbers(groups, name) for name in ("h", "mi", "s"))
    fraction = pc.utf8_rpad(pc.fill_null(_group(groups, "f"), ""), 6, "0")
    of_second = np.asarray(fraction.cast(pa.int64()))
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + of_second, (hour < 24) & (minute < 60) & (second < 60)


def _shift(groups: pa.StructArray) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds east of UTC, and which offsets Java's ZoneOffset has."""
    zone = pc.replace_substring(pc.fill_null(_group(groups, "z"), "Z"), "Z", "+00:00")
    hours = np.asarray(pc.utf8_slice_codeunits(zone, 1, 3).cast(pa.int64()))
    minutes = np.asarray(pc.utf8_slice_codeunits(zone, 4, 6).cast(pa.int64()))
    east = np.asarray(pc.starts_with(zone, "+").to_numpy(zero_copy_only=False), np.bool_)
    good = (minutes < 60) & (hours * 60 + minutes <= 18 * 60)
    return (hours * 60 + minutes) * 60_000_000 * np.where(east, 1, -1), good


def _numbers(groups: pa.StructArray, name: str) -> np.ndarray:
    texts = pc.fill_null(_group(groups, name), "0")
    return np.asarray(pc.if_else(pc.equal(texts, ""), "0", texts).cast(pa.int64()))


def _group(groups: pa.StructArray, name: str) -> pa.StringArray:
    return groups.flatten()[groups.type.get_field_index(name)]


# --- writing


def spelled(values: pa.Array, place: str) -> pa.StringArray | None:
    """The text of each value inside its quotes, or None where it has none. ConfigError for a year beyond 9999."""
    kind = values.type
    if pa.types.is_binary(kind):
        texts = pl.Series(values).cast(pl.Binary).bin.encode("base64")
        return texts.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.string())
    if pa.types.is_date(kind):
        _refuse_beyond(values.cast(pa.int32()), _MIN_DAY, _MAX_DAY, place)
        return values.cast(pa.string())
    if pa.types.is_time(kind):
        return _short(values.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        _refuse_beyond(values.cast(pa.int64()), _MIN_US, _MAX_US, place)
        texts = pc.replace_substring(values.cast(pa.timestamp("us")).cast(pa.string()), " ", "T")
        return _short(texts) if kind.tz is None else pc.binary_join_element_wise(_short(texts), "Z", "")
    return None


def _short(texts: pa.StringArray) -> pa.StringArray:
    """Six digits of a fraction as none, three or six."""
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"\.000000$", ""), r"(\.\d{3})000$", r"\1")


def _refuse_beyond(numbers: pa.Array, least: int, most: int, place: str) -> None:
    bounds = pc.min_max(numbers).as_py()
    if bounds["min"] is not None and (bounds["min"] < least or bounds["max"] > most):
        raise ConfigError(place, "dates of the years 1 to 9999", "one beyond them", "correct the value")


# --- words

_WORDS = {
    "date": "a date such as 2026-11-24",
    "time": "a time such as 16:30:05.123456",
    "timestamp": "a timestamp such as 2026-11-24T16:30:05.123456Z",
    "timestamp_ntz": "a timestamp without an offset, such as 2026-11-24T16:30:05.123456",
    "binary": "base64",
    "float": "a float",
}


def _word(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        words = f"decimal({kind.precision},{kind.scale})"
        _WORDS.setdefault(words, f"a number that fits {words}")
        return words
    if pa.types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    names = {pa.date32(): "date", pa.binary(): "binary", pa.float32(): "float"}
    return names.get(kind, "time")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind) or pa.types.is_binary(kind))


def _shown(scalar: pa.Scalar) -> str:
    value = scalar.as_py()
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:37] + "...")
    return str(value) if isinstance(value, float) else f"{value:f}".rstrip("0").rstrip(".")
