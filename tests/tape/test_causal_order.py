"""The order of causes: what one landed record causes, over all tasks, as one thread would have taken it."""

import numpy as np

from kstreams_replay.jobs.tape.causal_order import LANDED, CausalOrder, are_in_order


def columns(*rows):
    """Arrival, parent, send and time of rows."""
    return [np.array(column, np.int64) for column in zip(*rows, strict=True)]


def test_what_a_record_causes_is_taken_by_head_time_and_then_as_the_heap_stands():
    """
    The landed record sends A0, B0, A1, C0, all at 5; A0 sends B1 at 1. By hand: A0; the heap is then B, A behind C at
    its top, so C0; A1; B0; and B1, which is behind B0 in its queue although it is older.
    """
    causes = CausalOrder()
    a = causes.add("A", *columns((0, LANDED, 0, 5), (0, LANDED, 2, 5)))
    b = causes.add("B", *columns((0, LANDED, 1, 5)))
    c = causes.add("C", *columns((0, LANDED, 3, 5)))
    late = causes.add("B", *columns((0, int(a[0]), 0, 1)))

    got = causes.sequence(np.concatenate([a, b, c, late, [LANDED]]))

    assert got.tolist() == [1, 3, 4, 2, 5, 0]


def test_what_goes_through_no_topic_is_taken_in_its_place_depth_first():
    """
    The landed record sends A0, the inlined X and A1; X sends B0, the inlined Y and B1; Y sends A2. All at 5. X and Y
    come with the landed record; the queues are then A: A0, A2, A1 and B: B0, B1, which take turns.
    """
    causes = CausalOrder()
    a = causes.add("A", *columns((0, LANDED, 0, 5), (0, LANDED, 2, 5)))
    x = causes.add("X", *columns((0, LANDED, 1, 5))[:3], None)
    b = causes.add("B", *columns((0, int(x[0]), 0, 5), (0, int(x[0]), 2, 5)))
    y = causes.add("Y", *columns((0, int(x[0]), 1, 5))[:3], None)
    a2 = causes.add("A", *columns((0, int(y[0]), 0, 5)))

    got = causes.sequence(np.concatenate([x, y, a, a2, b]))

    assert got.tolist() == [1, 2, 3, 7, 5, 4, 6]


def test_the_place_of_a_record_ends_before_the_next_record():
    """
    Arrival 0: A0 with the inlined X, then A1; arrival 1: A2.
    """
    causes = CausalOrder()
    a = causes.add("A", *columns((0, LANDED, 0, 5), (0, LANDED, 1, 5), (1, LANDED, 0, 5)))
    x = causes.add("X", *columns((0, int(a[0]), 0, 5))[:3], None)

    assert causes.sequence(np.concatenate([a, x])).tolist() == [1, 3, 1, 2]
    assert [causes.end_of(0, number) for number in (LANDED, int(a[0]), int(x[0]))] == [0, 2, 2]
    assert causes.end_of(0, int(a[1])) > 3


def test_what_was_sent_the_last_time_stands_in_for_what_is_not_sent_yet():
    """
    A0, B0 and B1 at 5; A0 sends C0 at 1, which is then taken at once, and C0 sends D0 at 1.
    """
    causes = CausalOrder()
    a = causes.add("A", *columns((0, LANDED, 0, 5)))
    b = causes.add("B", *columns((0, LANDED, 1, 5), (0, LANDED, 2, 5)))
    assert causes.sequence(np.concatenate([a, b])).tolist() == [1, 2, 3]
    c = causes.add("C", *columns((0, int(a[0]), 0, 1)))
    causes.add("D", *columns((0, int(c[0]), 0, 1)))
    causes.end("ABCD")

    causes.again()
    again = causes.add("A", *columns((0, LANDED, 7, 5)))
    more = causes.add("B", *columns((0, LANDED, 8, 5), (0, LANDED, 9, 5), (0, LANDED, 10, 5)))

    assert again.tolist() == a.tolist()
    assert more.tolist()[:2] == b.tolist()
    assert more.tolist()[2] not in {*a.tolist(), *b.tolist(), *c.tolist()}
    assert causes.sequence(np.concatenate([again, more])).tolist() == [1, 4, 5, 6]


def test_what_a_parent_sends_bit_by_bit_keeps_its_numbers():
    causes = CausalOrder()
    first = [causes.add("A", *columns((0, LANDED, send, 5))).tolist() for send in (0, 1)]

    causes.again()
    second = [causes.add("A", *columns((0, LANDED, send, 5))).tolist() for send in (0, 1)]

    assert second == first == [[0], [1]]


def test_what_is_not_sent_again_is_gone_with_all_that_it_sent():
    """
    As above, and this time A0 sends nothing to C.
    """
    causes = CausalOrder()
    a = causes.add("A", *columns((0, LANDED, 0, 5)))
    b = causes.add("B", *columns((0, LANDED, 1, 5)))
    c = causes.add("C", *columns((0, int(a[0]), 0, 1)))
    causes.add("D", *columns((0, int(c[0]), 0, 1)))
    causes.end("ABCD")

    causes.again()
    causes.add("A", *columns((0, LANDED, 0, 5)))
    causes.add("B", *columns((0, LANDED, 1, 5)))
    causes.end("ABC")

    assert causes.sequence(np.concatenate([a, b])).tolist() == [1, 2]


def test_rows_are_in_order_by_arrival_and_then_by_place():
    assert are_in_order(np.array([0, 0, 0, 1]), np.array([0, 2, 2, 1]))
    assert not are_in_order(np.array([0, 0]), np.array([2, 1]))
    assert not are_in_order(np.array([1, 0]), np.array([1, 2]))
    assert are_in_order(np.zeros(0, np.int64), np.zeros(0, np.int64))
