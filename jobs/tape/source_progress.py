"""Progress of every source of a task when a recorded time reaches one of them.

Rule: what is recorded of a landed partition counts at once for the nodes below it. A source that other tasks write has
reached what all of them have forwarded, so a fast task cannot make a slow task's records late. A landed source beside
the one that it reached, of which more is to come, is past the time, since the oldest is taken first. One of which no
more is known has reached its largest time. One that never had a record holds no other back, nor does what goes round a
loop: it is caused by what the other sources have. A tick of the wall clock counts as soon as the first of those who
write has forwarded it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...state.times import FOREVER, NO_TIMESTAMP_MS, known_times
from ..kernels.partition_group import NO_MORE
from .stream_time import HOLDS_NONE_BACK, SourceProgress, StreamTimeAdvance

if TYPE_CHECKING:
    from .input_queues import Queue


class SourceClock:
    """``signals``: by source (its name) and partition of the task that writes it; kept up here."""

    def __init__(
        self, queues: "Sequence[Queue]", names: Sequence[str], order: str, signals: dict[str, dict[str, int]]
    ) -> None:
        self.queues, self.names, self.order, self.signals = queues, names, order, signals
        self._recorded = [queue.before.recorded_ms for queue in queues]

    def move(
        self, number: int, number_of_advance: int, taken: np.ndarray, tables: Sequence[pa.Table]
    ) -> StreamTimeAdvance:
        """Advance ``number_of_advance`` of queue ``number``. ``taken``: queues of the rows before, ``tables``: rows of
        all.
        """
        queue, tape_time_ms, tick_ms = self.queues[number], NO_TIMESTAMP_MS, None
        if queue.pieces is not None:
            passed = queue.pieces.signals[number_of_advance]
            if passed.is_tick:
                tick_ms = passed.time_ms
            else:
                of_source = self.signals.setdefault(self.names[queue.source], {})
                of_source[str(passed.writer)] = max(of_source.get(str(passed.writer), NO_TIMESTAMP_MS), passed.time_ms)
        else:
            recorded = queue.recorded[number_of_advance]
            if recorded.is_tick:
                tick_ms = recorded.time_ms
            else:
                self._recorded[number] = max(self._recorded[number], recorded.time_ms)
            tape_time_ms = recorded.time_ms + 1
        counts = np.bincount(taken, minlength=len(self.queues))
        sources = {
            other.source: self._passed_on(other)
            if other.pieces is not None
            else self._landed(other_number, counts, tables)
            for other_number, other in enumerate(self.queues)
            if not other.is_global
        }
        return StreamTimeAdvance(queue.source, sources, tape_time_ms, tick_ms)

    def _passed_on(self, queue: "Queue") -> SourceProgress:
        assert queue.pieces is not None
        if not queue.pieces.writers:
            return HOLDS_NONE_BACK
        signals = self.signals.get(self.names[queue.source], {})
        time_ms = min((signals.get(str(writer), NO_TIMESTAMP_MS) for writer in queue.pieces.writers), default=-1)
        return SourceProgress(time_ms, time_ms)

    def _landed(self, number: int, counts: np.ndarray, tables: Sequence[pa.Table]) -> SourceProgress:
        queue, recorded_ms, reached_ms = self.queues[number], self._recorded[number], FOREVER
        if tables:
            times, n = known_times(tables[number]["timestamp"].to_numpy()), int(counts[number])
            has_more = self.order == "time" and (n < len(times) or queue.beyond_ms != NO_MORE)
            known_ms = int(times[:n].max(initial=queue.before.reached_ms))
            if known_ms != NO_TIMESTAMP_MS and not has_more:
                reached_ms = known_ms
        return SourceProgress(recorded_ms, max(recorded_ms, reached_ms))
