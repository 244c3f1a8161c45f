"""The topic of dead letters (``errors.dead.letter.queue.topic.name``, KIP-1034) as an output of the graph that runs.

Rule: each sub-topology writes what it continues without. One that begins once writes to its own partition, as any
output does; of several the topic has partitions of its own (jobs/topology/intermediate_topics.py). Kafka's description
does not have it.
"""

import copy
from collections.abc import Iterator

from ...state.errors import TopologyError
from ...state.serdes import Serde
from ..functions.expressions import Shape
from ..graph.graph import Graph, Node
from ..graph.nodes import RepartitionNode, SinkNode, SourceNode
from ..operators.dead_letter_node import DeadLettersNode

_SHAPE = Shape(Serde.bytes(), Serde.bytes())


def with_dead_letters(graph: Graph) -> Graph:
    """``graph``, or one whose sub-topologies write dead letters to its topic.

    Raises TopologyError for a topic that the topology reads, or writes itself.
    """
    topic = graph.dead_letter_topic
    if topic is None:
        return graph
    place = f"errors.dead.letter.queue.topic.name {topic!r}"
    for node in graph.nodes.values():
        if topic == node.written_topic or (node.topic_pattern is not None and node.topic_pattern.fullmatch(topic)):
            got, next_step = f"one that {node.name} names", "give the topic a name of its own"
            raise TopologyError(place, "a topic that the topology neither reads nor writes", got, next_step)
        if topic == node.landed_topic:
            got, next_step = f"one that {node.name} reads", "read it in a topology of its own, from its own landing"
            raise TopologyError(place, "a topic that the topology neither reads nor writes", got, next_step)
    made, nodes = copy.copy(graph), dict(graph.nodes)
    made.ranks = {name: rank for rank, name in enumerate(graph.nodes)} | graph.ranks
    for group in graph.groups():
        failing = tuple(node.name for node in group)
        for source in _beginnings(graph, group):
            letters = DeadLettersNode(
                name=f"{source.name}:letters", inputs=(source.name,), shape=_SHAPE, reads_failures_of=failing
            )
            sink = SinkNode(name=f"{source.name}:dead-letters", inputs=(letters.name,), shape=_SHAPE, topic=topic)
            nodes |= {letters.name: letters, sink.name: sink}
            made.ranks |= dict.fromkeys((letters.name, sink.name), made.ranks[source.name])
    made.nodes = nodes
    return made


def _beginnings(graph: Graph, group: list[Node]) -> Iterator[Node]:
    """Where parts of a sub-topology may begin: its topics together, and each of its own topics and repartitions."""
    written = {node.written_topic for node in graph.nodes.values()}
    has_landed = False
    for node in group:
        if isinstance(node, RepartitionNode):
            yield node
        elif isinstance(node, SourceNode):
            if node.topic in written or not has_landed:
                yield node
            has_landed |= node.topic not in written
