"""A changelog is compared by the newest row of every key; rows are given as they are in the topics, in order."""

import numpy as np
import pytest

from kstreams_replay.jobs.compare.alignment import RowVerdict, compare_newest
from kstreams_replay.jobs.compare.sides import Side

A, B, C = 1, 2, 3
"""Keys."""


def side(*rows: tuple[int, int, int | None, int]) -> Side:
    """Rows as partition, key, value (None: a tombstone) and time."""
    partition, key, value, time = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    numbers = {name: np.zeros(len(rows), np.int64) for name in ("start", "end", "cause")}
    keys, places = np.array(key, np.uint64), np.array(partition, np.int32)
    return Side(
        partition=places, offset=np.arange(len(rows)), target=places, key=keys, identity=keys,
        value=np.array([0 if each is None else each for each in value], np.uint64), time=np.array(time, np.int64),
        is_tombstone=np.array([each is None for each in value], np.bool_),
        is_unreadable=np.zeros(len(rows), np.bool_), **numbers,
    )  # fmt: skip


def compared(ours: Side, theirs: Side) -> tuple[int, list[tuple[str, int, int]]]:
    """How many keys are equal, and of each other one its verdict and the rows of both sides."""
    newest = compare_newest(ours, theirs)
    differs = np.flatnonzero(newest.verdict != RowVerdict.EQUAL)
    columns = newest.verdict[differs], newest.ours[differs], newest.theirs[differs]
    return newest.same, sorted((str(RowVerdict(v)), int(o), int(t)) for v, o, t in zip(*columns, strict=True))


def test_of_equal_sides_keys_count_that_are_not_deleted():
    rows = side((0, A, 7, 10), (0, B, 7, 20), (0, A, None, 30), (0, C, None, 40), (0, C, 9, 50))

    assert compared(rows, rows) == (2, [])  # B and C


def test_of_equal_sides_without_a_tombstone_every_key_counts_once():
    rows = side((0, A, 7, 10), (0, A, 8, 20), (0, B, 7, 20))

    assert compared(rows, rows) == (2, [])


def test_where_a_key_is_in_several_partitions_the_latest_time_counts():
    deleted_last = side((0, A, None, 30), (1, A, 7, 20))
    deleted_first = side((0, A, 8, 30), (1, A, None, 20))

    assert compared(deleted_last, deleted_last) == (0, [])
    assert compared(deleted_first, deleted_first) == (1, [])
    assert compared(side((0, B, 5, 1), (0, A, 7, 30), (1, A, 7, 20)), side((0, B, 5, 1), (1, A, 7, 20))) == (
        1, [("other time", 1, 1)],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("end", "same", "differing"),
    [
        ((0, A, 8, 30), 1, [("other value", 3, 3)]),
        ((0, A, 7, 40), 1, [("other time", 3, 3)]),
        ((0, A, None, 30), 1, [("missing", 3, 3)]),
        ((0, B, 6, 30), 0, [("other value", 1, 3), ("other value", 3, 2)]),
        ((0, C, 6, 30), 1, [("extra", -1, 3), ("other value", 3, 2)]),
    ],
)
def test_a_key_with_another_last_row_differs_and_no_other_does(end, same, differing):
    ours = side((0, A, 5, 1), (0, B, 5, 2), (0, A, 6, 3), (0, A, 7, 30))
    theirs = side((0, A, 5, 1), (0, B, 5, 2), (0, A, 6, 3), end)

    assert compared(ours, theirs) == (same, differing)


def test_nothing_beside_nothing_is_equal():
    assert compared(side(), side()) == (0, [])
    assert compared(side((0, A, 5, 1), (0, B, None, 2)), side()) == (0, [("missing", 0, -1)])
