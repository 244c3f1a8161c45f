"""The newest value of every key and window of an output, kept as a Delta table of its own: `current/<output>`.

Owns that table. Rule: it has the rows that ``read_newest`` gives as of the increment with which it is marked, and no
tombstones. It is made of committed tables alone, behind the increments, so it can be made again at any time, and is
brought up to date by the rows of new increments. These decide which of its files are written again: a row is in the
file of its bucket, a share of all keys. Where rows were taken back, or erased, all of it is made again. No ledger names
its versions, so only the newest is for readers.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from ...state.errors import CommitLost, ConfigError
from ...state.tables.branch_files import table_names, table_parts
from ...state.tables.commit import create_table, swap_files
from ...state.tables.data_files import DataFile, conformed, live_files, mark_of, open_table
from ...state.tables.ledger import Ledger, LedgerRow
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import OUTPUTS, TableName
from ...state.tables.parquet_reader import open_file
from ...state.tables.parquet_writer import TaskFile
from ...state.tables.schema_evolution import grow, other_types
from ...state.tables.warehouse import Warehouse, output_identity
from .committed_tables import done_row, newest_rows, read_changelog, read_table

BUCKET_ROWS = 1 << 16
"""So many rows are in a bucket, about, before there are more of them."""
GROWTH = 16
"""There are so many times as many buckets then."""
_LEFT_OUT = ("arrival",)
_BUCKET = re.compile(r"\d{8}-b(\d+)of(\d+)-")


def keep_current(warehouse: Warehouse, pipeline: str, output: str) -> LedgerRow[DoneRow]:
    """Bring `current/<output>` of a pipeline up to its last done increment, whose row is returned; make the table where
    there is none. Of two at once, one does it. Raises as ``read_changelog``.
    """
    last = done_row(warehouse, pipeline)
    path, app_id = warehouse.pipeline(pipeline).current(output), f"{pipeline}/{TableName.current(output)}"
    schema = _schema(warehouse, pipeline, output, last.content)
    table = create_table(path, schema)
    _refuse_other_types(table, path, schema)
    known = mark_of(table, path, app_id)
    if known is not None and known >= last.increment:
        return last
    table = grow(table, path, schema)
    if known is None or _is_restated(warehouse, pipeline, known):
        rows = newest_rows(read_changelog(warehouse, pipeline, output, increment=last.increment))
        added, removed = _made_again(path, conformed(rows, schema), last.increment), live_files(table)
    else:
        rows = read_table(warehouse, pipeline, TableName.output(output), increment=last.increment, after=known)
        added, removed = _brought_up(path, table, conformed(newest_rows(rows), schema), last.increment)
    with suppress(CommitFailedError):  # another one was quicker, and did the same
        swap_files(table, path, added, removed, app_id=app_id, increment=last.increment, changes_data=True)
    table.update_incremental()
    if (mark_of(table, path, app_id) or 0) < last.increment:
        raise CommitLost(path, f"increment {last.increment} when read back", "another", "keep it again")
    return last


def _refuse_other_types(table: DeltaTable, path: str, schema: pa.Schema) -> None:
    other = other_types(table, schema)
    if other:
        expected, next_step = "columns of the types that the output has", "delete its folder, and keep it again"
        raise ConfigError(path, expected, f"another type of {', '.join(other)}", next_step)


def _schema(warehouse: Warehouse, pipeline: str, output: str, done: DoneRow) -> pa.Schema:
    """The output's columns, of which `partition` is one like others."""
    parts = table_parts(warehouse, pipeline, done, TableName.output(output))
    if not parts:
        known = ", ".join(TableName(table).name for table in table_names(done) if TableName(table).kind == OUTPUTS)
        raise ConfigError(f"pipeline {pipeline!r}", f"one of the outputs {known}", repr(output), "name one of them")
    path, version, _ = parts[-1]
    opened = open_table(path, version=version)
    assert opened is not None, f"{path}: in the ledger, yet not there"
    return pa.schema([field for field in pa.schema(opened.schema().to_arrow()) if field.name not in _LEFT_OUT])


def _is_restated(warehouse: Warehouse, pipeline: str, after: int) -> bool:
    """Whether an increment after ``after`` took rows back, or brought others' rows."""
    return any(row.content.kind for row in Ledger(warehouse.pipeline(pipeline).ledger).done_rows(after + 1))


def _made_again(path: str, rows: pa.Table, increment: int) -> list[DataFile]:
    buckets = 1
    while len(rows) > BUCKET_ROWS * buckets:
        buckets *= GROWTH
    rows = rows.filter(pc.is_valid(rows["value"].combine_chunks()))
    return list(_written(path, rows, _numbers(rows, buckets), buckets, increment))


def _brought_up(
    path: str, table: DeltaTable, changed: pa.Table, increment: int
) -> tuple[list[DataFile], list[DataFile]]:
    """Files that come and files that go, for the newest rows of the keys that ``changed``, with tombstones."""
    files = live_files(table)
    buckets = max((_bucket_of(file)[1] for file in files), default=1)
    numbers = _numbers(changed, buckets)
    # Changed rows may take the place of others, so there are at most so many. Whether the buckets are too full is known
    # once all files have been read, below.
    if sum(file.records for file in files) + len(changed) > 2 * BUCKET_ROWS * buckets:
        touched = files
    else:
        touched = [file for file in files if _bucket_of(file)[0] in set(numbers)]
    before = pa.concat_tables([changed.schema.empty_table(), *(_rows(path, file, changed.schema) for file in touched)])
    gone = set(_identities(changed))
    stays = pa.array([identity not in gone for identity in _identities(before)], pa.bool_())
    rows = pa.concat_tables([before.filter(stays), changed.filter(pc.is_valid(changed["value"].combine_chunks()))])
    if touched is files and len(rows) > BUCKET_ROWS * buckets:
        return _made_again(path, rows, increment), files
    return list(_written(path, rows, _numbers(rows, buckets), buckets, increment)), touched


def _written(path: str, rows: pa.Table, numbers: Sequence[int], buckets: int, increment: int) -> Iterator[DataFile]:
    """A file a bucket that has rows; not visible yet."""
    of = pa.array(numbers, pa.int64())
    for number in sorted(set(numbers)):
        target = TaskFile(path, partition=-1, name=f"{increment:08d}-b{number:05d}of{buckets}")
        target.write(rows.filter(pc.equal(of, number)))
        written = target.close()
        assert written is not None, "a bucket with rows"
        yield written


def _bucket_of(file: DataFile) -> tuple[int, int]:
    """Number of a file's bucket, and how many buckets there were when it was written."""
    match = _BUCKET.match(file.path)
    return (0, 1) if match is None else (int(match[1]), int(match[2]))


def _rows(path: str, file: DataFile, schema: pa.Schema) -> pa.Table:
    """`partition` is a column of the file itself."""
    with open_file(path, file) as opened:
        return conformed(opened.rows().read(), schema)


def _identities(rows: pa.Table) -> list[str]:
    """Of every row what it is the newest of, as text."""
    names = output_identity(rows.column_names)
    columns: list[list[Any]] = [rows[name].to_pylist() for name in names]
    return [repr(identity) for identity in zip(*columns, strict=True)]


def _numbers(rows: pa.Table, buckets: int) -> list[int]:
    if buckets == 1:
        return [0] * len(rows)
    # No hash(): Python salts that of text, so the next process would look for a key in another bucket.
    return [zlib.crc32(identity.encode()) % buckets for identity in _identities(rows)]
