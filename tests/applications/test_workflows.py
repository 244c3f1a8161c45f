"""A run that completes and one that fails, by the rules of the application."""

import pytest

from tests.applications.workflows import topology
from tests.playing import InputRecord, Tick, assert_plays

SPEC = [
    {"kind": "task", "task": "charge", "seconds": 10, "retries": 1},
    {"kind": "sleep", "task": None, "seconds": 60, "retries": 0},
    {"kind": "task", "task": "ship", "seconds": 30, "retries": 0},
]


def command(run, kind, time_ms, *, spec=None, node=None, attempt=None):
    return InputRecord("core-cmd", run, {"kind": kind, "spec": spec, "node": node, "attempt": attempt}, time_ms)


def state(node, attempt, status):
    return {"spec": "order", "node": node, "attempt": attempt, "status": status}


def task(run, node, attempt):
    return run, {"run": run, "node": node, "attempt": attempt}


TAPE = [
    InputRecord("metadata", "order", SPEC, 0),
    command("r1", "run", 1_000, spec="order"),
    command("r1", "task-done", 3_000, node=0, attempt=0),
    command("r2", "run", 4_000, spec="order"),
    Tick(20_000),  # r2 was charged for longer than 10 s, and tries again as of then
    Tick(30_000),  # and again: that was its last attempt
    command("r1", "task-done", 40_000, node=0, attempt=0),  # of a node that it has left
    Tick(63_000),  # its pause is over
    command("r1", "task-done", 70_000, node=2, attempt=0),
    Tick(100_000),  # what would have been too late for the last task comes, and changes nothing
]


@pytest.mark.parametrize(
    "timers_first", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["commands first", "timers first"]
)
def test_runs_go_from_node_to_node_and_wait_for_timers_that_come_back_as_commands(timers_first, tmp_path):
    wanted = {
        "runs": [
            ("r1", state(0, 0, "RUNNING"), 1_000),
            ("r1", state(1, 0, "RUNNING"), 3_000),
            ("r2", state(0, 0, "RUNNING"), 4_000),
            ("r2", state(0, 1, "RUNNING"), 14_000),
            ("r2", state(0, 1, "ERROR"), 24_000),
            ("r1", state(2, 0, "RUNNING"), 63_000),
            ("r1", state(3, 0, "COMPLETED"), 70_000),
        ],
        "tasks-charge": [task("r1", 0, 0), task("r2", 0, 0), task("r2", 0, 1)],
        "tasks-ship": [task("r1", 2, 0)],
    }
    assert_plays(topology(timers_first=timers_first), TAPE, wanted, tmp_path)
