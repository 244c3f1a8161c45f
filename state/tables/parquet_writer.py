"""One file of a table, written piece by piece or at once, and how Parquet keeps its columns.

Owns the writing of Parquet, for tasks, landings and ledgers alike. Rule: nobody sees a file before
``kstreams_replay.state.tables.commit`` has committed it, and it is never written again (each name carries its own
token), so a run that was killed cannot spoil a later one. Pages have checksums and the footer a seal, by which
state/tables/parquet_reader.py knows damage. Whole numbers are kept as differences, text by a
dictionary where it comes again, and keys that a task has interned are not hashed once more.
"""

import uuid
from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from .data_files import BOUNDED, NO_BOUNDS, DataFile, column_bounds
from .footer_seal import ENDING, KEY, UNSEALED, SealedFile
from .object_stores import open_filesystem
from .schema_evolution import as_stored

_SAMPLE = 1 << 16
_GROUP_ROWS, _GROUP_BYTES = 1 << 18, 16 << 20
"""A row group has so many rows or, in memory, so many bytes: until then they wait. A group a chunk made files a tenth
larger and took a tenth longer."""
_PAGE_ROWS = 1 << 16
"""Of a column: with Arrow's own 20,000 numbers took a tenth longer to write."""
_DICTIONARY_BYTES = 4 << 20
"""Of the words of a row group, which has 2^20 rows at most; Parquet's own 1 MiB is 70,000 keys."""


class TaskFile:
    """One file of a table, written piece by piece and not visible yet. Nothing is written without rows.

    ``partition`` -1: of a table without partitions. Text may come as dictionary arrays, each of whose dictionaries
    begins with those from before (``Keys.as_dictionary``): Parquet's dictionary is then made of the words of a row
    group, and no row is hashed. Such columns have no minima and maxima, which would cost more than that.
    """

    def __init__(self, directory: str, *, partition: int, name: str) -> None:
        self.directory, self.partition = directory, partition
        self._folder = "" if partition < 0 else f"partition={partition}/"
        self._token = uuid.uuid4().hex[:16]
        self.path = f"{self._folder}{name}-{self._token}{ENDING}"
        self._writer: pq.ParquetWriter | None = None
        self._sink: SealedFile | None = None
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._records = 0
        self._bounds: dict[str, tuple[int, int]] = {}
        self._coded: list[str] = []
        """Columns of dictionary arrays that Parquet keeps by a dictionary."""

    def write(self, table: pa.Table) -> None:
        """Append ``table`` (all pieces of one schema, without the partition column)."""
        if table.num_rows == 0:
            return
        table = as_stored(table)
        self._waiting.append(table)
        self._waiting_bytes += sum(map(_bytes_in_memory, table.columns))
        self._records += table.num_rows
        for column in BOUNDED:
            pair = column_bounds(table, column)
            if pair is not None:
                least, most = self._bounds.get(column, pair)
                self._bounds[column] = min(least, pair[0]), max(most, pair[1])
        if sum(map(len, self._waiting)) >= _GROUP_ROWS or self._waiting_bytes >= _GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        """Write what waits."""
        table = pa.concat_tables(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        self._write_rows(table)

    def _write_rows(self, table: pa.Table) -> None:
        """As one row group, or as more where its words are too many for a dictionary."""
        named, half = _with_named_words(table), len(table) // 2
        if self._writer is None:
            self._writer = self._open(named)
        # Beyond the limit Arrow's writer falls back to plain pages, of which readers must make the dictionary again.
        if half and any(named[path].chunk(0).dictionary.nbytes > _DICTIONARY_BYTES for path in self._coded):
            self._write_rows(table.slice(0, half))
            self._write_rows(table.slice(half))
        else:
            self._writer.write_table(named)

    def _open(self, table: pa.Table) -> pq.ParquetWriter:
        """A writer for tables like the first, by whose words it is decided which columns have a dictionary."""
        filesystem, root = open_filesystem(self.directory)
        filesystem.create_dir(f"{root}/{self._folder}", recursive=True)
        dictionaries = [column.name for column in table.schema if pa.types.is_dictionary(column.type)]
        repeated = [path for path in _texts(table.schema) if _repeats(table, path)]
        self._coded = [path for path in dictionaries if path in repeated]
        self._sink = SealedFile(filesystem.open_output_stream(f"{root}/{self.path}", compression=None), self._token)
        return pq.ParquetWriter(
            self._sink,
            table.schema,
            compression="zstd",
            write_page_checksum=True,
            use_dictionary=repeated,
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
            write_statistics=_with_bounds(table.schema) if dictionaries else True,
            max_rows_per_page=_PAGE_ROWS,
            store_schema=False,  # or readers would be given dictionaries
            column_encoding=dict.fromkeys(_whole_numbers(table.schema), "DELTA_BINARY_PACKED"),
        )

    def close(self) -> DataFile | None:
        """Finish the file; None when nothing was written."""
        if self._waiting:
            self._write_group()
        if self._writer is None or self._sink is None:
            return None
        # ``ParquetWriter.close`` writes the footer, so from ``finish`` on all bytes wait for the digest of it.
        self._writer.add_key_value_metadata({KEY: UNSEALED})
        self._sink.finish()
        self._writer.close()
        self._sink.close()
        least, most = self._bounds.get("offset", NO_BOUNDS)
        return DataFile(self.path, self._sink.bytes, self._records, self.partition, least, most, self._bounds)


def write_task_file(directory: str, table: pa.Table, *, partition: int, name: str) -> DataFile:
    """Write ``table``, which has rows, as one file under ``<directory>/partition=<partition>/`` (-1: of a table without
    partitions); not visible yet. A column `partition` is left out: Delta keeps it in the path. ``name`` begins the
    file's name.
    """
    file = TaskFile(directory, partition=partition, name=name)
    file.write(table.drop_columns(["partition"]) if "partition" in table.column_names else table)
    written = file.close()
    assert written is not None, f"{directory}, {name}: no rows to write"
    return written


def _whole_numbers(schema: pa.Schema) -> list[str]:
    """Leaves that hold integers. Written as differences: offsets and times nearly always rise, so that half the bytes
    and half the seconds of Parquet's usual dictionaries suffice."""
    return [path for path, kind in _leaves(schema) if kind in (pa.int32(), pa.int64())]


def _texts(schema: pa.Schema) -> list[str]:
    """Leaves that hold text or bytes, for which a dictionary pays."""
    return [
        path for path, kind in _leaves(schema) if kind in (pa.string(), pa.binary()) or pa.types.is_dictionary(kind)
    ]


def _repeats(table: pa.Table, path: str) -> bool:
    """Whether a column (one within a struct: always) has words that come again soon, so that a dictionary pays."""
    if path not in table.column_names or len(table) < _SAMPLE:
        return True
    if pa.types.is_dictionary(table[path].type):
        return 10 * len(table[path].chunk(0).dictionary) < 9 * len(table)
    sample = pl.Series(table[path].slice(0, _SAMPLE))  # Arrow takes seven times as long to count
    return 10 * sample.drop_nulls().n_unique() < 9 * _SAMPLE


def stored_as(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """``rows`` with the columns and types of ``schema``; dictionary arrays stay what they are."""
    selected = rows.select(schema.names)
    kinds = [a.type if pa.types.is_dictionary(a.type) else b.type for a, b in zip(selected.schema, schema, strict=True)]
    return selected.cast(pa.schema(list(zip(schema.names, kinds, strict=True))))


def _bytes_in_memory(column: pa.ChunkedArray) -> int:
    """Of its rows; of a dictionary array, which may have many more words than rows, with words of mean length."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    return sum(len(piece) * (4 + piece.dictionary.nbytes // max(1, len(piece.dictionary))) for piece in column.chunks)


def _with_named_words(table: pa.Table) -> pa.Table:
    """Dictionary arrays of one piece each, with the words that a row names and no others."""
    for index, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(index, table.column_names[index], _named_words(column))
    return table


def _named_words(column: pa.ChunkedArray) -> pa.DictionaryArray:
    # Each dictionary begins with those before it, so the last has the words of all pieces.
    every = column.chunks[-1].dictionary
    rows = np.concatenate([piece.indices.fill_null(-1).to_numpy() for piece in column.chunks])
    is_named = np.zeros(len(every) + 1, np.bool_)  # the last is null's
    is_named[rows] = True
    named = np.flatnonzero(is_named[:-1])
    numbers = np.empty(len(every) + 1, np.int32)
    numbers[named], numbers[-1] = np.arange(len(named)), -1
    indices = numbers[rows]
    mask = indices < 0 if column.null_count else None
    return pa.DictionaryArray.from_arrays(indices, every.take(pa.array(named)).cast(pa.string()), mask=mask)


@cache
def _with_bounds(schema: pa.Schema) -> list[str]:
    """Parquet's names of all columns but dictionary arrays; those within lists are not the names of Arrow."""
    sink = pa.BufferOutputStream()
    pq.write_metadata(schema, sink)
    columns = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    paths = [columns.column(index).path for index in range(len(columns))]
    dictionaries = {column.name for column in schema if pa.types.is_dictionary(column.type)}
    return [path for path in paths if path not in dictionaries]


def _leaves(fields: Iterable[pa.Field], above: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """Parquet's paths and types, lists left out (they are written plainly)."""
    for column in fields:
        if pa.types.is_struct(column.type):
            yield from _leaves(column.type, f"{above}{column.name}.")
        else:
            yield f"{above}{column.name}", column.type
