"""Tumbling and hopping windows, forwarded on every update (KStreamWindowAggregate, TimeWindows; KIP-328 grace).

Owns one aggregate a key and window ``[start, start + size)``. The rule stands in jobs/kernels/time_windows.py: a window
takes records while ``end > stream time - grace``; the update's time is the largest record time in the window.
"""

import numpy as np

from jobs.folds.aggregation import Aggregation
from jobs.folds.fold import Program
from jobs.kernels import time_windows
from jobs.kernels.time_windows import PROGRAM, REFUSALS, STREAM_TIME, UPDATES
from jobs.operators.aggregate import Aggregate, Decisions
from jobs.operators.operator import Place
from state.records import Batch, Drops
from state.stores.slots import Slots


class TimeWindowAggregate(Aggregate):
    """``size_ms`` > 0, 0 < ``advance_ms`` <= ``size_ms``, ``grace_ms`` >= 0, ``retention_ms`` >= size + grace."""

    _window = "time"

    def __init__(
        self,
        place: Place,
        aggregation: Aggregation,
        *,
        size_ms: int,
        advance_ms: int,
        grace_ms: int,
        retention_ms: int,
    ) -> None:
        super().__init__(place, aggregation, Slots())
        self.size_ms, self.advance_ms, self.grace_ms, self.retention_ms = size_ms, advance_ms, grace_ms, retention_ms
        self.updates_per_record = time_windows.updates_per_record(size_ms, advance_ms)

    def _reserve(self, records: int) -> None:
        self.slots.reserve(records * self.updates_per_record)

    def _expired(self) -> np.ndarray:
        live = self.slots.live()
        return live[self.slots.start[live] <= self.slots.observed_stream_time_ms - self.retention_ms]

    def _decide(self, batch: Batch, begin: int, end: int) -> Decisions:
        updates, program, refusals = time_windows.rooms(end - begin, self.updates_per_record)
        totals = np.array([0, 0, 0, self.observed_stream_time_ms], np.int64)
        time_windows.aggregate_time_windows(
            (batch.key, batch.time_ms, batch.valid, begin, end),
            self.size_ms,
            self.advance_ms,
            self.grace_ms,
            self.aggregation.null_after,
            self.aggregation.only.starts_null,
            self.place.wants_old,
            self.slots.columns(),
            updates,
            program,
            refusals,
            totals,
        )
        self.observed_stream_time_ms = int(totals[STREAM_TIME])
        row, key, start, time_ms, valid, old_valid, stream_time = (column[: totals[UPDATES]] for column in updates)
        return Decisions(
            row=row,
            key=key,
            time_ms=time_ms,
            valid=valid,
            old_valid=old_valid,
            program=Program(*(column[: totals[PROGRAM]] for column in program)),
            window_start_ms=start,
            window_end_ms=start + self.size_ms,
            stream_time_ms=stream_time,
            drops=self._drops(tuple(column[: totals[REFUSALS]] for column in refusals)),
        )

    def _drops(self, refusals: tuple[np.ndarray, ...]) -> list[Drops]:
        row, start, stream_time, limit, is_record = refusals
        late = start >= 0
        expired = Drops(
            "expired-window",
            row[late],
            is_record[late],
            stream_time[late],
            limit[late],
            start[late],
            start[late] + self.size_ms,
        )
        return [Drops("null-key", row[~late], is_record[~late]), expired]
