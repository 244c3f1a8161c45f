"""CSV: rows are lines of text with separators; a quoted field may hold line ends.

Owns the blocks of its rows. Rule: chunks of lines become columns at once up to the first that cannot, then rows are
read in blocks; from the block of the file's first error on row by row.
"""

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..bad_rows import BadRow
from ..file_source import FileSource
from .blocks import BLOCK_BYTES, BLOCK_ROWS, Block, check_columns
from .csv_columns import can_have_columns, csv_columns
from .csv_rows import a_csv_row, csv_reader, csv_rows, csv_text
from .format_reader import FormatReader
from .side_by_side import SideBySide
from .streams import FileSlice, opened
from .text_cells import TextCells
from .text_lines import line_chunks

if TYPE_CHECKING:
    from .reading import SliceReading


class CsvReader(FormatReader):
    """A file is one slice; the location of a row is its number from 0, that of the header line."""

    def blocks(self, reading: "SliceReading") -> Iterator[Block]:
        return _csv_blocks(reading)

    def slices(self, source: FileSource, whole: FileSlice) -> list[FileSlice]:
        return [whole]

    def as_they_stand(self, source: FileSource, piece: FileSlice, bad: Sequence[BadRow]) -> list[tuple[int, bytes]]:
        wanted = {row.location for row in bad}
        rows = ((row.number, (row.line, row.raw)) for row in csv_rows(source, piece.name) if row.number in wanted)
        return [raw for _, raw in islice(rows, len(wanted))]


def _csv_blocks(reading: "SliceReading") -> Iterator[Block]:
    columns_of = _Columns(reading)
    number = 0
    try:
        with opened(reading.source, reading.piece.name, reading.digests, reading.content) as stream:
            chunks = SideBySide(line_chunks(stream, reading.piece), lambda chunk: columns_of.rows(*chunk))
            for (at, chunk), rows in chunks:
                # Then by rows to the end of the file: a chunk may end within
                # quotes, and its successor does not show where a row begins.
                if rows is None:
                    rest: Any = io.BufferedReader(_Behind(chunk, chunks.rest()))
                    for locations, some in _row_blocks(reading.source, rest, number, is_first=at == 0):
                        yield from columns_of.of_rows(locations, some)
                        number = locations.stop
                    return
                yield from columns_of.of_columns(number, rows)
                number += len(rows[0])
    except (csv.Error, UnicodeDecodeError):
        # Read again from the first byte, since only reading finds
        # where rows begin; those that were yielded are left out.
        for numbers, some in _csv_good_rows(reading, number):
            yield from columns_of.of_rows(numbers, some)


class _Columns:
    """Makes blocks of rows; ``names`` of the columns, which the header line has where the source does not say them."""

    def __init__(self, reading: "SliceReading") -> None:
        self._reading, self._source = reading, reading.source
        self._names = reading.source.columns
        self._cells: TextCells | None = None

    def rows(self, at: int, chunk: bytes) -> list[pa.StringArray] | None:
        """Columns of a chunk that begins at byte ``at``, the header line among them; None: read it by rows."""
        if not can_have_columns(self._source):
            return None
        if at == 0:
            chunk = chunk.removeprefix(codecs.BOM_UTF8)
        if not chunk:
            return None
        names = self._names
        if names is None:
            try:
                text = chunk[: chunk.find(b"\n") + 1 or None].decode()
                names = next(csv_reader(self._source, iter([text])))
            except (csv.Error, UnicodeDecodeError):
                return None
        return csv_columns(self._source, chunk, len(names)) if names else None

    def of_columns(self, number: int, columns: list[pa.StringArray]) -> Iterator[Block]:
        """Of rows from ``number`` on."""
        if self._names is None:
            self._names = tuple(column[0].as_py() for column in columns)
            number, columns = number + 1, [column[1:] for column in columns]
        rows = len(columns[0])
        self._reading.rows += rows
        cells = self._begun(self._names)
        if rows:
            yield cells.block_of_columns(range(number, number + rows), columns)

    def of_rows(self, locations: Sequence[int], rows: list[list[str]]) -> Iterator[Block]:
        """Of rows with these numbers; those that are not as wide as the header are refused."""
        if self._names is None:
            self._names, rows, locations = tuple(rows[0]), rows[1:], locations[1:]
        names, reading = self._names, self._reading
        reading.rows += len(rows)
        cells = self._begun(names)
        if any(len(fields) != len(names) for fields in rows):
            expected = f"{len(names)} fields"
            numbered = list(zip(locations, rows, strict=True))
            reading.refuse([BadRow(p, expected, f"{len(row)} fields") for p, row in numbered if len(row) != len(names)])
            whole = [(p, row) for p, row in numbered if len(row) == len(names)]
            locations, rows = [p for p, _ in whole], [row for _, row in whole]
        if rows:
            yield cells.block(locations, rows)

    def _begun(self, names: tuple[str, ...]) -> TextCells:
        if self._cells is None:
            check_columns(self._source, self._reading.piece.name, names)
            self._reading.seen.update(names)
            self._reading.columns = names
            self._cells = TextCells(self._reading, names)
        return self._cells


class _Behind(io.RawIOBase):
    """``first``, and ``chunks`` of (byte, bytes) behind it."""

    def __init__(self, first: bytes, chunks: Iterator[tuple[int, bytes]]) -> None:
        self._bytes, self._chunks = io.BytesIO(first), chunks

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not (count := self._bytes.readinto(buffer)):
            following = next(self._chunks, None)
            if following is None:
                return 0
            self._bytes = io.BytesIO(following[1])
        return count


def _row_blocks(
    source: FileSource, stream: io.BufferedReader, number: int, *, is_first: bool
) -> Iterator[tuple[range, list[list[str]]]]:
    """Numbers, from ``number`` on, and fields of rows that are not blank, in blocks of about BLOCK_BYTES; ``is_first``:
    the stream begins with the file, which may have a byte order mark.
    """
    reader, size = csv_reader(source, csv_text(source, stream, is_first=is_first)), 1_000
    while block := list(islice(reader, size)):
        # Blank rows have no number here either, so that `csv_rows` finds a bad row by it.
        rows = block if all(block) else [row for row in block if row]
        if rows:
            yield range(number, number + len(rows)), rows
        number += len(rows)
        weight = sum(len(cell) for cell in rows[-1]) if rows else 0
        size = max(1, min(BLOCK_ROWS, BLOCK_BYTES // (weight + 1)))


def _csv_good_rows(reading: "SliceReading", begin: int) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    """Rows from number ``begin`` on of a file in which some are none; those are bad."""
    reading.begin_digests()
    numbers: list[int] = []
    rows: list[list[str]] = []
    for row in csv_rows(reading.source, reading.piece.name, reading.digests, reading.content):
        if row.number < begin:
            continue
        if row.fields is not None:
            numbers.append(row.number)
            rows.append(row.fields)
        else:
            bad = BadRow(row.number, a_csv_row(reading.source), row.problem, row.raw)
            if row.number == 0 and reading.source.columns is None:
                raise bad.error(reading.source, reading.piece.name, row.line)
            reading.rows += 1
            reading.refuse([bad])
        if len(rows) >= BLOCK_ROWS:
            yield numbers, rows
            numbers, rows = [], []
    if rows:
        yield numbers, rows
