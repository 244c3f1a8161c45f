"""Rows of CSV files, and those that are none.

Owns what a CSV row is: fields in UTF-8, quoted or not, as Python's csv module reads them. Rule: a file without errors
is read in blocks at full speed; from the block of its first error on row by row, so that each row that is none has
its line and its bytes. What a quote that is never closed would swallow is no row: it stops the landing.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..bad_rows import BadRow
from ..file_source import FileSource
from .blocks import BLOCK_BYTES, BLOCK_ROWS, Block, check_columns
from .streams import PartDigests, opened

if TYPE_CHECKING:
    from .formats import Reading


@dataclass(frozen=True, slots=True)
class CsvRow:
    """A row that is not blank: its number from 0, its first line from 1, its bytes; ``fields`` None: ``problem``."""

    number: int
    line: int
    raw: bytes
    fields: list[str] | None
    problem: str = ""


def csv_blocks(reading: "Reading") -> Iterator[Block]:
    """Rows of the file that are rows, block by block; the others are refused."""
    source, names = reading.source, reading.source.columns
    nulls = set(source.nulls)
    for places, rows in _csv_row_blocks(reading):
        if names is None:
            names, rows, places = tuple(rows[0]), rows[1:], places[1:]
        reading.rows += len(rows)
        if not reading.seen:
            check_columns(source, reading.piece.name, names)
            reading.seen.update(names)
            reading.columns = names
        if any(len(fields) != len(names) for fields in rows):
            expected = f"{len(names)} fields"
            numbered = list(zip(places, rows, strict=True))
            reading.refuse([BadRow(p, expected, f"{len(row)} fields") for p, row in numbered if len(row) != len(names)])
            whole = [(p, row) for p, row in numbered if len(row) == len(names)]
            places, rows = [p for p, _ in whole], [row for _, row in whole]
        columns = [
            column if nulls.isdisjoint(column) else [None if cell in nulls else cell for cell in column]
            for column in zip(*rows, strict=True)
        ]
        if rows:
            yield Block(dict(zip(names, columns, strict=True)), places)


def _csv_row_blocks(reading: "Reading") -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    """Numbers and fields of rows that are not blank, the header line's among them, in blocks of about BLOCK_BYTES."""
    source, piece, number = reading.source, reading.piece, 0
    try:
        with opened(source, piece.name, reading.digests, reading.content) as stream:
            reader, size, read = _csv_reader(source, _csv_text(stream)), 1_000, 0
            while block := list(islice(reader, size)):
                rows = block if all(block) else [row for row in block if row]
                if rows:
                    yield range(number, number + len(rows)), rows
                number += len(rows)
                read += len(block)
                size = max(1, min(BLOCK_ROWS, BLOCK_BYTES * read // max(1, stream.tell())))
    except (csv.Error, UnicodeDecodeError):
        yield from _csv_good_rows(reading, number)


def _csv_good_rows(reading: "Reading", begin: int) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
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
            bad = BadRow(row.number, "a CSV row in UTF-8", row.problem, row.raw)
            if row.number == 0 and reading.source.columns is None:
                raise bad.error(reading.source, reading.piece.name, row.line)
            reading.rows += 1
            reading.refuse([bad])
        if len(rows) >= BLOCK_ROWS:
            yield numbers, rows
            numbers, rows = [], []
    if rows:
        yield numbers, rows


def csv_rows(
    source: FileSource, name: str, digests: PartDigests | None = None, content: PartDigests | None = None
) -> Iterator[CsvRow]:
    """Every row that is not blank, also those that are none. LandingError for a quote that is never closed, since all
    that comes after it would be one bad row.
    """
    with opened(source, name, digests, content) as stream:
        lines = _Remembered(_csv_text(stream, errors="surrogateescape"))
        reader, number = _csv_reader(source, lines), 0
        while True:
            line, problem, fields = lines.count + 1, "", None
            lines.taken.clear()
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problem = str(error)
                if problem == "unexpected end of data":
                    bad = BadRow(number, "a CSV row in UTF-8", f"{problem}: a quote is not closed")
                    raise bad.error(source, name, line) from error
            text = "".join(lines.taken)
            if fields is not None and not text.isascii() and any("\udc80" <= char <= "\udcff" for char in text):
                problem, fields = "bytes that are not UTF-8", None
            if fields != []:
                yield CsvRow(number, line, text.rstrip("\r\n").encode(errors="surrogateescape"), fields, problem)
                number += 1


class _Remembered:
    """Lines of ``text``, which remembers those ``taken`` and how many there were."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self.text, self.count = text, 0
        self.taken: list[str] = []

    def __iter__(self) -> "_Remembered":
        return self

    def __next__(self) -> str:
        line = next(self.text)
        self.count += 1
        self.taken.append(line)
        return line


def _csv_text(stream: io.BufferedReader, errors: str = "strict") -> io.TextIOWrapper:
    return io.TextIOWrapper(stream, encoding="utf-8-sig", errors=errors, newline="")


def _csv_reader(source: FileSource, lines: Iterator[str]) -> Any:
    csv.field_size_limit(1 << 30)  # values may be long; Python stops at 128 KiB
    return csv.reader(lines, delimiter=source.delimiter, strict=True)
