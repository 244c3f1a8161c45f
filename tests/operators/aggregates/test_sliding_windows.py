"""Sliding windows: which windows a record is in, which it makes, and in which order they are forwarded (KIP-450)."""

import pytest

from kstreams_replay.jobs.topology import KStream, KTable, Materialized, Serde, SlidingWindows
from kstreams_replay.state.errors import ConfigError, TaskFailed
from tests.operators.aggregates.window_runs import WindowRun, aggregated
from tests.operators.tapes import play, table


def texts(difference: int, *, grace: int = 0, retention: int | None = 1_000):
    """All values of a window, in order of processing."""

    def build(stream: KStream) -> KTable:
        windows = SlidingWindows.of_time_difference(difference, grace=grace)
        return (
            stream.group_by_key()
            .windowed_by(windows)
            .aggregate(
                initializer=str,
                aggregator=lambda key, value, aggregate: f"{aggregate}{value}",
                returns=Serde.string(),
                materialized=Materialized.as_("slides", retention=retention),
            )
        )

    return build


def test_a_record_updates_its_windows_then_makes_the_one_after_its_predecessor_then_its_own():
    """
    As real Kafka Streams played it, difference 10.
    """
    got = play(
        texts(10),
        """
        step | key | value | time_ms
        1    | a   | 1     | 15
        2    | a   | 2     | 20
        3    | a   | 3     | 26
        """,
    )

    want = """
        step | key | window   | value | time_ms
        1    | a   | [5, 15]  | 1     | 15
        2    | a   | [16, 26] | 2     | 20
        2    | a   | [10, 20] | 12    | 20
        3    | a   | [16, 26] | 23    | 26       # the record's own window is there already
        3    | a   | [21, 31] | 3     | 26
    """
    assert got.outputs() == table(want)


def test_an_out_of_order_record_goes_into_windows_by_falling_start_and_copies_what_comes_after_it():
    got = play(
        texts(10, grace=100),
        """
        step | key | value | time_ms
        1    | a   | 1     | 20
        2    | a   | 2     | 28
        3    | a   | 3     | 24
        """,
    )

    want = """
        step | key | window   | value | time_ms
        1    | a   | [10, 20] | 1     | 20
        2    | a   | [21, 31] | 2     | 28
        2    | a   | [18, 28] | 12    | 28
        3    | a   | [21, 31] | 23    | 28
        3    | a   | [18, 28] | 123   | 28
        3    | a   | [14, 24] | 13    | 24
        3    | a   | [25, 35] | 2     | 28       # what was in [21, 31] before the record
    """
    assert got.outputs() == table(want)


def test_a_second_record_of_a_time_makes_no_window():
    got = play(texts(10), "key | value | time_ms\n a | 1 | 15\n a | 2 | 15")

    assert got.outputs("step", "window", "value") == table(
        """
        step | window  | value
        1    | [5, 15] | 1
        2    | [5, 15] | 12
        """
    )


def test_records_before_the_difference_share_the_first_window_which_goes_last():
    """
    As real Kafka Streams played it: windows never start below 0.
    """
    got = play(
        texts(10, grace=100),
        """
        step | key | value | time_ms
        1    | a   | 1     |  3
        2    | a   | 2     |  7
        3    | a   | 3     |  1
        4    | a   | 4     | 12
        5    | a   | 5     | 10
        """,
    )

    want = """
        step | key | window   | value | time_ms
        1    | a   | [0, 10]  | 1     | 3
        2    | a   | [4, 14]  | 2     | 7
        2    | a   | [0, 10]  | 12    | 7
        3    | a   | [2, 12]  | 12    | 7
        3    | a   | [0, 10]  | 123   | 7
        4    | a   | [4, 14]  | 24    | 12
        4    | a   | [2, 12]  | 124   | 12
        4    | a   | [8, 18]  | 4     | 12
        5    | a   | [8, 18]  | 45    | 12
        5    | a   | [4, 14]  | 245   | 12
        5    | a   | [2, 12]  | 1245  | 12
        5    | a   | [0, 10]  | 1235  | 10
        5    | a   | [11, 21] | 4     | 12
    """
    assert got.outputs() == table(want)


def test_a_predecessor_just_outside_makes_the_records_own_window_twice():
    """
    As real Kafka Streams: the window after the record at 4 is the left window of the record at 15.
    """
    got = play(texts(10, grace=100), "key | value | time_ms\n a | 1 | 4\n a | 2 | 15")

    want = """
        step | key | window  | value | time_ms
        1    | a   | [0, 10] | 1     | 4
        2    | a   | [5, 15] | 2     | 15
        2    | a   | [5, 15] | 2     | 15
    """
    assert got.outputs() == table(want)


@pytest.mark.parametrize(
    ("stream_time_ms", "windows"),
    [
        (25, [(10, 20), (15, 25), (21, 31)]),  # 25 - 5 = 20: a window that ends there still takes records
        (26, [(15, 25), (21, 31)]),
        (30, [(15, 25), (21, 31)]),
        (31, [(21, 31)]),  # a copy of [15, 25], to which nothing is added, is never too late
        (35, [(21, 31)]),  # 20 + 10 = 30: the last stream time at which the record is not late
        (36, []),
    ],
)
def test_a_window_takes_records_as_long_as_its_end_is_stream_time_less_grace(stream_time_ms, windows):
    got = play(
        texts(10, grace=5),
        f"""
        step | key | value | time_ms
        1    | a   | 1     | 25
        2    | b   | 1     | {stream_time_ms}
        3    | a   | 2     | 20
        """,
    )

    assert sorted(record.window for record in got.driver.read_outputs("out") if record.arrival == 2) == windows


def test_a_late_record_and_a_closed_window_are_refused():
    got = play(
        texts(10, grace=5),
        """
        step | key | value | time_ms
        1    | a   | 1     | 36
        2    | a   | 2     | 20        # 20 + 10 < 36 - 5: too late for any window
        3    | a   | 3     | 30        # [20, 30] is closed, [26, 36] is not
        4    | -   | 1     | 90
        5    | a   | -     | 90
        """,
    )

    assert got.outputs("step", "window", "value") == table(
        """
        step | window   | value
        1    | [26, 36] | 1
        3    | [26, 36] | 13
        3    | [31, 41] | 1
        """
    )
    assert got.dropped("step", "reason", "window", "limit_ms", window="sliding") == table(
        """
        step | reason         | window   | limit_ms
        2    | expired-window | [20, 30] | 31
        3    | expired-window | [20, 30] | 31
        4    | null-key       | -        | -
        5    | null-value     | -        | -
        """
    )


@pytest.mark.parametrize(("retention_ms", "results"), [(31, [((41, 51), (4,))]), (30, [])])
def test_a_record_does_not_see_windows_that_the_store_has_forgotten(retention_ms, results):
    """
    The newest start is 60, of the window after the record at 59; [30, 40] is shown while 30 > 60 - retention. Only who
    sees it makes the window after the record at 40; the own window of the record at 45 is closed.
    """
    got = aggregated(
        WindowRun(SlidingWindows(10, 10), retention_ms), [("a", 1, 40), ("b", 2, 60), ("b", 3, 59), ("a", 4, 45)]
    )

    assert [result[2:4] for result in got.results if result[0] == 3] == results
    assert got.drops == [3]


def test_a_difference_of_0_fails_at_the_first_record_that_it_takes():
    got = play(texts(0), "key | value | time_ms\n - | 1 | 15\n a | - | 15\n a | 1 | 15\n a | 2 | 15")

    with pytest.raises(TaskFailed, match="expected a time difference of more than 0 ms") as caught:
        got.driver.run()

    assert caught.value.arrival == 2


def test_a_negative_difference_or_grace_is_refused():
    with pytest.raises(ConfigError, match="SlidingWindows time difference: expected 0 ms or more, got -1 ms"):
        SlidingWindows.of_time_difference(-1)
    with pytest.raises(ConfigError, match="SlidingWindows grace"):
        SlidingWindows.of_time_difference(1, grace=-1)


def test_old_values_are_the_window_before_or_what_a_new_window_begins_with():
    """
    Kafka: a new window's old value is the initial value, or for a left window what it took over; a copy has none.
    """
    run = WindowRun(SlidingWindows(10, 100), 1_000, wants_old=True)

    got = aggregated(run, [("a", 1, 20), ("a", 2, 28), ("a", 3, 24)])

    changes = [(window, old, new) for (_, _, window, new, _), old in zip(got.results, got.old, strict=True)]
    assert changes == [
        ((10, 20), (), (1,)),
        ((21, 31), (), (2,)),
        ((18, 28), (1,), (1, 2)),
        ((21, 31), (2,), (2, 3)),
        ((18, 28), (1, 2), (1, 2, 3)),
        ((14, 24), (1,), (1, 3)),
        ((25, 35), None, (2,)),
    ]
