"""Sliding windows (KStreamSlidingWindowAggregate, SlidingWindows; KIP-450, KIP-825 emit on close).

Owns one aggregate a key and window ``[start, start + difference]``, both inclusive. The rule is in
jobs/operators/aggregates/sliding_windows_kernel.py; an update's time is the largest record time in the window. A window
is final, and leaves when only final results do, once ``end < stream time - grace``, in order of (start, key bytes), if
the store still shows it, as for time windows. A difference of 0 fails at the first record that it has to take, as
Kafka's does (IllegalArgumentException of TimeWindow).
"""

import numpy as np

from ....state.errors import TaskFailed
from ....state.records.batches import Batch, Chunk
from ...functions.folds.aggregation import Aggregation
from ...functions.folds.fold_program import FoldProgram
from ...kernels.aggregate_buffers import PROGRAM, REFUSALS, STREAM_TIME, UPDATES, Refusals, written
from ..aggregate_parts.kernel_decisions import Decisions, joined
from ..aggregate_parts.refusals import drops_of
from ..aggregate_parts.slots_by_key import ListedAggregate, ListedSlots
from ..aggregate_parts.window_columns import WindowUpdates
from ..aggregate_parts.window_settings import WindowSettings
from ..aggregate_parts.windows_by_start import WindowsByStart
from ..base.operator import OperatorContext
from . import sliding_windows_kernel
from .sliding_windows_kernel import NEXT_ROW, SLOTS_PER_RECORD

_ROOM_MIN = 64


class SlidingWindowAggregate(WindowsByStart, ListedAggregate):
    """``difference_ms`` >= 0, ``grace_ms`` >= 0, retention >= 2 * difference + grace."""

    _window = "sliding"
    _shows_again = True

    def __init__(
        self,
        context: OperatorContext,
        aggregation: Aggregation,
        settings: WindowSettings,
        *,
        difference_ms: int,
        grace_ms: int,
    ) -> None:
        final = settings.final(grace_ms, difference_ms + 1)
        super().__init__(context, aggregation, ListedSlots(), final=final, inputs=settings.inputs)
        self.difference_ms, self.grace_ms = difference_ms, grace_ms
        self.kept = settings.kept_by_start
        self._store_time = np.zeros(0, np.int64)
        self._room_of_row = 4

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        self._store_time = np.empty(len(batch), np.int64)
        if self.difference_ms == 0:
            batch = self._until_failure(batch, chunk)
        return super().process(batch, chunk)

    def _until_failure(self, batch: Batch, chunk: Chunk) -> Batch:
        """The records before the first that makes a window, on which the run fails."""
        taken = np.flatnonzero((batch.key >= 0) & batch.valid)
        if len(taken) == 0:
            return batch
        expected, got = "a time difference of more than 0 ms", "0 ms, whose windows end where they start"
        error = TaskFailed(self.context.node, expected, got, "give a longer time difference")
        error.cause_row = int(batch.cause[taken[0]])
        chunk.fail(error)
        return batch.take(np.arange(taken[0]))

    def _moves_time(self, batch: Batch) -> np.ndarray:
        return (batch.key >= 0) & batch.valid

    def _reserve(self, records: int) -> None:
        self.slots.reserve(SLOTS_PER_RECORD * records)
        self._reserve_keys()

    def _decide(self, batch: Batch, begin: int, end: int) -> Decisions:
        """A record updates any number of windows, so the kernel is called until its room was enough."""
        pieces, totals = [], np.array([0, 0, 0, self.observed_stream_time_ms, begin], np.int64)
        room = max(_ROOM_MIN, self._room_of_row * (end - begin))
        while True:
            updates, program, refusals = sliding_windows_kernel.allocate(room)
            sliding_windows_kernel.aggregate_sliding_windows(
                (batch.key, batch.time_ms, batch.valid, int(totals[NEXT_ROW]), end),
                (self.difference_ms, self.grace_ms),
                self.kept,
                self._asked[:2],
                self.slots.columns(),
                self.slots.lists,
                np.empty(self.slots.capacity, np.int32),
                self._store_time,
                tuple(updates),
                tuple(program),
                tuple(refusals),
                totals,
            )
            pieces.append(self._decided(batch, updates, program, refusals, totals))
            if totals[NEXT_ROW] == end:
                break
            room *= 2
            self._room_of_row = room // max(1, end - begin) if end - begin > _ROOM_MIN else self._room_of_row
        self.observed_stream_time_ms = int(totals[STREAM_TIME])
        return joined(pieces)

    def _decided(
        self,
        batch: Batch,
        updates: WindowUpdates,
        program: FoldProgram,
        refusals: Refusals,
        totals: np.ndarray,
    ) -> Decisions:
        row, key, start, time_ms, has_old, stream_time = written(updates, totals[UPDATES])
        return Decisions(
            row=row,
            key=key,
            time_ms=time_ms,
            valid=np.ones(len(row), np.bool_),
            old_valid=has_old.view(np.bool_),
            program=written(program, totals[PROGRAM]),
            window_start_ms=start,
            window_end_ms=start + self.difference_ms,
            stream_time_ms=stream_time,
            drops=drops_of(batch, written(refusals, totals[REFUSALS])),
        )

    def _visible_from(self) -> np.ndarray:
        return self._visible_at(self._store_time)
