"""Which tables have a store, send old values and are versioned, after Kafka's rules; and what tables refuse."""

import pytest

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    KTable,
    Materialized,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from kstreams_replay.state.errors import ConfigError, TaskFailed
from tests.topology.streams import LONG, LONGS, STRING, refused, stream, table, versioned

KEPT, PLAIN = Materialized.as_("kept"), Materialized()


def traits(made: KTable):
    return made.graph.tables[made.node.name]


def keep(key, value, aggregate):
    return aggregate


# --- stores ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "has_store"),
    [
        (lambda t, b: t.to("out"), False),
        (lambda t, b: t.filter("TRUE").map_values("value").to("out"), False),
        (lambda t, b: t.group_by("record_key"), True),
        (lambda t, b: t.filter("TRUE").group_by("record_key"), True),
        (lambda t, b: t.suppress(Suppressed.until_time_limit(5)), True),
        (lambda t, b: t.join(table("u", b), "left"), True),
        (lambda t, b: table("u", b).join(t.map_values("value"), "left"), True),
        (lambda t, b: t.join(table("u", b), "left", foreign_key="record_key"), True),
        (lambda t, b: table("u", b).join(t.filter("TRUE"), "left", foreign_key="record_key"), True),
        (lambda t, b: stream("in", b).join(t, "left"), True),
        (lambda t, b: stream("in", b).join(t.filter("TRUE").map_values("value"), "left"), True),
        (lambda t, b: stream("in", b).join(t.filter("TRUE", materialized=KEPT), "left"), False),
        (lambda t, b: t.filter("TRUE", materialized=KEPT).group_by("record_key"), False),
    ],
)
@pytest.mark.parametrize("source", [table, lambda topic, b: stream(topic, b).to_table()], ids=["table", "to_table"])
def test_a_source_table_has_a_store_when_something_looks_into_it_or_needs_old_values(source, use, has_store):
    builder = StreamsBuilder()
    made = source("t", builder)
    use(made, builder)

    assert (traits(made).store is not None) == has_store


def test_a_table_has_the_store_that_it_names():
    assert traits(table(materialized=KEPT)).store.name == "kept"
    assert traits(table().filter("TRUE", materialized=KEPT)).store.name == "kept"
    assert traits(table().map_values("value", materialized=KEPT)).store.name == "kept"
    assert (
        traits(stream().to_table(materialized=Materialized.as_("kept", store="in_memory"))).store.is_persistent is False
    )


def test_a_materialized_without_a_name_gives_a_step_no_store_but_a_join_one():
    builder = StreamsBuilder()
    left, right = table("a", builder), table("b", builder)

    assert traits(left.filter("TRUE", materialized=PLAIN)).store is None
    assert traits(left.map_values("value", materialized=PLAIN)).store is None
    assert traits(left.join(right, "left")).store is None
    assert traits(left.join(right, "left", materialized=PLAIN)).store.name == "KTABLE-MERGE-STATE-STORE-0000000013"


def test_an_aggregate_always_has_a_store():
    assert traits(stream().group_by_key().count()).store is not None
    assert traits(stream().group_by_key().windowed_by(TimeWindows.of_size(5)).count()).store is not None
    assert traits(table().group_by("record_key").count(KEPT)).store.name == "kept"


# --- old values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "sends"),
    [
        (lambda t, u: t.map_values("value").to("out"), (False, False)),
        (lambda t, u: t.group_by("record_key"), (True, False)),
        (lambda t, u: t.map_values("value").group_by("record_key"), (True, False)),
        (lambda t, u: t.suppress(Suppressed.until_time_limit(5)), (True, False)),
        (lambda t, u: t.join(u, "left"), (False, False)),
        (lambda t, u: t.left_join(u, "left"), (True, False)),
        (lambda t, u: t.outer_join(u, "left"), (True, True)),
        (lambda t, u: t.join(u, "left").group_by("record_key"), (True, True)),
        (lambda t, u: t.join(u, "left", foreign_key="record_key"), (True, True)),
    ],
)
def test_old_values_are_sent_to_those_who_need_them(use, sends):
    builder = StreamsBuilder()
    left, right = table("t", builder), table("u", builder)
    use(left, right)

    assert (traits(left).sends_old, traits(right).sends_old) == sends


def test_a_filter_sends_old_values_if_its_input_has_a_store_already():
    plain, kept = table(), table("k", materialized=KEPT)

    assert traits(plain.filter("TRUE")).sends_old is False
    assert traits(plain).sends_old is False
    assert traits(kept.filter("TRUE")).sends_old is True
    assert traits(kept).sends_old is True
    assert traits(kept.filter("TRUE").map_values("value").filter("TRUE")).sends_old is True


# --- versions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "is_versioned"),
    [
        (lambda: versioned(), True),
        (lambda: table(), False),
        (lambda: stream().to_table(materialized=Materialized.versioned("h", 5)), True),
        (lambda: versioned().filter("TRUE").map_values("value"), True),
        (lambda: versioned().filter("TRUE", materialized=PLAIN), False),
        (lambda: versioned().map_values("value", materialized=KEPT), False),
        (lambda: table().map_values("value", materialized=Materialized.versioned("h", 5)), True),
        (lambda: versioned().to_stream().to_table(), False),
        (lambda: stream().group_by_key().count(Materialized.versioned("h", 5)), True),
        (lambda: versioned().group_by("record_key").count(), False),
        (lambda: versioned().group_by("record_key").count(Materialized.versioned("h", 5)), True),
    ],
)
def test_a_table_is_versioned_by_its_own_store_or_else_by_what_is_above(made, is_versioned):
    assert traits(made()).is_versioned is is_versioned


def joined(**options):
    builder = StreamsBuilder()
    return versioned("a", builder).join(versioned("b", builder), "left", **options)


def test_a_join_is_versioned_only_by_its_own_store():
    assert traits(joined()).is_versioned is False
    assert traits(joined(materialized=Materialized.versioned("h", 5))).is_versioned is True
    assert traits(joined(foreign_key="record_key")).is_versioned is False


@pytest.mark.parametrize(
    "made",
    [
        lambda: versioned(),
        lambda: versioned().filter("TRUE").map_values("value"),
        lambda: table().filter("TRUE", materialized=Materialized.versioned("h", 5)),
        lambda: versioned().group_by("record_key").count(Materialized.versioned("h", 5)),
        lambda: joined(materialized=Materialized.versioned("h", 5)),
    ],
)
def test_a_versioned_table_is_not_suppressed(made):
    got = refused(lambda: made().suppress(Suppressed.until_time_limit(5)))

    assert got.endswith(
        ": expected a table without versions to suppress (they may come from a table above), got a versioned one; "
        "suppress before to_table(), or use a plain store"
    )


def test_a_global_table_is_not_versioned():
    global_table = StreamsBuilder().global_table

    assert refused(lambda: global_table("g", LONGS, materialized=Materialized.versioned("h", 5))) == (
        "global table 'g': expected a plain store, got a versioned one; use table(), or a store without versions"
    )


# --- suppress --------------------------------------------------------------------------------------------------


def windowed(topic, grace, builder):
    return stream(topic, builder).group_by_key().windowed_by(TimeWindows.of_size(10, grace=grace)).count()


def test_suppress_waits_for_the_longest_grace_of_all_tables_above():
    builder = StreamsBuilder()
    table_above = windowed("a", 5, builder).join(windowed("b", 7, builder).filter("TRUE"), "left")
    node = table_above.suppress(Suppressed.until_window_closes()).node

    assert (node.wait_ms, node.until, node.when_full) == (7, "window-closes", "shut-down")


def test_suppress_waits_for_the_gap_of_sessions_too():
    sessions = stream().group_by_key().windowed_by(SessionWindows.with_inactivity_gap(10, grace=5)).count()

    assert sessions.suppress(Suppressed.until_window_closes()).node.wait_ms == 15


def test_a_table_without_windows_is_suppressed_for_a_time():
    node = table().suppress(Suppressed.until_time_limit("1s", max_records=3)).node

    assert (node.wait_ms, node.until, node.when_full) == (1000, "time-limit", "emit-early")
    assert (node.windows, node.max_records, node.max_bytes) == (None, 3, None)


# --- grouping --------------------------------------------------------------------------------------------------


def by_value(key, value):
    return value, key


def test_one_function_gives_the_key_and_the_value_of_a_group_as_kafkas_mapper():
    builder = StreamsBuilder()
    pairs = builder.table("in", Consumed(STRING, STRING))
    grouped = pairs.group_by(by_value, returns_key=STRING, returns=STRING)
    grouped.reduce(lambda one, other: one + other, lambda one, other: one.replace(other, "")).to("out")
    driver = TopologyTestDriver(builder.build())
    for key, value in (("a", "x"), ("b", "x"), ("a", "y"), ("b", None)):
        driver.pipe_input("in", key, value)

    got = [(one.key, one.value) for one in driver.read_outputs("out")]

    assert got == [("x", "a"), ("x", "ab"), ("x", "b"), ("y", "a"), ("x", "")]


def test_a_function_that_gives_no_pair_ends_the_run():
    builder = StreamsBuilder()
    texts = builder.table("in", Consumed(STRING, STRING))
    texts.group_by(lambda key, value: value, returns_key=STRING, returns=STRING).count().to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", "xy")

    with pytest.raises(TaskFailed, match="expected a pair of a key and a value, got 'xy'"):
        driver.run()


def test_a_serde_of_values_beside_an_expression_for_the_key_alone_is_refused():
    assert refused(lambda: table().group_by("value", returns=STRING, name="here")) == (
        "here: expected a step for the value, whose serde returns= is, got none; give both steps, or leave returns= out"
    )


def test_a_grouped_table_knows_its_types():
    grouped = table().group_by("value", "record_key")

    assert (grouped.shape.key, grouped.shape.value) == (LONG, STRING)
    assert grouped.count().shape.value == LONG
    assert grouped.reduce(max, max).shape.value == STRING
    assert table().group_by("record_key").shape.value == LONG


def test_a_reducer_is_called_with_the_aggregate_first():
    node = table().group_by("record_key").reduce(lambda one, other: (one, other), min).node

    assert node.adder("key", "value", "aggregate") == ("aggregate", "value")
    assert node.initializer is None


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (
            lambda g: g.sum(name="here"),
            "here: expected longs to sum, got Serde.string(); give group_by() a mapper to a long",
        ),
        (
            lambda g: g.reduce(max, 5, name="here"),
            "here: expected a callable of (aggregate, value), got 5; give a Python function",
        ),
        (
            lambda g: g.aggregate(initializer=int, adder=5, subtractor=keep, returns=LONG, name="here"),
            "here: expected a callable of (key, value, aggregate), got 5; give a Python function",
        ),
        (
            lambda g: g.aggregate(initializer=dict.popitem, adder=keep, subtractor=keep, returns=LONG, name="here"),
            "here: expected a callable of no parameters, got dict.popitem(self, /); correct its parameters",
        ),
    ],
)
def test_an_aggregate_of_a_grouped_table_that_cannot_work_is_refused(call, want):
    assert refused(lambda: call(table().group_by("value", "record_key"))) == want


def test_a_windowed_table_has_no_versions():
    counts = windowed("a", 0, StreamsBuilder())

    assert refused(lambda: counts.filter("TRUE", materialized=Materialized.versioned("v", 5), name="here")) == (
        "here: expected a table of plain keys for a versioned store, got windowed keys; give it a store without "
        "versions, Materialized.as_(name)"
    )


def test_a_window_store_has_no_versions():
    windows = stream().group_by_key().windowed_by(TimeWindows.of_size(5))

    assert refused(lambda: windows.count(Materialized.versioned("h", 5), name="here"), ConfigError) == (
        "here store: expected a window store, got a versioned store; leave history_retention to tables without windows"
    )
