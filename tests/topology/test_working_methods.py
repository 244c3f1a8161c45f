"""Every row of ``jobs/METHODS.md`` that says "works", tried: a tiny program each, and what Kafka's Javadoc says of it.

Expected values are written by hand. A call with options of Kafka's own (Named, Grouped and so on) is made with them.
"""

import contextlib
import io
import re
from collections.abc import Callable
from typing import Any

import pytest

from kstreams_replay import (
    Branched,
    BufferConfig,
    Consumed,
    FixedKeyProcessor,
    Grouped,
    Joined,
    JoinWindows,
    KeyValues,
    Materialized,
    Named,
    Printed,
    Processor,
    Produced,
    PunctuationType,
    Repartitioned,
    Serde,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TestRecord,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    UnlimitedWindows,
    ValueAndTimestamp,
    ValueTransformerWithKey,
    Windowed,
)
from kstreams_replay.jobs.functions.processor_api import AggregationWithHeaders, ValueTimestampHeaders
from kstreams_replay.state.errors import TaskFailed
from tests.topology.test_methods import rows

TEXT, LONG = Serde.string(), Serde.long()
NUMBERS = Consumed(TEXT, LONG)
EVER = 2**63 - 1
PIPED = [("in", "a", 1, 0), ("in", "b", 2, 10), ("in", "a", 3, 20)]
TEN, GRACE = TimeWindows.of_size_with_no_grace(10), TimeWindows.of_size_and_grace(10, 5)
NEAR = JoinWindows.of_time_difference_with_no_grace(5)
MEETING = [("in", "a", 1, 0), ("other", "a", 10, 3), ("in", "b", 2, 100), ("other", "c", 20, 200)]
TOLD = [("other", "a", 10, 0), ("in", "a", 1, 5), ("in", "b", 2, 6)]

Tried = tuple[Callable[[], Any], Any]
ROWS: dict[str, Tried] = {}
"""By the row's name: what gives the answer, and the answer that Kafka Streams gives."""


class Given:
    """A builder with what most programs begin with, each made when it is asked for."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder()

    @property
    def stream(self):
        return self.builder.stream("in", NUMBERS)

    @property
    def other(self):
        return self.builder.stream("other", NUMBERS)

    @property
    def table(self):
        return self.builder.table("in", NUMBERS)

    @property
    def other_table(self):
        return self.builder.table("other", NUMBERS)

    @property
    def grouped(self):
        return self.stream.group_by_key()


def row(record) -> tuple:
    return (record.key, *(record.window or ()), record.value)


def driven(topology, records) -> TopologyTestDriver:
    driver = TopologyTestDriver(topology)
    for topic, key, value, time_ms in records:
        driver.pipe_input(topic, key, value, time_ms)
    return driver


def played(build, records, topic="out") -> list[tuple]:
    """The rows of "out", to which the stream or table goes that ``build`` makes: (key, value), or with the window
    (key, start, end, value).
    """
    given = Given()
    if (made := build(given)) is not None:
        made.to("out")
    return [row(one) for one in driven(given.builder.build(), records).read_outputs(topic)]


def ran(build, records) -> None:
    """A topology that writes nothing."""
    given = Given()
    build(given)
    driven(given.builder.build(), records).run()


def described(build) -> list[str]:
    """The names of nodes and topics of what ``build`` makes."""
    given = Given()
    if (made := build(given)) is not None:
        made.to("out")
    return re.findall(r"[\w-]+", given.builder.build().describe())


def says(build, *names: str) -> Tried:
    """Those of ``names`` that the described topology does not have: none."""
    return lambda: [name for name in names if name not in described(build)], []


def gives(build, *expected: tuple, of=PIPED, topic="out") -> Tried:
    return lambda: played(build, of, topic), list(expected)


def is_(value: Callable[[], Any], expected: Any) -> Tried:
    return value, expected


def of(name: str, **tried: Tried) -> None:
    """``kstream.KStream`` and its methods, in Kafka's words; ``as_`` and the like lose the underscore."""
    ROWS.update({f"{name}.{method.rstrip('_')}": one for method, one in tried.items()})


# --- the DSL -------------------------------------------------------------------------------------------------

SUM: Callable[[Any, Any], Any] = lambda one, other: one + other  # noqa: E731
NUMBER = {"returns": LONG}
BOTH: Callable[[Any, Any], Any] = lambda left, right: (left or 0) + (right or 0)  # noqa: E731
AGGREGATED = (lambda: 100, lambda key, value, total: total + value)
COUNTED = ("a", 1), ("b", 1), ("a", 2)
SUMMED = ("a", 1), ("b", 2), ("a", 4)
WINDOWED = ("a", 0, 10, 1), ("b", 10, 20, 1), ("a", 20, 30, 1)


class Doubling(Processor):
    """Each record twice as much."""

    def process(self, record):
        self.context.forward(record.with_value(record.value * 2))


class DoublingValues(FixedKeyProcessor):
    """The same, whose key stays."""

    def process(self, record):
        self.context.forward(record.with_value(record.value * 2))


class WithKey(ValueTransformerWithKey):
    """Ten times as much, and one more of "b"."""

    def init(self, context):
        super().init(context)
        self.factor = 10

    def transform(self, key, value):
        return None if value is None else value * self.factor + (key == "b")


def global_store(given: Given) -> None:
    class Writing(Processor):
        def process(self, record):
            self.context.store("all").put(record.key, record.value * 7)

    class Reading(Processor):
        def process(self, record):
            self.context.forward(record.with_value(self.context.store("all").get(record.key)))

    given.builder.add_global_store(KeyValues("all", TEXT, LONG), "other", NUMBERS, Writing)
    return given.stream.process(Reading, ["all"])


def counting(name="counts"):
    class Counting(Processor):
        def process(self, record):
            store = self.context.store(name)
            store.put(record.key, (store.get(record.key) or 0) + 1)
            self.context.forward(record.with_value(store.get(record.key)))

    return Counting


def added_store(given: Given):
    given.builder.add_state_store(KeyValues("counts", TEXT, LONG))
    return given.stream.process(counting(), ["counts"])


of(
    "StreamsBuilder",
    stream=gives(lambda g: g.builder.stream(["in", "other"], NUMBERS), ("a", 10), ("a", 1), ("b", 2), of=TOLD),
    table=gives(lambda g: g.table.to_stream(), ("a", 1), ("b", 2), ("a", 3)),
    globalTable=gives(
        lambda g: g.stream.join(
            g.builder.global_table("other", NUMBERS), SUM, selector=lambda k, v: k, selector_returns=TEXT, **NUMBER
        ),
        ("a", 11),
        of=TOLD,
    ),
    addStateStore=gives(added_store, *COUNTED),
    addGlobalStore=gives(global_store, ("a", 70), ("b", None), of=TOLD),
    build=is_(lambda: played(lambda g: g.stream, []), []),
)
of(
    "kstream.KStream",
    filter=gives(lambda g: g.stream.filter(lambda k, v: v > 1), ("b", 2), ("a", 3)),
    filterNot=gives(lambda g: g.stream.filter_not(lambda k, v: v > 1), ("a", 1)),
    map=gives(
        lambda g: g.stream.map(lambda k, v: (k * 2, v + 1), returns_key=TEXT, returns=LONG),
        ("aa", 2),
        ("bb", 3),
        ("aa", 4),
    ),
    mapValues=gives(lambda g: g.stream.map_values(lambda v: v * 2, returns=LONG), ("a", 2), ("b", 4), ("a", 6)),
    flatMap=gives(
        lambda g: g.stream.flat_map(lambda k, v: [(k + "!", v)] * (v - 1), returns_key=TEXT, returns=LONG),
        ("b!", 2),
        ("a!", 3),
        ("a!", 3),
    ),
    flatMapValues=gives(
        lambda g: g.stream.flat_map_values(lambda k, v: range(v - 1), returns=LONG), ("b", 0), ("a", 0), ("a", 1)
    ),
    selectKey=gives(lambda g: g.stream.select_key(lambda k, v: k + "x", returns=TEXT), ("ax", 1), ("bx", 2), ("ax", 3)),
    merge=gives(lambda g: g.stream.merge(g.other), ("a", 10), ("a", 1), ("b", 2), of=TOLD),
    split=gives(
        lambda g: (
            g.stream.split(Named.as_("to-"))
            .branch(lambda k, v: k == "b", Branched.as_("b"))
            .no_default_branch()["to-b"]
        ),
        ("b", 2),
    ),
    process=gives(lambda g: g.stream.process(Doubling), ("a", 2), ("b", 4), ("a", 6)),
    processValues=gives(lambda g: g.stream.process_values(DoublingValues), ("a", 2), ("b", 4), ("a", 6)),
    repartition=gives(lambda g: g.stream.repartition(), ("a", 1), ("b", 2), ("a", 3)),
    groupBy=gives(
        lambda g: g.stream.group_by(lambda k, v: "all", returns=TEXT).count(), ("all", 1), ("all", 2), ("all", 3)
    ),
    groupByKey=gives(lambda g: g.stream.group_by_key().count(), *COUNTED),
    toTable=gives(lambda g: g.stream.to_table().to_stream(), ("a", 1), ("b", 2), ("a", 3)),
    to=gives(lambda g: g.stream.to(lambda k, v: f"to-{k}"), ("a", 1), ("a", 3), topic="to-a"),
    join=gives(lambda g: g.stream.join(g.other, SUM, NEAR, **NUMBER), ("a", 11), of=MEETING),
    leftJoin=gives(lambda g: g.stream.left_join(g.other, BOTH, NEAR, **NUMBER), ("a", 11), ("b", 2), of=MEETING),
    outerJoin=gives(
        lambda g: g.stream.outer_join(g.other, BOTH, NEAR, **NUMBER),
        ("a", 11),
        ("b", 2),
        of=MEETING,
    ),
)


def looked_on(way: str) -> list:
    seen: list = []
    ran(lambda g: getattr(g.stream, way)(lambda key, value: seen.append((key, value))), PIPED)
    return seen


def printed(make: Callable[[Printed], Printed]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as into:
        ran(lambda g: g.stream.print(make(Printed.to_sys_out())), PIPED[:1])
    return into.getvalue()


def printed_to_file() -> str:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "printed.txt"
        ran(lambda g: g.stream.print(Printed.to_file(path).with_label("L")), PIPED)
        return path.read_text(encoding="utf-8")


SOURCE = "KSTREAM-SOURCE-0000000000"
of(
    "kstream.KStream",
    peek=is_(lambda: looked_on("peek"), [("a", 1), ("b", 2), ("a", 3)]),
    foreach=is_(lambda: looked_on("foreach"), [("a", 1), ("b", 2), ("a", 3)]),
    print=is_(lambda: printed(lambda one: one), f"[{SOURCE}]: a, 1\n"),
)
of(
    "kstream.Printed",
    toFile=is_(printed_to_file, "[L]: a, 1\n[L]: b, 2\n[L]: a, 3\n"),
    toSysOut=is_(lambda: printed(lambda one: one), f"[{SOURCE}]: a, 1\n"),
    withLabel=is_(lambda: printed(lambda one: one.with_label("seen")), "[seen]: a, 1\n"),
    withKeyValueMapper=is_(
        lambda: printed(lambda one: one.with_key_value_mapper(lambda k, v: f"{v} of {k}")), f"[{SOURCE}]: 1 of a\n"
    ),
    withName=says(lambda g: g.stream.print(Printed.to_sys_out().with_name("shown")), "shown"),
)
HELD = Suppressed.until_time_limit(10, BufferConfig.unbounded())
of(
    "kstream.KTable",
    filter=gives(lambda g: g.table.filter(lambda k, v: v > 1).to_stream(), ("a", None), ("b", 2), ("a", 3)),
    filterNot=gives(lambda g: g.table.filter_not(lambda k, v: v > 1).to_stream(), ("a", 1), ("b", None), ("a", None)),
    mapValues=gives(
        lambda g: g.table.map_values(lambda v: v * 2, returns=LONG, materialized=Materialized.as_("m")).to_stream(),
        ("a", 2),
        ("b", 4),
        ("a", 6),
    ),
    transformValues=gives(
        lambda g: g.table.transform_values(WithKey, returns=LONG).to_stream(), ("a", 10), ("b", 21), ("a", 30)
    ),
    toStream=gives(lambda g: g.table.to_stream(lambda k, v: k + "x", returns=TEXT), ("ax", 1), ("bx", 2), ("ax", 3)),
    suppress=gives(lambda g: g.table.suppress(HELD).to_stream(), ("a", 1), ("b", 2)),
    groupBy=gives(
        lambda g: (
            g.table.group_by(lambda k, v: ("all", v), returns_key=TEXT, returns=LONG)
            .reduce(SUM, lambda total, old: total - old)
            .to_stream()
        ),
        ("all", 1),
        ("all", 3),
        ("all", 5),
    ),
    join=gives(lambda g: g.table.join(g.other_table, SUM, **NUMBER).to_stream(), ("a", 11), of=TOLD),
    leftJoin=gives(
        lambda g: g.table.left_join(g.other_table, BOTH, **NUMBER).to_stream(), ("a", 11), ("b", 2), of=TOLD
    ),
    outerJoin=gives(
        lambda g: g.table.outer_join(g.other_table, BOTH, **NUMBER).to_stream(), ("a", 10), ("a", 11), ("b", 2), of=TOLD
    ),
)
of(
    "kstream.KGroupedStream",
    count=gives(lambda g: g.grouped.count(), *COUNTED),
    reduce=gives(lambda g: g.grouped.reduce(SUM), *SUMMED),
    aggregate=gives(lambda g: g.grouped.aggregate(*AGGREGATED, returns=LONG), ("a", 101), ("b", 102), ("a", 104)),
    windowedBy=gives(lambda g: g.grouped.windowed_by(TEN).count(), *WINDOWED),
    cogroup=gives(lambda g: g.grouped.cogroup(AGGREGATED[1]).aggregate(lambda: 0, returns=LONG), *SUMMED),
)


def by_one_key(given: Given):
    return given.table.group_by(lambda k, v: ("all", v), returns_key=TEXT, returns=LONG)


of(
    "kstream.KGroupedTable",
    count=gives(lambda g: by_one_key(g).count(), ("all", 1), ("all", 2), ("all", 2)),
    reduce=gives(
        lambda g: by_one_key(g).reduce(SUM, lambda total, old: total - old), ("all", 1), ("all", 3), ("all", 5)
    ),
    aggregate=gives(
        lambda g: by_one_key(g).aggregate(*AGGREGATED, lambda key, value, total: total - value, returns=LONG),
        ("all", 101),
        ("all", 103),
        ("all", 105),
    ),
)


def both_counted(given: Given):
    return given.grouped.cogroup(lambda k, v, total: total + v).cogroup(
        given.other.group_by_key(), lambda k, v, total: total - v
    )


TAKEN = ("a", -10), ("a", -9), ("b", 2)
of(
    "kstream.CogroupedKStream",
    cogroup=gives(lambda g: both_counted(g).aggregate(lambda: 0, returns=LONG), *TAKEN, of=TOLD),
    aggregate=gives(
        lambda g: both_counted(g).aggregate(lambda: 0, Materialized.as_("both"), returns=LONG), *TAKEN, of=TOLD
    ),
    windowedBy=gives(
        lambda g: both_counted(g).windowed_by(TEN).aggregate(lambda: 0, returns=LONG),
        ("a", 0, 10, -10),
        ("a", 0, 10, -9),
        ("b", 0, 10, 2),
        of=TOLD,
    ),
)


GAP = SessionWindows.of_inactivity_gap_with_no_grace(30)
SHORT = SessionWindows.of_inactivity_gap_with_no_grace(5)
CLOSED_LATER = [("in", "a", 1, 0), ("in", "a", 2, 5), ("in", "b", 5, 10), ("in", "b", 5, 20)]
MERGE: Callable[[Any, Any, Any], Any] = lambda key, one, other: one + other  # noqa: E731
SESSIONS = [("in", "a", 1, 0), ("in", "a", 2, 5)]
of(
    "kstream.TimeWindowedKStream",
    count=gives(lambda g: g.grouped.windowed_by(TEN).count(), *WINDOWED),
    reduce=gives(lambda g: g.grouped.windowed_by(TEN).reduce(SUM), ("a", 0, 10, 1), ("a", 0, 10, 3), of=SESSIONS),
    aggregate=gives(
        lambda g: g.grouped.windowed_by(TEN).aggregate(*AGGREGATED, returns=LONG),
        ("a", 0, 10, 101),
        ("a", 0, 10, 103),
        of=SESSIONS,
    ),
    emitStrategy=gives(
        lambda g: g.grouped.windowed_by(TEN).emit_strategy("on_window_close").count(),
        ("a", 0, 10, 2),
        ("b", 10, 20, 1),
        of=CLOSED_LATER,
    ),
)
of(
    "kstream.SessionWindowedKStream",
    count=gives(
        lambda g: g.grouped.windowed_by(GAP).count(), ("a", 0, 0, 1), ("a", 0, 0, None), ("a", 0, 5, 2), of=SESSIONS
    ),
    reduce=gives(
        lambda g: g.grouped.windowed_by(GAP).reduce(SUM), ("a", 0, 0, 1), ("a", 0, 0, None), ("a", 0, 5, 3), of=SESSIONS
    ),
    aggregate=gives(
        lambda g: g.grouped.windowed_by(GAP).aggregate(lambda: 0, AGGREGATED[1], MERGE, returns=LONG),
        ("a", 0, 0, 1),
        ("a", 0, 0, None),
        ("a", 0, 5, 3),
        of=SESSIONS,
    ),
    emitStrategy=gives(
        lambda g: g.grouped.windowed_by(SHORT).emit_strategy("on_window_close").count(),
        ("a", 0, 5, 2),
        ("b", 10, 10, 1),
        of=CLOSED_LATER,
    ),
)
of(
    "kstream.TimeWindowedCogroupedKStream",
    aggregate=gives(
        lambda g: g.grouped.cogroup(AGGREGATED[1]).windowed_by(TEN).aggregate(lambda: 0, returns=LONG),
        ("a", 0, 10, 1),
        ("a", 0, 10, 3),
        of=SESSIONS,
    ),
)
of(
    "kstream.SessionWindowedCogroupedKStream",
    aggregate=gives(
        lambda g: g.grouped.cogroup(AGGREGATED[1]).windowed_by(GAP).aggregate(lambda: 0, MERGE, returns=LONG),
        ("a", 0, 0, 1),
        ("a", 0, 0, None),
        ("a", 0, 5, 3),
        of=SESSIONS,
    ),
)


def branches(given: Given):
    return given.stream.split(Named.as_("by-")).branch(lambda k, v: k == "b", Branched.as_("b"))


def consumed_by(given: Given, make) -> None:
    given.stream.split().branch(lambda k, v: k == "b", make(lambda stream: stream.to("out"))).no_default_branch()


of(
    "kstream.BranchedKStream",
    branch=gives(lambda g: branches(g).no_default_branch()["by-b"], ("b", 2)),
    defaultBranch=gives(lambda g: branches(g).default_branch(Branched.as_("rest"))["by-rest"], ("a", 1), ("a", 3)),
    noDefaultBranch=is_(lambda: list(branches(Given()).no_default_branch()), ["by-b"]),
)
of(
    "kstream.Branched",
    as_=is_(lambda: list(branches(Given()).no_default_branch()), ["by-b"]),
    withName=is_(
        lambda: list(
            Given()
            .stream.split(Named.as_("x-"))
            .branch("value > 1", Branched.as_("z").with_name("y"))
            .no_default_branch()
        ),
        ["x-y"],
    ),
    withConsumer=gives(lambda g: consumed_by(g, Branched.with_consumer), ("b", 2)),
    withFunction=gives(
        lambda g: (
            g.stream.split(Named.as_("s-"))
            .branch(lambda k, v: k == "b", Branched.with_function(lambda one: one.map_values("value + 1"), "f"))
            .no_default_branch()["s-f"]
        ),
        ("b", 3),
    ),
)
of(
    "kstream.Consumed",
    with_=gives(lambda g: g.builder.stream("in", Consumed.with_(TEXT, LONG)), ("a", 1), ("b", 2), ("a", 3)),
    as_=says(lambda g: g.builder.stream("in", NUMBERS, name="read"), "read"),
    withName=says(lambda g: g.builder.stream("in", NUMBERS.with_name("read")), "read"),
    withKeySerde=gives(lambda g: g.builder.stream("in", Consumed.with_(LONG, LONG)), (5, 1), of=[("in", 5, 1, 0)]),
    withValueSerde=gives(
        lambda g: g.builder.stream("in", Consumed.with_(TEXT, TEXT)), ("a", "x"), of=[("in", "a", "x", 0)]
    ),
    withTimestampExtractor=gives(
        lambda g: (
            g.builder.stream("in", NUMBERS.with_timestamp_extractor(lambda record: record.value * 100))
            .group_by_key()
            .windowed_by(TEN)
            .count()
        ),
        ("a", 700, 710, 1),
        of=[("in", "a", 7, 3)],
    ),
)


def asked_for_partitions(make) -> list:
    """What a partitioner of one's own is given."""
    asked: list = []

    def partitioner(topic, key, value, partitions):
        asked.append((key, value))
        return 0

    played(lambda g: make(g, partitioner), PIPED[:2])
    return asked


def foreign(*options, **more):
    return lambda g: (
        g.builder.table("in", Consumed(TEXT, TEXT))
        .join(
            g.builder.table("other", NUMBERS),
            lambda left, right: f"{left}{right}",
            *options,
            foreign_key="value",
            returns=TEXT,
            **more,
        )
        .to_stream()
    )


ASKED = [("a", 1), ("b", 2)]
of(
    "kstream.Produced",
    as_=says(lambda g: g.stream.to("out", Produced.as_("write")), "write"),
    withName=says(lambda g: g.stream.to("out", Produced().with_name("write")), "write"),
    streamPartitioner=is_(
        lambda: asked_for_partitions(lambda g, one: g.stream.to("out", partitioner=one, partitions=1)), ASKED
    ),
    withStreamPartitioner=is_(
        lambda: asked_for_partitions(
            lambda g, one: g.stream.to("out", Produced().with_stream_partitioner(one), partitions=1)
        ),
        ASKED,
    ),
)


def kinds_of_stores(build) -> dict:
    """What each store of the topology holds, by its name, when PIPED has run."""
    given = Given()
    build(given)
    stores = driven(given.builder.build(), PIPED).get_all_state_stores()
    return {name: list(store.all()) for name, store in stores.items()}


def late(build) -> list:
    """Why a record is dropped whose window has passed by another stream's time: the store forgot it."""
    given = Given()
    windowed = given.grouped.cogroup(AGGREGATED[1]).cogroup(given.other.group_by_key(), AGGREGATED[1])
    windowed.windowed_by(TEN).aggregate(lambda: 0, build(), returns=LONG)
    driver = driven(given.builder.build(), [("in", "k", 1, 90_000), ("other", "k", 2, 5)])
    driver.run()
    return [one.reason for one in driver.dropped]


of(
    "kstream.Materialized",
    as_=is_(
        lambda: kinds_of_stores(lambda g: g.grouped.count(Materialized.as_("s"))),
        {"s": [("a", (2, 20)), ("b", (1, 10))]},
    ),
    with_=gives(
        lambda g: g.grouped.aggregate(*AGGREGATED, Materialized(store="in_memory"), returns=LONG),
        ("a", 101),
        ("b", 102),
        ("a", 104),
    ),
    withRetention=is_(lambda: late(lambda: Materialized.as_("s", store="in_memory", retention="5m")), []),
    withStoreType=is_(lambda: late(lambda: Materialized.as_("s", store="in_memory")), ["expired-in-store"]),
)


def regrouped(*options: Any, **more: Any):
    return lambda g: g.table.group_by(lambda k, v: (v, k), *options, **more).count()


BY_NUMBER = (1, 1), (2, 1), (1, 0), (3, 1)
of(
    "kstream.Grouped",
    as_=says(lambda g: g.stream.group_by("record_key || 'x'", Grouped.as_("by-x")).count(), "by-x-repartition"),
    withName=says(
        lambda g: g.stream.group_by("record_key || 'x'", Grouped().with_name("by-x")).count(), "by-x-repartition"
    ),
    with_=gives(lambda g: g.stream.group_by(lambda k, v: v, Grouped.with_(LONG, LONG)).count(), (1, 1), (2, 1), (3, 1)),
    keySerde=gives(regrouped(Grouped.with_(LONG, TEXT)), *BY_NUMBER),
    valueSerde=gives(regrouped(Grouped.with_(LONG, TEXT)), *BY_NUMBER),
    withKeySerde=gives(regrouped(Grouped(key=LONG, value=TEXT)), *BY_NUMBER),
    withValueSerde=gives(regrouped(returns_key=LONG, returns=TEXT), *BY_NUMBER),
)


def priced(*options, **more):
    """A stream beside a table with history, so that a grace period can wait for the table's change."""
    return lambda g: g.stream.join(
        g.builder.table("other", NUMBERS, materialized=Materialized.versioned("prices", "1h")),
        SUM,
        *options,
        **more,
        **NUMBER,
    )


LATE_PRICE = [("in", "a", 1, 0), ("other", "a", 10, 0), ("in", "b", 1, 100)]
of(
    "kstream.Joined",
    as_=says(priced(Joined.as_("priced")), "priced"),
    withName=says(priced(Joined().with_name("priced")), "priced"),
    gracePeriod=gives(priced(grace=50), ("a", 11), of=LATE_PRICE),
    withGracePeriod=gives(priced(Joined().with_grace_period(50)), ("a", 11), of=LATE_PRICE),
)


def pairs(*options, **more):
    return lambda g: g.stream.left_join(g.other, BOTH, NEAR, *options, **more, **NUMBER)


IN_MEMORY = Materialized(store="in_memory")
JOINED = ("a", 11), ("b", 2)
of(
    "kstream.StreamJoined",
    as_=says(pairs(StreamJoined.as_("met")), "met-this-join-store", "met-left-shared-join-store"),
    withStoreName=says(
        pairs(StreamJoined().with_store_name("met")), "met-this-join-store", "met-left-shared-join-store"
    ),
    withName=says(pairs(StreamJoined().with_name("pair")), "pair-this-join", "pair-outer-other-join", "pair-merge"),
    withDslStoreSuppliers=gives(pairs(materialized=IN_MEMORY), *JOINED, of=MEETING),
    withThisStoreSupplier=gives(pairs(materialized=IN_MEMORY), *JOINED, of=MEETING),
    withOtherStoreSupplier=gives(pairs(materialized=IN_MEMORY), *JOINED, of=MEETING),
)


def foreign_keys_asked(make) -> list:
    asked: list = []

    def partitioner(topic, key, value, partitions):
        asked.append(key)
        return 0

    played(foreign(make(partitioner)), [("other", "c", 1, 0), ("in", "o", "c", 1)])
    return sorted(set(asked))


of(
    "kstream.TableJoined",
    as_=says(foreign(TableJoined.as_("fk")), "fk-subscription-registration-topic", "fk-subscription-response-topic"),
    withName=says(foreign(TableJoined().with_name("fk")), "fk-subscription-registration-topic"),
    with_=is_(lambda: foreign_keys_asked(lambda one: TableJoined.with_(one, one)), ["c", "o"]),
    withPartitioner=is_(lambda: foreign_keys_asked(lambda one: TableJoined().with_partitioner(one)), ["o"]),
    withOtherPartitioner=is_(lambda: foreign_keys_asked(lambda one: TableJoined().with_other_partitioner(one)), ["c"]),
)


def sizes(*options: Any, **more: Any) -> Tried:
    def partitions() -> int:
        given = Given()
        given.stream.repartition(*options, name="r", **more).to("out")
        return given.builder.build().partitions_of({"in": 1})["r-repartition"]

    return partitions, 4


of(
    "kstream.Repartitioned",
    as_=says(lambda g: g.stream.repartition(Repartitioned.as_("r")), "r-repartition"),
    withName=says(lambda g: g.stream.repartition(Repartitioned().with_name("r")), "r-repartition"),
    numberOfPartitions=sizes(partitions=4),
    withNumberOfPartitions=sizes(Repartitioned().with_number_of_partitions(4)),
    streamPartitioner=is_(
        lambda: asked_for_partitions(lambda g, one: g.stream.repartition(partitioner=one).to("out")), ASKED
    ),
    withStreamPartitioner=is_(
        lambda: asked_for_partitions(
            lambda g, one: g.stream.repartition(Repartitioned().with_stream_partitioner(one)).to("out")
        ),
        ASKED,
    ),
)
of(
    "kstream.Named",
    as_=says(lambda g: g.stream.filter("value > 1", Named.as_("many")), "many"),
    withName=says(lambda g: g.stream.filter("value > 1", Named.as_("x").with_name("many")), "many"),
)


def suppressed(suppressed, build=lambda g: g.grouped.windowed_by(TEN).count()):
    return lambda g: build(g).suppress(suppressed)


def held(buffer: BufferConfig):
    return lambda g: g.table.suppress(Suppressed.until_time_limit("1h", buffer))


def ends(build) -> str:
    try:
        return str(played(build, PIPED))
    except TaskFailed as error:
        return "ended" if "full" in str(error).lower() or "buffer" in str(error).lower() else str(error)


ONE = BufferConfig.max_records(1)
of(
    "kstream.Suppressed",
    untilWindowCloses=gives(
        suppressed(Suppressed.until_window_closes(BufferConfig.unbounded())),
        ("a", 0, 10, 2),
        ("b", 10, 20, 1),
        of=CLOSED_LATER,
    ),
    untilTimeLimit=gives(lambda g: g.table.suppress(HELD), ("a", 1), ("b", 2)),
    withName=says(lambda g: g.table.suppress(HELD.with_name("waiting")), "waiting"),
)
of(
    "kstream.Suppressed$BufferConfig",
    maxRecords=gives(held(ONE), ("a", 1), of=PIPED[:2]),
    maxBytes=gives(held(BufferConfig.max_bytes(1)), ("a", 1), ("b", 2), ("a", 3)),
    unbounded=gives(held(BufferConfig.unbounded())),
    withMaxRecords=gives(
        held(BufferConfig.unbounded().emit_early_when_full().with_max_records(1)), ("a", 1), of=PIPED[:2]
    ),
    withMaxBytes=gives(held(BufferConfig.max_records(50).with_max_bytes(1)), ("a", 1), ("b", 2), ("a", 3)),
    withNoBound=gives(held(ONE.with_no_bound())),
    emitEarlyWhenFull=gives(held(ONE.emit_early_when_full()), ("a", 1), of=PIPED[:2]),
    shutDownWhenFull=is_(
        lambda: ends(
            lambda g: (
                g.grouped.windowed_by(TimeWindows.of_size_and_grace(10, 100))
                .count()
                .suppress(Suppressed.until_window_closes(ONE.shut_down_when_full()))
            )
        ),
        "ended",
    ),
)
of(
    "kstream.EmitStrategy",
    onWindowClose=gives(
        lambda g: g.grouped.windowed_by(TEN).emit_strategy("on_window_close").count(),
        ("a", 0, 10, 2),
        ("b", 10, 20, 1),
        of=CLOSED_LATER,
    ),
    onWindowUpdate=gives(lambda g: g.grouped.windowed_by(TEN).emit_strategy("on_window_update").count(), *WINDOWED),
)


# --- windows -------------------------------------------------------------------------------------------------


def windows(given_windows, *expected: tuple, of: list) -> Tried:
    """Counts of one stream in these windows."""
    return gives(lambda g: g.grouped.windowed_by(given_windows).count(), *expected, of=of)


LATE = [("in", "a", 1, 0), ("in", "a", 1, 14), ("in", "a", 1, 9)]
"""Windows of 10 ms: the last record comes when stream time is 4 ms past its window."""
of(
    "kstream.TimeWindows",
    ofSizeAndGrace=windows(GRACE, ("a", 0, 10, 1), ("a", 10, 20, 1), ("a", 0, 10, 2), of=LATE),
    ofSizeWithNoGrace=windows(TEN, ("a", 0, 10, 1), ("a", 10, 20, 1), of=LATE),
    advanceBy=windows(TEN.advance_by(5), ("a", 0, 10, 1), ("a", 5, 15, 1), of=[("in", "a", 1, 7)]),
    gracePeriodMs=is_(lambda: (GRACE.grace_ms, TEN.grace_ms), (5, 0)),
    size=is_(lambda: TEN.size_ms, 10),
)
SLID = ("a", 0, 10, 1), ("a", 1, 11, 1), ("a", 0, 10, 2)
LATE_SLID = [("in", "a", 1, 10), ("in", "a", 1, 30), ("in", "a", 1, 8)]
of(
    "kstream.SlidingWindows",
    ofTimeDifferenceAndGrace=windows(
        SlidingWindows.of_time_difference_and_grace(10, 50),
        ("a", 0, 10, 1),
        ("a", 20, 30, 1),
        ("a", 9, 19, 1),
        ("a", 0, 10, 2),
        of=[*LATE_SLID[:2], ("in", "a", 1, 8)],
    ),
    ofTimeDifferenceWithNoGrace=windows(
        SlidingWindows.of_time_difference_with_no_grace(10), ("a", 0, 10, 1), ("a", 20, 30, 1), of=LATE_SLID
    ),
    gracePeriodMs=is_(lambda: SlidingWindows.of_time_difference_and_grace(10, 50).grace_ms, 50),
    timeDifferenceMs=is_(lambda: SlidingWindows.of_time_difference_and_grace(10, 50).difference_ms, 10),
)
LATE_SESSION = [("in", "a", 1, 0), ("in", "b", 1, 20), ("in", "a", 1, 5)]
of(
    "kstream.SessionWindows",
    ofInactivityGapAndGrace=windows(
        SessionWindows.of_inactivity_gap_and_grace(5, 50),
        ("a", 0, 0, 1),
        ("b", 20, 20, 1),
        ("a", 0, 0, None),
        ("a", 0, 5, 2),
        of=LATE_SESSION,
    ),
    ofInactivityGapWithNoGrace=windows(
        SessionWindows.of_inactivity_gap_with_no_grace(5), ("a", 0, 0, 1), ("b", 20, 20, 1), of=LATE_SESSION
    ),
    gracePeriodMs=is_(lambda: SessionWindows.of_inactivity_gap_and_grace(5, 50).grace_ms, 50),
    inactivityGap=is_(lambda: SessionWindows.of_inactivity_gap_and_grace(5, 50).gap_ms, 5),
)


def near(given_windows, *expected: tuple, at: int, before: str = "join") -> Tried:
    """``in`` at 10 ms, ``other`` at a time."""
    piped = [("in", "a", 1, 10), ("other", "a", 10, at), ("in", "b", 2, 500), ("other", "c", 3, 900)]
    return gives(lambda g: getattr(g.stream, before)(g.other, BOTH, given_windows, **NUMBER), *expected, of=piped)


def several(*tried: Tried) -> Tried:
    return lambda: [get() for get, _ in tried], [wanted for _, wanted in tried]


of(
    "kstream.JoinWindows",
    ofTimeDifferenceAndGrace=near(JoinWindows.of_time_difference_and_grace(5, 400), ("a", 11), at=15),
    ofTimeDifferenceWithNoGrace=several(near(NEAR, ("a", 11), at=15), near(NEAR, at=16)),
    before=several(near(NEAR.before(1), at=8), near(NEAR.before(2), ("a", 11), at=8)),
    after=several(near(NEAR.after(1), at=12), near(NEAR.after(2), ("a", 11), at=12)),
    of=near(JoinWindows.of(5), ("a", 1), ("a", 11), ("b", 2), at=12, before="left_join"),
    grace=near(JoinWindows.of(5).grace(0), ("a", 1), ("a", 11), ("b", 2), at=12, before="left_join"),
    gracePeriodMs=is_(lambda: JoinWindows.of_time_difference_and_grace(5, 400).grace_ms, 400),
)
of(
    "kstream.UnlimitedWindows",
    of=windows(UnlimitedWindows.of(), ("a", 0, EVER, 1), of=[("in", "a", 1, 50)]),
    startOn=windows(UnlimitedWindows.of(100), ("a", 100, EVER, 1), of=[("in", "a", 1, 50), ("in", "a", 1, 150)]),
)


def windowed_key() -> Windowed:
    seen: list = []

    class Looking(Processor):
        def process(self, record):
            seen.append(record.key)

    ran(lambda g: g.grouped.windowed_by(TEN).count().to_stream().process(Looking), PIPED[1:2])
    return seen[0]


of(
    "kstream.Windowed",
    key=is_(lambda: windowed_key().key, "b"),
    window=is_(lambda: (windowed_key().window_start_ms, windowed_key().window_end_ms), (10, 20)),
)
of(
    "kstream.WindowedSerdes",
    timeWindowedSerdeFrom=gives(
        lambda g: g.builder.stream("in", Consumed(Serde.time_windowed(TEXT, 10), LONG)).map(
            lambda k, v: (k.key, v), returns_key=TEXT, returns=LONG
        ),
        ("a", 1),
        of=[("in", Windowed("a", 20, 30), 1, 0)],
    ),
    sessionWindowedSerdeFrom=gives(
        lambda g: g.builder.stream("in", Consumed(Serde.session_windowed(TEXT), LONG)).map(
            lambda k, v: (k.key, v), returns_key=TEXT, returns=LONG
        ),
        ("a", 1),
        of=[("in", Windowed("a", 20, 24), 1, 0)],
    ),
)
of(
    "kstream.ValueTransformerWithKey",
    init=gives(lambda g: g.table.transform_values(WithKey, returns=LONG), ("a", 10), ("b", 21), ("a", 30)),
    transform=gives(lambda g: g.table.transform_values(WithKey, returns=LONG), ("a", 10), ("b", 21), ("a", 30)),
)


# --- the Processor API ---------------------------------------------------------------------------------------


def assembled(topology: Topology, topic="out", piped=PIPED) -> list[tuple]:
    return [row(one) for one in driven(topology, piped).read_outputs(topic)]


def with_processor(supplier=Doubling) -> Topology:
    return Topology().add_source("read", NUMBERS, "in").add_processor("work", supplier, "read")


def with_global_store() -> Topology:
    class Writing(Processor):
        def process(self, record):
            self.context.store("all").put(record.key, record.value)

    class Reading(Processor):
        def process(self, record):
            self.context.forward(record.with_value(self.context.store("all").get(record.key)))

    topology = Topology().add_global_store(KeyValues("all", TEXT, LONG), "every", NUMBERS, "other", "write", Writing)
    return topology.add_source("read", NUMBERS, "in").add_processor("work", Reading, "read")


DOUBLED = [("a", 2), ("b", 4), ("a", 6)]
of(
    "Topology",
    addSource=is_(
        lambda: assembled(Topology().add_source("r", NUMBERS, "in").add_sink("w", "out", "r")),
        [("a", 1), ("b", 2), ("a", 3)],
    ),
    addProcessor=is_(lambda: assembled(with_processor().add_sink("w", "out", "work")), DOUBLED),
    addSink=is_(lambda: assembled(with_processor().add_sink("w", lambda k, v: f"to-{k}", "work"), "to-b"), [("b", 4)]),
    addStateStore=is_(
        lambda: assembled(
            with_processor(counting())
            .add_state_store(KeyValues("counts", TEXT, LONG), "work")
            .add_sink("w", "out", "work")
        ),
        list(COUNTED),
    ),
    connectProcessorAndStateStores=is_(
        lambda: assembled(
            with_processor(counting())
            .add_state_store(KeyValues("counts", TEXT, LONG))
            .connect_processor_and_state_stores("work", "counts")
            .add_sink("w", "out", "work")
        ),
        list(COUNTED),
    ),
    addGlobalStore=is_(
        lambda: assembled(
            with_global_store().connect_processor_and_state_stores("work", "all").add_sink("w", "out", "work"),
            piped=TOLD,
        ),
        [("a", 10), ("b", None)],
    ),
    describe=is_(
        lambda: Topology().add_source("r", NUMBERS, "in").add_sink("w", "out", "r").describe(),
        "Topologies:\n   Sub-topology: 0\n    Source: r (topics: [in])\n      --> w\n"
        "    Sink: w (topic: out)\n      <-- r\n\n",
    ),
)


def told(ask, *stores, piped=PIPED[:1], kind=Processor, headers=(), init=None):
    """What ``ask`` of (context, record) gives for the last record piped."""
    seen: list = []

    class Asking(kind):
        def init(self, context):
            super().init(context)
            if init is not None:
                init(context)

        def process(self, record):
            seen.append(ask(self.context, record))

    given = Given()
    (given.stream.process if kind is Processor else given.stream.process_values)(Asking, list(stores))
    driver = TopologyTestDriver(given.builder.build())
    for topic, key, value, time_ms in piped:
        driver.pipe_input(topic, key, value, time_ms, headers=headers)
    driver.run()
    return seen[-1]


def in_process(ask, expected: Any, *stores: Any, **more: Any) -> Tried:
    return lambda: told(ask, *stores, **more), expected


def ticked(kind: PunctuationType, *, cancel: bool = False) -> list:
    """Times of the punctuations of a schedule of 10 ms."""
    at: list = []

    class Scheduling(Processor):
        def init(self, context):
            super().init(context)
            self.schedule = context.schedule(10, kind, at.append)

        def process(self, record):
            if cancel:
                self.schedule.cancel()

    given = Given()
    given.stream.process(Scheduling)
    driver = TopologyTestDriver(given.builder.build(), initial_wall_clock_time=0)
    for topic, key, value, time_ms in PIPED:
        driver.pipe_input(topic, key, value, time_ms)
    driver.run()
    if kind is PunctuationType.WALL_CLOCK_TIME:
        driver.advance_wall_clock_time(25)
        driver.run()
    return at


STREAM, WALL = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME
HEAD = (("h", b"1"),)
for name, kind in (("Processor", Processor), ("FixedKeyProcessor", FixedKeyProcessor)):
    of(
        f"processor.api.{name}",
        init=in_process(lambda c, r: c.task_id(), "0_0", kind=kind),
        process=in_process(lambda c, r: (r.key, r.value), ("a", 1), kind=kind),
    )
of("processor.api.ContextualProcessor", init=in_process(lambda c, r: c.task_id(), "0_0"))
of(
    "processor.api.ContextualFixedKeyProcessor",
    init=in_process(lambda c, r: c.task_id(), "0_0", kind=FixedKeyProcessor),
)
of("processor.api.ProcessorSupplier", get=gives(lambda g: g.stream.process(lambda: Doubling()), *DOUBLED))
of(
    "processor.api.FixedKeyProcessorSupplier",
    get=gives(lambda g: g.stream.process_values(lambda: DoublingValues()), *DOUBLED),
)
KEYS = KeyValues("keys", TEXT, LONG)
of(
    "processor.api.ProcessingContext",
    getStateStore=in_process(lambda c, r: c.store("keys").get("a"), None, KEYS),
    schedule=several(is_(lambda: ticked(STREAM), [0, 10, 20]), is_(lambda: ticked(WALL), [25])),
    recordMetadata=in_process(lambda c, r: tuple(c.record_metadata), ("in", 0, 2), piped=PIPED),
    currentStreamTimeMs=in_process(lambda c, r: c.current_stream_time_ms(), 20, piped=[PIPED[2], PIPED[0]]),
    currentSystemTimeMs=is_(lambda: current_system_time(), [0, 25]),
    commit=in_process(lambda c, r: c.commit(), None),
    taskId=in_process(lambda c, r: c.task_id(), "0_0"),
)


def current_system_time() -> list:
    seen: list = []

    class Asking(Processor):
        def process(self, record):
            seen.append(self.context.current_system_time_ms())

    given = Given()
    given.stream.process(Asking)
    driver = TopologyTestDriver(given.builder.build(), initial_wall_clock_time=0)
    driver.pipe_input("in", "a", 1, 0)
    driver.run()
    driver.advance_wall_clock_time(25)
    driver.pipe_input("in", "a", 1, 0)
    driver.run()
    return seen


def forwarded_to_one() -> list[tuple]:
    class Choosing(Processor):
        def process(self, record):
            self.context.forward(record, child="right")

    topology = with_processor(Choosing).add_sink("left", "out-left", "work").add_sink("right", "out", "work")
    return [*assembled(topology, "out-left"), *assembled(topology)]


def changed(change) -> list:
    """Key, value, time and headers of a record that a processor changed."""

    class Changing(Processor):
        def process(self, record):
            self.context.forward(change(record))

    given = Given()
    given.stream.process(Changing).to("out")
    driver = TopologyTestDriver(given.builder.build())
    driver.pipe_input("in", "a", 1, 5, headers=HEAD)
    return [(one.key, one.value, one.timestamp_ms, one.headers) for one in driver.read_outputs("out")]


def changed_values(change) -> list:
    class Changing(FixedKeyProcessor):
        def process(self, record):
            self.context.forward(change(record))

    given = Given()
    given.stream.process_values(Changing).to("out")
    driver = TopologyTestDriver(given.builder.build())
    driver.pipe_input("in", "a", 1, 5, headers=HEAD)
    return [(one.key, one.value, one.timestamp_ms, one.headers) for one in driver.read_outputs("out")]


of("processor.api.ProcessorContext", forward=is_(forwarded_to_one, [("a", 1), ("b", 2), ("a", 3)]))
of(
    "processor.api.FixedKeyProcessorContext",
    forward=gives(lambda g: g.stream.process_values(DoublingValues), *DOUBLED),
)
for name, kind, change in (
    ("Record", Processor, changed),
    ("FixedKeyRecord", FixedKeyProcessor, changed_values),
):
    of(
        f"processor.api.{name}",
        key=in_process(lambda c, r: r.key, "a", kind=kind),
        value=in_process(lambda c, r: r.value, 1, kind=kind),
        timestamp=in_process(lambda c, r: r.timestamp_ms, 10, piped=PIPED[1:2], kind=kind),
        headers=in_process(lambda c, r: tuple(r.headers), HEAD, headers=HEAD, kind=kind),
        withValue=is_(lambda change=change: change(lambda r: r.with_value(9)), [("a", 9, 5, HEAD)]),
        withTimestamp=is_(lambda change=change: change(lambda r: r.with_timestamp(9)), [("a", 1, 9, HEAD)]),
        withHeaders=is_(lambda change=change: change(lambda r: r.with_headers(())), [("a", 1, 5, ())]),
    )
of("processor.api.Record", withKey=is_(lambda: changed(lambda r: r.with_key("z")), [("z", 1, 5, HEAD)]))
of(
    "processor.api.RecordMetadata",
    topic=in_process(lambda c, r: c.record_metadata.topic, "in"),
    partition=in_process(lambda c, r: c.record_metadata.partition, 0),
    offset=in_process(lambda c, r: c.record_metadata.offset, 2, piped=PIPED),
)
of("processor.Cancellable", cancel=is_(lambda: ticked(STREAM, cancel=True), []))
of("processor.Punctuator", punctuate=is_(lambda: ticked(STREAM), [0, 10, 20]))
of("processor.TimestampExtractor", extract=ROWS["kstream.Consumed.withTimestampExtractor"])
of(
    "processor.TopicNameExtractor",
    extract=gives(lambda g: g.stream.to(lambda k, v, context: f"{context.topic}-{v}"), ("b", 2), topic="in-2"),
)
of("processor.StreamPartitioner", partitions=ROWS["kstream.Produced.withStreamPartitioner"])


of(
    "processor.ConnectedStoreProvider",
    stores=gives(lambda g: g.stream.process(counting(), [KeyValues("counts", TEXT, LONG)]), *COUNTED),
)


# --- stores --------------------------------------------------------------------------------------------------


def with_store(build, use, expected: Any, of: str = "s") -> Tried:
    """What ``use`` of a store gives in a processor."""
    return lambda: told(lambda context, record: use(context.store(of)), build()), expected


def keys_of(supplier) -> Tried:
    def use(store):
        for key, value in (("b", 2), ("a", 1)):
            store.put(key, value)
        return store.get("a"), store.get("z"), list(store.all())

    return with_store(
        lambda: Stores.key_value_store_builder(supplier("s"), TEXT, LONG), use, (1, None, [("a", 1), ("b", 2)])
    )


def windows_of(supplier) -> Tried:
    def use(store):
        store.put("a", 1, 100)
        return store.fetch("a", 100), store.fetch("a", 101), list(store.all())

    expected = (1, None, [(Windowed("a", 100, 110), 1)])
    return with_store(lambda: Stores.window_store_builder(supplier("s", "1h", 10), TEXT, LONG), use, expected)


def sessions_of(supplier, value: Any = 1, builder=Stores.session_store_builder) -> Tried:
    def use(store):
        store.put(Windowed("a", 5, 9), value)
        return list(store.fetch("a")), store.fetch_session("a", 5, 9)

    return with_store(lambda: builder(supplier("s", "1h"), TEXT, LONG), use, ([(Windowed("a", 5, 9), value)], value))


def put_and_got(builder, supplier, value: Any, *rest: int) -> Tried:
    def use(store):
        store.put("a", value, *rest)
        return store.get("a") if not rest else store.fetch("a", *rest)

    return with_store(lambda: builder(supplier, TEXT, LONG), use, value)


def versioned(store):
    store.put("a", 1, 10)
    store.put("a", 2, 20)
    return store.get("a").value, store.get("a", 15).value, store.get("a", 5)


VERSIONS = Stores.persistent_versioned_key_value_store("s", "1h")
of_versions = with_store(
    lambda: Stores.versioned_key_value_store_builder(VERSIONS, TEXT, LONG), versioned, (2, 1, None)
)
TIMED, HEADED = ValueAndTimestamp(1, 7), ValueTimestampHeaders(1, 7, HEAD)
S = Stores
of(
    "state.Stores",
    keyValueStoreBuilder=keys_of(S.in_memory_key_value_store),
    inMemoryKeyValueStore=keys_of(S.in_memory_key_value_store),
    persistentKeyValueStore=keys_of(S.persistent_key_value_store),
    persistentTimestampedKeyValueStore=put_and_got(
        S.timestamped_key_value_store_builder, S.persistent_timestamped_key_value_store("s"), TIMED
    ),
    persistentVersionedKeyValueStore=of_versions,
    inMemoryWindowStore=windows_of(S.in_memory_window_store),
    persistentWindowStore=windows_of(S.persistent_window_store),
    persistentTimestampedWindowStore=put_and_got(
        S.timestamped_window_store_builder, S.persistent_timestamped_window_store("s", "1h", 10), TIMED, 100
    ),
    inMemorySessionStore=sessions_of(S.in_memory_session_store),
    persistentSessionStore=sessions_of(S.persistent_session_store),
    persistentSessionStoreWithHeaders=sessions_of(
        S.persistent_session_store_with_headers, AggregationWithHeaders(1, HEAD), S.session_store_with_headers_builder
    ),
    persistentTimestampedKeyValueStoreWithHeaders=put_and_got(
        S.timestamped_key_value_store_with_headers_builder,
        S.persistent_timestamped_key_value_store_with_headers("s"),
        HEADED,
    ),
    persistentTimestampedWindowStoreWithHeaders=put_and_got(
        S.timestamped_window_store_with_headers_builder,
        S.persistent_timestamped_window_store_with_headers("s", "1h", 10),
        HEADED,
        100,
    ),
    sessionStoreBuilder=sessions_of(S.in_memory_session_store),
    sessionStoreWithHeadersBuilder=sessions_of(
        S.in_memory_session_store, AggregationWithHeaders(1, HEAD), S.session_store_with_headers_builder
    ),
    timestampedKeyValueStoreBuilder=put_and_got(
        S.timestamped_key_value_store_builder, S.in_memory_key_value_store("s"), TIMED
    ),
    timestampedKeyValueStoreWithHeadersBuilder=put_and_got(
        S.timestamped_key_value_store_with_headers_builder, S.in_memory_key_value_store("s"), HEADED
    ),
    timestampedWindowStoreBuilder=put_and_got(
        S.timestamped_window_store_builder, S.in_memory_window_store("s", "1h", 10), TIMED, 100
    ),
    timestampedWindowStoreWithHeadersBuilder=put_and_got(
        S.timestamped_window_store_with_headers_builder, S.in_memory_window_store("s", "1h", 10), HEADED, 100
    ),
    versionedKeyValueStoreBuilder=of_versions,
    windowStoreBuilder=windows_of(S.in_memory_window_store),
)


def in_both(build, fill, use, expected: Any) -> Tried:
    """What ``use`` of the filled store gives in a processor, and in the test driver."""

    def both() -> list:
        def in_a_processor(context, record):
            fill(context.store("s"))
            return _plain(use(context.store("s")))

        in_processor = told(in_a_processor, build())
        given = Given()
        given.stream.process(Doubling, [build()])
        driver = TopologyTestDriver(given.builder.build())
        store = driver.get_all_state_stores()["s"]
        fill(store)
        return [in_processor, _plain(use(store))]

    return both, [expected, expected]


def _plain(found: Any) -> Any:
    return found if isinstance(found, str | int | tuple | None) else list(found)


def letters(store) -> None:
    store.put_all([("b", 2), ("ab", 3), ("a", 1)])


def key_values(use, expected: Any) -> Tried:
    return in_both(
        lambda: Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"), TEXT, LONG),
        letters,
        use,
        expected,
    )


def and_all(store, answer: Any) -> tuple:
    return answer, tuple(store.all())


ALL = [("a", 1), ("ab", 3), ("b", 2)]
of(
    "state.ReadOnlyKeyValueStore",
    get=key_values(lambda s: (s.get("a"), s.get("z")), (1, None)),
    all=key_values(lambda s: s.all(), ALL),
    range=key_values(lambda s: s.range("ab", "b"), ALL[1:]),
    reverseAll=key_values(lambda s: s.reverse_all(), ALL[::-1]),
    reverseRange=key_values(lambda s: s.reverse_range("a", "ab"), [ALL[1], ALL[0]]),
    prefixScan=key_values(lambda s: s.prefix_scan("a", TEXT), ALL[:2]),
    approximateNumEntries=key_values(lambda s: s.approximate_num_entries(), 3),
)
of(
    "state.KeyValueStore",
    put=key_values(lambda s: and_all(s, (s.put("b", None), s.put("a", 9))), ((None, None), (("a", 9), ("ab", 3)))),
    putIfAbsent=key_values(
        lambda s: (s.put_if_absent("a", 9), s.put_if_absent("z", 9), s.get("a"), s.get("z")), (1, None, 1, 9)
    ),
    delete=key_values(lambda s: and_all(s, (s.delete("a"), s.delete("z"))), ((1, None), tuple(ALL[1:]))),
    putAll=key_values(lambda s: and_all(s, s.put_all([("a", 7), ("b", None)])), (None, (("a", 7), ("ab", 3)))),
)


def hours(store) -> None:
    for key, value, at in (("a", 1, 100), ("b", 2, 100), ("a", 3, 200)):
        store.put(key, value, at)


def in_windows(use, expected: Any) -> Tried:
    def build():
        return Stores.window_store_builder(Stores.in_memory_window_store("s", "1h", 10), TEXT, LONG)

    return in_both(build, hours, use, expected)


A1, B1, A2 = ((Windowed(key, at, at + 10), value) for key, value, at in (("a", 1, 100), ("b", 2, 100), ("a", 3, 200)))
of(
    "state.ReadOnlyWindowStore",
    all=in_windows(lambda s: s.all(), [A1, B1, A2]),
    backwardAll=in_windows(lambda s: s.backward_all(), [A2, B1, A1]),
    fetch=several(
        in_windows(lambda s: s.fetch("a", 200), 3),
        in_windows(lambda s: s.fetch("a", 0, 200), [(100, 1), (200, 3)]),
        in_windows(lambda s: s.fetch("a", "b", 100, 150), [A1, B1]),
    ),
    backwardFetch=several(
        in_windows(lambda s: s.backward_fetch("a", 0, 200), [(200, 3), (100, 1)]),
        in_windows(lambda s: s.backward_fetch("a", "b", 100, 150), [B1, A1]),
    ),
    fetchAll=in_windows(lambda s: s.fetch_all(100, 150), [A1, B1]),
    backwardFetchAll=in_windows(lambda s: s.backward_fetch_all(100, 200), [A2, B1, A1]),
)
of(
    "state.WindowStore",
    fetch=several(
        in_windows(lambda s: s.fetch_range("a", 0, 200), [(100, 1), (200, 3)]),
        in_windows(lambda s: s.fetch_keys("a", "b", 100, 150), [A1, B1]),
    ),
    backwardFetch=several(
        in_windows(lambda s: s.backward_fetch_range("a", 0, 200), [(200, 3), (100, 1)]),
        in_windows(lambda s: s.backward_fetch_keys("a", "b", 100, 150), [B1, A1]),
    ),
    fetchAll=in_windows(lambda s: s.fetch_all(100, 150), [A1, B1]),
    backwardFetchAll=in_windows(lambda s: s.backward_fetch_all(100, 200), [A2, B1, A1]),
    put=in_windows(lambda s: and_all(s, s.put("a", None, 100)), (None, (B1, A2))),
)


def visits(store) -> None:
    for key, begin, end, value in (("a", 0, 10, 1), ("b", 5, 15, 2), ("a", 50, 60, 3)):
        store.put(Windowed(key, begin, end), value)


def in_sessions(use, expected: Any) -> Tried:
    def build():
        return Stores.session_store_builder(Stores.in_memory_session_store("s", "1h"), TEXT, LONG)

    return in_both(build, visits, use, expected)


V1, V2, V3 = (Windowed("a", 0, 10), 1), (Windowed("b", 5, 15), 2), (Windowed("a", 50, 60), 3)
FOUND = several(
    in_sessions(lambda s: s.find_sessions("a", 10, 49), [V1]),
    in_sessions(lambda s: s.find_sessions("a", 11, 100), [V3]),
    in_sessions(lambda s: s.find_sessions("a", "b", 10, 49), [V1, V2]),
    in_sessions(lambda s: s.find_sessions(5, 15), [V1, V2]),
)
FOUND_BACKWARD = several(
    in_sessions(lambda s: s.backward_find_sessions("a", 0, 100), [V3, V1]),
    in_sessions(lambda s: s.backward_find_sessions("a", "b", 10, 49), [V2, V1]),
)
of(
    "state.ReadOnlySessionStore",
    fetch=several(
        in_sessions(lambda s: s.fetch("a"), [V1, V3]), in_sessions(lambda s: sorted(s.fetch("a", "b")), [V1, V3, V2])
    ),
    backwardFetch=several(
        in_sessions(lambda s: s.backward_fetch("a"), [V3, V1]),
        in_sessions(lambda s: sorted(s.backward_fetch("a", "b")), [V1, V3, V2]),
    ),
    fetchSession=in_sessions(lambda s: (s.fetch_session("a", 0, 10), s.fetch_session("a", 0, 11)), (1, None)),
    findSessions=FOUND,
    backwardFindSessions=FOUND_BACKWARD,
)
of(
    "state.SessionStore",
    fetchSession=in_sessions(lambda s: (s.fetch_session("a", 0, 10), s.fetch_session("a", 0, 11)), (1, None)),
    findSessions=FOUND,
    backwardFindSessions=FOUND_BACKWARD,
    put=in_sessions(lambda s: (s.put(Windowed("a", 0, 10), 9), s.fetch_session("a", 0, 10)), (None, 9)),
    remove=in_sessions(lambda s: (s.remove(Windowed("a", 0, 10)), tuple(s.fetch("a"))), (None, (V3,))),
)


def history(use, expected: Any) -> Tried:
    def fill(store):
        store.put("a", 1, 10)
        store.put("a", 2, 20)

    return in_both(lambda: Stores.versioned_key_value_store_builder(VERSIONS, TEXT, LONG), fill, use, expected)


of(
    "state.VersionedKeyValueStore",
    get=history(lambda s: (*s.get("a")[:2], *s.get("a", 15)[:2]), (2, 20, 1, 10)),
    put=history(lambda s: (s.put("a", 5, 15), s.get("a", 17).value, s.get("a").value)[1:], (5, 2)),
    delete=history(lambda s: (s.delete("a", 30).value, s.get("a"), s.get("a", 29).value), (2, None, 2)),
)


# --- the test driver -----------------------------------------------------------------------------------------


def topics(pipe, read) -> Any:
    given = Given()
    given.stream.to("out")
    driver = TopologyTestDriver(given.builder.build())
    pipe(driver.create_input_topic("in", TEXT, LONG, start_timestamp=100, auto_advance=10))
    return read(driver.create_output_topic("out", TEXT, LONG))


def three(topic) -> None:
    topic.pipe_key_value_list([("a", 1), ("b", 2), ("a", 3)])


def piped_in(pipe, *expected: tuple) -> Tried:
    def read(topic):
        return [(one.key, one.value, one.timestamp_ms, one.headers) for one in topic.read_records_to_list()]

    return lambda: topics(pipe, read), list(expected)


def read_out(read, expected: Any) -> Tried:
    return lambda: topics(three, read), expected


def then(first, second):
    return lambda topic: (first(topic), second(topic))[1]


of(
    "TestInputTopic",
    advanceTime=piped_in(then(lambda t: t.advance_time(5), lambda t: t.pipe_input("a", 1)), ("a", 1, 105, ())),
    pipeInput=several(
        piped_in(lambda t: t.pipe_input("a", 1), ("a", 1, 100, ())),
        piped_in(lambda t: t.pipe_input(1), (None, 1, 100, ())),
        piped_in(lambda t: t.pipe_input("a", 1, 7), ("a", 1, 7, ())),
        piped_in(lambda t: t.pipe_input(TestRecord("a", 1, 8, HEAD)), ("a", 1, 8, HEAD)),
    ),
    pipeKeyValueList=several(
        piped_in(lambda t: t.pipe_key_value_list([("a", 1), ("b", 2)]), ("a", 1, 100, ()), ("b", 2, 110, ())),
        piped_in(lambda t: t.pipe_key_value_list([("a", 1), ("b", 2)], 5, 3), ("a", 1, 5, ()), ("b", 2, 8, ())),
    ),
    pipeRecordList=piped_in(
        lambda t: t.pipe_record_list([TestRecord("a", 1, 8, HEAD), TestRecord("b", 2)]),
        ("a", 1, 8, HEAD),
        ("b", 2, 100, ()),
    ),
    pipeValueList=several(
        piped_in(lambda t: t.pipe_value_list([1, 2]), (None, 1, 100, ()), (None, 2, 110, ())),
        piped_in(lambda t: t.pipe_value_list([1, 2], 5, 3), (None, 1, 5, ()), (None, 2, 8, ())),
    ),
)
PAIRS = [("a", 1), ("b", 2), ("a", 3)]
of(
    "TestOutputTopic",
    getQueueSize=read_out(lambda t: (t.get_queue_size(), t.read_value(), t.get_queue_size()), (3, 1, 2)),
    isEmpty=read_out(lambda t: (t.is_empty(), t.read_values_to_list(), t.is_empty()), (False, [1, 2, 3], True)),
    readKeyValue=read_out(lambda t: t.read_key_value(), ("a", 1)),
    readKeyValuesToList=read_out(lambda t: t.read_key_values_to_list(), PAIRS),
    readKeyValuesToMap=read_out(lambda t: t.read_key_values_to_map(), {"a": 3, "b": 2}),
    readRecord=read_out(lambda t: t.read_record(), TestRecord("a", 1, 100)),
    readRecordsToList=read_out(lambda t: [one.timestamp_ms for one in t.read_records_to_list()], [100, 110, 120]),
    readValue=read_out(lambda t: t.read_value(), 1),
    readValuesToList=read_out(lambda t: t.read_values_to_list(), [1, 2, 3]),
)


def stored(build, look) -> Any:
    given = Given()
    build(given)
    return look(driven(given.builder.build(), PIPED))


def of_processor(builder, put) -> Callable[[Given], None]:
    """A processor that puts into its store "s" what ``put`` says."""

    class Putting(Processor):
        def process(self, record):
            put(self.context.store("s"), record)

    return lambda given: given.stream.process(Putting, [builder])


COUNTS = lambda g: g.grouped.count(Materialized.as_("s"))  # noqa: E731
IN_WINDOWS = lambda g: g.grouped.windowed_by(TEN).count(Materialized.as_("s"))  # noqa: E731
IN_SESSIONS = lambda g: g.grouped.windowed_by(GAP).count(Materialized.as_("s"))  # noqa: E731
HEADED_KEYS = of_processor(
    Stores.timestamped_key_value_store_with_headers_builder(Stores.in_memory_key_value_store("s"), TEXT, LONG),
    lambda store, record: store.put(record.key, ValueTimestampHeaders(record.value, 7, HEAD)),
)
HEADED_WINDOWS = of_processor(
    Stores.timestamped_window_store_with_headers_builder(Stores.in_memory_window_store("s", "1h", 10), TEXT, LONG),
    lambda store, record: store.put(record.key, ValueTimestampHeaders(record.value, 7, HEAD), 100),
)
HEADED_SESSIONS = of_processor(
    Stores.session_store_with_headers_builder(Stores.in_memory_session_store("s", "1h"), TEXT, LONG),
    lambda store, record: store.put(Windowed(record.key, 5, 9), AggregationWithHeaders(record.value, HEAD)),
)


def looked(build, look, expected: Any) -> Tried:
    return lambda: stored(build, look), expected


def closed() -> str:
    driver = TopologyTestDriver(Topology().add_source("r", NUMBERS, "in").add_sink("w", "out", "r"))
    driver.close()
    try:
        driver.pipe_input("in", "a", 1, 0)
    except Exception as error:
        return "closed" if "closed" in str(error) else str(error)
    return "open"


of(
    "TopologyTestDriver",
    createInputTopic=piped_in(lambda t: t.pipe_input("a", 1), ("a", 1, 100, ())),
    createOutputTopic=read_out(lambda t: t.read_key_value(), ("a", 1)),
    advanceWallClockTime=is_(lambda: ticked(WALL), [25]),
    close=is_(closed, "closed"),
    getAllStateStores=looked(COUNTS, lambda d: list(d.get_all_state_stores()), ["s"]),
    getKeyValueStore=looked(COUNTS, lambda d: d.get_key_value_store("s").get("a"), 2),
    getSessionStore=looked(
        IN_SESSIONS, lambda d: list(d.get_session_store("s").fetch("a")), [(Windowed("a", 0, 20), 2)]
    ),
    getSessionStoreWithHeaders=looked(
        HEADED_SESSIONS,
        lambda d: d.get_session_store_with_headers("s").fetch_session("b", 5, 9),
        AggregationWithHeaders(2, HEAD),
    ),
    getStateStore=looked(COUNTS, lambda d: d.store("s").get("a"), 2),
    getTimestampedKeyValueStore=looked(
        COUNTS, lambda d: d.get_timestamped_key_value_store("s").get("a"), ValueAndTimestamp(2, 20)
    ),
    getTimestampedKeyValueStoreWithHeaders=looked(
        HEADED_KEYS,
        lambda d: d.get_timestamped_key_value_store_with_headers("s").get("b"),
        ValueTimestampHeaders(2, 7, HEAD),
    ),
    getTimestampedWindowStore=looked(
        IN_WINDOWS, lambda d: d.get_timestamped_window_store("s").fetch("a", 20), ValueAndTimestamp(1, 20)
    ),
    getTimestampedWindowStoreWithHeaders=looked(
        HEADED_WINDOWS,
        lambda d: d.get_timestamped_window_store_with_headers("s").fetch("b", 100),
        ValueTimestampHeaders(2, 7, HEAD),
    ),
    getVersionedKeyValueStore=looked(
        lambda g: g.builder.table("in", NUMBERS, Materialized.versioned("s", "1h")),
        lambda d: tuple(d.get_versioned_key_value_store("s").get("a", 5)),
        (1, 0, 20),
    ),
    getWindowStore=looked(IN_WINDOWS, lambda d: d.get_window_store("s").fetch("a", 20), 1),
    metrics=looked(COUNTS, lambda d: sorted(d.metrics())[:0], []),
    producedTopicNames=looked(lambda g: g.stream.to("out"), lambda d: d.produced_topic_names(), {"out"}),
)


# --- overloads with Kafka's objects of options ---------------------------------------------------------------

X, Y = Named.as_("x"), Materialized.as_("y")
LESS: Callable[[Any, Any, Any], Any] = lambda key, value, total: total - value  # noqa: E731
OVERLOADS: dict[str, Tried] = {
    "KTable.filter": gives(lambda g: g.table.filter("value > 1", X, Y), ("a", None), ("b", 2), ("a", 3)),
    "KTable.mapValues": gives(
        lambda g: g.table.map_values(lambda k, v: v, X, Y, returns=LONG), ("a", 1), ("b", 2), ("a", 3)
    ),
    "KTable.transformValues": gives(
        lambda g: g.table.transform_values(WithKey, Y, X, returns=LONG), ("a", 10), ("b", 21), ("a", 30)
    ),
    "KTable.toStream": gives(
        lambda g: g.table.to_stream(lambda k, v: k, X, returns=TEXT), ("a", 1), ("b", 2), ("a", 3)
    ),
    "KTable.join": gives(lambda g: g.table.join(g.other_table, SUM, X, Y, **NUMBER), ("a", 11), of=TOLD),
    "KTable.join by foreign key": gives(
        foreign(TableJoined.as_("fk"), Y), ("o", "c1"), of=[("other", "c", 1, 0), ("in", "o", "c", 1)]
    ),
    "KStream.join": gives(
        lambda g: g.stream.join(g.other, lambda k, left, right: left + right, NEAR, StreamJoined.as_("x"), **NUMBER),
        ("a", 11),
        of=MEETING,
    ),
    "KStream.join of a table": gives(
        lambda g: g.stream.join(g.other_table, lambda k, left, right: left + right, Joined.as_("x"), **NUMBER),
        ("a", 11),
        of=TOLD,
    ),
    "KStream.toTable": gives(lambda g: g.stream.to_table(X, Y), ("a", 1), ("b", 2), ("a", 3)),
    "KStream.process": gives(
        lambda g: (g.builder.add_state_store(KEYS), g.stream.process(counting("keys"), ["keys"], X))[1], *COUNTED
    ),
    "KGroupedStream.count": gives(lambda g: g.grouped.count(X, Y), *COUNTED),
    "KGroupedStream.reduce": gives(lambda g: g.grouped.reduce(SUM, X, Y), *SUMMED),
    "KGroupedStream.aggregate": gives(
        lambda g: g.grouped.aggregate(*AGGREGATED, X, Y, returns=LONG), ("a", 101), ("b", 102), ("a", 104)
    ),
    "SessionWindowedKStream.aggregate": gives(
        lambda g: g.grouped.windowed_by(GAP).aggregate(lambda: 0, AGGREGATED[1], MERGE, X, Y, returns=LONG),
        ("a", 0, 0, 1),
        ("a", 0, 0, None),
        ("a", 0, 5, 3),
        of=SESSIONS,
    ),
    "KGroupedTable.count": gives(lambda g: by_one_key(g).count(X, Y), ("all", 1), ("all", 2), ("all", 2)),
    "KGroupedTable.aggregate": gives(
        lambda g: by_one_key(g).aggregate(*AGGREGATED, LESS, X, Y, returns=LONG),
        ("all", 101),
        ("all", 103),
        ("all", 105),
    ),
    "CogroupedKStream.aggregate": gives(
        lambda g: both_counted(g).aggregate(lambda: 0, X, Y, returns=LONG), *TAKEN, of=TOLD
    ),
}


@pytest.mark.parametrize("call", OVERLOADS)
def test_a_call_with_a_name_and_a_store_gives_kafkas_answer(call):
    got, expected = OVERLOADS[call]

    assert got() == expected


def test_every_row_that_says_works_is_tried():
    assert sorted(ROWS) == sorted(row.method for row in rows() if row.state == "works")


@pytest.mark.parametrize("method", sorted(ROWS))
def test_a_method_that_works_gives_kafkas_answer(method):
    got, expected = ROWS[method]

    assert got() == expected
