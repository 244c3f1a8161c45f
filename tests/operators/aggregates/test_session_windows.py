"""Session windows: what a record merges, until when, and what is forwarded (KIP-94 as Kafka Streams built it)."""

import pytest

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.functions.folds.aggregation import Aggregation
from kstreams_replay.jobs.operators.aggregate_parts.window_settings import WindowSettings
from kstreams_replay.jobs.operators.aggregates.session_windows import SessionAggregate
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    KStream,
    KTable,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    fold,
)
from tests.operators.aggregates.operator_runs import STRING, place_of, run_increments
from tests.operators.aggregates.window_runs import WindowRun, aggregated
from tests.operators.suppress.suppress_model import ForwardedChange
from tests.operators.tapes import play, table


def texts(gap: int, *, grace: int = 0, retention: int | None = 1_000, store: str = "persistent"):
    """Values of a session as text, in the order in which they were put together."""

    def build(stream: KStream) -> KTable:
        windows = SessionWindows.with_inactivity_gap(gap, grace=grace)
        return (
            stream.group_by_key()
            .windowed_by(windows)
            .aggregate(
                initializer=str,
                aggregator=lambda key, value, aggregate: aggregate + str(value),
                merger=lambda key, one, other: one + other,
                returns=Serde.string(),
                materialized=Materialized.as_("sessions", store=store, retention=retention),
            )
        )

    return build


def counts(gap: int, *, grace: int = 0, retention: int | None = 1_000, store: str = "persistent"):
    def build(stream: KStream) -> KTable:
        windows = SessionWindows.with_inactivity_gap(gap, grace=grace)
        return stream.group_by_key().windowed_by(windows).count(Materialized(store=store, retention=retention))

    return build


@pytest.mark.parametrize(
    ("time_ms", "windows"),
    [
        (19, [(10, 10), (10, 19)]),
        (20, [(10, 10), (10, 20)]),  # exactly the gap apart: one session
        (21, [(21, 21)]),
        (1, [(10, 10), (1, 10)]),
        (0, [(10, 10), (0, 10)]),
    ],
)
def test_records_at_most_the_gap_apart_are_one_session(time_ms, windows):
    got = play(counts(10, grace=100), f"key | value | time_ms\n a | 1 | 10\n a | 1 | {time_ms}")

    assert [record.window for record in got.driver.read_outputs("out")] == [(10, 10), *windows]


def test_a_record_that_joins_two_sessions_deletes_both_in_order_of_their_end_and_then_updates():
    got = play(
        texts(5, grace=100),
        """
        step | key | value | time_ms
        1    | a   | 7     | 10
        2    | a   | 1     |  0
        3    | a   | 4     |  5        # 5 from either
        """,
    )

    assert got.outputs() == table(
        """
        step | key | window   | value | time_ms
        1    | a   | [10, 10] | 7     | 10
        2    | a   | [0, 0]   | 1     | 0
        3    | a   | [0, 0]   | -     | 0
        3    | a   | [10, 10] | -     | 10
        3    | a   | [0, 10]  | 174   | 10     # the sessions by their end, then the record
        """
    )


def test_a_record_within_a_session_deletes_it_and_adds_it_again():
    got = play(
        counts(10, grace=100),
        """
        step | key | value | time_ms
        1    | a   | 1     | 0
        2    | a   | 1     | 8
        3    | a   | 1     | 4
        """,
    )

    assert got.outputs() == table(
        """
        step | key | window | value | time_ms
        1    | a   | [0, 0] | 1     | 0
        2    | a   | [0, 0] | -     | 0
        2    | a   | [0, 8] | 2     | 8
        3    | a   | [0, 8] | -     | 8
        3    | a   | [0, 8] | 3     | 8
        """
    )


def test_a_second_record_at_the_only_time_of_a_session_makes_no_tombstone():
    got = play(counts(10), "key | value | time_ms\n a | 1 | 5\n a | 1 | 5")

    assert got.outputs("step", "window", "value") == table("step | window | value\n 1 | [5, 5] | 1\n 2 | [5, 5] | 2")


def test_a_gap_of_0_makes_sessions_of_equal_times():
    got = play(counts(0, grace=10), "key | value | time_ms\n a | 1 | 5\n a | 1 | 5\n a | 1 | 6\n a | 1 | 4")

    assert got.outputs("step", "window", "value") == table(
        """
        step | window | value
        1    | [5, 5] | 1
        2    | [5, 5] | 2
        3    | [6, 6] | 1
        4    | [4, 4] | 1
        """
    )


@pytest.mark.parametrize(
    ("time_ms", "is_taken"),
    [
        (86, True),
        (85, True),  # 85 < 100 - 5 - 10 is false: equal is in time
        (84, False),
    ],
)
def test_a_session_is_late_when_its_end_is_less_than_stream_time_less_grace_and_gap(time_ms, is_taken):
    got = play(counts(10, grace=5), f"key | value | time_ms\n b | 1 | 100\n a | 1 | {time_ms}")

    assert [record.key for record in got.driver.read_outputs("out")] == (["b", "a"] if is_taken else ["b"])
    refused = "" if is_taken else f"2 | expired-window | [{time_ms}, {time_ms}] | 100 | 85"
    assert got.dropped(window="session") == table(f"step | reason | window | stream_time_ms | limit_ms\n {refused}")


def test_a_record_too_late_by_itself_is_taken_by_an_open_session():
    """
    The end that counts is that of the merged session.
    """
    got = play(
        texts(10),
        """
        step | key | value | time_ms
        1    | a   | 1     |  95
        2    | b   | 2     | 100        # what ends before 90 is closed
        3    | a   | 3     |  85        # merged it ends at 95
        4    | a   | 4     |  75        # and the session keeps growing backwards
        5    | a   | 5     |  64        # 11 away from it: alone, and late
        """,
    )

    assert got.outputs("step", "key", "window", "value") == table(
        """
        step | key | window     | value
        1    | a   | [95, 95]   | 1
        2    | b   | [100, 100] | 2
        3    | a   | [95, 95]   | -
        3    | a   | [85, 95]   | 13
        4    | a   | [85, 95]   | -
        4    | a   | [75, 95]   | 134
        """
    )
    assert got.dropped(window="session") == table(
        """
        step | reason         | window   | stream_time_ms | limit_ms
        5    | expired-window | [64, 64] | 100            | 90
        """
    )


@pytest.mark.parametrize(
    ("retention", "last"),
    [
        (1_000, [("a", (80, 80), None), ("a", (80, 90), 2)]),
        (None, [("a", (90, 90), 1)]),  # 10: the store shows ends of 91 and more
    ],
)
def test_default_retention_hides_the_session_that_ends_exactly_at_the_close(retention, last):
    got = play(counts(10, retention=retention), "key | value | time_ms\n a | 1 | 80\n b | 1 | 100\n a | 1 | 90")

    outputs = [(r.key, r.window, r.value) for r in got.driver.read_outputs("out")]
    assert outputs == [("a", (80, 80), 1), ("b", (100, 100), 1), *last]


@pytest.mark.parametrize(
    ("time_ms", "is_visible"),
    [
        (106, True),  # the store's newest end is 120: it shows ends of 120 - 20 + 1 = 101 and more
        (111, True),
        (112, False),  # 112 - 10 > 101
    ],
)
def test_a_store_shows_sessions_that_end_after_its_newest_end_less_retention(time_ms, is_visible):
    got = play(
        counts(10, grace=10, retention=20),
        f"key | value | time_ms\n a | 1 | 101\n b | 1 | 120\n a | 1 | {time_ms}",
    )

    windows = [record.window for record in got.driver.read_outputs("out") if record.arrival == 2]
    assert windows == ([(101, 101), (101, time_ms)] if is_visible else [(time_ms, time_ms)])


def test_a_session_that_ends_one_millisecond_earlier_is_not_visible():
    got = play(counts(10, grace=10, retention=20), "key | value | time_ms\n a | 1 | 100\n b | 1 | 120\n a | 1 | 106")

    assert [record.window for record in got.driver.read_outputs("out")][-1] == (106, 106)


def test_a_store_in_memory_of_default_retention_counts_the_last_accepted_session_as_expired():
    """
    At exactly the close an update is forwarded, not stored, and counted as dropped; the record is no lost one.
    """
    got = play(
        counts(10, retention=None, store="in_memory"),
        """
        step | key | value | time_ms
        1    | a   | 1     | 100
        2    | b   | 1     |  90
        3    | b   | 1     |  91
        4    | b   | 1     |  90        # the session at 90 was not kept, that at 91 was
        """,
    )

    assert got.outputs("step", "key", "window", "value") == table(
        """
        step | key | window     | value
        1    | a   | [100, 100] | 1
        2    | b   | [90, 90]   | 1
        3    | b   | [91, 91]   | 1
        4    | b   | [91, 91]   | -
        4    | b   | [90, 91]   | 2
        """
    )
    assert got.dropped(window="session") == table(
        """
        step | reason           | window   | stream_time_ms | limit_ms
        2    | expired-in-store | [90, 90] | 100            | 90
        """
    )


def test_a_persistent_store_hides_that_session_too_but_counts_nothing():
    """
    It drops by segments of at least a minute, and what is at the close is never a whole segment behind.
    """
    got = play(
        counts(10, retention=None),
        "key | value | time_ms\n a | 1 | 120000\n b | 1 | 119990\n b | 1 | 119991\n b | 1 | 119990",
    )

    assert [(record.arrival, record.window) for record in got.driver.read_outputs("out")] == [
        (0, (120_000, 120_000)),
        (1, (119_990, 119_990)),
        (2, (119_991, 119_991)),
        (3, (119_991, 119_991)),
        (3, (119_990, 119_991)),
    ]
    assert got.driver.dropped == []


def test_a_null_key_is_refused_and_a_null_value_is_counted():
    got = play(counts(10), "key | value | time_ms\n - | 1 | 99\n a | - | 5\n a | 1 | 5")

    assert got.outputs("step", "window", "value") == table("step | window | value\n 2 | [5, 5] | 1\n 3 | [5, 5] | 2")
    assert got.dropped("step", "reason") == table("step | reason\n 1 | null-key")


def test_an_aggregate_of_none_is_a_tombstone_and_its_session_is_gone():
    def build(stream: KStream) -> KTable:
        windows = SessionWindows.with_inactivity_gap(10)
        materialized = Materialized(retention=1_000)
        return stream.group_by_key().windowed_by(windows).reduce(lambda one, other: other, materialized=materialized)

    got = play(
        build,
        """
        step | key | value | time_ms
        1    | a   | 1     | 0
        2    | a   | -     | 5        # none: [0, 5] is deleted
        3    | a   | 2     | 8        # alone again
        """,
    )

    assert got.outputs("step", "window", "value") == table(
        """
        step | window | value
        1    | [0, 0] | 1
        2    | [0, 0] | -
        2    | [0, 5] | -
        3    | [8, 8] | 2
        """
    )


def test_the_sessions_of_one_key_do_not_meet_those_of_another():
    got = play(counts(10), "key | value | time_ms\n a | 1 | 0\n b | 1 | 5\n a | 1 | 10\n b | 1 | 12")

    assert got.outputs("step", "key", "window", "value") == table(
        """
        step | key | window  | value
        1    | a   | [0, 0]  | 1
        2    | b   | [5, 5]  | 1
        3    | a   | [0, 0]  | -
        3    | a   | [0, 10] | 2
        4    | b   | [5, 5]  | -
        4    | b   | [5, 12] | 2
        """
    )


def test_a_store_shows_open_sessions():
    got = play(texts(5, grace=50), "key | value | time_ms\n a | 1 | 0\n a | 2 | 5\n b | 3 | 5\n a | 4 | 20")

    assert got.driver.store("sessions").all() == [("a", (0, 5), "12"), ("a", (20, 20), "4"), ("b", (5, 5), "3")]


def test_a_session_that_goes_on_in_a_later_increment_leaves_no_row_of_its_old_bounds():
    def counting() -> SessionAggregate:
        aggregation = Aggregation({"records": fold.count()}, Shape(STRING, STRING), "node")
        settings = WindowSettings(retention_ms=1_000, is_persistent=True)
        return SessionAggregate(place_of(), aggregation, settings, gap_ms=5, grace_ms=100)

    _, resumed = run_increments(
        counting, [ForwardedChange("a", None, time, "x") for time in (10, 40, 12, 14, 41, 41)], [2]
    )

    rows = resumed.rows().to_pylist()
    windows = [(row["window_start_ms"], row["window_end_ms"], row["aggregate"]["records"]) for row in rows]
    assert sorted(windows) == [(10, 14, 3), (40, 41, 3)]


def test_only_a_session_that_was_merged_away_has_an_old_value():
    """
    Kafka's Change.old: a merged session is forwarded as new, even one that replaces itself.
    """
    run = WindowRun(SessionWindows(5, 0), 1_000, wants_old=True)

    got = aggregated(run, [("a", 1, 10), ("a", 2, 10), ("a", 3, 12)])

    changes = [(window, old, new) for (_, _, window, new, _), old in zip(got.results, got.old, strict=True)]
    assert changes == [
        ((10, 10), None, (1,)),
        ((10, 10), None, (1, 2)),
        ((10, 10), (1, 2), None),
        ((10, 12), None, (1, 2, 3)),
    ]


def test_sessions_are_forwarded_without_headers():
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(Serde.string(), Serde.long())).group_by_key()
    grouped.windowed_by(SessionWindows.with_inactivity_gap(5)).count().to("sessions")
    grouped.windowed_by(TimeWindows.of_size(5)).count().to("windows")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1, 5, headers=[("by", b"somebody")])

    headers = {topic: [record.headers for record in driver.read_outputs(topic)] for topic in ("sessions", "windows")}
    assert headers == {"sessions": [()], "windows": [(("by", b"somebody"),)]}
