"""Rows of a slice of a file as blocks of columns, in the order in which they are there.

Owns reading: JSON lines by byte range, Parquet by row group, CSV whole. Rule: every row is in exactly one block or
among the bad rows of the ``SliceReading``. Only blank lines are no rows. A byte order mark before the first line is no
part of it. A line belongs to the slice in which it begins, so
slices that touch neither lose nor repeat one. A CSV file without errors is read in blocks at full speed; from the block
of its first error on row by row.
"""

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ..bad_rows import BadRow
from .blocks import BLOCK_BYTES, BLOCK_ROWS, Block, check_columns
from .columns import json_value
from .csv_rows import csv_reader, csv_rows, csv_text
from .reading import SliceReading, parquet_batches
from .streams import FileSlice, opened, parquet_file


def blocks(reading: SliceReading) -> Iterator[Block]:
    """Rows of the slice that are rows, block by block; the others are refused."""
    read = {"jsonl": _json_blocks, "csv": _csv_blocks, "parquet": _parquet_blocks}
    assert reading.source.format is not None
    return read[reading.source.format](reading)


# JSON lines


def _json_blocks(reading: SliceReading) -> Iterator[Block]:
    source, piece = reading.source, reading.piece
    wanted = source.named_columns()
    with opened(source, piece.name, reading.digests, reading.content) as stream:
        for places, lines in _line_blocks(stream, piece):
            reading.rows += len(lines)
            try:
                rows = [json_value(line) for line in lines]
            except (ValueError, RecursionError):
                rows = []
            if len(rows) < len(lines) or any(type(row) is not dict for row in rows):
                places, lines, rows = _json_rows(reading, places, lines)
            reading.columns = reading.columns or (list(rows[0]) if rows else ())
            for name in wanted:
                if name not in reading.seen and any(name in row for row in rows):
                    reading.seen.add(name)
            yield Block({name: [row.get(name) for row in rows] for name in wanted}, places, lines)


def _json_rows(
    reading: SliceReading, places: Sequence[int], lines: Sequence[bytes]
) -> tuple[list[int], list[bytes], list[dict[str, Any]]]:
    """Those that are JSON objects; the others are bad."""
    kept_places, kept_lines, rows, bad = [], [], [], []
    for place, line in zip(places, lines, strict=True):
        got = repr(line[:80])
        try:
            row = json_value(line)
        except (ValueError, RecursionError) as error:
            row, got = None, f"{got} ({error})"
        if isinstance(row, dict):
            kept_places.append(place)
            kept_lines.append(line)
            rows.append(row)
        else:
            bad.append(BadRow(place, "a JSON object", got, line))
    reading.refuse(bad)
    return kept_places, kept_lines, rows


def _line_blocks(stream: io.BufferedReader, piece: FileSlice) -> Iterator[tuple[list[int], list[bytes]]]:
    """(bytes at which lines begin, lines without their ends) of the lines that begin in the slice; no blank ones."""
    place = piece.start
    if place > 0:
        stream.seek(place - 1)
        place += len(stream.readline()) - 1
    places: list[int] = []
    lines: list[bytes] = []
    size = 0
    for line in stream:
        if piece.end is not None and place >= piece.end:
            break
        begin = len(codecs.BOM_UTF8) if place == 0 and line.startswith(codecs.BOM_UTF8) else 0
        if line[begin:].strip():
            places.append(place)
            lines.append(line[begin:].removesuffix(b"\n").removesuffix(b"\r"))
            size += len(line)
        place += len(line)
        if len(lines) >= BLOCK_ROWS or size >= BLOCK_BYTES:
            yield places, lines
            places, lines, size = [], [], 0
    if lines:
        yield places, lines


# CSV


def _csv_blocks(reading: SliceReading) -> Iterator[Block]:
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


def _csv_row_blocks(reading: SliceReading) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    """Numbers and fields of rows that are not blank, the header line's among them, in blocks of about BLOCK_BYTES."""
    source, piece, number = reading.source, reading.piece, 0
    try:
        with opened(source, piece.name, reading.digests, reading.content) as stream:
            reader, size, read = csv_reader(source, csv_text(stream)), 1_000, 0
            while block := list(islice(reader, size)):
                rows = block if all(block) else [row for row in block if row]
                if rows:
                    yield range(number, number + len(rows)), rows
                number += len(rows)
                read += len(block)
                size = max(1, min(BLOCK_ROWS, BLOCK_BYTES * read // max(1, stream.tell())))
    except (csv.Error, UnicodeDecodeError):
        yield from _csv_good_rows(reading, number)


def _csv_good_rows(reading: SliceReading, begin: int) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
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


# Parquet


def _parquet_blocks(reading: SliceReading) -> Iterator[Block]:
    source, piece = reading.source, reading.piece
    with parquet_file(source, piece.name, reading.digests) as file:
        names = file.schema_arrow.names
        check_columns(source, piece.name, names)
        reading.seen.update(names)
        reading.columns = names
        wanted = names if source.value is None else source.named_columns()
        for row, batch in parquet_batches(file, piece, wanted):
            reading.rows += batch.num_rows
            yield Block({name: batch.column(name) for name in wanted}, range(row, row + batch.num_rows))
