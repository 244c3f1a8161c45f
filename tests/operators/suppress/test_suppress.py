"""Suppress until the window closes: when a result leaves, in which order, what a full buffer does (KIP-328)."""

import pytest

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import KStream, KTable, Materialized, Serde, SessionWindows, Suppressed, TimeWindows
from kstreams_replay.state.errors import BufferFull
from tests.operators.tapes import piped, play, table, topology_of


def final_counts(windows: TimeWindows | SessionWindows, *, retention: int | None = None, **limits: int):
    def build(stream: KStream) -> KTable:
        counted = stream.group_by_key().windowed_by(windows).count(Materialized(retention=retention))
        return counted.suppress(Suppressed.until_window_closes(**limits, name="final"))

    return build


def buffer(played):
    """(emitted, entries now, most entries) of the suppress named final."""
    numbers = played.driver.metrics()["suppress"]["final"]
    return numbers["emitted"], numbers["count_current"], numbers["count_max"]


@pytest.mark.parametrize(
    ("time_ms", "leaves"),
    [
        (14, False),  # 14 - 5 = 9 < 10
        (15, True),
        (16, True),
    ],
)
def test_a_result_waits_for_the_window_end_and_then_for_the_grace(time_ms, leaves):
    got = play(
        final_counts(TimeWindows.of_size(10, grace=5)),
        f"key | value | time_ms\n a | 1 | 3\n a | 1 | 9\n b | 1 | {time_ms}",
    )

    final = "3 | a | [0, 10) | 2 | 9" if leaves else ""
    assert got.outputs() == table(f"step | key | window | value | time_ms\n {final}")
    assert buffer(got) == ((1, 1, 2) if leaves else (0, 2, 2))


@pytest.mark.parametrize(("time_ms", "leaves"), [(24, False), (25, True), (26, True)])
def test_a_session_waits_for_its_end_and_then_for_gap_and_grace(time_ms, leaves):
    windows = SessionWindows.with_inactivity_gap(10, grace=5)
    got = play(final_counts(windows), f"key | value | time_ms\n a | 1 | 3\n a | 1 | 10\n b | 1 | {time_ms}")

    final = "3 | a | [3, 10] | 2 | 10" if leaves else ""
    assert got.outputs() == table(f"step | key | window | value | time_ms\n {final}")


def test_what_leaves_is_the_latest_value_at_the_place_of_the_first():
    got = play(
        final_counts(TimeWindows.of_size(10)),
        """
        step | key | value | time_ms
        1    | b   | 1     |  1
        2    | a   | 1     |  2
        3    | b   | 1     |  3
        4    | c   | 1     | 10
        """,
    )

    assert got.outputs() == table(
        """
        step | key | window  | value | time_ms
        4    | a   | [0, 10) | 1     | 2          # by key: all of them end at 10
        4    | b   | [0, 10) | 2     | 3
        """
    )


def test_the_oldest_window_leaves_first_and_equal_ones_by_the_bytes_of_the_key():
    """
    Bytes are unsigned; a key that begins another is followed by its window's bytes, here zeros.
    """
    got = play(
        final_counts(TimeWindows.of_size(10, grace=20)),
        """
        step | key | value | time_ms
        1    | é   | 1     |  5
        2    | b   | 1     |  5
        3    | aa  | 1     |  5
        4    | a   | 1     |  5
        5    | z   | 1     | 12
        6    | z   | 1     |  3
        7    | B   | 1     |  3
        8    | q   | 1     | 40
        """,
    )

    assert got.outputs("step", "key", "window") == table(
        """
        step | key | window
        8    | B   | [0, 10)
        8    | a   | [0, 10)
        8    | aa  | [0, 10)
        8    | b   | [0, 10)
        8    | z   | [0, 10)
        8    | é   | [0, 10)
        8    | z   | [10, 20)
        """
    )


def test_windows_that_end_together_are_ordered_by_key_and_not_by_arrival_across_batches():
    tape = "key | value | time_ms\n b | 1 | 1\n c | 1 | 1\n a | 1 | 1\n x | 1 | 10"
    for chunk_records in (1, 2, 4):
        got = play(final_counts(TimeWindows.of_size(10)), tape, chunk_records=chunk_records)

        assert [record.key for record in got.driver.read_outputs("out")] == ["a", "b", "c"]


def test_results_still_in_the_buffer_when_the_tape_ends_stay_there():
    got = play(final_counts(TimeWindows.of_size(10)), "key | value | time_ms\n a | 1 | 1\n a | 1 | 9")

    assert got.outputs() == table("step | key | window | value | time_ms")
    assert buffer(got) == (0, 1, 1)
    assert got.driver.store("final-store").all() == [("a", (0, 10), 2)]


def test_tombstones_of_merged_sessions_leave_in_silence():
    """
    The session [0, 0] was merged away; its tombstone waits in the buffer, is counted there, and is never emitted.
    """
    got = play(
        final_counts(SessionWindows.with_inactivity_gap(10), retention=1_000),
        """
        step | key | value | time_ms
        1    | a   | 1     |  0
        2    | a   | 1     |  5        # a tombstone of [0, 0], and [0, 5]
        3    | b   | 1     | 15
        """,
    )

    assert got.outputs() == table("step | key | window | value | time_ms\n 3 | a | [0, 5] | 2 | 5")
    assert buffer(got) == (1, 1, 3)  # both of a when that of b came


def test_stream_time_of_suppress_is_that_of_the_changes_it_gets():
    """
    A record that the aggregation refuses moves the aggregation's clock and not the one of suppress; for sessions
    suppress sees their ends.
    """
    got = play(
        final_counts(TimeWindows.of_size(4).advance_by(2)),
        """
        step | key | value | time_ms
        1    | a   | 1     | 3        # [0, 4) and [2, 6)
        2    | a   | 1     | 5        # time 5: [0, 4) leaves
        3    | b   | 1     | 3        # refused by [0, 4), taken by [2, 6)
        """,
    )

    assert got.outputs() == table(
        """
        step | key | window | value | time_ms
        2    | a   | [0, 4) | 1     | 3
        """
    )
    assert got.dropped("step", "window") == table("step | window\n 3 | [0, 4)")


def test_a_session_may_be_final_twice_at_the_very_millisecond_of_its_close():
    """
    Suppress lets go at end + gap + grace, where the aggregation still takes records.
    """
    got = play(
        final_counts(SessionWindows.with_inactivity_gap(10), retention=1_000),
        """
        step | key | value | time_ms
        1    | a   | 1     |  0
        2    | b   | 1     | 10        # [0, 0] leaves
        3    | a   | 1     | 10        # and is merged all the same
        4    | c   | 1     | 99
        """,
    )

    assert got.outputs("step", "key", "window", "value") == table(
        """
        step | key | window   | value
        2    | a   | [0, 0]   | 1
        4    | a   | [0, 10]  | 2
        4    | b   | [10, 10] | 1
        """
    )


def test_a_window_that_left_may_come_back_and_leave_again_in_the_same_batch():
    """
    [5, 5] leaves when stream time is 15, comes back as the session of a second record at 5, and leaves at once.
    """
    got = play(
        final_counts(SessionWindows.with_inactivity_gap(10)),
        """
        step | key | value | time_ms
        1    | a   | 1     |  5
        2    | b   | 1     | 15
        3    | a   | 1     |  5        # the store of default retention does not show the first any more
        """,
    )

    assert got.outputs("step", "key", "window", "value") == table(
        """
        step | key | window | value
        2    | a   | [5, 5] | 1
        3    | a   | [5, 5] | 1
        """
    )
    assert buffer(got) == (2, 1, 2)


# --- strict buffers ------------------------------------------------------------------------------------------


def test_a_buffer_may_hold_exactly_its_limit_of_records():
    got = play(
        final_counts(TimeWindows.of_size(10), max_records=2),
        "key | value | time_ms\n a | 1 | 1\n b | 1 | 1\n a | 1 | 2\n c | 1 | 10\n c | 1 | 11",
    )

    assert [record.key for record in got.driver.read_outputs("out")] == ["a", "b"]
    assert buffer(got) == (2, 1, 3)  # three before the two left, which is no overflow


def test_a_buffer_over_its_limit_of_records_ends_the_run_at_that_record():
    build = final_counts(TimeWindows.of_size(10), max_records=2)
    tape = """
        step | key | value | time_ms
        1    | a   | 1     |  1
        2    | -   | 1     |  1
        3    | b   | 1     | 10        # [0, 10) of a leaves
        4    | c   | 1     | 11
        5    | d   | 1     | 12        # the third
        6    | e   | 1     | 30
        7    | -   | 1     | 31
    """
    topology, _ = topology_of(build)
    driver = piped(TopologyTestDriver(topology), tape).driver

    with pytest.raises(BufferFull) as caught:
        driver.run()

    assert caught.value.arrival == 4
    assert str(caught.value) == (
        "final, key 'd', window 10 to 20: expected at most 2 records in the buffer, got 3 records; "
        "allow 3 records at least, spill to disk, or use no bound"
    )
    assert [record.key for record in driver.read_outputs("out")] == ["a"]
    assert [refusal.arrival for refusal in driver.dropped] == [1]


def test_a_driver_whose_buffer_was_full_takes_no_more():
    topology, _ = topology_of(final_counts(TimeWindows.of_size(10), max_records=0))
    driver = TopologyTestDriver(topology)
    driver.pipe_input("in", "a", 1, 1)
    with pytest.raises(BufferFull):
        driver.run()
    driver.pipe_input("in", "b", 1, 99)

    with pytest.raises(BufferFull) as caught:
        driver.run()

    assert caught.value.arrival == 0


def test_a_limit_of_no_records_takes_what_leaves_at_once():
    """
    Put precedes eviction: a result that is final when it comes goes through a buffer that may hold nothing.
    """
    windows = SessionWindows.with_inactivity_gap(0)
    got = play(final_counts(windows, max_records=0, retention=1_000), "key | value | time_ms\n a | 1 | 0\n a | 1 | 1")

    assert [(record.window, record.value) for record in got.driver.read_outputs("out")] == [((0, 0), 1), ((1, 1), 1)]


def texts(windows, **limits: int):
    """The last value of a window, as text; no initial value, so that old is null at first."""

    def build(stream: KStream) -> KTable:
        reduced = stream.group_by_key().windowed_by(windows).reduce(lambda one, other: other)
        return reduced.suppress(Suppressed.until_window_closes(**limits, name="final"))

    return build


def sizes(played):
    numbers = played.driver.metrics()["suppress"]["final"]
    return numbers["bytes_current"], numbers["bytes_max"]


@pytest.mark.parametrize(
    ("values", "size"),
    [
        (["x"], 8 + 9 + 0 + 0 + 1 + 22),  # key a and its window; prior and old null; new; context with topic "in"
        (["x", "yy"], 8 + 9 + 0 + 1 + 2 + 22),  # prior null, old x, new yy
        (["x", "yy", "é"], 8 + 9 + 0 + 2 + 2 + 22),
    ],
)
def test_an_entry_is_as_large_as_kafka_says(values, size):
    tape = "key | value | time_ms\n" + "\n".join(f"a | {value} | 1" for value in values)

    got = play(texts(TimeWindows.of_size(10)), tape, value=Serde.string(), counts_bytes=True)

    assert sizes(got)[0] == size


def test_an_old_value_equal_to_the_prior_one_is_counted_once():
    """
    The first update of a count replaces the initial value 0, which is prior and old at once.
    """
    got = play(final_counts(TimeWindows.of_size(10)), "key | value | time_ms\n a | 1 | 1", counts_bytes=True)
    assert sizes(got) == (8 + 9 + 8 + 0 + 8 + 22,) * 2

    got = play(
        final_counts(TimeWindows.of_size(10)), "key | value | time_ms\n a | 1 | 1\n a | 1 | 1", counts_bytes=True
    )
    assert sizes(got) == (8 + 9 + 8 + 8 + 8 + 22,) * 2


def test_a_session_key_is_16_bytes_longer_and_its_updates_have_no_old_value():
    got = play(
        final_counts(SessionWindows.with_inactivity_gap(10)), "key | value | time_ms\n a | 1 | 1", counts_bytes=True
    )

    assert sizes(got) == (8 + 17 + 0 + 0 + 8 + 22,) * 2


@pytest.mark.parametrize(("limit", "is_full"), [(39, True), (40, False), (41, False)])
def test_a_buffer_may_hold_exactly_its_limit_of_bytes(limit, is_full):
    topology, _ = topology_of(texts(TimeWindows.of_size(10), max_bytes=limit), value=Serde.string())
    driver = TopologyTestDriver(topology)
    driver.pipe_input("in", "a", "x", 1)

    if is_full:
        with pytest.raises(BufferFull) as caught:
            driver.run()
        assert str(caught.value) == (
            "final, key 'a', window 0 to 10: expected at most 39 bytes in the buffer, got 1 records of 40 bytes; "
            "allow 40 bytes at least, spill to disk, or use no bound"
        )
    else:
        driver.run()


def test_bytes_go_when_their_entry_goes():
    got = play(
        texts(TimeWindows.of_size(10), max_bytes=60),
        "key | value | time_ms\n a | x | 1\n b | y | 10\n c | z | 20\n d | w | 30",
        value=Serde.string(),
    )

    assert [record.value for record in got.driver.read_outputs("out")] == ["x", "y", "z"]
    assert sizes(got) == (40, 80)
