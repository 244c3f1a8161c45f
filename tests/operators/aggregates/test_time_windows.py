"""Tumbling and hopping windows: which windows a record is in, until when they take it, what is forwarded."""

import pytest

from kstreams_replay.jobs.topology import KStream, KTable, Materialized, TimeWindows, UnlimitedWindows, fold
from tests.operators.aggregates.window_runs import WindowRun, aggregated
from tests.operators.tapes import play, table


def counts(windows: TimeWindows):
    def build(stream: KStream) -> KTable:
        return stream.group_by_key().windowed_by(windows).count()

    return build


def texts(windows: TimeWindows):
    """All values of a window, in order of processing."""

    def build(stream: KStream) -> KTable:
        return stream.group_by_key().windowed_by(windows).reduce(lambda one, other: 10 * one + other)

    return build


def test_a_window_is_closed_at_its_start_and_open_at_its_end():
    got = play(
        counts(TimeWindows.of_size(10)),
        """
        step | key | value | time_ms
        1    | a   | 1     |  0
        2    | a   | 1     |  9        # the last millisecond of [0, 10)
        3    | a   | 1     | 10        # the first of the next
        """,
    )

    want = """
        step | key | window   | value | time_ms
        1    | a   | [0, 10)  | 1     | 0
        2    | a   | [0, 10)  | 2     | 9
        3    | a   | [10, 20) | 1     | 10
    """
    assert got.outputs() == table(want)


@pytest.mark.parametrize(
    ("stream_time_ms", "is_taken"),
    [
        (14, True),  # 14 - 5 = 9 < 10
        (15, False),  # 15 - 5 = 10: closed
        (16, False),
    ],
)
def test_a_window_takes_records_while_its_end_is_greater_than_stream_time_less_grace(stream_time_ms, is_taken):
    got = play(
        counts(TimeWindows.of_size(10, grace=5)),
        f"""
        step | key | value | time_ms
        1    | b   | 1     | {stream_time_ms}
        2    | a   | 1     | 9
        """,
    )

    taken = "2    | a   | [0, 10)  | 1     | 9" if is_taken else ""
    want = f"""
        step | key | window   | value | time_ms
        1    | b   | [10, 20) | 1     | {stream_time_ms}
        {taken}
    """
    assert got.outputs() == table(want)
    refused = "" if is_taken else f"2    | expired-window | [0, 10) | {stream_time_ms} | {stream_time_ms - 5}"
    assert got.dropped() == table(
        f"""
        step | reason         | window  | stream_time_ms | limit_ms
        {refused}
        """
    )


def test_without_grace_the_record_that_reaches_the_end_closes_the_window():
    got = play(
        counts(TimeWindows.of_size(10)),
        """
        step | key | value | time_ms
        1    | a   | 1     |  5
        2    | b   | 1     |  9        # 9 < 10: open
        3    | a   | 1     |  0
        4    | b   | 1     | 10        # closed
        5    | a   | 1     |  9
        """,
    )

    assert got.outputs("step", "key", "value") == table(
        """
        step | key | value
        1    | a   | 1
        2    | b   | 1
        3    | a   | 2
        4    | b   | 1
        """
    )
    assert got.dropped() == table(
        """
        step | reason         | window  | stream_time_ms | limit_ms
        5    | expired-window | [0, 10) | 10             | 10
        """
    )


def test_a_hopping_record_updates_its_open_windows_and_is_refused_by_the_closed_ones():
    """
    As real Kafka Streams played it: size 10, advance 4, grace 3.
    """
    got = play(
        texts(TimeWindows.of_size(10, grace=3).advance_by(4)),
        """
        step | key | value | time_ms
        1    | k   | 1     |  9
        2    | k   | 2     | 15
        3    | k   | 3     | 14
        4    | k   | 4     |  5        # close is 12: [0, 10) is closed, [4, 14) is open
        5    | k   | 5     | 17
        6    | k   | 6     |  7        # close is 14: both closed
        7    | k   | 7     |  3
        """,
    )

    want = """
        step | key | window   | value | time_ms
        1    | k   | [0, 10)  | 1     | 9
        1    | k   | [4, 14)  | 1     | 9
        1    | k   | [8, 18)  | 1     | 9
        2    | k   | [8, 18)  | 12    | 15
        2    | k   | [12, 22) | 2     | 15
        3    | k   | [8, 18)  | 123   | 15
        3    | k   | [12, 22) | 23    | 15
        4    | k   | [4, 14)  | 14    | 9
        5    | k   | [8, 18)  | 1235  | 17
        5    | k   | [12, 22) | 235   | 17
        5    | k   | [16, 26) | 5     | 17
    """
    assert got.outputs() == table(want)
    assert got.dropped() == table(
        """
        step | reason         | window  | stream_time_ms | limit_ms
        4    | expired-window | [0, 10) | 15             | 12
        6    | expired-window | [0, 10) | 17             | 14
        6    | expired-window | [4, 14) | 17             | 14
        7    | expired-window | [0, 10) | 17             | 14
        """
    )


def test_no_window_begins_before_0():
    got = play(
        counts(TimeWindows.of_size(10).advance_by(3)),
        """
        step | key | value | time_ms
        1    | a   | 1     | 0
        2    | a   | 1     | 4
        """,
    )

    assert got.outputs("step", "window", "value") == table(
        """
        step | window  | value
        1    | [0, 10) | 1
        2    | [0, 10) | 2
        2    | [3, 13) | 1
        """
    )


@pytest.mark.parametrize(
    ("time_ms", "starts"),
    [
        (9, [0, 3, 6, 9]),  # 9 - 10 + 3 = 2, rounded down to 0
        (10, [3, 6, 9]),  # 10 - 10 + 3 = 3
        (11, [3, 6, 9]),
        (12, [3, 6, 9, 12]),
        (13, [6, 9, 12]),
    ],
)
def test_windows_that_the_advance_does_not_divide_contain_the_record(time_ms, starts):
    got = play(counts(TimeWindows.of_size(10).advance_by(3)), f"key | value | time_ms\n a | 1 | {time_ms}")

    assert [record.window for record in got.driver.read_outputs("out")] == [(start, start + 10) for start in starts]


def test_an_update_has_the_largest_record_time_of_its_window():
    got = play(
        counts(TimeWindows.of_size(10, grace=100)),
        """
        step | key | value | time_ms
        1    | a   | 1     |  7
        2    | b   | 1     | 50
        3    | a   | 1     |  2        # late for nobody; the window's time stays 7
        4    | a   | 1     |  8
        """,
    )

    assert got.outputs("step", "key", "value", "time_ms") == table(
        """
        step | key | value | time_ms
        1    | a   | 1     | 7
        2    | b   | 1     | 50
        3    | a   | 2     | 7
        4    | a   | 3     | 8
        """
    )


def test_a_null_key_is_refused_and_does_not_move_stream_time():
    got = play(
        counts(TimeWindows.of_size(10)),
        """
        step | key | value | time_ms
        1    | -   | 1     | 99
        2    | a   | 1     |  3        # stream time is 3
        3    | -   | 1     |  4
        """,
    )

    assert got.outputs("step", "key", "value") == table("step | key | value\n 2 | a | 1")
    assert got.dropped("step", "reason", "window", "limit_ms") == table(
        """
        step | reason   | window | limit_ms
        1    | null-key | -      | -
        3    | null-key | -      | -
        """
    )


def test_a_null_value_is_counted_and_moves_stream_time():
    got = play(
        counts(TimeWindows.of_size(10)),
        """
        step | key | value | time_ms
        1    | a   | -     |  3
        2    | b   | -     | 10
        3    | a   | 1     |  4
        """,
    )

    assert got.outputs("step", "key", "value") == table("step | key | value\n 1 | a | 1\n 2 | b | 1")
    assert got.dropped("step", "reason") == table("step | reason\n 3 | expired-window")


def test_a_late_record_moves_no_clock_but_a_refused_one_in_front_does():
    """
    Stream time includes the record itself, even when every window of it is closed.
    """
    got = play(
        counts(TimeWindows.of_size(4).advance_by(2)),
        """
        step | key | value | time_ms
        1    | a   | 1     | 6
        2    | a   | 1     | 5        # [2, 6) is closed, [4, 8) is not
        3    | a   | 1     | 3        # [0, 4) and [2, 6) are closed
        """,
    )

    assert got.outputs("step", "window", "value") == table(
        """
        step | window  | value
        1    | [4, 8)  | 1
        1    | [6, 10) | 1
        2    | [4, 8)  | 2
        """
    )
    assert got.dropped("step", "window", "stream_time_ms", "limit_ms") == table(
        """
        step | window | stream_time_ms | limit_ms
        2    | [2, 6) | 6              | 6
        3    | [0, 4) | 6              | 6
        3    | [2, 6) | 6              | 6
        """
    )


def test_an_aggregator_that_answers_none_deletes_the_window_and_the_next_record_begins_anew():
    def build(stream: KStream) -> KTable:
        return stream.group_by_key().windowed_by(TimeWindows.of_size(10)).reduce(lambda one, other: other)

    got = play(
        build,
        """
        step | key | value | time_ms
        1    | a   | -     | 1        # the first value is the aggregate: none
        2    | a   | 5     | 2
        3    | a   | -     | 3        # deleted
        4    | a   | 6     | 1        # a new aggregate, with its own time
        """,
    )

    assert got.outputs("step", "value", "time_ms") == table(
        """
        step | value | time_ms
        1    | -     | 1
        2    | 5     | 2
        3    | -     | 3
        4    | 6     | 1
        """
    )


def test_a_store_shows_the_windows_that_retention_still_covers():
    """
    A store keeps starts greater than its newest start less retention; by default size + grace.
    """

    def build(stream: KStream) -> KTable:
        windows = TimeWindows.of_size(10, grace=5)
        return stream.group_by_key().windowed_by(windows).count(Materialized.as_("counts", retention=20))

    got = play(
        build,
        """
        step | key | value | time_ms
        1    | a   | 1     |  0
        2    | a   | 1     | 10
        3    | b   | 1     | 11
        4    | a   | 1     | 29
        """,
    )

    store = got.driver.store("counts")
    assert store.all() == [("a", (10, 20), 1), ("a", (20, 30), 1), ("b", (10, 20), 1)]
    assert store.fetch("a") == [((10, 20), 1), ((20, 30), 1)]
    assert store.fetch("a", 11, 20) == [((20, 30), 1)]
    assert store.fetch("z") == []


def test_unlimited_windows_are_one_window_a_key_from_their_start_on():
    """
    A record before the start is in no window, which is no drop.
    """
    got = play(
        counts(UnlimitedWindows.of(10)),
        """
        step | key | value | time_ms
        1    | a   | 1     | 9
        2    | a   | 1     | 10
        3    | a   | -     | 4000000000000
        4    | a   | 1     | 11        # never late
        5    | b   | 1     | 0
        """,
    )

    want = """
        step | key | window                    | value | time_ms
        2    | a   | [10, 9223372036854775807) | 1     | 10
        3    | a   | [10, 9223372036854775807) | 2     | 4000000000000
        4    | a   | [10, 9223372036854775807) | 3     | 4000000000000
    """
    assert got.outputs() == table(want)
    assert got.driver.dropped == []


def test_the_old_value_of_a_windows_first_record_is_the_initial_value():
    """
    Kafka's Change.old, uncached: what the aggregator was given, not null.
    """
    run = WindowRun(TimeWindows(10, 5, 0), 10, wants_old=True)

    got = aggregated(run, [("a", 1, 7), ("a", 2, 9)])

    assert list(zip((result[2] for result in got.results), got.old, strict=True)) == [
        ((0, 10), ()),
        ((5, 15), ()),
        ((0, 10), (1,)),
        ((5, 15), (1,)),
    ]


def test_many_keys_and_windows_in_one_batch_are_apart():
    tape = "key | value | time_ms\n" + "\n".join(f"k{n % 50} | {n} | {n}" for n in range(2_000))

    got = play(
        lambda stream: stream.group_by_key().windowed_by(TimeWindows.of_size(100)).aggregate(fold.sum("value")), tape
    )

    last = {(record.key, record.window): record.value for record in got.driver.read_outputs("out")}
    want = {
        (f"k{key}", (start, start + 100)): sum(n for n in range(start, start + 100) if n % 50 == key)
        for key in range(50)
        for start in range(0, 2_000, 100)
    }
    assert last == want
