"""The compiled part of reading Avro: a program, walked once for each row.

Owns no memory. Rule: a row gives its cells to every slot of its level, or it has a fault and gives zeros; what one row
holds is never read as another's. Numbers are as Java's BinaryDecoder reads them: an int is the lower 32 bits of what
its at most five bytes say.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...compilation.kernel_compilation import inner_kernel, kernel
from .program import (
    AS_IT_IS,
    BOOLEAN,
    BYTES,
    CUT,
    DATE,
    DECIMAL,
    DEEP,
    DOUBLE,
    END,
    FAIL,
    FIRST_REASON,
    FIXED,
    FLOAT,
    INT,
    ITEMS,
    JUMP,
    LAST_VALUE,
    LONG,
    LONG_NUMBER,
    NEGATIVE_LENGTH,
    NEXT,
    NO_BOOLEAN,
    NO_BRANCH,
    NO_DIGITS,
    NO_SYMBOL,
    NO_TEXT,
    NO_TIME,
    PUSH,
    RETURN,
    TIME_MICROS,
    TIME_MILLIS,
    TIMESTAMP_MILLIS,
    TO_DOUBLE,
    TO_FLOAT,
    TRAILING,
    UINT,
    UNION,
    UNREAD_SYMBOL,
    WIDE_DECIMAL,
)

HAS_NO_ROOM = -1
"""A row needs more cells in a slot than there are; the slot is in the registers."""

_SEVEN, _ONE, _INT = np.uint64(0x7F), np.uint64(1), np.uint64(0xFFFFFFFF)
_SIGN = np.int64(-0x8000000000000000)
_FIRST_DAY, _LAST_DAY = -719162, 2932896
"""0001-01-01 and 9999-12-31."""
_DAY_MILLIS, _DAY_MICROS = 86400000, 86400000000
_INT_BYTES, _LONG_BYTES = 5, 10
"""Most bytes of a number."""
_TEXT = 1
"""``a`` of BYTES."""
_LENGTH_BEFORE = -1
"""Size of bytes that have their length before them."""
_ITEMS_MAX = 2147483639
"""What Java's collections hold."""


class ProgramCode(NamedTuple):
    """``code`` int64 (instructions, 4), ``tables`` int64: those of a Program."""

    code: NDArray[np.int64]
    tables: NDArray[np.int64]


class Registers(NamedTuple):
    """Where one value is on its way: ``numbers`` int64 (2,), the same bits as ``doubles``; ``word`` uint32 (1,), the
    same bits as ``single``.
    """

    numbers: NDArray[np.int64]
    doubles: NDArray[np.float64]
    word: NDArray[np.uint32]
    single: NDArray[np.float32]


class DecodedSlots(NamedTuple):
    """Cells of all slots, int64: slot s has ``counts[s]`` of at most ``room[s]``, from ``bases[s]`` on. ``kept``: the
    counts before the row that is read.
    """

    cells: NDArray[np.int64]
    bases: NDArray[np.int64]
    room: NDArray[np.int64]
    counts: NDArray[np.int64]
    kept: NDArray[np.int64]


@inner_kernel
def _varint(data, at, end, longest, registers):  # type: ignore[no-untyped-def]
    """Place behind a number of at most ``longest`` bytes, or minus the fault; the number is in the registers."""
    # Faults are 1 and above and places 0 and above, so one number is either: a place, or minus the fault.
    value = np.uint64(0)
    for i in range(longest):
        if at + i >= end:
            return -CUT
        byte = np.uint64(data[at + i])
        value |= (byte & _SEVEN) << np.uint64(7 * i)
        if byte <= _SEVEN:
            if longest == _INT_BYTES:  # an int is the lower 32 bits, as Java takes it
                value &= _INT
            # Zigzag: the lowest bit is the sign, so that small negative numbers are short. 2 n is n, 2 n + 1 is -n - 1.
            half = np.int64(value >> _ONE)
            registers.numbers[0] = -half - 1 if value & _ONE else half
            return at + i + 1
    # The last byte that is allowed still says that more follow.
    return -LONG_NUMBER


@inner_kernel
def _little_endian(data, at, end, size, registers):  # type: ignore[no-untyped-def]
    """Place behind ``size`` bytes, whose bits are in the registers, or minus the fault."""
    if at + size > end:
        return -CUT
    value = np.int64(0)
    for i in range(size):
        value |= np.int64(data[at + i]) << np.int64(8 * i)
    registers.numbers[0] = value
    return at + size


@inner_kernel
def _time(at, value, conversion, registers):  # type: ignore[no-untyped-def]
    """``at``, or minus the fault; in the registers are days of a date, microseconds of others."""
    if conversion == DATE:
        return at if _FIRST_DAY <= value <= _LAST_DAY else -NO_TIME
    # The range is checked in the unit of the value, so that multiplying cannot overflow before it.
    scale = 1000 if conversion == TIME_MILLIS or conversion == TIMESTAMP_MILLIS else 1
    day = _DAY_MILLIS if scale == 1000 else _DAY_MICROS
    # By the numbers of the conversions: both times of the day come before the timestamps.
    least, most = (0, day) if conversion <= TIME_MICROS else (_FIRST_DAY * day, (_LAST_DAY + 1) * day)
    if value < least or value >= most:
        return -NO_TIME
    registers.numbers[0] = value * scale
    return at


@inner_kernel
def _number(data, at, end, operation, conversion, registers):  # type: ignore[no-untyped-def]
    """Place behind a number, which is in the registers (a float as a double), or minus the fault."""
    if operation == INT or operation == LONG:
        at = _varint(data, at, end, _INT_BYTES if operation == INT else _LONG_BYTES, registers)
        value = registers.numbers[0]
        if at < 0 or conversion == AS_IT_IS:
            return at
        # Schema resolution promotes an int or long. Through a float first where the reader's type is float, since Java
        # rounds to one, too.
        if conversion == TO_DOUBLE:
            registers.doubles[0] = value
        elif conversion == TO_FLOAT:
            registers.single[0] = value
            registers.doubles[0] = registers.single[0]
        else:
            return _time(at, value, conversion, registers)
        return at
    if operation == FLOAT:
        at = _little_endian(data, at, end, 4, registers)
        # The four bytes are read as a float by the array that shares the memory of ``word``.
        if at >= 0:
            registers.word[0] = registers.numbers[0]
            registers.doubles[0] = registers.single[0]
        return at
    if operation == DOUBLE:
        return _little_endian(data, at, end, 8, registers)
    # What is left is BOOLEAN, of one byte, and UINT, of four.
    at = _little_endian(data, at, end, 1 if operation == BOOLEAN else 4, registers)
    if at >= 0 and operation == BOOLEAN and registers.numbers[0] > 1:
        return -NO_BOOLEAN
    return at


@inner_kernel
def _is_text(data, at, end):  # type: ignore[no-untyped-def]
    """Whether bytes are UTF-8: shortest forms, no surrogates, at most U+10FFFF."""
    while at < end:
        first = np.int64(data[at])
        at += 1
        if first < 0x80:
            continue
        # 0x80 to 0xBF continue a character, 0xC0 and 0xC1 would begin a form that is longer than necessary, and from
        # 0xF5 on the code point is above U+10FFFF.
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if at + more > end:
            return False
        # The second byte excludes longer forms (E0, F0), surrogates (ED) and what is above U+10FFFF (F4); the others
        # are free.
        low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        for i in range(more):
            byte = np.int64(data[at + i])
            if byte < (low if i == 0 else 0x80) or byte > (high if i == 0 else 0xBF):
                return False
        at += more
    return True


@inner_kernel
def _bytes(data, at, end, size, is_text, registers):  # type: ignore[no-untyped-def]
    """Place behind ``size`` bytes, or behind as many as a length says, or minus the fault; begin and number of them are
    in the registers.
    """
    if size == _LENGTH_BEFORE:
        at = _varint(data, at, end, _LONG_BYTES, registers)
        if at < 0:
            return at
        size = registers.numbers[0]
        if size < 0:
            return -NEGATIVE_LENGTH
    # Not ``at + size > end``: a length from damaged bytes may be near 2 ** 63.
    if size > end - at:
        return -CUT
    if is_text and not _is_text(data, at, at + size):
        return -NO_TEXT
    registers.numbers[0], registers.numbers[1] = at, size
    return at + size


@inner_kernel
def _decimal(data, at, end, size, limits, tables, registers):  # type: ignore[no-untyped-def]
    """Place behind a decimal, or minus the fault; upper and lower half of its unscaled number are in the registers."""
    behind = _bytes(data, at, end, size, False, registers)
    if behind < 0:
        return behind
    begin, size = registers.numbers[0], registers.numbers[1]
    if size == 0:
        return -NO_DIGITS
    # Two's complement, most significant byte first: the sign fills all bits above the first byte.
    fill = np.int64(-1) if data[begin] >= 0x80 else np.int64(0)
    upper, lower = fill, fill
    for i in range(size):
        byte, top = np.int64(data[begin + i]), upper >> np.int64(55)
        if top != 0 and top != -1:  # one more byte would push digits out of 128 bits
            return -WIDE_DECIMAL
        upper = (upper << np.int64(8)) | ((lower >> np.int64(56)) & np.int64(0xFF))
        lower = (lower << np.int64(8)) | byte
    # The halves of a number compare as unsigned ones, which flipping the sign makes of signed ones.
    most, most_low = tables[limits], tables[limits + 1] ^ _SIGN
    least, least_low = tables[limits + 2], tables[limits + 3] ^ _SIGN
    unsigned = lower ^ _SIGN
    if upper > most or (upper == most and unsigned > most_low):
        return -WIDE_DECIMAL
    if upper < least or (upper == least and unsigned < least_low):
        return -WIDE_DECIMAL
    registers.numbers[0], registers.numbers[1] = upper, lower
    return behind


@inner_kernel
def _value(data, at, end, operation, a, b, tables, checks_text, registers):  # type: ignore[no-untyped-def]
    """Place behind one value, which is in the registers, or minus the fault."""
    # By the numbers of the instructions: INT to BOOLEAN are the numbers that come first.
    if operation <= BOOLEAN or operation == UINT:
        return _number(data, at, end, operation, a, registers)
    if operation == BYTES:
        return _bytes(data, at, end, _LENGTH_BEFORE, checks_text and a == _TEXT, registers)
    if operation == FIXED:
        return _bytes(data, at, end, a, False, registers)
    if operation == DECIMAL:
        return _decimal(data, at, end, a, b, tables, registers)
    at = _varint(data, at, end, _INT_BYTES, registers)  # an enum
    if at < 0:
        return at
    if registers.numbers[0] < 0 or registers.numbers[0] >= b:
        return -NO_SYMBOL
    # From the writer's symbol to the reader's. -1 is a symbol that the reader does not have, and for which it has no
    # default.
    registers.numbers[0] = tables[a + registers.numbers[0]]
    return at if registers.numbers[0] >= 0 else -UNREAD_SYMBOL


@inner_kernel
def _block(data, at, end, registers):  # type: ignore[no-untyped-def]
    """Place behind the head of a block of items, or minus the fault; their number is in the registers."""
    at = _varint(data, at, end, _LONG_BYTES, registers)
    if at >= 0 and registers.numbers[0] < 0:  # then the block's size in bytes follows
        count = -registers.numbers[0]
        at = _varint(data, at, end, _LONG_BYTES, registers)
        registers.numbers[0] = count
        if count < 0:  # -2**63 has no positive number
            return -NEGATIVE_LENGTH
    if at >= 0 and registers.numbers[0] > _ITEMS_MAX:
        return -NEGATIVE_LENGTH
    return at


@inner_kernel
def _items(data, at, end, instruction, depth, slot, behind, slots, stack, registers):  # type: ignore[no-untyped-def]
    """(place in the bytes or minus the fault, instruction, depth) where items begin; how many there are is in the
    registers, and is counted in their cell. The stack has two numbers a level: items that are left, and their cell.
    """
    if depth + 2 > len(stack):
        return -DEEP, instruction, depth
    at = _block(data, at, end, registers)
    # The number of items is a cell itself, which ``_row`` writes behind this: its place is known now, and later blocks
    # of the same array add to it. -1: nobody reads the array.
    if at >= 0:
        stack[depth] = registers.numbers[0]
        stack[depth + 1] = -1 if slot < 0 else slots.bases[slot] + slots.counts[slot]
        if registers.numbers[0] > 0:
            return at, instruction, depth + 2
    # No items: go on behind the instructions of an item, with nothing on the stack.
    return at, behind, depth


@inner_kernel
def _next(data, at, end, instruction, depth, first, slots, stack, registers):  # type: ignore[no-untyped-def]
    """As ``_items``, where an item ends."""
    stack[depth - 2] -= 1
    if stack[depth - 2] > 0:
        return at, first, depth
    at = _block(data, at, end, registers)
    # The block is done. An array ends with a block of no items, so there may be another one.
    if at >= 0 and registers.numbers[0] > 0:
        stack[depth - 2] = registers.numbers[0]
        if stack[depth - 1] >= 0:
            slots.cells[stack[depth - 1]] += registers.numbers[0]
        return at, first, depth
    return at, instruction, depth - 2


@inner_kernel
def _jump(data, at, end, instruction, depth, operation, a, b, tables, stack, registers):  # type: ignore[no-untyped-def]
    """As ``_items``, of a union, a jump, a call and a return."""
    # A union is the number of its branch and then that branch's value: a jump.
    if operation == UNION:
        at = _varint(data, at, end, _INT_BYTES, registers)
        if at >= 0 and (registers.numbers[0] < 0 or registers.numbers[0] >= b):
            return -NO_BRANCH, instruction, depth
        return at, tables[a + registers.numbers[0]] if at >= 0 else instruction, depth
    if operation == JUMP:
        return at, a, depth
    if operation == RETURN:
        return at, stack[depth - 1], depth - 1
    if depth + 1 > len(stack):  # a call
        return -DEEP, instruction, depth
    # A call, which recursive schemas need: the instructions of a named type are there once.
    stack[depth] = instruction
    return at, a, depth + 1


@inner_kernel
def _row(data, at, end, instruction, instructions, slots, stack, checks_text, registers):  # type: ignore[no-untyped-def]
    """0 when a row was read, HAS_NO_ROOM, or the fault of its bytes."""
    code, tables = instructions.code, instructions.tables
    depth = 0
    while True:
        operation, slot, a, b = code[instruction, 0], code[instruction, 1], code[instruction, 2], code[instruction, 3]
        instruction += 1
        width = 0
        # Bytes have two cells, begin and length; a decimal its two halves. All others have one.
        if INT <= operation <= LAST_VALUE:
            at = _value(data, at, end, operation, a, b, tables, checks_text, registers)
            width = 2 if BYTES <= operation <= DECIMAL else 1
        elif operation == PUSH:
            # A number that the data do not have: the number of a branch, or a default.
            registers.numbers[0] = a
            width = 1
        elif operation == ITEMS:
            at, instruction, depth = _items(data, at, end, instruction, depth, slot, a, slots, stack, registers)
            width = 1
        elif operation == NEXT:
            at, instruction, depth = _next(data, at, end, instruction, depth, a, slots, stack, registers)
        elif operation == FAIL:
            return FIRST_REASON + a
        elif operation == END:
            return 0 if at == end else TRAILING
        else:
            at, instruction, depth = _jump(data, at, end, instruction, depth, operation, a, b, tables, stack, registers)
        # After each instruction, so that no step needs to look at a fault itself.
        if at < 0:
            return -at
        if slot >= 0:
            for part in range(width):
                # The caller makes room and reads this row again from its beginning.
                if slots.counts[slot + part] >= slots.room[slot + part]:
                    registers.numbers[0] = slot + part
                    return HAS_NO_ROOM
                slots.cells[slots.bases[slot + part] + slots.counts[slot + part]] = registers.numbers[part]
                slots.counts[slot + part] += 1


@inner_kernel
def _copy(of, to):  # type: ignore[no-untyped-def]
    for i in range(len(of)):
        to[i] = of[i]


@kernel
def decode_rows(  # type: ignore[no-untyped-def]
    data, begins, ends, is_wanted, first, blank, instructions, slots, stack, checks_text, registers, faults
):
    """Read the rows of ``data`` from ``first`` on, of which those that are not wanted are blank. Gives the number of
    rows, or the row for which there was no room, whose slot is in the registers.

    Arrays: ``data`` uint8 (bytes,); ``begins``, ``ends``, ``faults`` int64 and ``is_wanted`` bool, each (rows,);
    ``stack`` int64. ``blank``: the program's place for a row that is null or bad. ``instructions``, ``slots``,
    ``registers``: fields of ProgramCode, DecodedSlots, Registers.
    """
    instructions, slots, registers = ProgramCode(*instructions), DecodedSlots(*slots), Registers(*registers)
    for row in range(first, len(begins)):
        _copy(slots.counts, slots.kept)
        fault = 0
        if is_wanted[row]:
            fault = _row(data, begins[row], ends[row], 0, instructions, slots, stack, checks_text, registers)
            if fault > 0:  # what the row gave so far is taken back
                faults[row] = fault
                _copy(slots.kept, slots.counts)
        # A row that is null or bad has a cell in every slot of its level all the same: those of the ``blank``
        # instructions, of no bytes.
        if fault >= 0 and (fault > 0 or not is_wanted[row]):
            fault = _row(data, 0, 0, blank, instructions, slots, stack, checks_text, registers)
        if fault == HAS_NO_ROOM:
            _copy(slots.kept, slots.counts)
            # The row will be read again, and may have had a fault before its blank cells found no room.
            faults[row] = 0
            return row
    return len(begins)


@kernel
def gather_rows(data, constants, begins, offsets, gathered):  # type: ignore[no-untyped-def]
    """Bytes of every row, one after the other; a begin below zero is in ``constants``, counted from -1."""
    for row in range(len(begins)):
        begin, to = begins[row], offsets[row]
        size = offsets[row + 1] - to
        if begin >= 0:
            for i in range(size):
                gathered[to + i] = data[begin + i]
        else:
            for i in range(size):
                gathered[to + i] = constants[-1 - begin + i]
