"""Records of a slice of a file, in the order in which they stand there.

Owns reading: JSON lines by byte range, Parquet by row group, CSV whole. Rule: every row becomes exactly one record or
raises LandingError with file and line (JSON lines, CSV) or row (Parquet), both from 1. Only blank lines are no rows. A
line belongs to the slice in which it begins, so slices that touch neither lose nor repeat one.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...state.errors import LandingError
from ...state.tables.warehouse import open_filesystem
from ..kernels.murmur2 import murmur2_partitions
from .file_columns import BadValueError, bytes_of, json_objects, partition_numbers, times_ms, typed
from .file_source import FileSource

BLOCK_ROWS = 4_000
BLOCK_BYTES = 16 << 20
"""At most this much becomes records at a time: few enough for the processor's cache, which halves the time."""
SLICE_BYTES = 32 << 20
"""About what one task reads; a CSV file is never split, because a quoted field may hold line ends."""


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Part of a file: bytes ``[start, end)`` of JSON lines, row groups ``[start, end)`` of Parquet; ``end`` None: all.

    ``bytes`` is its weight, about; ``size`` and ``mtime_ns`` are what the whole file had when it was planned.
    """

    name: str
    start: int
    end: int | None
    bytes: int
    size: int
    mtime_ns: int | None

    def to_list(self) -> list[Any]:
        """As JSON values."""
        return [self.name, self.start, self.end, self.bytes, self.size, self.mtime_ns]

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Self:
        """The reverse of ``to_list``."""
        return cls(*values)


@dataclass(frozen=True, slots=True)
class FileRecords:
    """Some consecutive records: key and value ``pa.binary``, time int64 ms, partition int32."""

    key: pa.Array
    value: pa.Array
    time_ms: np.ndarray
    partition: np.ndarray


@dataclass(frozen=True, slots=True)
class _Block:
    """Some consecutive rows as columns. ``places[i]`` is the place of row ``i`` for ``_bad_row``; ``lines``: whole."""

    columns: Mapping[str, Sequence[Any] | pa.Array]
    places: Sequence[int]
    lines: Sequence[bytes] | None = None


def slices_of(source: FileSource, name: str, size: int, mtime_ns: int | None) -> list[FileSlice]:
    """Cut one file into slices of about ``SLICE_BYTES``, in order. Raises LandingError for Parquet that is none."""
    if source.format == "csv" or name.endswith(".gz") or size <= SLICE_BYTES:
        return [FileSlice(name, 0, None, size, size, mtime_ns)]
    if source.format == "jsonl":
        starts = range(0, size, SLICE_BYTES)
        return [FileSlice(name, s, min(s + SLICE_BYTES, size), SLICE_BYTES, size, mtime_ns) for s in starts]
    with _parquet(source, name) as file:
        groups = file.metadata.num_row_groups
    step = max(1, groups * SLICE_BYTES // size)
    return [
        FileSlice(name, s, min(s + step, groups), size * step // groups, size, mtime_ns) for s in range(0, groups, step)
    ]


def read_slice(source: FileSource, piece: FileSlice) -> Iterator[FileRecords]:
    """Records of ``piece``, block by block, in order."""
    _refuse_changed(source, piece)
    blocks = {"jsonl": _json_blocks, "csv": _csv_blocks, "parquet": _parquet_blocks}[source.format]
    for block in blocks(source, piece):
        try:
            yield _records(source, block)
        except BadValueError as bad:
            raise _bad_row(source, piece, block.places[bad.row], bad.expected, bad.got) from bad


def _records(source: FileSource, block: _Block) -> FileRecords:
    rows = len(block.places)
    key = pa.nulls(rows, pa.binary()) if source.key is None else _as_bytes(block.columns[source.key])
    time_ms = times_ms(block.columns[source.timestamp], source.timestamp_unit)
    if source.partition is None:
        partition = murmur2_partitions(key, source.partitions)
    else:
        partition = partition_numbers(_listed(block.columns[source.partition]), source.partitions)
    return FileRecords(key, _value(source, block), time_ms, partition)


def _value(source: FileSource, block: _Block) -> pa.Array:
    if source.value is None and block.lines is not None:
        return pa.array(block.lines, pa.binary())
    if isinstance(source.value, str):
        return _as_bytes(block.columns[source.value])
    names = list(block.columns) if source.value is None else list(source.value)
    columns = [_listed(block.columns[name]) for name in names]
    return json_objects(names, [typed(c, source.types.get(n, "string")) for n, c in zip(names, columns, strict=True)])


def _as_bytes(values: Sequence[Any] | pa.Array) -> pa.Array:
    if isinstance(values, pa.Array):
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type) or pa.types.is_large_string(values.type):
            return values.cast(pa.binary())
    return bytes_of(_listed(values))


def _listed(values: Sequence[Any] | pa.Array) -> Sequence[Any]:
    return values.to_pylist() if isinstance(values, pa.Array) else values


# JSON lines


def _json_blocks(source: FileSource, piece: FileSlice) -> Iterator[_Block]:
    wanted = source.named_columns()
    with _stream(source, piece.name) as stream:
        for places, lines in _line_blocks(stream, piece):
            rows = [_json_row(source, piece, place, line) for place, line in zip(places, lines, strict=True)]
            yield _Block({name: [row.get(name) for row in rows] for name in wanted}, places, lines)


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
        if line.strip():
            places.append(place)
            lines.append(line.removesuffix(b"\n").removesuffix(b"\r"))
            size += len(line)
        place += len(line)
        if len(lines) >= BLOCK_ROWS or size >= BLOCK_BYTES:
            yield places, lines
            places, lines, size = [], [], 0
    if lines:
        yield places, lines


def _json_row(source: FileSource, piece: FileSlice, place: int, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _bad_row(source, piece, place, "a JSON object", f"{line[:80]!r} ({error})") from error
    if not isinstance(row, dict):
        raise _bad_row(source, piece, place, "a JSON object", repr(line[:80]))
    return row


# CSV


def _csv_blocks(source: FileSource, piece: FileSlice) -> Iterator[_Block]:
    rows = _csv_row_blocks(source, piece)
    first = next(rows, [])
    names = source.columns or (tuple(first[0]) if first else None)
    if names is None:
        return
    check_columns(source, piece.name, names)
    row = 0 if source.columns else 1
    nulls = set(source.nulls)
    for block in chain([first[row:]], rows):
        if any(len(fields) != len(names) for fields in block):
            bad = next(place for place, fields in enumerate(block) if len(fields) != len(names))
            raise _bad_row(source, piece, row + bad, f"{len(names)} fields", f"{len(block[bad])} fields")
        columns = [
            column if nulls.isdisjoint(column) else [None if cell in nulls else cell for cell in column]
            for column in zip(*block, strict=True)
        ]
        if block:
            yield _Block(dict(zip(names, columns, strict=True)), range(row, row + len(block)))
        row += len(block)


def _csv_row_blocks(source: FileSource, piece: FileSlice) -> Iterator[list[list[str]]]:
    """Rows that are not blank, the header line among them, in blocks of about BLOCK_BYTES."""
    with _stream(source, piece.name) as stream:
        reader, size, read = _csv_reader(source, stream), 1_000, 0
        try:
            while block := list(islice(reader, size)):
                yield block if all(block) else [row for row in block if row]
                read += len(block)
                size = max(1, min(BLOCK_ROWS, BLOCK_BYTES * read // max(1, stream.tell())))
        except (csv.Error, UnicodeDecodeError) as error:
            row = sum(1 for _ in _csv_lines(source, piece)) - 1
            raise _bad_row(source, piece, row, "a CSV row in UTF-8", str(error)) from error


def _csv_reader(source: FileSource, stream: io.BufferedReader, errors: str = "strict") -> Any:
    csv.field_size_limit(1 << 30)  # values may be long; Python stops at 128 KiB
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors=errors, newline="")
    return csv.reader(text, delimiter=source.delimiter, strict=True)


def _csv_lines(source: FileSource, piece: FileSlice) -> Iterator[int]:
    """The line on which each row begins that is not blank; the last is that of the row that cannot be read, if any."""
    with _stream(source, piece.name) as stream:
        reader, line = _csv_reader(source, stream, errors="surrogateescape"), 1
        try:
            for row in reader:
                if row:
                    yield line
                if any("\udc80" <= char <= "\udcff" for cell in row for char in cell):
                    return
                line = reader.line_num + 1
        except csv.Error:
            yield line


# Parquet


def _parquet_blocks(source: FileSource, piece: FileSlice) -> Iterator[_Block]:
    with _parquet(source, piece.name) as file:
        names = file.schema_arrow.names
        check_columns(source, piece.name, names)
        wanted = names if source.value is None else source.named_columns()
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        row = sum(sizes[: piece.start]) + 1
        groups = list(range(len(sizes))[piece.start : piece.end])
        for batch in file.iter_batches(_block_rows(file, groups), row_groups=groups, columns=wanted):
            columns = {name: batch.column(name) for name in wanted}
            yield _Block(columns, range(row, row + batch.num_rows))
            row += batch.num_rows


def _block_rows(file: pq.ParquetFile, groups: Sequence[int]) -> int:
    """Rows of about BLOCK_BYTES in the largest of ``groups``, at most BLOCK_ROWS."""
    described = [file.metadata.row_group(group) for group in groups]
    weight = max((group.total_byte_size // max(1, group.num_rows) for group in described), default=0)
    return max(1, min(BLOCK_ROWS, BLOCK_BYTES // max(1, weight)))


@contextmanager
def _parquet(source: FileSource, name: str) -> Iterator[pq.ParquetFile]:
    filesystem, root = open_filesystem(source.path)
    with filesystem.open_input_file(f"{root}/{name}") as opened:
        try:
            yield pq.ParquetFile(opened)
        except (pa.ArrowInvalid, OSError) as error:
            raise LandingError(
                f"{source.path}/{name}", "a Parquet file", str(error).splitlines()[0], "remove or rewrite the file"
            ) from error


# What all formats share


@contextmanager
def _stream(source: FileSource, name: str) -> Iterator[io.BufferedReader]:
    filesystem, root = open_filesystem(source.path)
    path = f"{root}/{name}"
    try:
        opened = filesystem.open_input_stream(path) if name.endswith(".gz") else filesystem.open_input_file(path)
        with opened, io.BufferedReader(opened, buffer_size=1 << 20) as stream:
            yield stream
    except OSError as error:
        raise LandingError(
            f"{source.path}/{name}", "a file that can be read", str(error), "put a whole file there, then land again"
        ) from error


def check_columns(source: FileSource, name: str, names: Sequence[str]) -> None:
    """Raises LandingError when the file lacks a column of the mapping or has two of one name."""
    missing = [column for column in source.named_columns() if column not in names]
    if missing or len(set(names)) != len(names):
        expected = f"a column {missing[0]}" if missing else "each column once"
        raise LandingError(
            f"{source.path}/{name}", expected, f"columns {', '.join(names)}", "correct the mapping or the file"
        )


def _refuse_changed(source: FileSource, piece: FileSlice) -> None:
    filesystem, root = open_filesystem(source.path)
    entry = filesystem.get_file_info(f"{root}/{piece.name}")
    if (entry.size, entry.mtime_ns) != (piece.size, piece.mtime_ns):
        raise LandingError(
            f"{source.path}/{piece.name}",
            f"{piece.size} bytes as planned",
            "no file" if entry.size is None else f"{entry.size} bytes, modified since",
            "put the planned file back, then land the topic again",
        )


def _bad_row(source: FileSource, piece: FileSlice, place: int, expected: str, got: str) -> LandingError:
    """The error of a row: ``place`` is its byte in JSON lines, its number from 0 in CSV, from 1 in Parquet."""
    if source.format == "jsonl":
        with _stream(source, piece.name) as stream:
            place = _count_lines(stream, place) + 1
    elif source.format == "csv":
        place = next(islice(_csv_lines(source, piece), place, None))
    unit = "row" if source.format == "parquet" else "line"
    return LandingError(
        f"{source.path}/{piece.name}, {unit} {place}", expected, got, "correct the file, or the mapping, and land again"
    )


def _count_lines(stream: io.BufferedReader, end: int) -> int:
    """Line ends in the first ``end`` bytes."""
    lines = 0
    while end > 0 and (part := stream.read(min(end, 1 << 20))):
        lines, end = lines + part.count(b"\n"), end - len(part)
    return lines
