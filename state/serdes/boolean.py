"""boolean as Kafka's BooleanSerializer writes it: one byte, 0x01 or 0x00."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..buffers import is_valid
from .codec import Codec, Decoded, Read, Write, check_values
from .handed_over import taking

_TRUE, _FALSE = b"\x01", b"\x00"
_VALUES = {_TRUE: True, _FALSE: False}
_BYTES = {(value, bool): written for written, value in _VALUES.items()}


@dataclass(frozen=True, slots=True)
class BooleanCodec(Codec):
    """Any other byte, or another number of bytes, is bad."""

    name, arrow_type = "boolean()", pa.bool_()

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

    def from_python(self, values: list[Any]) -> pa.Array:
        check_values(values, bool | np.bool_, f"Serde.{self.name}", "a bool")
        return pa.array([None if value is None else bool(value) for value in values], pa.bool_())

    def value_writer(self) -> Write:
        return lambda value: _BYTES[value is True, type(value)]

    def value_reader(self) -> Read:
        return _VALUES.__getitem__

    def taking(self) -> Callable[[Any], Any]:
        return taking(self.arrow_type, self._through_a_column)
