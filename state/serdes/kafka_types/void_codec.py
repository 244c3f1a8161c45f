"""Nothing, as Kafka's VoidSerializer writes it: null."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...buffers import is_valid
from ..codec import Codec, Decoded, refuse_value


@dataclass(frozen=True, slots=True)
class VoidCodec(Codec):
    """Any bytes are bad. A column is one of booleans, for Delta has no other for nothing, and all null."""

    name, arrow_type = "void()", pa.bool_()

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        bad = is_valid(binary)
        lengths = [len(one) if one is not None else 0 for one in binary.to_pylist()] if bad.any() else []
        reasons = {int(row): f"expected nothing, got {lengths[row]} bytes" for row in np.flatnonzero(bad)}
        return Decoded(pa.nulls(len(binary), pa.bool_()), bad, reasons)

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        for row in np.flatnonzero(is_valid(values))[:1]:
            refuse_value(f"Serde.{self.name}, row {row}", "None", values[int(row)].as_py())
        return pa.nulls(len(values), pa.binary())

    def sizes(self, values: pa.Array) -> np.ndarray:
        return np.zeros(len(values), np.int64)

    def from_python(self, values: list[Any]) -> pa.Array:
        for row, value in enumerate(values):
            if value is not None:
                refuse_value(f"Serde.{self.name}, row {row}", "None", value)
        return pa.nulls(len(values), pa.bool_())
