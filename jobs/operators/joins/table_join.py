"""Joins of two tables by key (KTableKTableInnerJoin, LeftJoin, RightJoin, OuterJoin, JoinMerger).

Rule: a change of either table is joined with the other table's current value, and takes the larger of both times. A
missing side is null to the joiner.

    join, side      other absent                            other present
    inner, either   nothing                                 join, or a deletion when the new value is null
    left, left      join unless new and old are null        join, or a deletion when the new value is null
    left, right     nothing                                 join, always
    outer, either   join unless new and old are null        join, always

A join of which both values are null is a deletion. There is no filter of what did not change. A change with a null key,
or of a versioned table and not its key's newest, is refused (KIP-914).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.buffers import is_valid
from ....state.records.batches import Batch, Chunk, Column, Drops, Values
from ....state.records.drop_reasons import DropReason
from ...functions.value_joiners import Joiner
from ..base.forward_order import joined_batch, merge_in_forward_order
from ..base.operator import MultiOperator, Operator, OperatorContext
from ..tables.materialized_table import StoredTable, open_store
from ..tables.table_source import with_keys
from ..tables.table_steps import old_values
from ..tables.table_store import TableStore
from .table_join_node import TableJoinNode


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which of a side's changes cause a result, and which of these results have a value."""

    emits: np.ndarray
    has_new: np.ndarray
    has_old: np.ndarray


def _rule(kind: str, is_left: bool, other_valid: np.ndarray, valid: np.ndarray, old_valid: np.ndarray) -> _Rule:
    if kind == "left" and not is_left:
        return _Rule(other_valid, other_valid, other_valid)
    if kind == "inner":
        return _Rule(other_valid, other_valid & valid, other_valid & old_valid)
    emits = other_valid | valid | old_valid
    if kind == "left":
        return _Rule(emits, valid, old_valid)
    return _Rule(emits, other_valid | valid, other_valid | old_valid)


class TableJoin(MultiOperator):
    """``kind``: "inner", "left" or "outer". The result is not materialized."""

    def __init__(self, context: OperatorContext, kind: str, joiner: Joiner) -> None:
        super().__init__(context)
        self.kind, self.joiner = kind, joiner
        self.looked_up, self.matched = 0, 0

    def process_all(self, batches: tuple[Batch, ...], chunk: Chunk) -> Batch:
        return self._join(batches, chunk)

    def _join(self, batches: tuple[Batch, ...], chunk: Chunk) -> Batch:
        sides = [self._side(number, batch, chunk) for number, batch in enumerate(batches)]
        return joined_batch(sides, merge_in_forward_order(sides))

    def _side(self, number: int, batch: Batch, chunk: Chunk) -> Batch:
        """Results of the changes of one side."""
        batch, is_left = self._newest(number, with_keys(batch, self.context.node, chunk), chunk), number == 0
        other = self.context.views[1 - number].get(batch, batch.key)
        self.looked_up += int(batch.valid.sum())
        self.matched += int((batch.valid & other.valid).sum())
        old, old_valid = self._old(batch, is_left)
        rule = _rule(self.kind, is_left, other.valid, batch.valid, old_valid)
        chunk.left_out[batch.cause[~rule.emits]] = True
        rows = np.flatnonzero(rule.emits)

        def pick(column: np.ndarray | None) -> np.ndarray | None:
            return None if column is None else column[rows]

        def join(mine: Column, wanted: np.ndarray) -> pa.Array:
            chosen = np.flatnonzero(wanted)
            pair = mine.take(chosen), other.value.take(pa.array(chosen))
            joined_values = self.joiner.evaluate(batch.take(chosen), *(pair if is_left else pair[::-1]))
            indices = np.cumsum(wanted) - 1
            return joined_values.take(pa.array(indices[rows], mask=~wanted[rows]))

        new = join(batch.value, rule.has_new)
        before = None if old is None or not self.context.wants_old else join(old, rule.has_old)
        return batch.forward(
            rows,
            key=batch.key[rows],
            # The other time is -1 where there is nothing, and for a value that a suppress buffer shows: the change's
            # own counts.
            time_ms=np.maximum(batch.time_ms, other.time_ms)[rows],
            valid=is_valid(new),
            value=Values(new),
            window_start_ms=pick(batch.window_start_ms),
            window_end_ms=pick(batch.window_end_ms),
            old=None if before is None else Values(before),
            old_valid=None if before is None else is_valid(before),
            stream_time_ms=pick(batch.stream_time_ms),
            latest=pick(batch.latest),
        )

    def metrics(self) -> dict[str, Any]:
        """Of this increment: values of either side that came, and those for which the other side had a value."""
        return {"looked_up": self.looked_up, "matched": self.matched}

    def _old(self, batch: Batch, is_left: bool) -> tuple[Column | None, np.ndarray]:
        """Values that the changes replaced, where somebody needs them: one below, or the rule."""
        decides = self.kind == "outer" or (self.kind == "left" and is_left)
        return old_values(batch) if decides or self.context.wants_old else (None, np.zeros(len(batch), np.bool_))

    def _newest(self, number: int, batch: Batch, chunk: Chunk) -> Batch:
        if not self.context.above[number].is_versioned or batch.latest is None:
            return batch
        rows = np.flatnonzero(~batch.latest).astype(np.int32)
        chunk.drop(self.context.node, batch, Drops(DropReason.OUT_OF_ORDER_VERSION, rows, np.ones(len(rows), np.bool_)))
        return batch.where(batch.latest)


class StoredTableJoin(TableJoin, StoredTable):
    """Materialized in ``store``; the old value of a change is the join's own, not the store's."""

    def __init__(self, context: OperatorContext, kind: str, joiner: Joiner, store: TableStore) -> None:
        StoredTable.__init__(self, context, store)
        self.kind, self.joiner = kind, joiner
        self.looked_up, self.matched = 0, 0

    def process_all(self, batches: tuple[Batch, ...], chunk: Chunk) -> Batch:
        return self.put(self._join(batches, chunk), chunk, keeps_old=True)


def build(node: TableJoinNode, context: OperatorContext) -> Operator:
    """The operator of ``node``, as Kafka joins."""
    store = open_store(context, node.shape, context.keys)
    if store is None:
        return TableJoin(context, node.kind, node.joiner)
    return StoredTableJoin(context, node.kind, node.joiner, store)
