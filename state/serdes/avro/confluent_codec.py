"""Avro in Confluent's wire format: the writer's schema is named by an id in each record.

Owns the head of the bytes: the byte 0, the id as 4 bytes, big-endian, then Avro's encoding (KafkaAvroSerializer). Rule:
every id of a topic, or GUID behind a byte 1, is read with its own schema to the reader's. A record is bad when the
schema of its id is not given, or when its bytes begin otherwise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...buffers import binary_view, is_valid
from ...errors import ConfigError
from ..codec import Decoded, Read, Write
from ..confluent_head import (
    GUID_HEAD_BYTES,
    HEAD_BYTES,
    behind_head,
    from_behind_head,
    guid_of,
    guids,
    head_of,
    heads,
    is_id,
)
from .avro_codec import AvroCodec, ReaderColumns, fingerprint, program, reading, schema_text
from .decoding import decode
from .encoding import encode

_PLACE = "Serde.confluent_avro"
NO_ID = -1
"""Of a union that is only read."""
Writers = dict[int | str, str]
"""Schemas that records were written with, by id."""


@dataclass(frozen=True, slots=True)
class ConfluentAvroCodec(ReaderColumns):
    """``reader``: normal text; ``writers``: (id, normal text) by rising id, GUIDs behind; ``write_id``: of the reader's
    schema.
    """

    reader: str
    writers: tuple[tuple[int | str, str], ...]
    write_id: int | str

    @property
    def plain(self) -> AvroCodec:
        """The same values without a head."""
        return AvroCodec(self.reader)

    @property
    def name(self) -> str:
        """The digest covers the ids that are known: with one more a dead letter becomes a record."""
        known = fingerprint(repr(self.writers))
        written = "" if self.write_id == NO_ID else f", id {self.write_id}"
        return f"confluent_{self.plain.name[:-1]}{written}, {len(self.writers)} schemas {known})"

    @property
    def has_schema_id(self) -> bool:
        return True

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        view, valid = binary_view(binary), is_valid(binary)
        ids, reasons = heads(view.data, view.offsets, valid)
        known, parts, rows = dict(self.writers), [], []
        groups: list[tuple[int | str, np.ndarray, int]] = [
            (one, np.flatnonzero(ids == one), HEAD_BYTES) for one in np.unique(ids[ids >= 0]).tolist()
        ]
        for guid, rows_of_schema in guids(view.data, view.offsets, valid & (ids < 0)):
            groups.append((guid, rows_of_schema, GUID_HEAD_BYTES))
            for row in rows_of_schema.tolist():
                del reasons[row]
        for one, rows_of_schema, behind in groups:
            if one not in known:
                reasons |= dict.fromkeys(rows_of_schema.tolist(), f"expected an id of {_some(known)}, got {one}")
                continue
            some = binary if len(rows_of_schema) == len(binary) else binary.take(pa.array(rows_of_schema))
            made = program(known[one], self.reader)
            decoded = decode(
                binary_view(some), np.ones(len(rows_of_schema), np.bool_), behind, made, reading(self.reader).layout
            )
            reasons |= {int(rows_of_schema[row]): f"schema {one}: {why}" for row, why in decoded.reasons.items()}
            parts.append(decoded.values)
            rows.append(rows_of_schema)
        bad = np.zeros(len(binary), np.bool_)
        bad[list(reasons)] = True
        return Decoded(_in_order(parts, rows, len(binary), self.arrow_type), bad, dict(sorted(reasons.items())))

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        made = reading(self.reader)
        return encode(values, head_of(self.write_id), made.writing, made.layout)

    def sizes(self, values: pa.Array) -> np.ndarray:
        return np.diff(binary_view(self.encode(values)).offsets)

    def to_python(self, values: pa.Array) -> list[Any]:
        return self.plain.to_python(values)

    def from_python(self, values: list[Any]) -> pa.Array:
        return self.plain.from_python(values)

    def value_writer(self) -> Write | None:
        return behind_head(head_of(self.write_id), self.plain.value_writer())

    def value_reader(self) -> Read | None:
        return from_behind_head(head_of(self.write_id), self.plain.value_reader())

    def taking(self) -> Callable[[Any], Any]:
        return self.plain.taking()


def writers_of(ids: Mapping[Any, object], references: tuple[object, ...]) -> Writers:
    """Normal texts by id. Raises ConfigError for an id that is none, and for no schema."""
    return {id_of(one): schema_text(text, references) for one, text in ids.items()}


def of_one_schema(reader: str, writers: Writers, write_id: int | str | None) -> ConfluentAvroCodec:
    """Raises ConfigError for an id that is none, and for no id to write with."""
    if write_id is None:
        own = [one for one, text in writers.items() if text == reader]
        if not own:
            got, next_step = f"{_some(writers)}, whose schemas are others", "give write_id=, or the id of the schema"
            raise ConfigError(_PLACE, "the id that the schema itself is written with", got, next_step)
        write_id = max(own, key=lambda one: (isinstance(one, int), one))
    write_id = id_of(write_id)
    if writers.setdefault(write_id, reader) != reader:
        got, next_step = f"write_id={write_id}, which is another schema", "give the schema's own id"
        raise ConfigError(_PLACE, "the id of the schema itself", got, next_step)
    return ConfluentAvroCodec(reader, by_rank(writers), write_id)


def by_rank(writers: Writers) -> tuple[tuple[int | str, str], ...]:
    """By rising id, GUIDs behind."""
    return tuple((one, writers[one]) for one in sorted(writers, key=_rank))


def id_of(one: Any) -> int | str:
    """An id, or a GUID as its header has it."""
    schema_id: int | str | None = one if is_id(one) else guid_of(one)
    if schema_id is None:
        expected = "ids that a registry gives, from 0 to 2147483647, or GUIDs"
        raise ConfigError(_PLACE, expected, repr(one), "correct the id")
    return schema_id


def _rank(one: int | str) -> tuple[bool, Any]:
    """GUIDs are behind ids."""
    return isinstance(one, str), one


def _some(ids: Mapping[int | str, str]) -> str:
    return ", ".join(map(str, sorted(ids, key=_rank)))


def _in_order(parts: list[pa.Array], rows: list[np.ndarray], count: int, kind: pa.DataType) -> pa.Array:
    """The parts' values at their rows; null elsewhere."""
    if len(parts) == 1 and len(parts[0]) == count:
        return parts[0]
    indices = np.full(count, -1, np.int64)
    if rows:
        at = np.concatenate(rows)
        indices[at] = np.arange(len(at))
    every = pa.concat_arrays(parts) if parts else pa.nulls(0, kind)
    return every.take(pa.array(indices, mask=indices < 0))
