"""Parquet: rows are rows of row groups.

Owns the way from a file's row groups to blocks. Rule: a slice is some whole row groups.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ..bad_rows import BadRow
from ..file_source import FileSource
from . import streams
from .blocks import BLOCK_BYTES, BLOCK_ROWS, Block, check_columns
from .cells import row_json
from .format_reader import FormatReader
from .paths import column_at, root_of
from .streams import FileSlice, parquet_file

if TYPE_CHECKING:
    from .reading import SliceReading


_COLUMN_BLOCK_ROWS = 1 << 16
"""Where columns stay Arrow's: a block of fewer rows costs calls, and one of BLOCK_ROWS twice the time."""


class ParquetReader(FormatReader):
    """Slices are ranges of row groups; the location of a row is its number from 1."""

    def blocks(self, reading: "SliceReading") -> Iterator[Block]:
        return _parquet_blocks(reading)

    def slices(self, source: FileSource, whole: FileSlice) -> list[FileSlice]:
        size = whole.size
        with parquet_file(source, whole.name) as file:
            groups = file.metadata.num_row_groups
        step = max(1, groups * streams.SLICE_BYTES // size)
        starts = range(0, groups, step)
        # Digests are of parts of SLICE_BYTES, at which no row group ends:
        # each slice takes those of some whole parts, wherever its rows are.
        parts, most = -(-size // streams.SLICE_BYTES), max(1, len(starts))
        shares = [min(size, parts * number // most * streams.SLICE_BYTES) for number in range(len(starts) + 1)]
        weight = size * step // max(1, groups)
        return [
            replace(
                whole, start=s, end=min(s + step, groups), bytes=weight, first_byte=shares[n], last_byte=shares[n + 1]
            )
            for n, s in enumerate(starts)
        ]

    def as_they_stand(self, source: FileSource, piece: FileSlice, bad: Sequence[BadRow]) -> list[tuple[int, bytes]]:
        return list(_parquet_rows(source, piece, {row.location for row in bad}))


def _parquet_blocks(reading: "SliceReading") -> Iterator[Block]:
    source, piece = reading.source, reading.piece
    with parquet_file(source, piece.name, reading.digests) as file:
        names = file.schema_arrow.names
        check_columns(source, piece.name, names, file.schema_arrow)
        named = [name for name in source.named_columns(piece.name) if root_of(name, names) in names]
        reading.seen.update([*names, *named])
        reading.columns = names
        whole = names if source.value is None else []
        wanted = list(dict.fromkeys([*whole, *(root_of(name, names) for name in named)]))
        most = BLOCK_ROWS if whole or isinstance(source.value, tuple) else _COLUMN_BLOCK_ROWS
        for row, batch in parquet_batches(file, piece, wanted, most):
            reading.rows += batch.num_rows
            columns = {name: batch.column(name) for name in wanted}
            columns |= {name: column_at(columns, name) for name in named}
            yield Block(columns, range(row, row + batch.num_rows), whole=whole)


def _parquet_rows(source: FileSource, piece: FileSlice, wanted: set[int]) -> Iterator[tuple[int, bytes]]:
    with parquet_file(source, piece.name) as file:
        for first, batch in parquet_batches(file, piece, file.schema_arrow.names):
            for row in sorted(wanted & set(range(first, first + batch.num_rows))):
                yield row, row_json(batch.schema.names, batch.columns, row - first)


def parquet_batches(
    file: pq.ParquetFile, piece: FileSlice, columns: Sequence[str], most: int = BLOCK_ROWS
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(number of the first row, rows) of the slice's row groups, in blocks of at most ``most``."""
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    row = sum(sizes[: piece.start]) + 1
    groups = list(range(len(sizes))[piece.start : piece.end])
    for batch in file.iter_batches(_block_rows(file, groups, most), row_groups=groups, columns=columns):
        yield row, batch
        row += batch.num_rows


def _block_rows(file: pq.ParquetFile, groups: Sequence[int], most: int) -> int:
    """Rows of about BLOCK_BYTES in the largest of ``groups``, at most ``most``."""
    described = [file.metadata.row_group(group) for group in groups]
    weight = max((group.total_byte_size // max(1, group.num_rows) for group in described), default=0)
    return max(1, min(most, BLOCK_BYTES // max(1, weight)))
