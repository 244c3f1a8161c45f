"""Tumbling, hopping and unlimited windows (KStreamWindowAggregate, TimeWindows, UnlimitedWindows; KIP-328 grace,
KIP-825 emit on close).

Owns one aggregate a key and window ``[start, start + size)``, or as its listing says. The rule is in
jobs/operators/aggregates/time_windows_kernel.py: a window takes records while ``end > stream time - grace``; the
update's time is the largest record time in the window. A window is final, and is emitted when only final results are,
once ``end <= stream time - grace``, in order of (start, key bytes), if the store still shows it. A persistent store
shows it while ``start >= store time - retention``, a store in memory while ``>``. With semantics "kip" it is always
emitted.
"""

import numpy as np

from ....state.records.batches import Batch, Chunk
from ....state.stores.slots import Slots
from ...functions.folds.aggregation import Aggregation
from ...graph.day_windows import ListedWindows, Listing
from ...kernels.aggregate_buffers import PROGRAM, REFUSALS, STREAM_TIME, UPDATES, written
from ..aggregate_parts.kernel_decisions import Decisions
from ..aggregate_parts.refusals import drops_of
from ..aggregate_parts.window_settings import WindowSettings
from ..aggregate_parts.windows_by_start import WindowsByStart
from ..base.operator import OperatorContext
from . import time_windows_kernel

UNLISTED = ListedWindows(*(np.zeros(0, np.int64) for _ in ListedWindows._fields))
"""Of windows that the kernel computes."""


class TimeWindowAggregate(WindowsByStart):
    """``size_ms`` > 0, 0 < ``advance_ms`` <= ``size_ms``, ``grace_ms`` >= 0, retention >= size + grace.

    ``origin_ms``: start of the first window; earlier records are in none and are no drops. ``listing``: of windows that
    no arithmetic gives (days of a zone, a user's own), which ``size_ms`` and ``advance_ms`` then say nothing of.
    """

    _window = "time"
    _shows_again = True

    def __init__(
        self,
        context: OperatorContext,
        aggregation: Aggregation,
        settings: WindowSettings,
        *,
        size_ms: int,
        advance_ms: int,
        grace_ms: int,
        origin_ms: int = 0,
        listing: Listing | None = None,
    ) -> None:
        final = settings.final(grace_ms, size_ms)
        super().__init__(context, aggregation, Slots(), final=final, inputs=settings.inputs)
        self.size_ms, self.advance_ms, self.grace_ms, self.origin_ms = size_ms, advance_ms, grace_ms, origin_ms
        self.kept = settings.kept_by_start
        self.updates_per_record = time_windows_kernel.updates_per_record(size_ms, advance_ms) if size_ms else 1
        self._listing, self._listed = listing, UNLISTED

    @property
    def _knows_new_rows(self) -> bool:  # type: ignore[override]
        """Not while the time of the operator, which began again, is behind that of its store. A window that the store
        has lost then takes a new slot with each of its records, and a suppress below may hold it.
        """
        return self.observed_stream_time_ms >= self.slots.observed_stream_time_ms

    @property
    def window_size_ms(self) -> int:
        return self.size_ms

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        if self._listing is not None:
            self._listed = self._listing(batch.time_ms, batch.key)
        return super().process(batch, chunk)

    def _reserve(self, records: int) -> None:
        self.slots.reserve(records * self.updates_per_record if self._listing is None else len(self._listed.starts))

    def _decide(self, batch: Batch, begin: int, end: int) -> Decisions:
        windows = (end - begin) * self.updates_per_record
        if self._listing is not None:
            windows = int(self._listed.first[end] - self._listed.first[begin]) + end - begin
        updates, program, refusals = time_windows_kernel.allocate(windows)
        totals = np.array([0, 0, 0, self.observed_stream_time_ms], np.int64)
        time_windows_kernel.aggregate_time_windows(
            (batch.key, batch.time_ms, begin, end),
            (self.origin_ms, self.size_ms, self.advance_ms, self.grace_ms),
            tuple(self._listed),
            self.kept,
            self._asked[:2],
            self.slots.columns(),
            tuple(updates),
            tuple(program),
            tuple(refusals),
            totals,
        )
        self.observed_stream_time_ms = int(totals[STREAM_TIME])
        row, key, start, time_ms, _, stream_time = written(updates, totals[UPDATES])
        every = np.ones(len(row), np.bool_)
        return Decisions(
            row=row,
            key=key,
            time_ms=time_ms,
            valid=every,
            old_valid=every,
            program=written(program, totals[PROGRAM]),
            window_start_ms=start,
            window_end_ms=start + self.size_ms if self._listing is None else self._ends_of(start),
            stream_time_ms=stream_time,
            drops=drops_of(batch, written(refusals, totals[REFUSALS])),
        )

    def _ends_of(self, start: np.ndarray) -> np.ndarray:
        """Ends of listed windows, of which a start has one."""
        starts, at = np.unique(self._listed.starts, return_index=True)
        ends: np.ndarray = self._listed.ends[at[np.searchsorted(starts, start)]]
        return ends

    def _visible_from(self) -> np.ndarray:
        """The newest record is never late, so the store's time is the start of its last window."""
        assert self.final is not None
        return self._visible_at(self.final.stream_time_ms // self.advance_ms * self.advance_ms)
