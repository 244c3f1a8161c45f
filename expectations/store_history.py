"""Rows from before the increment, of a store: as many as may be read.

Owns the limit. Rule: the newest files are read first, since their rows represent older ones of the same row key, up
to HISTORY_SHARE times the increment's own rows (or HISTORY_ROWS_MIN). Older files are sampled, so that on average no
more than the limit is read again. The seed of the sample is made of the pipeline, the table and the increment, and is
reported with the counts: a second check reads the same files. What is not read can hide a violation and never
makes one.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from ..state.tables.data_files import DataFile, oldest_first
from .audits import Scope

HISTORY_SHARE = 4
HISTORY_ROWS_MIN = 1 << 16


@dataclass(frozen=True)
class StoreHistory:
    """``rows``: live rows of the store as far as it was read, the increment's own ones among them. ``unread``: rows of
    files that were not opened.
    """

    rows: pl.DataFrame
    unread: int
    seed: int


def store_history(scope: Scope, table: str, row_key: Sequence[str], columns: Sequence[str], own: int) -> StoreHistory:
    """Newest rows by ``row_key`` and partition that are not deleted: ``row_key``, ``columns``, increment, partition."""
    path = scope.tables.table(table)
    chosen, unread, seed = _chosen(scope, table, scope.files(table, path), own)
    wanted = [*dict.fromkeys([*row_key, *columns, "increment", "deleted"])]
    if not chosen:
        schema = [name for name in wanted if name != "deleted"]
        return StoreHistory(pl.DataFrame(schema=[*schema, "partition"]), unread, seed)
    rows = scope.scan(path, chosen, wanted).collect()
    newest = rows.sort("increment").unique(["partition", *row_key], keep="last", maintain_order=True)
    return StoreHistory(newest.filter(~pl.col("deleted")).drop("deleted"), unread, seed)


def _chosen(scope: Scope, table: str, files: list[DataFile], own: int) -> tuple[list[DataFile], int, int]:
    seed = zlib.crc32(f"{scope.tables.name}/{table}/{scope.increment}".encode())
    budget = max(HISTORY_ROWS_MIN, HISTORY_SHARE * own)
    chosen, left = list[DataFile](), [file for file in oldest_first(files) if file.records]
    read = 0
    while left and read + left[-1].records <= budget:
        read += left[-1].records
        chosen.append(left.pop())
    unread = sum(file.records for file in left)
    if unread and seed / 2**32 < budget / unread:
        return [*chosen, *left], 0, seed
    return chosen, unread, seed
