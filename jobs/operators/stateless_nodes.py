"""Nodes of the steps of streams that have no store: how each is configured, and what it says of itself."""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..functions.expressions import Call, Expression, Shape, Struct
from ..functions.timestamp_extractors import TimestampExtractor
from ..graph.graph import Graph, Node
from ..graph.kafka_processors import SINK, SOURCE, KafkaNode, kafka_processor
from ..graph.nodes import PartitionedSinkNode, Partitioner, SinkNode, SourceNode
from ..graph.observations import Observation
from ..graph.wording import Wording


@dataclass(frozen=True, eq=False, kw_only=True)
class FilterNode(Node):
    """``keeps``: forward what the predicate says yes to (filter), else what it does not (filter_not)."""

    predicate: Expression | Call
    keeps: bool

    operator = ".stateless:Filter"
    is_step = forwards_at_once = forwards_at_most_one = True

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        """Branches of a split are children of one processor; what it left for the next branch is none in Kafka."""
        if self.name not in graph.parts:
            return [kafka_processor(self.name, self.inputs)]
        if not graph.parts[self.name]:
            return []
        split, above = graph.parts[self.name]
        first = next(name for name, parts in graph.parts.items() if parts == (split, above))
        processors = [kafka_processor(split, (above,))] if self.name == first else []
        return [*processors, kafka_processor(self.name, (split,))]

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        passed, came = len(seen.forwarded), len(seen.rows)
        if came == 1:
            return ["passes" if passed else "does not pass"]
        return [f"{passed} of {came} pass"]


@dataclass(frozen=True, eq=False, kw_only=True)
class MapValuesNode(Node):
    """New values; keys, times and order stay."""

    mapper: Expression | Struct | Call

    operator = ".stateless:MapValues"
    is_step = forwards_at_once = forwards_one = True

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return [f"becomes {say.row(row)}" for row in seen.forwarded] or ["becomes nothing"]


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectKeyNode(Node):
    """New keys; what groups by them comes after a repartition."""

    selector: Expression | Call

    operator = ".stateless:SelectKey"
    is_step = forwards_at_once = forwards_one = True
    changes_keys = True

    @property
    def key_step(self) -> Any:
        return self.selector

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return [f"becomes {say.row(row)}" for row in seen.forwarded] or ["becomes nothing"]


@dataclass(frozen=True, eq=False, kw_only=True)
class MapNode(Node):
    """New keys and values (KStreamMap); ``selector`` and ``mapper`` both see the previous record."""

    selector: Expression | Call
    mapper: Expression | Struct | Call

    operator = ".stateless:Map"
    is_step = forwards_at_once = forwards_one = True
    changes_keys = True

    @property
    def key_step(self) -> Any:
        return self.selector

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return [f"becomes {say.row(row)}" for row in seen.forwarded] or ["becomes nothing"]


@dataclass(frozen=True, eq=False, kw_only=True)
class FlatMapNode(Node):
    """``function(key, value)`` gives any number of (key, value), or with ``keeps_key`` of values."""

    function: Callable[[Any, Any], Any]
    keeps_key: bool

    operator = ".stateless:build_flat_map"
    is_step = forwards_at_once = True
    changes_keys = True

    @property
    def key_step(self) -> Any:
        return None if self.keeps_key else self

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return [f"becomes {say.row(row)}" for row in seen.forwarded] or ["becomes nothing"]


@dataclass(frozen=True, eq=False, kw_only=True)
class PeekNode(Node):
    """``function(key, value)`` is called for every record, which continues unchanged."""

    function: Callable[[Any, Any], None]

    operator = ".stateless:Peek"
    forwards_at_once = forwards_one = forwards_unchanged = True
    keeps_records = True

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return ["goes on"]


@dataclass(frozen=True, eq=False, kw_only=True)
class TopicByRecordNode(Node):
    """Sends each record to the sink of one of ``topics``, which are below it and which Kafka does not know."""

    extractor: Expression | Call
    topics: tuple[str, ...]
    said: str
    """Of the extractor, in Kafka's description."""

    operator = ".stateless:TopicByRecord"

    def sink_name(self, topic: str) -> str:
        """No user's node is called so, since names have no colon."""
        return f"{self.name}:{topic}"

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        above = graph.parent(self).forwarding_processors(graph)
        return [KafkaNode(SINK, self.name, above, extractor=self.said)]

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return ["goes to the topic that the extractor names"]


@dataclass(frozen=True, eq=False, kw_only=True)
class RoutedSinkNode(SinkNode):
    """Writes what a ``TopicByRecordNode`` sends to it; Kafka's sink is that node."""

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        return []


@dataclass(frozen=True, eq=False, kw_only=True)
class PartitionedRoutedSinkNode(RoutedSinkNode, PartitionedSinkNode):
    """As ``RoutedSinkNode``, to partitions of its topic."""


def routed_sink(partitioner: Partitioner | None, partitions: int | None, **node: Any) -> RoutedSinkNode:
    """As ``sink_node``, of what a ``TopicByRecordNode`` sends."""
    if partitioner is None and partitions is None:
        return RoutedSinkNode(**node)
    return PartitionedRoutedSinkNode(partitioner=partitioner, partitions=partitions, **node)


@dataclass(frozen=True, eq=False, kw_only=True)
class MergeNode(Node):
    """Records of all ``inputs``."""

    operator = ".stateless:build_merge"
    forwards_at_once = True

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return ["goes on"]


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowInKeyNode(Node):
    """Windowed keys become plain ones of a windowed serde, as a repartition table has them."""

    operator = ".stateless:WindowInKey"
    forwards_at_once = forwards_one = changes_keys = True

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return ["goes on"]


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowOfKeyNode(Node):
    """Plain keys of a windowed serde become windowed keys again."""

    operator = ".stateless:WindowOfKey"
    forwards_at_once = forwards_one = changes_keys = True

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return ["goes on"]


@dataclass(frozen=True, eq=False, kw_only=True)
class OneOfSeveralNode(SourceNode):
    """One topic of a source that reads several; Kafka has one source for all of them."""

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        return []


@dataclass(frozen=True, eq=False, kw_only=True)
class SeveralTopicsNode(MergeNode):
    """A source that reads several ``topics``: where their records are merged."""

    topics: tuple[str, ...]

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        return [KafkaNode(SOURCE, self.name, topics=self.topics)]


def add_source(graph: Graph, name: str, topics: tuple[str, ...], shape: Shape, extractor: TimestampExtractor) -> Node:
    """The node that forwards the records of all ``topics``. Each of several has a node of its own behind it, whose name
    no user's node has, since these have no colon.
    """
    if len(topics) == 1:
        return graph.add(SourceNode(name=name, inputs=(), shape=shape, topic=topics[0], extractor=extractor))
    sources = [
        OneOfSeveralNode(
            name=f"{graph.check_name(name)}:{topic}", inputs=(), shape=shape, topic=topic, extractor=extractor
        )
        for topic in topics
    ]
    if name not in graph.nodes:
        graph.nodes |= {source.name: source for source in sources}
    return graph.add(
        SeveralTopicsNode(name=name, inputs=tuple(source.name for source in sources), shape=shape, topics=topics)
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class MatchedTopicNode(OneOfSeveralNode):
    """One topic that the pattern of a source matches."""

    def reading(self, topics: Collection[str] | None) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True, eq=False, kw_only=True)
class TopicPatternNode(MergeNode):
    """A source of all topics whose whole names match; ``inputs``: those that are known. ``extractor``: of times."""

    regex: str
    flags: int
    extractor: TimestampExtractor

    @property
    def topic_pattern(self) -> re.Pattern[str]:
        return re.compile(self.regex, self.flags)

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        return [KafkaNode(SOURCE, self.name, pattern=self.regex)]

    def reading(self, topics: Collection[str] | None) -> tuple[Node, ...]:
        """Sources of the topics that match, by name, and itself behind them."""
        shape, extractor = self.shape, self.extractor
        matched = [self.name]
        if topics is not None:
            matched = [topic for topic in sorted(topics) if self.topic_pattern.fullmatch(topic)]
        sources = tuple(
            MatchedTopicNode(name=f"{self.name}:{topic}", inputs=(), shape=shape, topic=topic, extractor=extractor)
            for topic in matched
        )
        return *sources, replace(self, inputs=tuple(source.name for source in sources))


def add_pattern(graph: Graph, name: str, pattern: re.Pattern[str], shape: Shape, extractor: TimestampExtractor) -> Node:
    """The node that forwards the records of all topics whose whole names match; which they are is said later, by
    ``Topology.reading``.
    """
    node = TopicPatternNode(
        name=graph.check_name(name),
        inputs=(),
        shape=shape,
        regex=pattern.pattern,
        flags=pattern.flags,
        extractor=extractor,
    )
    return graph.add(node)


@dataclass(frozen=True, eq=False, kw_only=True)
class ParentsNode(MergeNode):
    """Records of all parents of the one node below; Kafka's has several parents itself."""

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        return []

    def forwarding_processors(self, graph: Graph) -> tuple[str, ...]:
        return self.inputs
