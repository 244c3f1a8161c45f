"""Joins of streams and tables with tables: by key, by foreign key, with global tables, and joiners that see the key."""

from typing import Any

from kstreams_replay.jobs.topology import Consumed, JoinWindows, KTable, Materialized
from tests.kafka_suite.playing import INT_STRING, LONG, STRING, STRING_INT, STRINGS, Stage
from tests.kafka_suite.topologies import plays
from tests.kafka_suite.topologies.words import plus

INNER, LEFT, OUTER = "KTableKTableInnerJoinTest.", "KTableKTableLeftJoinTest.", "KTableKTableOuterJoinTest."

# --- tables --------------------------------------------------------------------------------------------------


@plays(f"{INNER}test*", f"{LEFT}test*", f"{OUTER}test*")
def of_two_tables(stage: Stage) -> None:
    """A grouping below makes the table send old values, where the test asks the table itself."""
    test = stage.tape.test
    one, other = stage.table("topic1", INT_STRING), stage.table("topic2", INT_STRING)
    join = one.join if test.startswith(INNER) else one.left_join if test.startswith(LEFT) else one.outer_join
    joined = join(other, plus, returns=STRING, materialized=Materialized() if "Queryable" in test else None)
    if ".testSendingOldValue" in test:
        joined.group_by("record_key").count()
    if stage.tape.channels():
        stage.watch(joined, "proc")
    else:
        stage.to(joined, "output")


@plays(f"{LEFT}shouldNotThrowIllegalStateExceptionWhenMultiCacheEvictions")
def of_many_tables(stage: Stage) -> None:
    """Of random records, whose results only the stores show."""
    numbers = Consumed(LONG, STRING)
    base = stage.table("agg", numbers, materialized=Materialized.as_("agg-base-store", store="in_memory"))
    stored = Materialized.as_("agg-store", store="in_memory")
    table = base.group_by(lambda key, value: key, returns_key=LONG).reduce(plus, plus, materialized=stored)
    names = ("One", "Two", "Three", "Four", "Five", "Six")
    one, two, three, four, five, six = (stage.table(f"table{name}", numbers) for name in names)
    eight = six.left_join(one.map_values("UPPER(value)"), plus, returns=STRING)
    for other in (one, two, three, four, five, eight):
        table = table.left_join(other, plus, returns=STRING)
    table.map_values("UPPER(value)")


FOREIGN = "KTableKTableForeignKeyJoinScenarioTest."


def paired(left: Any, right: Any) -> str:
    return f"({left},{right})"


@plays(f"{FOREIGN}shouldWorkWithDefault*")
def foreign_and_own_key(stage: Stage) -> None:
    left, right = stage.table("A", INT_STRING), stage.table("B", INT_STRING)
    key = "CAST(SPLIT_PART(value, '-', 1) AS INT)"
    by_foreign_key = left.join(right, paired, foreign_key=key, returns=STRING, materialized=Materialized.as_("asdf"))
    stored = Materialized() if "EquiJoinResult" in stage.tape.test else None
    stage.to(left.join(by_foreign_key, paired, returns=STRING, materialized=stored), "output")


@plays(f"{FOREIGN}shouldUseExpectedTopicsWithSerde")
def foreign_key_of_parts(stage: Stage) -> None:
    left, right = stage.table("left_table", INT_STRING), stage.table("right_table", INT_STRING)
    key = "CAST(SPLIT_PART(value, '|', 2) AS INT)"
    stage.to(left.join(right, paired, foreign_key=key, returns=STRING, materialized=Materialized()), "output-topic")


@plays(f"{FOREIGN}shouldWorkWithCompositeKey*")
def foreign_key_of_key(stage: Stage) -> None:
    left, right = stage.table("left_table"), stage.table("right_table")
    key = "SPLIT_PART(record_key, ':', 1)" if "BiFunction" in stage.tape.test else "SPLIT_PART(value, '|', 1)"
    joined = left.join(right, paired, foreign_key=key, returns=STRING, materialized=Materialized.as_("store"))
    stage.to(joined, "output")


# --- streams with tables -------------------------------------------------------------------------------------

STREAM_TABLE, STREAM_TABLE_LEFT = "KStreamKTableJoinTest.", "KStreamKTableLeftJoinTest."


@plays(f"{STREAM_TABLE}*", f"{STREAM_TABLE_LEFT}*")
def of_stream_and_table(stage: Stage) -> None:
    stream, test = stage.stream("streamTopic", INT_STRING), stage.tape.test
    if "GracePeriod" in test:
        table = stage.table("tableTopic2", INT_STRING, materialized=Materialized.versioned("V-grace", "5m"))
        stage.watch(stream.join(table, plus, returns=STRING, grace=2, name="Grace"))
        return
    table = stage.table("tableTopic", INT_STRING)
    join = stream.left_join if test.startswith(STREAM_TABLE_LEFT) else stream.join
    stage.watch(join(table, plus, returns=STRING))


GLOBAL, GLOBAL_LEFT = "KStreamGlobalKTableJoinTest.", "KStreamGlobalKTableLeftJoinTest."


def second_part(key: Any, value: str) -> str | None:
    parts = value.split(",")
    return parts[1] if len(parts) > 1 else None


@plays(f"{GLOBAL}*", f"{GLOBAL_LEFT}*")
def of_stream_and_global_table(stage: Stage) -> None:
    stream, table = stage.stream("streamTopic", INT_STRING), stage.builder.global_table("globalTableTopic", STRINGS)
    join = stream.left_join if stage.tape.test.startswith(GLOBAL_LEFT) else stream.join
    stage.watch(join(table, plus, selector=second_part, selector_returns=STRING, returns=STRING))


@plays("GlobalKTableJoinsTest.*")
def by_value(stage: Stage) -> None:
    table, stream = stage.builder.global_table("global", STRINGS), stage.stream("stream")
    join = stream.left_join if "Left" in stage.tape.test else stream.join
    stage.watch(join(table, plus, selector="value", returns=STRING))


# --- joiners that see the key --------------------------------------------------------------------------------

WITH_KEY = "KStreamImplValueJoinerWithKeyTest.shouldIncludeKeyIn"
SUM = "record_key || ':' || CAST(left + COALESCE(right, 0) AS STRING)"


@plays(f"{WITH_KEY}*")
def sums_with_key(stage: Stage) -> None:
    """The test reads all four topics in each of its topologies."""
    left, right = stage.stream("left", STRING_INT), stage.stream("right", STRING_INT)
    table: KTable = stage.table("ktableTopic", STRING_INT)
    global_table = stage.builder.global_table("globalTopic", STRING_INT)
    test = stage.tape.test.removeprefix(WITH_KEY)
    windows = JoinWindows.of_time_difference_and_grace(100, "24h")
    if "Global" in test:
        join = left.left_join if "Left" in test else left.join
        stage.to(join(global_table, SUM, selector="record_key"), "joined-result")
    elif "Table" in test:
        join = left.left_join if "Left" in test else left.join
        stage.to(join(table, SUM), "joined-result")
    else:
        join = left.outer_join if "Outer" in test else left.left_join if "Left" in test else left.join
        stage.to(join(right, SUM, windows), "joined-result")
