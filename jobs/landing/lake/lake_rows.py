"""Rows of a table's files, as the engine of landings from files takes them.

Owns what the table's log adds to a file: deleted rows, columns that are constant, names that changed. Rule: the
location of a row is its number in the file from 1, whatever was deleted before it; deleted rows are no rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ....state.errors import LandingError
from ....state.tables.kept_below import below
from ..bad_rows import BadRow
from ..file_source import FileSource
from ..files.blocks import Block
from ..files.cells import row_json
from ..files.columns import equal_to, is_text_or_bytes
from ..files.parquet_files import ParquetReader, parquet_batches
from ..files.paths import column_at, has_column, kind_at, root_of
from ..files.streams import FileSlice, parquet_file
from .lake_table import LakeFile
from .table_columns import TableColumn, TableColumns, nulls

if TYPE_CHECKING:
    from ..files.reading import SliceReading

NOTHING = "\0nothing"
"""A column that every table has, of nulls: in the place of one that is not to be read."""


@dataclass(frozen=True, slots=True)
class LakeMapping(FileSource):
    """The mapping of a table: ``columns`` of it, and its ``files`` by their names."""

    columns_of: TableColumns = field(default_factory=lambda: TableColumns(()))
    files: Mapping[str, LakeFile] = field(default_factory=dict)

    @property
    def reports_changes(self) -> bool:
        """True: a table may be changed."""
        return True

    def uri_of(self, name: str) -> str:
        """As of FileSource; of a name that the table's log has. Raises StorageError for one that leads elsewhere, and
        for one behind a symbolic link.
        """
        file = self.files[name]
        return below(file.root or self.path, file.own_name)

    def for_files(self, names: Iterable[str]) -> "LakeMapping":
        """As of FileSource: what the log says of other files stays here."""
        return replace(self, files={name: self.files[name] for name in names})

    def folders_of(self, file: str) -> dict[str, str | None]:
        """None: a table says by its log what is constant in a file."""
        return {}


class LakeReader(ParquetReader):
    """Slices are ranges of row groups, as of other Parquet."""

    def blocks(self, reading: "SliceReading") -> Iterator[Block]:
        source, piece = reading.source, reading.piece
        assert isinstance(source, LakeMapping)
        schema = source.columns_of.schema
        named = [name for name in source.named_columns(piece.name) if has_column(schema, name)]
        reading.seen.update([*schema.names, *named])
        reading.columns = schema.names
        whole = schema.names if source.value is None else []
        file = source.files[piece.name]
        with parquet_file(source, piece.name) as opened:
            reading.row_bytes = _row_bytes(opened)
            rows = _TableRows(source, file, opened, [*whole, *named])
            for locations, columns in rows.of(piece):
                reading.rows += len(locations)
                columns |= {name: column_at(columns, name) for name in named}
                columns[NOTHING] = pa.nulls(len(locations), pa.binary())
                yield Block(columns, locations, whole=whole)

    def as_they_stand(self, source: FileSource, piece: FileSlice, bad: Sequence[BadRow]) -> list[tuple[int, bytes]]:
        assert isinstance(source, LakeMapping)
        wanted = {row.location for row in bad}
        raw: list[tuple[int, bytes]] = []
        with parquet_file(source, piece.name) as opened:
            rows = _TableRows(source, source.files[piece.name], opened, source.columns_of.schema.names)
            for locations, columns in rows.of(piece):
                for number, location in enumerate(locations):
                    if location in wanted:
                        raw.append((location, row_json(list(columns), list(columns.values()), number)))
        return raw


_BLOCK_ROWS = 1 << 16
"""Of columns that are taken as they are, and not made text or numbers row by row."""
_FIXED_BYTES = 48
"""Of a record in memory, beside its key and its value: numbers, and where its text begins."""


def _row_bytes(opened: pq.ParquetFile) -> int:
    """Of a record in memory, about."""
    groups = [opened.metadata.row_group(number) for number in range(opened.metadata.num_row_groups)]
    size, rows = (sum(getattr(group, name) for group in groups) for name in ("total_byte_size", "num_rows"))
    return _FIXED_BYTES + int(size) // max(1, int(rows))


class _TableRows:
    """Top-level columns of a file, as the table has them, with what of them ``names`` (a.b: field b of a) need."""

    def __init__(self, source: LakeMapping, file: LakeFile, opened: pq.ParquetFile, names: Sequence[str]) -> None:
        self.place = f"{source.path}/{file.name}"
        self.file, self.opened, self.all = file, opened, source.columns_of
        known = self.all.schema.names
        coordinates = source.timestamp, source.partition, source.offset
        self.needed = {root_of(name, known) for name in coordinates if name is not None}
        self.columns = self.all.named(root_of(name, known) for name in names)
        stored = opened.schema_arrow
        fields = [stored.field(index) for index in range(len(stored.names))]
        self.stored: dict[str, str] = {}
        self.paths: list[str] = []
        for column in self.columns:
            index = self.all.in_file(column, fields)
            if index >= 0:
                self.stored[column.name] = fields[index].name
                own = [name for name in names if root_of(name, known) == column.name]
                parts = [name.split(".")[1:] if name != column.name else [] for name in own]
                self.paths += [self.all.path_in_file(column, fields[index], each) for each in parts]

    def of(self, piece: FileSlice) -> Iterator[tuple[list[int] | range, dict[str, Any]]]:
        """(locations of rows, their columns), batch by batch."""
        for first, batch in parquet_batches(self.opened, piece, list(dict.fromkeys(self.paths)), _BLOCK_ROWS):
            rows = batch.num_rows
            kept = self._kept(first - 1, rows)
            columns = {column.name: self._column(column, batch, rows) for column in self.columns}
            if kept is None:
                yield range(first, first + rows), columns
            elif len(kept):
                chosen = pa.array(kept)
                yield (kept + first).tolist(), {name: values.take(chosen) for name, values in columns.items()}

    def _kept(self, first: int, rows: int) -> np.ndarray | None:
        """Numbers of those of a batch that are not deleted; None: all are there. ``first``: of the file."""
        deleted = self.file.deleted
        if deleted is None:
            return None
        begin, end = np.searchsorted(deleted, [first, first + rows])
        return None if begin == end else np.delete(np.arange(rows), deleted[begin:end] - first)

    def _column(self, column: TableColumn, batch: pa.RecordBatch, rows: int) -> pa.Array:
        name = self.stored.get(column.name)
        if name is None:
            if column.name in self.file.constants:
                return pa.repeat(pa.scalar(self.file.constants[column.name], column.kind), rows)
            return nulls(column, rows)
        try:
            return self.all.conformed(column, batch.column(name))
        except pa.ArrowException as error:
            kind = batch.column(name).type
            expected, got = f"a column {column.name} of type {column.kind}", f"{kind} ({error})"
            next_step = f"have its files written again, with {column.kind}"
            if column.name not in self.needed:
                next_step = f"leave the column out of the mapping (--value), or {next_step}"
            raise LandingError(self.place, expected, got, next_step) from error


def counting_mapping(mapping: LakeMapping) -> LakeMapping:
    """``mapping`` for a pass that only counts: keys and values are not read where every one of them is a record's."""
    columns = [mapping.key, mapping.value]
    if any(isinstance(name, tuple) for name in columns) or mapping.value is None:
        return mapping
    if mapping.key_type is not None or mapping.value_type is not None:
        return mapping
    for name in columns:
        if name is not None and not is_text_or_bytes(kind_at(mapping.columns_of.schema, str(name))):
            return mapping  # of text and bytes every value has its bytes
    return replace(mapping, key=None, value=NOTHING)


def read_columns(
    mapping: LakeMapping, file: LakeFile, names: Sequence[str], *, every_topic: bool = False
) -> Iterator[dict[str, pa.Array]]:
    """Columns of the topic's rows of a file."""
    wanted = list(names)
    if mapping.topic_column is not None and not every_topic:
        wanted.append(mapping.topic_column)
    whole = FileSlice(file.name, 0, None, file.bytes, file.bytes, None)
    with parquet_file(mapping, file.name) as opened:
        for _, columns in _TableRows(mapping, file, opened, wanted).of(whole):
            own = {name: column_at(columns, name) for name in wanted}
            if mapping.topic_column is not None and not every_topic:
                mask = pa.array(equal_to(own[mapping.topic_column], mapping.topic or ""))
                own = {name: own[name].filter(mask) for name in names}
            yield own
