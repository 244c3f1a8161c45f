"""Stream-stream joins: what is refused, what is kept and for how long."""

import pyarrow as pa
import pytest

from tests.operators.cut_tapes import chunk_of
from tests.operators.joins.stream_join_parts import SIDES, JoinRun, joined_alone, many

# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "left", "right"), [("inner", False, False), ("left", True, False), ("outer", True, True)]
)
def test_a_null_key_goes_on_alone_on_an_outer_side_and_is_refused_elsewhere(kind, left, right):
    played = joined_alone(JoinRun(kind, 5, 5), [("left", None, 0, 1), ("right", None, 1, 2), ("left", None, None, 3)])

    went_on = [(0, None, 0, None, 1)] * left + [(1, None, None, 1, 2)] * right
    refused = [(0, "null-key", True)] * (not left) + [(1, "null-key", True)] * (not right) + [(2, "null-key", True)]
    assert played.joined == went_on
    assert played.drops == refused
    assert played.applied == [step for step, goes in enumerate((left, right)) if goes]


@pytest.mark.parametrize(("is_persistent", "meets"), [(True, True), (False, False)])
def test_a_null_value_is_refused_and_moves_the_time_of_an_in_memory_store(is_persistent, meets):
    tape = [("left", "a", 0, 10), ("left", "a", None, 30), ("right", "a", 2, 11)]

    played = joined_alone(JoinRun("inner", 5, 5, is_persistent=is_persistent), tape)

    assert played.joined == ([(2, "a", 0, 2, 11)] if meets else [])
    assert played.drops == [(1, "null-value", True)]


def test_a_late_null_value_is_counted_twice_by_an_in_memory_store():
    played = joined_alone(JoinRun("inner", 5, 5), [("left", "a", 0, 30), ("left", "a", None, 20)])

    assert played.drops == [(1, "expired-in-store", True), (1, "null-value", True)]


@pytest.mark.parametrize(
    ("is_persistent", "late_ms", "is_refused"),
    [
        (False, 90_001, False),
        (False, 90_000, True),  # 100_000 - 10_000
        (True, 60_000, False),  # the segment of 90_000, which lasts a minute
        (True, 59_999, True),
    ],
)
def test_a_store_refuses_what_is_expired_to_the_millisecond_or_by_segments(is_persistent, late_ms, is_refused):
    join = JoinRun("inner", 5_000, 5_000, is_persistent=is_persistent)

    played = joined_alone(join, [("left", "a", 0, 100_000), ("left", "a", 1, late_ms)])

    assert played.drops == ([(1, "expired-in-store", True)] if is_refused else [])
    assert played.applied == ([0] if is_refused else [0, 1])


def test_a_record_that_meets_one_and_is_too_late_to_be_kept_is_refused_by_the_store_only():
    tape = [("left", "z", 0, 100), ("right", "a", 1, 52), ("left", "a", 2, 50)]

    played = joined_alone(JoinRun("inner", 5, 5), tape)

    assert played.joined == [(2, "a", 2, 1, 52)]
    assert played.drops == [(2, "expired-in-store", False)]
    assert played.applied == [0, 1, 2]


def test_a_refusal_says_the_numbers_that_decided():
    join, chunk = JoinRun("inner", 5, 5).start(), chunk_of(2)
    batches = tuple(
        many(join.context.keys, side, key=["a", "a"] * (side == "left"), time_ms=[100, 50] * (side == "left"))
        for side in SIDES
    )

    join.process_all(batches, chunk)

    ((node, cause, drops),) = chunk.drops
    assert (node, cause.tolist(), drops.reason) == ("join", [1], "expired-in-store")
    assert (drops.stream_time_ms.tolist(), drops.limit_ms.tolist()) == ([100], [90])


# --- what is kept --------------------------------------------------------------------------------------------


def test_durable_rows_are_the_records_that_may_still_meet_one_and_those_that_wait():
    tape = [("left", "b", 0, 3), ("right", "c", 1, 9), ("left", "a", 2, 9), ("left", "a", 3, 12), ("right", "a", 4, 12)]

    played = joined_alone(JoinRun("outer", 4, 4), tape)

    rows = [{name: row[name] for name in row if row[name] is not None} for row in played.operator.rows().to_pylist()]
    assert sorted(rows, key=lambda row: (row["kind"], row["sequence"])) == [
        # The left store's own time is 12 and its retention 8: the record of 3 is never seen again.
        {"kind": "left", "key": "a", "record_time_ms": 9, "sequence": 2, "left": "2"},
        {"kind": "left", "key": "a", "record_time_ms": 12, "sequence": 3, "left": "3"},
        {"kind": "right", "key": "c", "record_time_ms": 9, "sequence": 1, "right": 1},
        {"kind": "right", "key": "a", "record_time_ms": 12, "sequence": 4, "right": 4},
        {"kind": "unmatched-right", "key": "c", "record_time_ms": 9, "sequence": 1, "right": 1},
    ]
    assert played.operator.counters() == {
        "left_ms": 8,  # nothing older than 9 waits
        "stream_time_ms": 12,
        "tracked_time_ms": 9,
        "left_store_time_ms": 12,
        "right_store_time_ms": 12,
        "sequence": 5,
    }


def test_a_row_that_is_gone_is_marked_deleted_and_an_increment_without_records_changes_nothing():
    tape = [("left", "a", 0, 3), ("left", "b", 1, 100)]
    played = joined_alone(JoinRun("left", 4, 4), tape, cuts=[1])

    marks = [(row["kind"], row["key"], row["deleted"]) for row in played.operator.changes().to_pylist()]

    assert sorted(marks) == [
        ("left", "a", True),
        ("left", "b", False),
        ("unmatched-left", "a", True),
        ("unmatched-left", "b", False),
    ]
    assert len(joined_alone(JoinRun("left", 4, 4), [*tape, ("left", None, None, 0)], cuts=[2]).operator.changes()) == 0


def test_memory_holds_no_more_than_the_windows_do():
    """
    200 000 records of each side, 100 of which are in a window at a time.
    """
    join = JoinRun("outer", 50, 50).start()
    records = 20_000
    for begin in range(0, 10 * records, records):
        time_ms = list(range(begin, begin + records))
        keys = [f"k{number % 20}" for number in range(records)], ["x"] * records
        batches = tuple(
            many(join.context.keys, side, key=key, time_ms=time_ms) for side, key in zip(SIDES, keys, strict=True)
        )
        out = join.process_all(batches, chunk_of(records))

    assert len(out) == 2 * records
    assert len(join.store.pool) < 5 * 2 * records
    assert len(join.waiting.rows) < 3 * 2 * records
    assert all(heap.append(pa.nulls(0)) < 65_536 + 2 * records for heap in join.heaps)
    assert len(join.rows()) < 4 * 110
