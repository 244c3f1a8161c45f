"""A serde of the user's own: two Python functions and the type that they read and write.

Rule: the functions see values one by one, or with ``arrow`` whole columns, and are never called for null. What
``decode`` fails on, or gives another type for, makes its record undecodable; what ``encode`` fails on ends the run.
Functions are pure, as steps are: the same answer for the same bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..buffers import is_valid
from ..errors import ConfigError, said, shown
from .codec import LEFT_TO_COLUMNS, Codec, Decoded, LeftToColumns, Read, Write, refuse_value
from .function_text import function_text
from .handed_over import own_copy, taking
from .json_text import schema_text
from .json_text.python_values import values_from_python, values_to_python
from .json_text.single_texts import converter
from .text import byte_lengths

_NEXT_STEP = "correct the functions of the serde, or its type"


@dataclass(frozen=True, slots=True)
class OwnCodec(Codec):
    """``encode_one(value) -> bytes`` and ``decode_one(bytes) -> value``; with ``arrow`` of columns."""

    encode_one: Callable[[Any], Any]
    decode_one: Callable[[Any], Any]
    declared: pa.DataType
    arrow: bool = False

    @property
    def name(self) -> str:
        """With digits of both functions' code, so that another code is seen when a pipeline continues."""
        functions = f"{function_text(self.encode_one)}, {function_text(self.decode_one)}"
        return f'of({functions}, type="{schema_text(self.declared)}"{", arrow=True" if self.arrow else ""})'

    @property
    def arrow_type(self) -> pa.DataType:
        return self.declared

    @property
    def has_fields(self) -> bool:
        return bool(pa.types.is_struct(self.declared))

    @property
    def is_own(self) -> bool:
        return True

    @property
    def is_canonical(self) -> bool:
        return False

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        valid, reasons = is_valid(binary), {}
        rows = np.flatnonzero(valid)
        given = binary if len(rows) == len(binary) else binary.take(pa.array(rows))
        decoded, why = self._decoded_columns(given) if self.arrow else self._decoded_values(given)
        reasons = {int(rows[index]): reason for index, reason in why.items()}
        bad = np.zeros(len(binary), np.bool_)
        bad[list(reasons)] = True
        indices = np.zeros(len(binary), np.int64)
        indices[rows] = np.arange(len(rows))
        values = decoded.take(pa.array(indices, mask=bad | ~valid))
        return Decoded(values, bad, dict(sorted(reasons.items())))

    def _decoded_values(self, given: pa.BinaryArray) -> tuple[pa.Array, dict[int, str]]:
        decoded: list[Any] = []
        reasons: dict[int, str] = {}
        for index, one in enumerate(given.to_pylist()):
            try:
                decoded.append(own_copy(self.decode_one(one)))
            except Exception as error:
                decoded.append(None)
                reasons[index] = said(error)
        try:
            return values_from_python(decoded, self.declared, "value"), reasons
        except ConfigError:
            pass  # find whose value it was
        for index, one in enumerate(decoded):
            try:
                values_from_python([one], self.declared, "value")
            except ConfigError as error:
                decoded[index] = None
                reasons[index] = f"expected {error.expected}, got {error.got}"
        return values_from_python(decoded, self.declared, "value"), reasons

    def _decoded_columns(self, given: pa.BinaryArray) -> tuple[pa.Array, dict[int, str]]:
        """Of the whole, or row by row where that fails; null is what cannot be read."""
        try:
            decoded = self._column(self.decode_one(given), len(given), self.declared, "decode")
        except Exception as error:
            if len(given) <= 1:
                return pa.nulls(len(given), self.declared), dict.fromkeys(range(len(given)), said(error))
            parts = [self._decoded_columns(given.slice(index, 1)) for index in range(len(given))]
            reasons = {index: part[1][0] for index, part in enumerate(parts) if part[1]}
            return pa.concat_arrays([part[0] for part in parts]), reasons
        return decoded, {int(row): "expected a value, got null of decode" for row in np.flatnonzero(~is_valid(decoded))}

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        rows = np.flatnonzero(is_valid(values))
        given = values if len(rows) == len(values) else values.take(pa.array(rows))
        written = self._encoded_columns(given) if self.arrow else self._encoded_values(given, rows)
        if len(rows) == len(values):
            return written
        indices = np.zeros(len(values), np.int64)
        indices[rows] = np.arange(len(rows))
        return written.take(pa.array(indices, mask=~is_valid(values)))

    def _encoded_values(self, given: pa.Array, rows: np.ndarray) -> pa.BinaryArray:
        encoded: list[bytes] = []
        for row, value in zip(rows.tolist(), values_to_python(given), strict=True):
            try:
                one = self.encode_one(value)
            except Exception as error:
                raise ConfigError(f"Serde.{self.name}", f"bytes of {shown(value)}", said(error), _NEXT_STEP) from error
            if not isinstance(one, bytes):
                refuse_value(f"Serde.{self.name}, row {row}", "bytes of encode", one, _NEXT_STEP)
            encoded.append(one)
        return pa.array(encoded, pa.binary())

    def _encoded_columns(self, given: pa.Array) -> pa.BinaryArray:
        try:
            written = self._column(self.encode_one(given), len(given), pa.binary(), "encode")
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(f"Serde.{self.name}", "a binary column of encode", said(error), _NEXT_STEP) from error
        if written.null_count:
            raise ConfigError(f"Serde.{self.name}", "bytes for every value", "null of encode", _NEXT_STEP)
        return written

    def _column(self, answer: Any, rows: int, kind: pa.DataType, what: str) -> pa.Array:
        """What a function gave, which must be an array of ``rows`` values of ``kind``."""
        if isinstance(answer, pa.ChunkedArray):
            answer = answer.combine_chunks()
        if not isinstance(answer, pa.Array) or len(answer) != rows:
            got = f"{len(answer)} values" if isinstance(answer, pa.Array) else repr(type(answer).__name__)
            raise ConfigError(f"{what} of a serde", f"an Arrow array of {rows} values", got, _NEXT_STEP)
        return answer if answer.type == kind else answer.cast(kind)

    def sizes(self, values: pa.Array) -> np.ndarray:
        return byte_lengths(self.encode(values))

    def to_python(self, values: pa.Array) -> list[Any]:
        return values_to_python(values)

    def from_python(self, values: list[Any]) -> pa.Array:
        return values_from_python(values, self.declared, f"Serde.{self.name}")

    def value_writer(self) -> Write | None:
        encode, convert = self.encode_one, converter(self.declared)

        def write(value: Any) -> bytes:
            given = convert(value)
            try:
                encoded = encode(given)
            except Exception as error:
                raise LeftToColumns from error
            if not isinstance(encoded, bytes):
                raise LeftToColumns
            return encoded

        return None if self.arrow else write

    def value_reader(self) -> Read | None:
        decode, convert = self.decode_one, converter(self.declared)

        def read(data: bytes) -> Any:
            try:
                value = decode(data)
            except Exception as error:
                raise LeftToColumns from error
            return None if value is None else convert(value)

        return None if self.arrow else read

    def taking(self) -> Callable[[Any], Any]:
        return taking(self.declared, self._through_a_column)

    def keeping(self) -> Callable[[Any], Any]:
        """What ``encode`` writes need not hold all of the value."""
        take, write, read = self.taking(), self.value_writer(), self.value_reader()

        def keep(value: Any) -> Any:
            taken = take(value)
            if taken is None:
                return None
            if write is not None and read is not None:
                try:
                    return read(write(taken))
                except LEFT_TO_COLUMNS:
                    pass  # the column functions say what is wrong
            decoded = self.decode(self.encode(self.from_python([taken])))
            if decoded.reasons:
                got = f"{decoded.reasons[0]}, of {shown(taken)}"
                raise ConfigError(
                    f"Serde.{self.name}", "a value that decode reads from encode's bytes", got, _NEXT_STEP
                )
            return self.to_python(decoded.values)[0]

        return keep
