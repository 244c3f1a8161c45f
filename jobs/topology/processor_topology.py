"""A topology by the Processor API alone: sources, processors, sinks and stores by name (InternalTopologyBuilder).

Rule: what is named as a parent, a processor or a store is there already, so that there are no circles; a name is given
once. What a node has several parents for reaches it in the order in which Kafka would forward it.
"""

import re
from collections.abc import Callable
from typing import Any

from ...state.errors import TopologyError
from ...state.serdes import Serde
from ..functions.expressions import Shape
from ..functions.parameters import check_supplier
from ..functions.processor_api import KeyValues
from ..functions.timestamp_extractors import bind_extractor
from ..graph.graph import Graph, Node
from ..graph.name_rules import check_table_name, check_topic, table_name_of
from ..graph.nodes import Partitioner, sink_node
from ..graph.other_producers import note_others
from ..graph.repartition import check_partitions
from ..operators.processor.given_stores import add_global_store, read_global_store, share
from ..operators.processor.process_node import ProcessNode
from ..operators.stateless_nodes import ParentsNode, add_pattern
from ..operators.stateless_nodes import add_source as add_topics
from . import topic_choice


def add_source(graph: Graph, name: str, consumed: Any, topics: tuple[Any, ...]) -> None:
    """TopologyError unless there are topics, which nobody else reads, or one pattern, and serdes of them."""
    _check_new(graph, name)
    patterns = [topic for topic in topics if isinstance(topic, re.Pattern)]
    if not topics or len(set(topics)) != len(topics) or (patterns and len(topics) > 1):
        expected, next_step = "names of topics, each once, or one pattern", "name a topic"
        raise TopologyError(f"source {name!r}", expected, ", ".join(map(repr, topics)) or "none", next_step)
    shape = _shape(name, consumed)
    for topic in topics if not patterns else ():
        _check_unread(graph, name, topic)
    extractor = bind_extractor(getattr(consumed, "timestamp_extractor", None), shape, name)
    if patterns:
        add_pattern(graph, name, patterns[0], shape, extractor)
    else:
        note_others(graph, topics, getattr(consumed, "others", None), shape, name)
        add_topics(graph, name, topics, shape, extractor)


def add_global(
    graph: Graph, store: KeyValues, source: str, consumed: Any, topic: str, name: str, supplier: Callable[[], Any]
) -> None:
    """TopologyError as ``add_source``, for names that are taken, and for a timestamp extractor."""
    shape = _shape(source, consumed)
    _check_unread(graph, source, topic)
    if getattr(consumed, "timestamp_extractor", None) is not None:
        got, next_step = "an extractor, which Kafka Streams never asks there", "leave it out"
        raise TopologyError(f"source {source!r}", "records at their own times", got, next_step)
    for one in (source, name):
        _check_new(graph, one)
    add_global_store(graph, store, supplier, topic=topic, shape=shape, names=(source, name))


def _shape(name: str, consumed: Any) -> Shape:
    """Of the records of a source."""
    key, value = getattr(consumed, "key", None), getattr(consumed, "value", None)
    if not isinstance(key, Serde) or not isinstance(value, Serde):
        next_step = "use for example Consumed(Serde.string(), Serde.long())"
        raise TopologyError(f"source {name!r}", "a Consumed, the serdes of key and value", repr(consumed), next_step)
    if (other := getattr(consumed, "name", None)) is not None:
        next_step = "leave with_name() out"
        raise TopologyError(f"source {name!r}", "one name", f"a Consumed of the name {other!r} beside it", next_step)
    return Shape(key, value)


def _check_unread(graph: Graph, name: str, topic: Any) -> None:
    """Raises TopologyError unless ``topic`` is the name of one, which nobody else reads."""
    check_topic(f"source {name!r}", topic, "give names of topics")
    for other in graph.nodes.values():
        if other.landed_topic == topic:
            got, next_step = f"that of {other.name}, too", f"make {other.name} the parent"
            raise TopologyError(f"source {name!r}", f"a topic {topic!r} of its own", got, next_step)


def add_processor(
    graph: Graph,
    name: str,
    supplier: Callable[[], Any],
    parents: tuple[str, ...],
    returns_key: Serde | None,
    returns: Serde | None,
) -> None:
    """TopologyError for a name that is taken, parents that are not there, and parents of different types."""
    _check_new(graph, name)
    check_supplier(supplier, name, "init", "process")
    for option, serde in (("returns_key", returns_key), ("returns", returns)):
        if serde is not None and not isinstance(serde, Serde):
            raise TopologyError(name, f"{option}= to be a serde", repr(serde), "use for example Serde.string()")
    parent = _parent(graph, f"processor {name!r}", name, parents)
    shape = Shape(returns_key or parent.shape.key, returns or parent.shape.value)
    store = f"{table_name_of(name)}-stores"
    node = ProcessNode(name=name, inputs=(parent.name,), shape=shape, supplier=supplier, store=store)
    _add(graph, parent, node)


def add_sink(
    graph: Graph,
    name: str,
    topic: Any,
    parents: tuple[str, ...],
    topics: Any,
    partitioner: Partitioner | None,
    partitions: int | None,
) -> None:
    """TopologyError as ``add_processor``, and for what ``to`` refuses."""
    _check_new(graph, name)
    chooses = topic_choice.names_topics(topic, topics)
    if not chooses:
        check_topic(f"sink {name!r}", topic, "give each topic a sink")
        check_table_name("output", topic)
    parent = _parent(graph, f"sink {name!r}", name, parents)
    check_partitions(f"sink {name!r}", partitioner, partitions)
    if chooses:
        topic_choice.to_one_of(
            graph,
            parent,
            topic,
            topics,
            name=name,
            partitioner=partitioner,
            partitions=partitions,
            add=lambda node: _add(graph, parent, node),
        )
        return
    node = {"name": name, "inputs": (parent.name,), "shape": parent.shape, "topic": topic}
    _add(graph, parent, sink_node(partitioner, partitions, **node))


def connect(graph: Graph, name: str, store: KeyValues) -> None:
    """``store`` is one of the processor ``name``. TopologyError when there is no such processor."""
    node = _with_stores(graph, name, store.name)
    if store.name not in (*node.inner_stores, *node.shared):
        share(graph, node, store)
        graph.check_stores()


def connect_global(graph: Graph, name: str, store: str) -> bool:
    """The processor ``name`` reads the global store, if there is one of that name; whether there is.

    TopologyError when there is no such processor, and for one that was added before the store.
    """
    owner = next((node for node in graph.nodes.values() if node.is_global and graph.store_of(node) == store), None)
    if owner is None:
        return False
    read_global_store(graph, _with_stores(graph, name, store), store, owner)
    return True


def _with_stores(graph: Graph, name: str, store: str) -> Any:
    """The processor of that name."""
    node = graph.nodes.get(name)
    if node is None:
        raise TopologyError(f"store {store!r}", "a processor that is added", repr(name), "add the processor first")
    if getattr(node, "stores", None) is None or node.is_global:
        got, next_step = f"{name}, which is none", "connect it with a processor"
        raise TopologyError(f"store {store!r}", "a processor", got, next_step)
    return node


def _check_new(graph: Graph, name: Any) -> None:
    if name in graph.nodes:
        raise TopologyError("topology", "names that differ", f"{name!r} twice", "rename one of them")


def _parent(graph: Graph, place: str, name: str, parents: tuple[str, ...]) -> Node:
    """The one parent, or a node that all parents forward to; it is not added yet."""
    if not parents:
        raise TopologyError(place, "at least one parent", "none", "name the source or processor whose records it takes")
    for parent in parents:
        if parent == name:
            raise TopologyError(place, "a parent that is another one", "itself", "a topology has no circles")
        if parent not in graph.nodes:
            known = [known for known, node in graph.nodes.items() if node.written_topic is None]
            got, next_step = repr(parent), "add it first"
            if not isinstance(parent, str):
                next_step = "leave serdes out, a sink has those of its parent, and give a partitioner as partitioner="
            raise TopologyError(place, f"a parent that is added, one of {known}", got, next_step)
        if graph.nodes[parent].written_topic is not None:
            got, next_step = f"the sink {parent!r}", "make the parent of the sink the parent"
            raise TopologyError(place, "a source or a processor as parent", got, next_step)
    several = tuple(dict.fromkeys(parents))
    first = graph.nodes[several[0]]
    for other in several[1:]:
        if graph.nodes[other].shape != first.shape:
            expected = f"parents that forward the same, {first.shape.key} and {first.shape.value}"
            got = f"{graph.nodes[other].shape.key} and {graph.nodes[other].shape.value} of {other}"
            raise TopologyError(place, expected, got, "let processors between make the same of them")
    return first if len(several) == 1 else ParentsNode(name=f"{name}:parents", inputs=several, shape=first.shape)


def _add(graph: Graph, parent: Node, node: Node) -> None:
    """``node`` and, if it has several parents, what is between; that has a name that no user's node has."""
    is_new = parent.name not in graph.nodes
    # Not by ``add``, which refuses the colon in the name of a ParentsNode. If the node below is refused, it goes again:
    # a call that fails leaves nothing behind.
    graph.nodes[parent.name] = parent
    try:
        graph.add(node)
    except TopologyError:
        if is_new:
            del graph.nodes[parent.name]
        raise
