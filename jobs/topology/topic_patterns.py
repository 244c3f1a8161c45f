"""Sources that read all topics whose names match a pattern: which topics these are, and what no pattern may match.

Rule, as Kafka's: a whole name matches, and a topic belongs to one source. A topic that lands later is read from its
first record on, by increments that are planned from then on. Other than in Kafka, no pattern matches what the topology
writes itself: its output would be its input again.
"""

from collections.abc import Collection, Iterable
from copy import copy

from ...state.errors import TopologyError
from ..graph.graph import Graph, Node


def awaits_topics(nodes: Iterable[Node]) -> str | None:
    """Name of a source by pattern whose topics are not known."""
    return next((node.name for node in nodes if node.topic_pattern is not None and not node.inputs), None)


def check_patterns(graph: Graph) -> None:
    """Raises TopologyError if a pattern matches a topic that the topology reads or writes by its name."""
    for node in graph.nodes.values():
        # With inputs its topics are known: sources of their own are above it (``Node.reading``).
        if node.topic_pattern is None or node.inputs:
            continue
        for other in graph.nodes.values():
            for does, topic in (("reads", other.landed_topic), ("writes", other.written_topic)):
                if topic is not None and node.topic_pattern.fullmatch(topic):
                    pattern, next_step = node.topic_pattern.pattern, "write a pattern that leaves it out"
                    got = f"the topic {topic!r}, which {other.name} {does}"
                    raise TopologyError(
                        node.name, f"no topic of the topology's own to match {pattern!r}", got, next_step
                    )


def reading(graph: Graph, topics: Collection[str] | None) -> Graph:
    """``graph`` where these topics have landed; None: one topic represents all that a pattern matches. Raises
    TopologyError for a pattern that matches none of them, and for a topic that two patterns match.
    """
    made = copy(graph)
    made.nodes = {new.name: new for node in graph.nodes.values() for new in node.reading(topics)}
    if (name := awaits_topics(made.nodes.values())) is not None:
        pattern, got = (
            made.nodes[name].topic_pattern,
            f"none among {', '.join(sorted(topics or ())) or 'no topics at all'}",
        )
        assert pattern is not None
        next_step = "land one, or correct the pattern, which must match whole names"
        raise TopologyError(name, f"a landed topic that {pattern.pattern!r} matches", got, next_step)
    read: dict[str, Node] = {}
    for node in made.nodes.values():
        topic = node.landed_topic
        if topic is not None and read.setdefault(topic, node) is not node:
            expected, next_step = f"one pattern to match the topic {topic!r}", "write patterns that do not overlap"
            raise TopologyError(node.name, expected, f"also that of {read[topic].name}", next_step)
    return made
