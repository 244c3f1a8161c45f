"""The benchmark of placing tasks: what slow storage counts, and what is made of the increments, played and real."""

from kstreams_replay.benchmarks.placement.__main__ import DIES_AT, INCREMENTS, JOINS_AT, MeasuredIncrement, summary
from kstreams_replay.benchmarks.placement.real_cluster import KILLED, QUIET, RealIncrement, summary_of_parts
from kstreams_replay.benchmarks.placement.slow_storage import BYTES_PER_SECOND, OPEN_S, slow_storage
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from tests.execution.test_state_learner import topology
from tests.planted import LandedRecord, plant


def test_slow_storage_counts_what_tasks_read_of_their_state_and_changes_nothing(warehouse, tmp_path):
    plant(warehouse, "clicks", [LandedRecord(0, b"key %d" % n, b"x", n) for n in range(40)], partitions=1)
    list(replay(warehouse, topology(), pipeline="p", runner=LocalRunner(), max_records=20, increments=1))

    with slow_storage() as reads:
        list(replay(warehouse, topology(), pipeline="p", runner=LocalRunner(str(tmp_path / "cache")), increments=1))

    assert reads.state_bytes > 0
    assert reads.seconds >= OPEN_S + reads.state_bytes / BYTES_PER_SECOND
    counts = list(replay(warehouse, topology(), pipeline="p", runner=LocalRunner()))
    assert counts == []  # all was replayed


def test_a_summary_compares_with_the_median_of_quiet_increments():
    quiet = {number: MeasuredIncrement(number, 2.0, 1.0, 0.0, 0, 0) for number in range(1, INCREMENTS + 1)}
    found = quiet | {
        JOINS_AT: MeasuredIncrement(JOINS_AT, 2.2, 1.1, 0.0, 0, 5),
        JOINS_AT + 1: MeasuredIncrement(JOINS_AT + 1, 2.4, 1.0, 1.2, 2, 0),
        DIES_AT: MeasuredIncrement(DIES_AT, 3.0, 1.0, 3.0, 3, 7),
    }

    assert summary(list(found.values())) == {
        "median_s": 2.0,
        "join_unmoved_to_median": 1.1,
        "handed_over_to_median": 1.2,
        "kill_to_median": 1.5,
        "after_kill_to_median": 1.0,
        "moves": 5,
        "state_bytes": 12,
    }


def test_a_summary_of_a_real_cluster_counts_warm_moves_and_records_of_tasks_that_ran_again():
    increments = [
        RealIncrement(QUIET, 2.0, 1.0, moved=0, warm=0, cold=0, again=0),
        RealIncrement(QUIET, 4.0, 3.0, moved=1, warm=1, cold=0, again=0),
        RealIncrement(KILLED, 6.0, 2.0, moved=3, warm=2, cold=1, again=2),
    ]

    assert summary_of_parts(increments, records_a_task=100) == [
        {
            "part": QUIET, "increments": 2, "longest to quiet": 1.33, "unmoved to quiet": 1.5, "moved": 1,
            "of them warm": 1, "cold": 0, "records again": 0,
        },
        {
            "part": KILLED, "increments": 1, "longest to quiet": 2.0, "unmoved to quiet": 1.0, "moved": 3,
            "of them warm": 2, "cold": 1, "records again": 200,
        },
    ]  # fmt: skip
