"""filter and map_values of tables (KTableFilter, KTableMapValues), and the same steps for readers of their tables.

Rule: neither predicate nor mapper is ever called with a null value: a deletion stays one, and what does not pass the
filter is deleted. A filter whose input is not versioned and whose changes carry old values forwards no deletion of what
it never let pass; every other change is forwarded, in order.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import is_valid, masked
from ....state.records.batches import Batch, Chunk, Column, Values
from ...functions.expressions import Call, Expression, Struct
from ..base.operator import Operator, OperatorContext
from .materialized_table import StoredTable, open_store
from .table_nodes import TableFilterNode, TableMapValuesNode
from .table_store import TableStore

Step = Callable[[Batch], Batch]
"""New ``value`` and ``valid`` of every row."""


def evaluate_present(step: Expression | Struct | Call, batch: Batch) -> pa.Array:
    """What ``step`` makes of the values of ``batch``, null where there is none; callables are not called with null."""
    if batch.valid.all():
        return step.evaluate(batch)
    if not isinstance(step, Call):
        return masked(step.evaluate(batch), batch.valid)
    present = step.evaluate(batch.where(batch.valid))
    return present.take(pa.array(np.cumsum(batch.valid) - 1, mask=~batch.valid))


def filtering(predicate: Expression | Call, *, keeps: bool) -> Step:
    """Values that do not pass become null."""

    def step(batch: Batch) -> Batch:
        passed = pc.fill_null(evaluate_present(predicate, batch), False).to_numpy(zero_copy_only=False)
        passes = batch.valid & (passed.astype(np.bool_) == keeps)
        return replace(batch, value=Values(masked(batch.value.all(), passes)), valid=passes)

    return step


def mapping(mapper: Expression | Struct | Call) -> Step:
    """Values become what ``mapper`` makes of them."""

    def step(batch: Batch) -> Batch:
        values = evaluate_present(mapper, batch)
        return replace(batch, value=Values(values), valid=is_valid(values))

    return step


def step_of(node: TableFilterNode | TableMapValuesNode) -> Step:
    """What ``node`` does to a value."""
    if isinstance(node, TableFilterNode):
        return filtering(node.predicate, keeps=node.keeps)
    return mapping(node.mapper)


class TableStep(Operator):
    """Not materialized: the step is taken on the old value too. ``skips_nothing``: see TableStore.put."""

    is_repeatable = True

    def __init__(self, context: OperatorContext, step: Step, *, sends_old: bool, skips_nothing: bool) -> None:
        super().__init__(context)
        self.step, self.sends_old, self.skips_nothing = step, sends_old, skips_nothing

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        changed = replace(self.step(batch), old=None, old_valid=None)
        if not self.sends_old:
            return changed
        value, valid = old_values(batch)
        before = self.step(replace(batch, value=value, valid=valid))
        changed = replace(changed, old=before.value, old_valid=before.valid)
        if not self.skips_nothing:
            return changed
        goes = changed.valid | before.valid
        chunk.left_out[batch.cause[~goes]] = True
        return changed.where(goes)


class StoredTableStep(StoredTable):
    """Materialized in ``store``, which knows the old value."""

    def __init__(self, context: OperatorContext, step: Step, store: TableStore, *, skips_nothing: bool) -> None:
        super().__init__(context, store)
        self.step, self.skips_nothing = step, skips_nothing

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        return self.put(self.step(batch), chunk, skips_nothing=self.skips_nothing)


def old_values(batch: Batch) -> tuple[Column, np.ndarray]:
    """Values that the changes replaced, and which of them there are."""
    assert batch.old is not None, "a table above does not send the values that its changes replaced"
    assert batch.old_valid is not None
    return batch.old, batch.old_valid


def build(node: TableFilterNode | TableMapValuesNode, context: OperatorContext) -> Operator:
    """The operator of ``node``."""
    is_filter = isinstance(node, TableFilterNode)
    skips_nothing = is_filter and context.table.sends_old and not context.above[0].is_versioned
    store = open_store(context, node.shape, context.keys)
    if store is not None:
        return StoredTableStep(context, step_of(node), store, skips_nothing=skips_nothing)
    sends_old = context.wants_old or skips_nothing
    return TableStep(context, step_of(node), sends_old=sends_old, skips_nothing=skips_nothing)
