"""Arguments of DSL calls, checked in one place; names of Kafka and slips of the hand, refused with what to write."""

import copy
import pickle

import pytest

import kstreams_replay
from kstreams_replay import (
    BufferConfig,
    Consumed,
    Joined,
    Materialized,
    Produced,
    PunctuationType,
    Repartitioned,
    Serde,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    fold,
)
from kstreams_replay.state.errors import TopologyError
from tests.topology.streams import LONG, STRING, refused, stream, table


def pairs(key, value):
    return [(key, value)]


def one(value):
    return value


def joined_by_foreign_key(builder):
    return table("l", builder).join(table("r", builder), pairs, returns=LONG, foreign_key=one)


# --- arguments that a call does not have -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: stream().filter("value > 1", nam="large"),
            "KStream.filter: expected filter(predicate, name=, on_error=), "
            "got an unexpected keyword argument 'nam'; did you mean 'name'?",
        ),
        (
            lambda: stream().filter(),
            "KStream.filter: expected filter(predicate, name=, on_error=), "
            "got missing a required argument: 'predicate'; correct the arguments",
        ),
        (
            lambda: stream().to_table("x"),
            "KStream.to_table: expected to_table(materialized=, name=), "
            "got too many positional arguments; give by name what comes behind: materialized=… or name=…",
        ),
        (
            lambda: StreamsBuilder().table("t", Consumed(STRING, LONG), store="x"),
            "StreamsBuilder.table: expected table(topic, consumed=, materialized=, name=), "
            "got an unexpected keyword argument 'store'; correct the arguments",
        ),
        (
            lambda: TimeWindows.of_size("1h", "5m"),
            "TimeWindows.of_size: expected of_size(size, grace=), "
            "got too many positional arguments; give by name what comes behind: grace=…",
        ),
        (
            lambda: fold.count("x"),
            "fold.count: expected count(), got too many positional arguments; "
            "it counts records; count_if(step) counts those for which the step is true",
        ),
        (
            lambda: stream().process(pairs, "first", "second"),
            "KStream.process: expected process(supplier, stores=, returns_key=, returns=, name=), "
            "got too many positional arguments; name its stores in a list, process(supplier, ['first', 'second'])",
        ),
        (
            lambda: table().join(table("r"), one, pairs),
            "KTable.join: expected join(other, joiner=, foreign_key=, foreign_key_returns=, partitioner=, "
            "other_partitioner=, returns=, materialized=, name=, history=, fields=, **columns), "
            "got too many positional arguments; "
            "Kafka's extractor of a foreign key is foreign_key=: join(other, joiner, foreign_key=step)",
        ),
        (
            lambda: fold.max_by("x"),
            "fold.max_by: expected max_by(of, by), got missing a required argument: 'by'; correct the arguments",
        ),
    ],
)
def test_arguments_that_a_call_does_not_have_are_refused_with_those_that_it_has(call, said):
    assert refused(call) == said


# --- options that were meant -----------------------------------------------------------------------------------


def test_a_slip_in_an_option_of_a_call_with_fields_is_no_field():
    assert refused(lambda: stream().map_values(one, retruns=LONG)) == (
        "map_values: expected options that there are, got retruns=Serde.long(); did you mean 'returns'?"
    )


def test_a_field_that_is_called_nearly_as_an_option_is_a_field():
    assert list(stream().map_values(return_="value").shape.fields()) == ["return_"]


def test_kafkas_order_of_a_join_with_a_global_table_is_told_from_ours():
    builder = StreamsBuilder()
    everything = builder.global_table("g", Consumed(STRING, LONG))

    got = refused(lambda: stream("in", builder).join(everything, one, pairs))

    assert got.endswith("; give the selector as selector=, and the joiner before it")


# --- the serde that is missing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: stream().map(pairs, "value", returns=LONG), "returns_key= beside a Python callable, got none"),
        (lambda: stream().map("value", pairs, returns_key=LONG), "returns= beside a Python callable, got none"),
        (
            lambda: stream().map(pairs, returns=LONG),
            "returns_key= and returns= beside a Python callable, got only returns=",
        ),
        (
            lambda: stream().flat_map(pairs, returns_key=LONG),
            "returns_key= and returns= beside a Python callable, got only returns_key=",
        ),
        (lambda: table().group_by(pairs, returns=LONG), "returns_key= beside a Python callable, got none"),
        (
            lambda: joined_by_foreign_key(StreamsBuilder()),
            "foreign_key_returns= beside a Python callable, got none",
        ),
    ],
)
def test_the_option_that_is_missing_is_named(call, expected):
    assert f"expected {expected}; " in refused(call)


def test_the_serde_of_a_global_tables_selector_is_selector_returns():
    builder = StreamsBuilder()
    names = builder.global_table("names", Consumed(STRING, STRING))

    got = refused(lambda: stream(builder=builder).join(names, pairs, returns=LONG, selector=pairs))

    assert "expected selector_returns= beside a Python callable" in got
    stream(builder=builder).left_join(names, pairs, returns=LONG, selector=pairs, selector_returns=STRING)


# --- expressions -----------------------------------------------------------------------------------------------


def test_two_expressions_without_a_name_are_told_how_to_name_one():
    assert refused(lambda: stream().map_values("value + 1", "value * 2", name="here")) == (
        "here: expected fields of different names, got 'value' twice; "
        'name this one, as "value * 2 AS …" or by keyword'
    )


def test_a_name_that_is_nearly_a_column_is_told_it():
    assert refused(lambda: stream().filter("valeu > 1")).endswith("; did you mean 'value'?")


def test_sql_that_is_too_deep_is_told_so():
    got = refused(lambda: stream().filter("(" * 60 + "value > 1" + ")" * 60, name="here"))

    assert got.startswith("here: expected SQL of at most 40 levels, got 60 levels in ((((")
    assert got.endswith("; build it with pl.col(...), or give it in several steps")


def test_the_serde_of_a_selectors_result_is_named():
    builder, table = StreamsBuilder(), Consumed(STRING, LONG)

    got = refused(
        lambda: builder.stream("s", table).join(
            builder.global_table("g", table), "left", selector=lambda key, value: key, key_returns=STRING
        )
    )

    assert got == (
        "join: expected options that there are, got key_returns=Serde.string(); the serde of what selector= gives is "
        "selector_returns="
    )


# --- names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: stream().selectKey, "KStream has no 'selectKey'; Kafka's selectKey is select_key here"),
        (lambda: stream().groupByKey, "KStream has no 'groupByKey'; Kafka's groupByKey is group_by_key here"),
        (lambda: Stores.keyValueStoreBuilder, "Stores has no 'keyValueStoreBuilder'; Kafka's keyValueStoreBuilder is "),
        (lambda: table().flatMapValues, "KTable has no 'flatMapValues'; write to_stream().flat_map_values(…)"),
        (
            lambda: StreamsBuilder().global_table("g", Consumed(STRING, LONG)).filter,
            "GlobalKTable has no 'filter'; write st",
        ),
        (lambda: table().toStream, "KTable has no 'toStream'; Kafka's toStream is to_stream here"),
        (lambda: StreamsBuilder().globalTable, "StreamsBuilder has no 'globalTable'; Kafka's globalTable is global_t"),
        (lambda: stream().split().defaultBranch, "BranchedKStream has no 'defaultBranch'; Kafka's defaultBranch is"),
        (lambda: stream().group_by_key().windowedBy, "KGroupedStream has no 'windowedBy'; Kafka's windowedBy is win"),
        (lambda: TimeWindows.ofSizeAndGrace, "TimeWindows has no 'ofSizeAndGrace'; Kafka's ofSizeAndGrace is of_size_"),
        (lambda: TimeWindows.of_size(5).advanceBy, "TimeWindows has no 'advanceBy'; Kafka's advanceBy is advance_by"),
        (lambda: Suppressed.untilWindowCloses, "Suppressed has no 'untilWindowCloses'; Kafka's untilWindowCloses is"),
        (lambda: BufferConfig.maxRecords, "BufferConfig has no 'maxRecords'; Kafka's maxRecords is max_records here"),
        (lambda: Materialized.withRetention, "Materialized has no 'withRetention'; write as_(name, retention=…)"),
        (
            lambda: Produced.with_,
            "Produced has no 'with_'; write nothing: serdes are those of the stream; Produced.as_(name) names the",
        ),
        (
            lambda: Repartitioned.numberOfPartitions,
            "Repartitioned has no 'numberOfPartitions'; write as_(name).with_nu",
        ),
        (lambda: Joined.as_("j").withGracePeriod, "Joined has no 'withGracePeriod'; Kafka's withGracePeriod is with_"),
        (
            lambda: Suppressed.until_time_limit(5).withName,
            "Suppressed has no 'withName'; Kafka's withName is with_name",
        ),
        (
            lambda: stream().flat_map_value,
            "KStream has no 'flat_map_value'; did you mean 'flat_map_values' or 'map_values'?",
        ),
        (
            lambda: stream().transformValues,
            "KStream has no 'transformValues'; write process_values(supplier, stores); of a",
        ),
        (
            lambda: stream().group_by_key().count().emit_strategy,
            "KTable has no 'emit_strategy'; write emit_strategy(",
        ),
        (lambda: stream().count, "KStream has no 'count'; write count() of a grouped stream or table: group_by_key()"),
        (lambda: Serde.String(), "Serde has no 'String'; write Serde.string(…)"),
        (lambda: Serde.ByteBuffer(), "Serde has no 'ByteBuffer'; write Serde.byte_buffer(…)"),
        (lambda: Serde.Integer(), "Serde has no 'Integer'; write Serde.int(…)"),
        (lambda: Serde.strng(), "Serde has no 'strng'; did you mean 'string'?"),
        (lambda: STRING.deserializer(), "Serde has no 'deserializer'; write the serde itself, which reads and writes"),
        (lambda: PunctuationType.STREAM, "PunctuationType has no 'STREAM'; write PunctuationType.STREAM_TIME"),
        (
            lambda: PunctuationType.WALLCLOCK_TIME,
            "PunctuationType has no 'WALLCLOCK_TIME'; did you mean 'WALL_CLOCK_TI",
        ),
        (lambda: fold.avg, "fold has no 'avg'; write fold.mean(of)"),
        (lambda: fold.maxBy, "fold has no 'maxBy'; Kafka's maxBy is max_by here"),
    ],
)
def test_an_unknown_name_is_told_what_to_write(call, said):
    with pytest.raises(AttributeError) as caught:
        call()
    assert str(caught.value).startswith(said)


def test_a_name_that_nothing_comes_near_is_an_attribute_error_without_advice():
    with pytest.raises(AttributeError, match=r"^KStream has no 'xyzzy'$"):
        stream().xyzzy  # noqa: B018
    assert not hasattr(stream(), "xyzzy")


@pytest.mark.parametrize(
    ("name", "said"),
    [("Serdes", "write Serde.string()"), ("EmitStrategy", r'write emit_strategy\("on_window_close"\)')],
)
def test_a_class_that_only_kafka_has_is_told_what_to_write_by_the_import(name, said):
    with pytest.raises(ImportError, match=said):
        exec(f"from kstreams_replay import {name}")


@pytest.mark.parametrize(
    "thing", [Serde.string(), TimeWindows.of_size(5), Materialized.as_("a"), Consumed(STRING, LONG)], ids=str
)
def test_what_configures_a_call_is_copied_and_pickled_as_ever(thing):
    assert copy.deepcopy(thing) == pickle.loads(pickle.dumps(thing)) == thing


@pytest.mark.parametrize(
    ("here", "by_kafkas_name"),
    [
        (TimeWindows.of_size(5, grace=2), TimeWindows.of_size_and_grace(5, 2)),
        (TimeWindows.of_size(5), TimeWindows.of_size_with_no_grace(5)),
        (SlidingWindows.of_time_difference(5, grace=2), SlidingWindows.of_time_difference_and_grace(5, 2)),
        (SlidingWindows.of_time_difference(5), SlidingWindows.of_time_difference_with_no_grace(5)),
        (SessionWindows.with_inactivity_gap(5, grace=2), SessionWindows.of_inactivity_gap_and_grace(5, 2)),
        (SessionWindows.with_inactivity_gap(5), SessionWindows.of_inactivity_gap_with_no_grace(5)),
        (Consumed(STRING, LONG), Consumed.with_(STRING, LONG)),
    ],
)
def test_kafkas_names_of_windows_and_serdes_mean_the_same(here, by_kafkas_name):
    assert here == by_kafkas_name


def test_every_class_of_the_dsl_refuses_unknown_names_with_advice():
    names = [name for name, module in kstreams_replay._MODULES.items() if module == ".jobs.topology"]
    dsl = {getattr(kstreams_replay, name) for name in names} - {kstreams_replay.fold}
    plain = {
        kstreams_replay.Serde,
        kstreams_replay.Topology,
        kstreams_replay.SubTopology,
        kstreams_replay.ConsumerRecord,
    }

    assert [each.__name__ for each in dsl - plain if type(each) is type] == []


def test_a_type_error_of_a_users_own_function_is_not_taken_for_one_of_the_call():
    def broken():
        raise TypeError("of the user's own")

    with pytest.raises(TopologyError, match="TypeError: of the user's own; correct the initializer"):
        stream().group_by_key().aggregate(initializer=broken, aggregator=lambda k, v, a: a, returns=LONG)
