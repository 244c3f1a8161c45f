"""Stream-stream joins: which records are joined, how long unmatched ones wait, and the order of the results."""

import pytest

from tests.operators.joins.stream_join_parts import JoinRun, joined, self_joined
from tests.operators.tapes import table

# --- pairs ---------------------------------------------------------------------------------------------------


def test_a_left_record_meets_right_ones_from_before_to_after_it_both_inclusive():
    got = joined(
        JoinRun("inner", before=2, after=3, grace=100),
        """
        step | topic | key | time_ms
        1    | right | a   | 8         # 10 - 2
        2    | right | a   | 7
        3    | right | a   | 13        # 10 + 3
        4    | right | a   | 14
        5    | left  | b   | 10
        6    | left  | a   | 10
        7    | right | a   | 12        # 12 - 3 <= 10 <= 12 + 2
        8    | right | a   | 8
        """,
    )

    want = """
        step | key | left | right | time_ms
        6    | a   | 6    | 1     | 10
        6    | a   | 6    | 3     | 13        # the larger of the two times
        7    | a   | 6    | 7     | 12
        8    | a   | 6    | 8     | 10
    """
    assert got == table(want)


def test_pairs_of_a_record_come_by_time_and_then_by_arrival():
    got = joined(
        JoinRun("inner", before=9, after=9, grace=100),
        """
        step | topic | key | time_ms
        1    | left | a   | 5
        2    | left | a   | 3
        3    | left | a   | 5
        4    | left | a   | 4
        5    | right | a  | 4
        """,
    )

    want = """
        step | key | left | right | time_ms
        5    | a   | 2    | 5     | 4
        5    | a   | 4    | 5     | 4
        5    | a   | 1    | 5     | 5
        5    | a   | 3    | 5     | 5
    """
    assert got == table(want)


def test_a_window_may_lie_wholly_after_the_left_record_but_never_reaches_below_time_0():
    got = joined(
        JoinRun("inner", before=-3, after=5, grace=100),
        """
        step | topic | key | time_ms
        1    | left  | a   | 0
        2    | right | a   | 2         # looks for left ones in [2 - 5, 2 - 3], which is read as [0, 0]
        3    | right | a   | 3
        4    | right | a   | 5
        5    | right | a   | 6
        6    | right | b   | 0
        7    | left  | b   | 1
        8    | right | b   | 3         # and so is [-2, 0], where there is none of b
        """,
    )

    want = """
        step | key | left | right | time_ms
        2    | a   | 1    | 2     | 2
        3    | a   | 1    | 3     | 3
        4    | a   | 1    | 4     | 5
    """
    assert got == table(want)


def test_each_side_forgets_by_its_own_time_and_no_record_is_too_late_to_look():
    """
    With 5 ms before and after, a side shows what is newer than its own newest record less 10 ms.
    """
    tape = """
        step | topic   | key | time_ms
        1    | left    | a   | 10
        2    | {other} | z   | 1000
        3    | right   | a   | 12
    """

    assert joined(JoinRun("inner", 5, 5), tape.format(other="right")) == table(
        """
        step | key | left | right | time_ms
        3    | a   | 1    | 3     | 12
        """
    )
    assert joined(JoinRun("inner", 5, 5), tape.format(other="left")) == table("step | key | left | right | time_ms")


def test_a_stream_joined_with_itself_is_on_the_left_side_first():
    """
    As the left record it is joined with earlier right records; as the right one with itself too.
    """
    got = self_joined(JoinRun("inner", 5, 5), [("left", "a", 0, 10), ("left", "a", 1, 11)])

    assert got == [
        (0, "a", 0, 0, 10),
        (1, "a", 1, 0, 11),
        (1, "a", 0, 1, 11),
        (1, "a", 1, 1, 11),
    ]


# --- without a match -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("time_ms", "leaves"), [(25, False), (26, True)])
def test_a_left_record_leaves_alone_when_stream_time_is_past_its_time_after_and_grace(time_ms, leaves):
    got = joined(
        JoinRun("left", before=3, after=10, grace=5),
        f"""
        step | topic | key | time_ms
        1    | left | a   | 10
        2    | left | b   | {time_ms}        # 10 + 10 + 5 < 26
        """,
    )

    assert got == table("step | key | left | right | time_ms" + ("\n2 | a | 1 | - | 10" if leaves else ""))


@pytest.mark.parametrize(("time_ms", "leaves"), [(18, False), (19, True)])
def test_a_right_record_of_an_outer_join_leaves_alone_when_stream_time_is_past_its_time_before_and_grace(
    time_ms, leaves
):
    got = joined(
        JoinRun("outer", before=3, after=10, grace=5),
        f"""
        step | topic | key | time_ms
        1    | right | a   | 10
        2    | right | b   | {time_ms}        # 10 + 3 + 5 < 19
        """,
    )

    assert got == table("step | key | left | right | time_ms" + ("\n2 | a | - | 1 | 10" if leaves else ""))


def test_who_has_met_one_does_not_leave_alone():
    """
    A pair takes all records of its key, side and time off the list, whichever of them came first.
    """
    got = joined(
        JoinRun("outer", 5, 5),
        """
        step | topic | key | time_ms
        1    | left  | a   | 0
        2    | left  | a   | 0
        3    | left  | b   | 0
        4    | right | a   | 5
        5    | right | z   | 20
        """,
    )

    want = """
        step | key | left | right | time_ms
        4    | a   | 1    | 4     | 5
        4    | a   | 2    | 4     | 5
        5    | b   | 3    | -     | 0
    """
    assert got == table(want)


def test_unmatched_records_leave_by_time_then_right_before_left_then_key_bytes_then_arrival_and_before_pairs():
    got = joined(
        JoinRun("outer", 5, 5),
        """
        step | topic | key | time_ms
        1    | left  | é   | 3
        2    | left  | aa  | 3
        3    | left  | a   | 3
        4    | left  | aa  | 3
        5    | right | z   | 3
        6    | right | b   | 3
        7    | left  | y   | 2
        8    | right | m   | 20
        9    | left  | n   | 30        # 20 + 5 < 30
        10   | left  | m   | 20        # late, yet what it asks for is still there
        """,
    )

    want = """
        step | key | left | right | time_ms
        8    | y   | 7    | -     | 2
        8    | b   | -    | 6     | 3
        8    | z   | -    | 5     | 3
        8    | a   | 3    | -     | 3
        8    | aa  | 2    | -     | 3
        8    | aa  | 4    | -     | 3
        8    | é   | 1    | -     | 3
        9    | m   | -    | 8     | 20
        10   | m   | 10   | 8     | 20
    """
    assert got == table(want)


def test_an_out_of_order_record_without_a_match_leaves_at_once_when_its_window_is_over_whatever_the_grace():
    """
    And may be joined with one afterwards: both results appear.
    """
    got = joined(
        JoinRun("left", 5, 5, grace=50),
        """
        step | topic | key | time_ms
        1    | left  | z   | 20
        2    | left  | a   | 14        # 14 + 5 < 20
        3    | left  | b   | 15
        4    | right | a   | 16
        """,
    )

    want = """
        step | key | left | right | time_ms
        2    | a   | 2    | -     | 14
        4    | a   | 2    | 4     | 16
    """
    assert got == table(want)


def test_only_a_record_at_stream_time_looks_for_unmatched_ones():
    got = joined(
        JoinRun("left", 0, 5),
        """
        step | topic | key | time_ms
        1    | left  | a   | 0
        2    | right | -   | 9         # moves stream time and is refused
        3    | right | b   | 8
        4    | right | b   | 9
        """,
    )

    assert got == table(
        """
        step | key | left | right | time_ms
        4    | a   | 1    | -     | 0
        """
    )


def test_whether_a_record_looks_at_all_depends_on_the_look_ahead_of_its_own_side():
    """
    A right record looks once ``the oldest time + before`` is past, so with before > after left ones wait for longer.
    """
    tape = """
        step | topic  | key | time_ms
        1    | left   | a   | 0
        2    | {side} | b   | 9         # 0 + 1 < 9, but 0 + 10 >= 9
    """

    assert joined(JoinRun("left", 10, 1), tape.format(side="right")) == table("step | key | left | right | time_ms")
    assert joined(JoinRun("left", 10, 1), tape.format(side="left")) == table(
        """
        step | key | left | right | time_ms
        2    | a   | 1    | -     | 0
        """
    )


def test_after_a_look_the_tracked_time_is_that_of_the_last_record_read():
    """
    At step 4 all four are read and none leaves; what is tracked is then 6, although the record of 0 still waits. So
    step 5 does not look, 6 + 10 >= 12, and the records of 0 and 1 leave late.
    """
    got = joined(
        JoinRun("outer", before=0, after=10),
        """
        step | topic | key | time_ms
        1    | left  | a   | 0
        2    | left  | b   | 1
        3    | right | c   | 6
        4    | right | d   | 6
        5    | left  | e   | 12        # 0 + 10 < 12
        6    | left  | f   | 17        # 6 + 10 < 17
        """,
    )

    want = """
        step | key | left | right | time_ms
        6    | a   | 1    | -     | 0
        6    | b   | 2    | -     | 1
        6    | c   | -    | 3     | 6
        6    | d   | -    | 4     | 6
    """
    assert got == table(want)


def test_the_last_record_read_may_be_one_that_leaves():
    """
    At step 3 the left one of 0 stays and the right one of 5, read after it, leaves: 5 is tracked.
    """
    got = joined(
        JoinRun("outer", before=0, after=10),
        """
        step | topic | key | time_ms
        1    | left  | a   | 0
        2    | right | c   | 5
        3    | right | d   | 6         # 5 + 0 < 6
        4    | left  | e   | 12        # 0 + 10 < 12, but 5 + 10 >= 12
        5    | left  | f   | 16
        """,
    )

    want = """
        step | key | left | right | time_ms
        3    | c   | -    | 2     | 5
        5    | a   | 1    | -     | 0
        5    | d   | -    | 3     | 6
    """
    assert got == table(want)
