"""reorder_within: records continue in the order of their times (KIP-914's long-term vision)."""

import random

import pytest

from kstreams_replay.jobs.topology import Materialized, StreamsBuilder, Topology
from tests.operators.cut_tapes import TEXTS, Dropped, Output, Record, play_task, topology_of


def reordered(grace: int) -> Topology:
    return topology_of(lambda builder: builder.stream("S", TEXTS).reorder_within(f"{grace}ms"))


@pytest.mark.parametrize(
    ("time_ms", "leaves"),
    [(19, []), (20, [(2, "v1", 9), (2, "v0", 10)]), (21, [(2, "v1", 9), (2, "v0", 10)])],  # 20 - 10 reaches 10
)
def test_records_wait_for_the_grace_and_go_on_by_time(time_ms, leaves):
    tape = [("S", "a", "v0", 10), ("S", "b", "v1", 9), ("S", "a", "v2", time_ms)]
    got = [(out.step, out.value, out.time_ms) for out in play_task(reordered(10), tape).outputs]

    assert got == (leaves or [(2, "v1", 9)])


def test_equal_times_go_on_as_they_came_with_null_keys_and_null_values():
    tape = [("S", "b", "v0", 5), ("S", None, "v1", 5), ("S", "a", None, 5), ("S", "b", "v3", 4), ("S", "b", "v4", 15)]

    got = play_task(reordered(10), tape)

    assert got.outputs == [
        Output(4, "b", "v3", 4),
        Output(4, "b", "v0", 5),
        Output(4, None, "v1", 5),
        Output(4, "a", None, 5),
    ]
    assert got.origins == [3, 0, 1, 2]


@pytest.mark.parametrize(("time_ms", "is_late"), [(9, True), (10, False), (11, False)])
def test_a_record_older_than_the_grace_is_refused(time_ms, is_late):
    got = play_task(reordered(10), [("S", "a", "v0", 20), ("S", "a", "v1", time_ms)])

    assert got.dropped == ([Dropped(1, "late")] if is_late else [])
    assert [out.time_ms for out in got.outputs] == ([10] if time_ms == 10 else [])


def test_a_table_of_reordered_records_has_no_change_out_of_order():
    """What the KIP wants it for: joins of versioned tables then leave nothing out."""

    def build(builder: StreamsBuilder):
        left, right = (
            builder.stream(topic, TEXTS)
            .reorder_within("10ms")
            .to_table(materialized=Materialized.versioned(topic.lower(), "1s"))
            for topic in ("A", "B")
        )
        return left.join(right, "left || right").to_stream()

    tape = [("A", "k", "a0", 0), ("A", "k", "a5", 5), ("B", "k", "b2", 2), ("A", "k", "a1", 1)]
    tape += [("B", "k", "b3", 3), ("A", "z", "end", 100), ("B", "z", "end", 100)]
    got = play_task(topology_of(build), tape)

    assert got.dropped == []
    assert [(out.value, out.time_ms) for out in got.outputs][-1] == ("a5b3", 5)


@pytest.mark.parametrize("seed", range(8))
def test_times_never_fall_nothing_vanishes_and_a_cut_changes_nothing(seed):
    rng = random.Random(seed)
    grace, now = rng.choice([0, 3, 20]), 0
    tape: list[Record] = []
    for number in range(100):
        now += rng.choice([0, 0, 1, 5])
        tape.append(("S", rng.choice("ab"), f"v{number}", max(0, now - rng.choice([0, 0, 2, 30]))))

    whole = play_task(reordered(grace), tape)
    times = [out.time_ms for out in whole.outputs]
    waiting = next(iter(whole.stores.values()))

    assert times == sorted(times)
    assert len(times) + len(whole.dropped) + len(waiting) == 100
    assert all(row["record_time_ms"] > max(times) for row in waiting)
    assert play_task(reordered(grace), tape, chunks=rng.sample(range(100), 9), cuts=rng.sample(range(100), 7)) == whole
