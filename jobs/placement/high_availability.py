"""Kafka's default: even loads, and no task waits for its state (KIP-441, HighAvailabilityTaskAssignor).

Rule: first the right places, without a look at who ran what; then every task runs where its state is, until the member
of its right place has learned it. Owners stay only because they have learned their tasks.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import cycle, islice

from .least_loaded import by_load
from .members import Assignment, Member, MemberTasks, TaskId, Tasks, assignment_of, no_tasks
from .settings import PlacementSettings
from .standby_tasks import assign_standbys, may_move_standby
from .sub_topologies import balance_sub_topologies
from .task_movements import Movements

TasksOf = Callable[[MemberTasks], set[TaskId]]


def assign_high_availability(
    members: Collection[Member], all_tasks: Iterable[TaskId], stateful: Collection[TaskId], settings: PlacementSettings
) -> Assignment:
    """``members``: at least one; each says its lag of every task in ``stateful``."""
    tasks, with_state = no_tasks(members), sorted(stateful)
    for task, name in zip(with_state, islice(cycle(tasks), len(with_state)), strict=True):
        tasks[name].active.add(task)
    _balance(tasks, lambda held: held.active, lambda source, destination: True)
    if settings.balances_sub_topologies:
        # Kafka's default non-overlap cost of this assignor is 1; a task without state costs
        # nothing to move, in this one and in the sticky one.
        balance_sub_topologies(tasks, with_state, cost_of_move=1)
    if settings.num_standby_replicas:
        assign_standbys(tasks, with_state, settings)
        _balance(tasks, lambda held: held.standby, lambda one, other: may_move_standby(one, other, settings))
    movements = Movements(tasks, with_state, settings)
    movements.move_actives()
    movements.move_standbys()
    queue = by_load(lambda name: tasks[name].active_load, tasks)
    stateless = sorted(set(all_tasks) - set(with_state))
    for task in stateless:
        least = queue.poll(task)
        assert least is not None, "there is a member"
        tasks[least].active.add(task)
        queue.offer(least)
    if settings.balances_sub_topologies:
        balance_sub_topologies(tasks, stateless, cost_of_move=0)
    return assignment_of(tasks, movements.moves)


def _balance(tasks: Tasks, kind: TasksOf, may_move: Callable[[Member, Member], bool]) -> None:
    """Move tasks of a kind to members with less load, as long as that makes loads more even."""
    is_changed = True
    while is_changed:
        is_changed = False
        for source in tasks.values():
            for destination in tasks.values():
                if source is destination:
                    continue
                for task in sorted(kind(source)):
                    if not _is_more_even(source, destination):
                        break
                    if not destination.has(task) and may_move(source.member, destination.member):
                        kind(source).remove(task)
                        kind(destination).add(task)
                        is_changed = True


def _is_more_even(source: MemberTasks, destination: MemberTasks) -> bool:
    """Whether one task less here and one more there makes the difference of loads smaller, and does not turn it."""
    skew = source.load - destination.load
    after = (source.count - 1.0) / source.member.capacity - (destination.count + 1.0) / destination.member.capacity
    return skew > 0 and 0 <= after < skew
