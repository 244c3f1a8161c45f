"""Results when windows close, and none before (EmitStrategy.onWindowClose; AbstractKStreamTimeWindowAggregateProcessor,
KStreamSessionWindowAggregate).

Owns the close time at which results were emitted last (Kafka's ``lastEmitWindowCloseTime``), which is saved with the
state. Rule: a window has a position, its start (of a session its end); it has closed once ``position <= close - lag``,
where ``close = stream time - wait``. It is emitted once, at the first record after which that holds, and only if its
store still shows it then. The record is put before the store is read, so a jump of stream time loses windows, as in
Kafka; with ``is_lossless`` it does not. The emit interval is 0: every record looks.
"""

import numpy as np
import pyarrow.compute as pc

from ....state.records.keys import Keys
from ....state.times import NO_TIMESTAMP_MS


class FinalResults:
    """``wait_ms``: from stream time back to the close time. ``lag_ms``: from the close time back to a position.
    ``is_lossless``: windows leave though their store shows them no more (KIP-825; semantics "kip").
    """

    def __init__(self, wait_ms: int, lag_ms: int, *, is_lossless: bool = False) -> None:
        self.wait_ms, self.lag_ms, self.is_lossless = wait_ms, lag_ms, is_lossless
        self.last_close_ms = NO_TIMESTAMP_MS
        self.stream_time_ms = self.closed = np.zeros(0, np.int64)
        """Of the batch, after each of its rows: stream time, and the last position that has closed."""
        self.done = -1
        """The last position that had closed before the batch."""

    def begin(self, times: np.ndarray, stream_time_ms: int) -> None:
        """A batch of records comes; ``times``: of those that move stream time, NO_TIMESTAMP_MS of others."""
        self.done = self.emitted
        self.stream_time_ms = np.maximum.accumulate(np.concatenate([[stream_time_ms], times]))[1:]
        self.closed = self.stream_time_ms - self.wait_ms - self.lag_ms

    @property
    def emitted(self) -> int:
        """The last position whose window has been emitted, or lost."""
        return self.last_close_ms - self.lag_ms if self.last_close_ms != NO_TIMESTAMP_MS else -1

    def due(self, position: np.ndarray, visible_from: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of the windows leave in the batch, and at which row. ``visible_from``: the first position that the
        store shows after each row.
        """
        rows = np.searchsorted(self.closed, position)
        windows = np.flatnonzero((position > self.done) & (rows < len(self.closed)))
        rows = rows[windows]
        is_there = self.is_lossless | (position[windows] >= visible_from[rows])
        return windows[is_there], rows[is_there]

    def finish(self) -> None:
        """The batch is done."""
        # Kafka returns while the upper bound of what it would fetch is negative, and notes no close time then.
        if len(self.closed) and self.closed[-1] >= 0:
            self.last_close_ms = max(self.last_close_ms, int(self.closed[-1]) + self.lag_ms)


def key_ranks(keys: Keys, codes: np.ndarray) -> np.ndarray:
    """Numbers in the order of the serialized keys (unsigned bytes, the shorter first)."""
    distinct, indices = np.unique(codes, return_inverse=True)
    ranks = np.empty(len(distinct), np.int64)
    ranks[pc.sort_indices(keys.take(distinct)).to_numpy()] = np.arange(len(distinct))
    return ranks[indices]
