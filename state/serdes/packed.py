"""Several fields in one value, for messages between our own sub-topologies: exact, and of any serdes.

Rule: a field is its length (int32, big-endian, -1 for null) and then the bytes that its serde writes. A value is its
fields, one after the other, in the order in which they are named. A null value is null. Bytes that are cut off, or
followed by more, are bad.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..buffers import binary_array, binary_view, is_valid
from ..compilation.kernel_compilation import kernel
from .codec import Codec, Decoded, refuse_value
from .gathering import gather
from .serde import Serde

_NULL = -1
_LENGTH_BYTES = 4
_CUT = -2


def packed(**fields: Serde) -> Serde:
    """A struct of ``fields``, each written by its own serde."""
    return Serde(PackedCodec(tuple(fields.items())))


@dataclass(frozen=True, slots=True)
class PackedCodec(Codec):
    """``fields``: (name, serde) of each."""

    fields: tuple[tuple[str, Serde], ...]

    @property
    def name(self) -> str:
        return f"packed({', '.join(f'{name}={serde}' for name, serde in self.fields)})"

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.struct([(name, serde.arrow_type) for name, serde in self.fields])

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        view, valid = binary_view(binary), is_valid(binary)
        cursor, ends = view.offsets[:-1].copy(), view.offsets[1:]
        columns: list[pa.Array] = []
        reasons: dict[int, str] = {}
        bad = np.zeros(len(binary), np.bool_)
        for name, serde in self.fields:
            lengths = np.empty(len(binary), np.int64)
            _read_lengths(view.data, cursor, ends, valid & ~bad, lengths)
            bad |= lengths == _CUT
            decoded = serde.decode(gather(view.data, cursor, lengths))
            cursor += np.maximum(lengths, 0)
            bad |= decoded.bad
            reasons |= {row: f"{name}: {why}" for row, why in decoded.reasons.items()}
            columns.append(decoded.values)
        bad |= valid & (cursor != ends)
        reasons = {
            int(row): reasons.get(int(row), f"expected {len(self.fields)} fields") for row in np.flatnonzero(bad)
        }
        fields = list(self.arrow_type)
        values = pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(~valid | bad))
        return Decoded(values, bad, reasons)

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        valid, total = is_valid(values), np.zeros(len(values), np.int64)
        parts = []
        for index, (_, serde) in enumerate(self.fields):
            part = serde.encode(values.field(index))
            view = binary_view(part)
            lengths = np.where(is_valid(part), np.diff(view.offsets), _NULL)
            total += _LENGTH_BYTES + np.maximum(lengths, 0)
            parts.append((view.data, view.offsets, lengths))
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum(total * valid, out=offsets[1:])
        data, cursor = np.empty(int(offsets[-1]), np.uint8), offsets[:-1].copy()
        for part in parts:
            _write_field(data, cursor, valid, *part)
        return binary_array(data, offsets, valid)

    def sizes(self, values: pa.Array) -> np.ndarray:
        view = binary_view(self.encode(values))
        return np.diff(view.offsets)

    def to_python(self, values: pa.Array) -> list[Any]:
        columns = [serde.to_python(values.field(index)) for index, (_, serde) in enumerate(self.fields)]
        names = [name for name, _ in self.fields]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return [row if there else None for row, there in zip(rows, is_valid(values), strict=True)]

    def from_python(self, values: list[Any]) -> pa.Array:
        names = [name for name, _ in self.fields]
        for row, value in enumerate(values):
            if value is not None and (not isinstance(value, dict) or sorted(value) != sorted(names)):
                refuse_value(f"Serde.{self.name}, row {row}", f"a dict of {', '.join(names)}", value)
        columns = [
            serde.from_python([None if value is None else value[name] for value in values])
            for name, serde in self.fields
        ]
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=list(self.arrow_type), mask=mask)


@kernel
def _read_lengths(data, cursor, ends, wanted, lengths):  # type: ignore[no-untyped-def]
    """Length of the field at each ``cursor``, which moves behind it: -1 null or not wanted, -2 cut off."""
    for row in range(cursor.shape[0]):
        lengths[row] = -1
        if not wanted[row]:
            continue
        at = cursor[row]
        if at + 4 > ends[row]:
            lengths[row] = -2
            continue
        length = np.int64(0)
        for i in range(4):
            length = (length << 8) | np.int64(data[at + i])
        if length == 0xFFFFFFFF:
            length = np.int64(-1)
        cursor[row] = at + 4
        lengths[row] = length if at + 4 + max(length, 0) <= ends[row] else -2


@kernel
def _write_field(data, cursor, wanted, part, part_offsets, lengths):  # type: ignore[no-untyped-def]
    """Write one field at each ``cursor``, which moves behind it."""
    for row in range(cursor.shape[0]):
        if not wanted[row]:
            continue
        at, length = cursor[row], lengths[row]
        for i in range(4):
            data[at + i] = (length >> (8 * (3 - i))) & 0xFF
        at += 4
        begin = part_offsets[row]
        for i in range(max(length, 0)):
            data[at + i] = part[begin + i]
        cursor[row] = at + max(length, 0)
