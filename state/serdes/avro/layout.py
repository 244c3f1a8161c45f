"""Which cells a schema's values are read into, and which Arrow type they become.

Owns the layout. Rule: a value becomes numbers in *slots*, rows of int64 cells side by side. Whatever is read, each slot
of a level gets one number for each value of its level: a record's slots one a record, those inside an array one an
item. What is not there (the branch that was not taken) gets zeros, as Arrow's children of a null do.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from ...errors import ConfigError
from .matching import may_be, said
from .schema import (
    MISSING,
    ArraySchema,
    EnumSchema,
    FixedSchema,
    MapSchema,
    PrimitiveSchema,
    RecordSchema,
    Schema,
    UnionSchema,
    branch_names,
)

MICROS = pa.timestamp("us", "UTC")
LOCAL_MICROS = pa.timestamp("us")
_LEAVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
_TIMES = {
    "date": pa.date32(),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": MICROS,
    "timestamp-micros": MICROS,
    "local-timestamp-millis": LOCAL_MICROS,
    "local-timestamp-micros": LOCAL_MICROS,
}
_DECIMAL_DIGITS_MAX = 38
_DURATION = pa.struct([("months", pa.int64()), ("days", pa.int64()), ("millis", pa.int64())])


@dataclass(frozen=True, slots=True)
class Number:
    """One slot: an integer, or the bits of a double. ``logical``: of a time, which is kept in microseconds or days."""

    slot: int
    kind: str
    arrow_type: pa.DataType
    logical: str | None = None
    width = 1

    @property
    def per_unit(self) -> int:
        """What a number of the bytes is times this in Arrow."""
        return 1000 if (self.logical or "").endswith("-millis") else 1


@dataclass(frozen=True, slots=True)
class Bytes:
    """Two slots: where the bytes begin, and how many there are. ``size``: of a fixed, else None."""

    slot: int
    arrow_type: pa.DataType
    size: int | None = None
    is_uuid: bool = False
    width = 2

    @property
    def is_text(self) -> bool:
        return self.arrow_type == pa.string() and not self.is_uuid


@dataclass(frozen=True, slots=True)
class Decimal:
    """Two slots: the upper and the lower 64 bits of the unscaled number."""

    slot: int
    arrow_type: pa.Decimal128Type
    size: int | None = None
    width = 2


@dataclass(frozen=True, slots=True)
class Symbols:
    """One slot: the number of the symbol."""

    slot: int
    symbols: tuple[str, ...]
    arrow_type = pa.string()
    width = 1


@dataclass(frozen=True, slots=True)
class Duration:
    """Three slots: months, days, milliseconds, each an unsigned number of 32 bits."""

    slot: int
    arrow_type = _DURATION
    width = 3


@dataclass(frozen=True, slots=True)
class Items:
    """One slot, the number of items, which are in slots of a level of their own; ``key``: of a map, else None."""

    slot: int
    item: "Column"
    key: Bytes | None = None
    width = 1

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.list_(self.item.arrow_type) if self.key is None else pa.map_(pa.string(), self.item.arrow_type)


@dataclass(frozen=True, slots=True)
class Choice:
    """One slot, the number of the union's branch, and the slots of every branch that is not null.

    A union of one type, or of null and one type, is that type in Arrow. Others are a struct with a field for each
    branch, named by its type, of which the one that was written is not null.
    """

    slot: int
    branches: tuple["Column | None", ...]
    names: tuple[str, ...]
    width = 1

    @property
    def present(self) -> list[int]:
        """Numbers of the branches that are not null."""
        return [at for at, branch in enumerate(self.branches) if branch is not None]

    @property
    def null(self) -> int | None:
        """Number of the null branch."""
        return next((at for at, branch in enumerate(self.branches) if branch is None), None)

    @property
    def arrow_type(self) -> pa.DataType:
        kinds = [(self.names[at], _of(self.branches[at]).arrow_type) for at in self.present]
        return kinds[0][1] if len(kinds) == 1 else pa.struct(kinds)


@dataclass(frozen=True, slots=True)
class Fields:
    """A record: no slot of its own."""

    names: tuple[str, ...]
    columns: tuple["Column", ...]
    slot = -1
    width = 0

    @property
    def arrow_type(self) -> pa.StructType:
        return pa.struct([(name, one.arrow_type) for name, one in zip(self.names, self.columns, strict=True)])


Column = Number | Bytes | Decimal | Symbols | Duration | Items | Choice | Fields


def _of(column: Column | None) -> Column:
    assert column is not None
    return column


@dataclass(frozen=True, slots=True)
class AvroLayout:
    """``root``: of the whole value; ``slots``: how many there are; ``repeated``: those inside an array or a map."""

    root: Column
    slots: int
    repeated: frozenset[int]


def layout(schema: Schema) -> AvroLayout:
    """Raises ConfigError for what no column can hold: a record inside itself, and null alone."""
    maker = _Maker()
    root = maker.column(schema, "schema", (), is_repeated=False)
    return AvroLayout(root, maker.slots, frozenset(maker.repeated))


def parts(column: Column) -> Iterator[Column]:
    """Columns of the same level that are directly in ``column``."""
    if isinstance(column, Fields):
        yield from column.columns
    elif isinstance(column, Choice):
        yield from (one for one in column.branches if one is not None)


class _Maker:
    """Hands out slots."""

    def __init__(self) -> None:
        self.slots, self.repeated = 0, set[int]()

    def take(self, width: int, *, is_repeated: bool) -> int:
        first, self.slots = self.slots, self.slots + width
        if is_repeated:
            self.repeated |= set(range(first, self.slots))
        return first

    def column(self, schema: Schema, place: str, above: tuple[str, ...], *, is_repeated: bool) -> Column:
        def slot(width: int) -> int:
            return self.take(width, is_repeated=is_repeated)

        if isinstance(schema, RecordSchema):
            if schema.name in above:
                got, next_step = f"{schema.name} inside itself", "leave that field out of the reader's schema"
                raise ConfigError(f"Serde.avro, {place}", "records that end, as columns do", got, next_step)
            if not schema.fields:
                next_step = "leave it out of the reader's schema, or read one of its fields"
                raise ConfigError(f"Serde.avro, {place}", "a record with fields", "none", next_step)
            for one in schema.fields:
                if one.default is not MISSING and not may_be(one.type, one.default):
                    got, next_step = f"the default {one.default!r}", "correct the schema"
                    raise ConfigError(f"Serde.avro, {_below(place, one.name)}", said(one.type), got, next_step)
            columns = tuple(
                self.column(one.type, _below(place, one.name), (*above, schema.name), is_repeated=is_repeated)
                for one in schema.fields
            )
            return Fields(tuple(one.name for one in schema.fields), columns)
        if isinstance(schema, UnionSchema):
            return self.choice(schema, place, above, is_repeated=is_repeated)
        if isinstance(schema, ArraySchema | MapSchema):
            length = slot(1)
            key = Bytes(self.take(2, is_repeated=True), pa.string()) if isinstance(schema, MapSchema) else None
            inner = schema.values if isinstance(schema, MapSchema) else schema.items
            return Items(length, self.column(inner, f"{place}[]", above, is_repeated=True), key)
        if isinstance(schema, EnumSchema):
            return Symbols(slot(1), schema.symbols)
        return _leaf(schema, place, slot)

    def choice(self, schema: UnionSchema, place: str, above: tuple[str, ...], *, is_repeated: bool) -> Choice:
        slot = self.take(1, is_repeated=is_repeated)
        columns = tuple(
            None if one.kind == "null" else self.column(one, place, above, is_repeated=is_repeated)
            for one in schema.branches
        )
        if not any(columns):
            _refuse_null(place)
        return Choice(slot, columns, branch_names(schema))


def _leaf(schema: PrimitiveSchema | FixedSchema, place: str, slot) -> Column:  # type: ignore[no-untyped-def]
    if schema.kind == "null":
        _refuse_null(place)
    size = schema.size if isinstance(schema, FixedSchema) else None
    if schema.logical == "decimal":
        if schema.precision > _DECIMAL_DIGITS_MAX:
            got, next_step = (
                f"precision {schema.precision}",
                "leave the field out of the reader's schema, or read bytes",
            )
            raise ConfigError(
                f"Serde.avro, {place}", f"a decimal of at most {_DECIMAL_DIGITS_MAX} digits", got, next_step
            )
        return Decimal(slot(2), pa.decimal128(schema.precision, schema.scale), size)
    if schema.logical == "duration":
        return Duration(slot(3))
    if schema.logical == "uuid" and size is not None:
        return Bytes(slot(2), pa.string(), size, is_uuid=True)
    if schema.kind in ("bytes", "fixed"):
        return Bytes(slot(2), pa.binary(), size)
    if schema.kind == "string":
        return Bytes(slot(2), pa.string())
    if schema.logical in _TIMES:
        return Number(slot(1), schema.kind, _TIMES[schema.logical], schema.logical)
    return Number(slot(1), schema.kind, _LEAVES[schema.kind])


def _refuse_null(place: str) -> None:
    next_step = "leave the field out of the reader's schema"
    raise ConfigError(f"Serde.avro, {place}", "a type that has values", "null alone", next_step)


def _below(place: str, name: str) -> str:
    return f"field {name}" if place == "schema" else f"{place}.{name}"
