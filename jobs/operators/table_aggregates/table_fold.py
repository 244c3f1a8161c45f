"""Aggregates of a grouped table by folds: ``grouped.aggregate(n=fold.count(), most=fold.max("pay"))``.

Rule: as of adders and subtractors in Python (table_totals.py), with the folds' state as the aggregate. A group has one
from its first value on, whatever is taken back; where what a fold shows is null, the group's result is a deletion.
"""

import numpy as np
import pyarrow as pa

from ....state.buffers import is_valid, masked, only_chunk
from ....state.records.batches import Batch, Values
from ....state.records.keys import Keys
from ...functions.folds.aggregation import Aggregation
from ...functions.folds.fold import WantedUpdates
from ...graph.store_rows import aggregate_schema
from ...kernels.aggregate_buffers import written
from ..base.changelogs import Changelog, KeptStore, LeftState, refuse_hidden_state
from ..base.operator import Counters, OperatorContext, StatefulOperator
from ..tables.table_steps import old_values
from ..tables.versioned_store import VersionedTableStore
from .table_aggregate import TableAggregate, VersionedTableAggregate
from .table_aggregate_kernel import PLAIN
from .table_fold_kernel import entries, fold_changes, results
from .table_fold_node import TableFoldNode
from .table_totals import Aggregated, GroupSlots, Totals


class FoldTotals(Totals):
    """The folds' aggregates by slot; one slot beyond the capacity is for a result that a store may refuse."""

    def __init__(self, slots: GroupSlots, retention_ms: int, aggregation: Aggregation) -> None:
        super().__init__(slots, retention_ms)
        self.aggregation, self.folds = aggregation, aggregation.start_taking()

    def run(self, at: np.ndarray, batch: Batch) -> Aggregated:
        slots, n = self.slots, len(batch)
        old, old_valid = old_values(batch)
        self.folds.grow(slots.capacity + 1)
        result, program = results(n), entries(n)
        changes = batch.time_ms, batch.valid, old_valid
        length = fold_changes(
            at, changes, self.retention_ms, self.clock, slots.groups(), slots.capacity, tuple(program), tuple(result)
        )
        updates = np.flatnonzero(result.valid)
        wanted = WantedUpdates(updates, np.where(result.was_there[updates], updates, -1), n, n)
        new, before = self.folds.run(written(program, length), _both(batch, old.all(), old_valid), wanted)
        new, before = masked(new, result.valid), masked(before, result.was_there)
        return Aggregated(result.time, new, is_valid(new), before, is_valid(before))

    def load(self, at: np.ndarray, values: pa.Array) -> None:
        self.folds.grow(self.slots.capacity + 1)
        self.folds.load(at, values)

    def saved_of(self, shown: pa.Array) -> pa.Array:
        return self.folds.saved_of(shown)

    def shown(self, saved: pa.Array) -> pa.Array:
        return self.folds.result(saved)

    def save(self, at: np.ndarray) -> pa.Array:
        return self.folds.save(at)


def _both(batch: Batch, old: pa.Array, old_valid: np.ndarray) -> Batch:
    """The rows of ``batch`` with their new values, and then once more with their old ones."""
    rows = np.tile(np.arange(len(batch)), 2)
    return batch.forward(
        rows,
        key=batch.key[rows],
        time_ms=batch.time_ms[rows],
        valid=np.concatenate([batch.valid, old_valid]),
        value=Values(pa.concat_arrays([batch.value.all(), old])),
        has_headers=False,
    )


class TableFold(TableAggregate):
    """In a plain store. Rows: key, aggregate (the folds' durable form), record_time_ms."""

    _column = "aggregate"

    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]:
        assert isinstance(self.totals, FoldTotals)
        refuse_hidden_state(left.store, shows_all=self.totals.folds.shows_all)
        return super().restored(left)

    def logged(self, rows: pa.Table, kept: KeptStore) -> tuple[Changelog, ...]:
        assert isinstance(self.totals, FoldTotals)
        refuse_hidden_state(kept.store, shows_all=self.totals.folds.shows_all)
        return super().logged(rows, kept)

    def rows_schema(self) -> pa.Schema:
        assert isinstance(self.totals, FoldTotals)
        saved = self.totals.folds.saved_type
        return aggregate_schema(self.context.shape.key.arrow_type, saved, is_windowed=False)

    def contents(self) -> pa.Table:
        assert isinstance(self.totals, FoldTotals)
        rows = self.rows()
        value = self.totals.folds.result(only_chunk(rows, self._column))
        shown = rows.set_column(rows.column_names.index(self._column), "value", value)
        return shown.filter(value.is_valid())


def build(node: TableFoldNode, context: OperatorContext) -> StatefulOperator:
    """The operator of ``node``, which has a store."""
    spec = context.table.store
    retention_ms = PLAIN if spec is None or spec.history_retention_ms is None else spec.history_retention_ms
    totals = FoldTotals(GroupSlots(is_windowed=False), retention_ms, node.aggregation)
    if retention_ms == PLAIN:
        return TableFold(context, totals)
    keys: Keys = context.keys
    store = VersionedTableStore(
        node.shape, keys, node=node.name, history_retention_ms=retention_ms, sends_old=context.wants_old
    )
    return VersionedTableAggregate(context, totals, store)
