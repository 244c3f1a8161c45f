"""Confluent's wire format: the byte 0, a schema id as 4 bytes, big-endian, then the value. Newer serializers put a head
into a header instead: the byte 1 and the schema's GUID of 16 bytes.

Owns the head of the bytes, and the serde of JSON and Protocol Buffers behind one. Rule: a record is bad when its bytes
do not begin with 0, or when its id is none of those that are read. Behind the id of Protocol Buffers is where the
message is in its file: the number of indexes and the indexes, as zigzag varints; the first message of a file is one
byte 0.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..buffers import binary_view, is_valid
from ..errors import ConfigError
from .codec import Codec, Decoded, LeftToColumns, Read, Write

HEAD_BYTES, GUID_HEAD_BYTES = 5, 17
VALUE_HEADER = "__value_schema_id"
ID_MAX = _LENGTH_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ConfluentCodec(Codec):
    """``plain``: of what is behind the head. ``write_id``: the id that is written. ``ids``: those that are read,
    rising; None: all. ``message_indexes``: what may be between id and value, of which the first is written.
    """

    plain: Codec
    write_id: int
    ids: tuple[int, ...] | None = None
    message_indexes: tuple[bytes, ...] = (b"",)

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
        for indexes in self.message_indexes:
            begins = pc.fill_null(pc.starts_with(values, indexes), False).to_numpy(zero_copy_only=False) & waits
            behind = pc.if_else(pa.array(begins), _from(values, len(indexes)), behind)
            waits &= ~begins
        for row in np.flatnonzero(waits & valid).tolist():
            reasons.setdefault(row, "expected the indexes of the message behind the id, got those of another message")
        bad = np.zeros(len(binary), np.bool_)
        bad[list(reasons)] = True
        decoded = self.plain.decode(pc.if_else(pa.array(bad), pa.scalar(None, pa.binary()), behind))
        return Decoded(decoded.values, bad | decoded.bad, dict(sorted((reasons | decoded.reasons).items())))

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        head = b"\0" + self.write_id.to_bytes(4, "big") + self.message_indexes[0]
        return pc.binary_join_element_wise(pa.scalar(head), self.plain.encode(values), pa.scalar(b""))

    def sizes(self, values: pa.Array) -> np.ndarray:
        return np.diff(binary_view(self.encode(values)).offsets)

    def to_python(self, values: pa.Array) -> list[Any]:
        return self.plain.to_python(values)

    def from_python(self, values: list[Any]) -> pa.Array:
        return self.plain.from_python(values)

    def value_writer(self) -> Write | None:
        return behind_head(head_of(self.write_id) + self.message_indexes[0], self.plain.value_writer())

    def value_reader(self) -> Read | None:
        return from_behind_head(head_of(self.write_id) + self.message_indexes[0], self.plain.value_reader())

    def taking(self) -> Callable[[Any], Any]:
        return self.plain.taking()


def behind_head(head: bytes, write: Write | None) -> Write | None:
    """What writes a value behind ``head``."""
    return None if write is None else lambda value: head + write(value)


def from_behind_head(head: bytes, read: Read | None) -> Read | None:
    """What reads values that begin with ``head``, and leaves all others to the column functions."""
    if read is None:
        return None

    def read_value(data: bytes) -> Any:
        if not data.startswith(head):
            raise LeftToColumns
        return read(data[len(head) :])

    return read_value


def _from(binary: pa.BinaryArray, first: int) -> pa.BinaryArray:
    """Every row from its byte ``first`` on. With an end, since Arrow 26 fails on some columns when there is none."""
    return pc.binary_slice(binary, first, _LENGTH_MAX)


def with_head(
    place: str, plain: Codec, write_id: object, ids: Collection[Any] | None, message_indexes: tuple[bytes, ...] = (b"",)
) -> ConfluentCodec:
    """Raises ConfigError for an id that is none; ``place`` names the serde in it."""
    read = None if ids is None else [*ids, write_id]
    for one in [write_id] if read is None else read:
        if not is_id(one):
            raise ConfigError(place, "ids that a registry gives, from 0 to 2147483647", repr(one), "correct the id")
    assert isinstance(write_id, int)
    return ConfluentCodec(plain, write_id, None if read is None else tuple(sorted(set(read))), message_indexes)


def is_id(one: object) -> bool:
    """Whether a registry may have given it."""
    return isinstance(one, int) and not isinstance(one, bool) and 0 <= one <= ID_MAX


def message_indexes_of(path: list[int]) -> tuple[bytes, ...]:
    """Of the message with these indexes: of the file's messages, then of those within each other."""
    whole = b"".join(map(zigzag, (len(path), *path)))
    return (b"\0", whole) if path == [0] else (whole,)


def varint(number: int) -> bytes:
    """A number as Protobuf and Avro write it: seven bits a byte, the lowest first."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def zigzag(number: int) -> bytes:
    """``varint`` of 0, 1, 2, 3 for 0, -1, 1, -2, as Avro and Kafka (ByteUtils) write signed numbers."""
    return varint(2 * number if number >= 0 else -2 * number - 1)


def with_header_ids(binary: pa.BinaryArray, headers: pa.ListArray, name: str) -> pa.BinaryArray:
    """Rows with what the last header ``name`` of each holds in front of them, as a head; a header that holds none is
    there alone, and so is bad. A null row stays null (DualSchemaIdDeserializer).
    """
    names, contents = headers.flatten().flatten()
    is_named = pc.fill_null(pc.equal(names, name), False).to_numpy(zero_copy_only=False)
    if not is_named.any():
        return binary
    last = np.full(len(binary), -1, np.int64)
    last[pc.list_parent_indices(headers).to_numpy()[is_named]] = np.flatnonzero(is_named)
    ids = contents.cast(pa.binary()).take(pa.array(last, mask=last < 0))
    length, binary = pc.binary_length(ids), binary.cast(pa.binary())
    is_head = pc.or_(
        pc.and_(pc.starts_with(ids, b"\0"), pc.equal(length, HEAD_BYTES)),
        pc.and_(pc.starts_with(ids, b"\1"), pc.equal(length, GUID_HEAD_BYTES)),
    )
    whole = pc.binary_join_element_wise(ids, binary, pa.scalar(b"", pa.binary()))
    # Fewer bytes than a head has: with more of them, a wrong header could be read as an id and a value behind it.
    alone = pc.binary_slice(ids, 0, HEAD_BYTES - 1)
    headed = pc.coalesce(pc.if_else(is_head, whole, alone), binary)
    return pc.if_else(pc.is_valid(binary), headed, pa.scalar(None, pa.binary()))


def guid_of(one: object) -> str | None:
    """A GUID as a registry writes it; None for what is none."""
    try:
        return str(UUID(one)) if isinstance(one, str) else None
    except ValueError:
        return None


def head_of(one: int | str) -> bytes:
    """What is in front of a value whose schema has this id, or this GUID."""
    return b"\1" + UUID(one).bytes if isinstance(one, str) else b"\0" + one.to_bytes(4, "big")


def guids(data: np.ndarray, offsets: np.ndarray, has_none: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Each GUID that rows begin with, and which; ``has_none``: rows without an id."""
    begins = offsets[:-1]
    rows = np.flatnonzero(has_none & (np.diff(offsets) >= GUID_HEAD_BYTES))
    rows = rows[data[begins[rows]] == 1]
    if not len(rows):
        return []
    unique, which = np.unique(data[begins[rows][:, None] + np.arange(1, GUID_HEAD_BYTES)], axis=0, return_inverse=True)
    return [(str(UUID(bytes=guid.tobytes())), rows[which.ravel() == number]) for number, guid in enumerate(unique)]


def heads(data: np.ndarray, offsets: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, dict[int, str]]:
    """Id of each row, -1 where there is none, and why not."""
    begins, lengths = offsets[:-1], np.diff(offsets)
    has_head = valid & (lengths >= HEAD_BYTES)
    ids = np.full(len(valid), -1, np.int64)
    if has_head.any():
        head_bytes = data[begins[has_head][:, None] + np.arange(HEAD_BYTES)]
        numbers = head_bytes[:, 1:].copy().view(">u4").ravel().astype(np.int64)
        ids[has_head] = np.where(head_bytes[:, 0] == 0, numbers, -1)
    reasons = {}
    for row in np.flatnonzero(valid & (ids < 0)).tolist():
        got = f"{data[begins[row]]}" if lengths[row] >= HEAD_BYTES else f"{lengths[row]} bytes"
        reasons[row] = f"expected the byte 0 and an id of 4 bytes, got {got}"
    return ids, reasons
