"""One JSON object a row: plain values straight into columns, any other row laid out as a line, in one pass over the
bytes.

Owns the answer to "is row i the i-th object that the parser will see?". Rule: a line goes to the parser only if its
brackets open at its first byte and close at its last and nowhere between, counting brackets outside of strings only.
Any other row is left out (its line is ``{}``) and flagged. Why that is enough: as long as a parser finds no error, it
agrees with this scan about which bytes are inside strings. (A quote outside a string begins one, a backslash inside one
escapes the next byte.) So the object that it begins with a line ends with that line. If it finds an error, nothing of
what it read is used. Top-level values other than objects, which make pyarrow's parser crash, never reach it.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ...compilation.kernel_compilation import inner_kernel, long_kernel
from .declared_fields import LEFT, DeclaredNames, copy_fields, declared_names, find_declared
from .plain_fields import PlainColumns, plain_columns, read_alike, read_plain

FINE, EMPTY, NO_OBJECT, CUT, MORE, CONTROL = 0, 1, 2, 3, 4, 5
REASONS = {
    EMPTY: "expected a JSON object, got nothing",
    NO_OBJECT: "expected a JSON object, got text that does not begin with {",
    CUT: "expected a whole JSON object, got one that is cut off",
    MORE: "expected one JSON object, got more after its end",
    CONTROL: "expected JSON, got a raw control character inside a string",
}

_QUOTE, _BACKSLASH, _SPACE, _NEWLINE = 0x22, 0x5C, 0x20, 0x0A
_OPEN_BRACE, _CLOSE_BRACE = 0x7B, 0x7D
_LOOKED_AT = 64
"""Of so many rows one is looked into where it was not worth it."""
_WORTH, _MISS = 16, 2
"""Looking into a row is worth it while this score is above 0; each row for which it was not takes so much off."""
_AGAIN = 4
"""So many declared fields may be there a second time; a row with more of them is left as it is."""
_KIND = np.zeros(256, np.uint8)
"""0: nothing to note; 1: quote; 2: opens; 3: closes; 4: end of line."""
_KIND[_QUOTE] = 1
_KIND[[_OPEN_BRACE, ord("[")]] = 2
_KIND[[_CLOSE_BRACE, ord("]")]] = 3
_KIND[[_NEWLINE, ord("\r")]] = 4


class Scan(NamedTuple):
    """``text`` uint8: a line for each of the ``rows`` (int64, rising) that the parser is to read, each ended by one
    newline, no other newline in it. ``starts`` int64, lines + 1. ``faults`` uint8: by row FINE or a key of REASONS.
    ``plain``: the rows that have no line; null where they are skipped or have a fault. Its kinds are empty where every
    row has a line, which is ``{}`` then.
    """

    text: np.ndarray
    starts: np.ndarray
    rows: np.ndarray
    faults: np.ndarray
    plain: PlainColumns


def scan_objects(data: np.ndarray, offsets: np.ndarray, skip: np.ndarray, fields: pa.StructType) -> Scan:
    """Scan the rows ``data[offsets[i]:offsets[i + 1]]`` but for those in ``skip``. What is certain to be none of the
    declared ``fields`` is left out.
    """
    rows = len(skip)
    text = np.empty(int(offsets[-1] - offsets[0]) + 3 * rows, np.uint8)
    starts, numbers, faults = np.empty(rows + 1, np.int64), np.empty(rows, np.int64), np.zeros(rows, np.uint8)
    places = np.empty((len(fields) + _AGAIN, 4), np.int64)
    plain = plain_columns(fields, rows)
    names = declared_names(fields.names)
    lines = _scan(data, offsets, skip, _KIND, tuple(names), tuple(plain), places, text, starts, numbers, faults)
    return Scan(text[: starts[lines]], starts[: lines + 1], numbers[:lines], faults, plain)


def blank(text: np.ndarray, start: int, end: int) -> None:
    """Make the line at ``[start, end)``, its newline included, an empty object."""
    text[start : end - 1] = _SPACE
    text[start], text[end - 2] = _OPEN_BRACE, _CLOSE_BRACE


@long_kernel
def _scan(data, offsets, skip, kind, names, plain, places, text, starts, numbers, faults):  # type: ignore[no-untyped-def]
    """The number of lines."""
    names, plain = DeclaredNames(*names), PlainColumns(*plain)
    may_be_plain = plain.kinds.shape[0] > 0
    at, lines, score = 0, 0, _WORTH
    like, like_end, count, alike = 0, 0, LEFT, _WORTH  # the last plain row that was not like the one before it
    for row in range(skip.shape[0]):
        begin, end = offsets[row], offsets[row + 1]
        while begin < end and _is_blank(data[begin]):
            begin += 1
        while begin < end and _is_blank(data[end - 1]):
            end -= 1
        copied = LEFT
        if skip[row]:
            fault = -1
        elif begin == end:
            fault = EMPTY
        elif data[begin] != _OPEN_BRACE:
            fault = NO_OBJECT
        else:
            fault = FINE
            # Looking into a row in vain costs more than copying all of it, and neighbours are alike.
            if score > 0 or row % _LOOKED_AT == 0:
                if count != LEFT and (alike > 0 or row % _LOOKED_AT == 0):
                    if read_alike(data, begin, end, like, like_end, places, count, plain, row):
                        score, alike = min(score + 1, _WORTH), min(alike + 1, _WORTH)
                        continue
                    alike = max(alike - _MISS, 0)
                count = find_declared(data, begin, end, names, places)
                if count != LEFT and may_be_plain and read_plain(data, places, count, plain, row):
                    score, like, like_end = min(score + 1, _WORTH), begin, end
                    continue
                if count != LEFT:
                    copied = copy_fields(data, places, count, text, at)
                count = LEFT
                is_worth_it = copied != LEFT and (copied - at) * 4 < (end - begin) * 3
                score = min(score + 1, _WORTH) if is_worth_it else max(score - _MISS, 0)
            if copied == LEFT:
                fault = _copy_object(data, begin, end, kind, text, at)
                copied = at + end - begin
        faults[row] = max(fault, 0)
        if fault != FINE and may_be_plain:
            continue
        starts[lines], numbers[lines] = at, row
        lines += 1
        if fault == FINE:
            at = copied
        else:
            text[at], text[at + 1] = _OPEN_BRACE, _CLOSE_BRACE
            at += 2
        text[at] = _NEWLINE
        at += 1
    starts[lines] = at
    return lines


@inner_kernel
def _copy_object(data, begin, end, kind, text, at):  # type: ignore[no-untyped-def]
    """Copy ``[begin, end)`` to ``text[at:]`` as one line; the fault that stopped it, or FINE."""
    depth = 0
    shift = at - begin
    i = begin
    while i < end:
        byte = data[i]
        text[i + shift] = byte
        i += 1
        what = kind[byte]
        if what == 0:
            continue
        if what == 1:
            is_open = True
            while i < end:
                byte = data[i]
                text[i + shift] = byte
                i += 1
                if byte == _QUOTE:
                    is_open = False
                    break
                if byte == _BACKSLASH and i < end:
                    byte = data[i]
                    text[i + shift] = byte
                    i += 1
                if byte < _SPACE:
                    return CONTROL
            if is_open:
                return CUT
        elif what == 2:
            depth += 1
        elif what == 3:
            depth -= 1
            if depth <= 0 and i < end:
                return MORE
        else:
            text[i - 1 + shift] = _SPACE
    return FINE if depth == 0 else CUT


@inner_kernel
def _is_blank(byte):  # type: ignore[no-untyped-def]
    return byte == _SPACE or (0x09 <= byte <= _NEWLINE) or byte == 0x0D
