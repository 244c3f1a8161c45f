"""Functions of an aggregate without their names, in the order that Kafka has them, and what is refused of them."""

import pytest

from kstreams_replay import (
    Consumed,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
    fold,
)
from tests.topology.streams import LONG, STRING, refused, stream, table

HOURS, VISITS = TimeWindows.of_size(10), SessionWindows.with_inactivity_gap(5, grace=100)


def empty():
    return "-"


def add(key, value, text):
    return f"{text}{value}"


def take(key, value, text):
    return f"{text}/{value}"


def merge(key, one, other):
    return f"({one}|{other})"


def grouped():
    return stream().group_by_key()


def by_value():
    return table().group_by("value")


def test_a_stream_is_aggregated_by_initializer_and_aggregator():
    made = grouped().windowed_by(HOURS).aggregate(empty, add, returns=STRING).node.aggregation.folds[""]

    assert (made.initializer, made.aggregator, made.returns) == (empty, add, STRING)


def test_sessions_are_merged_by_the_third_function():
    builder = StreamsBuilder()
    words = builder.stream("in", Consumed(STRING, STRING)).group_by_key()
    words.windowed_by(VISITS).aggregate(empty, add, merge, returns=STRING).to_stream("record_key").to("out")
    words.cogroup(add).windowed_by(VISITS).aggregate(empty, merge, returns=STRING).to_stream("record_key").to("both")

    driver = TopologyTestDriver(builder.build())
    for value, time in (("a", 0), ("c", 8), ("b", 4)):  # b is within 5 ms of either
        driver.pipe_input("in", "k", value, timestamp_ms=time)

    want = ["-a", "-c", None, None, "((-|-a)|-c)b"]
    assert [record.value for record in driver.read_outputs("out")] == want
    assert [record.value for record in driver.read_outputs("both")] == want


def test_a_grouped_table_adds_by_the_second_function_and_takes_back_by_the_third():
    builder = StreamsBuilder()
    teams = builder.table("in", Consumed(STRING, STRING))
    teams.group_by("'all'").aggregate(empty, add, take, returns=STRING).to("out")

    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "a", timestamp_ms=0)
    driver.pipe_input("in", "k", "b", timestamp_ms=1)

    assert [record.value for record in driver.read_outputs("out")] == ["-a", "-a/ab"]


REFUSED = {
    "more functions": (
        lambda: grouped().aggregate(empty, add, merge, add, name="here"),
        "here: expected one fold, or initializer, aggregator, merger in this order, got <function add",
    ),
    "a merger without sessions": (
        lambda: grouped().windowed_by(HOURS).aggregate(empty, add, merge, returns=STRING, name="here"),
        "here: expected SessionWindows beside a merger, got TimeWindows; leave the merger out",
    ),
    "a merger of a cogroup without windows": (
        lambda: grouped().cogroup(add).aggregate(empty, merge, returns=STRING, name="here"),
        "here: expected SessionWindows beside a merger, got no windows; leave the merger out",
    ),
    "the order": (
        lambda: grouped().aggregate(add, empty, returns=STRING, name="here"),
        "here: expected a callable of (key, value, aggregate), got empty(); correct its parameters",
    ),
    "an initial value": (
        lambda: grouped().aggregate(0, add, returns=LONG, name="here"),
        "here: expected one fold, or initializer, aggregator, merger in this order, got 0; "
        "give Python functions, or a fold",
    ),
    "a function and a fold": (
        lambda: grouped().aggregate(empty, fold.count(), name="here"),
        "here: expected one fold, or initializer, aggregator, merger in this order, got",
    ),
    "a fold and a function": (
        lambda: grouped().aggregate(fold.count(), add, name="here"),
        "here: expected one fold, or initializer, aggregator, merger in this order, got <function add",
    ),
    "twice": (
        lambda: grouped().aggregate(empty, add, aggregator=add, returns=STRING, name="here"),
        "here: expected one aggregator, got aggregator= beside it; give it once",
    ),
    "no aggregator": (
        lambda: grouped().aggregate(empty, returns=STRING, name="here"),
        "here: expected an aggregator beside initializer, returns, got none; "
        "give aggregator=, or leave initializer= out",
    ),
    "no serde": (
        lambda: grouped().aggregate(empty, add, name="here"),
        "here: expected initializer and returns beside the aggregator, got no returns=; "
        "give aggregate(initializer, aggregator, returns=serde)",
    ),
    "no subtractor": (
        lambda: by_value().aggregate(empty, add, returns=STRING, name="here"),
        "here: expected initializer=, adder=, subtractor= and returns=, got no subtractor=; "
        "give them, or folds such as n=fold.count()",
    ),
    "more functions of a table": (
        lambda: by_value().aggregate(empty, add, take, merge, returns=STRING, name="here"),
        "here: expected one fold, or initializer, adder, subtractor in this order, got <function merge",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_numbers_and_kinds_of_arguments_are_refused(case):
    call, said = REFUSED[case]

    assert refused(call).startswith(said)
