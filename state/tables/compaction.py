"""Small files become larger ones, so that a table of many increments costs no more to open than one of few.

Owns what is merged and when. Rule: rows, their order and their columns stay unchanged. A merge is its own Delta
transaction that changes no data (as OPTIMIZE), so a reader of an earlier version, or of the table's changes, sees
nothing. It runs inside an increment, between its plan and its done row, so its files are as safe from vacuum as those
of the increment. It has the increment's mark, so that of two runners one merges and a restatement ends both: Delta lets
two transactions remove one file. If it dies, a later increment does it. State is compacted differently
(state/runs/sorted_runs.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from .commit import swap_files
from .data_files import (
    DataFile,
    OpenTables,
    live_files,
    mark_of,
    open_table,
    read_rows,
    without_partition,
)
from .footer_seal import token_of
from .parquet_writer import TaskFile

EVERY = 64
"""Increments between two merges."""
SMALL_BYTES = 1 << 20
"""Larger files stay as they are."""
MERGED_BYTES = 16 << 20
"""Files are merged until they are so large together: what a merge holds in memory, compressed."""
NEWEST = 2
"""Increments whose files stay, since readers ask for them most."""


def compact(
    path: str,
    *,
    app_id: str,
    increment: int,
    opened: OpenTables | None = None,
) -> int | None:
    """Merge small files of the table that lie side by side in order of offset; return the version that has them.

    ``increment``: the one at work, which names the files. None: nothing was to do. Where somebody else committed under
    ``app_id`` meanwhile, the version that he left: he merged as this call would have, or this increment is not the
    pipeline's any more. ``opened``: as of ``open_table``.
    """
    if increment % EVERY:
        return None
    table = open_table(path, opened=opened)
    if table is None:
        return None
    runs = list(runs_to_merge(live_files(table), increment - NEWEST))
    if not runs:  # or all were merged by a run of this increment that died
        return table.version() if mark_of(table, path, app_id) == increment else None
    merged = [_merged(path, table, run, increment) for run in runs]
    gone = [file for run in runs for file in run]
    with suppress(CommitFailedError):
        swap_files(table, path, merged, gone, app_id=app_id, increment=increment)
    table.update_incremental()
    return table.version()


def runs_to_merge(files: Sequence[DataFile], newest: int) -> Iterator[list[DataFile]]:
    """Two or more neighbours of a partition that are small, of increments up to ``newest``."""
    for (_, is_small), neighbours in groupby(files, key=lambda file: (file.partition, _is_small(file, newest))):
        if is_small:
            yield from (run for run in _bounded(neighbours) if len(run) > 1)


def _bounded(files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
    """``files`` in runs of at most MERGED_BYTES."""
    run: list[DataFile] = []
    size = 0
    for file in files:
        if run and size + file.bytes > MERGED_BYTES:
            yield run
            run, size = [], 0
        run.append(file)
        size += file.bytes
    if run:
        yield run


def _is_small(file: DataFile, newest: int) -> bool:
    return file.bytes <= SMALL_BYTES and "increment" in file.bounds and file.bounds["increment"][1] <= newest


def _merged(path: str, table: DeltaTable, run: Sequence[DataFile], increment: int) -> DataFile:
    """One file with the rows of ``run`` in their order; not visible yet."""
    schema = without_partition(pa.schema(table.schema().to_arrow()))
    target = TaskFile(path, partition=run[0].partition, name=f"{increment:08d}-merged")
    rows = read_rows(path, run, schema)
    if "offset" in schema.names and any(token_of(file.path) is None for file in run):
        rows = rows.sort_by("offset")  # others may have rearranged them (state/tables/foreign_commits.py)
    target.write(rows.combine_chunks())
    file = target.close()
    assert file is not None, f"{path}: files without rows were listed with bounds"
    return file
