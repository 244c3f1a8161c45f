"""Rows of a table that hold a key, or certain bytes: those of a person that are to be erased.

Owns what counts as holding. Rule: a key is compared whole with every part of the columns that name a row, in each form
that its bytes are sure to have (state/tables/key_readings.py). A landed topic has bytes, and an output the value that a
serde read in them. Of a windowed key, what is before its window is the key. Words are found anywhere in a row. A key
that a row only mentions, in its value say, is not its key (``mentions``).
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..argument_types import check_fields
from ..buffers import is_list
from ..errors import ConfigError
from ..serdes.confluent_head import GUID_HEAD_BYTES, HEAD_BYTES
from .key_readings import LONG_BYTES, KeyReadings, is_read, json_of, spelled, with_length

KEY_COLUMNS = ("key", "primary_key", "id")
"""Columns that name rows of outputs, stores, landed topics and repartition tables."""
LONG = 6
"""A key of so many bytes is searched for anywhere; a shorter one is found in many places by chance, so only whole words
count.
"""
WORD_BYTES = 4
"""The fewest bytes that may be searched for everywhere."""
_WINDOW_BYTES = (8, 12, 16)
"""Behind the key of a windowed record: the begin of its window, also with a number behind it, or both ends."""
_BEHIND = (1 << 31) - 1
"""As the end of a slice: all that is there."""


@dataclass(frozen=True)
class Sought:
    """What is looked for. ``keys``: serialized, as landed; ``words``: bytes, each of WORD_BYTES or more, that may be
    anywhere in a row.

    Raises ConfigError for nothing at all, an empty key, and shorter words.
    """

    keys: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        if not (self.keys or self.words) or b"" in self.keys:
            raise ConfigError("erase", "a key that has bytes", "none", "name the key whose records are to be erased")
        if any(len(word) < WORD_BYTES for word in self.words):
            expected = f"{WORD_BYTES} bytes or more, since rows go wherever they are found"
            raise ConfigError("--also-bytes", expected, "fewer", "name more of what is beside them")

    def rows(self, table: pa.Table, *, mentions: bool = False) -> np.ndarray:
        """Of every row of ``table``, as bool, whether it is of a key, or holds one of the words. ``mentions``: or has a
        key anywhere, or in the column of keys what may be one.
        """
        is_sought = np.zeros(len(table), np.bool_)
        for name in table.column_names:
            if name in KEY_COLUMNS:
                is_sought |= self._has_object(table[name], mentions)
            for leaf, rows in leaves(table[name]):
                if name in KEY_COLUMNS:
                    is_sought[rows[self._is_key(leaf, mentions)]] = True
                if is_text(leaf.type):
                    is_sought[rows[self.holds(leaf) if mentions else _contains(leaf, self._words)]] = True
        return is_sought

    def holds(self, texts: pa.Array) -> np.ndarray:
        """Of every one of ``texts`` (text or bytes) whether it is a key or mentions one, or holds one of the words."""
        return _contains(texts, self.patterns) | _equals(texts, [*self.keys, *map(str.encode, self.readings.texts)])

    def holds_anywhere(self, texts: pa.Array) -> np.ndarray:
        """As ``holds``, of words and of long keys alone, anywhere in ``texts``."""
        return _contains(texts, self.anywhere)

    def is_in(self, data: bytes) -> bool:
        """Whether ``data``, bytes of any file, has what can be searched for anywhere."""
        return any(pattern in data for pattern in self.anywhere)

    @cached_property
    def readings(self) -> KeyReadings:
        """Of the keys."""
        return KeyReadings(self.keys)

    @cached_property
    def anywhere(self) -> tuple[bytes, ...]:
        """What can be searched for in the bytes of any file: words, and long keys, also as JSON spells them."""
        keys = [*self.keys, *(form for text in self.readings.texts for form in spelled(text))]
        return tuple(dict.fromkeys([*(key for key in keys if len(key) >= LONG), *self.readings.unique, *self._words]))

    @cached_property
    def patterns(self) -> tuple[bytes, ...]:
        """As ``anywhere``, and short keys in the quotes of JSON, or behind their length. That is Avro's, Protobuf's, or
        has four bytes, as in lists and in messages between our own sub-topologies.
        """
        short = [text for text in self.readings.texts if len(text.encode()) < LONG]
        quoted = [b'"' + form + b'"' for text in short for form in spelled(text)]
        behind = [form for text in short for form in with_length(text) if len(form) >= WORD_BYTES]
        # Not of one byte, nor of fewer than a long has: such numbers follow one another by chance.
        whole = {*self.keys, *map(str.encode, short), *(one for one in self.readings.forms if len(one) == LONG_BYTES)}
        behind += [struct.pack(">i", len(form)) + form for form in sorted(whole) if 1 < len(form) <= LONG_BYTES]
        return tuple(dict.fromkeys([*self.anywhere, *quoted, *behind]))

    @property
    def has_short(self) -> bool:
        """Whether a key, or what it is in tables, is too short to be searched for anywhere."""
        return any(len(key) < LONG for key in (*self.keys, *map(str.encode, self.readings.texts)))

    @property
    def unread(self) -> list[bytes]:
        """Keys of which nobody knows what a serde reads in them, and of which no other key or word says a part."""
        known = KeyReadings(tuple(filter(is_read, self.keys)))
        parts = [*map(str.encode, known.texts), *self.words]
        return [key for key in self.keys if not known.has(key) and not any(part in key for part in parts)]

    @cached_property
    def _words(self) -> tuple[bytes, ...]:
        return tuple(dict.fromkeys(form for word in self.words for form in _spelled(word)))

    def _is_key(self, leaf: pa.Array, is_doubtful: bool) -> np.ndarray:
        leaf = leaf.cast(pa.float32()) if pa.types.is_float16(leaf.type) else leaf  # Arrow looks for none of these
        readings, kind = self.readings, leaf.type
        if is_text(kind):
            return self._is_text_of_key(leaf.cast(pa.binary()), is_doubtful)
        numbers = [*readings.numbers, *(readings.doubtful_numbers if is_doubtful else [])]
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            sized = [number for key in self.keys for number in _numbers(key, kind)]
            return _is_in(leaf, [*sized, *(one for number in numbers for one in _fitting(number, kind))])
        if pa.types.is_decimal(kind):
            return _is_in(leaf, [number for number in map(_decimal, numbers) if _fits(number, kind)])
        return np.zeros(len(leaf), np.bool_)

    def _is_text_of_key(self, data: pa.Array, is_doubtful: bool) -> np.ndarray:
        """Whole, before a window, behind the head of a schema registry, or as a part of JSON."""
        readings = self.readings
        forms = [*readings.forms, *(readings.doubtful_forms if is_doubtful else ())]
        is_key = _is_before_window(data, forms) | self._is_in_json(data, is_doubtful)
        for first, head in ((b"\0", HEAD_BYTES), (b"\1", GUID_HEAD_BYTES)):
            is_headed = _is(pc.starts_with(data, first))
            if not is_headed.any():
                continue
            payload = pc.binary_slice(data, head, _BEHIND)
            # A long, also before a window, may have the same eight bytes.
            payloads = [one for one in readings.payloads if is_doubtful or head + len(one) != LONG_BYTES]
            is_sure = is_doubtful | _is(pc.not_equal(pc.binary_length(data), LONG_BYTES))
            is_payload = _is_before_window(payload, payloads) | (is_sure & self._is_in_json(payload, is_doubtful))
            is_key |= is_headed & is_payload
        return is_key

    def _is_in_json(self, data: pa.Array, is_doubtful: bool) -> np.ndarray:
        """Whether a JSON text is equal to a key that is an object or an array, or has a key as one of its parts;
        ``is_doubtful``: or has more fields than such a key, or fewer.
        """
        is_there, objects = np.zeros(len(data), np.bool_), self.readings.objects
        sought = {(type(value), value) for value in self.readings.values if isinstance(value, str | int | float)}
        is_json = _is(pc.match_substring_regex(data, rb'^\s*["\[{]'))
        if not objects:
            is_json &= _contains(data, self._in_json)
        for row in np.flatnonzero(is_json).tolist():
            value = json_of(data[row].as_py())
            is_there[row] = value in objects or any((type(part), part) in sought for part in _parts(value))
            is_there[row] |= is_doubtful and any(
                _has_fields(*pair) for one in objects for pair in ((value, one), (one, value))
            )
        return is_there

    @cached_property
    def _in_json(self) -> tuple[bytes, ...]:
        """What any JSON text with a key in it has; the backslash can spell all."""
        texts = [form for text in self.readings.texts for form in spelled(text)]
        return (b"\\", *texts, *(str(number).removesuffix(".0").encode() for number in self.readings.numbers))

    def _has_object(self, column: pa.ChunkedArray, is_doubtful: bool) -> np.ndarray:
        """Of every row of a column with parts whether a key is an object or an array with the same values in them."""
        objects = self.readings.objects
        if not objects or not pa.types.is_nested(column.type):
            return np.zeros(len(column), np.bool_)
        rows = column.to_pylist(maps_as_pydicts="lossy")
        if pa.types.is_map(column.type):
            rows = [row if any(len(row or ()) == len(value) for value in objects) else None for row in rows]
        return np.array([any(_is_same(row, value, is_doubtful) for value in objects) for row in rows], np.bool_)


def leaves(column: pa.ChunkedArray | pa.Array) -> Iterator[tuple[pa.Array, np.ndarray]]:
    """Parts of a column that are not nested, each with the rows that its values are of."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    pieces = whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]
    begin = 0
    for piece in pieces:
        yield from _leaves(piece, np.arange(begin, begin + len(piece)))
        begin += len(piece)


def _leaves(array: pa.Array, rows: np.ndarray) -> Iterator[tuple[pa.Array, np.ndarray]]:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from _leaves(array.storage, rows)
    elif pa.types.is_dictionary(kind):
        yield from _leaves(array.dictionary_decode(), rows)
    elif pa.types.is_struct(kind):
        for part in array.flatten():
            yield from _leaves(part, rows)
    elif pa.types.is_map(kind):
        entries = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        yield from _leaves(entries, rows)
    elif is_list(kind):
        parents = np.asarray(pc.list_parent_indices(array))
        yield from _leaves(array.flatten(), rows[parents])
    else:
        yield array, rows


_TEXTS = (
    pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view,
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary,
)  # fmt: skip


def is_text(kind: pa.DataType) -> bool:
    """Whether a part of a column has text or bytes."""
    return any(test(kind) for test in _TEXTS)


def _equals(texts: pa.Array, values: Sequence[bytes]) -> np.ndarray:
    return _is_in(texts.cast(pa.binary()), values)


def _is_in(leaf: pa.Array, values: Sequence[object]) -> np.ndarray:
    if not values:
        return np.zeros(len(leaf), np.bool_)
    return np.asarray(pc.is_in(leaf, pa.array(values, leaf.type)))


def _contains(texts: pa.Array, patterns: Sequence[bytes]) -> np.ndarray:
    contains, data = np.zeros(len(texts), np.bool_), texts.cast(pa.binary())
    for pattern in patterns:
        contains |= _is(pc.match_substring(data, pattern))
    return contains


def _is(array: pa.Array) -> np.ndarray:
    """Null is no."""
    return np.asarray(pc.fill_null(array, False))


def _is_before_window(data: pa.Array, forms: Sequence[bytes]) -> np.ndarray:
    """Whether each is one of ``forms``, or is before a window: its times begin with a zero byte until the year 2
    million.
    """
    is_form = _equals(data, forms)
    for behind in _WINDOW_BYTES:
        is_zero = _is(pc.equal(pc.binary_slice(data, -behind, 1 - behind), b"\0"))
        if is_zero.any():
            is_form |= is_zero & _equals(pc.binary_slice(data, 0, -behind), forms)
    return is_form


def _parts(value: Any) -> Iterator[Any]:
    """All parts of a value of JSON that have none themselves, without the names of fields."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            waiting += one.values() if isinstance(one, dict) else one
        else:
            yield one


def _has_fields(value: Any, fields: Any) -> bool:
    """Whether ``value`` has all of these, and they are the same."""
    are_objects = isinstance(value, dict) and isinstance(fields, dict)
    return are_objects and bool(fields) and all(name in value and value[name] == fields[name] for name in fields)


def _is_same(has: Any, said: Any, is_doubtful: bool) -> bool:
    """Whether a value of a column is what JSON says; ``is_doubtful``: so is one of a type that JSON has no word for."""
    if isinstance(has, dict):
        is_there = isinstance(said, dict) and any(part is not None for part in has.values())
        return is_there and all(_is_same(part, said.get(name), is_doubtful) for name, part in has.items())
    if isinstance(has, list):
        is_there = isinstance(said, list) and len(has) == len(said)
        return is_there and all(_is_same(*pair, is_doubtful) for pair in zip(has, said, strict=True))
    if has is None or isinstance(has, str | bool | int | float):
        return bool(has == said)
    return is_doubtful


def _spelled(word: bytes) -> list[bytes]:
    """As it is, and as the text of JSON has it."""
    try:
        return spelled(word.decode())
    except UnicodeDecodeError:
        return [word]


def _decimal(number: float) -> Decimal:
    return Decimal(str(number))


def _fits(number: Decimal, kind: pa.DataType) -> bool:
    try:
        pa.scalar(number, kind)
    except pa.ArrowInvalid:
        return False
    return True


def _fitting(number: float, kind: pa.DataType) -> Iterator[int | float]:
    """``number``, where a type has it."""
    if pa.types.is_floating(kind):
        yield float(number)
    elif isinstance(number, int):
        lowest = 0 if pa.types.is_unsigned_integer(kind) else -(1 << kind.bit_width - 1)
        yield from [number] if lowest <= number < lowest + (1 << kind.bit_width) else []


def _numbers(key: bytes, kind: pa.DataType) -> Iterator[int | float]:
    """What the bytes of a key are as a number of a type, as Kafka's serializers write it."""
    width = kind.bit_width // 8
    if pa.types.is_floating(kind):
        if len(key) == width in (4, 8):
            yield struct.unpack(">f" if width == 4 else ">d", key)[0]
        return
    if len(key) == width:
        yield int.from_bytes(key, "big", signed=not pa.types.is_unsigned_integer(kind))
