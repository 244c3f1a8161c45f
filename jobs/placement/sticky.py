"""Tasks stay where they were as long as loads allow it (KIP-429's stickiness over balance, Kafka's StickyTaskAssignor).

Rule: who had a task keeps it, then who had its standby, each up to its share; the rest goes to who has least to do.
Lags are not looked at, and nothing is learned first. Kafka goes through tasks and members in the order of their hashes,
here they are taken by ascending id.
"""

from collections.abc import Collection, Iterable, Mapping

from .members import Assignment, Member, TaskId, assignment_of, no_tasks
from .settings import PlacementSettings
from .sub_topologies import balance_sub_topologies


def assign_sticky(
    members: Collection[Member], all_tasks: Iterable[TaskId], stateful: Collection[TaskId], settings: PlacementSettings
) -> Assignment:
    """``members``: at least one; what each ran before decides."""
    return _Sticky(members, sorted(set(all_tasks)), settings.kafka_version).assign(sorted(stateful), settings)


class _Sticky:
    def __init__(self, members: Collection[Member], all_tasks: list[TaskId], kafka_version: str) -> None:
        self._tasks, self._all, self._version = no_tasks(members), all_tasks, kafka_version
        self._had: dict[TaskId, str] = {}
        self._had_standby: dict[TaskId, list[str]] = {}
        for name, held in self._tasks.items():
            self._had |= dict.fromkeys(held.member.previous_active, name)
            for task in held.member.previous_standby:
                self._had_standby.setdefault(task, []).append(name)
        # Kafka's TaskPairs: which two tasks share a member. Of members with equal claims, a task
        # prefers one that makes a new pair.
        self._together: set[frozenset[TaskId]] = set()
        self._pairs_max = len(all_tasks) * (len(all_tasks) - 1) // 2

    def assign(self, stateful: list[TaskId], settings: PlacementSettings) -> Assignment:
        left = self._assign_to(self._all, {task: [name] for task, name in self._had.items()})
        left = self._assign_to(left, self._had_standby)
        for task in left:
            self._give(task, self._best(task, list(self._tasks)), is_active=True)
        if settings.balances_sub_topologies:
            # Kafka's default non-overlap cost of this assignor is 10, so that it moves less than the
            # other one, whose cost is 1.
            balance_sub_topologies(self._tasks, stateful, cost_of_move=10)
            balance_sub_topologies(self._tasks, set(self._all).difference(stateful), cost_of_move=0)
        for task in stateful:
            for _ in range(settings.num_standby_replicas):
                without = [name for name, held in self._tasks.items() if not held.has(task)]
                if not without:
                    break
                self._give(task, self._best(task, without), is_active=False)
        return assignment_of(self._tasks)

    def _assign_to(self, tasks: Iterable[TaskId], had: Mapping[TaskId, list[str]]) -> list[TaskId]:
        """Give ``tasks`` to the first that had them and has room; those that are left."""
        left = []
        for task in tasks:
            for name in had.get(task, ()):
                held = self._tasks[name]
                if len(held.active) < self._share(held.member.capacity):
                    self._give(task, name, is_active=True)
                    break
            else:
                left.append(task)
        return left

    def _share(self, capacity: int) -> int:
        """So many tasks may a member keep: before 4.4 a thread's share was rounded down, since then a member's up."""
        threads = sum(held.member.capacity for held in self._tasks.values())
        if self._version == "4.3":
            return capacity * (len(self._all) // threads)
        return -(-capacity * len(self._all) // threads)

    def _give(self, task: TaskId, name: str, *, is_active: bool) -> None:
        held = self._tasks[name]
        self._together |= {frozenset((task, other)) for other in held.active | held.standby}
        (held.active if is_active else held.standby).add(task)

    def _best(self, task: TaskId, within: list[str]) -> str:
        if len(within) == 1:
            return within[0]
        previous = self._had.get(task)
        if previous not in within:
            previous = self._had_standby_within(task, within)
        if previous is not None and self._is_overloaded(previous):
            previous = self._had_standby_within(task, within)
            if previous is not None and self._is_overloaded(previous):
                previous = None
        return previous or self._least_loaded(task, within)

    def _had_standby_within(self, task: TaskId, within: list[str]) -> str | None:
        holders = [name for name in self._had_standby.get(task, ()) if name in within]
        return self._least_loaded(task, holders) if holders else None

    def _is_overloaded(self, name: str) -> bool:
        load = self._tasks[name].load
        return load >= 1 and any(held.load < load for held in self._tasks.values())

    def _least_loaded(self, task: TaskId, within: list[str]) -> str:
        """The first with the lowest load of those beside whose tasks ``task`` is new; of all, where there is none."""
        idle = next((name for name in within if self._tasks[name].count == 0), None)
        if idle is not None:
            return idle
        new = [name for name in within if self._is_new_pair(task, name)]
        return min(new or within, key=lambda name: self._tasks[name].load)

    def _is_new_pair(self, task: TaskId, name: str) -> bool:
        held = self._tasks[name]
        is_full = len(self._together) == self._pairs_max
        return not is_full and any(
            frozenset((task, other)) not in self._together for other in held.active | held.standby
        )
