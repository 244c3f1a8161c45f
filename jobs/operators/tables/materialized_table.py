"""Operators whose result is a materialized table: they put what they forward into a store of its own.

Owns the choice between a plain and a versioned store. Rule: an operator without a store spec has no state at all.
"""

import numpy as np

from ....state.records.batches import Batch, Chunk
from ....state.records.keys import Keys
from ...functions.expressions import Shape
from ..base.operator import OperatorContext, StoreOperator, WritableStore
from ..base.single_records import Single, batch_of
from .table_store import PlainStore, TableStore
from .versioned_store import VersionedTableStore


def open_store(context: OperatorContext, shape: Shape, keys: Keys) -> TableStore | None:
    """The store of the table at ``context``, or None. ``shape``: of the table, coded by ``keys``."""
    spec = context.table.store
    if spec is None:
        return None
    if spec.history_retention_ms is not None:
        retention_ms = spec.history_retention_ms
        return VersionedTableStore(
            shape, keys, node=context.node, history_retention_ms=retention_ms, sends_old=context.wants_old
        )
    return PlainStore(shape, keys, sends_old=context.wants_old)


class StoredTable(StoreOperator, WritableStore):
    """An operator that puts what it forwards into a table's store."""

    store: TableStore

    def __init__(self, context: OperatorContext, store: TableStore) -> None:
        super().__init__(context)
        self.store, self.row_key = store, store.row_key
        self._waiting: list[Single] = []
        """Single records that are still to be put, of the chunk that runs."""

    def put(self, batch: Batch, chunk: Chunk, *, keeps_old: bool = False, skips_nothing: bool = False) -> Batch:
        """As TableStore.put; what is not refused is applied."""
        self.settle_singles(chunk)
        booked = len(chunk.drops)
        forwarded = self.store.put(batch, chunk, keeps_old=keeps_old, skips_nothing=skips_nothing)
        taken = np.ones(len(batch), np.bool_)
        for _, _, drops in chunk.drops[booked:]:
            taken[drops.row] = False
        chunk.applied[batch.cause[taken]] = True
        return forwarded

    @property
    def store_keys(self) -> Keys:
        assert isinstance(self.store, PlainStore), "no processor looks into a versioned table"
        return self.store.table.keys

    def put_by_processor(self, one: Single, chunk: Chunk) -> None:
        self._waiting.append(one)

    def settle_singles(self, chunk: Chunk) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self.store.put(batch_of(waiting), chunk)
