"""Which change is the one before of the same key and window."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.functions.folds.fold_program import ADD, EMIT, MERGE, START
from kstreams_replay.jobs.kernels.earlier_changes import NEW, NONE_HERE, earlier_by_key
from kstreams_replay.jobs.operators.aggregate_parts.earlier_updates_kernel import earlier_by_slot

BEGIN, GO_ON = START | ADD | EMIT, ADD | EMIT


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(3, 4)), max_size=40))
def test_by_key_is_the_last_row_of_the_same_key_and_bounds(changes):
    columns = np.array(changes, np.int64).reshape(-1, 3).T

    earlier = earlier_by_key(columns[0].astype(np.int32), columns[1], columns[2])

    expected = [
        max((at for at in range(row) if changes[at] == changes[row]), default=-1) for row in range(len(changes))
    ]
    assert earlier.tolist() == expected


def by_slot(*steps: tuple[int, int, int, tuple[int, int, int] | None]) -> list[int]:
    """``steps``: flags, slot, argument and, of an update, (key, start, end)."""
    flags, slots, arguments, updates = zip(*steps, strict=True)
    program = np.array(flags, np.uint8), np.array(slots, np.int32), np.array(arguments, np.int32)
    key, start, end = np.array([update for update in updates if update is not None], np.int64).T
    found: list[int] = earlier_by_slot(program, key.astype(np.int32), start, end, 8).tolist()
    return found


@pytest.mark.slow
def test_what_begins_in_a_slot_is_new_and_what_goes_on_follows_its_last_update():
    window = (7, 0, 10)

    assert by_slot((BEGIN, 2, 0, window), (GO_ON, 2, 1, window), (GO_ON, 2, 2, window)) == [NEW, 0, 1]


def test_a_slot_of_before_may_have_been_shown_before():
    window = (7, 0, 10)

    assert by_slot((GO_ON, 2, 0, window), (GO_ON, 2, 1, window)) == [NONE_HERE, 0]


def test_a_session_that_grows_in_its_slot_is_a_new_row_and_its_tombstone_is_not():
    grown = by_slot((BEGIN, 0, 0, (7, 5, 5)), (EMIT, 0, -1, (7, 5, 5)), (GO_ON, 0, 1, (7, 5, 9)))

    assert grown == [NEW, 0, NEW]


def test_a_session_that_goes_on_in_another_slot_under_its_name_follows_its_updates():
    """A record at the only time of a session from before: no tombstone, and the durable slot is left for another."""
    window = (7, 5, 5)

    assert by_slot((GO_ON, 0, 0, window), (START | MERGE, 1, 0, None), (GO_ON, 1, 1, window)) == [NONE_HERE, 0]
    assert by_slot((START | MERGE, 1, 0, None), (GO_ON, 1, 1, window)) == [NONE_HERE]


def test_a_slot_that_another_key_takes_is_new_though_the_bounds_are_the_same():
    assert by_slot((GO_ON, 0, 0, (7, 0, 10)), (GO_ON, 0, 1, (8, 0, 10))) == [NONE_HERE, NEW]
