"""A table that begins: a topic, a stream or a response read as a table (KTableSource).

Rule: a record with a null key is refused; every other one is a change of its key, a null value a deletion. Nothing is
filtered: an older record replaces a newer one, a deletion of what is not there is forwarded, unless a versioned store
refuses the put (KIP-914).
"""

from dataclasses import replace

import numpy as np

from jobs.operators.operator import Operator, Place
from jobs.operators.stored_table import StoredTable, open_store
from jobs.topology.nodes import TableNode
from state.records import Batch, Chunk, Drops

NULL_KEY = "null-key"


class TableSource(Operator):
    """Not materialized: what a change replaced is not known."""

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        return replace(with_keys(batch, self.place.node, chunk), old=None, old_valid=None, latest=None)


class StoredTableSource(StoredTable):
    """Materialized in ``store``."""

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        return self.put(with_keys(batch, self.place.node, chunk), chunk)


def with_keys(batch: Batch, node: str, chunk: Chunk) -> Batch:
    """Records that have a key; the others are refused."""
    has_key = batch.key >= 0
    rows = np.flatnonzero(~has_key).astype(np.int32)
    chunk.drop(node, batch, Drops(NULL_KEY, rows, np.ones(len(rows), np.bool_)))
    return batch.where(has_key)


def build(node: TableNode, place: Place) -> Operator:
    """The operator of ``node``."""
    store = open_store(place, node.shape, place.keys)
    return TableSource(place) if store is None else StoredTableSource(place, store)
