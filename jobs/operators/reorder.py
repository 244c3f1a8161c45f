"""Records put back into the order of their times (KIP-914, "long-term vision": a grace period at a table's source).

Rule: a record waits until ``stream time - grace`` reaches its time (inclusive), where stream time is the largest time
of any record that came here; those that leave go by time, of equal times as they came. So times never fall below. A
record older than ``stream time - grace`` when it comes is refused ("late"): records after it have gone already, and the
KIP wants the tables below to be free of what is out of order. What still waits when the input ends does not continue.
The KIP would reorder key by key; in the order of all records every key is in order too, and so are joins of tables.
"""

import numpy as np

from ...state.records.batches import Batch, Chunk, Drops
from ...state.records.drop_reasons import DropReason
from .base.operator import OperatorContext
from .base.record_buffer import BufferedByGrace
from .reorder_node import ReorderNode


class Reorder(BufferedByGrace):
    """Keys and values may be null, keys windowed."""

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        observed = self._observe(batch.time_ms)[1:]
        passed = observed - self.grace_ms
        is_late = batch.time_ms < passed
        rows = np.flatnonzero(is_late).astype(np.int32)
        refused = Drops(DropReason.LATE, rows, np.ones(len(rows), np.bool_), observed[rows], passed[rows])
        chunk.drop(self.context.node, batch, refused)
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
        return self._leave(leaves, arrived, chunk)


def build(node: ReorderNode, context: OperatorContext) -> Reorder:
    """The operator of ``node``."""
    return Reorder(context, node.grace_ms)
