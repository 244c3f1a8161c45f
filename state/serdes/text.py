"""Strings and bytes.

Rule: a string is UTF-8, checked by Arrow for a whole column at once; only when that fails are the bad rows looked for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..buffers import binary_view, is_valid
from .codec import Codec, Decoded, LeftToColumns, Read, Write, check_values, refuse_value
from .handed_over import taking


@dataclass(frozen=True, slots=True)
class StringCodec(Codec):
    """UTF-8."""

    name, arrow_type = "string()", pa.string()

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        return decode_strings(binary)

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        return values.cast(pa.binary())

    def sizes(self, values: pa.Array) -> np.ndarray:
        return byte_lengths(values)

    def from_python(self, values: list[Any]) -> pa.Array:
        return strings_from_python(values, f"Serde.{self.name}")

    def value_writer(self) -> Write:
        return str.encode

    def value_reader(self) -> Read:
        return bytes.decode

    def taking(self) -> Callable[[Any], Any]:
        return taking(self.arrow_type, self._through_a_column)


@dataclass(frozen=True, slots=True)
class BytesCodec(Codec):
    """Nothing is interpreted."""

    name, arrow_type = "bytes()", pa.binary()

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        return Decoded.whole(binary)

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        return values

    def sizes(self, values: pa.Array) -> np.ndarray:
        return byte_lengths(values)

    def from_python(self, values: list[Any]) -> pa.Array:
        check_values(values, bytes, f"Serde.{self.name}", "bytes")
        return pa.array(values, pa.binary())

    def value_writer(self) -> Write:
        return _as_it_is

    def taking(self) -> Callable[[Any], Any]:
        return taking(self.arrow_type, self._through_a_column)

    def value_reader(self) -> Read:
        return _as_it_is


def _as_it_is(value: Any) -> bytes:
    if type(value) is not bytes:
        raise LeftToColumns
    return value


def decode_strings(binary: pa.BinaryArray) -> Decoded:
    """Strings of UTF-8 rows; the others are bad."""
    try:
        return Decoded.whole(binary.cast(pa.string()))
    except pa.ArrowInvalid:
        reasons = invalid_utf8(binary)
    assert reasons, "Arrow refused a column in which Python finds no row that is not UTF-8"
    bad = np.zeros(len(binary), np.bool_)
    bad[list(reasons)] = True
    return Decoded(without(binary, bad).cast(pa.string()), bad, reasons)


def invalid_utf8(binary: pa.BinaryArray) -> dict[int, str]:
    """Row to sentence, for rows that are not UTF-8."""
    try:
        binary.cast(pa.string())
    except pa.ArrowInvalid:
        return {row: why for row, one in enumerate(binary.to_pylist()) if (why := _why_not_utf8(one)) is not None}
    return {}


def _why_not_utf8(value: bytes | None) -> str | None:
    try:
        if value is not None:
            value.decode()
    except UnicodeDecodeError as error:
        return f"expected UTF-8, got byte 0x{error.object[error.start]:02x} at {error.start}"
    return None


def without(array: pa.Array, rows: np.ndarray) -> pa.Array:
    """``array`` with null where ``rows`` is true."""
    return pc.if_else(pa.array(rows), pa.scalar(None, array.type), array)


def byte_lengths(array: pa.Array) -> np.ndarray:
    """Bytes of each row of a string or binary array as int64, 0 for null."""
    lengths = np.diff(binary_view(array).offsets)
    return lengths if array.null_count == 0 else lengths * is_valid(array)


def strings_from_python(values: list[Any], place: str) -> pa.Array:
    """Array of ``str`` and None; ConfigError for anything else and for surrogates without their other half."""
    check_values(values, str, place, "a str")
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError as error:
        row = next(row for row, value in enumerate(values) if value == error.object)
        refuse_value(f"{place}, row {row}", "a str that UTF-8 can write", error.object, "remove the lone surrogate")
