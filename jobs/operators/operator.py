"""What an operator is: a batch of records in, a batch of records out, and perhaps a store between.

Rule: an operator never sees a table, a clock, an increment or another operator; rows come and go in order, and every
record it is handed is either applied, refused with the number that decided, or passed on.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from jobs.expressions import Shape
from state.keys import Keys
from state.records import Batch, Chunk

Clocks = dict[str, int]
"""Numbers that live with an operator's state: its stream time, its store's, bytes in its buffer."""


@dataclass(frozen=True)
class Place:
    """Where an operator stands in a running task: its node's name, what it reads, and the keys it codes with."""

    node: str
    shape: Shape
    keys: Keys
    wants_old: bool = False
    """An operator below asks for the value that a change replaced."""
    is_lazy: bool = False
    """One operator alone reads the values, once and in part, so they are computed when it asks."""
    counts_bytes: bool = False
    """Suppress buffers count their bytes even without a byte limit."""


class Operator(ABC):
    """One node of one task."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        """Take ``batch``, forward what it causes, book what is refused in ``chunk``."""


class StatefulOperator(Operator):
    """An operator with a store, which a task resumes before its first batch and saves after its last."""

    @abstractmethod
    def resume(self, rows: pa.Table, clocks: Clocks) -> None:
        """Take back the live rows that ``rows_schema`` describes, and the clocks, of the increment before."""

    @abstractmethod
    def clocks(self) -> Clocks:
        """Clocks to hand to the next increment."""

    @abstractmethod
    def changes(self) -> pa.Table:
        """Rows that changed since ``resume``: ``rows_schema`` and ``deleted`` (true: the row is gone)."""

    @abstractmethod
    def rows(self) -> pa.Table:
        """All visible rows, in ``rows_schema``."""

    def contents(self) -> pa.Table:
        """What a reader sees of ``rows``: key, a window's bounds, ``value``, ``record_time_ms``."""
        return self.rows()

    @abstractmethod
    def rows_schema(self) -> pa.Schema:
        """Columns of the store's durable rows: ``key``, a window's bounds, the rest; times in milliseconds."""

    def metrics(self) -> dict[str, Any]:
        """Numbers of this increment for its report."""
        return {}


def marked(alive: pa.Table, gone: pa.Table) -> pa.Table:
    """Rows that are there now and rows that are not any more, told apart by ``deleted``."""
    marks = (alive, np.zeros(len(alive), np.bool_)), (gone, np.ones(len(gone), np.bool_))
    return pa.concat_tables([rows.append_column("deleted", pa.array(deleted)) for rows, deleted in marks])
