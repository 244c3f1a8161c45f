"""UUIDs as Kafka's UUIDSerializer writes them: 36 characters of text, in lower case.

Rule: what Java's ``UUID.fromString`` reads is read, in upper case and with fewer digits too, and then is in lower
case with all of them; columns, and so expressions and tables, have that text.
"""

import re
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..codec import Codec, Decoded, LeftToColumns, Read, Write, check_values, refuse_value
from ..text import byte_lengths, decode_strings, without

_WHOLE = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_SHORT = re.compile("-".join([r"\+?([0-9a-fA-F]{1,36})"] * 5))
_CHARACTERS_MAX = 36
_BITS = (32, 16, 16, 16, 48)


@dataclass(frozen=True, slots=True)
class UuidCodec(Codec):
    """In Python a ``uuid.UUID``."""

    name, arrow_type = "uuid()", pa.string()

    @property
    def is_canonical(self) -> bool:
        return False

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        texts = decode_strings(binary)
        is_odd = pc.invert(pc.match_substring_regex(texts.values, _WHOLE))
        odd = np.flatnonzero(pc.fill_null(is_odd, False).to_numpy(zero_copy_only=False))
        if len(odd) == 0:
            return texts
        values, bad, reasons = texts.values, texts.bad.copy(), dict(texts.reasons)
        read = [_read(values[int(row)].as_py()) for row in odd]
        mask = np.zeros(len(binary), np.bool_)
        mask[odd] = True
        for row, text in zip(odd.tolist(), read, strict=True):
            if text is None:
                bad[row] = True
                shown = values[row].as_py()
                reasons[row] = f"expected a UUID, got {shown if len(shown) <= 40 else shown[:37] + '...'!r}"
        values = pc.replace_with_mask(values, pa.array(mask), pa.array(read, pa.string()))
        return Decoded(values, bad, dict(sorted(reasons.items())))

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        decoded = self.decode(values.cast(pa.binary()))
        if decoded.bad.any():
            row = int(np.argmax(decoded.bad))
            refuse_value(f"Serde.{self.name}, row {row}", "a UUID", values[row].as_py())
        return without(decoded.values, decoded.bad).cast(pa.binary())

    def sizes(self, values: pa.Array) -> np.ndarray:
        return byte_lengths(self.encode(values))

    def to_python(self, values: pa.Array) -> list[Any]:
        return [None if text is None else uuid.UUID(text) for text in values.to_pylist()]

    def from_python(self, values: list[Any]) -> pa.Array:
        check_values(values, uuid.UUID, f"Serde.{self.name}", "a uuid.UUID")
        return pa.array([None if value is None else str(value) for value in values], pa.string())

    def value_writer(self) -> Write:
        def write(value: Any) -> bytes:
            if type(value) is not uuid.UUID:
                raise LeftToColumns
            return str(value).encode()

        return write

    def value_reader(self) -> Read:
        is_whole = re.compile(_WHOLE[1:-1]).fullmatch

        def read(data: bytes) -> uuid.UUID:
            text = data.decode()
            if is_whole(text) is None:
                raise LeftToColumns
            return uuid.UUID(text)

        return read


def _read(text: str) -> str | None:
    """As ``UUID.fromString`` does: five numbers, of which the lower bits count."""
    match = _SHORT.fullmatch(text) if len(text) <= _CHARACTERS_MAX else None
    if match is None:
        return None
    numbers = [int(digits, 16) for digits in match.groups()]
    # Java reads each part by Long.parseLong, which takes a plus sign and refuses what no signed long holds.
    if max(numbers) >= 2**63:
        return None
    kept = [number % 2**bits for number, bits in zip(numbers, _BITS, strict=True)]
    return "-".join(f"{number:0{bits // 4}x}" for number, bits in zip(kept, _BITS, strict=True))
