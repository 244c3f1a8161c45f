"""Where an object's declared fields are, so that nobody reads the others.

Rule: a field is left out only if it is certain that a parser would take it and that its name is not declared. So the
whole text must be JSON by RFC 8259, and names must be written without escapes. Any other text is ``LEFT``: it is copied
as it is, and the parser says what is wrong with it. Such are NaN, a half surrogate pair, a name with a backslash, more
than LEVELS levels, many declared fields a second time, and faults. A number that is left out may be of any
size, since nobody reads it.
"""

from typing import NamedTuple

import numpy as np

from ...compilation.kernel_compilation import inner_kernel

LEFT = -1
LEVELS = 60
"""Brackets within one another: a bit each says whether it is an object's."""

_QUOTE, _BACKSLASH, _SPACE, _COMMA, _COLON = 0x22, 0x5C, 0x20, 0x2C, 0x3A
_OPEN_BRACE, _CLOSE_BRACE, _CLOSE_BRACKET = 0x7B, 0x7D, 0x5D
_MINUS, _PLUS, _POINT, _ZERO, _NINE, _SMALL_U = 0x2D, 0x2B, 0x2E, 0x30, 0x39, 0x75

_BLANK, _STOPS, _ESCAPES, _OPENS, _CLOSES = 1, 2, 4, 8, 16
_BITS = np.zeros(256, np.uint8)
"""Of each byte: white space; ends a run of characters of a string; may follow a backslash; opens, closes brackets."""
_BITS[[0x20, 0x09, 0x0A, 0x0D]] |= _BLANK
_BITS[:0x20] |= _STOPS
_BITS[[_QUOTE, _BACKSLASH]] |= _STOPS
_BITS[list(b'"\\/bfnrt')] |= _ESCAPES
_BITS[list(b"{[")] |= _OPENS
_BITS[list(b"}]")] |= _CLOSES
_HEX = np.full(256, -1, np.int64)
"""What a hexadecimal digit is worth, -1 for other bytes."""
_HEX[list(b"0123456789")] = np.arange(10)
_HEX[list(b"abcdef")] = _HEX[list(b"ABCDEF")] = np.arange(10, 16)


class DeclaredNames(NamedTuple):
    """``text`` uint8: the names one after the other; ``offsets`` int64 (names + 1,). ``bits``, ``hex``: of bytes."""

    text: np.ndarray
    offsets: np.ndarray
    bits: np.ndarray
    hex: np.ndarray


def declared_names(names: list[str]) -> DeclaredNames:
    """``names`` for ``find_declared``."""
    texts = [name.encode() for name in names]
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    return DeclaredNames(np.array(list(b"".join(texts)), np.uint8), offsets, _BITS, _HEX)


@inner_kernel
def find_declared(data, begin, end, names, fields):  # type: ignore[no-untyped-def]
    """How many declared fields the object ``[begin, end)`` has, or LEFT. ``fields`` (any number, 4): of each, in their
    order, where its name begins (with the quote), where its value begins and ends, and the number of its name.
    """
    bits = names.bits
    i, level, objects, count, last_name, is_declared = begin, 0, 0, 0, -1, False
    while True:
        # A value begins at i.
        is_open = False
        byte = data[i] if i < end else 0
        if byte == _QUOTE:
            i = _end_of_string(data, i + 1, end, bits, names.hex)
        elif bits[byte] & _OPENS:
            if level == LEVELS:
                return LEFT
            level += 1
            objects = (objects << 1) | (byte == _OPEN_BRACE)
            i = _after_blanks(data, i + 1, end, bits)
            is_open = i < end and not bits[data[i]] & _CLOSES
        else:
            i = end_of_word(data, i, end)
        if i == LEFT:
            return LEFT
        # A value has ended before i, or an object or array has begun and is not empty.
        while not is_open:
            if level == 1 and is_declared:
                fields[count, 2] = i
                count += 1
                is_declared = False
            i = _after_blanks(data, i, end, bits)
            if i >= end:
                return LEFT
            byte = data[i]
            i += 1
            if byte == _COMMA:
                i = _after_blanks(data, i, end, bits)
                break
            if byte != (_CLOSE_BRACE if objects & 1 else _CLOSE_BRACKET):
                return LEFT
            level -= 1
            objects >>= 1
            if level == 0:
                return count if i == end else LEFT
        # A name begins at i, or a value of an array.
        if objects & 1:
            if i >= end or data[i] != _QUOTE:
                return LEFT
            begin_of_name = i + 1
            i = begin_of_name
            while i < end and not bits[data[i]] & _STOPS:
                i += 1
            if i >= end or data[i] != _QUOTE:
                return LEFT
            if level == 1:
                last_name = _number_of(data, begin_of_name, i, names, last_name)
                is_declared = last_name >= 0
                if is_declared:
                    if count == fields.shape[0]:
                        return LEFT
                    fields[count, 0], fields[count, 3] = begin_of_name - 1, last_name
            i = _after_blanks(data, i + 1, end, bits)
            if i >= end or data[i] != _COLON:
                return LEFT
            i = _after_blanks(data, i + 1, end, bits)
            if level == 1 and is_declared:
                fields[count, 1] = i


@inner_kernel
def copy_fields(data, fields, count, text, at):  # type: ignore[no-untyped-def]
    """Copy the declared fields that ``find_declared`` found to ``text[at:]``, as an object; where it ends there."""
    text[at] = _OPEN_BRACE
    at += 1
    for number in range(count):
        if number > 0:
            text[at] = _COMMA
            at += 1
        for copied in range(fields[number, 0], fields[number, 2]):
            text[at] = max(data[copied], _SPACE)  # a blank
            at += 1
    text[at] = _CLOSE_BRACE
    return at + 1


@inner_kernel
def _after_blanks(data, i, end, bits):  # type: ignore[no-untyped-def]
    while i < end and bits[data[i]] & _BLANK:
        i += 1
    return i


@inner_kernel
def _number_of(data, begin, end, names, last):  # type: ignore[no-untyped-def]
    """Which of the names ``[begin, end)`` is, or -1; the one behind ``last`` is looked at first, as texts repeat it."""
    offsets = names.offsets
    count = offsets.shape[0] - 1
    number = last
    for _ in range(count):
        number += 1
        if number >= count:
            number = 0
        first = offsets[number]
        if offsets[number + 1] - first == end - begin:
            i = begin
            while i < end and data[i] == names.text[first + i - begin]:
                i += 1
            if i == end:
                return number
    return -1


@inner_kernel
def _end_of_string(data, i, end, bits, hex_digits):  # type: ignore[no-untyped-def]
    """Behind the quote that ends the string of which ``i`` is the first character, or LEFT."""
    needs_low = False
    while True:
        begin = i
        while i < end and not bits[data[i]] & _STOPS:
            i += 1
        if i + 1 >= end or (needs_low and i > begin):
            return LEFT
        byte = data[i]
        if byte == _QUOTE:
            return LEFT if needs_low else i + 1
        if byte != _BACKSLASH:
            return LEFT
        if data[i + 1] != _SMALL_U:
            if needs_low or not bits[data[i + 1]] & _ESCAPES:
                return LEFT
            i += 2
            continue
        if i + 6 > end:
            return LEFT
        unit = 0
        for place in range(i + 2, i + 6):
            digit = hex_digits[data[place]]
            if digit < 0:
                return LEFT
            unit = unit * 16 + digit
        is_low = 0xDC00 <= unit < 0xE000
        if is_low != needs_low:
            return LEFT
        needs_low = 0xD800 <= unit < 0xDC00
        i += 6


@inner_kernel
def end_of_word(data, i, end):  # type: ignore[no-untyped-def]
    """Behind a number, ``true``, ``false`` or ``null`` that begins at ``i``, or LEFT."""
    if i + 4 < end and (
        (data[i] == 0x74 and data[i + 1] == 0x72 and data[i + 2] == 0x75 and data[i + 3] == 0x65)  # true
        or (data[i] == 0x6E and data[i + 1] == 0x75 and data[i + 2] == 0x6C and data[i + 3] == 0x6C)  # null
    ):
        return i + 4
    if (
        i + 5 < end
        and data[i] == 0x66
        and data[i + 1] == 0x61
        and data[i + 2] == 0x6C
        and data[i + 3] == 0x73
        and data[i + 4] == 0x65
    ):  # false
        return i + 5
    if i < end and data[i] == _MINUS:
        i += 1
    begin = i
    i = _after_digits(data, i, end)
    if i == begin or (data[begin] == _ZERO and i > begin + 1):
        return LEFT
    if i < end and data[i] == _POINT:
        begin = i + 1
        i = _after_digits(data, begin, end)
        if i == begin:
            return LEFT
    if i < end and (data[i] | 0x20) == 0x65:  # e or E
        i += 1
        if i < end and (data[i] == _MINUS or data[i] == _PLUS):
            i += 1
        begin = i
        i = _after_digits(data, i, end)
        if i == begin:
            return LEFT
    return i


@inner_kernel
def _after_digits(data, i, end):  # type: ignore[no-untyped-def]
    while i < end and _ZERO <= data[i] <= _NINE:
        i += 1
    return i
