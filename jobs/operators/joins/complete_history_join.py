"""Joins of two versioned tables that keep every older result right (KIP-914, "Attempt 2": an option for a later KIP).

Rule: the result at any time is the join of what both tables showed at that time, so it is a versioned table too. A
change, out of order or not, forwards every result that it makes or corrects, the oldest first. Their times are its own
time, and every time up to its key's next version at which the other table began to show something else
(jobs/operators/joins/complete_history_join_kernel.py). A result of which there was nothing and is nothing now is left
out, unless one that is new ends there; one that is no more is a deletion. Which sides a result needs is as in
jobs/operators/joins/table_join.py. Results are right as far back as the history retention of both tables reaches. A
lookup at a time that the other table no longer keeps for the key finds nothing, as in Kafka's stream-table join.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import is_valid
from ....state.errors import TopologyError
from ....state.records.batches import Batch, Chunk, Values
from ....state.stores.versions import TOMBSTONE
from ...functions.value_joiners import Joiner
from ..base.forward_order import MergedRows, joined_batch, merge_in_forward_order
from ..base.operator import MultiOperator, Operator, OperatorContext, TableView
from ..tables import versioned_store_kernel
from ..tables.materialized_table import StoredTable, open_store
from ..tables.table_store import TableStore
from ..tables.table_views import StepView
from ..tables.versioned_store import VersionedView
from . import complete_history_join_kernel, table_join
from .complete_history_join_kernel import JoinResults
from .table_join_node import TableJoinNode


class TableSide:
    """One table: its history, and the steps between its store and what it shows."""

    def __init__(self, context: OperatorContext, view: TableView) -> None:
        self.steps: list[Callable[[Batch], Batch]] = []
        while isinstance(view, StepView):
            self.steps.insert(0, view.step)
            view = view.above
        if not isinstance(view, VersionedView):
            next_step = "give it Materialized.versioned(), or leave out history"
            raise TopologyError(context.node, "two versioned tables for a complete history", "a plain one", next_step)
        self.history = view

    def shown(self, asking: Batch, references: np.ndarray, time_ms: np.ndarray) -> pa.Array:
        """What the table shows of versions in its store, one for every row of ``asking``; null for none."""
        stored = Values(self.history.versions.heap.take(references))
        shown = replace(asking, value=stored, valid=references != TOMBSTONE, time_ms=time_ms)
        for step in self.steps:
            shown = step(shown)
        return shown.value.all()


class CompleteJoin(MultiOperator):
    """``kind``: "inner", "left" or "outer". The result is not materialized."""

    def __init__(self, context: OperatorContext, kind: str, joiner: Joiner) -> None:
        super().__init__(context)
        self.kind, self.joiner = kind, joiner
        self.sides = tuple(TableSide(context, view) for view in context.views)

    def process_all(self, batches: tuple[Batch, ...], chunk: Chunk) -> Batch:
        for batch in batches:
            chunk.left_out[batch.cause] = True
        merged = merge_in_forward_order(batches)
        results = self._join_versions(merged)
        asking = joined_batch(batches, merged, with_values=False).take(results.at)
        now, before = [], []
        for number, batch in enumerate(batches):
            is_of_side = merged.which[results.at] == number
            rows = pa.array(merged.row[results.at], mask=~is_of_side)
            references = np.where(is_of_side, results.before, results.other)
            shown = self.sides[number].shown(
                asking, references, np.where(is_of_side, results.before_time, results.other_time)
            )
            now.append(pc.if_else(pa.array(is_of_side & ~results.follows), batch.value.all().take(rows), shown))
            before.append(shown)
        return self._forward(asking, results, merged.which[results.at], now, before)

    def _join_versions(self, merged: MergedRows) -> JoinResults:
        """Run the kernel over all merged rows, with more room whenever there is too little."""
        changes = tuple(side.history.take_puts() for side in self.sides)
        stores = tuple(side.history.versions for side in self.sides)
        pieces, begin, room = [], 0, 2 * len(merged.which) + 16
        while begin < len(merged.which):
            results = complete_history_join_kernel.room(room)
            reached, n = complete_history_join_kernel.join_versions(
                tuple(merged),
                begin,
                changes,
                tuple(store.retention_ms for store in stores),
                tuple(store.columns() for store in stores),
                versioned_store_kernel.NO_JOURNAL,
                tuple(results),
            )
            pieces.append([column[:n] for column in results])
            room = room if reached > begin else 2 * room
            begin = reached
        columns = zip(*pieces, strict=True) if pieces else ([column] for column in complete_history_join_kernel.room(0))
        return JoinResults(*(np.concatenate(column) for column in columns))

    def _forward(
        self, asking: Batch, results: JoinResults, which: np.ndarray, now: list[pa.Array], before: list[pa.Array]
    ) -> Batch:
        is_there, was_there = self._is_there(now), self._is_there(before)
        has_own = np.where(which == 0, *(is_valid(values) for values in before))
        forwards_a_result = np.flatnonzero(_forwards_a_result(results, is_there, was_there, has_own))
        new = self._joined(asking, now, is_there).take(pa.array(forwards_a_result))
        old = (
            self._joined(asking, before, was_there).take(pa.array(forwards_a_result))
            if self.context.wants_old
            else None
        )
        return asking.forward(
            forwards_a_result,
            key=asking.key[forwards_a_result],
            time_ms=results.time[forwards_a_result],
            valid=is_valid(new),
            value=Values(new),
            old=None if old is None else Values(old),
            old_valid=None if old is None else is_valid(old),
            latest=results.is_newest[forwards_a_result],
        )

    def _is_there(self, sides: list[pa.Array]) -> np.ndarray:
        """Where there is a result of the left and the right values."""
        has_left, has_right = (is_valid(values) for values in sides)
        if self.kind == "inner":
            return has_left & has_right
        return has_left if self.kind == "left" else has_left | has_right

    def _joined(self, asking: Batch, sides: list[pa.Array], is_there: np.ndarray) -> pa.Array:
        left, right = (values.take(pa.array(np.flatnonzero(is_there))) for values in sides)
        joined = self.joiner.evaluate(asking.where(is_there), left, right)
        return joined.take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))


def _forwards_a_result(
    results: JoinResults, is_there: np.ndarray, was_there: np.ndarray, has_own: np.ndarray
) -> np.ndarray:
    """Results to forward. ``has_own``: whether the changed side showed something before.

    The results that exist or existed, and the end of a result that no earlier result has ended. That is so when the
    other side ends a result that begins, and when the version ends in nothing as it began in nothing.
    """
    same = np.append(False, results.at[1:] == results.at[:-1])[: len(is_there)]

    def above(column: np.ndarray) -> np.ndarray:
        return same & np.append(False, column[:-1])[: len(column)]

    is_any = is_there | was_there
    ends = ~is_any & above(is_there & ~was_there)
    ends_in_nothing = ~has_own & above(~has_own) & (is_there | above(is_there))
    forwards_a_result: np.ndarray = np.where(results.follows, ends_in_nothing, is_any | ends)
    return forwards_a_result


class StoredCompleteJoin(CompleteJoin, StoredTable):
    """Materialized in ``store``, a versioned one, which says what a change replaced and whether it is the newest."""

    def __init__(self, context: OperatorContext, kind: str, joiner: Joiner, store: TableStore) -> None:
        StoredTable.__init__(self, context, store)
        self.kind, self.joiner = kind, joiner
        self.sides = tuple(TableSide(context, view) for view in context.views)

    def process_all(self, batches: tuple[Batch, ...], chunk: Chunk) -> Batch:
        return self.put(super().process_all(batches, chunk), chunk)


def build(node: TableJoinNode, context: OperatorContext) -> Operator:
    """The operator of ``node``, with a complete history or as Kafka joins."""
    if node.history == "kafka":
        return table_join.build(node, context)
    store = open_store(context, node.shape, context.keys)
    if store is None:
        return CompleteJoin(context, node.kind, node.joiner)
    return StoredCompleteJoin(context, node.kind, node.joiner, store)
