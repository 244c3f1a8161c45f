"""short, int, long, float and double as Kafka's clients write them: 2, 4 or 8 bytes, big-endian.

Rule: a row of another length is bad, as Kafka's deserializers refuse it. When all lengths fit, a column is one
reinterpretation of the data buffer.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..buffers import BinaryView, binary_array, binary_view, fixed_array, fixed_view, is_valid
from .codec import Codec, Decoded, LeftToColumns, Read, Write, refuse_value
from .handed_over import taking

_ARROW = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
KINDS = {arrow_type: kind for kind, arrow_type in _ARROW.items()}
"""Words of the number types."""
_BIG_ENDIAN: dict[str, np.dtype] = {
    "short": np.dtype(">i2"),
    "int": np.dtype(">i4"),
    "long": np.dtype(">i8"),
    "float": np.dtype(">f4"),
    "double": np.dtype(">f8"),
}
_FORMATS = {"short": ">h", "int": ">i", "long": ">q", "float": ">f", "double": ">d"}
_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}
NO_FLOAT = 2.0**128 - 2.0**103
"""From here on the nearest float is infinite."""


@dataclass(frozen=True, slots=True)
class FixedWidth(Codec):
    """``kind``: short, int, long, float or double."""

    kind: str

    @property
    def name(self) -> str:
        return f"{self.kind}()"

    @property
    def arrow_type(self) -> pa.DataType:
        return _ARROW[self.kind]

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        big_endian = _BIG_ENDIAN[self.kind]
        view, valid = binary_view(binary), is_valid(binary)
        lengths = np.diff(view.offsets)
        bad = valid & (lengths != big_endian.itemsize)
        good = valid & ~bad
        values = big_endian_values(view, good, big_endian)
        article = "an" if self.kind == "int" else "a"
        reasons = {
            int(row): f"expected {big_endian.itemsize} bytes of {article} {self.kind}, got {lengths[row]}"
            for row in np.flatnonzero(bad)
        }
        return Decoded(fixed_array(values, good, self.arrow_type), bad, reasons)

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        valid = is_valid(values)
        written = fixed_view(values)[valid].astype(_BIG_ENDIAN[self.kind])
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum(valid, out=offsets[1:])
        return binary_array(written.view(np.uint8), offsets * written.itemsize, valid)

    def sizes(self, values: pa.Array) -> np.ndarray:
        return is_valid(values).astype(np.int64) * _BIG_ENDIAN[self.kind].itemsize

    def from_python(self, values: list[Any]) -> pa.Array:
        return numbers_from_python(values, self.kind, f"Serde.{self.name}")

    def value_writer(self) -> Write:
        pack, kind = struct.Struct(_FORMATS[self.kind]).pack, float if self.kind in ("float", "double") else int

        def write(value: Any) -> bytes:
            if type(value) is not kind or value != value:
                raise LeftToColumns
            return pack(value)

        return write

    def value_reader(self) -> Read:
        unpack = struct.Struct(_FORMATS[self.kind]).unpack
        return lambda data: unpack(data)[0]

    def taking(self) -> Callable[[Any], Any]:
        return taking(self.arrow_type, self._through_a_column)


def big_endian_values(view: BinaryView, good: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Numbers of the ``good`` rows, each of exactly ``dtype``'s size; undefined in the other rows."""
    native = dtype.newbyteorder("=")
    starts = view.offsets[:-1]
    begin, end = view.offsets[0], view.offsets[-1]
    count = int(np.count_nonzero(good))
    if end - begin == count * dtype.itemsize:  # no byte belongs to any other row
        packed = np.frombuffer(view.data[begin:end], dtype).astype(native)
        if count == len(good):
            return packed
    else:
        indices = starts[good][:, None] + np.arange(dtype.itemsize)
        packed = view.data[indices].view(dtype).ravel().astype(native)
    values = np.zeros(len(good), native)
    values[good] = packed
    return values


def numbers_from_python(values: list[Any], kind: str, place: str) -> pa.Array:
    """Array of Python numbers: ints (no bools) for the whole ones, floats and ints for float and double."""
    plain = {float, int, type(None)} if kind == "double" else {int, type(None)}
    if set(map(type, values)) <= plain and kind != "float":
        try:
            return pa.array(values, _ARROW[kind])
        except (OverflowError, pa.ArrowInvalid):
            pass  # some number does not fit: find which, and say so
    return pa.array([number(value, kind, f"{place}, row {row}") for row, value in enumerate(values)], _ARROW[kind])


def number(value: Any, kind: str, place: str) -> int | float | None:
    """``value`` as the number that is stored; ConfigError when it is none or does not fit."""
    if value is None:
        return None
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if kind in ("double", "float"):
        # Beyond 2**53 not every whole number has a double, and the nearest double would be another number.
        if not isinstance(value, float | np.floating) and (not is_whole or abs(value) > 2**53):
            refuse_value(place, f"a {kind}", value)
        if kind == "float" and math.isfinite(value) and abs(value) >= NO_FLOAT:
            refuse_value(place, "a float", value)
        return float(value)
    if not is_whole:
        refuse_value(place, f"{'an' if kind == 'int' else 'a'} {kind}", value)
    bits = _BITS[kind]
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        refuse_value(place, f"a number of {bits} bits", value)
    return int(value)
