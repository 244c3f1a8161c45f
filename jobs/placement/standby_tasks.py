"""Standbys: where else a task's state is kept warm.

Two ways, as in Kafka: on the least loaded members (DefaultStandbyTaskAssignor), or where configured tags are given, on
members whose tags differ from those of the task's owner and of its other standbys (ClientTagAwareStandbyTaskAssignor).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable

from .least_loaded import LeastLoaded
from .members import Member, TaskId, Tasks
from .settings import PlacementSettings

Tag = tuple[str, str]


def assign_standbys(tasks: Tasks, stateful: Iterable[TaskId], settings: PlacementSettings) -> None:
    """Add standbys of ``stateful`` tasks, ascending; fewer than configured where members are too few."""
    if settings.rack_aware_assignment_tags:
        _TaggedStandbys(tasks, settings).assign(stateful)
        return
    members = _without_task(tasks)
    members.offer(*tasks)
    for task in stateful:
        _on_least_loaded(tasks, members, task, settings.num_standby_replicas)


def may_move_standby(source: Member, destination: Member, settings: PlacementSettings) -> bool:
    """Whether balancing may move a standby: with configured tags only to a member that has all of the source's."""
    if not settings.rack_aware_assignment_tags:
        return True
    return all(destination.tags.get(key) == value for key, value in source.tags.items())


def _without_task(tasks: Tasks) -> LeastLoaded:
    return LeastLoaded(lambda member: tasks[member].load, lambda member, task: not tasks[member].has(task))


def _on_least_loaded(tasks: Tasks, members: LeastLoaded, task: TaskId, replicas: int) -> None:
    for _ in range(replicas):
        member = members.poll(task)
        if member is None:
            return
        tasks[member].standby.add(task)
        members.offer(member)


class _TaggedStandbys:
    def __init__(self, tasks: Tasks, settings: PlacementSettings) -> None:
        self._tasks, self._replicas = tasks, settings.num_standby_replicas
        self._keys = frozenset(settings.rack_aware_assignment_tags)
        self._values: dict[str, set[str]] = defaultdict(set)
        self._members: dict[Tag, set[str]] = defaultdict(set)
        for name, held in tasks.items():
            for tag in held.member.tags.items():
                self._values[tag[0]].add(tag[1])
                self._members[tag].add(name)

    def assign(self, stateful: Iterable[TaskId]) -> None:
        members, missing = _without_task(self._tasks), dict[TaskId, int]()
        for task in stateful:
            owner = next((name for name, held in self._tasks.items() if task in held.active), None)
            if owner is not None:
                missing[task] = self._with_other_tags(members, task, owner)
        members.offer(*self._tasks)
        # Replicas without a place of their own come last, anywhere: Kafka takes these tasks in the
        # order of a HashMap, here they ascend.
        for task, replicas in missing.items():
            _on_least_loaded(self._tasks, members, task, replicas)

    def _with_other_tags(self, members: LeastLoaded, task: TaskId, owner: str) -> int:
        """Add standbys of ``task`` as long as there are members in other places; how many are missing."""
        members.offer(*self._tasks)
        used: dict[Tag, set[str]] = {}
        last, count, left = owner, 1, self._replicas
        while left > 0:
            self._use(self._tasks[last].member, count, used)
            standby = members.poll(task, lambda member: not _is_in(member, used.values()))
            if standby is None:
                break
            self._tasks[standby].standby.add(task)
            last, count, left = standby, count + 1, left - 1
        return left

    def _use(self, member: Member, count: int, used: dict[Tag, set[str]]) -> None:
        """Take the places of ``member``, the last of ``count`` that have the task. Where a tag has no value left that
        is not in use, it no longer counts.
        """
        for key, value in member.tags.items():
            if key not in self._keys:
                continue
            if len(self._values[key]) <= count:
                for known in self._values[key]:
                    used.pop((key, known), None)
            else:
                used[key, value] = self._members[key, value]


def _is_in(member: str, groups: Iterable[Collection[str]]) -> bool:
    return any(member in group for group in groups)
