"""One pass over a slice of a file: what it found besides records, and the positions of bad rows.

Rule: a bad row has the line or row by which a person finds it, and its bytes; the file is read again for them.
"""

import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ....state.errors import LandingError
from ..bad_rows import BadRow
from ..file_source import FileSource
from ..landing_rules import RowRules
from .blocks import BLOCK_BYTES, BLOCK_ROWS
from .columns import BadValuesError, json_text, listed
from .csv_rows import csv_rows
from .streams import FileSlice, PartDigests, opened, parquet_file


class SliceReading:
    """One pass over a slice, and what it found besides records: ``rows`` in all, ``bad_rows`` of them and the first
    ``keeps`` of these (None: all), names of columns that were ``seen`` (of JSON lines those of the mapping),
    ``columns`` of the first row, ``digests`` of its bytes.
    """

    def __init__(
        self, source: FileSource, piece: FileSlice, rules: RowRules, *, takes_digests: bool, keeps: int | None
    ) -> None:
        self.source, self.piece, self.rules, self.keeps = source, piece, rules, keeps
        self.rows = self.bad_rows = 0
        self.bad: list[BadRow] = []
        self.seen: set[str] = set()
        self.columns: Sequence[str] = ()
        self.takes_digests = takes_digests
        self.begin_digests()

    def begin_digests(self) -> None:
        """Take them from the first byte on."""
        piece = self.piece
        self.digests = PartDigests(piece.first_byte, piece.last_byte) if self.takes_digests else None
        self.content = PartDigests() if self.takes_digests and piece.name.endswith(".gz") else None

    def refuse(self, rows: Sequence[BadRow]) -> None:
        """Take ``rows`` as bad; LandingError where the first is to stop the landing."""
        if rows and not self.rules.keeps_bad:
            raise self.error(rows[0])
        self.bad_rows += len(rows)
        self.bad = sorted([*self.bad, *rows], key=lambda row: row.place)[: self.keeps] if rows else self.bad

    def error(self, row: BadRow) -> LandingError:
        """The error of a row."""
        [(number, _)] = as_they_stand(self.source, self.piece, [row])
        return row.error(self.source, self.piece.name, number)

    def summary(self) -> dict[str, Any]:
        """What was found, as JSON values."""
        first_bad: list[Any] = []
        if self.bad:
            [(number, _)] = as_they_stand(self.source, self.piece, self.bad[:1])
            first_bad = [number, self.bad[0].expected, self.bad[0].got]
        return {
            "rows": self.rows,
            "bad_rows": self.bad_rows,
            "first_bad": first_bad,
            "seen": sorted(self.seen),
            "columns": list(self.columns[:20]),
            "digests": [] if self.digests is None else self.digests.close(),
            "content": None if self.content is None else self.content.close(),
        }


def as_they_stand(source: FileSource, piece: FileSlice, bad: Sequence[BadRow]) -> list[tuple[int, bytes]]:
    """Of bad rows, in the order of their places: line (JSON lines, CSV) or row (Parquet) from 1, and their bytes, which
    of a Parquet row are its JSON. The file is read again.
    """
    if source.format == "jsonl":
        with opened(source, piece.name) as stream:
            numbers, at, lines = [], 0, 1
            for row in bad:
                lines += _line_ends(stream, row.place - at)
                at = row.place
                numbers.append(lines)
        return [(number, row.raw or b"") for number, row in zip(numbers, bad, strict=True)]
    wanted = {row.place for row in bad}
    if source.format == "csv":
        rows = ((row.number, (row.line, row.raw)) for row in csv_rows(source, piece.name) if row.number in wanted)
        return [found for _, found in islice(rows, len(wanted))]
    return list(_parquet_rows(source, piece, wanted))


def _line_ends(stream: io.BufferedReader, count: int) -> int:
    """Line ends in the next ``count`` bytes."""
    lines = 0
    while count > 0 and (part := stream.read(min(count, 1 << 20))):
        lines, count = lines + part.count(b"\n"), count - len(part)
    return lines


def _parquet_rows(source: FileSource, piece: FileSlice, wanted: set[int]) -> Iterator[tuple[int, bytes]]:
    with parquet_file(source, piece.name) as file:
        for first, batch in parquet_batches(file, piece, file.schema_arrow.names):
            for row in sorted(wanted & set(range(first, first + batch.num_rows))):
                fields = {name: _readable(batch.column(name).slice(row - first, 1)) for name in batch.schema.names}
                yield row, json_text(fields).encode(errors="backslashreplace")


def _readable(cell: pa.Array) -> Any:
    """A value that JSON can hold; Arrow's own text of one that Python cannot."""
    try:
        return listed(cell)[0]
    except BadValuesError:
        return str(cell)


def parquet_batches(
    file: pq.ParquetFile, piece: FileSlice, columns: Sequence[str]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(number of the first row, rows) of the slice's row groups, in blocks."""
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    row = sum(sizes[: piece.start]) + 1
    groups = list(range(len(sizes))[piece.start : piece.end])
    for batch in file.iter_batches(_block_rows(file, groups), row_groups=groups, columns=columns):
        yield row, batch
        row += batch.num_rows


def _block_rows(file: pq.ParquetFile, groups: Sequence[int]) -> int:
    """Rows of about BLOCK_BYTES in the largest of ``groups``, at most BLOCK_ROWS."""
    described = [file.metadata.row_group(group) for group in groups]
    weight = max((group.total_byte_size // max(1, group.num_rows) for group in described), default=0)
    return max(1, min(BLOCK_ROWS, BLOCK_BYTES // max(1, weight)))
