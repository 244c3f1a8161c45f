"""Rows of a table that hold a key, or certain bytes: those of a person that are to be erased.

Owns what counts as holding. Rule: a key is compared whole, as serialized, with every part of the columns that name a
row; of a windowed key, what is before its window is the key. A number equals a key that is its decimal digits, or
its bytes as Kafka's serializers write them. Bytes are found anywhere in a row. A key that a row only mentions, in its
value say, is not its key (``mentions``).
"""

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..argument_types import check_fields
from ..buffers import is_list
from ..errors import ConfigError

KEY_COLUMNS = ("key", "primary_key", "id")
"""Columns that name rows of outputs, stores, landed topics and repartition tables."""
LONG = 6
"""A key of so many bytes is searched for anywhere; a shorter one is found in many places by chance, so only whole words
count.
"""
WORD_BYTES = 4
"""The fewest bytes that may be searched for everywhere."""
_WINDOW_BYTES = (8, 16)
"""Behind the key of a windowed record: the begin of its window, or both ends."""


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
        key anywhere.
        """
        is_sought = np.zeros(len(table), np.bool_)
        for name in table.column_names:
            for leaf, rows in leaves(table[name]):
                if name in KEY_COLUMNS:
                    is_sought[rows[self._is_key(leaf)]] = True
                if is_text(leaf.type):
                    is_sought[rows[self.holds(leaf) if mentions else _contains(leaf, self._words)]] = True
        return is_sought

    def holds(self, texts: pa.Array) -> np.ndarray:
        """Of every one of ``texts`` (text or bytes) whether it is a key or mentions one, or holds one of the words."""
        return _contains(texts, self.patterns) | _equals(texts, self.keys)

    def holds_anywhere(self, texts: pa.Array) -> np.ndarray:
        """As ``holds``, of words and of long keys alone, anywhere in ``texts``."""
        return _contains(texts, self.anywhere)

    def is_in(self, data: bytes) -> bool:
        """Whether ``data``, bytes of any file, has what can be searched for anywhere."""
        return any(pattern in data for pattern in self.anywhere)

    @cached_property
    def anywhere(self) -> tuple[bytes, ...]:
        """What can be searched for in the bytes of any file: words, and long keys, also as JSON spells them."""
        long = [key for key in self.keys if len(key) >= LONG]
        return tuple(dict.fromkeys(form for each in (*long, *self.words) for form in _spelled(each)))

    @cached_property
    def patterns(self) -> tuple[bytes, ...]:
        """As ``anywhere``, and short keys in the quotes of JSON."""
        short = [key for key in self.keys if len(key) < LONG]
        quoted = [b'"' + form + b'"' for key in short for form in _spelled(key)]
        return tuple(dict.fromkeys([*self.anywhere, *quoted]))

    @cached_property
    def _words(self) -> tuple[bytes, ...]:
        return tuple(dict.fromkeys(form for word in self.words for form in _spelled(word)))

    def _is_key(self, leaf: pa.Array) -> np.ndarray:
        if is_text(leaf.type):
            return _equals(leaf, self.keys) | self._is_windowed(leaf)
        if pa.types.is_integer(leaf.type) or pa.types.is_floating(leaf.type):
            return _is_in(leaf, [number for key in self.keys for number in _numbers(key, leaf.type)])
        return np.zeros(len(leaf), np.bool_)

    def _is_windowed(self, leaf: pa.Array) -> np.ndarray:
        """Whether a key is before a window, whose times begin with a zero byte until the year 2 million."""
        is_windowed = np.zeros(len(leaf), np.bool_)
        data = leaf.cast(pa.binary())
        for key in self.keys:
            begins = pc.fill_null(pc.starts_with(data, pattern=key + b"\0"), False)
            for row in np.flatnonzero(np.asarray(begins)).tolist():
                is_windowed[row] |= len(data[row].as_py()) - len(key) in _WINDOW_BYTES
        return is_windowed


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
    if pa.types.is_dictionary(kind):
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


def is_text(kind: pa.DataType) -> bool:
    """Whether a part of a column has text or bytes."""
    return any(
        test(kind)
        for test in (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
    ) or bool(pa.types.is_fixed_size_binary(kind))


def _equals(texts: pa.Array, values: Sequence[bytes]) -> np.ndarray:
    return _is_in(texts.cast(pa.binary()), values)


def _is_in(leaf: pa.Array, values: Sequence[object]) -> np.ndarray:
    if not values:
        return np.zeros(len(leaf), np.bool_)
    return np.asarray(pc.is_in(leaf, pa.array(values, leaf.type)))


def _contains(texts: pa.Array, patterns: Sequence[bytes]) -> np.ndarray:
    contains, data = np.zeros(len(texts), np.bool_), texts.cast(pa.binary())
    for pattern in patterns:
        contains |= np.asarray(pc.fill_null(pc.match_substring(data, pattern), False))
    return contains


def _spelled(word: bytes) -> list[bytes]:
    """As it is, and as the text of JSON has it."""
    try:
        text = word.decode()
    except UnicodeDecodeError:
        return [word]
    forms = (json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode() for ascii_only in (False, True))
    return list(dict.fromkeys((word, *forms)))


def _numbers(key: bytes, kind: pa.DataType) -> Iterator[int | float]:
    """What a key is as a number of a type."""
    width = kind.bit_width // 8
    if pa.types.is_floating(kind):
        if len(key) == width in (4, 8):
            yield struct.unpack(">f" if width == 4 else ">d", key)[0]
        return
    lowest = 0 if pa.types.is_unsigned_integer(kind) else -(1 << kind.bit_width - 1)
    digits = key.removeprefix(b"-")
    numbers = [int.from_bytes(key, "big", signed=lowest < 0)] if len(key) == width else []
    # An int64 has 19 digits at most, and Delta has no unsigned type; ``int`` refuses very long texts.
    numbers += [int(key)] if digits.isdigit() and len(digits) < 20 else []
    yield from (number for number in numbers if lowest <= number < lowest + (1 << kind.bit_width))
