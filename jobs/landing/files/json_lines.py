"""JSON lines: rows are JSON objects, one a line, or one after the other on a line, as Firehose writes them.

Owns what a row of them is. Rule: a line that is no JSON object is a bad row, and the others are whole. Where another
object begins right behind the first one of a line, each is a row, and what follows the last whole one is a bad row.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..bad_rows import BadRow
from ..file_source import TOMBSTONE, FileSource
from .blocks import BLOCK_BYTES, BLOCK_ROWS, Block
from .columns import json_value, json_with_headers
from .envelopes import ENVELOPES, NoEnvelopeError, Opened
from .format_reader import FormatReader
from .json_columns import JsonColumns
from .paths import MISSING, value_at
from .side_by_side import SideBySide
from .streams import FileSlice, opened
from .text_lines import line_chunks, line_slices, lines_as_they_stand, lines_of

if TYPE_CHECKING:
    from .reading import SliceReading


class JsonLinesReader(FormatReader):
    """Slices are ranges of bytes; the location of a row is its first byte."""

    def blocks(self, reading: "SliceReading") -> Iterator[Block]:
        return _json_blocks(reading)

    def slices(self, source: FileSource, whole: FileSlice) -> list[FileSlice]:
        # A line null deletes the key of the row before it, which another slice might have.
        return [whole] if source.null_lines == TOMBSTONE else line_slices(source, whole)

    def as_they_stand(self, source: FileSource, piece: FileSlice, bad: Sequence[BadRow]) -> list[tuple[int, bytes]]:
        return lines_as_they_stand(source, piece, bad)


def _json_blocks(reading: "SliceReading") -> Iterator[Block]:
    source, piece = reading.source, reading.piece
    wanted, rows_of, folders = source.named_columns(piece.name), _Rows(reading), source.folders_of(piece.name)
    columns_of = JsonColumns(reading, wanted)
    with opened(source, piece.name, reading.digests, reading.content) as stream:
        chunks = line_chunks(stream, piece)
        for (at, chunk), at_once in SideBySide(chunks, lambda chunk: columns_of.of_chunk(*chunk)):
            if at_once is not None:
                reading.rows += len(at_once.block.locations)
                reading.seen.update(at_once.block.columns)
                reading.columns = reading.columns or at_once.names
                yield at_once.block
                continue
            for locations, lines in lines_of(at, chunk):
                for block in rows_of.read(locations, lines):
                    reading.columns = reading.columns or (list(block.rows[0]) if block.rows else ())
                    columns = {name: _column(reading, block.rows, name, folders.get(name)) for name in wanted}
                    yield Block(columns, block.locations, block.lines, values=block.values, deleted=block.deleted)


def _column(reading: "SliceReading", rows: Sequence[dict[str, Any]], name: str, folder: str | None) -> list[Any]:
    """Values of column ``name``; that of the ``folder`` where it is not there. ``seen`` once it is in a row."""
    if "." in name:
        cells = [value_at(row, name) for row in rows]
        if any(value is not MISSING for value in cells):
            reading.seen.add(name)
        return [folder if value is MISSING else value for value in cells]
    if name not in reading.seen and any(name in row for row in rows):
        reading.seen.add(name)
    return [row.get(name, folder) for row in rows]


class _RowBlock(NamedTuple):
    """Lines that are rows. ``values``, ``deleted``: as in ``Block``."""

    locations: Sequence[int]
    lines: Sequence[bytes]
    rows: Sequence[dict[str, Any]]
    values: Sequence[Any] | None = None
    deleted: Sequence[bool] | None = None


class _Rows:
    """Rows of the lines of a slice, out of their envelopes. ``last``: that of the line before, None if it is bad."""

    def __init__(self, reading: "SliceReading") -> None:
        self._reading, self._source = reading, reading.source
        self._open = None if self._source.envelope is None else ENVELOPES[self._source.envelope]
        self._last: Opened | None = None
        # A hook at each object takes time, so only where it matters.
        self._json = json_value if self._source.headers is None else json_with_headers

    def read(self, locations: Sequence[int], lines: Sequence[bytes]) -> Iterator[_RowBlock]:
        """The others are refused."""
        try:
            rows = [self._json(line) for line in lines] if self._open is None else []
        except (ValueError, RecursionError):
            rows = []
        if len(rows) < len(lines) or any(type(row) is not dict for row in rows):
            for some_locations, some in _apart(locations, lines):
                self._reading.rows += len(some)
                yield self._one_by_one(some_locations, some)
            return
        self._reading.rows += len(lines)
        self._last = Opened(rows[-1], rows[-1])
        yield _RowBlock(locations, lines, rows)

    def _one_by_one(self, locations: Sequence[int], lines: Sequence[bytes]) -> _RowBlock:
        kept: list[tuple[int, bytes, Opened]] = []
        bad: list[BadRow] = []
        for location, line in zip(locations, lines, strict=True):
            try:
                self._last = self._row(line)
            except _NoRowError as no_row:
                self._last = None
                # The first line shows what a whole file is; to each of the others the same could be said.
                remedy = _remedy(line) if location == 0 else None
                bad.append(
                    BadRow(location, no_row.expected, f"{line[:80]!r} ({remedy})" if remedy else no_row.got, line)
                )
            else:
                kept.append((location, line, self._last))
        self._reading.refuse(bad)
        opened_rows = [each for _, _, each in kept]
        deleted = [each.value is None for each in opened_rows]
        return _RowBlock(
            [location for location, _, _ in kept],
            [line for _, line, _ in kept],
            [each.row for each in opened_rows],
            None if self._open is None else [each.value for each in opened_rows],
            deleted if any(deleted) else None,
        )

    def _row(self, line: bytes) -> Opened:
        got = repr(line[:80])
        try:
            row = self._json(line)
        except (ValueError, RecursionError) as error:
            raise _NoRowError("a JSON object", f"{got} ({error})") from error
        if row is None and self._source.null_lines == TOMBSTONE:
            if self._last is None:
                raise _NoRowError("a row before the line null, whose key it deletes", got)
            return Opened(self._last.row, None)
        if not isinstance(row, dict):
            raise _NoRowError("a JSON object", got)
        if self._open is None:
            return Opened(row, row)
        try:
            return self._open(row)
        except NoEnvelopeError as error:
            raise _NoRowError(error.expected, got) from error


_BETWEEN = " \t\r\ufeff"
"""What may be between objects of a line: of files that were joined, the second may begin with a byte order mark."""
_NEXT_OBJECT = re.compile(rb"\}(?:[ \t\r]|\xef\xbb\xbf)*\{")
_BLANK = re.compile(f"[{_BETWEEN}]*")
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)
"""Of texts of which only the end is asked for."""


def _remedy(line: bytes) -> str | None:
    """What makes lines of a file that begins so, where it is one of an array, of objects of several lines, or of
    another encoding.
    """
    if not (encoding := json.detect_encoding(line).upper()).startswith("UTF-8"):
        return f"text of {encoding}; iconv -t UTF-8 writes it in the encoding of JSON lines"
    if line.lstrip().startswith(b"["):
        return "an array; jq -c '.[]' makes a line of each of its objects"
    if line.strip() == b"{":
        return "an object of several lines; jq -c . makes one line of each"
    return None


def _apart(locations: Sequence[int], lines: Sequence[bytes]) -> Iterator[tuple[list[int], list[bytes]]]:
    """Objects of a line one by one, so many at a time, with the bytes at which they begin; other lines as they are."""
    some_locations: list[int] = []
    some: list[bytes] = []
    size = 0
    for location, line in zip(locations, lines, strict=True):
        for begin, part in _objects(line) if _NEXT_OBJECT.search(line) else [(0, line)]:
            some_locations.append(location + begin)
            some.append(part)
            size += len(part)
            if len(some) >= BLOCK_ROWS or size >= BLOCK_BYTES:
                yield some_locations, some
                some_locations, some, size = [], [], 0
    if some:
        yield some_locations, some


def _objects(line: bytes) -> Iterator[tuple[int, bytes]]:
    """(byte at which it begins, object) of a line that begins with two objects, and what is behind the last whole one;
    any other line as it is.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError:
        yield 0, line
        return
    at, byte = 0, 0
    while at < len(text):
        end = _end_of_object(text, at)
        if end is None or (at == 0 and text[end : end + 1] != "{"):
            yield byte, text[at:].encode()
            return
        part = text[at:end].rstrip(_BETWEEN).encode()
        yield byte, part
        byte += len(text[at:end].encode())
        at = end


def _end_of_object(text: str, at: int) -> int | None:
    """Behind the object that begins at ``at`` and the blanks that follow it; None where none does."""
    if text[at] != "{":
        return None
    try:
        _, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None
    blank = _BLANK.match(text, end)
    return end if blank is None else blank.end()


class _NoRowError(Exception):
    """A line is no row: what was ``expected``, ``got``."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(expected, got)
        self.expected, self.got = expected, got
