"""Final results at the close of windows, and no result before: which windows leave, when, in which order, and which
are lost (KIP-825).
"""

import pytest

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    KStream,
    KTable,
    Materialized,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    UnlimitedWindows,
    fold,
)
from kstreams_replay.state.errors import ConfigError
from tests.operators.aggregates.window_runs import WindowRun, aggregated
from tests.operators.tapes import play, table

TUMBLING = TimeWindows.of_size(10)


def counts(windows, *, store: str = "persistent", retention: int | None = 1_000):
    def build(stream: KStream) -> KTable:
        grouped = stream.group_by_key().windowed_by(windows).emit_strategy("on_window_close")
        return grouped.count(Materialized(store=store, retention=retention))

    return build


def closed(windows, tape: str, **store) -> list[tuple]:
    """(step, key, window) of every result."""
    outputs = play(counts(windows, **store), tape).driver.read_outputs("out")
    return [(record.arrival + 1, record.key, record.window) for record in outputs]


def test_a_tumbling_window_leaves_once_at_the_first_record_after_its_grace():
    got = play(
        counts(TimeWindows.of_size(10, grace=5)),
        """
        step | key | value | time_ms
        1    | a   | 1     |  9
        2    | a   | 1     | 14        # 14 - 5 < 10
        3    | a   | 1     |  3
        4    | b   | 1     | 15        # 15 - 5 = 10: closes [0, 10)
        5    | a   | 1     |  4        # closed: refused, and no further result
        6    | b   | 1     | 25
        """,
    )

    want = """
        step | key | window   | value | time_ms
        4    | a   | [0, 10)  | 2     | 9        # the largest time in the window
        6    | a   | [10, 20) | 1     | 14
        6    | b   | [10, 20) | 1     | 15
    """
    assert got.outputs() == table(want)
    assert got.dropped("step", "reason", "window") == table(
        """
        step | reason         | window
        5    | expired-window | [0, 10)
        """
    )


def test_results_of_one_record_leave_by_start_and_then_by_key_bytes():
    tape = """
        key | value | time_ms
        é   | 1     | 12
        aa  | 1     |  2
        b   | 1     |  3
        a   | 1     | 13
        aa  | 1     | 11
        z   | 1     | 60
    """
    assert closed(TimeWindows.of_size(10, grace=20), tape) == [
        (6, "aa", (0, 10)),
        (6, "b", (0, 10)),
        (6, "a", (10, 20)),
        (6, "aa", (10, 20)),
        (6, "é", (10, 20)),
    ]


def test_a_late_record_still_makes_windows_leave_only_if_stream_time_moved():
    tape = "key | value | time_ms\n a | 1 | 5\n a | 1 | 10\n a | 1 | 5\n - | 1 | 90"

    assert closed(TUMBLING, tape) == [(2, "a", (0, 10))]


@pytest.mark.parametrize(
    ("windows", "stream_time_ms", "is_closed"),
    [
        (TimeWindows.of_size(10, grace=5), 14, False),
        (TimeWindows.of_size(10, grace=5), 15, True),  # [0, 10): end 10 = 15 - 5
        (SlidingWindows.of_time_difference(10, grace=5), 23, False),
        (SlidingWindows.of_time_difference(10, grace=5), 24, False),
        (SlidingWindows.of_time_difference(10, grace=5), 25, True),  # [9, 19]: its end 19 < 25 - 5
        (SessionWindows.with_inactivity_gap(10, grace=5), 34, False),  # [19, 19]: 19 = 34 - 15 is open
        (SessionWindows.with_inactivity_gap(10, grace=5), 35, True),
    ],
)
def test_a_window_leaves_when_it_takes_no_more_records(windows, stream_time_ms, is_closed):
    time_ms = 9 if isinstance(windows, TimeWindows) else 19

    got = closed(windows, f"key | value | time_ms\n a | 1 | {time_ms}\n b | 1 | {stream_time_ms}")

    assert [key for _, key, _ in got] == (["a"] if is_closed else [])


@pytest.mark.parametrize(
    ("store", "retention", "want"),
    [
        ("persistent", None, [(2, (0, 10)), (3, (10, 20))]),
        ("in_memory", None, []),
        ("persistent", 1_000, [(2, (0, 10)), (3, (10, 20)), (4, (20, 30)), (5, (100, 110))]),
        ("persistent", 100_000, [(2, (0, 10)), (3, (10, 20)), (4, (20, 30)), (5, (100, 110)), (6, (200, 210))]),
    ],
)
def test_a_jump_of_stream_time_loses_windows_that_the_store_has_forgotten(store, retention, want):
    """
    The new window is put before closed ones are looked for; [20, 30) is shown while 20 >= newest start - retention.
    """
    tape = "key | value | time_ms\n" + "\n".join(f"k | 1 | {time}" for time in (5, 10, 20, 100, 200, 100_000))

    got = closed(TUMBLING, tape, store=store, retention=retention)

    assert [(step, window) for step, _, window in got] == want


def test_no_loss_is_a_drop():
    tape = "key | value | time_ms\n k | 1 | 5\n k | 1 | 500"

    got = play(counts(TUMBLING, store="in_memory", retention=None), tape)

    assert got.outputs() == table("step | key | window | value | time_ms")
    assert got.driver.dropped == []


def test_sessions_leave_by_end_and_carry_it_as_their_time():
    got = play(
        counts(SessionWindows.with_inactivity_gap(5, grace=20)),
        """
        step | key | value | time_ms
        1    | b   | 1     | 10
        2    | a   | 1     | 12
        3    | b   | 1     | 12
        4    | c   | 1     |  3
        5    | a   | 1     | 40
        """,
    )

    want = """
        step | key | window   | value | time_ms
        5    | c   | [3, 3]   | 1     | 3
        5    | b   | [10, 12] | 2     | 12       # of equal ends the smaller start first
        5    | a   | [12, 12] | 1     | 12
    """
    assert got.outputs() == table(want)


def test_sessions_in_memory_leave_by_end_then_key_then_falling_start():
    run = WindowRun(SessionWindows(5, 20), 1_000, is_persistent=False, emits_final=True)

    got = aggregated(run, [("b", 1, 10), ("a", 1, 12), ("b", 1, 12), ("c", 1, 12), ("a", 1, 40)])

    assert [(key, window) for _, key, window, _, _ in got.results] == [
        ("a", (12, 12)),
        ("b", (10, 12)),
        ("c", (12, 12)),
    ]


def test_a_session_that_left_may_leave_again_as_part_of_a_longer_one():
    """
    Its store still has it: [10, 10] closed at 16, [15, 15] has not, and the record at 15 joins them.
    """
    run = WindowRun(SessionWindows(5, 0), 1_000, emits_final=True)

    got = aggregated(run, [("a", 1, 10), ("b", 1, 16), ("a", 2, 15), ("b", 1, 30)])

    assert [result[:4] for result in got.results] == [
        (1, "a", (10, 10), (1,)),
        (3, "a", (10, 15), (1, 2)),
        (3, "b", (16, 16), (1,)),
    ]


@pytest.mark.parametrize(("jump_ms", "is_there"), [(120_009, True), (120_010, False)])
def test_a_persistent_session_outlives_its_retention_until_its_segment_is_gone(jump_ms, is_there):
    """
    Retention 10 ms, segments of a minute: the session at 61 s is in [60 s, 120 s), which goes when stream time less
    retention is past it.
    """
    tape = f"key | value | time_ms\n a | 1 | 61000\n x | 1 | {jump_ms}"

    got = closed(SessionWindows.with_inactivity_gap(10), tape, retention=None)

    assert got == ([(2, "a", (61_000, 61_000))] if is_there else [])


def test_a_result_that_is_null_does_not_leave():
    def build(stream: KStream) -> KTable:
        grouped = stream.group_by_key().windowed_by(TUMBLING).emit_strategy("on_window_close")
        return grouped.aggregate(fold.min("value"), materialized=Materialized(retention=100))

    got = play(build, "key | value | time_ms\n a | - | 5\n b | 3 | 6\n b | 1 | 10")

    assert got.outputs("step", "key", "value") == table("step | key | value\n 3 | b | 3")


def test_a_python_aggregate_that_answers_none_is_gone_before_its_window_closes():
    def build(stream: KStream) -> KTable:
        grouped = stream.group_by_key().windowed_by(TUMBLING).emit_strategy("on_window_close")
        add = lambda key, value, aggregate: None if value == 0 else aggregate + value  # noqa: E731
        materialized = Materialized(retention=100)
        return grouped.aggregate(initializer=int, aggregator=add, returns=Serde.long(), materialized=materialized)

    got = play(build, "key | value | time_ms\n a | 5 | 1\n b | 5 | 2\n a | 0 | 3\n b | 1 | 4\n b | 1 | 10")

    assert got.outputs("step", "key", "value") == table("step | key | value\n 5 | b | 6")


def test_results_carry_the_headers_of_the_record_that_closed_them():
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(Serde.string(), Serde.long())).group_by_key().windowed_by(TUMBLING)
    grouped.emit_strategy("on_window_close").count(Materialized(retention=100)).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1, 5, headers=[("by", b"first")])
    driver.pipe_input("in", "b", 1, 10, headers=[("by", b"second")])

    assert [record.headers for record in driver.read_outputs("out")] == [(("by", b"second"),)]


def test_a_join_of_final_results_sees_what_the_other_store_holds_now():
    """
    Kafka joins with the store, which has the count of 3 in [0, 10) before that window has closed on the right side.
    """
    builder = StreamsBuilder()
    left, right = (
        builder.stream(topic, Consumed(Serde.string(), Serde.long()))
        .group_by_key()
        .windowed_by(TUMBLING)
        .emit_strategy("on_window_close")
        .count(Materialized(retention=100))
        for topic in ("left", "right")
    )
    left.join(right, lambda one, other: 10 * one + other, returns=Serde.long()).to("out")
    driver = TopologyTestDriver(builder.build())
    for topic, key, time_ms in [("left", "a", 5), ("right", "a", 1), ("right", "a", 2), ("left", "b", 10)]:
        driver.pipe_input(topic, key, 0, time_ms)

    assert [(record.key, record.window, record.value) for record in driver.read_outputs("out")] == [("a", (0, 10), 12)]


def test_unlimited_windows_never_close():
    with pytest.raises(ConfigError, match="unlimited windows"):
        play(counts(UnlimitedWindows.of()), "key | value | time_ms")
