"""A scenario's topology, built with the public DSL.

Rule: one function an operator; one that is not here raises NotCovered, so that a scenario fails and never vanishes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jobs.topology import (
    Consumed,
    KGroupedStream,
    KStream,
    KTable,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from tests.conformance import functions
from tests.conformance.functions import NotCovered

OUTPUT = "out"
_STORES = {"in_memory": "in_memory", "rocksdb": "persistent"}

Node = dict[str, Any]


def translate(topology: dict[str, Any], records: list[dict[str, Any]]) -> Topology:
    """Build the topology; what reaches its output goes to the topic OUTPUT.

    Raises NotCovered, and what the DSL raises for a topology that it refuses.
    """
    translation = Translation(topology, records)
    nodes = topology["nodes"]
    for node in nodes:
        translation.add(node)
    output = translation.made[topology.get("output", nodes[-1]["id"])]
    output.to(OUTPUT)
    return translation.builder.build()


def topic_serde(records: list[dict[str, Any]], topic: str) -> Serde:
    """Long for a topic of integers, string for one of strings, variant for one of both."""
    kinds = {type(r["value"]) for r in records if r["topic"] == topic and r["value"] is not None}
    if kinds == {int}:
        return functions.LONG
    return functions.VARIANT if int in kinds else functions.STRING


@dataclass
class Translation:
    """What was made so far, by node id."""

    topology: dict[str, Any]
    records: list[dict[str, Any]]
    builder: StreamsBuilder = field(default_factory=StreamsBuilder)
    made: dict[str, Any] = field(default_factory=dict)
    streams: dict[str, KStream] = field(default_factory=dict)

    def add(self, node: Node) -> None:
        inputs = [self.made[name] for name in node.get("inputs", ())]
        operator = OPERATORS.get(node["op"])
        if operator is None:
            raise NotCovered(f"operator {node['op']}")
        self.made[node["id"]] = operator(self, node, *inputs)

    def materialized(self, node: Node) -> Materialized:
        store = _STORES[self.topology.get("store", "in_memory")]
        return Materialized(store=store, retention=node.get("retention"))


def _stream(translation: Translation, node: Node) -> KStream:
    """A topic read twice is one stream, as Kafka's builder merges the two sources."""
    topic = node["topic"]
    if topic not in translation.streams:
        consumed = Consumed(functions.STRING, topic_serde(translation.records, topic))
        translation.streams[topic] = translation.builder.stream(topic, consumed)
    return translation.streams[topic]


def _filter(translation: Translation, node: Node, stream: KStream) -> KStream:
    _only(stream, KStream, node)
    return stream.filter(functions.predicate(node["predicate"], stream.shape))


def _map_values(translation: Translation, node: Node, stream: KStream) -> KStream:
    _only(stream, KStream, node)
    return stream.map_values(functions.mapper(node["mapper"], stream.shape))


def _select_key(translation: Translation, node: Node, stream: KStream) -> KStream:
    return stream.select_key(functions.selector(node["key"], stream.shape))


def _group_by_key(translation: Translation, node: Node, stream: KStream) -> KGroupedStream:
    return stream.group_by_key()


def _group_by(translation: Translation, node: Node, stream: KStream) -> KGroupedStream:
    _only(stream, KStream, node)
    return stream.group_by(functions.selector(node["key"], stream.shape))


def _window(translation: Translation, node: Node, grouped: KGroupedStream) -> KGroupedStream:
    grace = node["grace"]
    match node["type"]:
        case "tumbling":
            return grouped.windowed_by(TimeWindows.of_size(node["size"], grace=grace))
        case "hopping":
            return grouped.windowed_by(TimeWindows.of_size(node["size"], grace=grace).advance_by(node["advance"]))
        case "session":
            return grouped.windowed_by(SessionWindows.with_inactivity_gap(node["gap"], grace=grace))
    raise NotCovered(f"window {node['type']}")


def _aggregate(translation: Translation, node: Node, grouped: KGroupedStream) -> KTable:
    if node.get("emit", "on_update") != "on_update":
        raise NotCovered(f"emit {node['emit']}")
    _no_store(node)
    materialized = translation.materialized(node)
    function, shape = node["function"], grouped.shape
    built_in = functions.compiled_fold(function, shape)
    if built_in is not None:
        return grouped.aggregate(built_in, materialized=materialized)
    if function == "concat":
        return grouped.aggregate(
            initializer=lambda: "",
            aggregator=lambda key, value, aggregate: aggregate + functions.text(value) + ";",
            merger=lambda key, one, other: one + other,
            returns=functions.STRING,
            materialized=materialized,
        )
    name, reducer = functions.split(function)
    if name != "reduce" or reducer not in functions.REDUCERS:
        raise NotCovered(f"aggregate function {function}")
    return _reduce(grouped, functions.REDUCERS[reducer], functions.reduced(reducer, shape.value), materialized)


def _reduce(
    grouped: KGroupedStream, reduce: Callable[[Any, Any], Any], returns: Serde, materialized: Materialized
) -> KTable:
    if returns == grouped.shape.value:
        return grouped.reduce(reduce, materialized=materialized)
    return grouped.aggregate(
        initializer=lambda: None,
        aggregator=lambda key, value, aggregate: value if aggregate is None else reduce(aggregate, value),
        merger=lambda key, one, other: other if one is None else reduce(one, other),
        returns=returns,
        materialized=materialized,
    )


def _suppress(translation: Translation, node: Node, table: KTable) -> KTable:
    if node["until"] != "window_closes":
        raise NotCovered(f"suppress until {node['until']}")
    limits = {limit: node.get(limit) for limit in ("max_records", "max_bytes")}
    return table.suppress(Suppressed.until_window_closes(**limits, name=node["id"]))


def _to_stream(translation: Translation, node: Node, table: KTable) -> KStream:
    return table.to_stream()


def _only(made: Any, kind: type, node: Node) -> None:
    if not isinstance(made, kind):
        raise NotCovered(f"{node['op']} of {type(made).__name__}")


def _no_store(node: Node) -> None:
    for choice in ("materialized", "versioned"):
        if choice in node:
            raise NotCovered(f"{choice} {node['op']}")


OPERATORS: dict[str, Callable[..., Any]] = {
    "aggregate": _aggregate,
    "filter": _filter,
    "group_by": _group_by,
    "group_by_key": _group_by_key,
    "map_values": _map_values,
    "select_key": _select_key,
    "stream": _stream,
    "suppress": _suppress,
    "to_stream": _to_stream,
    "window": _window,
}
