"""One aggregate of several grouped streams (CogroupedKStream; KIP-150).

Owns nothing of its own: an aggregate of one kind, whose store all streams share. Rule: records come in the order of
jobs/operators/base/forward_order.py; each goes to the aggregator of its stream, record by record. Each stream has its
own stream time, as in Kafka, where every stream has its own processor. With semantics "kip" all streams share one
stream time, so a closed window stays closed. Every update is forwarded.
"""

from dataclasses import replace
from typing import Any

from ....state.records.batches import Batch, Chunk
from ....state.records.keys import Keys
from ...functions.expressions import python_keys
from ...functions.folds.aggregation import Aggregation
from ...functions.folds.python import PythonFold, PythonState
from ..aggregate_parts.aggregate import Aggregate
from ..base.forward_order import joined_batch, merge_in_forward_order
from ..base.operator import MultiOperator, OperatorContext, StoreOperator, WritableStore
from ..base.single_records import Single
from .aggregate_nodes import CogroupNode
from .build import aggregate, settings_of


class Cogroup(MultiOperator, StoreOperator, WritableStore):
    """``shared``: the aggregate that has the store; its fold takes (number of the stream, value) for a value."""

    store: Aggregate

    def __init__(self, context: OperatorContext, shared: Aggregate) -> None:
        super().__init__(context)
        self.store = shared
        self.row_key, self.due = shared.row_key, shared.due

    def process_all(self, batches: tuple[Batch, ...], chunk: Chunk) -> Batch:
        merged = merge_in_forward_order(batches)
        batch = joined_batch(batches, merged, with_values=False)
        state = self.store.folds.only
        assert isinstance(state, PythonState)
        records = [self._records(number, one) for number, one in enumerate(batches)]
        which, rows = merged.which.tolist(), merged.row.tolist()
        state.show(batch, [records[number][row] for number, row in zip(which, rows, strict=True)])
        self.store.input_of = merged.which if len(self.store.stream_times_ms) > 1 else None
        return self.store.process(batch, chunk)

    @property
    def store_keys(self) -> Keys:
        return self.store.store_keys

    def put_by_processor(self, one: Single, chunk: Chunk) -> None:
        self.store.put_by_processor(one, chunk)

    def advance(self, advance_row: Batch, chunk: Chunk) -> Batch | None:
        return self.store.advance(advance_row, chunk)

    def _records(self, number: int, batch: Batch) -> list[tuple[Any, tuple[int, Any]]]:
        """(key, (number of the stream, value)) of every record."""
        shape = self.context.shapes[number]
        values = shape.value.to_python(batch.value.all())
        return [(key, (number, value)) for key, value in zip(python_keys(shape, batch), values, strict=True)]


def build(node: CogroupNode, context: OperatorContext) -> Cogroup:
    """The operator of a CogroupNode, of windows of any kind."""

    def add(key: Any, record: tuple[int, Any], so_far: Any) -> Any:
        number, value = record
        return node.aggregators[number](key, value, so_far)

    fold = PythonFold(node.initializer, add, node.shape.value)
    fold = fold if node.merger is None else replace(fold, merger=node.merger)
    aggregation = Aggregation({"": fold}, context.shape, node.name)
    settings = settings_of(node, inputs=1 if node.semantics == "kip" else len(node.inputs))
    return Cogroup(context, aggregate(context, aggregation, node.windows, settings))
