"""Topologies with loops as real applications have them, for tests that play them.

Retries have a counter and a topic of the dead. A processor writes tombstones into the topic of its table
(schedule-ktable-ttl). Orders come back when they are validated (ValidationsAggregatorService). Three sub-topologies
write to one another (matcher ← feeder ← recovery ← matcher). Beside them, joins and a repartition in a loop.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

import polars as pl

from kstreams_replay.expectations.operators.repartition_by_key import partitions_of
from kstreams_replay.jobs.functions.exception_handlers import PROCESSING, Handler, LogAndContinueExceptionHandler
from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor, PunctuationType, Record
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    Materialized,
    Serde,
    StreamsBuilder,
    Topology,
)
from tests.planted import LandedRecord

STRING = Serde.string()
TEXTS = Consumed(STRING, STRING)
ATTEMPTS = 3
TTL_MS = 20


def retries() -> Topology:
    """A value is "attempt:what"; what has an x fails, and one with an X is good at the second attempt."""
    builder = StreamsBuilder()
    records = builder.stream(["retry", "in"], TEXTS, name="records")
    tried = records.map_values(_tried, returns=STRING, name="try")
    tried.filter("value LIKE 'ok%'", name="good").to("out")
    failed = tried.filter("value NOT LIKE 'ok%'", name="failed")
    failed.filter(f"value < '{ATTEMPTS}'", name="again").to("retry", name="to-retry")
    failed.filter(f"value >= '{ATTEMPTS}'", name="dead").to("dlq")
    return builder.build()


def _tried(key: str, value: str) -> str:
    attempt, _, what = value.rpartition(":")
    number = int(attempt or 0) + 1
    return f"{number}:{what}" if "x" in what or ("X" in what and number < 2) else f"ok {what} at {number}"


class TimeToLive(Processor):
    """A tombstone of every key that nobody has written for TTL_MS of stream time (TTLEmitter)."""

    def init(self, context) -> None:
        super().init(context)
        self.written = context.store("written")
        context.schedule(TTL_MS, PunctuationType.STREAM_TIME, self._expire)

    def process(self, record) -> None:
        self.written.put(record.key, None if record.value is None else record.timestamp_ms)

    def _expire(self, time_ms: int) -> None:
        for key in [key for key, at_ms in self.written.all() if at_ms <= time_ms - TTL_MS]:
            self.context.forward(Record(key, None, time_ms))
            self.written.delete(key)


def time_to_live() -> Topology:
    """What others write has a value; tombstones are its own."""
    builder = StreamsBuilder()
    consumed = Consumed(STRING, STRING, others="value IS NOT NULL")
    table = builder.table("users", consumed, materialized=Materialized.as_("users"))
    written = KeyValues("written", STRING, Serde.long())
    table.to_stream().process(TimeToLive, [written], name="ttl").to("users")
    builder.stream("clicks", TEXTS).left_join(table, _pair, returns=STRING).to("named")
    return builder.build()


def validations() -> Topology:
    """An order is "created"; when both services have passed it, it comes back as "validated"."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(STRING, STRING, others="value LIKE 'created%'"))
    created = orders.filter("value LIKE 'created%'", name="created")
    created.map_values("'fraud'", name="fraud").to("validations")
    created.filter("value LIKE '%small'", name="small").map_values("'size'", name="size").to("validations")
    passed = builder.stream("validations", TEXTS).group_by_key().count(Materialized.as_("passed"))
    enough = passed.filter("value % 2 = 0", name="enough").to_stream()
    back = enough.join(created, _validated, JoinWindows.of_time_difference_and_grace(10, 5), returns=STRING)
    back.to("orders", name="back")
    orders.filter("value LIKE 'validated%'", name="validated").to("shipped")
    return builder.build()


def _validated(passed: int, order: str) -> str:
    return f"validated {order.removeprefix('created ')} ({passed})"


class Collects(Processor):
    """Forwards all that its key has had, and a number."""

    def init(self, context) -> None:
        super().init(context)
        self.seen = context.store(self.store)

    def process(self, record) -> None:
        self.seen.put(record.key, (self.seen.get(record.key) or "") + record.value)
        self.context.forward(record.with_value(self.seen.get(record.key)))


class Matches(Collects):
    store = "book"


class Recovers(Collects):
    store = "log"


def circle() -> Topology:
    """Orders are fed by the feeder; what the matcher cannot match is recovered, and fed again under another key."""
    builder = StreamsBuilder()
    fed = builder.stream("fed", TEXTS)
    matched = fed.process(Matches, [KeyValues("book", STRING, STRING)], name="matcher")
    matched.to("matched")
    lost = matched.filter("length(value) < 6 AND value LIKE '%x%'", name="lost")
    lost.select_key("value", name="by-value").map_values("left(value, 1)", name="short").to("recovery")
    recovered = builder.stream("recovery", TEXTS).merge(builder.stream("returns", TEXTS))
    known = recovered.process(Recovers, [KeyValues("log", STRING, STRING)], name="recoverer")
    known.filter("length(value) < 4", name="few").to("feeder")
    orders, feeder = builder.stream("orders", TEXTS), builder.stream("feeder", TEXTS)
    orders.merge(feeder.select_key("left(record_key, 1)", name="home")).to("fed")
    return builder.build()


class Repeats(Collects):
    """At every tick of the wall clock, what a key had last."""

    store = "last"

    def init(self, context) -> None:
        super().init(context)
        context.schedule(5, PunctuationType.WALL_CLOCK_TIME, self._repeat)

    def process(self, record) -> None:
        self.seen.put(record.key, record.value)
        if record.value == "x!":
            self._repeat(record.timestamp_ms)

    def _repeat(self, time_ms: int) -> None:
        for key, value in list(self.seen.all()):
            self.context.forward(Record(key, f"{value}!", time_ms))


def repeated_by_the_clock() -> Topology:
    """What a tick sends comes back; the first time it is sent once more at once."""
    builder = StreamsBuilder()
    records = builder.stream(["in", "again"], TEXTS)
    records.process(Repeats, [KeyValues("last", STRING, STRING)], name="repeats").to("again")
    return builder.build()


def begun_first(handler: Handler | str = "LogAndFailExceptionHandler", fails_in: str = "joiner") -> Topology:
    """What "begin" begins goes round twice through the topic of a table; what uses a key before fails in a function.
    So everything fails until the topic has brought that.
    """
    builder = StreamsBuilder(config={PROCESSING: handler})
    records = builder.stream("in", TEXTS)
    begun = builder.table("begun", Consumed(STRING, STRING), materialized=Materialized.as_("begun"))
    records.filter("value = 'begin'", name="begins").map_values("'b'").to("begun")
    begun.to_stream().filter("value = 'b'", name="once").map_values("'bb'", name="twice").to("begun")
    uses = records.filter("value <> 'begin'", name="uses")
    if fails_in == "joiner":
        uses.left_join(begun, _of_begun, returns=STRING, name="use").to("used")
    else:
        both = begun.to_stream().filter("value <> 'b'", name="whole").merge(uses)
        both.group_by_key().aggregate(dict, _use, returns=Serde.json("n int"), name="use").to_stream().to("used")
    return builder.build()


def _of_begun(use: str, begun: str | None) -> str:
    if begun != "bb":
        raise ValueError("not begun")
    return use + begun


def _use(key: str, value: str, aggregate: dict[str, int]) -> dict[str, int]:
    return {"n": aggregate["n"] + 1} if value != "bb" else {"n": 0}


def begun_first_or_dropped() -> Topology:
    return begun_first(LogAndContinueExceptionHandler)


def joins() -> Topology:
    """A join by foreign key whose results come back as records of the left table, and counts below a repartition that
    come back as records of the right one.
    """
    builder = StreamsBuilder()
    records = builder.stream(["back", "in"], TEXTS)
    counts = records.group_by("value").count(Materialized.as_("counts")).to_stream()
    left = records.to_table(materialized=Materialized.as_("left"))
    right = builder.table("right", Consumed(STRING, STRING, others=True), materialized=Materialized.as_("right"))
    joined = left.join(right, _pair, foreign_key="left(value, 1)", returns=STRING).to_stream()
    joined.to("joined")
    joined.filter("length(value) < 8").map_values("right(value, 1) || value").to("back")
    counts.filter("value = 3").map_values("'k'", name="third").to("right")
    counts.to("counted")
    return builder.build()


def _pair(left: object, right: object) -> str:
    return f"{left}+{right}"


# --- their records ---------------------------------------------------------------------------------------------

PARTITIONS, RECORDS = 2, 24


class Application(NamedTuple):
    """``values``: of the records of each topic that is landed; ``outputs`` that have records."""

    topology: Callable[[], Topology]
    values: dict[str, list[str]]
    outputs: tuple[str, ...]


APPLICATIONS = {
    "retries": Application(retries, {"in": ["a", "x", "X"]}, ("retry", "out", "dlq")),
    "time to live": Application(time_to_live, {"users": ["u", "v"], "clicks": ["c"]}, ("users", "named")),
    "validations": Application(
        validations, {"orders": ["created small", "created big"]}, ("orders", "validations", "shipped")
    ),
    "joins": Application(
        joins, {"in": ["a", "b", "ab", "k"], "right": ["1", "2", "3"]}, ("joined", "back", "right", "counted")
    ),
    "begun first": Application(begun_first_or_dropped, {"in": ["begin", "1", "2"]}, ("begun", "used")),
    "circle": Application(
        circle, {"orders": ["x", "y", "xy"], "returns": ["r", "x"]}, ("fed", "matched", "recovery", "feeder")
    ),
}


def tape(
    values: list[str], seed: int, *, records: int = RECORDS, is_late: bool = True, partitions: int = PARTITIONS
) -> list[LandedRecord]:
    dice, now_ms, found = random.Random(seed), 0, []
    for _ in range(records):
        now_ms += dice.randrange(1, 8)
        key, behind_ms = dice.choice("abcd").encode(), dice.randrange(15) if is_late and dice.random() < 0.3 else 0
        partition = int(partitions_of(pl.Series([key]), partitions)[0])
        found.append(LandedRecord(partition, key, dice.choice(values).encode(), max(now_ms - behind_ms, 0)))
    return found
