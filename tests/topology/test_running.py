"""What the DSL builds runs: small topologies with struct values, from topic to output."""

from typing import Any

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    BufferConfig,
    Consumed,
    JoinWindows,
    KTable,
    Materialized,
    Serde,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from tests.topology.streams import LONG, LONGS, STRING

CLICKS = Consumed(STRING, Serde.json("page string, ms long"))


def click(page: str | None, ms: int | None) -> dict[str, Any]:
    return {"page": page, "ms": ms}


def played(builder: StreamsBuilder, *records: tuple[str, Any, Any, int]) -> list[tuple[Any, Any, int]]:
    """Key, value and time of what reaches the output "out" of (topic, key, value, time) records."""
    driver = TopologyTestDriver(builder.build())
    for topic, key, value, time_ms in records:
        driver.pipe_input(topic, key, value, time_ms)
    return [(record.key, record.value, record.timestamp_ms) for record in driver.read_outputs("out")]


def test_deduplication_by_id_keeps_keys_values_tombstones_and_order():
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", CLICKS)
    clicks.deduplicate("page", 10).to("out")

    got = played(
        builder,
        ("clicks", "a", click("home", 1), 1),
        ("clicks", "b", click("home", 2), 2),  # the same page, whoever it was
        ("clicks", "c", None, 3),  # no id
        ("clicks", None, click(None, 4), 4),
        ("clicks", None, click("cart", None), 5),
        ("clicks", "b", click("home", 6), 12),  # more than 10 after the first
    )

    assert got == [
        ("a", click("home", 1), 1),
        ("c", None, 3),
        (None, click(None, 4), 4),
        (None, click("cart", None), 5),
        ("b", click("home", 6), 12),
    ]


def test_a_table_of_structs_is_grouped_by_a_field():
    builder = StreamsBuilder()
    table = builder.table("clicks", CLICKS)
    table.group_by("page").aggregate(
        initializer=lambda: 0,
        adder=lambda key, value, total: total + value["ms"],
        subtractor=lambda key, value, total: total - value["ms"],
        returns=LONG,
    ).to("out")

    got = played(
        builder,
        ("clicks", "a", click("home", 5), 1),
        ("clicks", "b", click("home", 7), 2),
        ("clicks", "a", click("cart", 5), 3),
        ("clicks", "b", None, 4),
    )

    assert got == [("home", 5, 1), ("home", 12, 2), ("home", 7, 3), ("cart", 5, 3), ("home", 0, 4)]


def test_branches_take_a_record_each_and_meet_again_in_order():
    builder = StreamsBuilder()
    numbers = builder.stream("in", LONGS).split(name="size-").branch("value > 5").branch("value > 3").default_branch()
    large, middle, small = (numbers[f"size-{number}"] for number in (1, 2, 0))
    tens = middle.map_values("value * 10")
    small.map(lambda key, value: ("small", value), returns_key=STRING, returns=LONG).merge(tens).merge(large).to("out")

    got = played(builder, ("in", "a", 4, 1), ("in", "b", 9, 2), ("in", "c", 1, 3), ("in", "d", None, 4))

    assert got == [("a", 40, 1), ("b", 9, 2), ("small", 1, 3), ("small", None, 4)]


def test_each_record_may_become_several_or_none():
    builder = StreamsBuilder()
    seen: list[tuple[str, int]] = []

    def copies(key, value):
        return [(f"{key}{number}", number) for number in range(value)]

    stream = builder.stream("in", LONGS).peek(lambda key, value: seen.append((key, value)))
    doubled = stream.flat_map(copies, returns_key=STRING, returns=LONG)
    doubled.flat_map_values(lambda key, value: [value, -value], returns=LONG).to("out")

    got = played(builder, ("in", "a", 2, 1), ("in", "b", 0, 2))

    assert seen == [("a", 2), ("b", 0)]
    assert got == [("a0", 0, 1), ("a0", 0, 1), ("a1", 1, 1), ("a1", -1, 1)]


def test_a_stream_is_joined_with_a_stream_and_two_kinds_of_table():
    builder = StreamsBuilder()
    clicks, prices = builder.stream("clicks", CLICKS), builder.table("prices", LONGS)
    pages = builder.global_table("pages", LONGS)
    near = clicks.left_join(builder.stream("views", LONGS), windows=JoinWindows(5, 5, 0), ms="left.ms", seen="right")
    priced = near.join(prices, ms="left.ms", seen="left.seen", price="right")
    found = priced.left_join(
        pages, selector="record_key", ms="left.ms", seen="left.seen", price="left.price", page="right"
    )
    found.to("out")

    got = played(
        builder,
        ("prices", "a", 100, 0),
        ("pages", "a", 7, 0),
        ("clicks", "a", click("home", 1), 10),
        ("views", "a", 3, 12),
        ("clicks", "b", click("home", 2), 20),  # closes [5, 15]; b has no price
    )

    assert got == [("a", {"ms": 1, "seen": 3, "price": 100, "page": 7}, 12)]


def sums(builder: StreamsBuilder) -> KTable:
    return builder.table("a", LONGS).outer_join(builder.table("b", LONGS), "COALESCE(left, 0) + COALESCE(right, 0)")


def test_tables_are_joined_and_their_changes_held_back():
    builder = StreamsBuilder()
    sums(builder).suppress(Suppressed.until_time_limit(100, BufferConfig.max_records(1))).to("out")

    got = played(builder, ("a", "x", 1, 1), ("b", "x", 2, 2), ("a", "y", 5, 3), ("b", "z", 6, 4))

    assert got == [("x", 3, 2), ("y", 5, 3)]


def test_a_foreign_key_join_follows_both_tables():
    builder = StreamsBuilder()
    clicks, pages = builder.table("clicks", CLICKS), builder.table("pages", LONGS)
    clicks.left_join(pages, foreign_key="page", ms="left.ms", size="right").to("out")

    got = played(
        builder,
        ("clicks", "a", click("home", 1), 1),
        ("pages", "home", 10, 2),
        ("clicks", "a", click(None, 1), 3),
        ("clicks", "a", None, 4),
    )

    assert got == [
        ("a", {"ms": 1, "size": None}, 1),
        ("a", {"ms": 1, "size": 10}, 2),
        ("a", {"ms": 1, "size": None}, 3),
        ("a", None, 4),
    ]


def test_two_sub_topologies_may_read_what_the_other_writes():
    builder = StreamsBuilder()
    one, other = builder.stream("a", LONGS), builder.stream("b", LONGS)
    one.repartition(name="there").join(other, "left * 10 + right", JoinWindows(5, 5, 0)).to("out")
    other.repartition(name="back").join(one, "left * 10 + right", JoinWindows(5, 5, 0)).to("other-out")

    got = played(builder, ("a", "k", 1, 1), ("b", "k", 2, 2), ("a", "k", 3, 3), ("b", "k", 4, 4))

    assert got == [("k", 12, 2), ("k", 32, 3), ("k", 14, 4), ("k", 34, 4)]


def test_tables_may_point_to_each_other():
    builder = StreamsBuilder()
    one, other = builder.table("a", LONGS), builder.table("b", LONGS)
    one.join(other, "left * 10 + right", foreign_key="record_key").to("out")
    other.join(one, "left * 10 + right", foreign_key="record_key").to("other-out")

    assert played(builder, ("a", "k", 1, 1), ("b", "k", 2, 2), ("a", "k", 3, 3)) == [("k", 12, 2), ("k", 32, 3)]


def test_one_aggregate_of_two_streams():
    builder = StreamsBuilder()
    clicks, views = builder.stream("clicks", CLICKS).group_by_key(), builder.stream("views", LONGS).group_by_key()
    both = clicks.cogroup(lambda key, value, total: total + value["ms"]).cogroup(
        views, lambda key, value, total: total - value
    )
    both.windowed_by(TimeWindows.of_size(10)).aggregate(int, returns=LONG).to_stream("record_key").to("out")

    got = played(
        builder,
        ("clicks", "a", click("home", 5), 1),
        ("views", "a", 2, 3),
        ("views", "a", 1, 12),
    )

    assert got == [("a", 5, 1), ("a", 3, 3), ("a", -1, 12)]


def test_sliding_windows_are_final_when_they_close():
    builder = StreamsBuilder()
    windows = builder.stream("in", LONGS).group_by_key().windowed_by(SlidingWindows.of_time_difference(10))
    finals = windows.emit_strategy("on_window_close").count(Materialized(retention=1000))
    finals.to_stream("window_start_ms").to("out")

    got = played(builder, ("in", "a", 1, 15), ("in", "a", 1, 20), ("in", "a", 1, 100))

    assert got == [(5, 1, 15), (10, 2, 20), (16, 1, 20)]


def test_a_subtractor_may_meet_a_value_that_was_never_added():
    """
    Suppress holds 2 back, and what its next change replaces is 2 all the same, as in Kafka Streams.
    """
    builder = StreamsBuilder()
    (
        builder.table("in", LONGS)
        .suppress(Suppressed.until_time_limit(5))
        .group_by("record_key")
        .aggregate(
            initializer=str,
            adder=lambda key, value, said: f"{said}+{value}",
            subtractor=lambda key, value, said: f"{said}-{value}",
            returns=STRING,
        )
        .to("out")
    )
    driver = TopologyTestDriver(builder.build())
    for key, value, time_ms in (("a", 1, 0), ("b", 0, 10), ("a", 2, 11), ("a", 3, 12), ("b", 0, 30)):
        driver.pipe_input("in", key, value, timestamp_ms=time_ms)

    assert [record.value for record in driver.read_outputs("out") if record.key == "a"] == ["+1", "+1-2+3"]


def test_each_call_sees_tombstones_as_kafka_s_does():
    """
    A filter of a stream is asked about a tombstone; a step of a table never is.
    """
    builder = StreamsBuilder()
    stream = builder.stream("in", CLICKS)
    stream.filter("value_is_null").to("deleted")
    stream.filter("page IS NULL").to("no-page")
    stream.filter_not("value_is_null").map_values("ms").to("kept")
    stream.map_values("value_is_null").to("mapped")
    builder.table("t", CLICKS).filter("value_is_null").to("table")
    driver = TopologyTestDriver(builder.build())
    for key, value in (("a", click("x", 1)), ("b", None), ("c", click(None, None))):
        for topic in ("in", "t"):
            driver.pipe_input(topic, key, value, timestamp_ms=0)

    def got(output: str) -> list[tuple[str, Any]]:
        return [(record.key, record.value) for record in driver.read_outputs(output)]

    assert got("deleted") == [("b", None)]
    assert got("no-page") == [("b", None), ("c", click(None, None))]
    assert got("kept") == [("a", 1), ("c", None)]
    assert got("mapped") == [("a", False), ("b", None), ("c", False)]
    assert got("table") == [("a", None), ("b", None), ("c", None)]
