"""Verdicts on a task's records, counted: read = applied + left out + dropped + undecodable; what every operator
refused; and how late records were.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...state.distinct_numbers import distinct
from ...state.records.batches import Chunk
from ..kernels.stream_time import LATE_CLASSES, class_limit_ms


@dataclass(slots=True)
class LatenessTotals:
    """Of records behind the task's stream time when they were taken: milliseconds behind, summed and largest."""

    total_ms: int = 0
    max_ms: int = 0
    records: int = 0
    """Records taken, those with lateness 0 included."""
    classes: np.ndarray = field(default_factory=lambda: np.zeros(LATE_CLASSES, np.int64))
    """How many of them were in each class (jobs/kernels/stream_time.py)."""

    def add(self, total_ms: int, max_ms: int, records: int) -> None:
        """Enter ``records`` that were together and at most so far behind."""
        self.total_ms += total_ms
        self.max_ms = max(self.max_ms, max_ms)
        self.records += records

    def report(self) -> dict[str, Any]:
        """As JSON. ``counts``: the largest lateness of a class, as text, to its number of records, where there are
        any.
        """
        counts = {
            str(class_limit_ms(int(number))): int(self.classes[number]) for number in np.flatnonzero(self.classes)
        }
        return {"total_ms": self.total_ms, "max_ms": self.max_ms, "records": self.records, "counts": counts}


@dataclass(slots=True)
class Counts:
    """Verdicts: read = applied + left out + dropped + undecodable."""

    read: int = 0
    applied: int = 0
    left_out: int = 0
    """No output and no store has anything of them, as a step wanted it: a filter, a join without a match."""
    dropped: int = 0
    undecodable: int = 0
    dropped_by_reason: dict[str, int] = field(default_factory=dict)
    windows_refused: int = 0
    """Windows that refused a record which others took."""
    refused: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    """Node → reason → how many records it refused, and how often (a record may be refused by several windows)."""
    by_operator: dict[str, list[int]] = field(default_factory=dict)
    """Node → [records that came to it, those of them that it refused whole]."""

    def add(self, chunk: Chunk, unread: np.ndarray, mine: np.ndarray) -> None:
        """Enter the rows ``mine`` of a chunk; ``unread``: those that could not be decoded."""
        mine_read = mine & ~unread if unread.any() else mine
        applied = chunk.applied & mine_read
        dropped = chunk.refused & ~applied & mine_read
        self.read += int(mine.sum())
        self.undecodable += int((unread & mine).sum())
        self.applied += int(applied.sum())
        self.dropped += int(dropped.sum())
        if chunk.left_out.any():
            self.left_out += int((chunk.left_out & ~chunk.applied & ~chunk.refused & mine_read).sum())
        # A record that several nodes refused counts once, under the reason of the first, so that reasons add up to
        # dropped.
        booked = np.zeros(len(chunk.offset), np.bool_)
        for _, cause, drops in chunk.drops:
            whole = distinct(cause[drops.is_record & dropped[cause] & ~booked[cause]])
            booked[whole] = True
            if len(whole):
                reason = drops.reason.value
                self.dropped_by_reason[reason] = self.dropped_by_reason.get(reason, 0) + len(whole)
            self.windows_refused += int((~drops.is_record & mine[cause]).sum())

    def add_refusals(self, chunk: Chunk) -> None:
        """Enter what operators refused because of a chunk, also one that has no record."""
        for node, cause, drops in chunk.drops:
            numbers = self.refused.setdefault(node, {}).setdefault(drops.reason.value, [0, 0])
            numbers[0] += len(distinct(cause))
            numbers[1] += len(cause)
        for node in {**chunk.came, **chunk.turned_away}:
            records = self.by_operator.setdefault(node, [0, 0])
            records[0] += chunk.came.get(node, 0)
            records[1] += chunk.turned_away.get(node, 0)
