"""Suppress until a time limit: when a change leaves, in which order, what a full buffer lets go early (KIP-328)."""

import pytest

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import KStream, KTable, Serde, Suppressed
from kstreams_replay.jobs.topology.dsl.suppressed import BufferConfig
from kstreams_replay.state.errors import BufferFull
from tests.operators.tapes import piped, play, table, topology_of

STRING = Serde.string()


def limited(wait: int, buffer: BufferConfig | None = None):
    def build(stream: KStream) -> KTable:
        return stream.to_table().suppress(Suppressed.until_time_limit(wait, buffer, name="limited"))

    return build


def numbers(played, *names: str):
    """Metrics of the suppress named limited."""
    found = played.driver.metrics()["suppress"]["limited"]
    return tuple(found[name] for name in names)


@pytest.mark.parametrize(("time_ms", "leaves"), [(11, False), (12, True), (13, True)])
def test_a_change_waits_from_its_own_time_until_the_limit(time_ms, leaves):
    got = play(limited(10), f"key | value | time_ms\n a | 1 | 2\n b | 1 | {time_ms}")

    final = "2 | a | 1 | 2" if leaves else ""
    assert got.outputs() == table(f"step | key | value | time_ms\n {final}")


def test_an_update_does_not_restart_the_timer_and_leaves_with_its_own_time():
    """
    KIP-328: "does not re-start the timer"; what leaves is the latest change at the place of the first.
    """
    got = play(
        limited(10),
        """
        step | key | value | time_ms
        1    | a   | 1     |  0
        2    | a   | 2     |  9
        3    | b   | 1     | 10        # 0 <= 10 - 10
        4    | a   | 3     | 11        # a new entry, of time 11
        5    | b   | 2     | 20        # 10 <= 20 - 10; a waits until 21
        """,
    )

    assert got.outputs() == table(
        """
        step | key | value | time_ms
        3    | a   | 2     |  9
        5    | b   | 2     | 20
        """
    )


def test_an_update_that_is_older_keeps_the_place_of_the_first():
    got = play(
        limited(2),
        """
        step | key | value | time_ms
        1    | a   | 1     | 3
        2    | a   | 2     | 1         # stays where 3 put it
        3    | b   | 1     | 1         # new and past its time: leaves at once
        4    | c   | 1     | 5
        """,
    )

    assert got.outputs() == table(
        """
        step | key | value | time_ms
        3    | b   | 1     | 1
        4    | a   | 2     | 1
        """
    )


def test_the_oldest_change_leaves_first_and_equal_ones_by_the_bytes_of_the_key():
    tape = "key | value | time_ms\n é | 1 | 5\n b | 1 | 5\n aa | 1 | 5\n a | 1 | 5\n B | 1 | 5\n z | 1 | 4\n q | 1 | 99"
    for chunk_records in (1, 3, 100):
        got = play(limited(10), tape, chunk_records=chunk_records)

        assert [record.key for record in got.driver.read_outputs("out")] == ["z", "B", "a", "aa", "b", "é"]


def test_a_deletion_is_forwarded_even_of_a_key_that_nobody_below_has_seen():
    got = play(
        limited(10),
        """
        step | key | value | time_ms
        1    | a   | 1     |  0
        2    | a   | -     |  1
        3    | b   | 1     | 10
        """,
    )

    assert got.outputs() == table("step | key | value | time_ms\n 3 | a | - | 1")


def test_the_old_value_that_leaves_is_that_of_the_last_change_and_not_of_the_last_that_left():
    """
    1 leaves; 2 and 3 are held back and leave as "3 instead of 2": the sum below takes 2 away, which it never got.
    """

    def build(stream: KStream) -> KTable:
        limited_ = stream.to_table().suppress(Suppressed.until_time_limit(10, name="limited"))
        return limited_.group_by("'all'", "value").reduce(
            adder=lambda aggregate, value: aggregate + value,
            subtractor=lambda aggregate, value: aggregate - value,
        )

    got = play(
        build,
        """
        step | key | value | time_ms
        1    | a   | 1     |  0
        2    | x   | 100   | 10        # 1 leaves
        3    | a   | 2     | 11
        4    | a   | 3     | 12
        5    | y   | 1000  | 21        # x, and 3 instead of 2
        """,
    )

    got_sums = [(record.arrival + 1, record.value) for record in got.driver.read_outputs("out")]
    assert got_sums == [(2, 1), (5, 101), (5, 101 - 2 + 3)]  # 3 instead of 1 would be 103


# --- headers -------------------------------------------------------------------------------------------------


def test_headers_of_the_latest_change_leave_with_it():
    topology, _ = topology_of(limited(10))
    driver = TopologyTestDriver(topology, counts_bytes=True)
    driver.pipe_input("in", "a", 1, 0, headers=[("first", b"x")])
    driver.pipe_input("in", "a", 2, 1, headers=[("second", b"yy"), ("empty", None)])
    driver.pipe_input("in", "b", 1, 5)
    driver.pipe_input("in", "c", 1, 15, headers=[("other", b"z")])

    got = driver.read_outputs("out")

    assert [(record.key, record.headers) for record in got] == [
        ("a", (("second", b"yy"), ("empty", None))),
        ("b", ()),
    ]
    # c: time 8, key 1, value 8, context 20, topic "in", header of 5 letters and 1 byte
    assert driver.metrics()["suppress"]["limited"]["bytes_current"] == 8 + 1 + 8 + 20 + 2 + 5 + 1


# --- full buffers --------------------------------------------------------------------------------------------


def test_a_buffer_that_is_full_lets_the_oldest_go_early():
    got = play(
        limited(1_000, BufferConfig.max_records(2)),
        """
        step | key | value | time_ms
        1    | a   | 1     | 0
        2    | a   | 2     | 1         # stands at 0
        3    | b   | 1     | 2
        4    | c   | 1     | 1         # the third: a goes
        5    | d   | 1     | 0         # the oldest is the newest to come
        6    | e   | 1     | 9         # c before b
        """,
    )

    assert got.outputs() == table(
        """
        step | key | value | time_ms
        4    | a   | 2     | 1
        5    | d   | 1     | 0
        6    | c   | 1     | 1
        """
    )
    assert numbers(got, "emitted", "count_current", "count_max") == (3, 2, 3)


def test_of_equal_times_the_smaller_key_goes_early():
    got = play(limited(1_000, BufferConfig.max_records(1)), "key | value | time_ms\n c | 1 | 0\n b | 1 | 0\n d | 1 | 0")

    assert [record.key for record in got.driver.read_outputs("out")] == ["b", "c"]


def test_a_large_change_pushes_out_as_many_as_it_must_and_perhaps_itself():
    """
    Sizes: time 8, key 1, context 20, topic "in" 2, and the value.
    """
    got = play(
        limited(1_000, BufferConfig.max_bytes(64)),
        """
        step | key | value      | time_ms
        1    | a   | x          | 0       # 32
        2    | b   | y          | 1       # 64: exactly the limit
        3    | c   | zz         | 2       # 97: a goes, 65 are left: b goes
        4    | d   | 0123456789abcdef0123456789abcdefgg | 3     # 65 alone: c goes and d goes
        """,
        value=STRING,
    )

    assert got.outputs("step", "key") == table(
        """
        step | key
        3    | a
        3    | b
        4    | c
        4    | d
        """
    )
    assert numbers(got, "bytes_current", "bytes_max") == (0, 33 + 65)


def test_time_goes_before_the_limit():
    """
    At step 3 the first leaves because its time has come, after which the buffer is no longer full.
    """
    got = play(limited(10, BufferConfig.max_records(2)), "key | value | time_ms\n z | 1 | 0\n a | 1 | 1\n b | 1 | 10")

    assert got.outputs("step", "key") == table("step | key\n 3 | z")


def test_a_buffer_that_may_not_emit_early_ends_the_run():
    topology, _ = topology_of(limited(10, BufferConfig.max_records(1).shut_down_when_full()))
    tape = "key | value | time_ms\n a | 1 | 0\n b | 1 | 10\n c | 1 | 11\n d | 1 | 99"
    driver = piped(TopologyTestDriver(topology), tape).driver

    with pytest.raises(BufferFull) as caught:
        driver.run()

    assert caught.value.arrival == 2
    assert str(caught.value) == (
        "limited, key 'c': expected at most 1 records in the buffer, got 2 records; "
        "allow 2 records at least, spill to disk, or use no bound"
    )
    assert [record.key for record in driver.read_outputs("out")] == ["a"]


# --- metrics -------------------------------------------------------------------------------------------------


def test_the_buffer_is_measured_after_each_put_and_each_round_of_evictions():
    got = play(limited(10), "key | value | time_ms\n a | 1 | 0\n b | 1 | 1\n c | 1 | 10\n a | 1 | 10")

    # puts: 1, 2, 3, then a has left: 2; a comes again: 3
    assert numbers(got, "count_avg", "count_max", "count_current") == (11 / 5, 3, 3)


def test_overtime_is_the_part_of_the_wait_that_a_change_did_not_need():
    """
    KIP-328: "equivalent to (timeToWaitForMoreEvents - observedLateness)".
    """
    got = play(
        limited(10),
        """
        step | key | value | time_ms
        1    | a   | 1     |  0
        2    | a   | 2     |  7        # came at 7: 10 - (7 - 0) = 3
        3    | b   | 1     |  8        # came at 8, of time 8: 10
        4    | c   | 1     | 30
        5    | d   | 1     | 15        # came at 30, of time 15: 10 - 15 = -5
        """,
    )

    assert got.outputs("step", "key") == table("step | key\n 4 | a\n 4 | b\n 5 | d")
    assert numbers(got, "overtime_min_ms", "overtime_avg_ms") == (-5, (3 + 10 - 5) / 3)


def test_without_emissions_there_is_no_overtime():
    got = play(limited(10), "key | value | time_ms\n a | 1 | 0")
    got.driver.run()

    assert numbers(got, "overtime_min_ms", "overtime_avg_ms") == (None, None)
