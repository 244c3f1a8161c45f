"""What a call of the DSL is given and cannot mean is refused when it is written, not taken and made something else."""

import pytest

from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor, ValueTransformerWithKey
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    BufferConfig,
    Consumed,
    JoinWindows,
    Materialized,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from kstreams_replay.state.errors import ConfigError
from tests.topology.streams import LONG, LONGS, STRING, refused, stream, table

TOPIC = "the name of one topic (1 to 249 ASCII letters, digits, dots, underscores and hyphens, not . or ..)"
STORE = 'use for example Materialized.as_("store")'
SERDE = "use for example Serde.string()"
BUILDER = (
    "expected streams and tables of one StreamsBuilder, got one of another builder; make both with the same "
    "StreamsBuilder"
)
NO_GRACE = JoinWindows.of_time_difference_with_no_grace(5)


class Silent(Processor):
    def process(self, record):
        pass


class Same(ValueTransformerWithKey):
    def transform(self, key, value):
        return value


def by_topic(key, value):
    return value


def pairs(key, value):
    return [(key, value)]


def added(key, value, aggregate):
    return aggregate + value


# --- topics ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "got"),
    [
        (lambda: stream(["a", "b/"]), "stream() topic: expected {}, got 'b/'; correct it"),
        (lambda: stream(""), "stream() topic: expected {}, got ''; correct it"),
        (lambda: stream("a/b"), "stream() topic: expected {}, got 'a/b'; correct it"),
        (lambda: table(["a", "b"]), "table() topic: expected {}, got ['a', 'b']; make a table of one topic, or of a"),
        (
            lambda: StreamsBuilder().global_table(["a"], LONGS),
            "global_table() topic: expected {}, got ['a']; give each topic a call of its own",
        ),
        (lambda: stream().to(5), "to() topic: expected {}, got 5; give the pattern of topics that are written"),
        (lambda: stream().to("a b"), "to() topic: expected {}, got 'a b'; correct it"),
        (lambda: table().to(["a"]), "to() topic: expected {}, got ['a']; give the pattern of topics"),
    ],
)
def test_a_topic_is_one_name(call, got):
    assert refused(call).startswith(got.format(TOPIC))


def test_a_function_that_names_the_topic_takes_a_key_and_value_perhaps_a_context():
    assert refused(lambda: stream().to(lambda: "out")).startswith(
        "KSTREAM-SINK-0000000001: expected a callable of (key, value) or of (value) or of (key, value, context), got "
    )


# --- serdes ----------------------------------------------------------------------------------------------------


def test_a_topic_is_read_with_the_serdes_of_both_key_and_value():
    got = [
        refused(lambda: StreamsBuilder().stream("in", STRING)),
        refused(lambda: StreamsBuilder().table("in", None)),
        refused(lambda: Consumed("string", LONG)),
        refused(lambda: Consumed(STRING, None)),
    ]

    assert got == [
        "topic 'in': expected a Consumed, the serdes of key and value, got Serde.string(); "
        "use for example Consumed(Serde.string(), Serde.long())",
        "topic 'in': expected a Consumed, the serdes of key and value, got None; "
        "use for example Consumed(Serde.string(), Serde.long())",
        f"Consumed key: expected a serde, got 'string'; {SERDE}",
        f"Consumed value: expected a serde, got None; {SERDE}",
    ]


@pytest.mark.parametrize(
    ("call", "option"),
    [
        (lambda: stream().select_key(by_topic, returns="long", name="here"), "returns"),
        (lambda: stream().map(pairs, returns_key="long", returns=LONG, name="here"), "returns_key"),
        (lambda: stream().map(by_topic, by_topic, returns_key="long", returns=LONG, name="here"), "returns_key"),
        (lambda: stream().flat_map(pairs, returns_key=LONG, returns="long", name="here"), "returns"),
        (lambda: stream().flat_map_values(pairs, returns="long", name="here"), "returns"),
        (lambda: stream().process(Silent, returns="long", name="here"), "returns"),
        (lambda: stream().process(Silent, returns_key="long", name="here"), "returns_key"),
        (lambda: table().transform_values(Same, returns="long", name="here"), "returns"),
        (lambda: table().group_by(by_topic, returns_key="long", name="here"), "returns_key"),
        (
            lambda: stream().group_by_key().cogroup(added).aggregate(int, returns="long", name="here"),
            "returns",
        ),
    ],
)
def test_a_serde_is_no_text(call, option):
    assert refused(call) == f"here: expected {option}= to be a serde, got 'long'; {SERDE}"


# --- stores ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: table(materialized="s"), "table of 't'"),
        (lambda: StreamsBuilder().global_table("t", LONGS, materialized="s"), "global table of 't'"),
        (lambda: stream().to_table(materialized="s", name="here"), "here"),
        (lambda: stream().group_by_key().count("s"), "count"),
        (lambda: stream().group_by_key().reduce(max, materialized="s"), "reduce"),
        (lambda: stream().group_by_key().cogroup(added).aggregate(int, returns=LONG, materialized="s"), "cogroup"),
        (lambda: table().filter("value > 1", materialized="s"), "KTABLE-FILTER"),
        (lambda: table().transform_values(Same, materialized="s", name="here"), "here"),
        (lambda: table().group_by("record_key", "value").count("s"), "aggregate"),
    ],
)
def test_a_store_is_described_by_a_materialized(call, place):
    assert refused(call) == f"{place}: expected materialized= to be a Materialized, got 's'; {STORE}"


def test_a_retention_is_a_duration():
    assert refused(lambda: Materialized.as_("s", retention="long"), ConfigError).startswith(
        "Materialized retention: expected a duration"
    )


@pytest.mark.parametrize(
    ("stores", "want"),
    [
        ("abc", "expected stores= to be a list of stores, got 'abc'; write stores=['abc']"),
        (5, "expected stores= to be a list of stores, got 5; write for example stores=['seen']"),
        ([5], "expected a KeyValues or the name of a store, got 5; use KeyValues(name, key serde, value serde)"),
        (["s", KeyValues("s", STRING, LONG)], "expected stores of different names, got 's' twice; rename one of them"),
    ],
)
def test_a_processor_has_a_list_of_stores(stores, want):
    assert refused(lambda: stream().process(Silent, stores, name="here")) == f"here: {want}"


def test_a_store_of_a_processor_has_a_legal_name_and_serdes():
    assert refused(lambda: stream().process(Silent, ["a/b"])).startswith("name: expected 1 to 249 ASCII letters")
    assert (
        refused(lambda: KeyValues("s", STRING, "long"), ConfigError)
        == f"store 's' value: expected a serde, got 'long'; {SERDE}"
    )


# --- suppliers -------------------------------------------------------------------------------------------------


def test_a_supplier_takes_no_arguments():
    got = refused(lambda: stream().process(lambda record: None, name="here"))

    assert got == (
        "here: expected a callable of no parameters, got a lambda of (record); "
        "give a class with process(); a function of records is for map_values(), foreach() and so on"
    )
    assert stream().process(lambda *args, of=Silent: of()) is not None


def test_a_supplier_gives_a_processor():
    builder = StreamsBuilder()
    stream(builder=builder).process(dict, name="here").to("out")

    got = refused(lambda: TopologyTestDriver(builder.build()), ConfigError)

    assert got == "here: expected a supplier of a Processor, which has init and process, got {}; correct the supplier"


# --- what belongs together -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda: stream().merge(stream("b"), name="here"),
        lambda: stream().join(stream("b"), lambda one, other: one, NO_GRACE, returns=LONG, name="here"),
        lambda: stream().join(table(), lambda one, other: one, returns=LONG, name="here"),
        lambda: table().join(table("u"), lambda one, other: one, returns=LONG, name="here"),
        lambda: table().join(table("u"), lambda one, other: one, returns=LONG, foreign_key="record_key", name="here"),
    ],
    ids=["merge", "streams", "stream and table", "tables", "foreign key"],
)
def test_streams_and_tables_of_two_builders_do_not_meet(call):
    """They have generated names in common, so that one would be taken for another."""
    assert refused(call) == f"here: {BUILDER}"


def test_groups_of_two_builders_do_not_meet():
    cogrouped = stream().group_by_key().cogroup(added)

    assert refused(lambda: cogrouped.cogroup(stream("b").group_by_key(), added)) == f"cogroup: {BUILDER}"


def test_only_streams_are_merged_and_only_groups_cogrouped():
    builder = StreamsBuilder()
    of_one = stream(builder=builder)

    assert refused(lambda: of_one.merge(table(builder=builder), name="here")) == (
        "here: expected a stream, got KTable; merge a stream (to_stream() of a table)"
    )
    assert refused(lambda: of_one.group_by_key().cogroup(added).cogroup(of_one, added)) == (
        "cogroup: expected a grouped stream, got KStream; use group_by_key() or group_by() first"
    )


# --- names, numbers and the rest -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda: stream().to("out", name=5),
        lambda: stream().filter("value > 1", name=5),
        lambda: stream().group_by_key(name=5),
        lambda: stream().repartition(name=5),
        lambda: stream().split(name=5),
        lambda: stream().split().branch("value > 1", name=5),
    ],
)
def test_a_name_is_text(call):
    assert refused(call) == (
        "name: expected 1 to 249 ASCII letters, digits, dots, underscores and hyphens, and not . or .., got 5; "
        "choose another name"
    )


@pytest.mark.parametrize("partitions", ["3", 2.5, True, 0])
def test_partitions_are_a_whole_number(partitions):
    got = refused(lambda: stream().repartition(name="here", partitions=partitions))

    assert got == f"here: expected 1 partition or more, got {partitions!r}; correct the number"


def test_suppress_is_told_how_in_its_own_words():
    counts = stream().group_by_key().windowed_by(TimeWindows.of_size(5)).count(name="here")

    assert refused(lambda: counts.suppress("5m")) == (
        "suppress of here: expected a Suppressed, got '5m'; use Suppressed.until_window_closes() or "
        "Suppressed.until_time_limit(wait)"
    )
    assert refused(lambda: Suppressed.until_window_closes("unbounded"), ConfigError) == (
        "Suppressed buffer: expected a BufferConfig, got 'unbounded'; use for example BufferConfig.max_records(1000)"
    )
    assert refused(lambda: BufferConfig.max_records("5"), ConfigError) == (
        "Suppressed max_records: expected 0 or more, got '5'; correct the limit"
    )


def test_a_strategy_is_one_of_two_words():
    windowed = stream().group_by_key().windowed_by(TimeWindows.of_size(5))

    assert refused(lambda: windowed.emit_strategy([]), ConfigError) == (
        "emit_strategy: expected 'on_window_update' or 'on_window_close', got []; choose one"
    )
