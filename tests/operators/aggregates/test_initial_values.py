"""The initial value of an aggregate is never serialized: what the aggregator makes of it is (KStreamAggregate)."""

import re

import pytest

from kstreams_replay import (
    Consumed,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)
from kstreams_replay.state.errors import TaskFailed

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
TOTAL = Serde.avro(
    {
        "type": "record",
        "name": "Total",
        "fields": [{"name": "order", "type": ORDER}, {"name": "value", "type": "double"}],
    }
)
STRING, LONG = Serde.string(), Serde.long()


def nothing_yet():
    """No order, which the serde cannot write."""
    return {"order": None, "value": 0.0}


def add(key, order, total):
    return {"order": order, "value": total["value"] + 1}


def merge(key, one, other):
    return {"order": other["order"] or one["order"], "value": one["value"] + other["value"]}


@pytest.mark.parametrize(
    "windowed",
    [
        lambda grouped: grouped.aggregate(nothing_yet, add, returns=TOTAL),
        lambda grouped: grouped.windowed_by(TimeWindows.of_size(10)).aggregate(nothing_yet, add, returns=TOTAL),
        lambda grouped: grouped.windowed_by(SlidingWindows.of_time_difference_and_grace(10, 0)).aggregate(
            nothing_yet, add, returns=TOTAL
        ),
        lambda grouped: grouped.windowed_by(SessionWindows.with_inactivity_gap(10)).aggregate(
            nothing_yet, add, merge, returns=TOTAL
        ),
        lambda grouped: grouped.cogroup(add).aggregate(nothing_yet, returns=TOTAL),
    ],
    ids=["no windows", "time windows", "sliding windows", "sessions", "cogroup"],
)
def test_an_initial_value_that_the_serde_cannot_write_is_what_the_first_record_is_added_to(windowed):
    builder = StreamsBuilder()
    windowed(builder.stream("orders", Consumed(STRING, Serde.avro(ORDER))).group_by_key()).to_stream().to("totals")
    driver = TopologyTestDriver(builder.build())

    driver.pipe_input("orders", "ann", {"id": "o1"}, timestamp_ms=3)
    driver.pipe_input("orders", "ann", {"id": "o2"}, timestamp_ms=3)

    values = [record.value for record in driver.read_outputs("totals")]
    assert values == [{"order": {"id": "o1"}, "value": 1.0}, {"order": {"id": "o2"}, "value": 2.0}]


COUNTED = Serde.avro(
    {"type": "record", "name": "Counted", "fields": [{"name": "key", "type": "string"}, {"name": "n", "type": "int"}]}
)


def count(key, value, counted):
    return {"key": key, "n": 1 + (counted["n"] if counted else 0)}


@pytest.mark.parametrize(
    "windowed",
    [
        lambda grouped: grouped.aggregate(lambda: None, count, returns=COUNTED),
        lambda grouped: grouped.windowed_by(TimeWindows.of_size(10)).aggregate(lambda: None, count, returns=COUNTED),
        lambda grouped: grouped.cogroup(count).aggregate(lambda: None, returns=COUNTED),
    ],
    ids=["no windows", "time windows", "cogroup"],
)
def test_an_aggregate_may_begin_with_nothing(windowed):
    builder = StreamsBuilder()
    windowed(builder.stream("in", Consumed(STRING, STRING)).group_by_key()).to_stream().to("out")
    driver = TopologyTestDriver(builder.build())

    for value in "xyz":
        driver.pipe_input("in", "ann", value, timestamp_ms=3)

    assert [record.value for record in driver.read_outputs("out")] == [{"key": "ann", "n": n} for n in (1, 2, 3)]


def test_a_grouped_table_begins_with_it_too():
    builder = StreamsBuilder()
    grouped = builder.table("orders", Consumed(STRING, Serde.avro(ORDER))).group_by("'all'")
    less = lambda key, order, total: {"order": order, "value": total["value"] - 1}  # noqa: E731
    grouped.aggregate(initializer=nothing_yet, adder=add, subtractor=less, returns=TOTAL).to_stream().to("totals")
    driver = TopologyTestDriver(builder.build())

    driver.pipe_input("orders", "ann", {"id": "o1"}, timestamp_ms=0)

    assert driver.read_output("totals").value == {"order": {"id": "o1"}, "value": 1.0}


@pytest.mark.parametrize(
    ("initializer", "aggregator", "want"),
    [
        (
            str,
            lambda key, value, aggregate: aggregate + value,
            "expected an aggregate, got TypeError: can only concatenate str (not \"int\") to str on key 'ann'; "
            "correct the initializer, which gives '', the aggregator or the merger",
        ),
        (
            str,
            lambda key, value, aggregate: aggregate,
            "expected an aggregate of Serde.long(), got '' (str) on key 'ann'; "
            "correct the initializer, which gives '', the aggregator, or the serde in returns",
        ),
        (
            int,
            lambda key, value, aggregate: str(value),
            "expected an aggregate of Serde.long(), got '7' (str) on key 'ann'; "
            "correct the aggregator, or the serde in returns",
        ),
    ],
)
def test_an_aggregate_that_fails_names_the_initializer_when_that_gives_another_type(initializer, aggregator, want):
    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, LONG)).group_by_key().aggregate(initializer, aggregator, returns=LONG)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "ann", 7)

    with pytest.raises(TaskFailed, match=re.escape(want)):
        driver.run()


@pytest.mark.parametrize(
    ("adder", "want"),
    [
        (
            lambda key, value, aggregate: aggregate + value,
            "correct the initializer, which gives '', the adder or the subtractor",
        ),
        (
            lambda key, value, aggregate: aggregate,
            "correct the initializer, which gives '', the callables, or the serde in returns",
        ),
    ],
)
def test_a_grouped_table_that_fails_names_it_too(adder, want):
    builder = StreamsBuilder()
    grouped = builder.table("in", Consumed(STRING, LONG)).group_by("'all'")
    grouped.aggregate(initializer=str, adder=adder, subtractor=adder, returns=LONG)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "ann", 7)

    with pytest.raises(TaskFailed, match=re.escape(want)):
        driver.run()


def test_what_a_change_replaced_is_asked_for_as_a_value_of_the_serde():
    """Kafka writes both to the repartition topic of a table, and fails there, too."""
    builder = StreamsBuilder()
    grouped = builder.stream("orders", Consumed(STRING, Serde.avro(ORDER))).group_by_key()
    table = grouped.aggregate(nothing_yet, add, returns=TOTAL, name="totals")
    table.filter("value > 1").to_stream().to("large")
    table.group_by("'all'").count().to_stream().to("counts")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("orders", "ann", {"id": "o1"}, timestamp_ms=0)

    with pytest.raises(TaskFailed, match=r"correct the initializer, which gives \{'order': None, 'value': 0.0\}"):
        driver.run()
