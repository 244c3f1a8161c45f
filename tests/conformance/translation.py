"""A scenario's topology, built with the public DSL.

Rule: one function an operator; what is not here raises NotCovered, so that a scenario fails and never vanishes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kstreams_replay.jobs.functions.exception_handlers import PROCESSING
from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.topology import (
    BufferConfig,
    Consumed,
    FailOnInvalidTimestamp,
    JoinWindows,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    LogAndSkipOnInvalidTimestamp,
    Materialized,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    UsePartitionTimeOnInvalidTimestamp,
)
from tests.conformance import aggregates, functions, processors
from tests.conformance.functions import NotCovered
from tests.conformance.scenarios import Record

OUTPUT = "out"
WALL_CLOCK = "wall_clock"
"""No topic: the wall clock continues."""
_STORES = {"in_memory": "in_memory", "rocksdb": "persistent"}
_INVALID = {
    "fail": FailOnInvalidTimestamp,
    "skip": LogAndSkipOnInvalidTimestamp,
    "partition_time": UsePartitionTimeOnInvalidTimestamp,
}
_EMITS = {"on_update": "on_window_update", "on_close": "on_window_close"}

Node = dict[str, Any]


def translate(topology: dict[str, Any], serdes: Mapping[str, Serde]) -> Topology:
    """Build the topology; what reaches its output goes to the topic OUTPUT. ``serdes``: of the topics' values. A
    topology may name its ``semantics``, which the scenario language does not know.

    Raises NotCovered, and what the DSL raises for a topology that it refuses.
    """
    config = {PROCESSING: "LogAndContinueProcessingExceptionHandler"} if topology.get("handler") == "continue" else {}
    builder = StreamsBuilder(topology.get("semantics", "kafka"), config=config)
    translation = Translation(topology, serdes, builder)
    nodes = topology["nodes"]
    for node in nodes:
        translation.add(node)
    output = translation.made[topology.get("output", nodes[-1]["id"])]
    output.to(OUTPUT)
    return translation.builder.build()


def topic_serdes(records: Sequence[Record]) -> dict[str, Serde]:
    """Of every topic: long for integers, string for strings, variant for both."""
    kinds: dict[str, set[type]] = {}
    for record in records:
        if record["topic"] == WALL_CLOCK:
            continue
        kinds.setdefault(record["topic"], set()).add(type(record["value"]))
    return {topic: _serde(found - {type(None)}) for topic, found in kinds.items()}


def _serde(kinds: set[type]) -> Serde:
    if kinds == {int}:
        return functions.LONG
    return functions.VARIANT if int in kinds else functions.STRING


@dataclass
class Translation:
    """What was made so far, by node id. A topic without records holds strings."""

    topology: dict[str, Any]
    serdes: Mapping[str, Serde]
    builder: StreamsBuilder = field(default_factory=StreamsBuilder)
    made: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Serde] = field(default_factory=dict)
    """By topic that the topology itself writes."""

    def add(self, node: Node) -> None:
        inputs = [self.made[name] for name in node.get("inputs", ())]
        operator = OPERATORS.get(node["op"])
        if operator is None:
            raise NotCovered(f"operator {node['op']}")
        self.made[node["id"]] = operator(self, node, *inputs)

    def consumed(self, node: Node) -> Consumed:
        serdes = {**self.serdes, **self.written}
        values = {serdes.get(topic, functions.STRING) for topic in node["topic"].split("+")}
        consumed = Consumed(functions.STRING, values.pop() if len(values) == 1 else functions.VARIANT)
        written = {other["topic"] for other in self.topology["nodes"] if other["op"] == "to"}
        if written & self.serdes.keys() & set(node["topic"].split("+")):
            consumed = replace(consumed, others=True)
        if "extractor" not in node:
            return consumed
        step = functions.extractor(node["extractor"], Shape(consumed.key, consumed.value))
        return consumed.with_timestamp_extractor(_INVALID[node["invalid"]](step) if "invalid" in node else step)

    @property
    def store(self) -> str:
        return _STORES[self.topology.get("store", "in_memory")]

    def materialized(self, node: Node) -> Materialized:
        """The node's store: versioned or plain by its own name, else of the scenario's kind and a generated name."""
        if "versioned" in node:
            history = node["versioned"]
            segment = history.get("segment_interval")
            return Materialized.versioned(node["id"], history["history_retention"], segment_interval=segment)
        if node.get("materialized"):
            return Materialized.as_(node["id"], store=self.store, retention=node.get("retention"))
        return Materialized(store=self.store, retention=node.get("retention"))


# --- sources and steps ---------------------------------------------------------------------------------------


def _stream(translation: Translation, node: Node) -> KStream:
    return translation.builder.stream(node["topic"].split("+"), translation.consumed(node))


def _to_one_of(translation: Translation, node: Node, stream: KStream) -> None:
    """The topic whose number the length of the value says."""
    topics = node["topics"].split("+")
    for topic in topics:
        translation.written[topic] = stream.shape.value

    def chosen(value: Any) -> str:
        return topics[len(processors.text(value)) % len(topics)]

    stream.to(chosen, topics=topics)


def _to(translation: Translation, node: Node, written: KStream | KTable) -> KStream | KTable:
    """A topic is read with the serde that it was written with; with variants if several nodes write it."""
    stream = written.to_stream() if isinstance(written, KTable) else written
    if sum(other["op"] == "to" and other["topic"] == node["topic"] for other in translation.topology["nodes"]) > 1:
        stream = _as_variant(stream)
    stream.to(node["topic"])
    translation.written[node["topic"]] = stream.shape.value
    return written


def _table(translation: Translation, node: Node) -> KTable:
    consumed, materialized = translation.consumed(node), translation.materialized(node)
    return translation.builder.table(node["topic"], consumed, materialized=materialized)


def _global_table(translation: Translation, node: Node) -> Any:
    consumed, materialized = translation.consumed(node), translation.materialized(node)
    return translation.builder.global_table(node["topic"], consumed, materialized=materialized)


def _filter(translation: Translation, node: Node, read: KStream | KTable) -> KStream | KTable:
    return read.filter(functions.predicate(node["predicate"], read.shape), **_store(translation, node, read))


def _map_values(translation: Translation, node: Node, read: KStream | KTable) -> KStream | KTable:
    mapper = functions.mapper(node["mapper"], read.shape)
    returns = {"returns": read.shape.value} if callable(mapper) else {}
    return read.map_values(mapper, **returns, **_store(translation, node, read))


def _transform_values(translation: Translation, node: Node, table: KTable) -> KTable:
    supplier = partial(functions.TextTransformer, node["transformer"])
    return table.transform_values(supplier, returns=functions.STRING, **_store(translation, node, table))


def _store(translation: Translation, node: Node, read: KStream | KTable) -> dict[str, Materialized]:
    """Of a table, the store that the node asks for; without one Kafka's rules decide."""
    asks = "versioned" in node or "materialized" in node
    return {"materialized": translation.materialized(node)} if isinstance(read, KTable) and asks else {}


def _select_key(translation: Translation, node: Node, stream: KStream) -> KStream:
    return stream.select_key(functions.selector(node["key"], stream.shape))


def _merge(translation: Translation, node: Node, one: KStream, other: KStream) -> KStream:
    """Streams of two types of value are merged as variants."""
    if one.shape.value != other.shape.value:
        one, other = _as_variant(one), _as_variant(other)
    return one.merge(other)


def _as_variant(stream: KStream) -> KStream:
    serde = stream.shape.value
    return stream if serde == functions.VARIANT else stream.map_values(functions.variant_of(serde))


def _to_stream(translation: Translation, node: Node, table: KTable) -> KStream:
    return table.to_stream()


def _to_table(translation: Translation, node: Node, stream: KStream) -> KTable:
    return stream.to_table(materialized=translation.materialized(node))


# --- groups, windows, aggregates -----------------------------------------------------------------------------


def _group_by_key(translation: Translation, node: Node, stream: KStream) -> KGroupedStream:
    return stream.group_by_key()


def _group_by(translation: Translation, node: Node, read: KStream | KTable) -> KGroupedStream | KGroupedTable:
    selector = functions.selector(node["key"], read.shape)
    if isinstance(read, KStream):
        return read.group_by(selector)
    value = node.get("value", "identity")
    return read.group_by(selector, None if value == "identity" else functions.mapper(value, read.shape))


def _window(translation: Translation, node: Node, grouped: KGroupedStream) -> KGroupedStream:
    grace = node["grace"]
    match node["type"]:
        case "tumbling":
            return grouped.windowed_by(TimeWindows.of_size(node["size"], grace=grace))
        case "hopping":
            return grouped.windowed_by(TimeWindows.of_size(node["size"], grace=grace).advance_by(node["advance"]))
        case "sliding":
            return grouped.windowed_by(SlidingWindows.of_time_difference(node["difference"], grace=grace))
        case "session":
            return grouped.windowed_by(SessionWindows.with_inactivity_gap(node["gap"], grace=grace))
    raise NotCovered(f"window {node['type']}")


def _aggregate(translation: Translation, node: Node, grouped: KGroupedStream | KGroupedTable) -> KTable:
    materialized = translation.materialized(node)
    if isinstance(grouped, KGroupedTable):
        return aggregates.of_table(node["function"], grouped, materialized)
    emit = node.get("emit", "on_update")
    if emit not in _EMITS:
        raise NotCovered(f"emit {emit}")
    if emit != "on_update":
        grouped = grouped.emit_strategy(_EMITS[emit])
    return aggregates.of_stream(node["function"], grouped, materialized)


def _suppress(translation: Translation, node: Node, table: KTable) -> KTable:
    match node["until"]:
        case "window_closes":
            return table.suppress(Suppressed.until_window_closes(_buffer(node), name=node["id"]))
        case "time_limit":
            return table.suppress(Suppressed.until_time_limit(node["wait"], _buffer(node), name=node["id"]))
    raise NotCovered(f"suppress until {node['until']}")


def _buffer(node: Node) -> BufferConfig:
    """Unbounded without a limit; results that are final never leave early."""
    buffer = BufferConfig.unbounded()
    if "max_records" in node:
        buffer = buffer.with_max_records(node["max_records"])
    if "max_bytes" in node:
        buffer = buffer.with_max_bytes(node["max_bytes"])
    is_strict = node["until"] == "window_closes" or node.get("full") == "shut_down"
    if is_strict or not ("max_records" in node or "max_bytes" in node):
        return buffer.shut_down_when_full()
    return buffer.emit_early_when_full()


# --- joins ---------------------------------------------------------------------------------------------------


def _stream_table_join(translation: Translation, node: Node, stream: KStream, table: KTable) -> KStream:
    join = _kind(node, inner=stream.join, left=stream.left_join)
    return join(table, _joiner(node, stream, table), grace=node.get("grace"), **_returns(node))


def _table_table_join(translation: Translation, node: Node, left: KTable, right: KTable) -> KTable:
    join = _kind(node, inner=left.join, left=left.left_join, outer=left.outer_join)
    return join(right, _joiner(node, left, right), **_returns(node), **_store(translation, node, left))


def _fk_join(translation: Translation, node: Node, left: KTable, right: KTable) -> KTable:
    join = _kind(node, inner=left.join, left=left.left_join)
    foreign_key = functions.selector(node["foreign_key"], left.shape)
    joiner, store = _joiner(node, left, right), _store(translation, node, left)
    return join(right, joiner, foreign_key=foreign_key, **_returns(node), **store)


def _stream_stream_join(translation: Translation, node: Node, left: KStream, right: KStream) -> KStream:
    join = _kind(node, inner=left.join, left=left.left_join, outer=left.outer_join)
    before, after = node["before"], node["after"]
    most, grace = max(before, after), node["grace"]
    windows = JoinWindows.of_time_difference_and_grace(most, grace)
    if node.get("at_once"):
        windows = JoinWindows.of(most).grace(grace)
    windows = windows.before(before).after(after)
    joiner, store = _joiner(node, left, right), Materialized(store=translation.store)
    return join(right, joiner, windows, materialized=store, **_returns(node))


def _kind(node: Node, **kinds: Callable[..., Any]) -> Callable[..., Any]:
    if node["type"] not in kinds:
        raise NotCovered(f"{node['op']} {node['type']}")
    return kinds[node["type"]]


def _joiner(node: Node, left: KStream | KTable, right: KStream | KTable) -> Any:
    return functions.joiner(node.get("joiner", "pair"), left.shape.value, right.shape.value)


def _returns(node: Node) -> dict[str, Serde]:
    """Of a joiner that is a callable."""
    return {"returns": functions.STRING} if node.get("joiner", "").startswith(("pair_but:", "keyed")) else {}


# --- deduplicate ---------------------------------------------------------------------------------------------


def _deduplicate_by_key(translation: Translation, node: Node, stream: KStream) -> KStream:
    return stream.deduplicate_by_key(node["interval"])


def _deduplicate_by_key_value(translation: Translation, node: Node, stream: KStream) -> KStream:
    return stream.deduplicate_by_key_value(functions.selector(node["id_selector"], stream.shape), node["interval"])


def _deduplicate(translation: Translation, node: Node, stream: KStream) -> KStream:
    return stream.deduplicate(functions.selector(node["id_selector"], stream.shape), node["interval"])


OPERATORS: dict[str, Callable[..., Any]] = {
    "aggregate": _aggregate,
    "deduplicate": _deduplicate,
    "deduplicate_by_key": _deduplicate_by_key,
    "deduplicate_by_key_value": _deduplicate_by_key_value,
    "filter": _filter,
    "fk_join": _fk_join,
    "global_store": processors.global_store,
    "global_table": _global_table,
    "group_by": _group_by,
    "group_by_key": _group_by_key,
    "map_values": _map_values,
    "merge": _merge,
    "process": processors.process,
    "process_values": processors.process,
    "select_key": _select_key,
    "state_store": processors.state_store,
    "stream": _stream,
    "stream_stream_join": _stream_stream_join,
    "stream_table_join": _stream_table_join,
    "suppress": _suppress,
    "table": _table,
    "table_table_join": _table_table_join,
    "to": _to,
    "to_one_of": _to_one_of,
    "to_stream": _to_stream,
    "to_table": _to_table,
    "transform_values": _transform_values,
    "window": _window,
}
