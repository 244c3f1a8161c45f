"""Schema resolution: a program that reads what a writer wrote into the columns of the reader's schema.

Owns the rules, which are those of Java's ``org.apache.avro.Resolver``. Fields are matched by name and the reader's
aliases. A field that only the writer has is skipped, one that only the reader has is its default. Promotions are int →
long → float → double and string ↔ bytes. Of a union the branch of the same type counts, for records that of the same
full name, then of the same fields, and then the first promotion. A type that cannot be read fails when a record has it,
not before.

One rule is stricter than Java's: a decimal of another scale fails, as Avro's specification says, where Java would
take its digits as they are.
"""

import struct
from typing import Any

from . import layout as columns
from .layout import AvroLayout, Column, parts
from .matching import PROMOTED, are_equivalent, field_aliases, matching_branch, may_be, said, same_name
from .program import (
    AS_IT_IS,
    BOOLEAN,
    BYTES,
    CALL,
    DATE,
    DECIMAL,
    DOUBLE,
    END,
    ENUM,
    FIXED,
    FLOAT,
    INT,
    ITEMS,
    JUMP,
    LONG,
    NEXT,
    PUSH,
    RETURN,
    TIME_MICROS,
    TIME_MILLIS,
    TIMESTAMP_MICROS,
    TIMESTAMP_MILLIS,
    TO_DOUBLE,
    TO_FLOAT,
    UINT,
    UNION,
    Code,
    Program,
)  # fmt: skip
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
)

_NUMBERS = {"boolean": BOOLEAN, "int": INT, "long": LONG, "float": FLOAT, "double": DOUBLE}
_TIMES = {
    "date": DATE, "time-millis": TIME_MILLIS, "time-micros": TIME_MICROS, "timestamp-millis": TIMESTAMP_MILLIS,
    "timestamp-micros": TIMESTAMP_MICROS,
}  # fmt: skip


def resolve(writer: Schema, reader: Schema, into: AvroLayout) -> Program:
    """The program. ``into``: the layout of ``reader``."""
    compiler = _Compiler()
    compiler.value(writer, reader, into.root)
    compiler.code.add(END)
    blank = compiler.code.here
    compiler.blank(into.root)
    compiler.code.add(END)
    compiler.write_skips()
    return compiler.code.finished(blank)


def decimal_limits(kind: Any) -> list[int]:
    """Halves of the largest and of the smallest unscaled number of a decimal type, each as an int64."""
    largest = 10**kind.precision - 1
    return [*halves(largest), *halves(-largest)]


def halves(number: int) -> tuple[int, int]:
    """Upper and lower 64 bits of a number of 128, each as an int64."""
    upper, lower = struct.unpack(">qq", number.to_bytes(16, "big", signed=True))
    return upper, lower


class _Compiler:
    def __init__(self) -> None:
        self.code = Code()
        self.skips: dict[str, tuple[RecordSchema, list[int]]] = {}
        """Records that are skipped, and the calls that are to lead to their instructions."""

    # --- what the reader wants ---------------------------------------------------------------------------------

    def value(self, writer: Schema, reader: Schema, column: Column) -> None:
        if isinstance(writer, UnionSchema):
            is_same = isinstance(reader, UnionSchema) and are_equivalent(writer, reader)
            self.branches(writer, lambda at, one: self.branch(one, reader, column, at if is_same else None))
        elif isinstance(reader, UnionSchema):
            self.branch(writer, reader, column, None)
        elif isinstance(writer, RecordSchema) and isinstance(reader, RecordSchema):
            assert isinstance(column, columns.Fields)
            self.record(writer, reader, column)
        elif isinstance(column, columns.Items):
            self.items(writer, reader, column)
        else:
            self.leaf(writer, reader, column)

    def branches(self, writer: UnionSchema, each: Any) -> None:
        """A jump to the instructions that ``each`` writes for a branch, of the number that is in the bytes."""
        union = self.code.add(UNION, b=len(writer.branches))
        starts, jumps = [], []
        for at, one in enumerate(writer.branches):
            starts.append(self.code.here)
            each(at, one)
            jumps.append(self.code.add(JUMP))
        self.code.code[union][2] = self.code.table(starts)
        for jump in jumps:
            self.code.code[jump][2] = self.code.here

    def branch(self, writer: Schema, reader: Schema, column: Column, number: int | None) -> None:
        """Of a writer that is no union; ``number``: the reader's branch where both unions are the same."""
        if not isinstance(reader, UnionSchema):
            self.value(writer, reader, column)
            return
        assert isinstance(column, columns.Choice)
        at = number if number is not None else matching_branch(writer, reader)
        if at is None:
            self.code.fail(f"expected a branch of the reader's union of {said(reader)}, got {said(writer)}")
            return
        self.code.add(PUSH, column.slot, at)
        for other, one in enumerate(column.branches):
            if one is not None and other != at:
                self.blank(one)
            elif one is not None:
                self.value(writer, reader.branches[at], one)

    def record(self, writer: RecordSchema, reader: RecordSchema, column: columns.Fields) -> None:
        wanted = {one.name: (one, part) for one, part in zip(reader.fields, column.columns, strict=True)}
        renamed = field_aliases(writer, reader)
        names = [renamed.get(one.name, one.name) for one in writer.fields]
        for name, (one, _) in wanted.items():
            if name not in names and one.default is MISSING:
                self.code.fail(f"expected the field {name} of {reader.name}, which has no default, got none")
                return
        for name, written in zip(names, writer.fields, strict=True):
            if name in wanted:
                one, part = wanted[name]
                self.value(written.type, one.type, part)
            else:
                self.skip(written.type)
        for name, (one, part) in wanted.items():
            if name not in names:
                self.default(one.type, part, one.default)

    def items(self, writer: Schema, reader: Schema, column: columns.Items) -> None:
        if writer.kind != reader.kind:
            self.mismatch(writer, reader)
            return
        items = self.code.add(ITEMS, column.slot)
        start = self.code.here
        if column.key is not None:
            assert isinstance(writer, MapSchema)
            assert isinstance(reader, MapSchema)
            self.code.add(BYTES, column.key.slot, 1)
            self.value(writer.values, reader.values, column.item)
        else:
            assert isinstance(writer, ArraySchema)
            assert isinstance(reader, ArraySchema)
            self.value(writer.items, reader.items, column.item)
        self.code.add(NEXT, a=start)
        self.code.code[items][2] = self.code.here

    def leaf(self, writer: Schema, reader: Schema, column: Column) -> None:
        if writer.kind != reader.kind and writer.kind not in PROMOTED.get(reader.kind, ()):
            self.mismatch(writer, reader)
        elif (
            isinstance(writer, FixedSchema | EnumSchema)
            and isinstance(reader, FixedSchema | EnumSchema)
            and not same_name(writer, reader)
        ):
            self.code.fail(f"expected {reader.name}, got {writer.name}")
        elif isinstance(writer, FixedSchema) and isinstance(reader, FixedSchema) and writer.size != reader.size:
            self.code.fail(f"expected {reader.size} bytes of {reader.name}, got {writer.size}")
        elif isinstance(writer, EnumSchema) and isinstance(reader, EnumSchema):
            default = -1 if reader.default is None else reader.symbols.index(reader.default)
            symbols = [reader.symbols.index(one) if one in reader.symbols else default for one in writer.symbols]
            self.code.add(ENUM, column.slot, self.code.table(symbols), len(symbols))
        else:
            assert isinstance(writer, PrimitiveSchema | FixedSchema)
            self.plain(writer, column)

    def plain(self, writer: PrimitiveSchema | FixedSchema, column: Column) -> None:
        """A number or bytes, whose types fit."""
        size = writer.size if isinstance(writer, FixedSchema) else -1
        if isinstance(column, columns.Decimal):
            if writer.logical == "decimal" and writer.scale != column.arrow_type.scale:
                self.code.fail(f"expected a decimal of scale {column.arrow_type.scale}, got one of {writer.scale}")
                return
            self.code.add(DECIMAL, column.slot, size, self.code.table(decimal_limits(column.arrow_type)))
        elif isinstance(column, columns.Duration):
            for part in range(3):
                self.code.add(UINT, column.slot + part)
        elif isinstance(column, columns.Bytes):
            operation, a = (BYTES, int(column.is_text)) if size < 0 else (FIXED, size)
            self.code.add(operation, column.slot, a)
        else:
            assert isinstance(column, columns.Number)
            self.code.add(_NUMBERS[writer.kind], column.slot, _conversion(writer.kind, column))

    def mismatch(self, writer: Schema, reader: Schema) -> None:
        self.code.fail(f"expected {said(reader)}, got {said(writer)}")

    # --- what nobody wants ----------------------------------------------------------------------------------------

    def skip(self, writer: Schema) -> None:
        if isinstance(writer, UnionSchema):
            self.branches(writer, lambda _, one: self.skip(one))
        elif isinstance(writer, RecordSchema):
            _, calls = self.skips.setdefault(writer.name, (writer, []))
            calls.append(self.code.add(CALL))
        elif isinstance(writer, ArraySchema | MapSchema):
            items = self.code.add(ITEMS)
            start = self.code.here
            if isinstance(writer, MapSchema):
                self.code.add(BYTES)
            self.skip(writer.values if isinstance(writer, MapSchema) else writer.items)
            self.code.add(NEXT, a=start)
            self.code.code[items][2] = self.code.here
        elif isinstance(writer, EnumSchema):
            self.code.add(ENUM, a=self.code.table([0] * len(writer.symbols)), b=len(writer.symbols))
        elif isinstance(writer, FixedSchema):
            self.code.add(FIXED, a=writer.size)
        elif writer.kind in ("bytes", "string"):
            self.code.add(BYTES)
        elif writer.kind != "null":
            self.code.add(_NUMBERS[writer.kind])

    def write_skips(self) -> None:
        """The instructions that skip records: each once, since a record may hold itself."""
        written: dict[str, int] = {}
        while len(written) < len(self.skips):
            for name in [one for one in self.skips if one not in written]:
                written[name] = self.code.here
                for one in self.skips[name][0].fields:
                    self.skip(one.type)
                self.code.add(RETURN)
        for name, (_, calls) in self.skips.items():
            for call in calls:
                self.code.code[call][2] = written[name]

    # --- what nobody wrote ----------------------------------------------------------------------------------------

    def blank(self, column: Column) -> None:
        """Zeros in every slot of this level."""
        for part in range(column.width):
            self.code.add(PUSH, column.slot + part, _of_null(column))
        for one in parts(column):
            self.blank(one)

    def default(self, schema: Schema, column: Column, value: Any) -> None:
        """A default, as the JSON that a schema has it in."""
        if isinstance(schema, UnionSchema):
            assert isinstance(column, columns.Choice)
            at = next((at for at, one in enumerate(schema.branches) if may_be(one, value)), 0)
            self.code.add(PUSH, column.slot, at)
            for other, one in enumerate(column.branches):
                if one is not None and other != at:
                    self.blank(one)
                elif one is not None:
                    self.default(schema.branches[at], one, value)
            return
        if isinstance(schema, RecordSchema):
            assert isinstance(column, columns.Fields)
            for field, part in zip(schema.fields, column.columns, strict=True):
                self.default(field.type, part, value.get(field.name, field.default))
        elif isinstance(column, columns.Items):
            self.code.add(PUSH, column.slot, len(value))
            self.default_items(schema, column, value)
        else:
            self.default_leaf(schema, column, value)

    def default_items(self, schema: Schema, column: columns.Items, value: Any) -> None:
        if isinstance(schema, MapSchema):
            assert column.key is not None
            for key, one in value.items():
                self.bytes(column.key.slot, key.encode())
                self.default(schema.values, column.item, one)
        else:
            assert isinstance(schema, ArraySchema)
            for one in value:
                self.default(schema.items, column.item, one)

    def default_leaf(self, schema: Schema, column: Column, value: Any) -> None:
        if isinstance(schema, EnumSchema):
            self.code.add(PUSH, column.slot, schema.symbols.index(value))
        elif isinstance(column, columns.Number):
            if schema.kind in ("float", "double"):
                exact = struct.unpack("<f", struct.pack("<f", value))[0] if schema.kind == "float" else float(value)
                self.code.add(PUSH, column.slot, struct.unpack("<q", struct.pack("<d", exact))[0])
            else:
                self.code.add(PUSH, column.slot, int(value) * column.per_unit)
        else:
            written = value.encode() if schema.kind == "string" else value.encode("latin-1")
            if isinstance(column, columns.Decimal):
                for part, half in enumerate(halves(int.from_bytes(written, "big", signed=True))):
                    self.code.add(PUSH, column.slot + part, half)
            elif isinstance(column, columns.Duration):
                for part, number in enumerate(struct.unpack("<III", written)):
                    self.code.add(PUSH, column.slot + part, number)
            else:
                self.bytes(column.slot, written)

    def bytes(self, slot: int, written: bytes) -> None:
        self.code.add(PUSH, slot, self.code.constant(written))
        self.code.add(PUSH, slot + 1, len(written))


def _of_null(column: Column) -> int:
    """What is in the slot of a union of which nothing was written: null's number, if it has one."""
    return (column.null or 0) if isinstance(column, columns.Choice) else 0


def _conversion(kind: str, column: columns.Number) -> int:
    if kind in ("int", "long") and column.kind in ("float", "double"):
        return TO_FLOAT if column.kind == "float" else TO_DOUBLE
    return AS_IT_IS if column.logical is None else _TIMES[column.logical.removeprefix("local-")]
