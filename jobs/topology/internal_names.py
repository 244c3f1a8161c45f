"""Topics that Kafka Streams makes itself, by the names that brokers know: repartition topics and changelogs behind the
application's id.

Rule: an output of the same name would be that topic in Kafka Streams, so that what is written counts as repartitioned
or as stored. Here outputs and internal topics are tables apart, so such a name is refused. Without the id in front it
is another topic in Kafka Streams, too, and is taken.
"""

from ...state.errors import TopologyError
from ..graph.graph import Graph
from ..graph.nodes import RepartitionNode


def note_internal_topics(graph: Graph, application_id: str | None) -> None:
    """Let ``graph`` know them, so that topics that only records name are looked at, too. TopologyError where a topic is
    written that is one. Without an ``application_id`` nobody knows them.
    """
    if application_id is None:
        return
    internal: dict[str, str] = {}
    for node in graph.nodes.values():
        if isinstance(node, RepartitionNode) and not node.is_replay_only:
            internal[f"{application_id}-{node.topic}"] = f"the repartition topic of {node.name}"
        for store in node.changelogs(graph):
            internal[f"{application_id}-{store}-changelog"] = f"the changelog of the store {store!r}"
    graph.internal_topics = tuple(internal)
    for node in graph.nodes.values():
        if (topic := node.written_topic) in internal:
            got = f"{internal[topic]}, which Kafka Streams writes itself"
            next_step = "choose another name; records that are to go there are brought by merge() above it, or by put()"
            raise TopologyError(f"topic {topic!r}", "a topic of the application's own", got, next_step)
