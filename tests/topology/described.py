"""The topologies of tests/jvm/Describe.java, built with our DSL."""

import re
from collections.abc import Callable

import polars as pl

from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor, Record
from kstreams_replay.jobs.topology import (
    Branched,
    BufferConfig,
    Consumed,
    JoinWindows,
    KGroupedStream,
    KStream,
    KTable,
    Materialized,
    Printed,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    fold,
)

FINAL = Suppressed.until_window_closes()
LONGS = Consumed(Serde.string(), Serde.long())
NEAR = JoinWindows.of_time_difference_with_no_grace(5)


def stream(builder: StreamsBuilder, topic: str) -> KStream:
    return builder.stream(topic, LONGS)


def by_key(records: KStream) -> KGroupedStream:
    return records.group_by_key()


def topics(builder: StreamsBuilder) -> None:
    several = builder.stream(["in", "b", "a-third"], LONGS)
    several.filter("TRUE").to("out")
    builder.stream(("b", "a-third", "in"), LONGS).to("again")
    table = builder.table("t", LONGS)
    several.join(table, lambda one, other: one, returns=Serde.long()).to("joined")
    rekeyed = several.select_key("record_key").merge(stream(builder, "z"))
    rekeyed.group_by_key().count(Materialized()).to("counts")


def stateless(builder: StreamsBuilder) -> None:
    records = stream(builder, "in")
    records.filter("TRUE").map_values("value").to("out")
    records.filter_not("TRUE").select_key("record_key").to("rekeyed")
    stream(builder, "other").to("copies")


def final_results(builder: StreamsBuilder) -> None:
    counts = by_key(stream(builder, "in")).windowed_by(TimeWindows.of_size(10, grace=5)).count()
    counts.suppress(FINAL).to_stream().to("final")


def repartitioned(builder: StreamsBuilder) -> None:
    records = stream(builder, "in")
    grouped = records.group_by("record_key")
    grouped.count().to_stream().to("counts")
    sessions = grouped.windowed_by(SessionWindows.with_inactivity_gap(10, grace=5))
    sessions.reduce(lambda one, other: one).to_stream().to("sessions")
    records.to("copies")


def named(builder: StreamsBuilder) -> None:
    (
        builder.stream("in", LONGS, name="read")
        .select_key("record_key", name="rekey")
        .filter("TRUE", name="some")
        .group_by_key()
        .windowed_by(TimeWindows.of_size(10))
        .count(Materialized.as_("counts"), name="count")
        .suppress(Suppressed.until_window_closes(name="final"))
        .to_stream(name="changes")
        .map_values("value", name="copy")
        .to("out", name="write")
    )


def three_levels(builder: StreamsBuilder) -> None:
    windows = by_key(stream(builder, "in")).windowed_by(TimeWindows.of_size(10))
    finals = windows.count().suppress(FINAL).to_stream().select_key("record_key")
    totals = by_key(finals).aggregate(fold.sum("value"), materialized=Materialized.as_("totals")).to_stream()
    totals.to("totals")
    totals.group_by("record_key").count().to_stream().to("ranks")
    finals.to("finals")


def side_by_side(builder: StreamsBuilder) -> None:
    records = stream(builder, "in")
    counts = by_key(records).windowed_by(TimeWindows.of_size(10).advance_by(5)).count()
    counts.to_stream().to("updates")
    counts.suppress(FINAL).to_stream().to("final")
    records.map_values("value").to("values")


def wide(builder: StreamsBuilder) -> None:
    records = stream(builder, "in")
    for number in range(7):
        branch = records.filter("TRUE")
        for _ in range(number % 4):
            branch = branch.map_values("value")
        branch.to(f"out-{number}")


def table(builder: StreamsBuilder, topic: str) -> KTable:
    return builder.table(topic, LONGS)


def tables(builder: StreamsBuilder) -> None:
    changes = table(builder, "t")
    changes.filter("TRUE").map_values("value").to("seen")
    kept = changes.filter_not("TRUE", materialized=Materialized.as_("kept"))
    kept.map_values("value", name="copy", materialized=Materialized()).to("kept")
    users = builder.table("u", LONGS, name="users", materialized=Materialized.as_("users-store"))
    users.suppress(Suppressed.until_time_limit(5, BufferConfig.max_records(2))).to("users")
    stream(builder, "v").to_table().to("versions")
    stream(builder, "w").select_key("record_key").to_table(name="table", materialized=Materialized.as_("w")).to("w-out")
    stream(builder, "x").select_key("record_key").to_table().filter("TRUE").to("x-out")


def first(one, other):
    return one


def keep(key, value, aggregate):
    return aggregate


def grouped_tables(builder: StreamsBuilder) -> None:
    changes = table(builder, "t").map_values("value")
    changes.group_by("record_key", "value").count().to("counts")
    sums = changes.group_by("record_key", "value", name="regrouped").aggregate(
        initializer=int,
        adder=keep,
        subtractor=keep,
        returns=Serde.long(),
        name="sum",
        materialized=Materialized.as_("sums"),
    )
    sums.to("sums")
    reduced = changes.group_by("record_key", "value").reduce(first, first)
    reduced.group_by("record_key").count(Materialized()).to("reduced")


def stream_joins(builder: StreamsBuilder) -> None:
    left, right = stream(builder, "left"), stream(builder, "right")
    left.join(right, "left", NEAR).to("inner")
    left.left_join(right, "left", NEAR).to("left-joined")
    left.outer_join(right, "left", NEAR).to("outer")
    left.outer_join(right, "left", NEAR, name="both", materialized=Materialized.as_("sides")).to("named")
    left.left_join(right, "left", NEAR, name="some").to("named-left")
    left.join(left, "left", NEAR).to("self")


def rekeyed_joins(builder: StreamsBuilder) -> None:
    left = stream(builder, "left").select_key("record_key")
    right = stream(builder, "right").map("record_key", "value")
    looked_up = table(builder, "t")
    left.join(right, "left", NEAR).to("once")
    left.left_join(right, "left", NEAR).to("twice")
    left.join(right, "left", NEAR, name="both").to("named")
    left.join(looked_up, "left").to("with-table")
    left.left_join(looked_up, "left", name="lookup").to("named-with-table")


def table_lookups(builder: StreamsBuilder) -> None:
    records = stream(builder, "in")
    wide_table = builder.global_table("g", LONGS)
    records.join(wide_table, "left", selector="record_key").to("global")
    records.left_join(wide_table, "left", selector="record_key", name="wide").to("global-left")
    records.join(table(builder, "t").filter("TRUE").map_values("value"), "left").to("t-out")
    versioned = builder.table("v", LONGS, materialized=Materialized.versioned("history", 100))
    records.join(versioned, "left", name="waits", grace=5).to("v-out")


def table_joins(builder: StreamsBuilder) -> None:
    a, b = table(builder, "a"), table(builder, "b")
    c = table(builder, "c").suppress(Suppressed.until_time_limit(5, BufferConfig.unbounded()))
    a.join(b, "left").left_join(c, "left", materialized=Materialized.as_("abc")).to("abc")
    a.outer_join(b, "left", name="both", materialized=Materialized()).to("both")
    stream(builder, "in").join(a.join(b, "left"), "left").to("with-join")


def foreign_keys(builder: StreamsBuilder) -> None:
    a, b = table(builder, "a"), table(builder, "b")
    a.join(b, "left", foreign_key=pl.lit("k")).to("joined")
    kept, store = b.filter("TRUE"), Materialized.as_("fks")
    a.left_join(kept, "left", foreign_key=pl.lit("k"), name="fk", materialized=store).to("named")


def cogrouped(builder: StreamsBuilder) -> None:
    a, b = by_key(stream(builder, "a")), stream(builder, "b").group_by("record_key")
    a.cogroup(keep).cogroup(b, keep).aggregate(int, returns=Serde.long(), materialized=Materialized()).to("sums")
    windowed = a.cogroup(keep).cogroup(b, keep).windowed_by(TimeWindows.of_size(10))
    store = Materialized.as_("windowed")
    windowed.aggregate(int, returns=Serde.long(), name="agg", materialized=store).to("windowed")


def branches(builder: StreamsBuilder) -> None:
    numbers = stream(builder, "in").split().branch("value > 5").branch("value > 3").default_branch()
    for name, branch in sorted(numbers.items()):
        branch.to(f"to-{name}")
    split = (
        stream(builder, "in").split().branch("value > 5", Branched.with_consumer(lambda branch: branch.to("consumed")))
    )
    split.branch("value > 3", Branched.with_function(lambda branch: branch.map_values("value"), "mapped"))
    split.branch("value > 2", Branched.with_function(lambda branch: None))
    left = split.default_branch(Branched.with_consumer(lambda branch: branch.print(Printed.to_sys_out())))
    for name, branch in left.items():
        branch.to(f"left-{name}")
    rekeyed = stream(builder, "in").select_key("record_key")
    named = rekeyed.split(name="by-size-").branch("value > 5", name="large").no_default_branch()
    by_key(named["by-size-large"]).count(Materialized()).to("large")


def steps(builder: StreamsBuilder) -> None:
    one, other = stream(builder, "in"), stream(builder, "in")
    one.peek(print).merge(other.flat_map_values(lambda key, value: [value], returns=Serde.long())).to("merged")
    one.merge(one).to("doubled")
    other.foreach(print)
    other.repartition().to("spread")
    other.repartition(name="again").to("spread-again")
    flat = other.flat_map(lambda key, value: [(key, value)], returns_key=Serde.string(), returns=Serde.long())
    windows = flat.merge(one).group_by_key(name="flat").windowed_by(SlidingWindows.of_time_difference(5))
    windows.emit_strategy("on_window_close").count(Materialized()).to("flat")
    other.process(dict).to("processed")


def intermediate_topics(builder: StreamsBuilder) -> None:
    stream(builder, "later").filter("TRUE").to("last")
    one = stream(builder, "in")
    one.to("middle")
    one.filter("value > 5").to("middle")
    by_key(stream(builder, "other").select_key("record_key")).count(Materialized()).to_stream().to("middle")
    middle = stream(builder, "middle")
    middle.to("later")
    by_key(one).count(Materialized()).to_stream().to("table")
    middle.join(builder.table("table", LONGS), "left").to("joined")


class Forwarding(Processor):
    """Forwards what comes."""

    def process(self, record: Record) -> None:
        self.context.forward(record)


def global_stores(builder: StreamsBuilder) -> None:
    records = stream(builder, "in")
    kept, named = (KeyValues(name, Serde.string(), Serde.long()) for name in ("kept", "named"))
    builder.add_global_store(kept, "g", LONGS, Forwarding).add_global_store(named, "h", LONGS, Forwarding, name="names")
    records.process(Forwarding, ["named", "kept"]).to("out")


TOPOLOGIES: dict[str, Callable[[StreamsBuilder], None]] = {
    build.__name__: build
    for build in (
        topics,
        stateless,
        final_results,
        repartitioned,
        named,
        three_levels,
        side_by_side,
        wide,
        tables,
        grouped_tables,
        stream_joins,
        rekeyed_joins,
        table_lookups,
        table_joins,
        foreign_keys,
        cogrouped,
        branches,
        steps,
        intermediate_topics,
        global_stores,
    )
}


def processor_api(topology: Topology) -> None:
    kept, seen, first = (KeyValues(name, Serde.string(), Serde.long()) for name in ("kept", "seen", "first"))
    topology.add_source("read", LONGS, "in")
    topology.add_processor("zebra", Forwarding, "read").add_processor("ant", Forwarding, "read")
    topology.add_processor("both", Forwarding, "zebra", "ant").add_sink("write", "out", "both", "ant")
    topology.add_source("aside", LONGS, "other").add_processor("alone", Forwarding, "aside")
    topology.add_state_store(kept, "both").add_state_store(seen).add_state_store(first)
    topology.connect_processor_and_state_stores("alone", "seen", "first").add_sink("copies", "copies", "aside")


def global_store(topology: Topology) -> None:
    kept = KeyValues("kept", Serde.string(), Serde.long())
    topology.add_global_store(kept, "every", LONGS, "g", "keep", Forwarding).add_source("read", LONGS, "in")
    topology.add_processor("look", Forwarding, "read").connect_processor_and_state_stores("look", "kept")
    topology.add_sink("write", "out", "look")


def patterns(topology: Topology) -> None:
    topology.add_source("shops", LONGS, re.compile("shop-[a-z]+")).add_source("others", LONGS, "a", "b")
    topology.add_processor("look", Forwarding, "shops", "others").add_sink("write", "out", "look")


BY_NAME: dict[str, Callable[[Topology], None]] = {
    "processor_api": processor_api,
    "global_store": global_store,
    "patterns": patterns,
}
"""By the Processor API alone."""
