"""Records whose content is taken out of a landed topic for good: key, value and headers, and the files that had them.

Owns the rewriting of landed tables. Rule: the place of a record stays, with its time, so that offsets and counts are
what they were. It is out of play from then on (jobs/landing/exclusions.py), so nobody reads what is left of it. The
plan of a landing increment names offsets alone, so whoever comes to an unfinished one finishes it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from ...state.errors import CommitLost
from ...state.tables.commit import settle, swap_files
from ...state.tables.data_files import (
    DataFile,
    conformed,
    live_files,
    mark_of,
    open_table,
    read_rows,
    table_digest,
    without_partition,
)
from ...state.tables.footer_seal import ENDING, token_of
from ...state.tables.ledger import LedgerRow
from ...state.tables.ledger_rows import LandingDoneRow, LandingPlanRow
from ...state.tables.parquet_reader import open_file
from ...state.tables.parquet_writer import TaskFile
from ...state.tables.sought import Sought
from ...state.tables.warehouse import LANDED_SCHEMA, Warehouse

Offsets = dict[str, list[int]]
"""By partition, as text."""

_ROWS = 1 << 17
"""Are written at a time, so that row groups are as long as of a landing."""
_CONTENT = pa.schema([LANDED_SCHEMA.field(name) for name in ("offset", "key", "value", "headers")])


def offsets_of(path: str, files: Sequence[DataFile], sought: Sought) -> Offsets:
    """Where the ``files`` of a landed table have records of a key, or with the words; [] of no partition."""
    by_partition: dict[str, list[int]] = {}
    for file in files:
        rows = read_rows(path, [file], _CONTENT)
        offsets = rows["offset"].filter(pa.array(sought.rows(rows))).to_pylist()
        if offsets:
            by_partition.setdefault(str(file.partition), []).extend(offsets)
    return {p: sorted(by_partition[p]) for p in sorted(by_partition, key=int)}


def erase_planned(
    warehouse: Warehouse, topic: str, planned: LedgerRow[LandingPlanRow], since: int | None
) -> LandingDoneRow:
    """Commit the landed table of ``topic`` without the content of the records that a landing increment plans to erase,
    unless that has been done; return its done row, which is not written yet. ``since``: version that the ledger knows.
    """
    path, app_id = warehouse.landed(topic), f"landing/{topic}/{planned.epoch}"
    table = open_table(path)
    assert table is not None, f"{path}: has landed, yet is not there"
    # An earlier run of this increment may have died between its commit and its done row.
    if mark_of(table, path, app_id) != planned.increment:
        table = settle(table, path, table.version() if since is None else since)
        assert planned.content.exclusion is not None
        erased = planned.content.exclusion["records"]
        _blank(table, path, erased, app_id=app_id, increment=planned.increment)
    done = LandingDoneRow.from_json(planned.content.to_json())
    return replace(done, table_version=table.version(), table_digest=table_digest(path, table.version()))


def _blank(table: DeltaTable, path: str, erased: Offsets, *, app_id: str, increment: int) -> None:
    schema = without_partition(pa.schema(table.schema().to_arrow()))
    files, gone, added = live_files(table), list[DataFile](), list[DataFile]()
    for p, offsets in erased.items():
        for together in _rewritten_together([file for file in files if file.partition == int(p)], offsets):
            target = TaskFile(path, partition=int(p), name=f"{increment:08d}-erased")
            rows = read_rows(path, together, schema).sort_by("offset")
            for piece in _without_content(rows, offsets).to_batches(max_chunksize=_ROWS):
                target.write(pa.Table.from_batches([piece]))
            written = target.close()
            assert written is not None, f"{path}: a file without rows had bounds"
            gone += together
            added.append(written)
    _swap(table, path, added, gone, app_id=app_id, increment=increment)


def _rewritten_together(files: Sequence[DataFile], offsets: Sequence[int]) -> Iterator[list[DataFile]]:
    """Files of a partition with any of ``offsets``. Those that others have rearranged overlap, so they become one."""
    at = np.asarray(offsets)
    others = [file for file in files if token_of(file.path) is None]
    hit = [
        file
        for file in files
        if file.min_offset is None
        or file.max_offset is None
        or ((at >= file.min_offset) & (at <= file.max_offset)).any()
    ]
    if any(token_of(file.path) is None for file in hit):
        yield others
    yield from ([file] for file in hit if token_of(file.path) is not None)


def _without_content(rows: pa.Table, offsets: Sequence[int]) -> pa.Table:
    """The same rows, of which those at ``offsets`` have null for key and value, and no headers."""
    is_out = pc.is_in(rows["offset"], pa.array(offsets, pa.int64())).combine_chunks()
    for name in ("key", "value", "headers"):
        column = rows[name].combine_chunks()
        nothing = pa.scalar([], column.type) if name == "headers" else pa.scalar(None, column.type)
        rows = rows.set_column(rows.schema.get_field_index(name), name, _replaced(column, is_out, nothing))
    return rows


def _replaced(column: pa.Array, is_out: pa.Array, nothing: pa.Scalar) -> pa.Array:
    """By taking, which knows every type."""
    taken = np.where(np.asarray(is_out), len(column), np.arange(len(column)))
    return pa.concat_arrays([column, pa.array([nothing.as_py()], column.type)]).take(pa.array(taken))


def without_rows(path: str, stays: Callable[[DataFile, pa.Table], pa.Array], *, app_id: str) -> int:
    """Rewrite the files of a table of which not every row ``stays``, without those rows; return how many went. It is a
    table whose versions no ledger names. Nothing is committed where every row stays, or there is no table.
    """
    table = open_table(path)
    if table is None:
        return 0
    schema, gone, added, removed = pa.schema(table.schema().to_arrow()), list[DataFile](), list[DataFile](), 0
    if table.metadata().partition_columns:
        schema = without_partition(schema)
    for file in live_files(table):
        with open_file(path, file) as opened:
            rows = conformed(opened.rows().read(), schema)
        kept = rows.filter(stays(file, rows))
        if len(kept) == len(rows):
            continue
        target = TaskFile(path, partition=file.partition, name=_stem(file.path))
        target.write(kept)
        written = target.close()
        added += [] if written is None else [written]
        gone.append(file)
        removed += len(rows) - len(kept)
    if gone:
        mark = mark_of(table, path, app_id)
        _swap(table, path, added, gone, app_id=app_id, increment=0 if mark is None else mark + 1)
    return removed


def _stem(path: str) -> str:
    """A file's name without its token, so that its copy is known by what it is known by."""
    name = path.rpartition("/")[2]
    token = token_of(path)
    return name.removesuffix(ENDING).removesuffix(f"-{token}") if token is not None else name.removesuffix(".parquet")


def _swap(
    table: DeltaTable,
    path: str,
    added: Sequence[DataFile],
    gone: Sequence[DataFile],
    *,
    app_id: str,
    increment: int,
) -> None:
    """Raises CommitLost when somebody else committed meanwhile, unless it was this very increment."""
    try:
        # As a transaction that changes no data: landed tables are
        # append-only to Delta, which refuses any other that removes files.
        swap_files(table, path, added, gone, app_id=app_id, increment=increment)
    except CommitFailedError as error:
        table.update_incremental()
        if mark_of(table, path, app_id) != increment:
            raise CommitLost(path, "files rewritten", str(error), "give the same command again") from error
    table.update_incremental()
