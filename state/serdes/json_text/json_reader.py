"""JSON objects into columns: plain values in our own pass, others by Arrow's parser; every refused row is reported.

Rule, for a record's value (a JSON text, RFC 8259, in UTF-8):

- exactly one object, white space around it allowed; no bytes, ``null``, an array, two objects, a byte order mark: bad
- a declared field that is missing or ``null`` is null; a field that is not declared is ignored, whatever it holds
- a declared field that occurs twice is bad; one that is not declared may
- string: a JSON string. byte, short, int, long: digits without fraction or exponent, in range. boolean: true, false
- double: any JSON number that is not too big, rounded to the nearest double; also NaN, Infinity, -Infinity, as Python's
  clients write them, and Inf (which value_reader does not take)
- what JSON has no form for (decimals, dates, times, binary, …): as spelled_types says; maps: as value_reader says
- array, struct: a JSON array, object, whose elements and fields follow the same rule; elements may be null
- a value of another type (a number for a string, 1.0 for a long, …) makes the whole row bad; nothing is converted

Which rows are bad is Arrow's verdict on that row alone (after json_scan's), never that of its neighbours in a chunk.
A row with a number beyond what Arrow's parser can hold is read by value_reader instead. With many digits or a large
exponent Arrow's decimals come out wrong, or end the process, and a large number refuses a row that ignores it.
"""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from ...buffers import binary_view, is_valid
from ..codec import Decoded
from ..text import invalid_utf8
from . import json_scan
from .json_schema import type_text
from .plain_fields import arrays_of
from .spelled_types import has_decimal, has_map, read_spelled, spelled_as
from .value_reader import read_values

_PIECE_BYTES = 64 * 1024 * 1024
"""Text handed to the parser at once: its block size is an int32, and strings of a block have int32 offsets."""
_ONE_BY_ONE = 4
"""Pieces of so few rows are not halved again: a call costs 90 µs whatever its size."""

_FAR_NUMBERS = "|".join([
    r"\d{39}",
    r"\d{19}[\d.]*[eE]",
    r"""[\s",:\[][+-]?[\d.]+[eE][+-]?0*([2-9]\d|\d{3,})[\s",\]}]""",
    r'"[\d.eE+-]*\\u00[2-6]',
])  # fmt: skip
"""What a text has, by RE2, if a number in it may be beyond Arrow's decimals, or a string that hides its digits. These
have 76 digits, 38 of them behind the point, and powers of ten up to 76. Other texts may have it, too.
"""
_INFINITE = r"\d{309}"
"""What a text has, if a whole number in it is infinite to Arrow's doubles."""
_TOO_BIG = "too big to be stored in double"

_ROW = re.compile(r" in row (\d+)$")
_CHANGED = re.compile(r"Column\(/?(.*)\) changed from (\w+) to (\w+)")
_TWICE = re.compile(r"Column\(/(.*)\) was specified twice")
_COULD_NOT = re.compile(r"Failed to convert JSON to (\w+), couldn't parse:(.*)", re.DOTALL)
_ARROW_NAMES = {
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(), "double": pa.float64()
}  # fmt: skip


def read_json(binary: pa.BinaryArray, arrow_type: pa.DataType) -> Decoded:
    """Column of ``arrow_type`` out of JSON texts; null rows stay null."""
    if not pa.types.is_struct(arrow_type) or has_map(arrow_type):
        return read_values(binary, arrow_type)
    none = np.zeros(len(binary), np.bool_)
    is_far = _matching(binary, _FAR_NUMBERS) if has_decimal(arrow_type) else none
    decoded = _read_by_arrow(binary, arrow_type, is_far)
    if _has_infinity(decoded.values):
        is_far |= _matching(binary, _INFINITE) & ~decoded.bad
    is_far[[row for row, why in decoded.reasons.items() if why.endswith(_TOO_BIG)]] = True
    return _with_rows(decoded, np.flatnonzero(is_far), binary, arrow_type) if is_far.any() else decoded


def _matching(binary: pa.BinaryArray, pattern: str) -> np.ndarray:
    return np.array(pc.fill_null(pc.match_substring_regex(binary, pattern), False))


def _has_infinity(values: pa.Array) -> bool:
    if pa.types.is_struct(values.type):
        return any(map(_has_infinity, values.flatten()))
    if pa.types.is_list(values.type):
        return _has_infinity(values.flatten())
    return pa.types.is_floating(values.type) and bool(pc.any(pc.is_inf(values)).as_py())


def _with_rows(decoded: Decoded, rows: np.ndarray, binary: pa.BinaryArray, arrow_type: pa.StructType) -> Decoded:
    """``decoded`` with these ``rows`` read one by one."""
    read = read_values(binary.take(pa.array(rows)), arrow_type)
    indices = np.arange(len(binary))
    indices[rows] = len(binary) + np.arange(len(rows))
    values = pa.concat_arrays([decoded.values, read.values]).take(pa.array(indices))
    decoded.bad[rows] = read.bad
    reasons = {row: why for row, why in decoded.reasons.items() if decoded.bad[row]}
    reasons |= {int(rows[row]): why for row, why in read.reasons.items()}
    return Decoded(values, decoded.bad, dict(sorted(reasons.items())))


def _read_by_arrow(binary: pa.BinaryArray, arrow_type: pa.StructType, skip: np.ndarray) -> Decoded:
    """Of rows in ``skip`` nothing is read."""
    spelled = spelled_as(arrow_type)
    decoded = _read_objects(binary, spelled, arrow_type, skip)
    if spelled == arrow_type:
        return decoded
    values, more = read_spelled(decoded.values, arrow_type)
    if not more:
        return Decoded(values, decoded.bad, decoded.reasons)
    decoded.bad[list(more)] = True
    values = values.take(pa.array(np.arange(len(binary)), mask=decoded.bad))
    return Decoded(values, decoded.bad, dict(sorted((more | decoded.reasons).items())))


def _read_objects(
    binary: pa.BinaryArray, arrow_type: pa.StructType, declared: pa.StructType, skip: np.ndarray
) -> Decoded:
    valid, reasons = is_valid(binary), invalid_utf8(binary)
    skip = skip | ~valid
    skip[list(reasons)] = True
    view = binary_view(binary)
    scan = json_scan.scan_objects(view.data, view.offsets, skip, arrow_type)
    reasons |= {int(row): json_scan.REASONS[int(scan.faults[row])] for row in np.flatnonzero(scan.faults)}
    lines = _Lines(scan.text, scan.starts, pa.schema(list(arrow_type)), pa.schema(list(declared)))
    columns = lines.read()
    reasons |= {int(scan.rows[line]): why for line, why in lines.reasons.items()}
    if len(scan.rows) < len(binary):
        columns = _with_lines(arrays_of(scan.plain, arrow_type, view.data), scan.rows, columns)
    bad = np.zeros(len(binary), np.bool_)
    bad[list(reasons)] = True
    values = pa.StructArray.from_arrays(columns, fields=list(arrow_type), mask=pa.array(bad | ~valid))
    return Decoded(values, bad, dict(sorted(reasons.items())))


def _with_lines(plain: list[pa.Array], rows: np.ndarray, lines: list[pa.Array]) -> list[pa.Array]:
    """Columns in which ``rows`` have the values of ``lines``, and all others those of ``plain``."""
    if not len(rows):
        return plain
    indices = np.arange(len(plain[0]))
    indices[rows] = len(indices) + np.arange(len(rows))
    taken = pa.array(indices)
    return [pa.concat_arrays([own, line]).take(taken) for own, line in zip(plain, lines, strict=True)]


class _Lines:
    """Lines of one object each, read by pieces; bad lines are blanked on the way and get a reason. ``declared``: what
    the reason says was expected.
    """

    def __init__(self, text: np.ndarray, starts: np.ndarray, schema: pa.Schema, declared: pa.Schema) -> None:
        self.text, self.starts, self.schema, self.declared = text, starts, schema, declared
        self.reasons: dict[int, str] = {}

    def read(self) -> list[pa.Array]:
        """One array a declared field, one element a line."""
        rows = len(self.starts) - 1
        tables, begin = [], 0
        while begin < rows:
            piece_end = self.starts[begin] + _PIECE_BYTES
            end = max(begin + 1, int(np.searchsorted(self.starts, piece_end, side="right")) - 1)
            tables.append(self.read_piece(begin, end))
            begin = end
        whole = pa.concat_tables(tables) if tables else self.schema.empty_table()
        assert whole.num_rows == rows
        return [column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in whole.columns]

    def read_piece(self, begin: int, end: int) -> pa.Table:
        """Lines ``[begin, end)``; its bad lines are null in every field."""
        for repair in self.blank_unparsable, self.blank_bad:
            try:
                return self.parse(begin, end)
            except pa.ArrowInvalid:
                repair(begin, end)
        return self.parse(begin, end)

    def blank_unparsable(self, begin: int, end: int) -> None:
        """Blank the lines that the parser names, one after the other; what it cannot name is left to blank_bad."""
        while begin < end:
            try:
                self.parse(begin, end)
            except pa.ArrowInvalid as error:
                named = _ROW.search(str(error))
                if named is None:
                    return
                row = begin + int(named[1])
                assert begin <= row < end
                self.blank_row(row, error)
                begin = row + 1
            else:
                return

    def blank_bad(self, begin: int, end: int) -> None:
        """Halve until the bad lines are alone, and blank these."""
        try:
            self.parse(begin, end)
        except pa.ArrowInvalid as error:
            if end - begin == 1:
                self.blank_row(begin, error)
                return
            step = 1 if end - begin <= _ONE_BY_ONE else -(-(end - begin) // 2)
            for at in range(begin, end, step):
                self.blank_bad(at, min(at + step, end))

    def blank_row(self, row: int, error: pa.ArrowInvalid) -> None:
        assert row not in self.reasons, "an empty object was refused"
        self.reasons[row] = _sentence(str(error), self.declared)
        json_scan.blank(self.text, int(self.starts[row]), int(self.starts[row + 1]))

    def parse(self, begin: int, end: int) -> pa.Table:
        """Arrow's reading of the lines; raises ArrowInvalid when one of them is bad."""
        text = self.text[self.starts[begin] : self.starts[end]]
        # One block, so that row numbers in errors count from its begin and nothing is cut between two blocks.
        table = pa.json.read_json(
            pa.BufferReader(pa.py_buffer(text)),
            pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            pa.json.ParseOptions(
                explicit_schema=self.schema, newlines_in_values=False, unexpected_field_behavior="ignore"
            ),
        )
        assert table.num_rows == end - begin, f"{end - begin} lines gave {table.num_rows} objects"
        assert table.schema.equals(self.schema), table.schema
        return table


def _sentence(message: str, schema: pa.Schema) -> str:
    """Arrow's message in our words: expected, got."""
    if changed := _CHANGED.search(message):
        path = changed[1].replace("/[]", "[]").replace("/", ".")
        return f"field {path}: expected {_declared(changed[1], schema)}, got {_with_article(changed[3])}"
    if twice := _TWICE.search(message):
        return f"field {twice[1].replace('/', '.')}: expected once, got twice"
    if could_not := _COULD_NOT.search(message):
        expected = type_text(_ARROW_NAMES[could_not[1]]) if could_not[1] in _ARROW_NAMES else could_not[1]
        return f"expected {_with_article(expected)}, got {could_not[2][:40]}"
    fault = _ROW.sub("", message).removeprefix("JSON parse error: ").rstrip(".")
    return f"expected JSON, got a fault: {fault[:1].lower()}{fault[1:]}"


def _declared(path: str, schema: pa.Schema) -> str:
    """What the schema says of a field, named by Arrow's ``place/lat`` or ``tags/[]``."""
    arrow_type: pa.DataType = pa.struct(list(schema))
    for step in path.split("/"):
        is_element = step == "[]" and pa.types.is_list(arrow_type)
        if not is_element and not (pa.types.is_struct(arrow_type) and arrow_type.get_field_index(step) >= 0):
            return "another type"  # a name with a slash in it
        arrow_type = arrow_type.value_type if is_element else arrow_type.field(step).type
    if pa.types.is_struct(arrow_type):
        return "an object"
    return "an array" if pa.types.is_list(arrow_type) else _with_article(type_text(arrow_type))


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
