"""Declared fields whose values are plain, straight into columns, in the pass that looks for an object's end.

Plain are ``null``, ``true``, ``false``, strings without a backslash, whole numbers of up to 18 digits, and doubles of
up to 15 digits with a power of ten up to 22. Such a double is the whole number of its digits times or divided by a
power of ten. Both are exact, so the result is the nearest double (W. D. Clinger, How to Read Floating Point Numbers
Accurately, 1990). Rule: a row is plain only if all of its declared fields are, each is there once, and each has a value
of its type. Any other row is left to the parser, which reads it or says what is wrong with it.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ...compilation.kernel_compilation import inner_kernel, long_kernel
from .declared_fields import LEFT, end_of_word

WHOLE, DOUBLE, BOOLEAN, TEXT = 1, 2, 3, 4
"""Kinds of fields that may be plain."""
PRESENT, NULL, MISSING = 0, 1, 2

_KINDS = {
    pa.int8(): WHOLE, pa.int16(): WHOLE, pa.int32(): WHOLE, pa.int64(): WHOLE,
    pa.float64(): DOUBLE, pa.bool_(): BOOLEAN, pa.string(): TEXT,
}  # fmt: skip
_WHOLE_DIGITS, _DOUBLE_DIGITS, _POWER = 18, 15, 22
_POWERS_OF_TEN = 10.0 ** np.arange(_POWER + 1)
"""All of them are exact."""

_QUOTE, _BACKSLASH, _SPACE, _MINUS, _PLUS, _POINT, _ZERO, _NINE = 0x22, 0x5C, 0x20, 0x2D, 0x2B, 0x2E, 0x30, 0x39
_SMALL_E, _SMALL_F, _SMALL_N, _SMALL_T = 0x65, 0x66, 0x6E, 0x74


class PlainColumns(NamedTuple):
    """``kinds`` uint8 (fields,): of each declared field; none where no row can be plain. ``least``, ``most`` int64
    (fields,): bounds of whole numbers. ``numbers`` int64 (fields, rows): whole numbers, booleans, and where texts
    begin; ``doubles``: the same memory as float64; ``ends`` int64 (fields, rows): of texts; ``states`` uint8 (fields,
    rows): PRESENT, NULL or MISSING. ``powers``: of ten.
    """

    kinds: np.ndarray
    least: np.ndarray
    most: np.ndarray
    numbers: np.ndarray
    doubles: np.ndarray
    ends: np.ndarray
    states: np.ndarray
    powers: np.ndarray


def plain_columns(fields: pa.StructType, rows: int) -> PlainColumns:
    """Columns of so many ``rows`` in which all is missing."""
    kinds = [_KINDS.get(field.type, 0) for field in fields]
    if 0 in kinds:
        kinds, rows = [], 0
    bounds = [
        np.iinfo(field.type.to_pandas_dtype()) if kind == WHOLE else np.iinfo(np.int64)
        for field, kind in zip(fields, kinds, strict=False)
    ]
    numbers = np.empty((len(kinds), rows), np.int64)
    return PlainColumns(
        np.array(kinds, np.uint8), np.array([each.min for each in bounds], np.int64),
        np.array([each.max for each in bounds], np.int64), numbers, numbers.view(np.float64),
        np.empty(numbers.shape, np.int64), np.full(numbers.shape, MISSING, np.uint8), _POWERS_OF_TEN,
    )  # fmt: skip


def arrays_of(columns: PlainColumns, fields: pa.StructType, data: np.ndarray) -> list[pa.Array]:
    """An array a field, of its type; texts are copied out of ``data``."""
    arrays = []
    for number, field in enumerate(fields):
        absent = columns.states[number] != PRESENT
        kind, values = columns.kinds[number], columns.numbers[number]
        if kind == TEXT:
            arrays.append(_texts(data, values, columns.ends[number], absent))
        elif kind == DOUBLE:
            arrays.append(pa.array(columns.doubles[number], mask=absent))
        else:
            # What is absent may be any number, so it is not converted.
            plain = np.where(absent, 0, values).astype(np.bool_ if kind == BOOLEAN else field.type.to_pandas_dtype())
            arrays.append(pa.array(plain, field.type, mask=absent))
    return arrays


def _texts(data: np.ndarray, begins: np.ndarray, ends: np.ndarray, absent: np.ndarray) -> pa.StringArray:
    offsets = np.zeros(len(begins) + 1, np.int32)
    np.cumsum(np.where(absent, 0, ends - begins), out=offsets[1:])
    text = np.empty(offsets[-1], np.uint8)
    _copy_texts(data, begins, offsets, text)
    validity = pa.array(~absent).buffers()[1] if absent.any() else None
    return pa.StringArray.from_buffers(len(begins), pa.py_buffer(offsets), pa.py_buffer(text), validity)


@long_kernel
def _copy_texts(data, begins, offsets, text):  # type: ignore[no-untyped-def]
    for row in range(begins.shape[0]):
        shift = begins[row] - offsets[row]
        for at in range(offsets[row], offsets[row + 1]):
            text[at] = data[at + shift]


@inner_kernel
def read_plain(data, fields, count, columns, row):  # type: ignore[no-untyped-def]
    """Read the declared fields of a row into ``columns``. ``fields`` (count, 4): as of ``find_declared``. False, and
    all is missing, where one of them is not plain.
    """
    states = columns.states
    is_plain = True
    for at in range(count):
        begin, end, field = fields[at, 1], fields[at, 2], fields[at, 3]
        is_plain = states[field, row] == MISSING  # else it is there twice
        if not is_plain:
            break
        byte, kind = data[begin], columns.kinds[field]
        if kind == TEXT and byte != _SMALL_N:
            is_plain = byte == _QUOTE and _is_plain_text(data, begin + 1, end - 1)
            columns.numbers[field, row], columns.ends[field, row] = begin + 1, end - 1
            states[field, row] = PRESENT
        elif kind == WHOLE and byte != _SMALL_N:
            is_plain = (byte == _MINUS or _ZERO <= byte <= _NINE) and _read_whole(data, begin, end, columns, field, row)
            states[field, row] = PRESENT
        else:
            is_plain = _read_word(data, begin, end, columns, field, row)
        if not is_plain:
            break
    if not is_plain:
        _forget(states, row)
    return is_plain


@inner_kernel
def read_alike(data, begin, end, like, like_end, fields, count, columns, row):  # type: ignore[no-untyped-def]
    """As ``find_declared`` and ``read_plain`` in one, for an object that has the bytes of the plain one at ``[like,
    like_end)`` but for the values of its declared fields, which ``fields`` are of. False for any other.

    Who writes a topic writes the same fields in one order, so most rows are alike.
    """
    i, same = begin, like
    for at in range(count):
        i = _after_same(data, i, end, same, fields[at, 1])
        if i != LEFT:
            i = _read_value(data, i, end, columns, fields[at, 3], row)
        if i == LEFT:
            break
        same = fields[at, 2]
    is_alike = i != LEFT and end - i == like_end - same
    while is_alike and i < end:
        is_alike = data[i] == data[same]
        i, same = i + 1, same + 1
    if not is_alike:
        _forget(columns.states, row)
    return is_alike


@inner_kernel
def _after_same(data, i, end, same, until):  # type: ignore[no-untyped-def]
    """Behind the bytes ``[same, until)``, which are at ``i`` too, with one more before ``end``; else LEFT."""
    if end - i <= until - same:
        return LEFT
    while same < until:
        if data[i] != data[same]:
            return LEFT
        i, same = i + 1, same + 1
    return i


@inner_kernel
def _read_value(data, begin, end, columns, field, row):  # type: ignore[no-untyped-def]
    """Read the value that begins at ``begin``, before ``end``; behind it, or LEFT where it is not plain."""
    byte, kind, i = data[begin], columns.kinds[field], begin
    if kind == TEXT and byte != _SMALL_N:
        i = begin + 1
        while i < end and data[i] != _QUOTE and data[i] != _BACKSLASH and data[i] >= _SPACE:
            i += 1
        columns.numbers[field, row], columns.ends[field, row] = begin + 1, i
        columns.states[field, row] = PRESENT
        return i + 1 if byte == _QUOTE and i < end and data[i] == _QUOTE else LEFT
    if kind == WHOLE and byte != _SMALL_N:
        is_negative = byte == _MINUS
        i = first = begin + is_negative
        number = np.int64(0)
        while i < end and _ZERO <= data[i] <= _NINE and i < first + _WHOLE_DIGITS:
            number = number * 10 + (np.int64(data[i]) - _ZERO)
            i += 1
        if is_negative:
            number = -number
        columns.numbers[field, row] = number
        columns.states[field, row] = PRESENT
        # More digits, a fraction or an exponent differ from what is behind the value of the other row.
        is_whole = i > first and (data[first] != _ZERO or i == first + 1)
        return i if is_whole and columns.least[field] <= number <= columns.most[field] else LEFT
    i = end_of_word(data, begin, end)
    return i if i != LEFT and _read_word(data, begin, i, columns, field, row) else LEFT


@inner_kernel
def _read_word(data, begin, end, columns, field, row):  # type: ignore[no-untyped-def]
    """``null`` of any field, ``true`` and ``false``, and doubles."""
    byte, kind = data[begin], columns.kinds[field]
    columns.states[field, row] = NULL if byte == _SMALL_N else PRESENT
    if byte == _SMALL_N:
        return True
    if kind == BOOLEAN:
        columns.numbers[field, row] = byte == _SMALL_T
        return byte in (_SMALL_T, _SMALL_F)
    return (byte == _MINUS or _ZERO <= byte <= _NINE) and _read_double(data, begin, end, columns, field, row)


@inner_kernel
def _forget(states, row):  # type: ignore[no-untyped-def]
    """No field of the row was read."""
    for field in range(states.shape[0]):
        states[field, row] = MISSING


@inner_kernel
def _is_plain_text(data, begin, end):  # type: ignore[no-untyped-def]
    i = begin
    while i < end and data[i] != _BACKSLASH:
        i += 1
    return i == end


@inner_kernel
def _read_whole(data, begin, end, columns, field, row):  # type: ignore[no-untyped-def]
    """A number by the grammar of JSON is between the bounds; False where it has a fraction, an exponent or more digits
    than are read here.
    """
    is_negative = data[begin] == _MINUS
    if is_negative:
        begin += 1
    if end - begin > _WHOLE_DIGITS:
        return False
    number = np.int64(0)
    for i in range(begin, end):
        digit = np.int64(data[i]) - _ZERO
        if digit < 0 or digit > 9:
            return False
        number = number * 10 + digit
    if is_negative:
        number = -number
    columns.numbers[field, row] = number
    return columns.least[field] <= number <= columns.most[field]


@inner_kernel
def _read_double(data, begin, end, columns, field, row):  # type: ignore[no-untyped-def]
    is_negative = data[begin] == _MINUS
    if is_negative:
        begin += 1
    digits, power, number, i = np.int64(0), np.int64(0), np.int64(0), begin
    is_fraction = False
    while i < end and (data[i] | 0x20) != _SMALL_E:
        if data[i] == _POINT:
            is_fraction = True
        else:
            number = number * 10 + (np.int64(data[i]) - _ZERO)
            digits += number > 0
            power -= is_fraction
            if digits > _DOUBLE_DIGITS:
                return False
        i += 1
    if i < end:
        i += 1
        is_divisor = data[i] == _MINUS
        if is_divisor or data[i] == _PLUS:
            i += 1
        if end - i > 2:
            return False
        exponent = np.int64(0)
        while i < end:
            exponent = exponent * 10 + (np.int64(data[i]) - _ZERO)
            i += 1
        power += -exponent if is_divisor else exponent
    if power < -_POWER or power > _POWER:
        return False
    value = np.float64(number)
    value = value / columns.powers[-power] if power < 0 else value * columns.powers[power]
    columns.doubles[field, row] = -value if is_negative else value
    return True
