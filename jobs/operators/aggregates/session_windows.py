"""Session windows (KStreamSessionWindowAggregate, SessionWindows; KIP-94, KIP-825 emit on close).

Owns one aggregate a key and session ``[start, end]``, closed on both sides. The rule is in
jobs/operators/aggregates/session_windows_kernel.py: the gap is inclusive, and a merged session is refused iff ``end <
stream time - grace - gap``. The store shows sessions while ``end >= store time - retention + 1``. An update's time is
the session's end; updates carry no headers. A session is final, and is emitted when only final results are, once ``end
< stream time - grace - gap``, if its store still has it. A persistent store drops sessions by whole segments of
max(retention / 2, 60 s), in order of (end, start, key bytes). A store in memory drops them to the millisecond, in order
of (end, key bytes, falling start).
"""

import numpy as np
import pyarrow as pa

from ....state.records.batches import Batch
from ....state.stores.slots import LIVE_COUNT
from ...functions.folds.aggregation import Aggregation
from ...functions.folds.fold_program import FoldProgram
from ...kernels.aggregate_buffers import PROGRAM, REFUSALS, STREAM_TIME, UPDATES, Refusals
from ..aggregate_parts.emit_on_close import key_ranks
from ..aggregate_parts.kernel_decisions import Decisions
from ..aggregate_parts.refusals import drops_of
from ..aggregate_parts.slots_by_key import ListedAggregate, ListedSlots
from ..aggregate_parts.window_columns import WindowUpdates
from ..aggregate_parts.window_settings import WindowSettings
from ..base.changelogs import LeftState
from ..base.operator import Counters, OperatorContext
from ..base.store_segments import first_kept_ms, segment_ms
from . import session_windows_kernel

_NOTHING_CLOSES = np.zeros(0, np.int64), 0
_RESTARTED = "has_restarted"
"""Counter: 1 once a recorded restart was taken."""


class SessionAggregate(ListedAggregate):
    """``gap_ms`` >= 0, ``grace_ms`` >= 0, retention >= gap + grace. With semantics "kip" open sessions are merged and
    closed ones are not, whatever the retention.
    """

    _window = "session"
    _position_column = "window_end_ms"
    has_headers = False
    _shows_again = True

    def __init__(
        self,
        context: OperatorContext,
        aggregation: Aggregation,
        settings: WindowSettings,
        *,
        gap_ms: int,
        grace_ms: int,
    ) -> None:
        final = settings.final(grace_ms + gap_ms, 1)
        super().__init__(context, aggregation, ListedSlots(), final=final, inputs=settings.inputs)
        open_ms, retention_ms = gap_ms + grace_ms + 1, settings.retention_ms
        self.gap_ms, self.grace_ms = gap_ms, grace_ms
        self.retention_ms = max(retention_ms, open_ms) if settings.is_kip else retention_ms
        self.reach_ms = open_ms if settings.is_kip else retention_ms
        """Sessions that end that long before the store's time are not merged any more."""
        self.segment_ms = segment_ms(self.retention_ms, settings.is_persistent)
        self._has_restarted = False
        self._room_sessions, self._room = 0, session_windows_kernel.allocate(1, 0)

    def restart(self) -> None:
        super().restart()
        self._has_restarted = True

    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]:
        rows, counters = super().restored(left)
        return rows, counters | ({_RESTARTED: 1} if left.has_restarted else {})

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        self._has_restarted = bool(counters.get(_RESTARTED, 0))
        super().resume(rows, counters)

    def counters(self) -> Counters:
        return super().counters() | ({_RESTARTED: 1} if self._has_restarted else {})

    @property
    def _knows_new_rows(self) -> bool:  # type: ignore[override]
        """Sessions that overlap merge to one with the bounds of one of them, which slots do not say."""
        return not self._has_restarted

    @property
    def _put_limits(self) -> tuple[int, int]:  # type: ignore[override]
        return self.retention_ms, self.segment_ms

    @property
    def _removes_by_time(self) -> bool:  # type: ignore[override]
        return self.segment_ms > 0

    def _reserve(self, records: int) -> None:
        self.slots.reserve(records + 1)
        self._reserve_keys()

    def _is_over(self, start_ms: np.ndarray, end_ms: np.ndarray, store_time_ms: int, emitted_ms: int) -> np.ndarray:
        is_hidden = end_ms <= store_time_ms - self.retention_ms
        if self.final is not None:
            is_hidden &= (end_ms < self._visible_at(np.array([store_time_ms]))[0]) | (end_ms <= emitted_ms)
        return is_hidden

    def _allocate(self, records: int) -> tuple[WindowUpdates, FoldProgram, Refusals]:
        """Room for what a call gives, which is the same at every call over one record: it must be for all sessions."""
        sessions = int(self.slots.counts[LIVE_COUNT])
        if records != 1:
            return session_windows_kernel.allocate(records, sessions)
        if sessions > self._room_sessions:
            self._room_sessions = 2 * sessions
            self._room = session_windows_kernel.allocate(1, self._room_sessions)
        return self._room

    def _decide(self, batch: Batch, begin: int, end: int) -> Decisions:
        updates, program, refusals = self._allocate(end - begin)
        totals = np.array([0, 0, 0, self.observed_stream_time_ms], np.int64)
        session_windows_kernel.aggregate_sessions(
            (batch.key, batch.time_ms, begin, end),
            (self.gap_ms, self.grace_ms, self.reach_ms, self.retention_ms, self.segment_ms, self._has_restarted),
            (*self._asked, not self.aggregation.only.is_record_by_record),
            _NOTHING_CLOSES if self.final is None else (self.final.closed, self.final.done),
            self.slots.columns(),
            self.slots.lists,
            np.empty(self.slots.capacity, np.int32),
            tuple(updates),
            tuple(program),
            tuple(refusals),
            totals,
        )
        self.observed_stream_time_ms = int(totals[STREAM_TIME])
        cut = _copied if end - begin == 1 else _cut
        row, key, start, last, kind, stream_time = (cut(column, totals[UPDATES]) for column in updates)
        return Decisions(
            row=row,
            key=key,
            time_ms=last,
            valid=kind != session_windows_kernel.TOMBSTONE,
            old_valid=kind == session_windows_kernel.TOMBSTONE,
            is_final=kind == session_windows_kernel.FINAL,
            program=FoldProgram(*(cut(column, totals[PROGRAM]) for column in program)),
            window_start_ms=start,
            window_end_ms=last,
            stream_time_ms=stream_time if self.final is None else self.final.stream_time_ms[row],
            drops=drops_of(batch, Refusals(*(cut(column, totals[REFUSALS]) for column in refusals))),
        )

    def _position(self, slots: np.ndarray) -> np.ndarray:
        return self.slots.end[slots]

    def _visible_from(self) -> np.ndarray:
        """The newest record is never late, so the store's time is the operator's."""
        assert self.final is not None
        return self._visible_at(self.final.stream_time_ms)

    def _visible_at(self, store_time_ms: np.ndarray) -> np.ndarray:
        """The first session end that the store has at each of the times."""
        return first_kept_ms(store_time_ms, self.retention_ms, self.segment_ms)

    def _order(self, decided: Decisions) -> np.ndarray:
        start, end = decided.window_start_ms, decided.window_end_ms
        assert start is not None
        assert end is not None
        ranks = key_ranks(self.context.keys, decided.key)
        by = (ranks, start, end) if self.segment_ms else (-start, ranks, end)
        return np.lexsort((*by, decided.row))


def _cut(column: np.ndarray, length: int) -> np.ndarray:
    return column[:length]


def _copied(column: np.ndarray, length: int) -> np.ndarray:
    """Of a room that the next call uses again."""
    return column[:length].copy()
