"""A value that is a long or a string, distinguished by its first byte.

Rule: a long has ``|n| < 2^56``, so its first byte (big-endian) is 0x00 or 0xff. A string does not begin with U+0000,
and no UTF-8 begins with 0xff. Bytes that begin like a long and are not 8 long are bad, and so is -2^56. No bytes are
the empty string.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..buffers import binary_view, fixed_array, fixed_view, is_valid
from ..errors import ConfigError
from .codec import Codec, Decoded, LeftToColumns, Read, Write, refuse_value
from .fixed_width import FixedWidth, big_endian_values
from .text import byte_lengths, decode_strings, strings_from_python, without

_LIMIT = 2**56
_LONG = FixedWidth("long")


@dataclass(frozen=True, slots=True)
class VariantCodec(Codec):
    """Arrow form: struct<long: int64, string: utf8> with exactly one of the two in every row that is not null."""

    name, arrow_type = "variant()", pa.struct([("long", pa.int64()), ("string", pa.string())])

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        view, valid = binary_view(binary), is_valid(binary)
        lengths = np.diff(view.offsets)
        # Any byte that no long begins with, so that null rows and empty strings are not taken for longs.
        first = np.full(len(binary), ord("a"), np.uint8)
        has_bytes = valid & (lengths > 0)
        first[has_bytes] = view.data[view.offsets[:-1][has_bytes]]
        begins_like_long = valid & ((first == 0x00) | (first == 0xFF))
        is_long = begins_like_long & (lengths == 8)
        numbers = big_endian_values(view, is_long, np.dtype(">i8"))
        is_wide = is_long & (numbers == -_LIMIT)
        is_long &= ~is_wide
        longs = fixed_array(numbers, is_long, pa.int64())
        strings = decode_strings(without(binary, begins_like_long))
        cut = begins_like_long & ~is_long & ~is_wide
        reasons = {int(row): f"expected 8 bytes of a long, got {lengths[row]}" for row in np.flatnonzero(cut)}
        reasons |= {int(row): f"expected a long above -2^56, got {-_LIMIT}" for row in np.flatnonzero(is_wide)}
        bad = cut | is_wide | strings.bad
        values = _variants(longs, strings.values, valid & ~bad)
        return Decoded(values, bad, dict(sorted((reasons | strings.reasons).items())))

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        longs, strings, valid = self._checked_parts(values)
        written = pc.coalesce(_LONG.encode(longs), strings.cast(pa.binary()))
        return without(written, ~valid) if not valid.all() else written

    def sizes(self, values: pa.Array) -> np.ndarray:
        longs, strings, valid = self._checked_parts(values)
        return np.where(is_valid(longs), 8, byte_lengths(strings)) * valid

    @property
    def can_change(self) -> bool:
        return False

    def to_python(self, values: pa.Array) -> list[Any]:
        longs, strings = values.field(0).to_pylist(), values.field(1).to_pylist()
        rows = zip(is_valid(values), longs, strings, strict=True)
        return [None if not valid else string if long is None else long for valid, long, string in rows]

    def from_python(self, values: list[Any]) -> pa.Array:
        place = f"Serde.{self.name}"
        for row, value in enumerate(values):
            is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            is_known = value is None or isinstance(value, str) or (is_whole and abs(int(value)) < _LIMIT)
            if not is_known or (isinstance(value, str) and value.startswith("\0")):
                expected = "an int with |n| < 2^56 or a str that does not begin with U+0000"
                refuse_value(f"{place}, row {row}", expected, value)
        strings = strings_from_python([value if isinstance(value, str) else None for value in values], place)
        longs = [None if value is None or isinstance(value, str) else int(value) for value in values]
        valid = np.array([value is not None for value in values], np.bool_)
        return _variants(pa.array(longs, pa.int64()), strings, valid)

    def value_writer(self) -> Write:
        def write(value: Any) -> bytes:
            if type(value) is str and not value.startswith("\0"):
                return value.encode()
            if type(value) is not int or abs(value) >= _LIMIT:
                raise LeftToColumns
            return value.to_bytes(8, "big", signed=True)

        return write

    def value_reader(self) -> Read:
        def read(data: bytes) -> int | str:
            if data[:1] not in (b"\0", b"\xff"):
                return data.decode()
            value = int.from_bytes(data, "big", signed=True)
            if len(data) != 8 or value == -_LIMIT:
                raise LeftToColumns
            return value

        return read

    def _checked_parts(self, values: pa.Array) -> tuple[pa.Array, pa.Array, np.ndarray]:
        """(longs, strings, valid) of a column that this serde can carry; else ConfigError with the first such row."""
        longs, strings, valid = values.field(0), values.field(1), is_valid(values)
        has_long, has_string = is_valid(longs), is_valid(strings)
        numbers, view = fixed_view(longs), binary_view(strings)
        is_wide = has_long & ((numbers >= _LIMIT) | (numbers <= -_LIMIT))
        has_bytes = has_string & (np.diff(view.offsets) > 0)
        is_nul = np.zeros(len(values), np.bool_)
        is_nul[has_bytes] = view.data[view.offsets[:-1][has_bytes]] == 0
        wrong = valid & ((has_long == has_string) | is_wide | is_nul)
        if wrong.any():
            row = int(np.argmax(wrong))
            expected = "either a long with |n| < 2^56 or a string that does not begin with U+0000"
            raise ConfigError(f"Serde.{self.name}, row {row}", expected, repr(values[row].as_py()), "correct the value")
        return longs, strings, valid


def _variants(longs: pa.Array, strings: pa.Array, valid: np.ndarray) -> pa.StructArray:
    return pa.StructArray.from_arrays([longs, strings], ["long", "string"], mask=pa.array(~valid))
