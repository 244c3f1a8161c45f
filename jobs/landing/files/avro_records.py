"""Records of Avro containers as columns, of the types that the same columns have in Parquet.

Owns the way from blocks to Arrow. Rule: the file's own schema reads its records. Times keep their unit and every value
(no year is beyond Arrow's), so that a row of Avro and one of Parquet become the same record.

A block's records lie one after the other, as an Avro array's items do. So the kernels of Serde.avro read a block as
one array; where one record of it is bad, its records are found one by one and read alone.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ....state.errors import ConfigError
from ....state.serdes import Serde
from ....state.serdes.avro.schema import (
    ArraySchema,
    EnumSchema,
    Field,
    FixedSchema,
    MapSchema,
    PrimitiveSchema,
    RecordSchema,
    Schema,
    UnionSchema,
    normal_text,
    parse,
)
from .avro_container import ContainerBlock

_NANOS = {"timestamp-nanos": pa.timestamp("ns", "UTC"), "local-timestamp-nanos": pa.timestamp("ns")}
"""Of Avro 1.12; Serde.avro, whose times have microseconds, reads them as numbers."""
_TIMES = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    **_NANOS,
}


@dataclass(frozen=True, slots=True)
class AvroRow:
    """One record that cannot be read: its number in the block, its bytes and why."""

    number: int
    data: bytes
    reason: str


class AvroSchema:
    """A file's schema. ``names``: its columns. Raises ConfigError for text that is none, or of something else than
    records.
    """

    def __init__(self, text: str) -> None:
        self._schema = _without_defaults(parse(_named(text), times=tuple(_NANOS)))
        if not isinstance(self._schema, RecordSchema):
            expected, got = "records, whose fields are columns", getattr(self._schema, "name", self._schema.kind)
            raise ConfigError("schema", expected, got, "write records")
        self.names = [field.name for field in self._schema.fields]

    def readable(self) -> list[str]:
        """Names of the columns that have values."""
        readable = []
        for name in self.names:
            with suppress(ConfigError):
                self.reader([name])
                readable.append(name)
        return readable

    def reader(self, names: Sequence[str]) -> "AvroColumns":
        """Of the columns ``names``, each of the schema. ConfigError for a type that no column can hold."""
        whole = self._schema
        assert isinstance(whole, RecordSchema)
        fields = {field.name: field for field in whole.fields}
        wanted = RecordSchema(whole.name, fields=[fields[name] for name in names])
        return AvroColumns(whole, wanted)


class AvroColumns:
    """Reads records of the schema ``whole`` into the fields of ``wanted``, columns of ``arrow_type``."""

    def __init__(self, whole: RecordSchema, wanted: RecordSchema) -> None:
        self._whole, self._wanted = whole, wanted
        writer, reader = _numbers(normal_text(whole)), _numbers(normal_text(wanted))
        self._one = Serde.avro(reader, writer=writer)
        arrays = {"type": "array", "items": reader}, {"type": "array", "items": writer}
        self._many = Serde.avro(arrays[0], writer=arrays[1])
        self.arrow_type = pa.struct(
            [
                pa.field(field.name, _with_times(field.type, self._one.arrow_type.field(field.name).type))
                for field in wanted.fields
            ]
        )

    def read(self, block: ContainerBlock) -> tuple[pa.StructArray, list[AvroRow]]:
        """The records of a block that are some, as one struct a record, and the others. Raises ValueError with a reason
        for a block that does not end where its last record does.
        """
        # An array in Avro is a count, so many items, and a count of zero behind the last.
        decoded = self._many.decode(pa.array([_number(block.records) + block.data + b"\0"], pa.binary()))
        if not decoded.bad[0]:
            return self._timed(decoded.values.flatten()), []
        ends = list(_ends(self._whole, block))
        records = [block.data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        alone = self._one.decode(pa.array(records, pa.binary()))
        bad = [AvroRow(row, records[row], reason) for row, reason in sorted(alone.reasons.items())]
        if not bad:
            raise ValueError(decoded.reasons[0])
        return self._timed(alone.values.filter(pa.array(~alone.bad))), bad

    def _timed(self, structs: pa.StructArray) -> pa.StructArray:
        """``structs`` with its numbers as the times that they are."""
        return structs.view(self.arrow_type)


def _number(value: int) -> bytes:
    """Zigzag of a number of 0 or more."""
    rest, encoding = value << 1, bytearray()
    while rest > 127:
        encoding.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*encoding, rest])


def _named(text: str) -> str:
    """The schema with a name where it has the empty one, which Polars writes."""
    with suppress(ValueError):
        schema = json.loads(text)
        if isinstance(schema, dict) and schema.get("name") == "":
            return json.dumps(schema | {"name": "Record"})
    return text


def _without_defaults(schema: Schema) -> Schema:
    """A writer's defaults say nothing of its records, and some tools write defaults that are none of their type."""
    seen: set[int] = set()

    def visit(one: Schema) -> None:
        if id(one) in seen:
            return
        seen.add(id(one))
        if isinstance(one, RecordSchema):
            one.fields[:] = [Field(field.name, field.type) for field in one.fields]
            for field in one.fields:
                visit(field.type)
        elif isinstance(one, UnionSchema):
            for branch in one.branches:
                visit(branch)
        elif isinstance(one, ArraySchema | MapSchema):
            visit(one.items if isinstance(one, ArraySchema) else one.values)

    visit(schema)
    return schema


def _numbers(text: str) -> Any:
    """A schema's normal text as JSON, its times as the numbers that they are in bytes."""

    def visit(node: Any) -> Any:
        if isinstance(node, list):
            return [visit(branch) for branch in node]
        if not isinstance(node, dict):
            return node
        if node.get("logicalType") in _TIMES:
            return node["type"]
        below = {name: visit(node[name]) for name in ("items", "values") if name in node}
        if "fields" in node:
            below["fields"] = [field | {"type": visit(field["type"])} for field in node["fields"]]
        return node | below

    return visit(json.loads(text))


def _with_times(schema: Schema, kind: pa.DataType) -> pa.DataType:
    """Arrow's type of numbers, ``kind``, with times where the schema has them."""
    if isinstance(schema, PrimitiveSchema):
        return _TIMES.get(schema.logical or "", kind)
    if isinstance(schema, ArraySchema):
        return pa.list_(_with_times(schema.items, kind.value_type))
    if isinstance(schema, MapSchema):
        return pa.map_(kind.key_type, _with_times(schema.values, kind.item_type))
    if isinstance(schema, RecordSchema):
        inner = zip(schema.fields, kind, strict=True)
        return pa.struct([pa.field(field.name, _with_times(field.type, of.type)) for field, of in inner])
    if isinstance(schema, UnionSchema):
        present = [branch for branch in schema.branches if branch.kind != "null"]
        if len(present) == 1:
            return _with_times(present[0], kind)
        inner_types = zip(present, kind, strict=True)
        return pa.struct([pa.field(of.name, _with_times(branch, of.type)) for branch, of in inner_types])
    return kind


# Where records end


def _ends(schema: Schema, block: ContainerBlock) -> Iterator[int]:
    """Of each record of the block. Raises ValueError where one has no end."""
    at, data = 0, block.data
    for row in range(block.records):
        try:
            at = _end(schema, data, at)
        except (IndexError, RecursionError):
            at = len(data) + 1
        if at > len(data):
            raise ValueError(f"record {row + 1} of the block has no end in it")
        yield at
    if at != len(data):
        raise ValueError(f"{len(data) - at:,} bytes are behind the last record of the block")


def _end(schema: Schema, data: bytes, at: int) -> int:
    """Where the value that begins at ``at`` ends."""
    if isinstance(schema, RecordSchema):
        for field in schema.fields:
            at = _end(field.type, data, at)
        return at
    if isinstance(schema, UnionSchema):
        branch, at = _read_number(data, at)
        if branch < 0:
            raise ValueError(f"a union has no branch {branch}")
        return _end(schema.branches[branch], data, at)
    if isinstance(schema, ArraySchema | MapSchema):
        return _end_of_items(schema, data, at)
    if isinstance(schema, FixedSchema):
        return at + schema.size
    if isinstance(schema, EnumSchema):
        return _read_number(data, at)[1]
    if schema.kind in ("string", "bytes"):
        return _end_of_bytes(data, at)
    fixed = {"null": 0, "boolean": 1, "float": 4, "double": 8}
    return at + fixed[schema.kind] if schema.kind in fixed else _read_number(data, at)[1]


def _end_of_items(schema: ArraySchema | MapSchema, data: bytes, at: int) -> int:
    while True:
        count, at = _read_number(data, at)
        if count < 0:  # the size in bytes is behind it
            size, at = _read_number(data, at)
            at += max(0, size)
            continue
        if not count:
            return at
        for _ in range(count):
            if isinstance(schema, MapSchema):
                at = _end_of_bytes(data, at)
            at = _end(schema.values if isinstance(schema, MapSchema) else schema.items, data, at)
            if at > len(data):
                return at


def _end_of_bytes(data: bytes, at: int) -> int:
    size, at = _read_number(data, at)
    if size < 0:
        raise ValueError(f"bytes have no length {size}")
    return at + size


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return (number >> 1) ^ -(number & 1), at
        if shift > 63:
            raise ValueError("a number has more than 10 bytes")
