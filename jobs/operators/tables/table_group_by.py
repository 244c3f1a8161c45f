"""Changes of a table under new keys (KTableRepartitionMap), on their way to a repartition table.

Rule: the old value is taken away from its group first, then the new one is added to its own; where both have the same
key (by its bytes) one change says both. A null key or a null value of a group counts as no value. Changes of a
versioned table that are not the newest of their key are left out, in silence (KIP-914).
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from ....state.buffers import is_valid, masked
from ....state.records.batches import Batch, Chunk, Values
from ....state.records.keys import NULL_CODE, Keys
from ...functions.expressions import Call, Expression, Struct
from ..base.operator import Operator, OperatorContext
from .table_nodes import TableGroupByNode
from .table_steps import evaluate_present, old_values


class TableGroupBy(Operator):
    """``keys`` codes the new keys. Every key above is not null, as of any table."""

    def __init__(
        self, context: OperatorContext, selector: Expression | Call, mapper: Expression | Struct | Call, keys: Keys
    ) -> None:
        super().__init__(context)
        self.selector, self.mapper, self.keys = selector, mapper, keys
        self.skips_older = context.above[0].is_versioned

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        if self.skips_older and batch.latest is not None:
            chunk.left_out[batch.cause[~batch.latest]] = True
            batch = batch.where(batch.latest)
        old, old_valid = old_values(batch)
        new_key, new_value = self._pairs(batch)
        old_key, old_value = self._pairs(replace(batch, value=old, valid=old_valid))
        has_new, has_old = new_key != NULL_CODE, old_key != NULL_CODE
        chunk.left_out[batch.cause[~has_new & ~has_old]] = True
        is_one = has_new & has_old & (new_key == old_key)
        picked = np.flatnonzero(np.stack([has_old & ~is_one, has_new], axis=1))
        row, is_new = picked >> 1, (picked & 1).astype(np.bool_)
        goes = ~is_new | is_one[row]
        return batch.forward(
            row,
            key=np.where(is_new, new_key[row], old_key[row]).astype(np.int32),
            keys=self.keys,
            time_ms=batch.time_ms[row],
            valid=is_new,
            value=Values(masked(new_value.take(pa.array(row)), is_new)),
            old=Values(masked(old_value.take(pa.array(row)), goes)),
            old_valid=goes,
            stream_time_ms=None if batch.stream_time_ms is None else batch.stream_time_ms[row],
        )

    def _pairs(self, batch: Batch) -> tuple[np.ndarray, pa.Array]:
        """New keys, NULL_CODE where there is no pair, and new values."""
        value = evaluate_present(self.mapper, batch)
        codes = self.keys.intern(self.selector.result.encode(evaluate_present(self.selector, batch)))
        return np.where(is_valid(value), codes, NULL_CODE), value


def build(node: TableGroupByNode, context: OperatorContext) -> TableGroupBy:
    """The operator of ``node``."""
    return TableGroupBy(context, node.selector, node.mapper, Keys(node.shape.key))
