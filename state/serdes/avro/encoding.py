"""Columns to bytes: Arrow arrays as cells, and a program that writes them row by row.

Owns the program that writes. Rule: a null where the schema has none, a symbol that it does not have, and a decimal or a
fixed of another size are refused, never written as something else.
"""

import uuid
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...buffers import binary_array, binary_view, is_valid
from ...errors import ConfigError
from . import layout as columns
from .decode_kernel import ProgramCode, Registers
from .encode_kernel import encode_rows
from .layout import AvroLayout, Column
from .program import (
    BOOLEAN,
    BYTES,
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
    UINT,
    UNION,
    Code,
    Program,
)  # fmt: skip

_PLACE = "Serde.avro"
_NUMBERS = {"boolean": BOOLEAN, "int": INT, "long": LONG, "float": FLOAT, "double": DOUBLE}
_BYTES_OF_A_NUMBER = 10
_LEVELS = 1000


def writing_program(layout: AvroLayout) -> Program:
    """The program that writes what ``layout`` holds."""
    code = Code()
    _write(layout.root, code)
    code.add(END)
    blank = code.here
    _pass_by(layout.root, code)
    code.add(END)
    return code.finished(blank)


def _write(column: Column, code: Code) -> None:
    if isinstance(column, columns.Fields):
        for one in column.columns:
            _write(one, code)
    elif isinstance(column, columns.Choice):
        union, starts, jumps = code.add(UNION, column.slot, b=len(column.branches)), [], []
        for at in range(len(column.branches)):
            starts.append(code.here)
            for other, branch in enumerate(column.branches):
                if branch is not None:
                    (_write if other == at else _pass_by)(branch, code)
            jumps.append(code.add(JUMP))
        code.code[union][2] = code.table(starts)
        for jump in jumps:
            code.code[jump][2] = code.here
    elif isinstance(column, columns.Items):
        items = code.add(ITEMS, column.slot)
        start = code.here
        if column.key is not None:
            _write(column.key, code)
        _write(column.item, code)
        code.add(NEXT, a=start)
        code.code[items][2] = code.here
    elif isinstance(column, columns.Bytes | columns.Decimal):
        plain, sized = (DECIMAL, DECIMAL) if isinstance(column, columns.Decimal) else (BYTES, FIXED)
        code.add(plain if column.size is None else sized, column.slot, -1 if column.size is None else column.size)
    elif isinstance(column, columns.Duration):
        for part in range(column.width):
            code.add(UINT, column.slot + part)
    else:
        code.add(ENUM if isinstance(column, columns.Symbols) else _NUMBERS[column.kind], column.slot)


def _pass_by(column: Column, code: Code) -> None:
    for part in range(column.width):
        code.add(PUSH, column.slot + part)
    for one in columns.parts(column):
        _pass_by(one, code)


def encode(values: pa.Array, head: bytes, program: Program, layout: AvroLayout) -> pa.BinaryArray:
    """Bytes of every row behind ``head``; null stays null. Raises ConfigError for a value that the schema has not."""
    valid = is_valid(values)
    flat = _Flattened(layout)
    flat.take(layout.root, values, valid, "value")
    counts = np.array([len(one) for one in flat.cells], np.int64)
    bases = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    cells = np.concatenate([*flat.cells, np.zeros(1, np.int64)])
    text = np.concatenate([*flat.text, np.zeros(1, np.uint8)])
    room = _BYTES_OF_A_NUMBER * (len(cells) + sum(map(len, flat.cells))) + len(text) + flat.fixed_bytes
    out = np.empty(room + (len(head) + 1) * len(values), np.uint8)
    ends, numbers, word = np.zeros(len(values), np.int64), np.zeros(2, np.int64), np.zeros(1, np.uint32)
    registers = Registers(numbers, numbers.view(np.float64), word, word.view(np.float32))
    instructions = ProgramCode(program.code, program.tables)
    encode_rows(
        valid, np.frombuffer(head or b"\0", np.uint8)[: len(head)], program.blank, tuple(instructions), text, cells,
        bases, np.zeros(layout.slots + 1, np.int64), np.zeros(_LEVELS, np.int64), tuple(registers), out, ends,
    )  # fmt: skip
    written = int(ends[-1]) if len(ends) else 0
    return binary_array(out[:written].copy(), np.concatenate([[0], ends]), valid)


class _Flattened:
    """``cells``: of every slot; ``text``: what begins of bytes point into, one after the other."""

    def __init__(self, layout: AvroLayout) -> None:
        self.cells = [np.zeros(0, np.int64)] * layout.slots
        self.text: list[np.ndarray] = []
        self.text_bytes = self.fixed_bytes = 0

    def take(self, column: Column, array: pa.Array, wanted: np.ndarray, place: str) -> None:
        """``wanted``: the rows that are written; in others anything may be."""
        if isinstance(column, columns.Choice):
            self.choice(column, array, wanted, place)
            return
        if bool((wanted & ~is_valid(array)).any()):
            _refuse(place, "a value, since the schema has no null here", None)
        if isinstance(column, columns.Fields):
            for name, one, part in zip(column.names, column.columns, array.flatten(), strict=True):
                self.take(one, part, wanted, name if place == "value" else f"{place}.{name}")
        elif isinstance(column, columns.Items):
            self.items(column, array, wanted, place)
        elif isinstance(column, columns.Bytes):
            self.bytes(column, array, wanted, place)
        elif isinstance(column, columns.Decimal):
            self.decimal(column, array, wanted, place)
        elif isinstance(column, columns.Symbols):
            numbers = pc.index_in(array, pa.array(column.symbols, pa.string()))
            unknown = wanted & ~is_valid(numbers)
            if unknown.any():
                _refuse(place, f"one of {', '.join(column.symbols)}", array[int(np.argmax(unknown))].as_py())
            self.cells[column.slot] = np.asarray(numbers.fill_null(0)).astype(np.int64)
        elif isinstance(column, columns.Duration):
            for part, one in enumerate(array.flatten()):
                number = np.asarray(one.fill_null(0))
                wide = wanted & ((number < 0) | (number >= 2**32))
                if wide.any():
                    _refuse(place, "numbers from 0 to 4294967295", int(number[np.argmax(wide)]))
                self.cells[column.slot + part] = number
        else:
            self.cells[column.slot] = _number(column, array)

    def choice(self, column: columns.Choice, array: pa.Array, wanted: np.ndarray, place: str) -> None:
        present, valid = column.present, is_valid(array) & wanted
        if bool((wanted & ~valid).any()) and column.null is None:
            _refuse(place, "a value, since the schema has no null here", None)
        taken = np.full(len(array), column.null if column.null is not None else present[0], np.int64)
        inner = [array] if len(present) == 1 else array.flatten()
        if len(present) > 1:
            filled = np.stack([is_valid(one) for one in inner]).sum(axis=0)
            wrong = valid & (filled != 1)
            if wrong.any():
                _refuse(place, "one branch of the union", f"{int(filled[np.argmax(wrong)])}")
        for at, one in zip(present, inner, strict=True):
            branch = column.branches[at]
            assert branch is not None
            here = valid & is_valid(one)
            taken[here] = at
            self.take(branch, one, here, place if len(present) == 1 else f"{place}.{column.names[at]}")
        self.cells[column.slot] = taken

    def items(self, column: columns.Items, array: pa.Array, wanted: np.ndarray, place: str) -> None:
        # A row that is not written passes by the number of its items and none of the items, so they may have no cells.
        array = array.filter(pa.array(wanted)) if not wanted.all() else array
        if column.key is not None:
            array = array.cast(pa.list_(pa.struct([("key", pa.string()), ("value", column.item.arrow_type)])))
        lengths = np.zeros(len(wanted), np.int64)
        lengths[wanted] = np.asarray(pc.list_value_length(array))
        self.cells[column.slot] = lengths
        items = array.flatten()
        every = np.ones(len(items), np.bool_)
        if column.key is not None:
            keys, items = items.flatten()
            self.bytes(column.key, keys, every, f"{place}[]")
        self.take(column.item, items, every, f"{place}[]")

    def bytes(self, column: columns.Bytes, array: pa.Array, wanted: np.ndarray, place: str) -> None:
        if column.is_uuid:
            array = _uuid_bytes(array, wanted, place)
        view = binary_view(array)
        lengths = np.diff(view.offsets) * wanted
        if column.size is not None and (wrong := wanted & (lengths != column.size)).any():
            _refuse(place, f"{column.size} bytes", f"{int(lengths[np.argmax(wrong)])}")
        self.cells[column.slot] = view.offsets[:-1] + self.text_bytes
        self.cells[column.slot + 1] = lengths
        self.text.append(view.data)
        self.text_bytes += len(view.data)

    def decimal(self, column: columns.Decimal, array: pa.Array, wanted: np.ndarray, place: str) -> None:
        if len(array) == 0:
            return
        stored = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]
        halves = stored * wanted[:, None]
        self.cells[column.slot], self.cells[column.slot + 1] = halves[:, 1], halves[:, 0]
        if column.size is None:
            return
        self.fixed_bytes += column.size * len(array)
        if column.size < 16:
            top = 8 * column.size - 1
            kept = halves[:, 0] >> np.int64(min(top, 63))
            upper = halves[:, 1] if column.size <= 8 else halves[:, 1] >> np.int64(top - 64)
            fits = (
                ((kept == 0) & (upper == 0)) | ((kept == -1) & (upper == -1))
                if column.size <= 8
                else ((upper == 0) | (upper == -1))
            )
            if not fits.all():
                _refuse(place, f"a decimal of {column.size} bytes", str(array[int(np.argmin(fits))].as_py()))


def _number(column: columns.Number, array: pa.Array) -> np.ndarray:
    if column.kind in ("float", "double"):
        return np.asarray(array.fill_null(0.0)).astype(np.float64).view(np.int64)
    if column.kind == "boolean":
        return np.asarray(array.fill_null(False)).astype(np.int64)
    stored = array.view(pa.int32() if column.arrow_type in (pa.int32(), pa.date32()) else pa.int64())
    return np.asarray(stored.fill_null(0)).astype(np.int64) // column.per_unit


def _uuid_bytes(array: pa.Array, wanted: np.ndarray, place: str) -> pa.Array:
    uuids = []
    for text, is_wanted in zip(array.to_pylist(), wanted, strict=True):
        try:
            uuids.append(uuid.UUID(text).bytes if is_wanted else b"")
        except ValueError:
            _refuse(place, "a UUID", text)
    return pa.array(uuids, pa.binary())


def _refuse(place: str, expected: str, got: object) -> NoReturn:
    shown = "null" if got is None else repr(got) if isinstance(got, str) else str(got)
    raise ConfigError(f"{_PLACE}, {place}", expected, shown, "correct the value")
