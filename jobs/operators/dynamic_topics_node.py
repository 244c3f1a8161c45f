"""The sink of records whose topics only they themselves name, and what it says of itself."""

import re
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace

from ...state.errors import TopologyError
from ..functions.expressions import Call, Expression
from ..graph.graph import Graph
from ..graph.kafka_processors import SINK, KafkaNode
from ..graph.name_rules import RESERVED, is_legal
from ..graph.nodes import SinkNode
from ..graph.observations import Observation
from ..graph.wording import Wording


@dataclass(frozen=True, eq=False, kw_only=True)
class DynamicSinkNode(SinkNode):
    """Writes records to topics that ``extractor`` names, all of them as rows of one output, ``topic``, which have the
    name in a column. So nobody need know the names before, and a table need not be made for each.
    """

    extractor: Expression | Call
    said: str
    """Of the extractor, in Kafka's description."""
    regex: str | None = None
    flags: int = 0
    """Of the pattern that whole names must match, if there is one."""
    own_topics: tuple[str, ...] = ()
    own_patterns: tuple[tuple[str, int], ...] = ()
    """Topics that the topology reads or writes by name, and patterns of those that it reads."""

    operator = ".dynamic_topics:DynamicTopics"
    has_topics = True

    def may_name(self, topic: str) -> bool:
        return self.is_name(topic) and not self.is_own(topic)

    def is_name(self, topic: object) -> bool:
        """Whether it is the name of a topic, of those that the pattern allows."""
        if not is_legal(topic) or topic in RESERVED:
            return False
        return self.regex is None or re.fullmatch(self.regex, str(topic), self.flags) is not None

    def is_own(self, topic: str) -> bool:
        """Whether the topology reads it, or writes it by its name."""
        return topic in self.own_topics or any(re.fullmatch(regex, topic, flags) for regex, flags in self.own_patterns)

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        above = graph.parent(self).forwarding_processors(graph)
        return [KafkaNode(SINK, self.name, above, extractor=self.said)]

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        """Records that name no topic are reported as refused."""
        return [
            f"writes outputs/{self.topic} offset {seen.first_offset + number}, under the topic that the extractor "
            f"names: {say.row(row, self.shape.window)}, time {say.time(row.record_time_ms)}"
            for number, row in enumerate(seen.forwarded)
        ]


def with_own_topics(graph: Graph) -> Graph:
    """``graph``, whose sinks of topics that the data names know which topics are the topology's own.

    Raises TopologyError for a topic of the topology that is called as the output of such a sink.
    """
    sinks = [node for node in graph.nodes.values() if isinstance(node, DynamicSinkNode)]
    if not sinks:
        return graph
    others = [node for node in graph.nodes.values() if not isinstance(node, DynamicSinkNode)]
    topics = [topic for node in others for topic in (node.landed_topic, node.written_topic) if topic is not None]
    topics += graph.internal_topics
    patterns = [node.topic_pattern for node in others if node.topic_pattern is not None]
    for sink in sinks:
        if sink.topic in topics or sum(sink.topic == other.topic for other in sinks) > 1:
            got, next_step = f"the topic {sink.topic!r}", "give to() another name="
            raise TopologyError(sink.name, "an output that no topic of the topology is called as", got, next_step)
    made = copy(graph)
    made.nodes = dict(graph.nodes)
    for sink in sinks:
        own = tuple(dict.fromkeys(topics)), tuple((pattern.pattern, pattern.flags) for pattern in patterns)
        made.nodes[sink.name] = replace(sink, own_topics=own[0], own_patterns=own[1])
    return made
