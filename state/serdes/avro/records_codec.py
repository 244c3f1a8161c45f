"""Records of several types in one topic, in Confluent's wire format: each has the id of its own schema, as
KafkaAvroSerializer writes SpecificRecords of several classes (subject strategies RecordName and TopicRecordName).

Rule: in columns such values are those of a union of the types, a struct with a field for each; the one that is not null
is written, without the number of a union's branch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...buffers import binary_view
from ...errors import ConfigError
from ..codec import Codec, Decoded
from ..confluent_head import head_of
from .avro_codec import ReaderColumns, reading, schema_text
from .confluent_codec import NO_ID, ConfluentAvroCodec, by_rank, of_one_schema, writers_of
from .encoding import encode
from .schema import RecordSchema, UnionSchema, normal_text


@dataclass(frozen=True, slots=True)
class ConfluentRecordsCodec(ReaderColumns):
    """``reads``: the union of the types, and how records of each id are read. ``write_ids``: of its records' own
    schemas, in the order of the union.
    """

    reads: ConfluentAvroCodec
    write_ids: tuple[int | str, ...]

    @property
    def reader(self) -> str:  # type: ignore[override]
        """The union's normal text."""
        return self.reads.reader

    @property
    def name(self) -> str:
        return f"{self.reads.name[:-1]}, each of its records with its own id: {', '.join(map(str, self.write_ids))})"

    @property
    def has_schema_id(self) -> bool:
        return True

    def decode(self, binary: pa.BinaryArray) -> Decoded:
        return self.reads.decode(binary)

    def encode(self, values: pa.Array) -> pa.BinaryArray:
        parts = []
        for record, column, one in zip(records_of(self.reader), values.flatten(), self.write_ids, strict=True):
            made = reading(record)
            parts.append(encode(column.cast(made.layout.root.arrow_type), head_of(one), made.writing, made.layout))
        return pc.coalesce(*parts)

    def sizes(self, values: pa.Array) -> np.ndarray:
        return np.diff(binary_view(self.encode(values)).offsets)

    def to_python(self, values: pa.Array) -> list[Any]:
        return self.reads.to_python(values)

    def from_python(self, values: list[Any]) -> pa.Array:
        return self.reads.from_python(values)


def records_of(text: str) -> list[str]:
    """The schemas of a union of several records, as normal texts; none of any other schema. Null may be among them."""
    schema = reading(text).schema
    branches = [one for one in schema.branches if one.kind != "null"] if isinstance(schema, UnionSchema) else []
    return [normal_text(one) for one in branches] if all(isinstance(one, RecordSchema) for one in branches) else []


def with_own_ids(reads: ConfluentAvroCodec, records: list[str]) -> ConfluentRecordsCodec:
    """Raises ConfigError unless each of ``records`` has an id among those that are read; the highest is written."""
    ids: list[int | str] = []
    for record in records:
        own = [one for one, text in reads.writers if text == record]
        if not own:
            name = getattr(reading(record).schema, "name", "")
            got, next_step = f"ids of other schemas than that of {name}", "give ids={…} the id of every record's schema"
            raise ConfigError("Serde.confluent_avro", "an id of each record of the union", got, next_step)
        ids.append(max(own, key=lambda one: (isinstance(one, int), one)))
    return ConfluentRecordsCodec(reads, tuple(ids))


def confluent_avro(
    schema: object, ids: Mapping[Any, object], write_id: int | str | None, references: tuple[object, ...]
) -> Codec:
    """Raises ConfigError for no schema, an id that is none, and for no id to write with. Records of a union that has no
    id itself are written with their own.
    """
    reader, writers = schema_text(schema, references), writers_of(ids, references)
    records = records_of(reader) if write_id is None and reader not in writers.values() else []
    if len(records) < 2:
        return of_one_schema(reader, writers, write_id)
    return with_own_ids(ConfluentAvroCodec(reader, by_rank(writers), NO_ID), records)
