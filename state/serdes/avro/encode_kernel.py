"""The compiled part of writing Avro: a program, walked once for each row, as Java's BinaryEncoder writes.

Owns no memory. Rule: an array is one block with its number of items before it, and an empty one the byte 0.
"""

import numpy as np

from ...compilation.kernel_compilation import inner_kernel, kernel
from .decode_kernel import ProgramCode, Registers
from .program import BOOLEAN, BYTES, DECIMAL, DOUBLE, END, FIXED, FLOAT, ITEMS, JUMP, NEXT, PUSH, UINT, UNION

_SEVEN, _MORE = np.uint64(0x7F), np.uint64(0x80)


@inner_kernel
def _varint(out, at, value):  # type: ignore[no-untyped-def]
    """Place behind a number."""
    # Zigzag: n is 2 n, -n - 1 is 2 n + 1. Written so that the least long does not overflow.
    zigzag = (
        np.uint64(value) << np.uint64(1) if value >= 0 else (np.uint64(-(value + 1)) << np.uint64(1)) | np.uint64(1)
    )
    while zigzag > _SEVEN:
        out[at] = (zigzag & _SEVEN) | _MORE
        zigzag >>= np.uint64(7)
        at += 1
    out[at] = zigzag
    return at + 1


@inner_kernel
def _little_endian(out, at, value, size):  # type: ignore[no-untyped-def]
    for i in range(size):
        out[at + i] = (value >> np.int64(8 * i)) & np.int64(0xFF)
    return at + size


@inner_kernel
def _decimal(out, at, upper, lower, size):  # type: ignore[no-untyped-def]
    """Two's complement, of the fewest bytes with their number before them, or of ``size`` bytes."""
    if size < 0:
        # BigInteger.toByteArray: the fewest bytes that still show the sign.
        size = 16
        while size > 1:  # the first byte only repeats the sign of the next
            # Byte ``size - 1`` of the number, from the lowest, 0: the upper half has bytes 8 to 15.
            half, byte = (upper, size - 9) if size > 8 else (lower, size - 1)
            first = (half >> np.int64(8 * byte)) & np.int64(0xFF)
            half, byte = (upper, size - 10) if size > 9 else (lower, size - 2)
            second = (half >> np.int64(8 * byte)) & np.int64(0xFF)
            if not ((first == 0 and second < 128) or (first == 255 and second >= 128)):
                break
            size -= 1
        at = _varint(out, at, size)
    for i in range(size):
        byte = size - 1 - i
        # A fixed of more than 16 bytes repeats the sign in front of the number.
        if byte >= 16:
            out[at + i] = np.int64(255) if upper < 0 else np.int64(0)
        elif byte >= 8:
            out[at + i] = (upper >> np.int64(8 * (byte - 8))) & np.int64(0xFF)
        else:
            out[at + i] = (lower >> np.int64(8 * byte)) & np.int64(0xFF)
    return at + size


@inner_kernel
def _value(out, at, operation, a, text, value, second, registers):  # type: ignore[no-untyped-def]
    """Place behind one value; the registers have it as a double, too, where it has the bits of one."""
    if operation == FLOAT:
        # ``word`` has the same bits as ``single``, which rounds to the nearest float.
        registers.single[0] = registers.doubles[0]
        return _little_endian(out, at, np.int64(registers.word[0]), 4)
    if operation == DOUBLE:
        return _little_endian(out, at, value, 8)
    if operation == BOOLEAN:
        return _little_endian(out, at, value, 1)
    if operation == UINT:
        return _little_endian(out, at, value, 4)
    if operation == DECIMAL:
        return _decimal(out, at, value, second, a)
    if operation == BYTES or operation == FIXED:
        # A fixed has no length before it.
        if operation == BYTES:
            at = _varint(out, at, second)
        for i in range(second):
            out[at + i] = text[value + i]
        return at + second
    # What is left is INT, LONG and the number of an ENUM's symbol.
    return _varint(out, at, value)


@inner_kernel
def _row(at, instruction, instructions, text, cells, bases, cursors, stack, registers, out):  # type: ignore[no-untyped-def]
    """Place behind a row, whose cells are passed by."""
    code, tables = instructions.code, instructions.tables
    depth = 0
    while True:
        operation, slot, a = code[instruction, 0], code[instruction, 1], code[instruction, 2]
        instruction += 1
        if operation == END:
            return at
        if operation == JUMP:
            instruction = a
            continue
        if operation == NEXT:
            stack[depth - 1] -= 1
            if stack[depth - 1] > 0:
                instruction = a
            # The end of an array is a block of no items.
            else:
                at = _varint(out, at, 0)
                depth -= 1
            continue
        value, second = cells[bases[slot] + cursors[slot]], np.int64(0)
        cursors[slot] += 1
        if operation == PUSH:  # a cell of what was not taken
            continue
        # These have two cells a value: begin and length of bytes, or the halves of a decimal.
        if BYTES <= operation <= DECIMAL:
            second = cells[bases[slot + 1] + cursors[slot + 1]]
            cursors[slot + 1] += 1
        registers.numbers[0] = value
        if operation == UNION:
            at = _varint(out, at, value)
            instruction = tables[a + value]
        elif operation == ITEMS:
            at = _varint(out, at, value)
            stack[depth] = value
            # The number 0 is the whole of an empty array: the next instruction is behind those of an item.
            if value > 0:
                depth += 1
            else:
                instruction = a
        else:
            at = _value(out, at, operation, a, text, value, second, registers)


@kernel
def encode_rows(  # type: ignore[no-untyped-def]
    is_wanted, head, blank, instructions, text, cells, bases, cursors, stack, registers, out, ends
):
    """Write every wanted row to ``out``, each behind the bytes ``head``; where a row ends is in ``ends``. The cells of
    a row that is not wanted are passed by.

    Arrays: ``is_wanted`` bool and ``ends`` int64 (rows,); ``head``, ``text``, ``out`` uint8; ``cells``, ``bases``,
    ``cursors``, ``stack`` int64. ``blank``: the program's place for a row that is not wanted. ``instructions``,
    ``registers``: fields of ProgramCode, Registers.
    """
    instructions, registers = ProgramCode(*instructions), Registers(*registers)
    at = 0
    for row in range(len(is_wanted)):
        if is_wanted[row]:
            for i in range(len(head)):
                out[at + i] = head[i]
            at += len(head)
        at = _row(at, 0 if is_wanted[row] else blank, instructions, text, cells, bases, cursors, stack, registers, out)
        ends[row] = at
