"""Confluent's wire format: the byte 0, a schema id as 4 bytes, big-endian, then the value.

Owns the head of the bytes, and the serde of JSON and Protocol Buffers behind one. Rule: a record is bad when its bytes
do not begin with 0, or when its id is none of those that are read. Behind the id of Protocol Buffers is where the
message is in its file: the number of indexes and the indexes, as zigzag varints; the first message of a file is one
byte 0.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..buffers import binary_view, is_valid
from ..errors import ConfigError
from .codec import Codec, Decoded

HEAD_BYTES = 5
ID_MAX = _LENGTH_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ConfluentCodec(Codec):
    """``plain``: of what is behind the head. ``write_id``: the id that is written. ``ids``: those that are read,
    rising; None: all. ``places``: what may be between id and value, of which the first is written.
    """

    plain: Codec
    write_id: int
    ids: tuple[int, ...] | None = None
    places: tuple[bytes, ...] = (b"",)

    @property
    def name(self) -> str:
        read = "" if self.ids is None else f", reads {', '.join(map(str, self.ids))}"
        return f"confluent_{self.plain.name[:-1]}, id {self.write_id}{read})"

    @property
    def arrow_type(self) -> pa.DataType:
        return self.plain.arrow_type

    @property
    def has_fields(self) -> bool:
        return self.plain.has_fields

    @property
    def is_canonical(self) -> bool:
        """Equal values may have other ids."""
        return False

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        view, valid = binary_view(binary), is_valid(binary)
        ids, reasons = heads(view.data, view.offsets, valid)
        if self.ids is not None:
            for row in np.flatnonzero((ids >= 0) & ~np.isin(ids, self.ids)).tolist():
                reasons[row] = f"expected an id of {', '.join(map(str, self.ids))}, got {ids[row]}"
        values = _from(binary, HEAD_BYTES)
        waits, behind = np.ones(len(binary), np.bool_), pa.nulls(len(binary), pa.binary())
        for place in self.places:
            begins = pc.fill_null(pc.starts_with(values, place), False).to_numpy(zero_copy_only=False) & waits
            behind = pc.if_else(pa.array(begins), _from(values, len(place)), behind)
            waits &= ~begins
        for row in np.flatnonzero(waits & valid).tolist():
            reasons.setdefault(row, "expected the indexes of the message behind the id, got those of another message")
        bad = np.zeros(len(binary), np.bool_)
        bad[list(reasons)] = True
        found = self.plain.decode(pc.if_else(pa.array(bad), pa.scalar(None, pa.binary()), behind))
        return Decoded(found.values, bad | found.bad, dict(sorted((reasons | found.reasons).items())))

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        head = b"\0" + self.write_id.to_bytes(4, "big") + self.places[0]
        return pc.binary_join_element_wise(pa.scalar(head), self.plain.encode(values), pa.scalar(b""))

    def sizes(self, values: pa.Array) -> np.ndarray:
        return np.diff(binary_view(self.encode(values)).offsets)

    def to_python(self, values: pa.Array) -> list[Any]:
        return self.plain.to_python(values)

    def from_python(self, values: list[Any]) -> pa.Array:
        return self.plain.from_python(values)


def _from(binary: pa.BinaryArray, first: int) -> pa.BinaryArray:
    """Every row from its byte ``first`` on. With an end, since Arrow 26 fails on some columns when there is none."""
    return pc.binary_slice(binary, first, _LENGTH_MAX)


def with_head(
    place: str, plain: Codec, write_id: object, ids: Collection[Any] | None, places: tuple[bytes, ...] = (b"",)
) -> ConfluentCodec:
    """Raises ConfigError for an id that is none; ``place`` names the serde in it."""
    read = None if ids is None else [*ids, write_id]
    for one in [write_id] if read is None else read:
        if not is_id(one):
            raise ConfigError(place, "ids that a registry gives, from 0 to 2147483647", repr(one), "correct the id")
    assert isinstance(write_id, int)
    return ConfluentCodec(plain, write_id, None if read is None else tuple(sorted(set(read))), places)


def is_id(one: object) -> bool:
    """Whether a registry may have given it."""
    return isinstance(one, int) and not isinstance(one, bool) and 0 <= one <= ID_MAX


def places_of(path: list[int]) -> tuple[bytes, ...]:
    """Of the message with these indexes: of the file's messages, then of those within each other."""
    whole = b"".join(_varint(2 * number) for number in (len(path), *path))
    return (b"\0", whole) if path == [0] else (whole,)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def heads(data: np.ndarray, offsets: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, dict[int, str]]:
    """Id of each row, -1 where there is none, and why not."""
    begins, lengths = offsets[:-1], np.diff(offsets)
    has_head = valid & (lengths >= HEAD_BYTES)
    ids = np.full(len(valid), -1, np.int64)
    if has_head.any():
        found = data[begins[has_head][:, None] + np.arange(HEAD_BYTES)]
        numbers = found[:, 1:].copy().view(">u4").ravel().astype(np.int64)
        ids[has_head] = np.where(found[:, 0] == 0, numbers, -1)
    reasons = {}
    for row in np.flatnonzero(valid & (ids < 0)).tolist():
        got = f"{data[begins[row]]}" if lengths[row] >= HEAD_BYTES else f"{lengths[row]} bytes"
        reasons[row] = f"expected the byte 0 and an id of 4 bytes, got {got}"
    return ids, reasons
