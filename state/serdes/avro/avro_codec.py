"""The Avro serde: one reader's schema, and what writers wrote, as one Arrow type."""

import functools
import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...buffers import binary_view, is_valid
from ...errors import ConfigError
from ..codec import Codec, Decoded, Read, Write, maps_as_dicts
from . import single_values
from .decoding import decode, unreadable
from .encoding import encode, writing_program
from .layout import AvroLayout, layout
from .program import Program
from .resolution import resolve
from .schema import Schema, normal_text, parse, text_of
from .values import from_python

_FINGERPRINT = 8


class ReaderSchema(NamedTuple):
    """A reader's schema, ready to use."""

    schema: Schema
    layout: AvroLayout
    writing: Program


@functools.lru_cache(maxsize=256)
def reading(text: str) -> ReaderSchema:
    """Of a normal text. Raises ConfigError for a schema that has no columns."""
    schema = parse(text)
    into = layout(schema)
    resolve(schema, schema, into)
    return ReaderSchema(schema, into, writing_program(into))


@functools.lru_cache(maxsize=1024)
def program(writer: str, reader: str) -> Program:
    """Reads what was written with one schema into the columns of another; both normal texts."""
    return resolve(parse(writer), reading(reader).schema, reading(reader).layout)


def schema_text(schema: object, references: tuple[object, ...] = ()) -> str:
    """The normal text of a schema in any form that a user may give. Raises ConfigError for what is none."""
    return normal_text(parse(text_of(schema), tuple(map(text_of, references))))


def fingerprint(text: str) -> str:
    """A short digest of a schema, for sentences and ledgers."""
    return hashlib.sha256(text.encode()).hexdigest()[:_FINGERPRINT]


class ReaderColumns(Codec):
    """Columns of the schema ``reader``. A value has several forms in bytes: Avro's blocks may be cut anywhere."""

    __slots__ = ()
    reader: str

    @property
    def arrow_type(self) -> pa.DataType:
        return reading(self.reader).layout.root.arrow_type

    @property
    def has_fields(self) -> bool:
        return pa.types.is_struct(self.arrow_type)

    @property
    def is_canonical(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class AvroCodec(ReaderColumns):
    """Values as Java's BinaryEncoder writes them, and nothing else. ``reader`` and ``writer``: normal texts; ``writer``
    None: records were written with the reader's schema.
    """

    reader: str
    writer: str | None = None

    def __post_init__(self) -> None:
        reading(self.reader)
        if self.writer is not None and (reason := unreadable(program(self.writer, self.reader))) is not None:
            raise ConfigError("Serde.avro, writer", "a schema that the reader's schema can read", reason, "correct one")

    @property
    def name(self) -> str:
        written = "" if self.writer is None else f", writer={fingerprint(self.writer)}"
        return f"avro({self.type_name} {fingerprint(self.reader)}{written})"

    @property
    def type_name(self) -> str:
        schema = reading(self.reader).schema
        return getattr(schema, "name", schema.kind)

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        wanted = is_valid(binary)
        made = program(self.reader if self.writer is None else self.writer, self.reader)
        return decode(binary_view(binary), wanted, 0, made, reading(self.reader).layout)

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        made = reading(self.reader)
        return encode(values, b"", made.writing, made.layout)

    def sizes(self, values: pa.Array) -> np.ndarray:
        return np.diff(binary_view(self.encode(values)).offsets)

    def to_python(self, values: pa.Array) -> list[Any]:
        return maps_as_dicts(values)

    def from_python(self, values: list[Any]) -> pa.Array:
        return from_python(values, reading(self.reader).schema, self.arrow_type, "Serde.avro")

    def value_writer(self) -> Write:
        return single_values.value_writer(reading(self.reader).schema)

    def value_reader(self) -> Read | None:
        is_own = self.writer is None or self.writer == self.reader
        return single_values.value_reader(reading(self.reader).schema) if is_own else None
