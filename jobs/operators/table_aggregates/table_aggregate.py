"""Aggregates of a grouped table (KTableAggregate, KTableReduce).

Rule: every change of a group takes its old value away, then adds its new one, and forwards the group's aggregate, with
the larger of its own time and the aggregate's. Order and causes are those of the changes. An aggregate that is null is
a deletion. With a versioned store (KIP-889) a result that is too old is refused, and has no effect.
"""

import numpy as np
import pyarrow as pa

from ....state.buffers import only_chunk
from ....state.records.batches import Batch, Chunk, Values
from ....state.records.keys import Keys
from ....state.stores.key_values import key_value_schema
from ....state.stores.slots import STORED
from ..base.changelogs import Changelog, KeptStore, LeftState
from ..base.operator import Counters, OperatorContext, StatefulOperator, WritableStore, with_deleted
from ..base.single_records import Single
from ..tables.materialized_table import StoredTable
from ..tables.table_store import TableStore
from ..tables.versioned_store import VersionedTableStore
from .table_aggregate_kernel import PLAIN, PRESENT, settle_group
from .table_aggregate_node import TableAggregateNode
from .table_totals import GroupSlots, NumberTotals, PythonTotals, Totals


class TableAggregate(StatefulOperator, WritableStore):
    """In a plain store. Rows: key, value, record_time_ms."""

    _column = "value"

    def __init__(self, context: OperatorContext, totals: Totals) -> None:
        super().__init__(context)
        self.totals, self.slots = totals, totals.slots

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        chunk.applied[batch.cause] = True
        return aggregated(self.totals, batch)

    def restart(self) -> None:
        pass  # it has no stream time

    @property
    def store_keys(self) -> Keys:
        keys: Keys = self.context.keys
        return keys

    def put_by_processor(self, one: Single, chunk: Chunk) -> None:
        batch = one.batch()
        at, is_value = self.slots.enter(batch.key, None, None), bool(batch.valid[0])
        if is_value:
            self.totals.take(at, batch.value.all())
        else:
            self.totals.forget(at)
        settle_group(int(at[0]), int(batch.time_ms[0]), is_value, PLAIN, self.totals.clock, self.slots.groups())

    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]:
        last = left.log.last()
        saved = self.totals.saved_of(last.decoded(left.shape.value, last.value))
        key = last.decoded(self.context.shape.key, last.key)
        return pa.table([key, saved, last.time_ms], schema=self.rows_schema()), {}

    def logged(self, rows: pa.Table, kept: KeptStore) -> tuple[Changelog, ...]:
        shown = self.totals.shown(only_chunk(rows, self._column))
        rows, shown = rows.filter(shown.is_valid()), shown.drop_null()
        key = self.context.shape.key.encode(only_chunk(rows, "key"))
        return (Changelog(kept.topic, key, kept.shape.value.encode(shown), rows["record_time_ms"].to_numpy()),)

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        at = _enter(self.slots, self.context, rows)
        self.slots.time[at] = rows["record_time_ms"].to_numpy()
        self.slots.reference[at] = PRESENT
        self.slots.flags[at] |= STORED
        self.totals.load(at, only_chunk(rows, self._column))

    def counters(self) -> Counters:
        return {}

    def changes(self) -> pa.Table:
        return with_deleted(self._table(self.slots.changed()), self._table(self.slots.graves()))

    def rows(self) -> pa.Table:
        return self._table(self.slots.live())

    def rows_schema(self) -> pa.Schema:
        value = self.totals.save(np.zeros(0, np.int64)).type
        return key_value_schema(self.context.shape.key.arrow_type, value, is_windowed=False)

    def _table(self, at: np.ndarray) -> pa.Table:
        key = self.context.keys.typed(self.slots.key[at].astype(np.int32))
        return pa.table([key, self.totals.save(at), self.slots.time[at]], schema=self.rows_schema())


class VersionedTableAggregate(StoredTable):
    """In a versioned store, whose latest versions are the aggregates."""

    def __init__(self, context: OperatorContext, totals: Totals, store: TableStore) -> None:
        super().__init__(context, store)
        self.totals, self.slots = totals, totals.slots

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        return self.put(aggregated(self.totals, batch), chunk, keeps_old=True)

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        super().resume(rows, counters)
        self.totals.clock[0] = counters.get("store_time_ms", -1)
        at = _enter(self.slots, self.context, rows)
        ends = only_chunk(rows, "valid_to_ms")
        is_latest = ends.is_null().to_numpy(zero_copy_only=False)
        np.maximum.at(self.slots.next, at[~is_latest], ends.drop_null().to_numpy())
        latest = rows.filter(pa.array(is_latest))
        self.slots.time[at[is_latest]] = latest["valid_from_ms"].to_numpy()
        self.slots.reference[at[is_latest]] = PRESENT
        self.totals.load(at[is_latest], only_chunk(latest, "value"))


def aggregated(totals: Totals, batch: Batch) -> Batch:
    """The result of every change of ``batch``."""
    at = totals.slots.enter(batch.key, None, None)
    result = totals.run(at, batch)
    return batch.forward(
        np.arange(len(batch)),
        key=batch.key,
        time_ms=result.time_ms,
        valid=result.new_valid,
        value=Values(result.new),
        old=Values(result.old),
        old_valid=result.old_valid,
        stream_time_ms=batch.stream_time_ms,
    )


def _enter(slots: GroupSlots, context: OperatorContext, rows: pa.Table) -> np.ndarray:
    key: np.ndarray = context.keys.intern(context.shape.key.encode(only_chunk(rows, "key")))
    return slots.enter(key, None, None)


def build(node: TableAggregateNode, context: OperatorContext) -> StatefulOperator:
    """The operator of ``node``, which has a store."""
    spec = context.table.store
    retention_ms = PLAIN if spec is None or spec.history_retention_ms is None else spec.history_retention_ms
    slots = GroupSlots(is_windowed=False)
    totals: Totals = (
        PythonTotals(slots, retention_ms, node, context.shape)
        if node.function is None
        else NumberTotals(slots, retention_ms, counts=node.function == "count")
    )
    if retention_ms == PLAIN:
        return TableAggregate(context, totals)
    keys: Keys = context.keys
    store = VersionedTableStore(
        node.shape, keys, node=node.name, history_retention_ms=retention_ms, sends_old=context.wants_old
    )
    return VersionedTableAggregate(context, totals, store)
