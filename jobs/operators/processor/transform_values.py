"""Values of a table that a transformer of the user makes (KTableTransformValues).

Owns the running transformer and its context. Rule: it is called for every change, for a deletion with None, and what it
gives is the new value, None deletes the key. Without a store it is called once more for the value that the change
replaced, where a reader needs it, and every change is forwarded; with one the store knows the old value. A reader of a
table without a store calls its own transformer on the value that the table above shows, also where that shows none: a
value made of none exists, with the time -1. That transformer knows the time of the value, and neither its source nor
its headers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.buffers import is_valid
from ....state.errors import ConfigError, TaskFailed
from ....state.records.batches import Batch, Chunk, Values
from ....state.records.keys import Keys
from ....state.serdes.codec import refused_part
from ....state.serdes.handed_over import own_copy
from ...functions.expressions import Shape, python_keys
from ...functions.parameters import KEY_VALUE, form_of
from ...functions.processor_api import Headers, RecordMetadata, ValueTransformerContext
from ...graph.graph import Graph
from ..base.failed_records import records_of
from ..base.operator import Operator, OperatorContext, TableView
from ..tables import table_views
from ..tables.materialized_table import StoredTable, open_store
from ..tables.table_steps import old_values
from ..tables.table_store import TableStore
from .process import metadata_of
from .process_node import TransformValuesNode


class _TransformerContext(ValueTransformerContext):
    """``now``: time, headers and metadata of what is transformed; None in ``init``."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.now: tuple[int, Headers, RecordMetadata | None] | None = None

    @property
    def timestamp_ms(self) -> int:
        return self._now()[0]

    @property
    def headers(self) -> Headers:
        return self._now()[1]

    @property
    def record_metadata(self) -> RecordMetadata | None:
        return None if self.now is None else self.now[2]

    def _now(self) -> tuple[int, Headers, RecordMetadata | None]:
        if self.now is None:
            next_step = "ask in transform"
            raise ConfigError(self.node, "time and headers asked for in transform", "asked for in init", next_step)
        return self.now


class Transformer:
    """A running transformer of ``node``. A failure of it ends the run, with the key."""

    def __init__(self, node: TransformValuesNode) -> None:
        self.node, self.context = node, _TransformerContext(node.name)
        self.running = node.supplier()
        form_of(self.running.init, node.name, ("context",), gives=False)
        form_of(self.running.transform, node.name, KEY_VALUE, gives=False)
        self.running.init(self.context)

    def named(self) -> Mapping[str, object]:
        """As ``Operator.running``."""
        return {"the transformer": self.running}

    def transformed(self, key: Any, value: Any) -> Any:
        """What it makes of ``value``, in the context as it is."""
        try:
            return own_copy(self.running.transform(key, value))
        except Exception as error:
            given = f"on key {key!r}"
            raise TaskFailed.by(
                error, self.node.name, "a transformer that does not fail", given, "correct the transformer"
            ) from error

    def changes(
        self, context: OperatorContext, batch: Batch, chunk: Chunk, old: pa.Array | None
    ) -> tuple[list[Any], list[Any]]:
        """New values of all changes and, of the values that they replaced, if there are any, old ones."""
        before = None if old is None else context.shape.value.to_python(old)
        new: list[Any] = []
        replaced: list[Any] = []
        metadata = metadata_of(batch, chunk)
        for row, (key, value, time_ms, headers) in enumerate(records_of(context, batch)):
            self.context.now = time_ms, headers, metadata[row]
            key_again = key if before is None else own_copy(key)
            new.append(self.transformed(key, value))
            if before is not None:
                replaced.append(self.transformed(key_again, before[row]))
        return new, replaced

    def typed(self, values: Sequence[Any]) -> pa.Array:
        """As a column of the table's values."""
        serde = self.node.shape.value
        try:
            return serde.from_python(list(values))
        except ConfigError as error:
            next_step = "correct the transformer, or the serde in returns"
            raise TaskFailed(self.node.name, f"values of {serde}", refused_part(error), next_step) from error


class TransformValues(Operator):
    """Not materialized: the value that a change replaced is transformed too."""

    def __init__(self, context: OperatorContext, node: TransformValuesNode) -> None:
        super().__init__(context)
        self.transformer = Transformer(node)

    def running(self) -> Mapping[str, object]:
        return self.transformer.named()

    def renew(self) -> None:
        self.transformer = Transformer(self.transformer.node)

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        old = old_values(batch)[0].all() if self.context.wants_old else None
        new, replaced = self.transformer.changes(self.context, batch, chunk, old)
        values = self.transformer.typed(new)
        changed = replace(batch, value=Values(values), valid=is_valid(values), old=None, old_valid=None)
        if old is None:
            return changed
        before = self.transformer.typed(replaced)
        return replace(changed, old=Values(before), old_valid=is_valid(before))


class StoredTransformValues(StoredTable):
    """Materialized in ``store``, which knows the old value."""

    def __init__(self, context: OperatorContext, node: TransformValuesNode, store: TableStore) -> None:
        super().__init__(context, store)
        self.transformer = Transformer(node)

    def running(self) -> Mapping[str, object]:
        return self.transformer.named()

    def renew(self) -> None:
        self.transformer = Transformer(self.transformer.node)

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        new, _ = self.transformer.changes(self.context, batch, chunk, None)
        values = self.transformer.typed(new)
        return self.put(replace(batch, value=Values(values), valid=is_valid(values)), chunk)


def build(node: TransformValuesNode, context: OperatorContext) -> Operator:
    """The operator of ``node``."""
    store = open_store(context, node.shape, context.keys)
    return TransformValues(context, node) if store is None else StoredTransformValues(context, node, store)


class TransformedView(table_views.StepView):
    """Of a table without a store: a transformer of the reader's own, on what the table above shows."""

    def __init__(self, node: TransformValuesNode, graph: Graph, keys: Keys) -> None:
        super().__init__(self._step, table_views.build_view(graph, node.inputs[0], keys), keys)
        self.transformer, self.shape_above = Transformer(node), graph.parent(node).shape

    def running(self) -> Mapping[str, object]:
        return {**super().running(), **self.transformer.named()}

    def renew(self) -> None:
        super().renew()
        self.transformer = Transformer(self.transformer.node)

    def _step(self, shown: Batch) -> Batch:
        values = self.transformer.typed(_looked_up(self.transformer, self.shape_above, shown))
        return replace(shown, value=Values(values), valid=is_valid(values))


def build_view(node: TransformValuesNode, graph: Graph, keys: Keys) -> TableView:
    """The view of a reader of ``node``."""
    return TransformedView(node, graph, keys)


def _looked_up(transformer: Transformer, shape: Shape, shown: Batch) -> list[Any]:
    """What is made of every row that is shown, or not there; nobody asks for a null key."""
    transformed: list[Any] = []
    keys, values = python_keys(shape, shown), shape.value.to_python(shown.value.all())
    times = np.where(shown.valid, shown.time_ms, -1).tolist()
    for code, key, value, time_ms in zip(shown.key.tolist(), keys, values, times, strict=True):
        transformer.context.now = time_ms, (), None
        transformed.append(transformer.transformed(key, value) if code >= 0 else None)
    return transformed
