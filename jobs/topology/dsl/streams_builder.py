"""Where a topology begins: topics read as streams, tables and global tables (StreamsBuilder)."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ....state.errors import ConfigError, TopologyError
from ....state.serdes import Serde
from ...functions.call_arguments import checked_class
from ...functions.call_names import Hinting
from ...functions.expressions import Shape
from ...functions.processor_api import KeyValues
from ...functions.state_stores import store_instead_of
from ...functions.timestamp_extractors import BuiltInExtractor, Extractor, TimestampExtractor, bind_extractor
from ...graph.graph import Graph, Node
from ...graph.name_rules import check_topic
from ...graph.nodes import GlobalTableNode, SourceNode
from ...graph.other_producers import Others, note_others
from ...graph.repartition import keep_null_keys
from ...graph.table_traits import add_table
from ...operators.processor.given_stores import add_global_store, add_store, find_awaited_stores
from ...operators.stateless_nodes import add_pattern, add_source
from ...operators.tables.table_nodes import TableNode
from ..internal_names import note_internal_topics
from ..materialized import Materialized, given_materialized
from ..streams_config import streams_config
from ..topology import Topology
from .kstream import KStream
from .ktable import GlobalKTable, KTable

SEMANTICS = ("kafka", "kip")


@checked_class
@dataclass(frozen=True)
class Consumed(Hinting):
    """Serdes of a topic's key and value, and where its records have their times from.

    ``timestamp_extractor``: a step, a callable, one of Kafka's extractors (which take such a step, too), or None: the
    records' own times. A step sees the record's fields, ``record_key``, ``record_time_ms`` (the time that it landed
    with) and ``partition_time_ms``. A callable gets (record, partition_time_ms) or (record), a ConsumerRecord.
    ``name``: of the source, as ``name=`` of the call. ``others``: of a topic that this topology writes, too (for
    example in a loop): a step that is true of the landed records that other producers wrote, or True for all that
    landed. What the topology writes is computed, so its own records must not be read as landed ones as well. None: the
    topic is not landed, and has what the topology writes.
    Milliseconds since 1970. A record whose time is negative is dropped; one without a time (null) ends the run with
    InvalidTimestamp (Kafka's RecordQueue).

        Consumed(Serde.string(), Serde.json("page string, sent_ms long"), timestamp_extractor="sent_ms")
    """

    key: Serde
    value: Serde
    timestamp_extractor: Extractor | BuiltInExtractor | type[BuiltInExtractor] | None = None
    name: str | None = None
    others: Others = None

    def __post_init__(self) -> None:
        for what, serde in (("key", self.key), ("value", self.value)):
            if not isinstance(serde, Serde):
                raise TopologyError(f"Consumed {what}", "a serde", repr(serde), "use for example Serde.string()")

    @classmethod
    def with_(cls, key: Serde, value: Serde) -> "Consumed":
        """``Consumed(key, value)``, under Kafka's name.

        Source: ``Consumed.with``.

            >>> show(builder.stream("words", Consumed.with_(STRING, STRING)))
            k: to be at 0
            k: or not at 1
        """
        return cls(key, value)

    def with_name(self, name: str) -> "Consumed":
        """The same with the ``name`` of the source. TopologyError where the call has a name, too.

        Source: ``Consumed.withName``.

            >>> show(builder.stream("words", Consumed.with_(STRING, STRING).with_name("all-words")))
            k: to be at 0
            k: or not at 1
        """
        return replace(self, name=name)

    def with_offset_reset_policy(self, policy: Any) -> "Consumed":
        """Raises TopologyError: a replay reads a landed topic from its first record on, and asks no consumer.

        Source: ``Consumed.withOffsetResetPolicy``, which is refused.

            >>> Consumed(STRING, CLICK).with_offset_reset_policy("latest")
            Traceback (most recent call last):
            ...
            TopologyError: Consumed: expected a topic that is read from its first record on, got the policy 'latest'
        """
        got, next_step = f"the policy {policy!r}", "land what is to be replayed, and leave the policy out"
        raise TopologyError("Consumed", "a topic that is read from its first record on", got, next_step)

    def with_timestamp_extractor(
        self, timestamp_extractor: Extractor | BuiltInExtractor | type[BuiltInExtractor]
    ) -> "Consumed":
        """The same, its records at the times that this extractor gives them.

        Source: ``Consumed.withTimestampExtractor``.

            >>> consumed = Consumed(STRING, CLICK).with_timestamp_extractor("seconds * 1000")
            >>> show(builder.stream("clicks", consumed).map_values("page"))
            ann: home at 5000
            bob: home at 1000
            ann: cart at 9000
            bob: pay at 2000
        """
        return replace(self, timestamp_extractor=timestamp_extractor)


@checked_class
class StreamsBuilder(Hinting):
    """Where a topology begins.

    ``semantics``: where a KIP promises something else than Kafka Streams does, "kafka" does what the live application
    does and "kip" keeps the promise (jobs/SEMANTICS.md has every such place). ConfigError for anything else.

    ``options``, of ``table`` and ``global_table``: a Materialized without its keyword, as Kafka takes it.

    ``config``: the application's settings by Kafka's names (jobs/topology/streams_config.py says what each does here),
    for example ``StreamsBuilder(config={"processing.exception.handler": LogAndContinueExceptionHandler})``. Exception
    handlers, ``default.timestamp.extractor``, ``default.dsl.store``, ``dsl.store.suppliers.class``,
    ``default.key.serde`` and ``default.value.serde`` are honoured. ConfigError for a setting that asks for other
    results.
    """

    def __init__(self, semantics: str = "kafka", *, config: Mapping[str, Any] | None = None) -> None:
        if semantics not in SEMANTICS:
            expected = " or ".join(map(repr, SEMANTICS))
            next_step = "give settings as config=" if isinstance(semantics, Mapping) else "choose one"
            raise ConfigError("StreamsBuilder semantics", expected, repr(semantics), next_step)
        self._graph = Graph(semantics)
        self._config = streams_config(config)
        self._graph.handlers, self._graph.default_store = self._config.handlers, self._config.store
        self._graph.dead_letter_topic = self._config.dead_letter_topic
        self._streams: dict[frozenset[str] | re.Pattern[str], tuple[Node, TimestampExtractor]] = {}

    def stream(
        self,
        topic: str | Collection[str] | re.Pattern[str],
        consumed: Consumed | None = None,
        *,
        name: str | None = None,
    ) -> KStream:
        """Records of ``topic``, or of several, or of all landed topics whose whole names match a pattern; they are one
        source of equal serdes. ``consumed``: serdes and timestamp extractor, None for those of the ``config``;
        ``name``: of the source. Records that cannot be decoded go to the dead letters.

        Topics that are read twice are one source, as in Kafka. TopologyError when the serdes differ, and for a topic
        that is read with others elsewhere. A topic that matches and lands later is read from its first record on.

            builder.stream(["clicks-eu", "clicks-us"], Consumed(Serde.string(), Serde.string()))
            builder.stream(re.compile("clicks-.*"), Consumed(Serde.string(), Serde.string()))

        Source: ``StreamsBuilder.stream``.

            >>> show(builder.stream(["clicks", "mobile"], Consumed(STRING, CLICK)).map_values("page"))
            ann: home at 0
            cat: home at 500
            bob: home at 1000
            ann: cart at 2000
            bob: pay at 70000
        """
        topics = (topic.pattern,) if isinstance(topic, re.Pattern) else _topics(topic)
        said = topics[0] if len(topics) == 1 else ", ".join(topics)
        subscription = topic if isinstance(topic, re.Pattern) else frozenset(topics)
        consumed = self._consumed(said, consumed)
        shape = Shape(consumed.key, consumed.value)
        name = self._graph.name(_name(name, consumed), "KSTREAM-SOURCE-")
        extractor = bind_extractor(self._extractor_of(consumed), shape, name)
        if subscription not in self._streams and isinstance(topic, re.Pattern):
            self._streams[subscription] = add_pattern(self._graph, name, topic, shape, extractor), extractor
        elif subscription not in self._streams:
            for one in topics:
                self._check_unread(one)
            self._streams[subscription] = add_source(self._graph, name, topics, shape, extractor), extractor
        node, known = self._streams[subscription]
        next_step = "use the same Consumed in both places"
        if node.shape != shape:
            raise TopologyError(f"topic {said!r}", "the serdes of the other stream()", "others", next_step)
        if not known.is_as(extractor):
            expected = "the timestamp extractor of the other stream()"
            raise TopologyError(f"topic {said!r}", expected, "another", next_step)
        if not isinstance(topic, re.Pattern):
            note_others(self._graph, topics, consumed.others, shape, name)
        return KStream(self._graph, node, name=name)

    def table(
        self,
        topic: str,
        consumed: Consumed | None = None,
        *options: Materialized,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """``topic`` as a table: a record with a null value deletes its key, one with a null key is dropped.
        ``consumed``: serdes and timestamp extractor, None for those of the ``config``; ``name``: of the table's
        processor.

        The table has a store when ``materialized`` names one or when something below needs it. TopologyError for a
        topic that is read already.

        Source: ``StreamsBuilder.table``.

            >>> show(builder.table("prices", Consumed(STRING, Serde.double()), materialized=Materialized.as_("prices")))
            tea: 2.0 at 0
            mug: 8.0 at 500
            tea: 3.0 at 60000
        """
        check_topic("table()", topic, "make a table of one topic, or of a merged stream by to_table()")
        consumed = self._consumed(topic, consumed)
        shape = Shape(consumed.key, consumed.value)
        materialized = given_materialized(materialized, f"table of {topic!r}", self._graph)
        self._check_unread(topic)
        store = materialized.name or self._graph.next_name(f"{topic}-STATE-STORE-")
        name = _name(name, consumed)
        source = self._graph.name(name, "KSTREAM-SOURCE-", "-source")
        name = self._graph.name(name, "KTABLE-SOURCE-")
        extractor = bind_extractor(self._extractor_of(consumed), shape, source)
        note_others(self._graph, (topic,), consumed.others, shape, source)
        self._graph.add(SourceNode(name=source, inputs=(), shape=shape, topic=topic, extractor=extractor))
        node = TableNode(name=name, inputs=(source,), shape=shape, is_table=True)
        spec = materialized.spec(store)
        add_table(
            self._graph,
            node,
            store=None if materialized.name is None else spec,
            on_demand=spec,
            is_versioned=materialized.is_versioned,
        )
        return KTable(self._graph, node)

    def global_table(
        self,
        topic: str,
        consumed: Consumed | None = None,
        *options: Materialized,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> GlobalKTable:
        """``topic`` as a table that every task holds whole. ``consumed``: its serdes, None for those of the ``config``;
        ``materialized``: name of its store; ``name``: of its processor. TopologyError for a versioned store, a
        timestamp extractor, and a topic that is read already.

        Source: ``StreamsBuilder.globalTable`` (KIP-99).

            >>> prices = builder.global_table("prices", Consumed(STRING, Serde.double()))
            >>> show(orders.join(prices, pay="left.amount * right", selector="item"))
            ann: {'pay': 10.0} at 1000
            bob: {'pay': 8.0} at 2000
            ann: {'pay': 6.0} at 61000
        """
        consumed = self._consumed(topic, consumed)
        shape = self._global_topic("global_table()", topic, consumed)
        materialized = given_materialized(materialized, f"global table of {topic!r}", self._graph)
        if materialized.is_versioned:
            next_step = "use table(), or a store without versions"
            raise TopologyError(f"global table {topic!r}", "a plain store", "a versioned one", next_step)
        store = materialized.name or self._graph.next_name(f"{topic}-STATE-STORE-")
        name = _name(name, consumed)
        source = self._graph.name(name, "KSTREAM-SOURCE-", "-source")
        name = self._graph.name(name, "KTABLE-SOURCE-")
        node = GlobalTableNode(name=name, inputs=(), shape=shape, is_table=True, topic=topic, store=store)
        self._graph.parts[name] = (source,)
        add_table(self._graph, node, store=materialized.spec(store), is_versioned=False)
        return GlobalKTable(self._graph, node)

    def add_global_store(
        self,
        store: KeyValues,
        topic: str,
        consumed: Consumed,
        supplier: Callable[[], Any],
        *,
        name: str | None = None,
    ) -> "StreamsBuilder":
        """A store that a processor fills from ``topic``, and that every task holds whole. Processors that name it in
        ``process(stores=[...])`` read it, and find the records before theirs in the task's order.

        ``consumed``: serdes of the topic. ``supplier``: makes the Processor, which gets every record of the topic, null
        keys too, and puts into the store; it forwards nothing, and has no schedules. ``store``: a key-value store,
        plain or timestamped. TopologyError for another store, a name that is taken, a topic that is read already, and a
        timestamp extractor.

        Source: ``StreamsBuilder.addGlobalStore``.

            >>> class Dearest(Processor):
            ...     def process(self, record):
            ...         dearest = self.context.store("dearest")
            ...         dearest.put("price", max(dearest.get("price") or 0, record.value))
            >>> class WithDearest(Processor):
            ...     def process(self, record):
            ...         self.context.forward(record.with_value(self.context.store("dearest").get("price")))
            >>> dearest = KeyValues("dearest", STRING, Serde.double())
            >>> _ = builder.add_global_store(dearest, "prices", Consumed(STRING, Serde.double()), Dearest)
            >>> show(clicks.process(WithDearest, ["dearest"], returns=Serde.double()))
            ann: None at 0
            bob: 8.0 at 1000
            ann: 8.0 at 2000
            bob: 8.0 at 70000
        """
        shape = self._global_topic("add_global_store()", topic, consumed)
        name = _name(name, consumed)
        names = self._graph.name(name, "KSTREAM-SOURCE-", "-source"), self._graph.name(name, "KTABLE-SOURCE-")
        add_global_store(self._graph, store, supplier, topic=topic, shape=shape, names=names)
        return self

    def add_state_store(self, store: KeyValues) -> "StreamsBuilder":
        """A store for the processors that name it in ``process(stores=[...])``, whichever they are; the first of them
        keeps its rows. One that nobody names is nowhere. TopologyError for a name that a store has.

        ``builder.add_state_store(KeyValues("seen", Serde.string(), Serde.long()))``, then
        ``stream.process(First, ["seen"])`` and ``other.process(Second, ["seen"])``: one store, one sub-topology.

        Source: ``StreamsBuilder.addStateStore``.

            >>> class Totals(Processor):
            ...     def process(self, record):
            ...         store = self.context.store("totals")
            ...         store.put(record.key, (store.get(record.key) or 0) + record.value["amount"])
            ...         self.context.forward(record.with_value(store.get(record.key)))
            >>> _ = builder.add_state_store(KeyValues("totals", STRING, Serde.long()))
            >>> show(orders.process(Totals, ["totals"], returns=Serde.long()))
            ann: 5 at 1000
            bob: 1 at 2000
            ann: 7 at 61000
        """
        if not isinstance(store, KeyValues):
            raise TopologyError("add_state_store()", "a KeyValues", repr(store), store_instead_of(store))
        add_store(self._graph, store)
        return self

    def build(self) -> Topology:
        """The topology of all calls so far; of no calls one that has nothing to do. TopologyError for what cannot run,
        for a processor that names a store which nobody has, and for an output that is called as an internal topic.

        Source: ``StreamsBuilder.build``.

            >>> words.filter("value <> ''").to("lines")
            >>> topology = builder.build()
            >>> topology.source_topics(), [sink.topic for sink in topology.sinks()]
            (['words'], ['lines'])
        """
        find_awaited_stores(self._graph)
        keep_null_keys(self._graph)
        note_internal_topics(self._graph, self._config.application_id)
        return Topology(self._graph)

    def _global_topic(self, call: str, topic: str, consumed: Consumed) -> Shape:
        """Of the records of a topic that every task has all of."""
        check_topic(call, topic, "give each topic a call of its own")
        consumed = self._consumed(topic, consumed)
        shape = Shape(consumed.key, consumed.value)
        if consumed.timestamp_extractor is not None:
            got, next_step = "an extractor, which Kafka Streams never asks there", "use table(), or leave it out"
            raise TopologyError(f"global topic {topic!r}", "records at their own times", got, next_step)
        self._check_unread(topic)
        return shape

    def _consumed(self, topic: str, consumed: Consumed | None) -> Consumed:
        """Of records of the topic. TopologyError for anything but a Consumed, and for none without default serdes."""
        key, value = self._config.key, self._config.value
        if consumed is None and key is not None and value is not None:
            return Consumed(key, value)
        if not isinstance(consumed, Consumed):
            next_step = "use for example Consumed(Serde.string(), Serde.long())"
            raise TopologyError(
                f"topic {topic!r}", "a Consumed, the serdes of key and value", repr(consumed), next_step
            )
        return consumed

    def _extractor_of(self, consumed: Consumed) -> Any:
        own = consumed.timestamp_extractor
        return self._config.extractor if own is None else own

    def _check_unread(self, topic: str) -> None:
        for node in self._graph.nodes.values():
            if node.landed_topic == topic:
                next_step = "read it once and use what that gives in both places"
                raise TopologyError(f"topic {topic!r}", "one source", "two", next_step)


def _name(name: str | None, consumed: Consumed) -> str | None:
    """Of a source. Raises TopologyError where both say one."""
    if name is not None and consumed.name is not None:
        got = f"name={name!r} beside a Consumed of the name {consumed.name!r}"
        raise TopologyError("Consumed", "one name", got, "leave one of them out")
    return consumed.name if name is None else name


def _topics(given: Any) -> tuple[str, ...]:
    """Raises TopologyError for anything but the name of a topic or a collection of such names."""
    place = "stream() topic"
    if isinstance(given, str) or not isinstance(given, Collection):
        return (check_topic("stream()", given, "give the name of a topic, or a list of names"),)
    if not given:
        raise TopologyError(place, "the names of one topic or more", "none", "name a topic")
    return tuple(dict.fromkeys(check_topic("stream()", one, "give names of topics") for one in given))
