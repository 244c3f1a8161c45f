"""The compiled part of reading Avro: a program, walked once for each row.

Owns no memory. Rule: a row gives its cells to every slot of its level, or it has a fault and gives zeros; what one row
holds is never read as another's. Numbers are as Java's BinaryDecoder reads them: an int is the lower 32 bits of what
its at most five bytes say.
"""

import numpy as np

from ...compilation.kernel_compilation import inner_kernel, kernel

HAS_NO_ROOM = -1
"""A row needs more cells in a slot than there are; ``scratch[0]`` is the slot."""

_SEVEN, _ONE, _INT = np.uint64(0x7F), np.uint64(1), np.uint64(0xFFFFFFFF)
_SIGN = np.int64(-0x8000000000000000)
_FIRST_DAY, _LAST_DAY = -719162, 2932896
"""0001-01-01 and 9999-12-31."""
_DAY_MILLIS, _DAY_MICROS = 86400000, 86400000000


@inner_kernel
def _varint(data, at, end, longest, scratch):  # type: ignore[no-untyped-def]
    """Place behind a number of at most ``longest`` bytes, or minus the fault; the number is ``scratch[0]``."""
    value = np.uint64(0)
    for i in range(longest):
        if at + i >= end:
            return -1
        byte = np.uint64(data[at + i])
        value |= (byte & _SEVEN) << np.uint64(7 * i)
        if byte <= _SEVEN:
            if longest == 5:
                value &= _INT
            half = np.int64(value >> _ONE)
            scratch[0] = -half - 1 if value & _ONE else half
            return at + i + 1
    return -2


@inner_kernel
def _little_endian(data, at, end, size, scratch):  # type: ignore[no-untyped-def]
    """Place behind ``size`` bytes, whose bits are ``scratch[0]``."""
    if at + size > end:
        return -1
    value = np.int64(0)
    for i in range(size):
        value |= np.int64(data[at + i]) << np.int64(8 * i)
    scratch[0] = value
    return at + size


@inner_kernel
def _time(at, value, conversion, scratch):  # type: ignore[no-untyped-def]
    """``at``, or minus the fault; ``scratch[0]``: days of a date, microseconds of others."""
    if conversion == 3:
        return at if _FIRST_DAY <= value <= _LAST_DAY else -11
    scale = 1000 if conversion == 4 or conversion == 6 else 1
    day = _DAY_MILLIS if scale == 1000 else _DAY_MICROS
    least, most = (0, day) if conversion <= 5 else (_FIRST_DAY * day, (_LAST_DAY + 1) * day)
    if value < least or value >= most:
        return -11
    scratch[0] = value * scale
    return at


@inner_kernel
def _number(data, at, end, operation, conversion, scratch, doubles, word, single):  # type: ignore[no-untyped-def]
    """Place behind a number, which is ``scratch[0]``; of a float or a double its bits as a double."""
    if operation <= 2:  # int, long
        at = _varint(data, at, end, 5 if operation == 1 else 10, scratch)
        value = scratch[0]
        if at >= 0 and conversion == 1:
            doubles[0] = value
        elif at >= 0 and conversion == 2:
            single[0] = value
            doubles[0] = single[0]
        elif at >= 0 and conversion > 2:
            return _time(at, value, conversion, scratch)
        return at
    if operation == 3:
        at = _little_endian(data, at, end, 4, scratch)
        if at >= 0:
            word[0] = scratch[0]
            doubles[0] = single[0]
        return at
    if operation == 4:
        return _little_endian(data, at, end, 8, scratch)
    at = _little_endian(data, at, end, 1 if operation == 5 else 4, scratch)
    if at >= 0 and operation == 5 and scratch[0] > 1:
        return -7
    return at


@inner_kernel
def _is_text(data, at, end):  # type: ignore[no-untyped-def]
    """Whether bytes are UTF-8: shortest forms, no surrogates, at most U+10FFFF."""
    while at < end:
        first = np.int64(data[at])
        at += 1
        if first < 0x80:
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if at + more > end:
            return False
        low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        for i in range(more):
            byte = np.int64(data[at + i])
            if byte < (low if i == 0 else 0x80) or byte > (high if i == 0 else 0xBF):
                return False
        at += more
    return True


@inner_kernel
def _bytes(data, at, end, size, is_text, scratch):  # type: ignore[no-untyped-def]
    """Place behind ``size`` bytes, or behind as many as a length says; ``scratch``: begin and number of them."""
    if size < 0:
        at = _varint(data, at, end, 10, scratch)
        if at < 0:
            return at
        size = scratch[0]
        if size < 0:
            return -3
    if size > end - at:
        return -1
    if is_text and not _is_text(data, at, at + size):
        return -10
    scratch[0], scratch[1] = at, size
    return at + size


@inner_kernel
def _decimal(data, at, end, size, limits, tables, scratch):  # type: ignore[no-untyped-def]
    """Place behind a decimal; ``scratch``: upper and lower half of its unscaled number."""
    behind = _bytes(data, at, end, size, False, scratch)
    if behind < 0:
        return behind
    begin, size = scratch[0], scratch[1]
    if size == 0:
        return -13
    fill = np.int64(-1) if data[begin] >= 0x80 else np.int64(0)
    upper, lower = fill, fill
    for i in range(size):
        byte, top = np.int64(data[begin + i]), upper >> np.int64(55)
        if top != 0 and top != -1:
            return -8
        upper = (upper << np.int64(8)) | ((lower >> np.int64(56)) & np.int64(0xFF))
        lower = (lower << np.int64(8)) | byte
    most, most_low = tables[limits], tables[limits + 1] ^ _SIGN
    least, least_low = tables[limits + 2], tables[limits + 3] ^ _SIGN
    unsigned = lower ^ _SIGN
    if upper > most or (upper == most and unsigned > most_low):
        return -8
    if upper < least or (upper == least and unsigned < least_low):
        return -8
    scratch[0], scratch[1] = upper, lower
    return behind


@inner_kernel
def _value(data, at, end, operation, a, b, tables, checks_text, scratch, doubles, word, single):  # type: ignore[no-untyped-def]
    """Place behind one value, which is in ``scratch``, or minus the fault."""
    if operation <= 5 or operation == 10:
        return _number(data, at, end, operation, a, scratch, doubles, word, single)
    if operation == 6:
        return _bytes(data, at, end, -1, checks_text and a == 1, scratch)
    if operation == 7:
        return _bytes(data, at, end, a, False, scratch)
    if operation == 8:
        return _decimal(data, at, end, a, b, tables, scratch)
    at = _varint(data, at, end, 5, scratch)
    if at < 0:
        return at
    if scratch[0] < 0 or scratch[0] >= b:
        return -5
    scratch[0] = tables[a + scratch[0]]
    return at if scratch[0] >= 0 else -6


@inner_kernel
def _block(data, at, end, scratch):  # type: ignore[no-untyped-def]
    """Place behind the head of a block of items; their number is ``scratch[0]``."""
    at = _varint(data, at, end, 10, scratch)
    if at >= 0 and scratch[0] < 0:  # then the block's size in bytes follows
        count = -scratch[0]
        at = _varint(data, at, end, 10, scratch)
        scratch[0] = count
        if count < 0:
            return -3
    if at >= 0 and scratch[0] > 2147483639:  # what Java's collections hold
        return -3
    return at


@inner_kernel
def _items(data, at, end, place, depth, slot, behind, bases, counts, stack, scratch):  # type: ignore[no-untyped-def]
    """(place in the bytes, place in the program, depth) where items begin; how many there are is ``scratch[0]``, and is
    counted in their cell.
    """
    if depth + 2 > len(stack):
        return -12, place, depth
    at = _block(data, at, end, scratch)
    if at >= 0:
        stack[depth] = scratch[0]
        stack[depth + 1] = -1 if slot < 0 else bases[slot] + counts[slot]
        if scratch[0] > 0:
            return at, place, depth + 2
    return at, behind, depth


@inner_kernel
def _next(data, at, end, place, depth, first, cells, stack, scratch):  # type: ignore[no-untyped-def]
    """As ``_items``, where an item ends."""
    stack[depth - 2] -= 1
    if stack[depth - 2] > 0:
        return at, first, depth
    at = _block(data, at, end, scratch)
    if at >= 0 and scratch[0] > 0:
        stack[depth - 2] = scratch[0]
        if stack[depth - 1] >= 0:
            cells[stack[depth - 1]] += scratch[0]
        return at, first, depth
    return at, place, depth - 2


@inner_kernel
def _jump(data, at, end, place, depth, operation, a, b, tables, stack, scratch):  # type: ignore[no-untyped-def]
    """As ``_items``, of a union, a jump, a call and a return."""
    if operation == 11:
        at = _varint(data, at, end, 5, scratch)
        if at >= 0 and (scratch[0] < 0 or scratch[0] >= b):
            return -4, place, depth
        return at, tables[a + scratch[0]] if at >= 0 else place, depth
    if operation == 12:
        return at, a, depth
    if operation == 17:
        return at, stack[depth - 1], depth - 1
    if depth + 1 > len(stack):
        return -12, place, depth
    stack[depth] = place
    return at, a, depth + 1


@inner_kernel
def _row(  # type: ignore[no-untyped-def]
    data, at, end, place, program, tables, cells, bases, room, counts, stack, checks_text, scratch, doubles, word,
    single,
):  # fmt: skip
    """0 when a row was read, HAS_NO_ROOM, or the fault of its bytes."""
    depth = 0
    while True:
        operation, slot, a, b = program[place, 0], program[place, 1], program[place, 2], program[place, 3]
        place += 1
        width = 0
        if 1 <= operation <= 10:
            at = _value(data, at, end, operation, a, b, tables, checks_text, scratch, doubles, word, single)
            width = 2 if 6 <= operation <= 8 else 1
        elif operation == 13:  # push
            scratch[0] = a
            width = 1
        elif operation == 14:
            at, place, depth = _items(data, at, end, place, depth, slot, a, bases, counts, stack, scratch)
            width = 1
        elif operation == 15:
            at, place, depth = _next(data, at, end, place, depth, a, cells, stack, scratch)
        elif operation == 18:  # fail
            return 100 + a
        elif operation == 0:
            return 0 if at == end else 9
        else:
            at, place, depth = _jump(data, at, end, place, depth, operation, a, b, tables, stack, scratch)
        if at < 0:
            return -at
        if slot >= 0:
            for part in range(width):
                if counts[slot + part] >= room[slot + part]:
                    scratch[0] = slot + part
                    return -1
                cells[bases[slot + part] + counts[slot + part]] = scratch[part]
                counts[slot + part] += 1


@inner_kernel
def _copy(of, to):  # type: ignore[no-untyped-def]
    for i in range(len(of)):
        to[i] = of[i]


@kernel
def decode_rows(  # type: ignore[no-untyped-def]
    data,
    begins,
    ends,
    is_wanted,
    first,
    blank,
    program,
    tables,
    cells,
    bases,
    room,
    counts,
    kept,
    stack,
    checks_text,
    scratch,
    doubles,
    word,
    single,
    faults,
):
    """Read the rows from ``first`` on, of which those that are not wanted are blank. Gives the number of rows, or the
    row for which there was no room.
    """
    for row in range(first, len(begins)):
        _copy(counts, kept)
        found = 0
        if is_wanted[row]:
            found = _row(
                data, begins[row], ends[row], 0, program, tables, cells, bases, room, counts, stack, checks_text,
                scratch, doubles, word, single,
            )  # fmt: skip
            if found > 0:
                faults[row] = found
                _copy(kept, counts)
        if found >= 0 and (found > 0 or not is_wanted[row]):
            found = _row(
                data, 0, 0, blank, program, tables, cells, bases, room, counts, stack, checks_text, scratch, doubles,
                word, single,
            )  # fmt: skip
        if found < 0:
            _copy(kept, counts)
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
