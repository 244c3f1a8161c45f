"""Records put back into the order of their times (KIP-914, "long-term vision": a grace period at a table's source).

Rule: a record waits until ``stream time - grace`` reaches its time (inclusive), where stream time is the largest time
of any record that came here; those that leave go by time, of equal times as they came. So times never fall below. A
record older than ``stream time - grace`` when it comes is refused ("late"): records after it have gone already, and the
KIP wants the tables below to be free of what is out of order. What still waits when the input ends does not go on. The
KIP would reorder key by key; in the order of all records every key is in order too, and so are joins of tables.
"""

import numpy as np
import pyarrow as pa

from ...state.records.batches import Batch, Chunk, Drops
from ...state.times import NO_TIMESTAMP_MS
from .operator import Counters, Due, OperatorContext, StatefulOperator
from .record_buffer import RecordBuffer
from .reorder_node import ReorderNode

LATE = "late"


class Reorder(StatefulOperator):
    """``grace_ms`` >= 0. Keys and values may be null, keys windowed."""

    def __init__(self, place: OperatorContext, *, grace_ms: int) -> None:
        super().__init__(place)
        self.grace_ms, self.buffer = grace_ms, RecordBuffer(place)
        self.row_key, self.due = RecordBuffer.row_key, Due("record_time_ms", grace_ms)
        self.observed_ms, self.sequence = NO_TIMESTAMP_MS, 0

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        observed = np.maximum.accumulate(np.concatenate([[self.observed_ms], batch.time_ms]))
        self.observed_ms = int(observed[-1])
        passed = observed[1:] - self.grace_ms
        is_late = batch.time_ms < passed
        rows = np.flatnonzero(is_late).astype(np.int32)
        refused = Drops(LATE, rows, np.ones(len(rows), np.bool_), observed[1:][rows], passed[rows])
        chunk.drop(self.place.node, batch, refused)
        arrived = batch.where(~is_late)
        chunk.applied[arrived.cause] = True
        return self._release(arrived, passed[~is_late], chunk)

    def _release(self, arrived: Batch, passed: np.ndarray, chunk: Chunk) -> Batch:
        if len(arrived):
            self.buffer.load_due(int(passed[-1]))
        waited = len(self.buffer)
        self.buffer.enter(arrived, chunk, self.sequence + 1 + np.arange(len(arrived)))
        self.sequence += len(arrived)
        leaves = np.searchsorted(passed, self.buffer.time_ms)
        leaves[waited:] = np.maximum(leaves[waited:], np.arange(len(arrived)))
        going = np.flatnonzero(leaves < len(arrived))
        going = going[np.lexsort((self.buffer.time_ms[going], leaves[going]))]
        return self.buffer.leave(going, arrived, leaves[going], chunk)

    def advance(self, advance_row: Batch, chunk: Chunk) -> Batch:
        self.observed_ms = max(self.observed_ms, int(advance_row.time_ms[0]))
        self.buffer.load_due(self.observed_ms - self.grace_ms)
        going = np.argsort(self.buffer.time_ms, kind="stable")
        return self.buffer.leave(going, advance_row, np.zeros(len(going), np.int64), chunk)

    def propagated_time_ms(self, time_ms: int) -> int:
        return time_ms - self.grace_ms

    # --- state -----------------------------------------------------------------------------------------------

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        self.buffer.resume(rows)
        self.observed_ms = counters.get("stream_time_ms", NO_TIMESTAMP_MS)
        self.sequence = counters.get("sequence", 0)

    def counters(self) -> Counters:
        left = max(self.observed_ms - self.grace_ms, NO_TIMESTAMP_MS)
        return {"stream_time_ms": self.observed_ms, "sequence": self.sequence, "left_ms": left}

    def changes(self) -> pa.Table:
        return self.buffer.changes()

    def rows(self) -> pa.Table:
        return self.buffer.rows()

    def rows_schema(self) -> pa.Schema:
        return self.buffer.rows_schema()


def build(node: ReorderNode, place: OperatorContext) -> Reorder:
    """The operator of ``node``."""
    return Reorder(place, grace_ms=node.grace_ms)
