"""Aggregates without windows, and grouping by another key."""

import pytest

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    KStream,
    KTable,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    fold,
)
from kstreams_replay.state.errors import TaskFailed
from tests.operators.tapes import play, table


def count(stream: KStream) -> KTable:
    return stream.group_by_key().count(Materialized.as_("counts"))


def test_every_record_updates_its_key_and_forwards_it():
    got = play(
        count,
        """
        step | key | value | time_ms
        1    | a   | 1     | 5
        2    | b   | 1     | 9
        3    | a   | 1     | 3        # the aggregate keeps the larger time
        4    | a   | 1     | 6
        """,
    )

    assert got.outputs() == table(
        """
        step | key | value | time_ms
        1    | a   | 1     | 5
        2    | b   | 1     | 9
        3    | a   | 2     | 5
        4    | a   | 3     | 6
        """
    )


def test_null_keys_and_null_values_are_refused():
    """
    Windows take null values; an aggregate without windows does not.
    """
    got = play(
        count,
        """
        step | key | value | time_ms
        1    | -   | 1     | 1
        2    | a   | -     | 2
        3    | -   | -     | 3        # the key decides the reason
        """,
    )

    assert got.outputs() == table("step | key | value | time_ms")
    assert got.dropped("step", "reason", "record_time_ms", "limit_ms") == table(
        """
        step | reason     | record_time_ms | limit_ms
        1    | null-key   | 1              | -
        3    | null-key   | 3              | -
        2    | null-value | 2              | -
        """
    )


def test_reduce_takes_the_first_value_as_it_is():
    got = play(
        lambda stream: stream.group_by_key().reduce(lambda one, other: one - other),
        "key | value | time_ms\n a | 10 | 1\n a | 3 | 2\n a | 2 | 3",
    )

    assert [record.value for record in got.driver.read_outputs("out")] == [10, 7, 5]


def test_an_aggregator_that_answers_none_deletes_the_key():
    got = play(
        lambda stream: stream.group_by_key().aggregate(
            initializer=lambda: 0,
            aggregator=lambda key, value, aggregate: None if value == 0 else aggregate + value,
            returns=Serde.long(),
            materialized=Materialized.as_("sums"),
        ),
        "key | value | time_ms\n a | 5 | 9\n a | 0 | 1\n a | 7 | 2",
    )

    assert got.outputs("step", "value", "time_ms") == table(
        """
        step | value | time_ms
        1    | 5     | 9
        2    | -     | 9        # the larger time of the record and of what it deletes
        3    | 7     | 2        # begins anew, with its own time
        """
    )
    assert got.driver.store("sums").all() == [("a", None, 7)]


def test_an_aggregator_sees_key_value_and_aggregate():
    got = play(
        lambda stream: stream.group_by_key().aggregate(
            initializer=lambda: "",
            aggregator=lambda key, value, aggregate: f"{aggregate}{key}{value}",
            returns=Serde.string(),
        ),
        "key | value | time_ms\n a | 1 | 1\n a | 2 | 2",
    )

    assert [record.value for record in got.driver.read_outputs("out")] == ["a1", "a1a2"]


def test_an_aggregator_that_fails_is_named_with_its_key():
    def inverted(stream):
        grouped = stream.group_by_key()
        return grouped.aggregate(initializer=lambda: 0, aggregator=add_inverse, returns=Serde.long(), name="inverse")

    def add_inverse(key, value, aggregate):
        return aggregate + 1 // value

    got = play(inverted, "key | value | time_ms\n a | 1 | 1\n b | 0 | 2")

    with pytest.raises(TaskFailed) as caught:
        got.driver.run()

    assert str(caught.value) == (
        "inverse: expected an aggregate, got ZeroDivisionError: integer division or modulo by zero on key 'b'; "
        "correct the aggregator or the merger; "
        f"it is called in {__file__}, line {inverted.__code__.co_firstlineno + 2}"
    )


def test_an_aggregate_of_another_type_than_declared_is_refused():
    got = play(
        lambda stream: stream.group_by_key().aggregate(
            initializer=lambda: 0, aggregator=lambda key, value, aggregate: "1", returns=Serde.long(), name="sum"
        ),
        "key | value | time_ms\n a | 1 | 1",
    )

    with pytest.raises(
        TaskFailed, match=r"sum: expected an aggregate of Serde.long\(\), got '1' \(str\) on key 'a'; correct"
    ):
        got.driver.run()


def test_a_store_without_windows_answers_by_key():
    got = play(count, "key | value | time_ms\n b | 1 | 1\n a | 1 | 1\n b | 1 | 1")

    store = got.driver.store("counts")
    assert store.all() == [("a", None, 1), ("b", None, 2)]
    assert (store.get("b"), store.get("z")) == (2, None)


# --- grouping by another key ---------------------------------------------------------------------------------


def test_group_by_goes_through_a_repartition_table_with_times_and_values():
    got = play(
        lambda stream: stream.group_by("value % 3").aggregate(total=fold.sum("value"), keys=fold.count()),
        """
        step | key | value | time_ms
        1    | a   | 4     | 5
        2    | b   | 7     | 3
        3    | c   | 5     | 9
        """,
    )

    outputs = [(r.arrival + 1, r.key, r.value, r.timestamp_ms) for r in got.driver.read_outputs("out")]
    assert outputs == [
        (1, 1, {"total": 4, "keys": 1}, 5),
        (2, 1, {"total": 11, "keys": 2}, 5),
        (3, 2, {"total": 5, "keys": 1}, 9),
    ]


def test_null_keys_before_a_repartition_are_filtered_in_silence():
    got = play(
        lambda stream: stream.group_by("NULLIF(value, 1)").count(),
        "key | value | time_ms\n a | 1 | 1\n a | 2 | 2\n a | - | 3",
    )

    assert [(r.arrival, r.key, r.value) for r in got.driver.read_outputs("out")] == [(1, 2, 1)]
    assert got.driver.dropped == []


def test_lateness_counts_records_of_repartition_topics_too():
    """
    Four records were taken: 9, 9 again from the repartition topic, 4 and 4 again, each of these 5 behind.
    """
    got = play(lambda stream: stream.group_by("value").count(), "key | value | time_ms\n a | 1 | 9\n a | 1 | 4")

    metrics = got.driver.metrics()
    assert (metrics["record-lateness-avg"], metrics["record-lateness-max"]) == (2.5, 5)


def test_two_aggregates_of_one_grouping_each_see_every_record():
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(Serde.string(), Serde.long())).group_by_key()
    grouped.count().to("counts")
    grouped.windowed_by(TimeWindows.of_size(10)).aggregate(fold.max("value")).to("largest")
    driver = TopologyTestDriver(builder.build())
    for value in (3, 5, 4):
        driver.pipe_input("in", "a", value, value)

    assert [record.value for record in driver.read_outputs("counts")] == [1, 2, 3]
    assert [record.value for record in driver.read_outputs("largest")] == [3, 5, 5]


def test_an_aggregate_of_final_results_groups_by_a_key_made_of_the_windowed_one():
    """
    to_stream gives a windowed key, select_key a plain one; a second sub-topology counts the windows of each key.
    """
    got = play(
        lambda stream: (
            stream.group_by_key()
            .windowed_by(TimeWindows.of_size(10))
            .count()
            .suppress(Suppressed.until_window_closes())
            .to_stream()
            .select_key("record_key")
            .group_by_key()
            .aggregate(windows=fold.count(), records=fold.sum("value"))
        ),
        """
        step | key | value | time_ms
        1    | a   | 1     |  1
        2    | a   | 1     |  2
        3    | b   | 1     | 11
        4    | a   | 1     | 12
        5    | z   | 1     | 20
        """,
    )

    outputs = [(r.arrival + 1, r.key, r.value, r.timestamp_ms) for r in got.driver.read_outputs("out")]
    assert outputs == [
        (3, "a", {"windows": 1, "records": 2}, 2),
        (5, "a", {"windows": 2, "records": 3}, 12),
        (5, "b", {"windows": 1, "records": 1}, 11),
    ]


# --- old values ----------------------------------------------------------------------------------------------


def test_a_group_that_reads_old_values_takes_an_initial_value_away_that_was_never_added():
    """
    Kafka's Change.old of a key's first aggregate is the initial value, 5 here; a reduced one's is null.
    """

    def build(first: KStream, *, is_reduced: bool) -> KTable:
        grouped = first.group_by_key()
        if is_reduced:
            sums = grouped.reduce(lambda one, other: one + other)
        else:
            add = lambda key, value, so_far: so_far + value  # noqa: E731
            sums = grouped.aggregate(initializer=lambda: 5, aggregator=add, returns=Serde.long())
        regrouped = sums.group_by("'all'")
        return regrouped.aggregate(
            initializer=lambda: 0,
            adder=lambda key, value, so_far: so_far + value,
            subtractor=lambda key, value, so_far: so_far - value,
            returns=Serde.long(),
        )

    tape = "key | value | time_ms\n a | 1 | 1\n b | 2 | 2\n a | 3 | 3"

    for is_reduced, want in ((False, [6, 8, 11]), (True, [1, 3, 6])):
        got = play(lambda stream, is_reduced=is_reduced: build(stream, is_reduced=is_reduced), tape)
        assert [record.value for record in got.driver.read_outputs("out")] == want
