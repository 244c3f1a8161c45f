"""Bytes to columns: a program over rows, and its cells as Arrow arrays."""

import numpy as np
import pyarrow as pa

from ...buffers import BinaryView, binary_array, fixed_array, masked
from ..codec import Decoded
from . import layout as columns
from .decode_kernel import DecodedSlots, ProgramCode, Registers, decode_rows, gather_rows
from .layout import AvroLayout, Column
from .program import FAIL, FIRST_REASON, Program

_STACK = 1000
_ITEMS_A_ROW = 2


class Cells:
    """``of(slot)``: the numbers of a slot, int64; ``data`` and ``constants`` are where begins of bytes point to."""

    def __init__(self, layout: AvroLayout, rows: int, data: np.ndarray, program: Program) -> None:
        self.data, self.constants = data, program.constants
        self.room = np.full(layout.slots, max(rows, 1), np.int64)
        self.room[list(layout.repeated)] *= _ITEMS_A_ROW
        self.counts = np.zeros(layout.slots, np.int64)
        self.lay_out(np.zeros(0, np.int64), np.zeros(layout.slots, np.int64))

    def lay_out(self, cells: np.ndarray, bases: np.ndarray) -> None:
        self.bases = np.concatenate([[0], np.cumsum(self.room)[:-1]]).astype(np.int64)
        self.cells = np.empty(int(self.room.sum()), np.int64)
        for slot, count in enumerate(self.counts):
            self.cells[self.bases[slot] : self.bases[slot] + count] = cells[bases[slot] : bases[slot] + count]

    def widen(self, slot: int) -> None:
        """Twice the room for a slot."""
        self.room[slot] *= 2
        self.lay_out(self.cells, self.bases)

    def of(self, slot: int) -> np.ndarray:
        return self.cells[self.bases[slot] : self.bases[slot] + self.counts[slot]]


def decode(view: BinaryView, is_wanted: np.ndarray, skipped: int, program: Program, layout: AvroLayout) -> Decoded:
    """The rows of ``view``, null where they are not wanted or bad. ``skipped``: bytes of each row before its value."""
    # Arrow checks all text at once, but names no row. Only where it refuses some does the kernel check every text,
    # so that the rows which have it become bad.
    for checks_text in False, True:
        cells, faults = _run(view, is_wanted, skipped, program, layout, checks_text=checks_text)
        try:
            values = _array(layout.root, cells)
        except pa.ArrowInvalid:
            assert not checks_text, "Arrow refused text that was found to be UTF-8"
            continue
        bad = faults > 0
        reasons = {int(row): program.reason(int(faults[row])) for row in np.flatnonzero(bad)}
        return Decoded(masked(values, is_wanted & ~bad), bad, reasons)
    raise AssertionError("the second reading leaves no text that Arrow refuses")


def _run(
    view: BinaryView, is_wanted: np.ndarray, skipped: int, program: Program, layout: AvroLayout, *, checks_text: bool
) -> tuple[Cells, np.ndarray]:
    rows = len(is_wanted)
    cells, faults = Cells(layout, rows, view.data, program), np.zeros(rows, np.int64)
    begins, ends = view.offsets[:-1] + skipped, view.offsets[1:].copy()
    numbers, word = np.zeros(2, np.int64), np.zeros(1, np.uint32)
    registers = Registers(numbers, numbers.view(np.float64), word, word.view(np.float32))
    instructions = ProgramCode(program.code, program.tables)
    kept, stack, first = np.zeros(layout.slots, np.int64), np.zeros(_STACK, np.int64), 0
    while True:
        slots = DecodedSlots(cells.cells, cells.bases, cells.room, cells.counts, kept)
        first = decode_rows(
            view.data, begins, ends, is_wanted, first, program.blank, tuple(instructions), tuple(slots), stack,
            checks_text, tuple(registers), faults,
        )  # fmt: skip
        if first == rows:
            return cells, faults
        cells.widen(int(numbers[0]))


def unreadable(program: Program) -> str | None:
    """Why no value at all can be read: the reason with which the program begins, or None."""
    first = program.code[0]
    return program.reason(FIRST_REASON + int(first[2])) if first[0] == FAIL else None


def _array(column: Column, cells: Cells) -> pa.Array:
    if isinstance(column, columns.Fields):
        fields = list(column.arrow_type)
        return pa.StructArray.from_arrays([_array(one, cells) for one in column.columns], fields=fields)
    if isinstance(column, columns.Choice):
        return _choice(column, cells)
    if isinstance(column, columns.Items):
        return _items(column, cells)
    if isinstance(column, columns.Bytes):
        return _bytes(column, cells)
    if isinstance(column, columns.Decimal):
        halves = np.stack([cells.of(column.slot + 1), cells.of(column.slot)], axis=1)
        return pa.Array.from_buffers(column.arrow_type, len(halves), [None, pa.py_buffer(np.ascontiguousarray(halves))])
    if isinstance(column, columns.Symbols):
        return pa.array(column.symbols, pa.string()).take(pa.array(cells.of(column.slot)))
    if isinstance(column, columns.Duration):
        parts = [pa.array(cells.of(column.slot + part)) for part in range(3)]
        return pa.StructArray.from_arrays(parts, fields=list(column.arrow_type))
    return _number(column, cells.of(column.slot))


def _number(column: columns.Number, numbers: np.ndarray) -> pa.Array:
    if column.kind in ("float", "double"):
        doubles = numbers.view(np.float64)
        return pa.array(doubles if column.kind == "double" else doubles.astype(np.float32))
    if column.kind == "boolean":
        return pa.array(numbers != 0)
    stored = numbers.astype(np.int32) if column.arrow_type in (pa.int32(), pa.date32()) else numbers.copy()
    return fixed_array(stored, np.ones(len(stored), np.bool_), column.arrow_type)


def _bytes(column: columns.Bytes, cells: Cells) -> pa.Array:
    begins, lengths = cells.of(column.slot), cells.of(column.slot + 1)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    gathered = np.empty(int(offsets[-1]), np.uint8)
    gather_rows(cells.data, cells.constants, begins, offsets, gathered)
    values = binary_array(gathered, offsets)
    if column.is_uuid:
        return pa.array([_uuid_text(one) for one in values.to_pylist()], pa.string())
    return values.cast(column.arrow_type)


def _uuid_text(value: bytes) -> str:
    text = value.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])) if text else ""


def _choice(column: columns.Choice, cells: Cells) -> pa.Array:
    taken = cells.of(column.slot)
    arrays = []
    for at in column.present:
        branch = column.branches[at]
        assert branch is not None
        arrays.append(masked(_array(branch, cells), taken == at))
    if len(arrays) == 1:
        return arrays[0]
    mask = None if column.null is None else pa.array(taken == column.null)
    return pa.StructArray.from_arrays(arrays, fields=list(column.arrow_type), mask=mask)


def _items(column: columns.Items, cells: Cells) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(cells.of(column.slot))])
    assert offsets[-1] < 2**31, f"lists of one column hold less than 2^31 items, got {offsets[-1]}"
    starts = pa.array(offsets.astype(np.int32))
    items = _array(column.item, cells)
    if column.key is None:
        return pa.ListArray.from_arrays(starts, items, column.arrow_type)
    return pa.MapArray.from_arrays(starts, _bytes(column.key, cells), items, column.arrow_type)
