"""Distinct: the first record of every key and window (KIP-655's older proposal, ``windowed_by(...).distinct()``)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.functions.expressions import bind
from kstreams_replay.jobs.graph.windows import UnlimitedWindows
from kstreams_replay.jobs.operators.aggregates.distinct import Distinct
from kstreams_replay.jobs.topology import KStream, SessionWindows, SlidingWindows, TimeWindows
from kstreams_replay.state.errors import TopologyError
from tests.operators.aggregates.operator_runs import place_of, run_chunks, run_increments
from tests.operators.suppress.suppress_model import ForwardedChange
from tests.operators.tapes import play, table
from tests.sampling import examples

KIP = "\n".join(
    ["key | value | time_ms", *(f"key | {t} | {1000 * t}" for t in [4, 5, 6, 23, 22, 24, 34, 33, 32, 7, 22, 35])]
)
DAY = "1d"


def distinct(windows, *selector: str):
    def build(stream: KStream) -> KStream:
        return stream.group_by_key().windowed_by(windows).distinct(*selector)

    return build


def test_the_first_record_of_every_tumbling_window():
    got = play(distinct(TimeWindows.of_size("10s", grace=DAY)), KIP)

    assert got.outputs() == table(
        """
        step | key | window         | value | time_ms
        1    | key | [0, 10000)     | 4     | 4000
        4    | key | [20000, 30000) | 23    | 23000
        7    | key | [30000, 40000) | 34    | 34000
        """
    )
    assert got.driver.dropped == []


def test_the_first_record_of_every_session_whose_gap_is_10_s():
    """
    All records after 7 stick together: 34 is exactly a gap after 24.
    """
    got = play(distinct(SessionWindows.with_inactivity_gap("10s", grace=DAY)), KIP)

    assert got.outputs() == table(
        """
        step | key | window         | value | time_ms
        1    | key | [4000, 4000]   | 4     | 4000
        4    | key | [23000, 23000] | 23    | 23000
        """
    )


def test_the_first_record_of_every_session_whose_gap_is_9_s():
    got = play(distinct(SessionWindows.with_inactivity_gap("9s", grace=DAY)), KIP)

    assert got.outputs("step", "window") == table(
        """
        step | window
        1    | [4000, 4000]
        4    | [23000, 23000]
        7    | [34000, 34000]
        """
    )


def test_a_hopping_window_forwards_a_record_once_for_every_window_it_begins():
    got = play(distinct(TimeWindows.of_size(10).advance_by(5)), "key | value | time_ms\n a | 1 | 7\n a | 2 | 12")

    assert got.outputs("step", "value", "window") == table(
        """
        step | value | window
        1    | 1     | [0, 10)
        1    | 1     | [5, 15)
        2    | 2     | [10, 20)
        """
    )


def test_null_keys_and_late_records_are_dropped_and_null_values_are_records():
    got = play(
        distinct(TimeWindows.of_size(10, grace=5)),
        "key | value | time_ms\n a | - | 1\n a | 1 | 2\n - | 1 | 3\n b | 1 | 15\n c | 1 | 9",
    )

    assert got.outputs("step", "key", "value") == table("step | key | value\n 1 | a | -\n 4 | b | 1")
    assert got.dropped("step", "reason") == table("step | reason\n 3 | null-key\n 5 | expired-window")


def test_a_session_is_known_as_long_as_it_takes_records():
    """
    With gap 10 and grace 0 the session [0, 0] still takes a record at stream time 10, and no more at 11.
    """
    windows = SessionWindows.with_inactivity_gap(10)
    got = play(distinct(windows), "key | value | time_ms\n a | 1 | 0\n b | 1 | 10\n a | 2 | 0\n b | 2 | 11\n a | 3 | 0")

    assert got.outputs("step", "key") == table("step | key\n 1 | a\n 2 | b")
    assert got.dropped("step", "reason") == table("step | reason\n 5 | expired-window")


def test_by_id_of_the_key_and_without_an_id_never_a_duplicate():
    got = play(
        distinct(TimeWindows.of_size(10), "CASE WHEN value > 0 THEN value % 2 END"),
        "key | value | time_ms\n a | 1 | 1\n a | 3 | 2\n a | 2 | 3\n b | 1 | 4\n a | 0 | 5\n a | 0 | 6\n - | 0 | 7",
    )

    assert got.outputs("step", "key", "value") == table(
        """
        step | key | value
        1    | a   | 1
        3    | a   | 2
        4    | b   | 1
        5    | a   | 0
        6    | a   | 0
        """
    )
    assert got.dropped("step", "reason") == table("step | reason\n 7 | null-key")


@pytest.mark.parametrize("windows", [SlidingWindows.of_time_difference(10), UnlimitedWindows.of()])
def test_other_windows_are_refused(windows):
    with pytest.raises(TopologyError, match="expected time or session windows"):
        play(distinct(windows), "key | value | time_ms")


# --- where the tape is cut -----------------------------------------------------------------------------------


def operator_of(windows: TimeWindows | SessionWindows, by_id: bool) -> Distinct:
    context = place_of(wants_old=False, counts_bytes=False)
    return Distinct(context, windows, bind("value", context.shape, "node") if by_id else None)


def firsts_of_sessions(tape: list[ForwardedChange], gap: int, grace: int, by_id: bool) -> list[int]:
    """Steps that begin a session; record by record."""
    stream_time, sessions, found = -1, [], []
    for step, record in enumerate(tape):
        stream_time = max(stream_time, record.time)
        identity = (record.key, record.new if by_id else None, step if by_id and record.new is None else None)
        near = [s for s in sessions if s[0] == identity and s[2] >= record.time - gap and s[1] <= record.time + gap]
        near = [s for s in near if s[2] >= stream_time - gap - grace]
        start, end = (pick([record.time, *(s[n] for s in near)]) for n, pick in ((1, min), (2, max)))
        if end < stream_time - gap - grace:
            continue
        sessions = [s for s in sessions if s not in near] + [(identity, start, end)]
        if not near:
            found.append(step)
    return found


def firsts_of_windows(tape: list[ForwardedChange], size: int, grace: int, by_id: bool) -> list[int]:
    stream_time, seen, found = -1, set(), []
    for step, record in enumerate(tape):
        stream_time = max(stream_time, record.time)
        start = record.time // size * size
        identity = (record.key, record.new if by_id else None, step if by_id and record.new is None else None, start)
        if start + size > stream_time - grace and identity not in seen:
            seen.add(identity)
            found.append(step)
    return found


@settings(max_examples=examples(200), deadline=None)
@given(
    records=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 40), st.sampled_from(["i", "j", None])), max_size=25
    ),
    length=st.integers(1, 8),
    grace=st.integers(0, 8),
    by_id=st.booleans(),
    is_session=st.booleans(),
    cuts=st.lists(st.integers(0, 25), max_size=4),
)
def test_it_says_what_a_list_of_windows_says_wherever_the_tape_is_cut(records, length, grace, by_id, is_session, cuts):
    tape = [ForwardedChange(key, None, time, new, offset=step) for step, (key, time, new) in enumerate(records)]
    cuts = sorted(min(cut, len(tape)) for cut in cuts)
    if is_session:
        windows, want = SessionWindows(length, grace), firsts_of_sessions(tape, length, grace, by_id)
    else:
        windows, want = TimeWindows(length, length, grace), firsts_of_windows(tape, length, grace, by_id)

    chunks = run_chunks(operator_of(windows, by_id), tape, cuts)
    increments, _ = run_increments(lambda: operator_of(windows, by_id), tape, cuts)

    assert [emitted.step for emitted in chunks] == want
    assert [emitted.step for emitted in increments] == want
