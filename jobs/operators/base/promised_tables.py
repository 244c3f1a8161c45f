"""Which tables show the records that a node receives and forwards, for its promises (state/promises.py). Also the
results of users' functions on serialized columns.

Rule: a table shows it when the steps between make one record of one, under the same key, and nobody else writes there.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ....state.buffers import is_valid
from ....state.promises import InputPromise, JoinedValues
from ....state.records.batches import Batch, Values
from ....state.records.keys import Keys
from ....state.serdes import Serde
from ...functions.expressions import Call, Expression, Shape
from ...functions.value_joiners import Joiner
from ...graph.graph import Graph, Node


def input_of(graph: Graph, name: str) -> InputPromise | None:
    """The table with the records that come from the node ``name``, by key and time; None when there is none."""
    node = graph.nodes[name]
    while not node.is_source:
        if not node.forwards_one or node.changes_keys or len(node.inputs) != 1:
            return None
        node = graph.parent(node)
    table = node.table(graph)
    shows_it = node.time_step is None and node.has_places_of_table and node.shape.key.codec.is_canonical
    return InputPromise(table) if table is not None and shows_it else None


def values_of(graph: Graph, name: str) -> InputPromise | None:
    """The table with the records that come from the node ``name`` as they are; None when a step lies between."""
    return input_of(graph, name) if graph.nodes[name].is_source else None


def table_values_of(graph: Graph, name: str) -> InputPromise | None:
    """The table with the records of which the table ``name`` is made, as they are; None when a step lies between."""
    node = graph.nodes[name]
    return values_of(graph, node.inputs[0]) if node.is_table_of_records else None


def joined_values(left: Shape, right: Serde, joiner: Joiner) -> JoinedValues:
    """What ``joiner`` makes of serialized keys, left and right values."""

    def joined(keys: pa.Array, lefts: pa.Array, rights: pa.Array) -> pa.Array:
        batch = _batch(left, keys, lefts)
        return joiner.evaluate(batch, batch.value.all(), right.decode(rights).values)

    return joined


def extracted_keys(of: Shape, step: Expression | Call) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Serialized keys that ``step`` makes of serialized keys and values; of a null value it is not asked."""

    def extracted(keys: pa.Array, values: pa.Array) -> pa.Array:
        batch = _batch(of, keys, values)
        encoded = step.result.encode(step.evaluate(batch.where(batch.valid)))
        return encoded.take(pa.array(np.cumsum(batch.valid) - 1, mask=~batch.valid))

    return extracted


def _batch(shape: Shape, keys: pa.Array, values: pa.Array) -> Batch:
    coded, decoded = Keys(shape.key), shape.value.decode(values).values
    rows = np.arange(len(keys), dtype=np.int32)
    return Batch(rows, coded.intern(keys), coded, np.zeros(len(rows), np.int64), is_valid(decoded), Values(decoded))


def outputs_of(graph: Graph, node: Node, *, unchanged: bool) -> tuple[str, ...]:
    """Outputs that have all that ``node`` forwards, and nothing else, under its keys; with ``unchanged`` its values."""
    outputs, begun = list[str](), [node.name]
    while begun:
        for child in graph.children(begun.pop()):
            if len(child.inputs) != 1:
                continue
            topic = child.written_topic
            if topic is not None and _writers(graph, topic) == 1:
                table = child.table(graph)
                outputs += [] if table is None else [table]
            elif child.forwards_unchanged or (child.forwards_one and not child.changes_keys and not unchanged):
                begun.append(child.name)
    return tuple(outputs)


def _writers(graph: Graph, topic: str) -> int:
    return sum(node.written_topic == topic for node in graph.nodes.values())
