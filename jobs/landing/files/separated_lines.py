"""Lines with separators and without quotes, as kcat -f and Kafka's console consumer write them.

Owns the cut of a line into cells. Rule: cells are what is between separators, with quotes; the last one is the rest of
the line, whatever it has. What the console consumer puts before a time, a partition or an offset is cut, and the type
before a time is the record's. Its forms are those of Kafka's DefaultMessageFormatter.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..bad_rows import BadRow
from ..file_source import TYPE_BEFORE_TIME, FileSource
from .blocks import Block, check_columns
from .format_reader import FormatReader
from .streams import FileSlice, opened
from .text_cells import TextCells
from .text_lines import line_blocks, line_slices, lines_as_they_stand

if TYPE_CHECKING:
    from .reading import SliceReading

_PARTITION, _OFFSET = "Partition:", "Offset:"
_CREATE_TIME, _APPEND_TIME = "CreateTime", "LogAppendTime"
_NO_HEADERS = "NO_HEADERS"
"""kcat writes nothing."""
_HEADER = re.compile(r"([^:=]*)([:=])(.*)", re.DOTALL)
"""``name:value`` of the console consumer, ``name=value`` of kcat."""


class SeparatedLinesReader(FormatReader):
    """Slices are ranges of bytes; the location of a row is its first byte."""

    def blocks(self, reading: "SliceReading") -> Iterator[Block]:
        source, piece = reading.source, reading.piece
        names = source.columns or ()
        check_columns(source, piece.name, names)
        reading.seen.update(names)
        reading.columns = names
        written = _WrittenCells(source, names)
        cells = TextCells(reading, written.names)
        with opened(source, piece.name, reading.digests, reading.content) as stream:
            for locations, lines in line_blocks(stream, piece, blank=b"\r\n", is_json=False):
                reading.rows += len(lines)
                kept: list[tuple[int, bytes, list[str]]] = []
                bad: list[BadRow] = []
                for location, line in zip(locations, lines, strict=True):
                    row = _row(source, location, line, len(names))
                    if isinstance(row, BadRow):
                        bad.append(row)
                    else:
                        kept.append((location, line, written.plain(row)))
                reading.refuse(bad)
                if kept:
                    of_lines = [line for _, line, _ in kept]
                    block = cells.block([location for location, _, _ in kept], [row for _, _, row in kept], of_lines)
                    yield replace(block, whole=names)

    def slices(self, source: FileSource, whole: FileSlice) -> list[FileSlice]:
        return line_slices(source, whole)

    def as_they_stand(self, source: FileSource, piece: FileSlice, bad: Sequence[BadRow]) -> list[tuple[int, bytes]]:
        return lines_as_they_stand(source, piece, bad)


def _row(source: FileSource, location: int, line: bytes, width: int) -> list[str] | BadRow:
    try:
        cells = line.decode(source.encoding).split(source.delimiter, width - 1)
    except UnicodeDecodeError as error:
        return BadRow(location, f"a line in {source.encoding}", f"{line[:80]!r} ({error.reason})", line)
    return cells if len(cells) == width else BadRow(location, f"{width} fields", f"{len(cells)} fields", line)


class _WrittenCells:
    """Cells as the two tools write them; ``names``: of the columns that ``plain`` makes of them."""

    def __init__(self, source: FileSource, names: Sequence[str]) -> None:
        self._nulls = source.nulls
        ordered = source.order_by or ()
        before = [(source.partition, _PARTITION), (source.offset, _OFFSET)]
        before += [(name, text) for name in ordered for text in (_PARTITION, _OFFSET)]
        self._numbers = [(names.index(name), text) for name, text in before if name in names]
        self._time, self._headers = (
            names.index(name) if name in names else None for name in (source.timestamp, source.headers)
        )  # None: none, or in the path
        self._has_types = self._time is not None and source.timestamp_type is None
        self.names = [*names, TYPE_BEFORE_TIME] if self._has_types else names

    def plain(self, row: list[str]) -> list[str]:
        """``row`` without what is before its numbers and times, and with the type of its time as one more cell."""
        kind = _CREATE_TIME
        for at, before in self._numbers:
            row[at] = row[at].removeprefix(before)
        if self._headers is not None:
            row[self._headers] = _headers(row[self._headers], self._nulls)
        if self._time is not None:
            before, _, time = row[self._time].partition(":")
            if before in (_CREATE_TIME, _APPEND_TIME):
                kind, row[self._time] = before, time
        return [*row, kind] if self._has_types else row


def _headers(cell: str, nulls: Sequence[str]) -> str:
    """Headers as JSON, names and values in turn; text of no form of the two tools as it is."""
    if cell in ("", _NO_HEADERS):
        return "[]"
    pairs = [_HEADER.fullmatch(part) for part in cell.split(",")]
    separators = {None if pair is None else pair[2] for pair in pairs}
    if cell.startswith(("[", "{")) or None in separators or len(separators) > 1:
        return cell
    headers = [(pair[1], None if pair[3] in nulls else pair[3]) for pair in pairs if pair is not None]
    return json.dumps([part for pair in headers for part in pair])
