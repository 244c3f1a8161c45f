"""Durable rows of one store and partition, as runs: rows by rising hash of their key, one run a file.

Owns how rows are found among runs, and how runs are merged. Rule: of the rows with one row key that of the newest run
counts; a run never changes. The rows that a task needs are found by the keys that it touches, and by the time at which
a row's timer fires. So the cost depends on the rows asked for and not on the size of the store.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ..buffers import binary_view, by_bits
from ..records.key_interning import hash_rows
from ..times import UNBOUNDED

NEVER = np.int64(UNBOUNDED)
"""Due time of a row without a timer."""

MERGED_ROWS = 262_144
"""Rows that a merge holds at a time, about."""

MERGE_RATIO = 1.5
"""A run is merged into what comes after it when it is at most so many times as long. Lengths then fall from run to run
by that factor at least, so there are as many runs as the logarithm of the rows, and a row is written as often.
"""


@dataclass(frozen=True)
class RowForm:
    """What the rows of a store are. ``schema``: the store's own columns, `increment` and `deleted`.

    ``row_key``: columns that name a row. ``found_by``: of every row the serialized key by which it is looked for; rows
    of one row key have one. ``due_ms``: of every row the time at which its timer fires (NEVER: it has none), or None
    when no row has one. ``name`` distinguishes forms; the serde is in it with which ``found_by`` writes keys.
    """

    name: str
    schema: pa.Schema
    row_key: tuple[str, ...]
    found_by: Callable[[pa.Table], pa.Array]
    due_ms: Callable[[pa.Table], np.ndarray] | None = None

    def hashes(self, rows: pa.Table) -> np.ndarray:
        """uint64 a row."""
        return key_hashes(self.found_by(rows))

    def due(self, rows: pa.Table) -> np.ndarray:
        """Due time a row, NEVER of deleted rows."""
        if self.due_ms is None:
            return np.full(len(rows), NEVER)
        deleted = rows["deleted"].to_numpy()
        return np.where(deleted, NEVER, self.due_ms(rows))


def key_hashes(serialized: pa.Array) -> np.ndarray:
    """Hash of every serialized key as uint64, 0 for null. Stored files are in its order."""
    view, hashes = binary_view(serialized), np.zeros(len(serialized), np.uint64)
    with np.errstate(over="ignore"):  # the hash wraps; NumPy would say so when JIT is off
        hash_rows(view.data, view.offsets, hashes)
    if serialized.null_count:
        hashes[serialized.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashes


@dataclass(frozen=True)
class SortedRun:
    """Rows by rising hash, in ``batches`` of which the first rows are at ``starts``.

    ``due_times`` rise; ``due_rows`` says whose they are. Rows that are never due are not among them.
    """

    batches: Sequence[pa.RecordBatch]
    starts: np.ndarray
    hashes: np.ndarray
    due_times: np.ndarray
    due_rows: np.ndarray

    def __len__(self) -> int:
        return len(self.hashes)

    def find(self, hashes: np.ndarray) -> np.ndarray:
        """Rows with any of ``hashes`` (rising, distinct), in order."""
        first = np.searchsorted(self.hashes, hashes, "left")
        counts = np.searchsorted(self.hashes, hashes, "right") - first
        ends = np.cumsum(counts)
        return np.repeat(first - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)

    def due(self, above: int, up_to: int) -> np.ndarray:
        """Hashes of rows with ``above < due time <= up_to``."""
        first, after = np.searchsorted(self.due_times, [above, up_to], "right")
        return self.hashes[self.due_rows[first:after]]

    def take(self, rows: np.ndarray, schema: pa.Schema) -> pa.Table:
        """``rows``, which rise."""
        batch_of = np.searchsorted(self.starts, rows, "right") - 1
        pieces = []
        for number in np.unique(batch_of).tolist():
            of_batch = rows[batch_of == number] - self.starts[number]
            pieces.append(self.batches[number].take(pa.array(of_batch)))
        return pa.Table.from_batches(pieces, schema)

    def part(self, begin: int, end: int, schema: pa.Schema) -> pa.Table:
        """Rows ``[begin, end)``, not copied."""
        pieces = []
        for batch, start in zip(self.batches, self.starts.tolist(), strict=True):
            first, after = max(begin - start, 0), min(end - start, len(batch))
            if first < after:
                pieces.append(batch.slice(first, after - first))
        return pa.Table.from_batches(pieces, schema)


def run_of(rows: pa.Table, form: RowForm) -> SortedRun:
    """A run in memory of rows in any order."""
    hashes = form.hashes(rows)
    order = np.argsort(hashes, kind="stable")
    table = rows.select(form.schema.names).take(pa.array(order)).combine_chunks()
    batches = table.to_batches()
    starts = np.cumsum([0, *(len(batch) for batch in batches)])[:-1]
    return SortedRun(batches, starts, hashes[order], *due_index(form.due(table)))


def due_index(due_ms: np.ndarray, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Times that are not NEVER, rising, and their rows, counted from ``first``."""
    rows = np.flatnonzero(due_ms != NEVER)
    rows = rows[np.argsort(due_ms[rows], kind="stable")]
    return due_ms[rows], rows + first


def newest(rows: pa.Table, row_key: Sequence[str]) -> np.ndarray:
    """The last of ``rows`` with each row key (in each partition), as rising row numbers. They are sorted oldest
    first.
    """
    keys = [name for name in ("partition", *row_key) if name in rows.column_names]
    frame = pl.from_arrow(by_bits(rows.select(keys)).append_column("row", pa.array(np.arange(len(rows)))))
    assert isinstance(frame, pl.DataFrame)
    last: np.ndarray = np.sort(frame.unique(subset=keys, keep="last", maintain_order=False)["row"].to_numpy())
    return last


def every_row(runs: Sequence[SortedRun], form: RowForm) -> pa.Table:
    """The newest row of every row key that is not deleted; ``runs`` are sorted oldest first."""
    return _live([run.part(0, len(run), form.schema) for run in runs], form)


def rows_of(runs: Sequence[SortedRun], form: RowForm, hashes: np.ndarray) -> pa.Table:
    """As ``every_row``, of the keys with ``hashes`` (rising, distinct)."""
    return _live([run.take(run.find(hashes), form.schema) for run in runs], form)


def _live(pieces: list[pa.Table], form: RowForm) -> pa.Table:
    if len(pieces) == 1:
        return pieces[0].filter(pc.invert(pieces[0]["deleted"]))
    return live_rows(pa.concat_tables(pieces) if pieces else form.schema.empty_table(), form.row_key)


def live_rows(rows: pa.Table, row_key: Sequence[str]) -> pa.Table:
    """The last of ``rows`` with each row key (in each partition) that is not deleted. They are sorted oldest first."""
    rows = rows.take(pa.array(newest(rows, row_key)))
    return rows.filter(pc.invert(rows["deleted"]))


def to_merge(lengths: Sequence[int], fresh: int) -> int:
    """How many of the newest runs (``lengths``, oldest first) go into one with ``fresh`` new rows."""
    merged, rows = 0, fresh
    for length in reversed(lengths):
        if length > MERGE_RATIO * rows:
            break
        merged, rows = merged + 1, rows + length
    return merged


def merged(
    runs: Sequence[SortedRun], form: RowForm, *, is_whole: bool, is_forgotten: Callable[[pa.Table], np.ndarray]
) -> Iterator[pa.Table]:
    """The rows of ``runs`` (oldest first) merged into one run, piece by piece.

    ``is_whole``: there are no older runs, so deleted rows and rows for which ``is_forgotten`` is true are left out.
    """
    longest = max(runs, key=len)
    share = max(1, MERGED_ROWS * len(longest) // max(1, sum(map(len, runs))))
    # A cut is between two hashes: rows of one row key have one hash, and so are in one piece.
    bounds = np.unique(longest.hashes[::share])[1:]
    ends = [[0, *np.searchsorted(run.hashes, bounds), len(run)] for run in runs]
    for number in range(len(bounds) + 1):
        parts = [(run, end[number], end[number + 1]) for run, end in zip(runs, ends, strict=True)]
        rows = pa.concat_tables([run.part(begin, end, form.schema) for run, begin, end in parts])
        hashes = np.concatenate([run.hashes[begin:end] for run, begin, end in parts])
        kept = newest(rows, form.row_key) if len(runs) > 1 else np.arange(len(rows))
        rows, hashes = rows.take(pa.array(kept)), hashes[kept]
        if is_whole:
            stays = ~(rows["deleted"].to_numpy() | is_forgotten(rows))
            rows, hashes = rows.filter(pa.array(stays)), hashes[stays]
        yield rows.take(pa.array(np.argsort(hashes, kind="stable")))
