"""What has landed and was not read yet: in which order it will be, and where a cut of so many rows falls.

Owns the order of several queues' rows before they are read. Rule: by place (arrival, or the largest time of its tape up
to it, as in jobs/tape/recorded_time_order.py), then queue by queue; a recorded time is a row too, before the record of
its offset. In a queue places never fall, so whatever comes before a place is a beginning of every queue: nothing is put
in order, and a cut is found by bisection. Kept are 8 bytes a record, 16 where offsets have gaps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..landing.recorded_time import Recorded
from ..tape.recorded_time_order import doubled, numbered

_NONE = np.zeros(0, np.int64)


class UnreadRows(NamedTuple):
    """``position`` int64, not falling; ``offset``: of each; ``advance_rows``: which of them are recorded times."""

    position: np.ndarray
    offset: Sequence[int] | np.ndarray
    advance_rows: np.ndarray


@dataclass(frozen=True)
class PendingQueue:
    """Rows of one partition of a topic. ``begin``: next offset to read, and ``taken``: recorded times that were taken,
    before all of these.
    """

    topic: str
    partition: str
    rows: UnreadRows
    begin: int
    taken: int

    def __len__(self) -> int:
        return len(self.rows.position)

    def before(self, position: int, end: int) -> int:
        """How many of the first ``end`` rows are before a place."""
        return int(np.searchsorted(self.rows.position[:end], position))

    def has(self, position: int) -> bool:
        """Whether a row is exactly at a place."""
        return self.before(position, len(self)) < self.before(position + 1, len(self))

    def records(self, rows: int) -> int:
        """How many of the first rows are records."""
        return rows - int(np.searchsorted(self.rows.advance_rows, rows))

    def cut(self, rows: int) -> tuple[int, int]:
        """(next offset, recorded times taken) after the first rows."""
        advance_rows = int(np.searchsorted(self.rows.advance_rows, rows))
        last, before = rows - 1, advance_rows
        # A recorded time has the offset of the record behind it (`before_offset`). At the end of a cut that record is
        # not read, so the next offset is the one behind the last record.
        while before and self.rows.advance_rows[before - 1] == last:
            last, before = last - 1, before - 1
        return self.begin if last < 0 else int(self.rows.offset[last]) + 1, self.taken + advance_rows


def by_time(offset: np.ndarray, time_ms: np.ndarray, recorded: Sequence[Recorded], tape_time_ms: int) -> UnreadRows:
    """Rows of a queue whose tape has reached ``tape_time_ms``. Takes ``time_ms`` over: of years of records there is no
    second copy.
    """
    lowest = 2 * tape_time_ms
    if not recorded:
        position = np.multiply(time_ms, 2, out=time_ms)
        np.maximum(position, lowest, out=position)
        return UnreadRows(np.maximum.accumulate(position, out=position), _spared(offset), _NONE)
    times = np.array([each.time_ms + 1 for each in recorded], np.int64)
    time_ms, offset, is_advance = _with_advances(time_ms, times, offset, recorded)
    position = np.maximum.accumulate(doubled(time_ms, is_advance, lowest))
    return UnreadRows(position, offset, np.flatnonzero(is_advance))


def by_arrival(
    offset: np.ndarray, arrival: np.ndarray, recorded: Sequence[Recorded], arrivals: Sequence[int]
) -> UnreadRows:
    """As ``by_time``; ``arrivals``: of the recorded times."""
    arrival, offset, is_advance = _with_advances(arrival, np.array(arrivals, np.int64), offset, recorded)
    offsets = offset if recorded else _spared(offset)
    return UnreadRows(np.maximum.accumulate(arrival), offsets, np.flatnonzero(is_advance))


def _with_advances(
    column: np.ndarray, own: np.ndarray, offset: np.ndarray, recorded: Sequence[Recorded]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``column``, the offsets and which rows are recorded times, of records and recorded times together."""
    number, is_advance = numbered(offset, recorded)
    rows = np.where(is_advance, len(offset) + number, number)
    offsets = np.array([each.before_offset for each in recorded], np.int64)
    return np.concatenate([column, own])[rows], np.concatenate([offset, offsets])[rows], is_advance


def _spared(offset: np.ndarray) -> Sequence[int] | np.ndarray:
    """Rising offsets; as a range where they have no gaps."""
    if len(offset) == 0:
        return range(0)
    first, last = int(offset[0]), int(offset[-1])
    return range(first, last + 1) if last - first == len(offset) - 1 else offset


class PendingRecords:
    """``queues`` in the order in which rows of one place are taken. ``ends``: rows of each that may be read."""

    def __init__(self, queues: Sequence[PendingQueue]) -> None:
        self.queues = queues
        self.ends = [len(queue) for queue in queues]

    def hold_back(self, number: int, position: int) -> None:
        """Rows of a queue from ``position`` on are not to be read."""
        self.ends[number] = self.queues[number].before(position, self.ends[number])

    def end_before(self, position: int) -> None:
        """No row from ``position`` on is to be read, of any queue."""
        for number in range(len(self.queues)):
            self.hold_back(number, position)

    @property
    def ready(self) -> int:
        """Rows that may be read."""
        return sum(self.ends)

    @property
    def waiting(self) -> int:
        """Records that are held back."""
        return sum(q.records(len(q)) - q.records(end) for q, end in zip(self.queues, self.ends, strict=True))

    def first(self, rows: int, *, with_equal: bool) -> list[int]:
        """How many of each queue are among the first ``rows`` (1 to ``ready``), or with all others of the last one's
        place.
        """
        some = [(queue.rows.position, end) for queue, end in zip(self.queues, self.ends, strict=True) if end]
        low, high = (
            min(int(position[0]) for position, _ in some) - 1,
            max(int(position[end - 1]) for position, end in some),
        )
        while low + 1 < high:  # the last row's place is above low, at most high
            middle = (low + high) // 2
            if sum(self._before(middle + 1)) >= rows:
                high = middle
            else:
                low = middle
        taken, equal = self._before(high), self._before(high + 1)
        if with_equal:
            return equal
        missing = rows - sum(taken)
        for number, end in enumerate(equal):
            more = min(missing, end - taken[number])
            taken[number] += more
            missing -= more
        return taken

    def _before(self, position: int) -> list[int]:
        """Rows of each queue before a place."""
        return [queue.before(position, end) for queue, end in zip(self.queues, self.ends, strict=True)]
