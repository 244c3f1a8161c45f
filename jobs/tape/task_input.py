"""A chunk of a task's tape: rows of its sources in one order, as Arrow columns.

Owns the names of the columns that a task reads. Rule: nothing is decoded here (jobs/task/decoding.py).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from ...state.buffers import only_chunk

INPUT_COLUMNS = {"offset": pa.int64(), "timestamp": pa.int64(), "key": pa.binary(), "value": pa.binary()}
"""Columns that a task reads of a landed or repartition table. It may also have ``headers``, ``context_offset`` (the
offset that operators see, null for none; default the offset) and ``old`` (of a change: the value it replaced, bytes).
"""
LANDED_TIME = "landed_timestamp"
"""Column of the times that records landed with, where an extractor gave them others (jobs/tape/extracted_slice.py)."""


@dataclass(frozen=True)
class TapeChunk:
    """A chunk of a tape. ``source`` int16: place of each row's source in the task's ``sources``; ``tables``: the rows
    of each source, in order.
    """

    source: np.ndarray
    tables: tuple[pa.Table, ...]

    def __len__(self) -> int:
        return len(self.source)

    @classmethod
    def of(cls, table: pa.Table) -> "TapeChunk":
        """The records of a task with one source."""
        return cls(np.zeros(len(table), np.int16), (table,))

    def part(self, begin: int, end: int) -> "TapeChunk":
        """Rows ``begin`` to ``end``."""
        if begin == 0 and end == len(self):
            return self
        before, here = (
            np.bincount(self.source[rows], minlength=len(self.tables)).tolist()
            for rows in (slice(0, begin), slice(begin, end))
        )
        tables = zip(self.tables, before, here, strict=True)
        return TapeChunk(self.source[begin:end], tuple(table.slice(*rows).combine_chunks() for table, *rows in tables))

    def rows(self, number: int) -> np.ndarray:
        """Rows of the chunk that are from source ``number``."""
        return self._rows[number]

    @cached_property
    def _rows(self) -> list[np.ndarray]:
        if len(self.tables) == 1:
            return [np.arange(len(self.source))]
        return [np.flatnonzero(self.source == number) for number in range(len(self.tables))]

    def spread(self, name: str, missing: int) -> np.ndarray:
        """An int64 column over all rows of the chunk; ``missing`` where a source does not have it or has null."""
        if len(self.tables) == 1 and name in self.tables[0].column_names:
            return integers(self.tables[0], name, missing)
        column = np.full(len(self.source), missing, np.int64)
        for number, table in enumerate(self.tables):
            if name in table.column_names:
                column[self.rows(number)] = integers(table, name, missing)
        return column


def integers(table: pa.Table, name: str, missing: int) -> np.ndarray:
    """A copy: a kernel compiled for Arrow's read-only memory would be another one than for our own."""
    column = only_chunk(table, name)
    filled: np.ndarray = (column.fill_null(missing) if column.null_count else column).to_numpy()
    return filled.copy()
