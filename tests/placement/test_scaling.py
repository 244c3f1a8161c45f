"""The scenarios of KIP-429 with its words: scale out, scale in, a rolling bounce, a crash. Increments of a group whose
tasks each write a file of ten bytes a run.
"""

from collections.abc import Sequence

from kstreams_replay.jobs.placement.group import Group, Present
from kstreams_replay.jobs.placement.members import Assignment, Move, TaskId
from kstreams_replay.jobs.placement.settings import HIGH_AVAILABILITY, STICKY, PlacementSettings
from tests.placement.groups import table
from tests.placement.test_high_availability import text

TASKS = [TaskId(0, partition) for partition in range(4)]


class Increments:
    """A group at work. ``learn``: "before" or "after" the tasks of the increment have run learners copy all that they
    were asked to, or "never".
    """

    def __init__(self, *members: str, tasks: Sequence[TaskId] = TASKS, **settings: object) -> None:
        chosen = {"placement": HIGH_AVAILABILITY, "acceptable_recovery_lag_bytes": 10} | settings
        self.group = Group(PlacementSettings(**chosen))  # type: ignore[arg-type]
        self.members = list(members)
        self.files = {task: {f"{task}/0": 1000} for task in tasks}
        self.number = 0

    def run(self, *, learn: str = "after", merges: tuple[TaskId, ...] = ()) -> Assignment:
        for task, files in self.files.items():
            self.group.note_files(task, dict(files))
        assignment = self.group.assign([Present(member) for member in self.members])
        self.number += 1
        if learn == "before":
            self.learn()
        for task, owner in assignment.owners().items():
            merged = sum(self.files[task].values()) if task in merges else 0
            self.files[task] = {} if merged else self.files[task]
            self.files[task][f"{task}/{self.number}"] = 10 + merged
            self.group.ran(task, owner, dict(self.files[task]))
        if learn == "after":
            self.learn()
        return assignment

    def learn(self) -> None:
        for member in self.members:
            copies = {name for task in self.group.to_learn(member) for name in self.files[task]}
            self.group.has_warm(member, self.group.warm.get(member, frozenset()) | copies)


def test_scale_out_a_learner_task_takes_over_when_it_is_learned_and_no_other_task_is_revoked():
    group = Increments("c1")
    group.run()
    group.members.append("c2")

    learning = group.run(learn="never")
    still = group.run()
    handed_over = group.run()

    assert table(learning) == text("""
        c1 A=0_0,0_1,0_2,0_3 S=
        c2 A= S=0_1,0_3
    """)
    assert table(still) == table(learning)  # nothing was copied yet: nothing is revoked
    assert table(handed_over) == text("""
        c1 A=0_0,0_2 S=
        c2 A=0_1,0_3 S=
    """)


def joined_as_third_of_four() -> Increments:
    """Eight tasks with a standby each, settled on three members, when one joins that is the third by id."""
    group = Increments("c1", "c2", "c4", tasks=[TaskId(0, n) for n in range(8)], num_standby_replicas=1)
    for _ in range(6):
        settled = group.run()
    assert table(settled) == text("""
        c1 A=0_0,0_3,0_6 S=0_1,0_4,0_7
        c2 A=0_1,0_4,0_7 S=0_2,0_5
        c4 A=0_2,0_5 S=0_0,0_3,0_6
    """)
    group.members.append("c3")
    return group


def test_scale_out_nobody_has_more_to_do_while_tasks_are_learned_than_the_busiest_had():
    group = joined_as_third_of_four()

    busiest = [max(map(len, group.run().active.values())) for _ in range(6)]

    assert busiest == [3, 3, 3, 2, 2, 2]  # Kafka's assignor alone: 4 in the second


def test_scale_out_a_task_whose_next_owner_has_no_room_yet_stays_and_is_kept_warm_there_as_a_move_to_come():
    group, task = joined_as_third_of_four(), TaskId(0, 7)
    first = group.run()

    waits = group.run()
    moved = group.run()

    assert (first.owner(task), waits.owner(task), moved.owner(task)) == ("c1", "c1", "c4")
    assert waits.active["c4"] == (TaskId(0, 2), TaskId(0, 3), TaskId(0, 6))  # it hands two of them over to c3 next
    assert waits.standbys(task) == ["c4"]
    assert Move(task, "c1", "c4", is_active=True, is_learning=True) in waits.moves


def test_a_learner_follows_across_a_merge_that_rewrites_all_of_a_tasks_state():
    group = Increments("c1")
    group.run()
    group.members.append("c2")
    group.run(learn="before", merges=(TaskId(0, 1),))
    assert group.group.lag("c2", TaskId(0, 1)) > 1000

    merged = group.run()
    after = group.run()

    assert merged.owner(TaskId(0, 1)) == "c1"  # of the merged file the learner has nothing
    assert merged.owner(TaskId(0, 3)) == "c2"
    assert after.owner(TaskId(0, 1)) == "c2"


def test_scale_in_a_member_that_leaves_hands_its_tasks_to_their_standbys():
    group = Increments("c1", "c2", "c3", num_standby_replicas=1, max_warmup_replicas=4)
    for _ in range(6):
        settled = group.run()
    assert settled.active["c3"]
    group.members.remove("c3")
    warm = {(task, name) for task in TASKS for name in ("c1", "c2") if group.group.lag(name, task) <= 10}

    left = group.run()

    for task in TASKS:
        assert (task, left.owner(task)) in warm
        assert left.owner(task) == settled.owner(task) or left.owner(task) in settled.standbys(task)


def test_rolling_bounce_every_member_gets_its_tasks_back_without_learning_them_anew():
    group = Increments("c1", "c2", num_standby_replicas=1)
    for _ in range(4):
        settled = group.run()
    for name in ("c1", "c2"):
        group.members.remove(name)
        group.run()
        group.members.append(name)  # its cache folder is still there, and so it is the same member

        assert table(group.run()) == table(settled)  # it lacks one increment, which is acceptable


def test_crash_standbys_take_over_at_once_and_who_comes_back_learns_before_its_tasks_are_handed_over_to_it():
    group = Increments("c1", "c2", "c3", num_standby_replicas=1, max_warmup_replicas=4)
    for _ in range(6):
        settled = group.run()
    group.members.remove("c2")

    crashed = group.run()
    for _ in range(3):
        group.run()
    group.members.append("c2")  # what it has warm is three increments old, which is more than is acceptable
    learning = group.run()
    handed_over = [group.run() for _ in range(2)][-1]

    for task in TASKS:
        assert crashed.owner(task) in (settled.owner(task), *settled.standbys(task))
    assert settled.active["c2"]
    assert learning.active["c2"] == ()
    assert table(handed_over) == table(settled)


def test_crash_a_sticky_group_gives_only_the_tasks_of_the_dead_to_the_others():
    group = Increments("c1", "c2", placement=STICKY)
    group.run()
    before = group.run()
    group.members.append("c3")
    joined = group.run()
    group.members.remove("c1")

    left = group.run()

    assert not joined.is_probing
    assert {task for task in TASKS if joined.owner(task) != before.owner(task)} == {TaskId(0, 2)}
    for task in TASKS:
        if joined.owner(task) != "c1":
            assert left.owner(task) == joined.owner(task)


def test_a_lost_hint_costs_a_cold_start_and_every_task_still_has_one_owner():
    group = Increments("c1", "c2")
    group.run()
    group.group = Group(group.group.settings)

    got = group.run()

    assert sorted(task for tasks in got.active.values() for task in tasks) == TASKS


def test_what_is_kept_beside_the_ledger_is_read_back_and_places_the_same():
    group = Increments("c1", "c2", num_standby_replicas=1)
    for _ in range(3):
        group.run()
    again = Increments("c1", "c2", num_standby_replicas=1)
    again.group = Group.from_dict(group.group.settings, group.group.to_dict())
    again.files, again.number = {task: dict(files) for task, files in group.files.items()}, group.number

    assert table(again.run()) == table(group.run())
