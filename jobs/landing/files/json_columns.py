"""Columns of JSON lines, all lines of a chunk at once, where Arrow's reader finds in them what Python's finds.

Owns when that is so. Rule: a chunk becomes the block that the reader of single lines would make of it, or none. Then
that reader takes it. Lines that are no object, fractions, nested values and half surrogate pairs are read by it. Every
line is one object: all begin with a brace and end with one, and Arrow finds as many objects as there are lines.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from ..file_source import TOMBSTONE
from .blocks import Block
from .columns import json_value
from .text_lines import line_ends

if TYPE_CHECKING:
    from .reading import SliceReading

_LOOKED_AT = 20
"""Lines of a chunk by which the types of its columns are chosen."""
_NESTED_MOST = 400
"""Braces and brackets of a line; Python's reader refuses objects that are nested deeper than some 1,000."""
_TYPES: dict[type, pa.DataType] = {str: pa.string(), int: pa.int64()}


class ColumnsOfChunk(NamedTuple):
    """What the lines of a chunk are; ``names``: of the fields of the first."""

    block: Block
    names: Sequence[str]


class JsonColumns:
    """Makes blocks of chunks of lines, of several at once; ``wanted``: columns that the mapping names."""

    def __init__(self, reading: "SliceReading", wanted: Sequence[str]) -> None:
        source = reading.source
        self._wanted = wanted
        self._can_be = (
            source.envelope is None
            and source.null_lines != TOMBSTONE
            and not source.json_types
            and not any("." in name for name in wanted)
        )
        self._of_folders = [name for name in wanted if name in source.folders_of(reading.piece.name)]

    def of_chunk(self, at: int, chunk: bytes) -> ColumnsOfChunk | None:
        """The lines of ``chunk``, which begins at byte ``at`` of the file; None where they have to be read one by
        one.
        """
        if not self._can_be or chunk[:1] != b"{" or b"\0" in chunk:
            return None
        starts, ends = line_ends(chunk)
        data = np.frombuffer(chunk, np.uint8)
        if (ends - starts < 2).any() or (data[starts] != ord("{")).any() or (data[ends - 1] != ord("}")).any():
            return None
        lines = _texts_between(chunk, starts, ends)
        # A level takes two bytes of its line at least, so shorter lines are not counted.
        if lines is None or ((ends - starts).max() > 2 * _NESTED_MOST and _is_nested_deeply(lines)):
            return None
        try:
            looked_at = [json_value(text) for text in lines[:_LOOKED_AT].to_pylist()]
        except (ValueError, RecursionError):
            return None
        columns = self._columns(chunk, lines, looked_at)
        if columns is None:
            return None
        block = Block(columns, (starts + at).tolist(), lines.cast(pa.binary()), is_typed=False)
        return ColumnsOfChunk(block, list(looked_at[0]))

    def _columns(
        self, chunk: bytes, lines: pa.StringArray, looked_at: Sequence[dict[str, Any]]
    ) -> dict[str, pa.Array] | None:
        schema = _schema(looked_at, self._wanted)
        if schema is None:
            return None
        # One block: Arrow refuses an object that is longer than one.
        read = pyarrow.json.ReadOptions(use_threads=False, block_size=len(chunk) + 1)
        parse = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        try:
            table = pyarrow.json.read_json(pa.BufferReader(chunk), read_options=read, parse_options=parse)
            columns = {name: table.column(name).combine_chunks() for name in self._wanted}
            for column in columns.values():
                column.validate(full=True)
        except pa.ArrowException:
            return None
        if len(table) != len(lines) or any(columns[name].null_count for name in self._of_folders):
            return None  # Arrow does not say whether a row has the name, with null, or lacks it
        return columns


def _schema(rows: Sequence[dict[str, Any]], wanted: Sequence[str]) -> pa.Schema | None:
    """Types of columns by the first value of each in ``rows``; None where one is neither text nor an integer."""
    fields = []
    for name in wanted:
        first = next((row[name] for row in rows if row.get(name) is not None), None)
        if type(first) not in _TYPES:
            return None
        fields.append((name, _TYPES[type(first)]))
    return pa.schema(fields)


def _is_nested_deeply(lines: pa.StringArray) -> bool:
    nested = pc.add(pc.count_substring(lines, "{"), pc.count_substring(lines, "["))
    return bool(pc.max(nested).as_py() > _NESTED_MOST)


def _texts_between(chunk: bytes, starts: np.ndarray, ends: np.ndarray) -> pa.StringArray | None:
    """The lines of ``chunk``; None where they are not UTF-8."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - starts)]).astype(np.int32)
    text = pa.py_buffer(chunk.replace(b"\n", b""))
    lines = pa.Array.from_buffers(pa.string(), len(starts), [None, pa.py_buffer(offsets), text])
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return lines
