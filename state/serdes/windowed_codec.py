"""Windowed keys as Kafka's TimeWindowedSerializer and SessionWindowedSerializer write them.

Rule: a key of time windows is the bytes of its inner serde and the window's start (8 bytes, big-endian); its end is the
start and the size, at most the largest long. In a changelog of a window store a number (4 bytes) is behind that,
which is passed over; keys that differ in it only are one, and 0 is written. A key of sessions is the inner bytes, the
end and the start. What no Java Window can be is bad: a start below 0, a session that ends before it starts; so are no
bytes, Kafka's null.
"""

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..buffers import binary_view, fixed_array, fixed_view, is_valid
from ..errors import ConfigError
from .codec import Codec, Decoded, LeftToColumns, Read, Write, refuse_value
from .fixed_width import FixedWidth, big_endian_values, number

if TYPE_CHECKING:
    from .serde import Serde

_LONG = FixedWidth("long")
_LONG_MAX = 2**63 - 1
_TIME_BYTES, _NUMBER_BYTES = 8, 4


class Windowed(NamedTuple):
    """A windowed key as Python sees it (Kafka's Windowed)."""

    key: Any
    window_start_ms: int
    window_end_ms: int

    def __str__(self) -> str:
        """As Kafka's ``toString``: "[ann@0/60000]"."""
        return f"[{self.key}@{self.window_start_ms}/{self.window_end_ms}]"


def _refuse_name(windowed: Windowed, name: str) -> Any:
    """AttributeError, which says what there is: Kafka has ``window().start()``."""
    known = "key, window_start_ms or window_end_ms"
    raise AttributeError(f"Windowed has no {name!r}; write {known}")


if not TYPE_CHECKING:  # type checkers find unknown names themselves
    Windowed.__getattr__ = _refuse_name


@dataclass(frozen=True, slots=True)
class WindowedCodec(Codec):
    """``size_ms``: of time windows, None for sessions. ``changelog``: keys are read as a window store's changelog has
    them.
    """

    inner: "Serde"
    size_ms: int | None = None
    changelog: bool = False

    @property
    def name(self) -> str:
        if self.size_ms is None:
            return f"session_windowed({self.inner})"
        return f"time_windowed({self.inner}, {self.size_ms}{', changelog=True' if self.changelog else ''})"

    @property
    def arrow_type(self) -> pa.DataType:
        bounds = [("window_start_ms", pa.int64()), ("window_end_ms", pa.int64())]
        return pa.struct([("key", self.inner.arrow_type), *bounds])

    @property
    def is_windowed(self) -> bool:
        return True

    @property
    def is_own(self) -> bool:
        return self.inner.codec.is_own

    @property
    def is_canonical(self) -> bool:
        return self.inner.codec.is_canonical and not self.changelog

    @property
    def window_bytes(self) -> int:
        if self.size_ms is None:
            return 2 * _TIME_BYTES
        return _TIME_BYTES + _NUMBER_BYTES if self.changelog else _TIME_BYTES

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        valid, behind = is_valid(binary), self.window_bytes
        lengths = np.diff(binary_view(binary).offsets)
        is_cut = valid & (lengths < behind)
        whole = binary if not is_cut.any() else pc.if_else(pa.array(~is_cut), binary, pa.scalar(None, pa.binary()))
        good = valid & ~is_cut
        first = _number_at(whole, behind, good)
        if self.size_ms is None:
            start, end = _number_at(whole, _TIME_BYTES, good), first
        else:
            start = first
            # The minimum comes first, since the sum would overflow. Kafka's WindowKeySchema.timeWindowForSize lets it
            # overflow, and takes Long.MAX_VALUE where it is negative then.
            end = np.minimum(start, _LONG_MAX - self.size_ms) + self.size_ms
        is_no_window = good & ((start < 0) | (end < start))
        keys = self.inner.decode(pc.binary_slice(whole, 0, -behind))
        bad = is_cut | is_no_window | keys.bad
        reasons = {row: f"key of the window: {why}" for row, why in keys.reasons.items()}
        for row in np.flatnonzero(is_no_window):
            reasons[int(row)] = f"expected a window that begins at 0 or later, got {start[row]} to {end[row]}"
        for row in np.flatnonzero(is_cut):
            reasons[int(row)] = f"expected at least {behind} bytes of a windowed key, got {lengths[row]}"
        valid &= ~bad
        columns = [keys.values, fixed_array(start, valid, pa.int64()), fixed_array(end, valid, pa.int64())]
        fields = list(self.arrow_type)
        return Decoded(
            pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(~valid)),
            bad,
            dict(sorted(reasons.items())),
        )

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        key, start, end = values.flatten()
        wrong = is_valid(values) & ~is_valid(key)
        if wrong.any():
            place = f"Serde.{self.name}, row {int(np.argmax(wrong))}"
            raise ConfigError(place, "a key in the window", "null", "drop it")
        parts = [_LONG.encode(start)] if self.size_ms is not None else [_LONG.encode(end), _LONG.encode(start)]
        if self.changelog:
            parts.append(pa.scalar(bytes(_NUMBER_BYTES), pa.binary()))
        return pc.binary_join_element_wise(self.inner.encode(key), *parts, pa.scalar(b"", pa.binary()))

    def sizes(self, values: pa.Array) -> np.ndarray:
        return np.diff(binary_view(self.encode(values)).offsets)

    @property
    def can_change(self) -> bool:
        return self.inner.codec.can_change

    def to_python(self, values: pa.Array) -> list[Any]:
        key, start, end = values.flatten()
        rows = zip(self.inner.to_python(key), fixed_view(start).tolist(), fixed_view(end).tolist(), strict=True)
        return [Windowed(*row) if there else None for row, there in zip(rows, is_valid(values), strict=True)]

    def from_python(self, values: list[Any]) -> pa.Array:
        place, expected = f"Serde.{self.name}", "a Windowed(key, window_start_ms, window_end_ms)"
        for row, value in enumerate(values):
            if value is None:
                continue
            if not isinstance(value, tuple) or len(value) != len(Windowed._fields) or value[0] is None:
                refuse_value(f"{place}, row {row}", expected, value)
            start, end = _bound(value, 1, f"{place}, row {row}"), _bound(value, 2, f"{place}, row {row}")
            if self.size_ms is not None and end != min(start + self.size_ms, _LONG_MAX):
                refuse_value(f"{place}, row {row}", f"a window of {self.size_ms} ms", value, "correct its end")
            if start < 0 or end < start:
                refuse_value(f"{place}, row {row}", "a window that begins at 0 or later, and then ends", value)
        columns = [self.inner.from_python([value and value[0] for value in values])]
        columns += [pa.array([value and value[index] for value in values], pa.int64()) for index in (1, 2)]
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=list(self.arrow_type), mask=mask)

    def value_writer(self) -> Write | None:
        write_key, size_ms = self.inner.codec.value_writer(), self.size_ms
        if write_key is None:
            return None
        pack_start, pack_both = struct.Struct(">q").pack, struct.Struct(">qq").pack
        behind = bytes(_NUMBER_BYTES) if self.changelog else b""

        def write(value: Any) -> bytes:
            key, start, end = value
            if type(value) not in (Windowed, tuple) or type(start) is not int or type(end) is not int or key is None:
                raise LeftToColumns
            if start < 0 or end < start or (size_ms is not None and end != start + size_ms):
                raise LeftToColumns
            return write_key(key) + (pack_both(end, start) if size_ms is None else pack_start(start) + behind)

        return write

    def value_reader(self) -> Read | None:
        read_key, size_ms, behind = self.inner.codec.value_reader(), self.size_ms, self.window_bytes
        if read_key is None:
            return None
        unpack_start, unpack_both = struct.Struct(">q").unpack_from, struct.Struct(">qq").unpack_from

        def read(data: bytes) -> Windowed:
            at = len(data) - behind
            if at < 0:
                raise LeftToColumns
            if size_ms is None:
                end, start = unpack_both(data, at)
            else:
                (start,) = unpack_start(data, at)
                end = start + size_ms
            if start < 0 or not start <= end <= _LONG_MAX:
                raise LeftToColumns
            return Windowed(read_key(data[:at]), start, end)

        return read


def _bound(value: tuple[Any, ...], index: int, place: str) -> int:
    """Nothing is converted."""
    where = f"{place}, field {Windowed._fields[index]}"
    bound = number(value[index], "long", where)
    if bound is None:
        refuse_value(where, "a long", None)
    return int(bound)


def _number_at(binary: pa.BinaryArray, from_end: int, good: np.ndarray) -> np.ndarray:
    """The long that begins so many bytes before the end of each ``good`` row."""
    stop = None if from_end == _TIME_BYTES else _TIME_BYTES - from_end
    cut = pc.binary_slice(binary, -from_end, stop)
    return big_endian_values(binary_view(cut), good, np.dtype(">i8"))
