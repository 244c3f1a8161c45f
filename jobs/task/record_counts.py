"""Verdicts on a task's records, counted: read = applied + dropped + undecodable; and how late they were."""

from dataclasses import dataclass, field

import numpy as np

from ...state.records.batches import Chunk


@dataclass(slots=True)
class Lateness:
    """Of records behind the task's stream time when they were taken: milliseconds behind, summed and largest."""

    total_ms: int = 0
    max_ms: int = 0
    records: int = 0
    """Records taken, those with lateness 0 included."""

    def add(self, total_ms: int, max_ms: int, records: int) -> None:
        """Enter ``records`` that were together and at most so far behind."""
        self.total_ms += total_ms
        self.max_ms = max(self.max_ms, max_ms)
        self.records += records


@dataclass(slots=True)
class Counts:
    """Verdicts: read = applied + dropped + undecodable."""

    read: int = 0
    applied: int = 0
    dropped: int = 0
    undecodable: int = 0
    dropped_by_reason: dict[str, int] = field(default_factory=dict)
    windows_refused: int = 0
    """Windows that refused a record which others took."""

    def add(self, chunk: Chunk, unread: np.ndarray, mine: np.ndarray) -> None:
        """Enter the rows ``mine`` of a chunk; ``unread``: those that could not be decoded."""
        applied = chunk.applied & mine
        dropped = chunk.refused & ~applied & mine
        self.read += int(mine.sum())
        self.undecodable += int((unread & mine).sum())
        self.applied += int(applied.sum())
        self.dropped += int(dropped.sum())
        booked = np.zeros(len(chunk.offset), np.bool_)
        for _, cause, drops in chunk.drops:
            whole = np.unique(cause[drops.is_record & dropped[cause] & ~booked[cause]])
            booked[whole] = True
            if len(whole):
                reason = drops.reason.value
                self.dropped_by_reason[reason] = self.dropped_by_reason.get(reason, 0) + len(whole)
            self.windows_refused += int((~drops.is_record & mine[cause]).sum())
