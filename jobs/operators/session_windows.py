"""Session windows, forwarded on every update (KStreamSessionWindowAggregate, SessionWindows; KIP-94).

Owns one aggregate a key and session ``[start, end]``, closed on both sides. The rule stands in
jobs/kernels/session_windows.py: the gap is inclusive, a merged session is refused iff ``end < stream time - grace -
gap``, and the store shows sessions while ``end >= store time - retention + 1``. An update's time is the session's end.
"""

import numpy as np

from jobs.folds.aggregation import Aggregation
from jobs.folds.fold import Program
from jobs.kernels import session_windows
from jobs.kernels.time_windows import PROGRAM, REFUSALS, STREAM_TIME, UPDATES
from jobs.operators.aggregate import Aggregate, Decisions
from jobs.operators.operator import Place
from state.records import Batch, Drops
from state.stores.slots import LIVE, LIVE_COUNT, Slots

SEGMENT_MS_MIN = 60_000

_REASONS = ("null-key", "expired-window", "expired-in-store")


class SessionSlots(Slots):
    """Slots and, for every one, the session of its key that ends before it."""

    beside = ("following",)
    is_indexed = False
    following: np.ndarray


class SessionAggregate(Aggregate):
    """``gap_ms`` >= 0, ``grace_ms`` >= 0, ``retention_ms`` >= gap + grace."""

    _window = "session"

    def __init__(
        self,
        place: Place,
        aggregation: Aggregation,
        *,
        gap_ms: int,
        grace_ms: int,
        retention_ms: int,
        is_persistent: bool,
    ) -> None:
        super().__init__(place, aggregation, SessionSlots())
        self.gap_ms, self.grace_ms, self.retention_ms = gap_ms, grace_ms, retention_ms
        self.segment_ms = max(retention_ms // 2, SEGMENT_MS_MIN) if is_persistent else 0
        self.head = np.empty(0, np.int32)

    def _reserve(self, records: int) -> None:
        self.slots.reserve(records + 1)
        self._reserve_keys()

    def _reserve_keys(self) -> None:
        more = len(self.place.keys) - len(self.head)
        if more > 0:
            room = np.full(more + len(self.head), session_windows.NO_SLOT, np.int32)
            self.head = np.concatenate([self.head, room])

    def _lists(self) -> tuple[np.ndarray, np.ndarray]:
        assert isinstance(self.slots, SessionSlots)
        return self.head, self.slots.following

    def _released(self) -> None:
        self._reserve_keys()
        session_windows.relink(self.slots.columns(), self._lists())

    def _expired(self) -> np.ndarray:
        live = self.slots.live()
        return live[self.slots.end[live] <= self.slots.observed_stream_time_ms - self.retention_ms]

    def _remove(self, slot: int) -> None:
        if self.slots.flags[slot] & LIVE:
            s = self.slots
            session_windows.unlink(s.key, s.flags, s.free, s.counts, *self._lists(), slot)

    def _decide(self, batch: Batch, begin: int, end: int) -> Decisions:
        updates, program, refusals = session_windows.rooms(end - begin, int(self.slots.counts[LIVE_COUNT]))
        totals = np.array([0, 0, 0, self.observed_stream_time_ms], np.int64)
        session_windows.aggregate_sessions(
            (batch.key, batch.time_ms, batch.valid, begin, end),
            self.gap_ms,
            self.grace_ms,
            self.retention_ms,
            self.segment_ms,
            self.aggregation.null_after,
            self.place.wants_old,
            self.slots.columns(),
            self._lists(),
            updates,
            program,
            refusals,
            totals,
        )
        self.observed_stream_time_ms = int(totals[STREAM_TIME])
        row, key, start, last, valid, old_valid, stream_time = (column[: totals[UPDATES]] for column in updates)
        return Decisions(
            row=row,
            key=key,
            time_ms=last,
            valid=valid,
            old_valid=old_valid,
            program=Program(*(column[: totals[PROGRAM]] for column in program)),
            window_start_ms=start,
            window_end_ms=last,
            stream_time_ms=stream_time,
            drops=_drops(tuple(column[: totals[REFUSALS]] for column in refusals)),
        )


def _drops(refusals: tuple[np.ndarray, ...]) -> list[Drops]:
    """One ``Drops`` a reason. A store's refusal does not undo the update, so it is none of the record."""
    row, kind, start, end, stream_time, limit = refusals
    drops = []
    for number, reason in enumerate(_REASONS):
        of_kind = kind == number
        whole = np.full(int(of_kind.sum()), number < 2)
        if number == 0:
            drops.append(Drops(reason, row[of_kind], whole))
        else:
            bounds = stream_time[of_kind], limit[of_kind], start[of_kind], end[of_kind]
            drops.append(Drops(reason, row[of_kind], whole, *bounds))
    return drops
