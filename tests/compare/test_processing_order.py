"""Which record a row of production is of: orders of processing that a reader can follow.

Windows of 10 s, grace 0, of one key. Record 3 is late: the clock is at 12 s when it comes.
"""

import numpy as np
import pytest

from kstreams_replay.jobs.compare.processing_order import Rows, Units, processed_units

pytestmark = pytest.mark.every_run

FIRST, SECOND = 1, 2
"""The windows that start at 0 s and at 10 s."""

RECORDS = [(FIRST, 10_000, 1_000), (FIRST, 10_000, 2_000), (SECOND, 20_000, 12_000), (FIRST, 10_000, 3_000),
           (SECOND, 20_000, 13_000)]  # fmt: skip
"""Window, its end, and the time of the record."""


def processed(rows: list[tuple[int, int]], late_ms: int = 3_000) -> list[set[int]] | None:
    """``rows``: window and time of each; ``late_ms``: the time of record 3."""
    records = [*RECORDS[:3], (FIRST, 10_000, late_ms), RECORDS[4]]
    window, end, time = (np.array(column) for column in zip(*records, strict=True))
    identity, times = (np.array(column) for column in zip(*rows, strict=True))
    units = Units(np.arange(len(records)), window, end, time, 0)
    return processed_units(units, Rows(identity, times, np.ones(len(rows), np.bool_)))


BEFORE = [(FIRST, 1_000), (FIRST, 2_000), (SECOND, 12_000)]
"""Rows of the first three records."""


@pytest.mark.parametrize(
    ("rows", "records"),
    [
        ([*BEFORE, (SECOND, 13_000)], [0, 1, 2, 4]),
        ([*BEFORE, (FIRST, 3_000), (SECOND, 13_000)], [0, 1, 2, 3, 4]),
        ([*BEFORE, (FIRST, 2_000), (SECOND, 12_000), (SECOND, 13_000)], [0, 1, 2, 1, 2, 4]),
        ([*BEFORE, (SECOND, 12_000), (SECOND, 13_000)], [0, 1, 2, 2, 4]),
        ([*BEFORE, (SECOND, 13_000), (FIRST, 3_000), (SECOND, 13_000)], [0, 1, 2, 4, 3, 4]),
    ],
    ids=["never-restarted", "restarted-before-3", "back-to-1", "back-to-2", "back-to-3"],
)
def test_the_place_to_which_a_task_went_back_says_which_records_the_rows_are_of(rows, records):
    assert processed(rows) == [{record} for record in records]


def test_what_follows_a_row_tells_a_late_record_from_one_that_was_processed_again():
    """
    The late record of 1.5 s gives the row that records 0 and 1 give again: all are at 2 s, the latest of the window.
    """
    rows = [*BEFORE, (FIRST, 2_000)]

    assert processed(rows, late_ms=1_500) == [{0}, {1}, {2}, {0, 1, 3}]
    assert processed([*rows, (SECOND, 13_000)], late_ms=1_500) == [{0}, {1}, {2}, {3}, {4}]
    assert processed([*rows, (SECOND, 12_000)], late_ms=1_500) == [{0}, {1}, {2}, {1}, {2}]


def test_rows_that_no_order_of_processing_gives_are_not_explained_by_one():
    assert processed(BEFORE[1:]) is None
    assert processed([*BEFORE, (FIRST, 13_000)]) is None
