"""What would move if other members were there, by hand: four tasks of 1,000 bytes that one member runs."""

from kstreams_replay.jobs.placement import preview as preview_module
from kstreams_replay.jobs.placement.group import Group, Present
from kstreams_replay.jobs.placement.members import TaskId
from kstreams_replay.jobs.placement.preview import Copy, advice, preview, stage_advice
from kstreams_replay.jobs.placement.settings import BALANCE_SUBTOPOLOGY, HIGH_AVAILABILITY, STICKY, PlacementSettings

TASKS = [TaskId(0, partition) for partition in range(4)]


def group(placement: str, **settings: object) -> Group:
    found = Group(PlacementSettings(placement, **settings))  # type: ignore[arg-type]
    for task in TASKS:
        found.ran(task, "c1", {f"{task}/1": 1000})
    return found


def test_a_second_member_would_learn_two_tasks_one_after_the_other_and_take_them_over():
    asked = group(HIGH_AVAILABILITY, max_warmup_replicas=1, acceptable_recovery_lag_bytes=0)

    got = preview(asked, [Present("c1"), Present("c2")])

    assert got.moved == [TaskId(0, 1), TaskId(0, 3)]
    assert got.copies == (Copy(TaskId(0, 1), "c2", 1000), Copy(TaskId(0, 3), "c2", 1000))
    assert got.increments == 3
    assert asked.lag("c2", TaskId(0, 1)) == 1000  # nothing has happened


def test_the_bound_of_increments_grows_with_the_tasks(monkeypatch):
    """One learner at a time: half of the tasks move, one an increment."""
    monkeypatch.setattr(preview_module, "_STEPS_A_TASK", 1)
    asked = Group(PlacementSettings(HIGH_AVAILABILITY, max_warmup_replicas=1, acceptable_recovery_lag_bytes=0))
    for partition in range(60):
        asked.ran(TaskId(0, partition), "c1", {f"{partition}/1": 1})

    got = preview(asked, [Present("c1"), Present("c2")])

    assert (len(got.moved), len(got.copies), got.increments) == (30, 30, 31)


def test_a_sticky_group_would_move_at_once_and_read_on_the_way():
    got = preview(group(STICKY), [Present("c1"), Present("c2")])

    assert got.moved == [TaskId(0, 2), TaskId(0, 3)]
    assert sum(copy.bytes for copy in got.copies) == 2000
    assert got.increments == 1


def test_more_cores_than_tasks_are_idle_and_a_long_task_bounds_the_increment():
    seconds = {TaskId(0, 0): 8.0, TaskId(0, 1): 2.0}

    got = advice([Present("c1", 2), Present("c2", 2)], 2, seconds)

    assert got == [
        "2 of 4 cores have nothing to do: there are 2 tasks, one a partition",
        "task 0_0 takes 8.00 s, longer than the 2.50 s that each core has: it bounds the increment, and more "
        "workers do not make it shorter",
    ]
    assert advice([Present("c1")], 2, {TaskId(0, 0): 2.0, TaskId(0, 1): 2.0}) == []


def test_a_member_that_waits_while_a_sub_topology_runs_is_told_with_what_helps():
    present, owners = [Present("c1"), Present("c2"), Present("new")], {
        TaskId(0, 0): "c1", TaskId(0, 1): "c1", TaskId(1, 0): "c2", TaskId(1, 1): "c1",
    }  # fmt: skip

    got = stage_advice(group(STICKY), present, owners)

    assert got == [
        "sub-topology 0 leaves 1 of 3 workers idle: "
        "--rack-aware-assignment-strategy balance_subtopology gives each its share"
    ]  # of 1 each has one; what is new has learned none yet
    assert stage_advice(group(STICKY), [Present("c1", 2), Present("c2")], owners) == []  # c1 has a core for each task
    assert stage_advice(group(STICKY, rack_aware_assignment_strategy=BALANCE_SUBTOPOLOGY), present, owners) == []
