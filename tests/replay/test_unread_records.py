"""Rows of several queues before they are read: cuts fall where they would if all rows were in one list in order."""

import numpy as np
import pytest

from kstreams_replay.jobs.landing.recorded_time import Recorded
from kstreams_replay.jobs.replay.unread_records import PendingQueue, PendingRecords, by_arrival, by_time

TAPE_TIME = 4


def queue(generator: np.random.Generator, number: int, order: str) -> PendingQueue:
    """Up to 30 records of few different times, with gaps in their offsets now and then, and recorded times between."""
    n = int(generator.integers(0, 30))
    gaps = generator.integers(1, 3, n) if number % 2 else np.ones(n, np.int64)
    offset, times = 100 + np.cumsum(gaps), generator.integers(-1, 12, n)
    before = np.sort(generator.integers(100, 170, int(generator.integers(0, 4))))
    recorded = [Recorded(int(at), int(generator.integers(0, 12)), None) for at in before]
    if order == "time":
        rows = by_time(offset, times, recorded, TAPE_TIME)
    else:
        arrivals = np.sort(generator.integers(0, 40, n + len(recorded)))
        advance_rows = np.searchsorted(offset, before) + np.arange(len(before))
        is_advance = np.isin(np.arange(len(arrivals)), advance_rows)
        rows = by_arrival(offset, arrivals[~is_advance], recorded, arrivals[is_advance].tolist())
    return PendingQueue("topic", str(number), rows, 7, 2)


def in_order(unread: PendingRecords) -> list[tuple[int, int, int]]:
    """(place, queue, row) of all rows that may be read."""
    return sorted(
        (int(queue.rows.position[row]), number, row)
        for number, (queue, end) in enumerate(zip(unread.queues, unread.ends, strict=True))
        for row in range(end)
    )


@pytest.mark.parametrize("order", ["time", "arrival"])
@pytest.mark.parametrize("seed", range(20))
def test_the_first_rows_are_those_of_the_whole_order(seed, order):
    generator = np.random.default_rng(seed)
    unread = PendingRecords([queue(generator, number, order) for number in range(4)])
    everything = in_order(unread)
    assert unread.ready == len(everything)
    unread.hold_back(1, 15)
    unread.hold_back(3, 10)

    rows = in_order(unread)

    assert rows == [row for row in everything if row[0] < {1: 15, 3: 10}.get(row[1], 10**9)]
    is_record = [row not in unread.queues[q].rows.advance_rows for _, q, row in everything]
    held = [row in rows for row in everything]
    assert unread.waiting == sum(record and not may for record, may in zip(is_record, held, strict=True))
    for first in range(1, len(rows) + 1):
        last = rows[first - 1][0]
        for with_equal, chosen in ((False, rows[:first]), (True, [row for row in rows if row[0] <= last])):
            wanted = [sum(q == number for _, q, _ in chosen) for number in range(4)]
            assert unread.first(first, with_equal=with_equal) == wanted


def test_a_place_is_the_largest_time_so_far_and_a_recorded_time_holds_back_what_follows_it():
    recorded = [Recorded(12, 9, None)]
    offset, times = np.array([10, 11, 12, 13]), np.array([1, 6, 8, 20])

    rows = by_time(offset, times, recorded, TAPE_TIME)

    assert rows.position.tolist() == [8, 12, 19, 20, 40]  # twice the time; twice 9 and one; what follows, 20 at least
    assert rows.advance_rows.tolist() == [2]
    assert by_time(offset, times, [], TAPE_TIME).position.tolist() == [8, 12, 16, 40]


@pytest.mark.parametrize("offsets", [[10, 11, 12, 13], [10, 11, 40, 41]])
def test_a_cut_is_behind_the_last_record_and_counts_recorded_times(offsets):
    recorded = [Recorded(offsets[2], 9, None), Recorded(offsets[2], 9, None)]
    found = PendingQueue("t", "0", by_time(np.array(offsets), np.array([1, 6, 8, 20]), recorded, TAPE_TIME), 7, 3)
    plain = PendingQueue("t", "0", by_time(np.array(offsets), np.array([1, 6, 8, 20]), [], TAPE_TIME), 7, 3)

    ends = [offset + 1 for offset in offsets]
    assert [found.cut(rows) for rows in range(7)] == [
        (7, 3), (ends[0], 3), (ends[1], 3), (ends[1], 4), (ends[1], 5), (ends[2], 5), (ends[3], 5),
    ]  # fmt: skip
    assert [found.records(rows) for rows in range(7)] == [0, 1, 2, 2, 2, 3, 4]
    assert [plain.cut(rows) for rows in range(5)] == [(7, 3), *((end, 3) for end in ends)]


def test_offsets_without_gaps_take_no_memory():
    assert by_time(np.arange(5, 9), np.arange(4), [], -1).offset == range(5, 9)
