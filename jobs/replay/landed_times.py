"""Times of landed records, kept while several plans are made over them: a backfill plans every day of its range.

Owns the arrays. Rule: a partition is read once, from where the first plan begins to where it has landed. A plan that
begins later takes the rest of the same arrays, and any other plan reads for itself. Kept are 16 bytes a record, as long
as the object lives.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

Times = tuple[np.ndarray, np.ndarray]
"""Offsets and times in ms of records, int64, in offset order."""


class _Kept(NamedTuple):
    begin: int
    end: int
    times: Times


@dataclass(frozen=True)
class LandedTimes:
    """Of one topology's topics: what an extractor gives does not depend on where the reading begins."""

    _kept: dict[tuple[str, str], _Kept] = field(default_factory=dict)

    def of(self, topic: str, partition: str, begin: int, end: int, read: Callable[[], Times]) -> Times:
        """Of the records in ``[begin, end)``; the times are the caller's to change. ``read``: reads just these."""
        kept = self._kept.get((topic, partition))
        if kept is None or not kept.begin <= begin <= end <= kept.end:
            times = read()
            if kept is None or end >= kept.end:
                # A copy, here and below: by_time (unread_records.py) doubles the times that it gets in place.
                self._kept[topic, partition] = _Kept(begin, end, (times[0], times[1].copy()))
            return times
        offset, time_ms = kept.times
        first, after = np.searchsorted(offset, [begin, end])
        return offset[first:after], time_ms[first:after].copy()
