"""boolean as Kafka's BooleanSerializer writes it: one byte, 0x01 or 0x00."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..buffers import is_valid
from .codec import Decoded, refuse_value

_TRUE, _FALSE = b"\x01", b"\x00"


@dataclass(frozen=True, slots=True)
class BooleanCodec:
    """Any other byte, or another number of bytes, is bad."""

    @property
    def name(self) -> str:
        return "boolean()"

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.bool_()

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        is_true = pc.equal(binary, pa.scalar(_TRUE, pa.binary()))
        good = pc.or_(is_true, pc.equal(binary, pa.scalar(_FALSE, pa.binary())))
        bad = is_valid(binary) & ~np.asarray(pc.fill_null(good, True).to_numpy(zero_copy_only=False), np.bool_)
        values = pc.if_else(pa.array(bad), pa.scalar(None, pa.bool_()), is_true)
        return Decoded(values, bad, {int(row): "expected the byte 0 or 1 of a boolean" for row in np.flatnonzero(bad)})

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        return pc.if_else(values, pa.scalar(_TRUE, pa.binary()), pa.scalar(_FALSE, pa.binary()))

    def sizes(self, values: pa.Array) -> np.ndarray:
        return is_valid(values).astype(np.int64)

    def to_python(self, values: pa.Array) -> list[Any]:
        return list(values.to_pylist())

    def from_python(self, values: list[Any]) -> pa.Array:
        for row, value in enumerate(values):
            if value is not None and not isinstance(value, bool | np.bool_):
                refuse_value(f"Serde.boolean, row {row}", "a bool", value)
        return pa.array([None if value is None else bool(value) for value in values], pa.bool_())
