"""The processors, sources and sinks that Kafka Streams makes of our nodes, in the order in which it adds them.

Several of its processors are one node here: a join of streams is five, a grouping through a repartition table four.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from jobs.topology.graph import Graph
from jobs.topology.nodes import (
    CogroupNode,
    FilterNode,
    ForeignKeyJoinNode,
    ForeignKeyResponseNode,
    GlobalTableNode,
    MergeNode,
    Node,
    ProcessNode,
    RepartitionNode,
    SinkNode,
    SourceNode,
    StreamGlobalTableJoinNode,
    StreamJoinNode,
    StreamTableJoinNode,
    SuppressNode,
    TableJoinNode,
)

SOURCE, PROCESSOR, SINK = "Source", "Processor", "Sink"


@dataclass(frozen=True)
class KafkaNode:
    """``topic``: of a source or a sink; ``stores``: that the processor is connected with."""

    kind: str
    name: str
    above: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    topic: str = ""
    is_global: bool = False


def kafka_nodes(graph: Graph) -> list[KafkaNode]:
    """All of them, in Kafka's order."""
    found: list[KafkaNode] = []
    for node in graph.nodes.values():
        found += _MADE_OF.get(type(node), _single)(graph, node)
    return found


def _single(graph: Graph, node: Node) -> Iterator[KafkaNode]:
    store = graph.store_of(node)
    yield _processor(node.name, node.inputs, () if store is None else (store,))


def _processor(name: str, above: tuple[str, ...], stores: tuple[str, ...] = ()) -> KafkaNode:
    return KafkaNode(PROCESSOR, name, tuple(dict.fromkeys(above)), stores)


def _source(graph: Graph, node: SourceNode) -> Iterator[KafkaNode]:
    yield KafkaNode(SOURCE, node.name, topic=node.topic)


def _sink(graph: Graph, node: SinkNode) -> Iterator[KafkaNode]:
    yield KafkaNode(SINK, node.name, node.inputs, topic=node.topic)


def _global_table(graph: Graph, node: GlobalTableNode) -> Iterator[KafkaNode]:
    (source,) = graph.parts[node.name]
    yield KafkaNode(SOURCE, source, topic=node.topic, is_global=True)
    yield KafkaNode(PROCESSOR, node.name, (source,), (node.store,), is_global=True)


def _filter(graph: Graph, node: FilterNode) -> Iterator[KafkaNode]:
    """Branches of a split are children of one processor; what it left for the next branch is none in Kafka."""
    if node.name not in graph.parts:
        yield _processor(node.name, node.inputs)
    elif graph.parts[node.name]:
        split, above = graph.parts[node.name]
        first = next(name for name, parts in graph.parts.items() if parts == (split, above))
        if node.name == first:
            yield _processor(split, (above,))
        yield _processor(node.name, (split,))


def _merge(graph: Graph, node: MergeNode) -> Iterator[KafkaNode]:
    yield _processor(node.name, node.inputs)


def _repartition(graph: Graph, node: RepartitionNode) -> Iterator[KafkaNode]:
    above = node.inputs
    if node.filter_name:
        yield _processor(node.filter_name, above)
        above = (node.filter_name,)
    elif isinstance(graph.parent(node), ForeignKeyJoinNode):
        above = (*above, graph.parts[above[0]][1])
    yield KafkaNode(SINK, node.sink_name, above, topic=node.topic)
    yield KafkaNode(SOURCE, node.name, topic=node.topic)


def _process(graph: Graph, node: ProcessNode) -> Iterator[KafkaNode]:
    stores = tuple(store if isinstance(store, str) else store.name for store in node.stores)
    yield _processor(node.name, node.inputs, stores)


def _cogroup(graph: Graph, node: CogroupNode) -> Iterator[KafkaNode]:
    parts = graph.parts[node.name]
    for name, above in zip(parts, node.inputs, strict=True):
        yield _processor(name, (above,), (node.store,))
    yield _processor(node.name, parts)


def _stream_join(graph: Graph, node: StreamJoinNode) -> Iterator[KafkaNode]:
    this_windowed, other_windowed, this, other, this_store, other_store, *shared = graph.parts[node.name]
    left, right = node.inputs
    yield _processor(this_windowed, (left,), (this_store,))
    yield _processor(other_windowed, (right,), (other_store,))
    yield _processor(this, (this_windowed,), (other_store, *shared))
    yield _processor(other, (other_windowed,), (this_store, *shared))
    yield _processor(node.name, (this, other))


def _stream_table_join(graph: Graph, node: StreamTableJoinNode) -> Iterator[KafkaNode]:
    buffer = () if node.store is None else (node.store,)
    yield _processor(node.name, node.inputs, (*buffer, *_shown(graph, node.reads[0])))


def _stream_global_table_join(graph: Graph, node: StreamGlobalTableJoinNode) -> Iterator[KafkaNode]:
    yield _processor(node.name, node.inputs)


def _table_join(graph: Graph, node: TableJoinNode) -> Iterator[KafkaNode]:
    this, other = graph.parts[node.name]
    left, right = node.inputs
    store = graph.store_of(node)
    yield _processor(this, (left,), _shown(graph, right))
    yield _processor(other, (right,), _shown(graph, left))
    yield _processor(node.name, (this, other), () if store is None else (store,))


def _foreign_key_join(graph: Graph, node: ForeignKeyJoinNode) -> Iterator[KafkaNode]:
    receive, foreign_join = graph.parts[node.name]
    registration, right = node.inputs
    yield _processor(receive, (registration,), (node.store,))
    yield _processor(node.name, (receive,), _shown(graph, right))
    yield _processor(foreign_join, (right,), (node.store,))


def _foreign_key_response(graph: Graph, node: ForeignKeyResponseNode) -> Iterator[KafkaNode]:
    (resolver,) = graph.parts[node.name]
    store = graph.store_of(node)
    yield _processor(resolver, node.inputs, _shown(graph, node.reads[0]))
    yield _processor(node.name, (resolver,), () if store is None else (store,))


def _shown(graph: Graph, name: str) -> tuple[str, ...]:
    """Stores that a look into the table ends in (KTableValueGetterSupplier.storeNames)."""
    node, traits = graph.nodes[name], graph.tables[name]
    if traits.store is not None:
        return (traits.store.name,)
    own = (node.store,) if isinstance(node, SuppressNode) else ()
    return tuple(dict.fromkeys((*own, *(store for above in node.inputs for store in _shown(graph, above)))))


_MADE_OF: dict[type[Node], Callable[[Graph, Any], Iterator[KafkaNode]]] = {
    CogroupNode: _cogroup,
    FilterNode: _filter,
    ForeignKeyJoinNode: _foreign_key_join,
    ForeignKeyResponseNode: _foreign_key_response,
    GlobalTableNode: _global_table,
    MergeNode: _merge,
    ProcessNode: _process,
    RepartitionNode: _repartition,
    SinkNode: _sink,
    SourceNode: _source,
    StreamGlobalTableJoinNode: _stream_global_table_join,
    StreamJoinNode: _stream_join,
    StreamTableJoinNode: _stream_table_join,
    TableJoinNode: _table_join,
}
"""A node that is not here is one processor."""
