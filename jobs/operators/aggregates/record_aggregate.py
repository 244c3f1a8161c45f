"""Aggregates of streams without windows (KStreamAggregate, KStreamReduce).

Owns one aggregate a key. Rule: null keys and null values are refused; an update's time is the larger of the record's
and the aggregate's; an aggregate that becomes null is deleted, and the next record begins again.
"""

import numpy as np

from ....state.records.batches import Batch, Drops
from ....state.records.drop_reasons import DropReason
from ....state.stores.slots import Slots
from ...functions.folds.aggregation import Aggregation
from ...kernels.aggregate_buffers import PROGRAM, REFUSALS, UPDATES, written
from ..aggregate_parts.aggregate import Aggregate
from ..aggregate_parts.kernel_decisions import Decisions
from ..aggregate_parts.refusals import null_drops
from ..base.operator import OperatorContext
from . import record_aggregate_kernel as records


class RecordAggregate(Aggregate):
    """``group_by_key().count()`` and its like: no windows and no clock. ``history_ms``: of a versioned store."""

    def __init__(
        self,
        context: OperatorContext,
        aggregation: Aggregation,
        *,
        inputs: int = 1,
        history_ms: int = records.UNVERSIONED,
    ) -> None:
        super().__init__(context, aggregation, Slots(), inputs=inputs)
        self.history_ms = history_ms

    def restart(self) -> None:
        if self.history_ms != records.UNVERSIONED:
            super().restart()  # else it has no stream time

    def _reserve(self, records: int) -> None:
        self.slots.reserve(records)

    def _decide(self, batch: Batch, begin: int, end: int) -> Decisions:
        updates, program, refused = records.allocate(end - begin)
        totals = np.zeros(4, np.int64)
        records.aggregate_records(
            (batch.key, batch.time_ms, batch.valid, begin, end),
            self.history_ms,
            self.context.wants_old,
            self.slots.columns(),
            tuple(updates),
            tuple(program),
            tuple(refused),
            totals,
        )
        row, key, time_ms = written(updates, totals[UPDATES])
        rows, limit, store_time = written(refused, totals[REFUSALS])
        drops = null_drops(batch, rows[limit < 0])
        old = limit >= 0
        if old.any():
            every_old = np.ones(int(old.sum()), np.bool_)
            drops.append(Drops(DropReason.EXPIRED_VERSION, rows[old], every_old, store_time[old], limit[old]))
        every = np.ones(len(row), np.bool_)
        return Decisions(row, key, time_ms, every, every, written(program, totals[PROGRAM]), drops=drops)
