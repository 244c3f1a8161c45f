"""Values of file rows as the parts of a record: key and value bytes, times, partitions.

Owns conversions, column by column, without any file. Rule: all or nothing. A column whose conversion fails raises
``BadValuesError`` with every row that does not fit; nothing is replaced, guessed or left out.
"""

import json
import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from json.encoder import encode_basestring
from secrets import token_hex
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import is_list
from ....state.distinct_numbers import without
from ....state.errors import shown
from ....state.serdes import Serde
from ....state.serdes.exact_decimals import with_scale

_UUID = pa.uuid()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH = datetime(1970, 1, 1)
_MS = timedelta(milliseconds=1)
_TO_MS: dict[str, tuple[int, int]] = {"ms": (1, 1), "s": (1000, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}

_ONE = Decimal(1)
_FLOOR = Context(prec=40, rounding=ROUND_FLOOR, traps=[InvalidOperation])
"""Refuses what has more than 40 digits, so that no exponent becomes an int that fills the memory."""

LATEST_OFFSET = (1 << 63) - 2
"""Of 64 bits, with room for the offset after it."""

SERDES = {"string": Serde.string, "bytes": Serde.bytes, "int": Serde.int, "long": Serde.long, "double": Serde.double}
SERDES["boolean"] = Serde.boolean
"""What a key or a value of one column may be written as, in the words of Kafka's serializers."""


@dataclass(frozen=True, slots=True)
class JsonNumber:
    """A number of JSON text with a fraction or an exponent, with the text's digits: none is lost in a float."""

    text: str

    def __float__(self) -> float:
        return float(self.text)

    def __repr__(self) -> str:
        return self.text


class Repeating(dict[str, Any]):
    """A JSON object in which a name comes more than once: the last value of each, and in ``pairs`` all there are."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    by_name = dict(pairs)
    return by_name if len(by_name) == len(pairs) else Repeating(pairs)


class _Decoder(json.JSONDecoder):
    """Also of integers with more digits than Python makes an int of."""

    def decode(self, s: str, *more: Any) -> Any:
        try:
            return super().decode(s, *more)
        # A JSONDecodeError is a ValueError, too. Any other here is
        # Python's limit on digits of an int (sys.set_int_max_str_digits).
        except json.JSONDecodeError:
            raise
        except ValueError:
            return json.JSONDecoder(
                object_pairs_hook=self.object_pairs_hook, parse_float=JsonNumber, parse_int=_integer
            ).decode(s, *more)


def _integer(text: str) -> int | JsonNumber:
    return int(text) if len(text) < 1_000 else JsonNumber(text)


_DECODER = _Decoder(parse_float=JsonNumber)
_REPEATING_DECODER = _Decoder(parse_float=JsonNumber, object_pairs_hook=_object)
_JSON_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def json_value(text: str | bytes) -> Any:
    """A JSON value in Python's types, with JsonNumber for what is no integer. ValueError for text that is no JSON, and
    for bytes that are no UTF-8, which no serde would read.
    """
    return _DECODER.decode(text.decode() if isinstance(text, bytes) else text)


def json_with_headers(text: str | bytes) -> Any:
    """As ``json_value``, with Repeating for an object that has a name twice: Kafka has several headers of a name."""
    return _REPEATING_DECODER.decode(text.decode() if isinstance(text, bytes) else text)


@dataclass(frozen=True, slots=True)
class BadValue:
    """Row ``row`` of a block does not fit: what was expected, what was got, and of which column, where it has one."""

    row: int
    expected: str
    got: str
    column: str | None = None

    @property
    def got_of_column(self) -> str:
        """What was got, with the column."""
        return self.got if self.column is None else f"{self.got} in column {self.column}"


class BadValuesError(Exception):
    """Rows of a block that do not fit, in their order; at least one."""

    def __init__(self, values: Sequence[BadValue]) -> None:
        super().__init__(values)
        self.values = values


@contextmanager
def of_column(name: str | None) -> Iterator[None]:
    """Rows that do not fit in this block have the column ``name``, unless they have one already. None: no name."""
    try:
        yield
    except BadValuesError as bad:
        raise BadValuesError([replace(value, column=value.column or name) for value in bad.values]) from bad


def listed(values: Sequence[Any] | pa.Array) -> Sequence[Any]:
    """Values of an Arrow column as Python's, times and durations of all units as milliseconds, dates as days, so that
    no year is beyond Python's. UUIDs are text, and a float of 32 bits is the double of its shortest digits. A map
    whose keys are text is a dict, as it is an object in Kafka Connect's JSON; others are lists of pairs.
    BadValuesError with the rows that have a value which Python cannot hold.
    """
    if not isinstance(values, pa.Array):
        return values
    numbers = _temporal_numbers(values)
    if numbers is not None:
        return numbers
    bare = with_leaves(values.type, _bare)
    try:
        items = (values if bare == values.type else values.cast(bare)).to_pylist()
    except (ValueError, pa.ArrowException):
        items = _one_by_one(values, bare)
    if not _has_forms(values.type):
        return items  # type: ignore[no-any-return]
    return each(items, "each key of a map once", lambda value: _formed(value, values.type))


def with_leaves(kind: pa.DataType, of: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """``kind`` with the types of its values, however deep in lists, maps and structs, replaced by what ``of`` gives."""
    if pa.types.is_map(kind):
        return pa.map_(with_leaves(kind.key_type, of), with_leaves(kind.item_type, of))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(with_leaves(field.type, of)) for field in kind])
    if is_list(kind):
        field = kind.value_field.with_type(with_leaves(kind.value_type, of))
        if pa.types.is_fixed_size_list(kind):
            return pa.list_(field, kind.list_size)
        return pa.list_(field) if pa.types.is_list(kind) else pa.large_list(field)
    return of(kind)


def _bare(kind: pa.DataType) -> pa.DataType:
    """The integers that times are."""
    if _to_ms(kind) is None:
        return kind
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def _has_forms(kind: pa.DataType) -> bool:
    """Is it, or has it within, what ``_formed`` changes?"""
    if pa.types.is_map(kind):
        return is_text(kind.key_type) or _has_forms(kind.key_type) or _has_forms(kind.item_type)
    if kind.num_fields:
        return any(_has_forms(kind.field(index).type) for index in range(kind.num_fields))
    return kind in (_UUID, pa.float32()) or _to_ms(kind) is not None


def _formed(value: Any, kind: pa.DataType) -> Any:
    """A value of ``kind`` in the form that ``listed`` gives it; times are integers yet."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        pairs = [(_formed(key, kind.key_type), _formed(item, kind.item_type)) for key, item in value]
        if not is_text(kind.key_type):
            return pairs
        if len(by_key := dict(pairs)) < len(pairs):
            raise ValueError(value)
        return by_key
    if isinstance(value, dict):
        return {field.name: _formed(value[field.name], field.type) for field in kind}
    if isinstance(value, list):
        return [_formed(item, kind.value_type) for item in value]
    if kind == _UUID:
        return str(value)
    if pa.types.is_float32(kind):
        return float(str(np.float32(value)))
    ratio = _to_ms(kind)
    return value if ratio is None else value * ratio[0] // ratio[1]


def is_text(kind: pa.DataType) -> bool:
    """Of whatever length."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_text_or_bytes(kind: pa.DataType) -> bool:
    """Of whatever length: every value has its bytes."""
    return is_text(kind) or bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _one_by_one(values: pa.Array, bare: pa.DataType) -> list[Any]:
    """Values, as the type ``bare``, of which some cannot be Python's."""
    good, bad = [], []
    for row in range(len(values)):
        try:
            good += values.slice(row, 1).cast(bare).to_pylist()
        except UnicodeDecodeError as error:
            bad.append(_no_utf_8(row, error))
        except (ValueError, pa.ArrowException) as error:
            bad.append(BadValue(row, "a value that JSON can hold", str(error)[:200]))
    assert bad, "a column was refused of which every value is taken"
    raise BadValuesError(bad)


def refuse_other_encodings(values: pa.Array) -> None:
    """Raises BadValuesError with the rows whose text, also in lists and structs, is not UTF-8: Arrow takes any bytes
    as text.
    """
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        bad = []
        for row in range(len(values)):
            try:
                values.slice(row, 1).cast(with_leaves(values.type, _bare)).to_pylist()
            except UnicodeDecodeError as error:
                bad.append(_no_utf_8(row, error))
        if bad:
            raise BadValuesError(bad) from None


def _no_utf_8(row: int, error: UnicodeDecodeError) -> BadValue:
    return BadValue(row, "text that is UTF-8", repr(bytes(error.object))[:200])


def _to_ms(kind: pa.DataType) -> tuple[int, int] | None:
    """By what a time or a duration, as an integer, is multiplied and divided to be milliseconds, and a date days; None
    for other types.
    """
    if pa.types.is_date(kind):
        return (1, 1 if pa.types.is_date32(kind) else 86_400_000)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        return _TO_MS[kind.unit]
    return None


def _temporal_numbers(values: pa.Array) -> list[int | None] | None:
    """None for a column of other types."""
    ratio = _to_ms(values.type)
    return None if ratio is None else _divided(values, ratio[1], ratio[0])


def _divided(values: pa.Array, divisor: int, times: int = 1) -> list[int | None]:
    """Numbers below ``values``, multiplied and divided, rounded down."""
    whole = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64()).to_pylist()
    return [None if number is None else number * times // divisor for number in whole]


def equal_to(values: Sequence[Any] | pa.Array, text: str) -> np.ndarray:
    """Which values are ``text``, or its bytes. What is neither text nor bytes is taken as ``bytes_of`` writes it."""
    if isinstance(values, pa.Array) and pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not isinstance(values, pa.Array) or not is_text_or_bytes(values.type):
        values = bytes_of(listed(values))
    wanted = pa.scalar(text.encode() if pa.types.is_binary(values.type) else text, values.type)
    return np.asarray(pc.fill_null(pc.equal(values, wanted), False))


def _int64(values: pa.Array) -> pa.Array | None:
    """Text of whole numbers as int64; None where one does not fit, or Arrow would read it as hexadecimal."""
    try:
        numbers = values.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    text = _bytes_below(values).tobytes()
    return None if b"x" in text or b"X" in text else numbers


def is_local(kind: pa.DataType) -> bool:
    """Are these times, or days that begin, of no zone?"""
    return bool(pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None))


def _date_ms(days: pa.Array) -> list[int | None]:
    return _divided(days, 1, 86_400_000 if pa.types.is_date32(days.type) else 1)


def times_ms(values: Sequence[Any] | pa.Array, unit: str, zone: str | None = None) -> np.ndarray:
    """Record times as int64 milliseconds. An Arrow array of timestamps or dates ignores ``unit``. ``zone``: of times
    that have none, None: UTC. Of a time that came twice the first counts; one that never was fits no row.
    """
    if isinstance(values, pa.Array):
        kind = values.type
        if zone is not None and is_local(kind):
            here = ZoneInfo(zone)
            local = _date_ms(values) if pa.types.is_date(kind) else _temporal_numbers(values) or ()
            return _as_int64(each(local, f"a time in {zone}", lambda ms: instant_ms(_LOCAL_EPOCH + ms * _MS, here)))
        if pa.types.is_timestamp(kind):
            # Seconds are multiplied, which may overflow 64 bits without a word in NumPy; Python's ints name the row.
            if values.null_count == 0 and kind.unit != "s":
                return np.asarray(values.view(pa.int64())) // _TO_MS[kind.unit][1]
            unit, values = "ms", _temporal_numbers(values)
        elif pa.types.is_date(kind):
            unit, values = "ms", _date_ms(values)
        elif pa.types.is_signed_integer(kind) and values.null_count == 0 and unit in ("ms", "us", "ns"):
            return np.asarray(values.cast(pa.int64())) // _TO_MS[unit][1]
        elif is_text(kind) and values.null_count == 0 and unit in ("ms", "us", "ns"):
            numbers = _int64(values)
            if numbers is not None:
                return np.asarray(numbers) // _TO_MS[unit][1]
    given = listed(values)
    kinds = set(map(type, given))
    if unit in ("ms", "us", "ns") and kinds == {int}:
        return _as_int64(given) // _TO_MS[unit][1]
    if unit in ("ms", "us", "ns") and kinds == {str} and (numbers := _whole_numbers(given)) is not None:
        return np.asarray(numbers) // _TO_MS[unit][1]
    there = None if zone is None else ZoneInfo(zone)
    return _as_int64(each(given, f"a timestamp ({unit})", lambda value: _time_ms(value, unit, there)))


def time_text(time_ms: int) -> str:
    """A record time as ISO 8601, in UTC, of any year."""
    seconds, ms = divmod(time_ms, 1000)  # the least number of milliseconds is no time to NumPy
    return f"{np.datetime64(seconds, 's')}.{ms:03d}Z"


def partition_numbers(values: Sequence[Any] | pa.Array, partitions: int) -> np.ndarray:
    """Declared partitions as int32, each in [0, ``partitions``)."""

    return whole_numbers(values, f"a partition in [0, {partitions})", partitions).astype(np.int32)


def whole_numbers(values: Sequence[Any] | pa.Array, expected: str, end: int = LATEST_OFFSET + 1) -> np.ndarray:
    """Numbers in [0, ``end``), or their text, as int64; BadValuesError says what was ``expected``."""
    if isinstance(values, pa.Array) and pa.types.is_integer(values.type) and values.null_count == 0:
        numbers = np.asarray(values)
        if len(numbers) == 0 or (numbers.min() >= 0 and numbers.max() < end):
            return numbers.astype(np.int64)

    def checked(value: Any) -> int:
        number = _whole(value)
        if not 0 <= number < end:
            raise ValueError
        return number

    return np.array(each(listed(values), expected, checked), np.int64)


def numbers_or_none(values: pa.Array) -> np.ndarray:
    """Numbers of 0 or more, or their text, as int64; -1: the row has none, and is no record."""
    if pa.types.is_integer(values.type):
        return np.asarray(values.cast(pa.int64()).fill_null(-1))
    try:
        return whole_numbers(values, "a number")
    except BadValuesError as error:
        numbers = np.full(len(values), -1, np.int64)
        good = without(np.arange(len(values)), np.array([bad.row for bad in error.values], np.int64))
        numbers[good] = whole_numbers(values.take(pa.array(good)), "a number")
        return numbers


def bytes_of(values: Sequence[Any]) -> pa.Array:
    """Text as UTF-8, bytes as they are, null as null, anything else as compact JSON text."""
    if set(map(type, values)) <= {str, type(None)}:
        try:
            return pa.array(values, pa.string()).cast(pa.binary())
        except UnicodeEncodeError:  # half a surrogate pair; named below
            pass
    return pa.array(each(values, "a value that can be written as text", _bytes), pa.binary())


def encoded(values: Sequence[Any], kind: str) -> pa.Array:
    """Values, or their text, as the bytes that Kafka's serializer of ``kind`` (see ``SERDES``) writes; null: null."""
    if kind in ("string", "bytes"):
        return bytes_of(values)
    read = _READERS[kind]
    article = "an" if kind == "int" else "a"
    parsed = each(values, f"{article} {kind}", lambda value: None if value is None else read(value))
    serde = SERDES[kind]()
    return serde.encode(serde.from_python(parsed)).cast(pa.binary())


@dataclass(frozen=True, slots=True)
class PlainTexts:
    """Texts, none of them null, that JSON has as they are, between quotes."""

    values: pa.StringArray


def json_objects(names: Sequence[str], columns: Sequence[Sequence[Any] | pa.StringArray | PlainTexts]) -> pa.Array:
    """One compact JSON object a row, its fields in the order of ``names``, as UTF-8 bytes. A column of Arrow is JSON
    text already.
    """
    pieces: list[pa.Scalar | pa.Array] = []
    before = "{"
    for name, column in zip(names, columns, strict=True):
        quote = '"' if isinstance(column, PlainTexts) else ""
        pieces.append(pa.scalar(f"{before}{encode_basestring(name)}:{quote}", pa.string()))
        if isinstance(column, PlainTexts):
            pieces.append(column.values)
        else:
            with of_column(name):
                pieces.append(column if isinstance(column, pa.Array) else _json_column(column))
        before = f"{quote},"
    end, between = pa.scalar(f"{before[:-1]}}}", pa.string()), pa.scalar("", pa.string())
    return pc.binary_join_element_wise(*pieces, end, between).cast(pa.binary())


def simple_json(values: pa.Array, kind: str) -> pa.StringArray | PlainTexts | None:
    """What ``typed`` as ``kind`` and then JSON text would be, ``null`` for null, all at once: of integers, and of text
    that needs no escapes or is a ``long``. None for all else.
    """
    numbers = _int64(values) if kind == "long" and is_text(values.type) else values
    if numbers is not None and pa.types.is_integer(numbers.type) and kind in ("string", "long"):
        texts = values if _are_written_so(values, numbers) else numbers.cast(pa.string())
    elif kind == "string" and is_text(values.type) and not _has_escapes(values):
        if not values.null_count:
            return PlainTexts(values.cast(pa.string()))
        quote, between = pa.scalar('"', pa.string()), pa.scalar("", pa.string())
        texts = pc.binary_join_element_wise(quote, values.cast(pa.string()), quote, between)
    else:
        return None
    return pc.fill_null(texts, "null") if texts.null_count else texts


def _are_written_so(texts: pa.Array, numbers: pa.Array) -> bool:
    """Is each of these texts of integers the shortest that there is, as integers are written? Any other is longer."""
    if not pa.types.is_string(texts.type) or numbers.null_count or not len(numbers):
        return False
    whole = np.asarray(numbers)
    least, most = int(whole.min()), int(whole.max())
    if least < 0:
        return False
    digits = len(whole) + sum(np.count_nonzero(whole >= 10**power) for power in range(1, len(str(most))))
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    return bool(offsets[texts.offset + len(texts)] - offsets[texts.offset] == digits)


def _has_escapes(values: pa.Array) -> bool:
    """Has a text what JSON escapes?"""
    data = _bytes_below(values)
    return bool(((data < ord(" ")) | (data == ord('"')) | (data == ord("\\"))).any())


def _bytes_below(values: pa.Array) -> np.ndarray:
    """Of all texts, one after the other."""
    offsets = np.frombuffer(values.buffers()[1], np.int64 if pa.types.is_large_string(values.type) else np.int32)
    first, last = offsets[values.offset], offsets[values.offset + len(values)]
    return np.frombuffer(values.buffers()[2] or b"", np.uint8)[first:last]


def _json_column(values: Sequence[Any]) -> pa.Array:
    """JSON text of each value."""
    kinds = set(map(type, values))
    if kinds <= {str, type(None)}:
        texts = ["null" if value is None else encode_basestring(value) for value in values]
    # By exact types: a bool is an int as well, and JSON writes it otherwise.
    elif kinds <= {int, type(None)}:
        texts = ["null" if value is None else str(value) for value in values]
    else:
        texts = each(values, "a value that JSON can hold", json_text)
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:  # half a surrogate pair; name its row
        return pa.array(each(texts, "text that is Unicode", lambda text: text.encode()), pa.string())


def typed(texts: Sequence[str | None], kind: str) -> Sequence[Any]:
    """Text of CSV fields as ``string``, ``int``, ``long``, ``double``, ``boolean`` or ``json``; null stays null. A
    double is a JsonNumber: its digits are those of the field.
    """
    if kind == "string":
        return texts
    if kind == "long" and (numbers := _whole_numbers(texts)) is not None:
        return list(numbers.to_pylist())
    read = _double_number if kind == "double" else _READERS[kind]
    article = "an" if kind == "int" else "a"
    expected = "JSON" if kind == "json" else f"{article} {kind}"
    return each(texts, expected, lambda text: None if text is None else read(text))


def json_text(value: Any) -> str:
    """Compact JSON; times as milliseconds, dates as days, bytes as base64, decimals as text, NaN as null. A JsonNumber
    is written as it was read.
    """
    if type(value) is JsonNumber:
        return value.text
    try:
        text = _STRICT.encode(value)
    except ValueError:
        text = _STRICT.encode(_without_nan(value))
    return text if _NUMBER not in text else _NUMBERS.sub(r"\1", text)


def _whole_numbers(texts: Sequence[str | None]) -> pa.Array | None:
    """Texts as int64, all at once; None when one does not fit (then they are read one by one, to name it)."""
    try:
        return _int64(pa.array(texts, pa.string()))
    except UnicodeEncodeError:
        return None


def each(values: Sequence[Any], expected: str, convert: Callable[[Any], Any]) -> list[Any]:
    """``convert`` of each value; BadValuesError with those that it refuses."""
    converted, bad = [], []
    for row, value in enumerate(values):
        try:
            converted.append(convert(value))
        except (ValueError, TypeError, OverflowError, ArithmeticError, RecursionError):
            bad.append(BadValue(row, expected, shown(value)[:200]))
    if bad:
        raise BadValuesError(bad)
    return converted


def _as_int64(values: Sequence[int]) -> np.ndarray:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return np.array(each(values, "a timestamp of 64 bits", lambda value: _in_range(value, 64)), np.int64)


def is_naive(values: Sequence[Any] | pa.Array, unit: str) -> bool:
    """Are these times, or the first of them, of no zone?"""
    if isinstance(values, pa.Array):
        if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
            return is_local(values.type)
        values = values.slice(0, 1).to_pylist() if unit == "iso" else ()
    return unit == "iso" and len(values) > 0 and _has_no_zone(values[0])


def count_zoned(values: Sequence[Any] | pa.Array, unit: str) -> tuple[int, int]:
    """How many of these times are of no zone, and how many name one. Numbers are neither."""
    if isinstance(values, pa.Array):
        if is_local(values.type):
            return len(values), 0
        values = values.to_pylist() if unit == "iso" and is_text(values.type) else ()
    texts = [value for value in values if isinstance(value, str)] if unit == "iso" else []
    naive = sum(map(_has_no_zone, texts))
    return naive, len(texts) - naive


def _has_no_zone(time: Any) -> bool:
    """Of ISO 8601 text that has been read."""
    return isinstance(time, str) and datetime.fromisoformat(time).tzinfo is None


def _time_ms(value: Any, unit: str, there: ZoneInfo | None) -> int:
    if isinstance(value, datetime):
        return instant_ms(value, there)
    if isinstance(value, date):
        return instant_ms(datetime(value.year, value.month, value.day), there)
    if unit == "iso":
        return instant_ms(datetime.fromisoformat(value), there)
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal | JsonNumber):
        raise TypeError(value)
    times, divisor = _TO_MS[unit]
    if isinstance(value, str) and value.isascii() and value.lstrip("-").isdigit():
        value = int(value)
    if isinstance(value, int):
        return value * times // divisor
    # Both are powers of ten, so the difference of their lengths is the exponent.
    number = _FLOOR.scaleb(Decimal(_plain(str(value))), len(str(times)) - len(str(divisor)))
    return int(number.quantize(_ONE, context=_FLOOR))


def instant_ms(time: datetime, there: ZoneInfo | None) -> int:
    """Of a time that may have no zone, and then is one ``there``; None: UTC. ValueError for one that never was."""
    if time.tzinfo is not None or there is None:
        return _datetime_ms(time)
    instant = time.replace(tzinfo=there).astimezone(UTC)
    if instant.astimezone(there).replace(tzinfo=None, fold=0) != time:
        raise ValueError(time)  # clocks were put forward past it
    return _datetime_ms(instant)


def _datetime_ms(instant: datetime) -> int:
    return ((instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)) - _EPOCH) // _MS


def _date_days(day: date) -> int:
    return day.toordinal() - 719_163


def _plain(text: str) -> str:
    if "_" in text:  # Python reads 1_000, nobody else does
        raise ValueError(text)
    return text


def _whole(value: Any) -> int:
    """An integer, also one that a float, a decimal or a JsonNumber holds (42.0)."""
    if isinstance(value, str):
        return _in_range(int(_plain(value)), 64)
    if isinstance(value, float | Decimal | JsonNumber):
        number = Decimal(value.text) if isinstance(value, JsonNumber) else Decimal(value)
        return _in_range(int(with_scale(number, 0)), 64)
    return _in_range(value, 64)


def _in_range(number: Any, bits: int) -> int:
    if type(number) is not int:
        raise TypeError(number)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise OverflowError(number)
    return number


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal | JsonNumber):
        raise TypeError(value)
    number = float(_plain(value) if isinstance(value, str) else value)
    # 1e400 is too large for a double and refused; the words inf and Infinity have no digit, and are meant.
    if math.isinf(number) and not isinstance(value, float) and any(map(str.isdigit, str(value))):
        raise OverflowError(value)
    return number


def _double_number(text: str) -> JsonNumber | None:
    """A number with the digits of ``text``, as JSON may have it; None for NaN and infinities, which JSON has not."""
    if _JSON_NUMBER.fullmatch(text):
        return JsonNumber(text)
    number = Decimal(_plain(text).strip())
    return JsonNumber(str(number)) if number.is_finite() else None


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.lower() not in ("true", "false"):
        raise ValueError(value)
    return value.lower() == "true"


_READERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda value: _in_range(_whole(value), 32),
    "long": _whole,
    "double": _double,
    "boolean": _boolean,
    "json": json_value,
}


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return value
    if isinstance(value, float | Decimal) and not math.isfinite(value):  # JSON has none
        return None
    if isinstance(value, Decimal):  # an id of 38 digits is 42, not "42"
        return f"{value:f}".encode()
    return value.encode() if isinstance(value, str) else json_text(value).encode()


def _json_default(value: Any) -> Any:
    if isinstance(value, datetime):
        return _datetime_ms(value)
    if isinstance(value, date):
        return _date_days(value)
    if isinstance(value, time):
        return (value.hour * 3600 + value.minute * 60 + value.second) * 1000 + value.microsecond // 1000
    if isinstance(value, timedelta):
        return value // _MS
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, JsonNumber):
        return f"{_NUMBER}{value.text}"
    raise TypeError(f"no JSON for {type(value).__name__}")


_NUMBER = f"\udfff{token_hex(8)}"
"""Before a JsonNumber while it is a string. No file can have drawn it. Text that begins alike, with half a surrogate
pair, is a bad row later.
"""
_NUMBERS = re.compile(f'"{_NUMBER}([^"]*)"')

_STRICT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_json_default)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    return [_without_nan(part) for part in value] if isinstance(value, list | tuple) else value
