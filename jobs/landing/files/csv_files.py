"""CSV: rows are lines of text with separators; a quoted field may hold line ends.

Owns the blocks of its rows. Rule: a file without errors is read in blocks at full speed; from the block of its first
error on row by row.
"""

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ..bad_rows import BadRow
from ..file_source import FileSource
from .blocks import BLOCK_BYTES, BLOCK_ROWS, Block, check_columns
from .csv_rows import a_csv_row, csv_reader, csv_rows, csv_text
from .format_reader import FormatReader
from .streams import FileSlice, opened
from .text_cells import TextCells

if TYPE_CHECKING:
    from .reading import SliceReading


class CsvReader(FormatReader):
    """A file is one slice; the place of a row is its number from 0, that of the header line."""

    def blocks(self, reading: "SliceReading") -> Iterator[Block]:
        return _csv_blocks(reading)

    def slices(self, source: FileSource, whole: FileSlice) -> list[FileSlice]:
        return [whole]

    def as_they_stand(self, source: FileSource, piece: FileSlice, bad: Sequence[BadRow]) -> list[tuple[int, bytes]]:
        wanted = {row.place for row in bad}
        rows = ((row.number, (row.line, row.raw)) for row in csv_rows(source, piece.name) if row.number in wanted)
        return [found for _, found in islice(rows, len(wanted))]


def _csv_blocks(reading: "SliceReading") -> Iterator[Block]:
    source, names = reading.source, reading.source.columns
    for places, rows in _csv_row_blocks(reading):
        if names is None:
            names, rows, places = tuple(rows[0]), rows[1:], places[1:]
        reading.rows += len(rows)
        if not reading.columns:
            check_columns(source, reading.piece.name, names)
            reading.seen.update(names)
            reading.columns = names
            cells = TextCells(reading, names)
        if any(len(fields) != len(names) for fields in rows):
            expected = f"{len(names)} fields"
            numbered = list(zip(places, rows, strict=True))
            reading.refuse([BadRow(p, expected, f"{len(row)} fields") for p, row in numbered if len(row) != len(names)])
            whole = [(p, row) for p, row in numbered if len(row) == len(names)]
            places, rows = [p for p, _ in whole], [row for _, row in whole]
        if rows:
            yield cells.block(places, rows)


def _csv_row_blocks(reading: "SliceReading") -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    """Numbers and fields of rows that are not blank, the header line's among them, in blocks of about BLOCK_BYTES."""
    source, piece, number = reading.source, reading.piece, 0
    try:
        with opened(source, piece.name, reading.digests, reading.content) as stream:
            reader, size, read = csv_reader(source, csv_text(source, stream)), 1_000, 0
            while block := list(islice(reader, size)):
                rows = block if all(block) else [row for row in block if row]
                if rows:
                    yield range(number, number + len(rows)), rows
                number += len(rows)
                read += len(block)
                size = max(1, min(BLOCK_ROWS, BLOCK_BYTES * read // max(1, stream.tell())))
    except (csv.Error, UnicodeDecodeError):
        yield from _csv_good_rows(reading, number)


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
