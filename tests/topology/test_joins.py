"""Joins: what they give, what they are made of, and what they refuse."""

import pytest

from kstreams_replay.jobs.graph.nodes import RepartitionNode
from kstreams_replay.jobs.topology import Consumed, JoinWindows, Materialized, Serde, StreamsBuilder, TimeWindows
from kstreams_replay.state.errors import ConfigError
from tests.topology.streams import LONG, LONGS, STRING, refused, stream, table, versioned

NEAR = JoinWindows.of_time_difference_and_grace(5, 1)


def pair(builder: StreamsBuilder):
    return stream("a", builder), stream("b", builder)


def global_table(builder: StreamsBuilder):
    return builder.global_table("g", LONGS)


# --- types and settings ------------------------------------------------------------------------------------------


def test_a_join_of_streams_has_the_bounds_of_its_windows():
    left, right = pair(StreamsBuilder())
    made = left.left_join(
        right, "left + right", NEAR.before(-2).after("1s"), materialized=Materialized(store="in_memory")
    )

    node = made.node
    assert (node.kind, node.before_ms, node.after_ms, node.grace_ms) == ("left", -2, 1000, 1)
    assert (made.shape.key, made.shape.value, node.is_persistent) == (STRING, LONG, False)


def test_windows_of_before_have_the_rest_of_a_day_as_grace_and_no_store_of_those_that_wait():
    left, right = pair(StreamsBuilder())
    made = left.outer_join(right, "left + right", JoinWindows.of("5m").before("1m"), name="here")

    day_ms = 24 * 3_600_000
    assert (made.node.before_ms, made.node.after_ms, made.node.grace_ms) == (60_000, 300_000, day_ms - 600_000)
    assert made.node.emits_at_once
    assert "shared" not in str(made.graph.parts["here-merge"])
    assert JoinWindows.of("13h").grace_ms == 0
    assert JoinWindows.of("5m").grace("1s").grace_ms == 1_000
    assert refused(lambda: NEAR.grace(5), ConfigError) == (
        "JoinWindows grace: expected windows made by of(), got windows with a grace; give it to "
        "of_time_difference_and_grace()"
    )


def test_a_join_gives_a_value_or_a_struct():
    builder = StreamsBuilder()
    left, right = pair(builder)

    assert left.join(right, "right", NEAR).shape.value == LONG
    assert left.join(right, lambda one, other: "", NEAR, returns=STRING).shape.value == STRING
    named = left.join(right, windows=NEAR, sum="left + right", key="record_key")
    assert named.shape.value == Serde.json("sum long, key string")


def test_a_join_with_a_global_table_keeps_the_streams_key():
    builder = StreamsBuilder()
    made = stream("a", builder).select_key("value").join(global_table(builder), "right", selector=str_of("value"))

    assert made.shape.key == LONG
    assert made.is_rekeyed


def str_of(column: str) -> str:
    return f"CAST({column} AS VARCHAR)"


def test_a_join_of_tables_keeps_the_window():
    builder = StreamsBuilder()
    left, right = (s.group_by_key().windowed_by(TimeWindows.of_size(5)).count() for s in pair(builder))

    assert left.join(right, "left").shape.window == "time"


def test_a_join_may_have_a_complete_history():
    builder = StreamsBuilder()

    assert versioned("a", builder).join(versioned("b", builder), "left", history="complete").node.history == "complete"


def test_a_join_with_a_grace_keeps_a_buffer():
    builder = StreamsBuilder()
    node = stream("a", builder).join(versioned("v", builder).filter("TRUE"), "left", grace=100, name="waits").node

    assert (node.grace_ms, node.store) == (100, "waits-Buffer")


# --- null keys and repartition tables ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "keeps"),
    [
        (lambda s, b: s.group_by_key().count(), False),
        (lambda s, b: s.join(table("t", b), "left"), False),
        (lambda s, b: s.left_join(table("t", b), "left"), True),
        (lambda s, b: s.join(stream("b", b), "left", NEAR), False),
        (lambda s, b: s.left_join(stream("b", b), "left", NEAR), True),
        (lambda s, b: stream("b", b).outer_join(s, "left", NEAR), True),
        (lambda s, b: s.repartition().map_values("value").left_join(table("t", b), "left"), True),
        (lambda s, b: s.repartition().left_join(global_table(b), "left", selector="record_key"), True),
    ],
)
def test_null_keys_reach_a_left_or_outer_join_of_a_stream(use, keeps):
    builder = StreamsBuilder()
    use(stream("a", builder).select_key("record_key"), builder)
    nodes = builder.build().graph.nodes.values()

    assert [node.keeps_null_keys for node in nodes if isinstance(node, RepartitionNode)] == [keeps]


def test_a_foreign_key_join_sends_null_foreign_keys_and_answers_to_the_left_partition():
    builder = StreamsBuilder()
    made = table("a", builder).left_join(table("b", builder), "left", foreign_key=str_of("value"))
    there, back = (node for node in made.graph.nodes.values() if isinstance(node, RepartitionNode))

    assert (there.keeps_null_keys, there.target_of, back.target_of) == (True, None, "partition")
    assert made.node.is_table


# --- what they refuse ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (
            lambda a, b, builder: a.join(b, "left"),
            "here: expected windows for a join with a stream, got none; give windows=",
        ),
        (
            lambda a, b, builder: a.join(b, "left", 5),
            'here: expected JoinWindows, got 5; use JoinWindows.of_time_difference_with_no_grace("5m")',
        ),
        (
            lambda a, b, builder: a.join(table("t", builder), "left", "right"),
            "here: expected one joiner, and JoinWindows to join a stream, got a second step, 'right'; name the fields: "
            "join(other, item='left.item', price='right')",
        ),
        (
            lambda a, b, builder: a.join(b, "left", NEAR, grace=5),
            "here: expected a join with a stream, without grace, got grace=5; leave it out",
        ),
        (
            lambda a, b, builder: a.join(table("t", builder), "left", NEAR),
            f"here: expected a join with a table, without windows, got windows={NEAR!r}; leave it out",
        ),
        (
            lambda a, b, builder: a.join(global_table(builder), "left"),
            "here: expected selector for a join with a global table, got none; give selector=",
        ),
        (
            lambda a, b, builder: a.join(global_table(builder), "left", selector="value"),
            "KSTREAM-LEFTJOIN-0000000005: expected keys of Serde.string(), got Serde.long(); "
            "select keys of the table's type",
        ),
        (
            lambda a, b, builder: a.join(5, "left"),
            "here: expected a stream, a table or a global table, got int; join one of these",
        ),
        (
            lambda a, b, builder: a.outer_join(table("t", builder), "left"),
            "here: expected a stream, got KTable; join one of these",
        ),
        (
            lambda a, b, builder: a.join(b.select_key("value"), "left", NEAR),
            "here: expected keys of Serde.string() on both sides, got Serde.long(); select keys of one type",
        ),
        (
            lambda a, b, builder: a.join(b, windows=NEAR),
            'here: expected a joiner or named columns, got neither; give for example total="left + right"',
        ),
        (
            lambda a, b, builder: a.join(b, "left", NEAR, sum="left"),
            'here: expected a joiner or named columns, got both; give for example total="left + right"; '
            "a field called joiner is given by fields={'joiner': …}",
        ),
        (
            lambda a, b, builder: a.join(b, lambda one, other: 5, NEAR),
            "here: expected returns= beside a Python callable, got none; give the serde of the result",
        ),
        (
            lambda a, b, builder: a.join(b, 5, NEAR),
            "here: expected an expression, SQL text or a callable of (left, right), got 5; correct the joiner",
        ),
        (
            lambda a, b, builder: a.join(b, "value", NEAR),
            'here: expected columns of left, right, record_key, got value: unable to find column "value"; '
            "correct the name or the declared serde",
        ),
        (
            lambda a, b, builder: a.join(b, "SUM(left)", NEAR),
            "here: expected one value for each record, from that record alone, got SUM(left), "
            "which looks at other records too; use an aggregation",
        ),
    ],
)
def test_a_join_of_a_stream_that_cannot_work_is_refused(call, want):
    builder = StreamsBuilder()
    got = refused(lambda: call(*pair(builder), builder))

    assert got == want.replace("here", f"{'outer' if 'KTable' in want else 'inner'} join of KSTREAM-SOURCE-0000000000")


def test_the_stores_of_a_join_of_streams_live_as_long_as_its_windows():
    left, right = pair(StreamsBuilder())
    longer = Materialized(retention=100)

    assert refused(lambda: left.join(right, "left", NEAR, materialized=longer, name="here"), ConfigError) == (
        f"here: expected a store's name and kind, got {longer!r}; leave the retention to the windows"
    )


@pytest.mark.parametrize(
    ("made", "grace", "got"),
    [
        (lambda b: table("t", b), 5, "KTABLE-SOURCE-0000000003"),
        (
            lambda b: versioned("v", b).filter("TRUE", materialized=Materialized.as_("kept")),
            5,
            "KTABLE-FILTER-0000000003",
        ),
        (lambda b: versioned("v", b).join(versioned("w", b), "left"), 5, "KTABLE-MERGE-0000000005"),
    ],
)
def test_a_grace_needs_a_versioned_table(made, grace, got):
    builder = StreamsBuilder()

    assert refused(lambda: stream("a", builder).join(made(builder), "left", grace=grace, name="here"), ConfigError) == (
        f"here: expected a versioned table to join with a grace, got {got}, which is not; "
        "give it Materialized.versioned()"
    )


def test_a_grace_is_at_most_the_history():
    builder = StreamsBuilder()
    records, changes = stream("a", builder), versioned("v", builder, history=100)

    assert refused(lambda: records.join(changes, "left", grace=101, name="here"), ConfigError) == (
        "here: expected a history retention of at least the grace, 101 ms, got 100 ms; keep more history or wait less"
    )
    assert refused(lambda: records.join(changes, "left", grace=-1, name="here"), ConfigError) == (
        "here grace: expected 0 ms or more, got -1 ms; correct the duration"
    )


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (lambda a, b, s: a.join(s, "left", name="here"), "here: expected a table, got KStream; join a table"),
        (
            lambda a, b, s: a.outer_join(b, "left", foreign_key="record_key", name="here"),
            "here: expected join or left_join by a foreign key, got outer_join; use one of them",
        ),
        (
            lambda a, b, s: a.join(b, "left", foreign_key="record_key", history="complete", name="here"),
            "here: expected join or left_join by a foreign key, got history='complete'; use one of them",
        ),
        (
            lambda a, b, s: a.join(b, "left", foreign_key="value", name="here"),
            "here: expected foreign keys of Serde.string(), got Serde.long(); select keys of the table's type",
        ),
        (
            lambda a, b, s: a.join(s.select_key("value").to_table(), "left", name="here"),
            "here: expected keys of Serde.string() on both sides, got Serde.long(); select keys of one type",
        ),
        (
            lambda a, b, s: a.join(s.group_by_key().windowed_by(TimeWindows.of_size(5)).count(), "left", name="here"),
            "here: expected keys of Serde.string() on both sides, got Serde.string(), windowed (time); "
            "select keys of one type",
        ),
        (
            lambda a, b, s: (
                s.group_by_key()
                .windowed_by(TimeWindows.of_size(5))
                .count()
                .join(b, "left", foreign_key="record_key", name="here")
            ),
            "here: expected tables of plain keys, got windowed keys; group them by a plain key first",
        ),
        (
            lambda a, b, s: a.join(b, name="here"),
            'here: expected a joiner or named columns, got neither; give for example total="left + right"',
        ),
    ],
)
def test_a_join_of_tables_that_cannot_work_is_refused(call, want):
    builder = StreamsBuilder()

    assert refused(lambda: call(table("a", builder), table("b", builder), stream("s", builder))) == want


def test_a_history_is_that_of_kafka_or_complete():
    builder = StreamsBuilder()
    left, right = table("a", builder), table("b", builder)

    assert refused(lambda: left.join(right, "left", history="all", name="here"), ConfigError) == (
        "here history: expected 'kafka' or 'complete', got 'all'; choose one"
    )


def test_a_column_of_a_struct_is_named_with_its_side():
    builder = StreamsBuilder()
    left = builder.stream("a", Consumed(STRING, Serde.json("n long")))
    made = left.join(stream("b", builder), "left.n * right", NEAR)

    assert made.shape.value == LONG
