"""The DSL refuses what cannot work when it is written: place, expected, got, next step."""

import polars as pl
import pytest

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    KStream,
    KTable,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    fold,
)
from kstreams_replay.state.errors import ConfigError, TopologyError

FLIGHT = Serde.json("dest string, minutes long")
COLUMNS = "dest, minutes, record_key, record_time_ms"
WINDOWS, SESSIONS = TimeWindows.of_size(10), SessionWindows.with_inactivity_gap(10)


def flights(builder: StreamsBuilder | None = None) -> KStream:
    return (builder or StreamsBuilder()).stream("flights", Consumed(Serde.string(), FLIGHT))


def hourly() -> KTable:
    return flights().group_by_key().windowed_by(WINDOWS).count()


def message(call) -> str:
    with pytest.raises(TopologyError) as caught:
        call()
    return str(caught.value)


# --- expressions and callables -------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["minuets > 5", pl.col("minuets") > 5], ids=["sql", "polars"])
@pytest.mark.parametrize(
    "call",
    [
        lambda step: flights().filter(step, name="here"),
        lambda step: flights().filter_not(step, name="here"),
        lambda step: flights().map_values(step, name="here"),
        lambda step: flights().map_values("dest", long=step, name="here"),
        lambda step: flights().select_key(step, name="here"),
        lambda step: flights().group_by(step, name="here"),
        lambda step: flights().group_by_key().aggregate(fold.first(step), name="here"),
        lambda step: flights().group_by_key().aggregate(n=fold.count(), first=fold.first(step), name="here"),
    ],
    ids=["filter", "filter_not", "map_values", "named", "select_key", "group_by", "fold", "named fold"],
)
def test_an_unknown_column_is_found_when_the_step_is_written(call, step):
    got = message(lambda: call(step))

    assert got.startswith(f"here: expected columns of {COLUMNS}, got ")
    assert got.endswith(
        ": unable to find column \"minuets\"; correct the name or the declared serde; did you mean 'minutes'?"
    )


def test_a_step_without_a_name_is_named_as_kafka_names_it():
    assert message(lambda: flights().filter("minuets > 5")).startswith("KSTREAM-FILTER-0000000001: expected columns")


def test_a_filter_needs_a_condition():
    got = message(lambda: flights().filter("minutes", name="here"))

    assert got == "here: expected a condition, got minutes, which gives Serde.long(); compare with =="


@pytest.mark.parametrize(
    "call",
    [
        lambda step: flights().map_values(step, name="here"),
        lambda step: flights().select_key(step, name="here"),
        lambda step: flights().group_by(step, name="here"),
    ],
    ids=["map_values", "select_key", "group_by"],
)
def test_a_callable_needs_the_serde_of_its_result(call):
    got = message(lambda: call(lambda key, value: key))

    assert got == "here: expected returns= beside a Python callable, got none; give the serde of the result"


@pytest.mark.parametrize("call", [KStream.filter, KStream.map_values, KStream.select_key, KStream.group_by])
def test_a_step_is_an_expression_text_or_a_callable(call):
    got = message(lambda: call(flights(), 5, name="here"))

    assert got == "here: expected an expression, SQL text or a callable of (key, value), got 5; correct the step"


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (
            lambda: flights().map_values(name="here"),
            'here: expected at least one step, got none; give for example "air_time / 60 AS hours"',
        ),
        (
            lambda: flights().map_values("dest", lambda key, value: 5, returns=Serde.long(), name="here"),
            "here: expected expressions side by side, got a Python callable; give the callable alone",
        ),
        (
            lambda: flights().map_values("minutes", pl.col("minutes") + 1, name="here"),
            "here: expected fields of different names, got 'minutes' twice; "
            'name this one, with .alias() or by keyword: [(col("minutes")) + (dyn int: 1)]',
        ),
        (
            lambda: flights().map_values("minutes", minutes="minutes + 1", name="here"),
            "here: expected fields of different names, got 'minutes' twice; "
            'name this one, as "minutes AS …" or by keyword',
        ),
        (
            lambda: flights().map_values("dest", took=pl.duration(hours=1), name="here"),
            "here: expected a result of type string, int, long, double, decimal(p,s), boolean, binary, date, time, "
            'timestamp, array<…>, map<string, …>, …, got 1h.alias("duration"), which gives '
            "Duration(time_unit='us'); cast it to one of these",
        ),
        (
            lambda: flights().map_values("dest", record_key="minutes", name="here"),
            "value fields: expected names other than record_key, record_time_ms, window_start_ms, window_end_ms, "
            "got record_key; rename these fields",
        ),
        (
            lambda: flights().map_values("SUM(minutes) AS total", name="here"),
            "here: expected one value for each record, from that record alone, got SUM(minutes) AS total, "
            "which looks at other records too; use an aggregation",
        ),
    ],
)
def test_values_that_cannot_be_made_are_refused(call, want):
    assert message(call) == want


# --- grouping, windows, aggregates ---------------------------------------------------------------------------


def test_a_windowed_key_is_not_grouped_as_it_is():
    got = message(lambda: hourly().to_stream(name="changes").group_by_key())

    assert got == ('changes: expected a plain key to group by, got a windowed key; use select_key("record_key") first')


def test_a_windowed_key_may_be_grouped_by_a_plain_one():
    hourly().to_stream().group_by("record_key").count()
    hourly().to_stream().select_key("window_start_ms").group_by_key().count()


@pytest.mark.parametrize(
    "build",
    [
        lambda: flights().group_by_key().count(name="count"),
        lambda: hourly().to_stream().select_key("record_key").group_by_key().count(name="count"),
    ],
    ids=["plain", "plain again"],
)
def test_suppress_needs_a_window_above(build):
    got = message(lambda: build().suppress(Suppressed.until_window_closes()))

    assert got == (
        "count: expected a windowed table (window close time is only defined for windowed computations), "
        "got a table without windows; use windowed_by() before the aggregation"
    )


@pytest.mark.parametrize("windows", [10, "1h", None])
def test_windows_are_given_as_windows(windows):
    got = message(lambda: flights().group_by_key().windowed_by(windows))

    assert got == (
        f"windowed_by: expected TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows, got {windows!r}; "
        'use for example TimeWindows.of_size("1h")'
    )


def adder(key, value, aggregate):
    return aggregate + 1


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ({}, "here: expected at least one fold, got none; give for example legs=fold.count()"),
        (
            {"fold": fold.count(), "legs": fold.count()},
            "here: expected a fold, named folds, or an aggregator, got more than one of them; choose one; "
            "a field called fold is given by fields={'fold': …}",
        ),
        (
            {"initializer": int, "aggregator": adder, "returns": Serde.long(), "legs": fold.count()},
            "here: expected a fold, named folds, or an aggregator, got more than one of them; choose one",
        ),
        (
            {"aggregator": adder, "returns": Serde.long()},
            "here: expected initializer and returns beside the aggregator, got no initializer; "
            "give aggregate(initializer, aggregator, returns=serde)",
        ),
        (
            {"aggregator": adder, "initializer": int},
            "here: expected initializer and returns beside the aggregator, got no returns=; "
            "give aggregate(initializer, aggregator, returns=serde)",
        ),
        (
            {"aggregator": adder, "initializer": lambda: 1 // 0, "returns": Serde.long()},
            "here: expected an initializer that does not fail, got ZeroDivisionError: integer division or modulo by "
            "zero; correct the initializer",
        ),
        (
            {"fold": "count"},
            "here: expected a fold, got 'count'; use one of kstreams_replay.fold, such as fold.count()",
        ),
        ({"legs": 5}, "here: expected a fold, got legs=5; use one of kstreams_replay.fold, such as fold.count()"),
        (
            {"fold": fold.sum("dest")},
            "here: expected a number to fold, got dest, which gives Serde.string(); cast it, or use min_by",
        ),
    ],
)
def test_an_aggregate_that_cannot_be_made_is_refused(arguments, want):
    assert message(lambda: flights().group_by_key().aggregate(**arguments, name="here")) == want


def test_sessions_need_a_merger_beside_a_python_aggregator():
    sessions = flights().group_by_key().windowed_by(SESSIONS)

    got = message(lambda: sessions.aggregate(initializer=int, aggregator=adder, returns=Serde.long(), name="here"))

    assert got == (
        "here: expected a merger, since sessions merge, got none; give merger=(key, one, other) -> aggregate"
    )


def test_retention_is_at_least_as_long_as_the_windows():
    with pytest.raises(ConfigError) as caught:
        flights().group_by_key().windowed_by(WINDOWS).count(Materialized(retention=9), name="here")

    assert str(caught.value) == (
        "here retention: expected at least 10 ms (the windows and their grace), got 9 ms; give a longer retention"
    )


# --- names ---------------------------------------------------------------------------------------------------


def test_two_nodes_have_different_names():
    stream = flights()
    stream.filter("TRUE", name="all")

    assert message(lambda: stream.map_values("dest", name="all")) == (
        "topology: expected names that differ, got 'all' twice; rename one of them"
    )


def test_streams_of_one_topic_are_one_source():
    builder = StreamsBuilder()
    assert flights(builder).node is flights(builder).node

    assert message(lambda: builder.stream("flights", Consumed(Serde.string(), Serde.long()))) == (
        "topic 'flights': expected the serdes of the other stream(), got others; use the same Consumed in both places"
    )


@pytest.mark.parametrize("first", [StreamsBuilder.stream, StreamsBuilder.table, StreamsBuilder.global_table])
@pytest.mark.parametrize("second", [StreamsBuilder.table, StreamsBuilder.global_table])
def test_a_topic_is_not_read_in_two_ways(first, second):
    builder, consumed = StreamsBuilder(), Consumed(Serde.string(), FLIGHT)
    first(builder, "flights", consumed)

    assert message(lambda: second(builder, "flights", consumed)) == (
        "topic 'flights': expected one source, got two; read it once and use what that gives in both places"
    )


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "naïve", "a" * 250])
def test_a_name_is_one_that_kafka_takes(name):
    want = (
        "name: expected 1 to 249 ASCII letters, digits, dots, underscores and hyphens, and not . or .., "
        f"got {name!r}; choose another name"
    )

    assert message(lambda: flights().filter("TRUE", name=name)) == want
    assert message(lambda: Materialized.as_(name)) == want


def test_a_store_belongs_to_one_operator():
    grouped = flights().group_by_key()
    grouped.count(Materialized.as_("counts"))

    assert message(lambda: grouped.windowed_by(WINDOWS).count(Materialized.as_("counts"))) == (
        "store 'counts': expected one operator, got two; give them different names"
    )


def test_a_topology_of_nothing_is_built_and_has_nothing_to_do():
    """Kafka describes it so, too: an application whose features are switched off."""
    topology = StreamsBuilder().build()
    driver = TopologyTestDriver(topology)

    assert topology.describe() == "Topologies:\n "
    assert (topology.sub_topologies, topology.source_topics()) == ((), [])
    assert driver.produced_topic_names() == set()
    with pytest.raises(ConfigError, match="got one that reads no topic, so that there is nothing to do; read it in"):
        driver.pipe_input("in", "a", "b")


# --- shapes --------------------------------------------------------------------------------------------------


def test_each_step_knows_the_types_of_what_it_forwards():
    stream = flights().select_key("minutes").map_values("dest", half=pl.col("minutes") / 2)
    table = stream.group_by_key().windowed_by(SESSIONS).aggregate(n=fold.count(), dests=fold.collect("dest"))

    assert (stream.shape.key, stream.shape.value) == (Serde.long(), Serde.json("dest string, half double"))
    assert (table.shape.key, table.shape.value, table.shape.window) == (
        Serde.long(),
        Serde.json("n long, dests array<string>"),
        "session",
    )
    assert table.suppress(Suppressed.until_window_closes()).to_stream().select_key("record_key").shape.window is None


def test_a_topology_knows_its_topics_stores_and_outputs():
    builder = StreamsBuilder()
    windows = flights(builder).group_by("dest").windowed_by(WINDOWS)
    counts = windows.count(Materialized.as_("counts")).suppress(Suppressed.until_window_closes(name="final"))
    counts.to("hourly")
    topology = builder.build()

    assert topology.source_topics() == ["flights"]
    assert [sink.topic for sink in topology.sinks()] == ["hourly"]
    assert list(topology.stores()) == ["counts", "final-store"]
    assert [(sub.id, [source.topic for source in sub.sources]) for sub in topology.sub_topologies] == [
        (0, ["flights"]),
        (1, ["counts-repartition"]),
    ]
    suppress = topology.suppress_above(topology.sinks()[0])
    assert suppress is not None
    assert suppress.name == "final"
