"""Kafka's objects with names, in every call that takes one: the name is the processor's, the store's, or the topic's.

Type checkers read this file too (test_typed_uses.py) and accept every call in it.
"""

# mypy: disable-error-code="no-untyped-def"
import re
from collections.abc import Callable

import pytest

from kstreams_replay import (
    Branched,
    CogroupedKStream,
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    KeyValues,
    KGroupedStream,
    KGroupedTable,
    KStream,
    Materialized,
    Named,
    Processor,
    Produced,
    Repartitioned,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindows,
    Topology,
)
from kstreams_replay.state.errors import TopologyError

TEXT = Serde.string()
WORDS = Consumed(TEXT, TEXT)
NEAR = JoinWindows(5, 5, 0)
NAME = "by-user"
NAMED, STORED = Named.as_(NAME), Materialized.as_(NAME)


class Quiet(Processor):
    def process(self, record):
        pass


def same(key, value):
    return [(key, value)]


def seen(key, value) -> None:
    """Nothing becomes of it."""


def same_value(value):
    return [value]


def chosen(key, value):
    return value


def joined(left, right):
    return left


def added(key, value, total):
    return total


def one(key, left, right):
    return left


class TransformerByHint:
    def init(self, context):
        pass

    def transform(self, key, value):
        return value


HOURS, NEARBY, VISITS = (
    TimeWindows.of_size(5),
    SlidingWindows.of_time_difference(5),
    SessionWindows.with_inactivity_gap(5),
)


class Parts:
    """A stream ``s``, another ``o``, tables ``t`` and ``u`` and a global table ``g`` of text."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder()
        self.s, self.o = (self.builder.stream(topic, WORDS) for topic in ("in", "other"))
        self.t, self.u = (self.builder.table(topic, WORDS) for topic in ("left", "right"))
        self.g = self.builder.global_table("everything", WORDS)

    @property
    def rekeyed(self) -> KStream:
        return self.s.select_key("value")

    @property
    def by_value(self) -> KGroupedTable:
        return self.t.group_by(lambda key, value: (value, key), returns_key=TEXT, returns=TEXT)

    @property
    def cogrouped(self) -> CogroupedKStream:
        return self.s.group_by_key().cogroup(added)


def windowed(b: Parts, windows: TimeWindows | SlidingWindows | SessionWindows) -> KGroupedStream:
    return b.s.group_by_key().windowed_by(windows)


CALLS: dict[str, Callable[[Parts], object]] = {
    "KStream.filter": lambda b: b.s.filter("TRUE", NAMED),
    "KStream.filterNot": lambda b: b.s.filter_not("TRUE", NAMED),
    "KStream.selectKey": lambda b: b.s.select_key("value", NAMED),
    "KStream.map": lambda b: b.s.map("value", "value", NAMED),
    "KStream.map, a callable": lambda b: b.s.map(
        lambda key, value: (key, value), NAMED, returns_key=TEXT, returns=TEXT
    ),
    "KStream.mapValues": lambda b: b.s.map_values("value", NAMED),
    "KStream.mapValues, fields": lambda b: b.s.map_values(NAMED, word="value"),
    "KStream.flatMap": lambda b: b.s.flat_map(same, NAMED, returns_key=TEXT, returns=TEXT),
    "KStream.flatMapValues": lambda b: b.s.flat_map_values(same_value, NAMED, returns=TEXT),
    "KStream.foreach": lambda b: b.s.foreach(seen, NAMED),
    "KStream.peek": lambda b: b.s.peek(seen, NAMED),
    "KStream.merge": lambda b: b.s.merge(b.o, NAMED),
    "KStream.split": lambda b: b.s.split(Named.as_("by-")).branch("TRUE", Branched.as_("user")).default_branch(),
    "BranchedKStream.branch": lambda b: b.s.split().branch("TRUE", Branched.as_(NAME)).default_branch(),
    "BranchedKStream.defaultBranch": lambda b: b.s.split().branch("TRUE").default_branch(Branched.as_(NAME)),
    "KStream.repartition": lambda b: b.s.repartition(Repartitioned.as_(NAME)),
    "KStream.to": lambda b: b.s.to("out", Produced.as_(NAME)),
    "KStream.to, chosen": lambda b: b.s.to("value", Produced.as_(NAME), topics=["out"]),
    "KStream.toTable": lambda b: b.s.to_table(NAMED),
    "KStream.groupBy": lambda b: b.s.group_by("value", Grouped.as_(NAME)).count(),
    "KStream.groupByKey": lambda b: b.rekeyed.group_by_key(Grouped.as_(NAME)).count(),
    "KStream.process": lambda b: b.s.process(Quiet, NAMED),
    "KStream.processValues": lambda b: b.s.process_values(Quiet, NAMED),
    "KStream.join, stream": lambda b: b.s.join(b.o, "left", NEAR, StreamJoined().with_name(NAME)),
    "KStream.join, stores": lambda b: b.s.join(b.o, "left", NEAR, StreamJoined.as_(NAME)),
    "KStream.leftJoin, stream": lambda b: b.s.left_join(b.o, "left", NEAR, StreamJoined().with_name(NAME)),
    "KStream.outerJoin, stream": lambda b: b.s.outer_join(
        b.o, joined, NEAR, StreamJoined().with_name(NAME), returns=TEXT
    ),
    "KStream.join, table": lambda b: b.s.join(b.t, "left", Joined.as_(NAME)),
    "KStream.leftJoin, table": lambda b: b.s.left_join(b.t, "left", Joined.as_(NAME)),
    "KStream.join, rekeyed": lambda b: b.rekeyed.join(b.t, "left", Joined.as_(NAME)),
    "KStream.join, global": lambda b: b.s.join(b.g, "left", NAMED, selector="value"),
    "KStream.leftJoin, global": lambda b: b.s.left_join(b.g, "left", NAMED, selector="value"),
    "KTable.filter": lambda b: b.t.filter("TRUE", NAMED),
    "KTable.filterNot": lambda b: b.t.filter_not("TRUE", NAMED),
    "KTable.mapValues": lambda b: b.t.map_values("value", NAMED),
    "KTable.transformValues": lambda b: b.t.transform_values(TransformerByHint, NAMED, returns=TEXT),
    "KTable.toStream": lambda b: b.t.to_stream(NAMED),
    "KTable.toStream, selector": lambda b: b.t.to_stream("value", NAMED),
    "KTable.suppress": lambda b: b.t.suppress(Suppressed.until_time_limit(5, name=NAME)),
    "KTable.groupBy": lambda b: b.t.group_by(lambda key, value: (value, key), Grouped.with_(TEXT, TEXT, NAME)).count(),
    "KTable.join": lambda b: b.t.join(b.u, "left", NAMED, STORED),
    "KTable.leftJoin": lambda b: b.t.left_join(b.u, "left", NAMED),
    "KTable.outerJoin": lambda b: b.t.outer_join(b.u, joined, NAMED, returns=TEXT),
    "KTable.join, foreign key": lambda b: b.t.join(b.u, "left", TableJoined.as_(NAME), foreign_key="value"),
    "KTable.leftJoin, foreign key": lambda b: b.t.left_join(b.u, "left", TableJoined.as_(NAME), foreign_key="value"),
    "KGroupedStream.count": lambda b: b.s.group_by_key().count(NAMED),
    "KGroupedStream.reduce": lambda b: b.s.group_by_key().reduce(joined, NAMED),
    "KGroupedStream.aggregate": lambda b: b.s.group_by_key().aggregate(str, added, NAMED, returns=TEXT),
    "TimeWindowedKStream.count": lambda b: windowed(b, HOURS).count(NAMED),
    "TimeWindowedKStream.reduce": lambda b: windowed(b, HOURS).reduce(joined, NAMED),
    "TimeWindowedKStream.aggregate": lambda b: windowed(b, HOURS).aggregate(str, added, NAMED, returns=TEXT),
    "TimeWindowedKStream.count, sliding": lambda b: windowed(b, NEARBY).count(NAMED),
    "SessionWindowedKStream.count": lambda b: windowed(b, VISITS).count(NAMED),
    "SessionWindowedKStream.reduce": lambda b: windowed(b, VISITS).reduce(joined, NAMED),
    "SessionWindowedKStream.aggregate": lambda b: windowed(b, VISITS).aggregate(str, added, one, NAMED, returns=TEXT),
    "KGroupedTable.count": lambda b: b.by_value.count(NAMED),
    "KGroupedTable.reduce": lambda b: b.by_value.reduce(joined, joined, NAMED),
    "KGroupedTable.aggregate": lambda b: b.by_value.aggregate(str, added, added, NAMED, returns=TEXT),
    "CogroupedKStream.aggregate": lambda b: b.cogrouped.aggregate(str, NAMED, returns=TEXT),
    "TimeWindowedCogroupedKStream.aggregate": lambda b: b.cogrouped.windowed_by(HOURS).aggregate(
        str, NAMED, returns=TEXT
    ),
    "SessionWindowedCogroupedKStream.aggregate": lambda b: b.cogrouped.windowed_by(VISITS).aggregate(
        str, one, NAMED, returns=TEXT
    ),
    "StreamsBuilder.stream": lambda b: b.builder.stream("more", WORDS.with_name(NAME)),
    "StreamsBuilder.table": lambda b: b.builder.table("more", WORDS.with_name(NAME)),
    "StreamsBuilder.globalTable": lambda b: b.builder.global_table("more", WORDS.with_name(NAME)),
    "StreamsBuilder.addGlobalStore": lambda b: b.builder.add_global_store(
        KeyValues("kept", TEXT, TEXT), "more", WORDS.with_name(NAME), Quiet
    ),
}


STORES: dict[str, Callable[[Parts], object]] = {
    "KStream.toTable": lambda b: b.s.to_table(STORED),
    "KTable.filter": lambda b: b.t.filter("TRUE", STORED),
    "KTable.filterNot": lambda b: b.t.filter_not("TRUE", STORED),
    "KTable.mapValues": lambda b: b.t.map_values("value", STORED),
    "KTable.transformValues": lambda b: b.t.transform_values(TransformerByHint, STORED, returns=TEXT),
    "KTable.join": lambda b: b.t.join(b.u, "left", STORED),
    "KTable.leftJoin": lambda b: b.t.left_join(b.u, "left", STORED),
    "KTable.outerJoin": lambda b: b.t.outer_join(b.u, joined, STORED, returns=TEXT),
    "KTable.join, foreign key": lambda b: b.t.join(b.u, "left", TableJoined.as_("x"), STORED, foreign_key="value"),
    "KGroupedStream.count": lambda b: b.s.group_by_key().count(NAMED, STORED),
    "KGroupedStream.reduce": lambda b: b.s.group_by_key().reduce(joined, STORED),
    "KGroupedStream.aggregate": lambda b: b.s.group_by_key().aggregate(str, added, STORED, returns=TEXT),
    "KGroupedTable.count": lambda b: b.by_value.count(STORED),
    "KGroupedTable.reduce": lambda b: b.by_value.reduce(joined, joined, STORED),
    "KGroupedTable.aggregate": lambda b: b.by_value.aggregate(str, added, added, STORED, returns=TEXT),
    "TimeWindowedKStream.count": lambda b: windowed(b, HOURS).count(STORED),
    "TimeWindowedKStream.reduce": lambda b: windowed(b, HOURS).reduce(joined, STORED),
    "TimeWindowedKStream.aggregate": lambda b: windowed(b, HOURS).aggregate(str, added, STORED, returns=TEXT),
    "SessionWindowedKStream.count": lambda b: windowed(b, VISITS).count(STORED),
    "SessionWindowedKStream.reduce": lambda b: windowed(b, VISITS).reduce(joined, STORED),
    "SessionWindowedKStream.aggregate": lambda b: windowed(b, VISITS).aggregate(str, added, one, STORED, returns=TEXT),
    "CogroupedKStream.aggregate": lambda b: b.cogrouped.aggregate(str, STORED, returns=TEXT),
    "TimeWindowedCogroupedKStream.aggregate": lambda b: b.cogrouped.windowed_by(HOURS).aggregate(
        str, STORED, returns=TEXT
    ),
    "SessionWindowedCogroupedKStream.aggregate": lambda b: b.cogrouped.windowed_by(VISITS).aggregate(
        str, one, STORED, returns=TEXT
    ),
    "StreamsBuilder.table": lambda b: b.builder.table("more", WORDS, STORED),
    "StreamsBuilder.globalTable": lambda b: b.builder.global_table("more", WORDS, STORED),
}
"""Every call of Kafka that takes a Materialized, of which Kafka's order has it last."""


@pytest.mark.parametrize("call", STORES)
def test_a_call_takes_a_materialized_without_its_keyword(call):
    parts = Parts()
    STORES[call](parts)

    names = re.findall(r"[\w.-]+", parts.builder.build().describe())
    assert [name for name in names if NAME in name], names


@pytest.mark.parametrize("call", CALLS)
def test_the_name_that_a_call_was_given_is_in_kafkas_description(call):
    parts = Parts()
    CALLS[call](parts)

    names = re.findall(r"[\w.-]+", parts.builder.build().describe())
    assert [name for name in names if NAME in name], names


TAKE_NAMES = {
    f"{cls}.{call}"
    for cls, calls in {
        "KStream": "filter filterNot flatMap flatMapValues foreach groupBy groupByKey join leftJoin map mapValues "
        "merge outerJoin peek process processValues repartition selectKey split to toTable",
        "KTable": "filter filterNot groupBy join leftJoin mapValues outerJoin suppress toStream transformValues",
        "KGroupedStream": "aggregate count reduce",
        "KGroupedTable": "aggregate count reduce",
        "TimeWindowedKStream": "aggregate count reduce",
        "SessionWindowedKStream": "aggregate count reduce",
        "CogroupedKStream": "aggregate",
        "TimeWindowedCogroupedKStream": "aggregate",
        "SessionWindowedCogroupedKStream": "aggregate",
        "BranchedKStream": "branch defaultBranch",
        "StreamsBuilder": "addGlobalStore globalTable stream table",
    }.items()
    for call in calls.split()
}


def test_every_call_of_kafka_that_takes_a_name_is_in_the_table():
    """Those with a Named, Grouped, Joined and so on among their arguments, or in Consumed and Suppressed."""
    tried = {call.partition(",")[0] for call in CALLS}

    assert sorted(TAKE_NAMES - tried) == []


TAKE_STORES = {
    f"{cls}.{call}"
    for cls, calls in {
        "KStream": "toTable",
        "KTable": "filter filterNot join leftJoin mapValues outerJoin transformValues",
        "KGroupedStream": "aggregate count reduce",
        "KGroupedTable": "aggregate count reduce",
        "TimeWindowedKStream": "aggregate count reduce",
        "SessionWindowedKStream": "aggregate count reduce",
        "CogroupedKStream": "aggregate",
        "TimeWindowedCogroupedKStream": "aggregate",
        "SessionWindowedCogroupedKStream": "aggregate",
        "StreamsBuilder": "globalTable table",
    }.items()
    for call in calls.split()
}


def test_every_call_of_kafka_that_takes_a_materialized_is_in_the_table():
    assert sorted(TAKE_STORES - {call.partition(",")[0] for call in STORES}) == []


def test_a_source_has_one_name():
    with pytest.raises(TopologyError, match="source 'b': expected one name, got a Consumed of the name 'a' beside it"):
        Topology().add_source("b", WORDS.with_name("a"), "in")
    with pytest.raises(TopologyError, match="Consumed: expected one name, got name='b' beside a Consumed of the name"):
        StreamsBuilder().stream("in", WORDS.with_name("a"), name="b")
