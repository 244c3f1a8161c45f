"""Rows of one store and partition that are found when somebody asks for them.

Owns the look-up of rows by key among runs (sorted_runs.py), one at a time or many at once. Rule: the newest row of a
row key counts, unless it is deleted. The cost depends on the rows that are asked for: a look-up is one binary search a
run, and the hashes of a run with a warm copy are mapped and not read.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from .sorted_runs import RowForm, SortedRun, every_row, key_hashes, rows_of, run_of


class StoredRows:
    """``runs``: oldest first. ``len``: rows in all runs, older ones and deletions too."""

    def __init__(self, runs: Sequence[SortedRun], form: RowForm) -> None:
        self._form = form
        self._runs = [_RunCells(run, form) for run in runs if len(run)]

    def __len__(self) -> int:
        return sum(len(one.run) for one in self._runs)

    def find(self, key: bytes, named: tuple[Any, ...], column: str) -> Any:
        """What is in ``column`` of the row with ``named`` in its row key's columns, which is found by ``key``; None
        when there is no such row.
        """
        if not self._runs:
            return None
        (hashed,) = key_hashes(pa.array([key], pa.binary()))
        for one in reversed(self._runs):
            at = one.find(hashed, named)
            if at is not None:
                return None if one.value("deleted", at) else one.value(column, at)
        return None

    def of(self, keys: pa.BinaryArray) -> pa.Table:
        """The rows that are found by any of ``keys``, and perhaps some whose keys have the same hash."""
        return rows_of([one.run for one in self._runs], self._form, np.unique(key_hashes(keys)))

    @cached_property
    def every(self) -> pa.Table:
        """All rows."""
        return every_row([one.run for one in self._runs], self._form)


class _RunCells:
    """Single cells of ``run``."""

    def __init__(self, run: SortedRun, form: RowForm) -> None:
        self.run, self._names, self._row_key = run, form.schema.names, form.row_key
        self._starts: list[int] = run.starts.tolist()

    def find(self, hashed: np.uint64, named: tuple[Any, ...]) -> int | None:
        """Number of the row that ``named`` names, whose key has that hash."""
        hashes = self.run.hashes
        for at in range(int(np.searchsorted(hashes, hashed)), len(hashes)):
            if hashes[at] != hashed:
                return None
            # Other keys may have the same hash.
            if all(self.value(name, at) == one for name, one in zip(self._row_key, named, strict=True)):
                return at
        return None

    def value(self, name: str, at: int) -> Any:
        number = bisect_right(self._starts, at) - 1
        return self.run.batches[number].column(self._names.index(name))[at - self._starts[number]].as_py()


def in_memory(rows: pa.Table, row_key: tuple[str, ...], found_by: Callable[[pa.Table], pa.Array]) -> StoredRows:
    """Live ``rows`` of a store as stored ones."""
    more = pa.field("increment", pa.int64()), pa.field("deleted", pa.bool_())
    form = RowForm("rows in memory", pa.schema([*rows.schema, *more]), row_key, found_by)
    if not len(rows):
        return StoredRows([], form)
    for field, value in zip(more, (0, False), strict=True):
        rows = rows.append_column(field, pa.repeat(pa.scalar(value, field.type), len(rows)))
    return StoredRows([run_of(rows, form)], form)
