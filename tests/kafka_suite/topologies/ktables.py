"""KTable…Test: sources, steps, aggregates and transformers of tables."""

from typing import Any

from kstreams_replay import ValueTransformerWithKey
from kstreams_replay.jobs.topology import KTable, Materialized
from tests.kafka_suite.playing import INT, INT_STRING, STRING, STRING_INT, Stage
from tests.kafka_suite.topologies import plays
from tests.kafka_suite.topologies.words import added, removed, text, zero

SOURCE, VALUES, AGGREGATE = "KTableSourceTest.", "KTableMapValuesTest.", "KTableAggregateTest."
IMPL, TRANSFORM = "KTableImplTest.", "KTableTransformValuesTest."
NUMBER = "CAST(value AS INT)"

# --- sources and steps ---------------------------------------------------------------------------------------


@plays(f"{SOURCE}testKTable")
def source(stage: Stage) -> None:
    stage.watch(stage.table("topic1", STRING_INT))


@plays(f"{SOURCE}kTableShouldLogAndMeterOnSkippedRecords", f"{SOURCE}kTableShouldLogOnOutOfOrder")
def logged(stage: Stage) -> None:
    stage.table("topic", materialized=Materialized.as_("store") if "OutOfOrder" in stage.tape.test else None)


@plays(f"{SOURCE}testValueGetter")
def looked_into(stage: Stage) -> None:
    stage.table("topic1", materialized=Materialized.as_("store"))


@plays(f"{SOURCE}testNotSendingOldValue", f"{SOURCE}testSendingOldValue")
def old_values(stage: Stage) -> None:
    stage.watch(stage.table("topic1"), "proc1")


@plays("KTableMapKeysTest.testMapKeysConvertingToStream")
def new_keys(stage: Stage) -> None:
    names = {1: "ONE", 2: "TWO", 3: "THREE"}
    stage.watch(stage.table("topic_map_keys", INT_STRING).to_stream(lambda key, value: names.get(key), returns=STRING))


@plays(f"{VALUES}testKTable", f"{VALUES}testQueryableKTable")
def first_digit(stage: Stage) -> None:
    stored = Materialized.as_("anyName") if "Queryable" in stage.tape.test else None
    table = stage.table("topic1")
    stage.watch(table.map_values(lambda key, value: ord(value[0]) - 48, returns=INT, materialized=stored))


@plays(f"{VALUES}testQueryableValueGetter")
def stored_numbers(stage: Stage) -> None:
    table = stage.table("topic1")
    two, three = sorted(name for name in stage.tape.line["stores"] if "topic1" not in name)
    table.map_values(NUMBER, materialized=Materialized.as_(two))
    table.map_values(f"-{NUMBER}", materialized=Materialized.as_(three))
    table.map_values(NUMBER)


@plays(f"{VALUES}testNotSendingOldValue", f"{VALUES}should*EnableSendingOldValuesOnParent*")
def numbers(stage: Stage) -> None:
    table = stage.table("topic1")
    stored = Materialized.as_("bob") if stage.tape.test.endswith("ValuesMaterialized") else None
    stage.watch(table.map_values(NUMBER, materialized=stored), "proc")


@plays(f"{IMPL}testKTable", f"{IMPL}testMaterializedKTable")
def steps(stage: Stage) -> None:
    stored = Materialized.as_("fred") if "Materialized" in stage.tape.test else None
    table = stage.table("topic1", materialized=stored)
    stage.watch(table)
    numbers = table.map_values(NUMBER)
    stage.watch(numbers)
    stage.watch(numbers.filter("value % 2 = 0"))
    stage.to(table, "topic2")
    stage.watch(stage.table("topic2"))


# --- aggregates ----------------------------------------------------------------------------------------------

IN_MEMORY = Materialized(store="in_memory")


def _table(stage: Stage) -> KTable:
    topic = next(iter(stage.tape.line["inputs"]))
    if "VersionedStore" in stage.tape.test:
        return stage.table(topic, materialized=Materialized.versioned("versioned", "5m"))
    return stage.table(topic, materialized=IN_MEMORY)


@plays(f"{AGGREGATE}testAggBasic", f"{AGGREGATE}testAggRepartition", f"{AGGREGATE}testAggOfVersionedStore")
def strings(stage: Stage) -> None:
    """In the second and the third, keys that are called null have none, and the others are their values."""

    def key_of(key: str, value: str) -> str | None:
        if stage.tape.test.endswith("testAggBasic"):
            return key
        return None if key in ("null", "NULL") else value

    grouped = _table(stage).group_by(key_of, returns_key=STRING)
    stored = Materialized.as_("topic1-Canonized", store="in_memory")
    stage.watch(
        grouped.aggregate(initializer=zero, adder=added, subtractor=removed, returns=STRING, materialized=stored)
    )


@plays(f"{AGGREGATE}testCount*")
def counts(stage: Stage) -> None:
    stored = Materialized.as_("count", store="in_memory") if stage.tape.test.endswith("testCount") else IN_MEMORY
    stage.watch(_table(stage).group_by("value").count(materialized=stored))


@plays(f"{AGGREGATE}testRemoveOldBeforeAddNew")
def letters(stage: Stage) -> None:
    grouped = _table(stage).group_by(
        lambda key, value: key[0], lambda key, value: key[1], returns_key=STRING, returns=STRING
    )
    table = grouped.aggregate(
        initializer=lambda: "",
        adder=lambda key, value, aggregate: aggregate + value,
        subtractor=lambda key, value, aggregate: aggregate.replace(value, ""),
        returns=STRING,
        materialized=Materialized.as_("someStore", store="in_memory"),
    )
    stage.watch(table)


@plays(
    f"{AGGREGATE}testShouldNotSendTransientStateIfNotUpgrading", f"{AGGREGATE}testNoEquals*", f"{AGGREGATE}*NoEquals*"
)
def counts_of_keys(stage: Stage) -> None:
    changes = "DifferentObject" in stage.tape.test
    grouped = _table(stage).group_by("value" if changes else "record_key")
    stage.to(grouped.count(materialized=IN_MEMORY), "output-topic")


# --- transformers --------------------------------------------------------------------------------------------


class Exclaims(ValueTransformerWithKey):
    def transform(self, key: Any, value: Any) -> str:
        return f"{key}->{text(value)}!"


class Lengths(ValueTransformerWithKey):
    def transform(self, key: Any, value: Any) -> int | None:
        return None if value is None else len(value)


@plays(f"{TRANSFORM}shouldTransformValuesWithKey", f"{TRANSFORM}shouldTransformValuesWithKeyAndMaterialize")
def exclaimed(stage: Stage) -> None:
    """The test's transformer has a store that it never uses."""
    stored = Materialized.as_("queryable-store") if "Materialize" in stage.tape.test else None
    stage.watch(stage.table("inputTopic").transform_values(Exclaims, materialized=stored))


@plays(f"{TRANSFORM}shouldCalculateCorrectOldValuesIfNotStateful*")
def sums_of_lengths(stage: Stage) -> None:
    lengths = stage.table("inputTopic").transform_values(Lengths, returns=INT)
    sums = lengths.group_by("record_key").reduce(lambda one, other: one + other, lambda one, other: one - other)
    stage.watch(sums.map_values("CAST(value AS STRING)"))


class Calls(ValueTransformerWithKey):
    """Number of the transformer's calls; it lasts as long as one run does."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.calls = 0

    def transform(self, key: Any, value: Any) -> int:
        self.calls += 1
        return self.calls


@plays(f"{TRANSFORM}shouldCalculateCorrectOldValuesIfMaterializedEvenIfStateful")
def sums_of_calls(stage: Stage) -> None:
    stored = Materialized.as_("queryable-store")
    calls = stage.table("inputTopic").transform_values(Calls, returns=INT, materialized=stored)
    sums = calls.group_by("record_key").reduce(lambda one, other: one + other, lambda one, other: one - other)
    stage.watch(sums.map_values("CAST(value AS STRING)"))
