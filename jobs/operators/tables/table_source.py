"""A table that begins: a topic, a stream or a response read as a table (KTableSource).

Rule: a record with a null key is refused; every other one is a change of its key, a null value a deletion. Nothing is
filtered: an older record replaces a newer one, a deletion of what is not there is forwarded, unless a versioned store
refuses the put (KIP-914).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....state.records.batches import Batch, Chunk, Drops
from ....state.records.drop_reasons import DropReason
from ...functions.expressions import Shape
from ..base.operator import Operator, OperatorContext, TableView
from ..base.single_records import Single
from .materialized_table import StoredTable, open_store
from .table_nodes import TableNode
from .table_store import PlainStore, TableStore
from .versioned_store import VersionedTableStore, VersionedView


class TableSource(Operator):
    """Not materialized: what a change replaced is not known."""

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        return replace(with_keys(batch, self.context.node, chunk), old=None, old_valid=None, latest=None)


class StoredTableSource(StoredTable):
    """Materialized in ``store``. ``shape``: of the table."""

    _put_by_view: VersionedTableStore | None = None

    def __init__(self, context: OperatorContext, store: TableStore, shape: Shape) -> None:
        super().__init__(context, store)
        is_plain = isinstance(store, PlainStore) and not store.sends_old
        self._takes_singles = is_plain and shape.window is None and shape == context.shape

    def leave_puts_to(self, view: TableView) -> None:
        """Let ``view``, the only one that sees the table, put what comes if the store is versioned and both code keys
        alike, which they do unless a processor is between. Call before ``resume``.
        """
        # A history is large, and two stores would run every put twice (docs/decisions/stores-and-views.md).
        store = self.store
        if isinstance(store, VersionedTableStore) and isinstance(view, VersionedView) and view.keys is store.keys:
            self._put_by_view = store
            view.put_into(store)

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        batch = with_keys(batch, self.context.node, chunk)
        return self.put(batch, chunk) if self._put_by_view is None else self._put_by_view.leave_to_view(batch, chunk)

    def take_single(self, one: Single, chunk: Chunk) -> Sequence[Single] | None:
        if not (self._takes_singles and one.has_key and one.is_plain):
            return None
        chunk.applied[one.cause] = True
        self._waiting.append(one)
        return (one,)


def with_keys(batch: Batch, node: str, chunk: Chunk) -> Batch:
    """Records that have a key; the others are refused."""
    has_key = batch.key >= 0
    rows = np.flatnonzero(~has_key).astype(np.int32)
    chunk.drop(node, batch, Drops(DropReason.NULL_KEY, rows, np.ones(len(rows), np.bool_)))
    return batch.where(has_key)


def build(node: TableNode, context: OperatorContext) -> Operator:
    """The operator of ``node``."""
    store = open_store(context, node.shape, context.keys)
    return TableSource(context) if store is None else StoredTableSource(context, store, node.shape)
