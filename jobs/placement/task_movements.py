"""From the right place of a task to where it can run now (Kafka's TaskMovement).

Rule: a task does not begin on a member that has to read its state first while another one has more of it. That one runs
it, and the right one learns it, as far as warm-ups reach; it moves when it is learned.
"""

from collections.abc import Callable, Iterable

from .least_loaded import JavaPriorityQueue, LeastLoaded
from .members import RUNNING, Move, TaskId, Tasks
from .settings import PlacementSettings

_Movement = tuple[TaskId, str]
"""A task and the member that it is to move to."""


class Movements:
    """``tasks``: right places in, places of today out. ``moves``: what was put off."""

    def __init__(self, tasks: Tasks, stateful: Iterable[TaskId], settings: PlacementSettings) -> None:
        self._tasks, self._warmups_left = tasks, settings.max_warmup_replicas
        self._learned: dict[TaskId, set[str]] = {}
        self._by_lag: dict[TaskId, list[str]] = {}
        for task in stateful:
            self._learned[task] = {name for name in tasks if _is_learned(self._lag(task, name), settings)}
            self._by_lag[task] = self._sorted_by_lag(task)
        self._warmups: set[_Movement] = set()
        self.moves: list[Move] = []

    def _lag(self, task: TaskId, member: str) -> int:
        return self._tasks[member].member.lags[task]

    def _sorted_by_lag(self, task: TaskId) -> list[str]:
        return sorted(self._tasks, key=lambda name: (self._lag(task, name), name))

    def move_actives(self) -> None:
        """Every task runs where it can now."""
        members = self._least_loaded()
        queue = self._queue((task, name) for name, held in self._tasks.items() for task in sorted(held.active))
        while len(queue):
            task, destination = queue.poll()
            standbys = frozenset(name for name, held in self._tasks.items() if task in held.standby)
            source = (
                # First a standby that has learned the task: it exchanges roles with the destination, which
                # takes no warm-up.
                members.poll(task, standbys.__contains__) or members.poll(task) or self._most_learned(task, destination)
            )
            assert source is not None, f"nobody has more of {task} than {destination}"
            is_learning = self._move_active(task, source, destination)
            members.offer(source, destination)
            self.moves.append(Move(task, source, destination, True, is_learning))

    def move_standbys(self) -> None:
        """So does every standby; those that are warm-ups stay."""
        members = self._least_loaded()
        queue = self._queue(
            (task, name)
            for name, held in self._tasks.items()
            for task in sorted(held.standby)
            if (task, name) not in self._warmups
        )
        while len(queue):
            task, destination = queue.poll()
            without = frozenset(name for name, held in self._tasks.items() if not held.has(task))
            source = members.poll(task, without.__contains__) or self._most_learned(
                task, destination, without.__contains__
            )
            if source is None:
                continue  # nobody has more of it and none of its copies
            self._tasks[source].standby.add(task)
            is_learning = self._warmup()
            if not is_learning:
                self._tasks[destination].standby.remove(task)
            members.offer(source, destination)
            self.moves.append(Move(task, source, destination, False, is_learning))

    def _least_loaded(self) -> LeastLoaded:
        """Members by load, each for the tasks that it has learned."""
        members = LeastLoaded(lambda name: self._tasks[name].load, lambda name, task: name in self._learned[task])
        members.offer(*self._tasks)
        return members

    def _queue(self, placed: Iterable[_Movement]) -> JavaPriorityQueue[_Movement]:
        """What must not run where it is placed: first the tasks that fewest have learned."""
        queue = JavaPriorityQueue[_Movement](lambda movement: (len(self._learned[movement[0]]), movement[0]))
        for task, name in placed:
            most = self._lag(task, self._by_lag[task][0])
            if task in self._learned and name not in self._learned[task] and most < self._lag(task, name):
                queue.offer((task, name))
        return queue

    def _most_learned(
        self, task: TaskId, destination: str, is_eligible: Callable[[str], bool] = lambda name: True
    ) -> str | None:
        """The first, by lag, of those before ``destination``."""
        for name in self._by_lag[task]:
            if name == destination:
                return None
            if is_eligible(name):
                return name
        return None

    def _move_active(self, task: TaskId, source: str, destination: str) -> bool:
        """Run ``task`` on ``source``; whether ``destination`` learns it now."""
        there, here = self._tasks[destination], self._tasks[source]
        there.active.remove(task)
        is_swap = task in here.standby
        here.standby.discard(task)
        here.active.add(task)
        if is_swap:
            there.standby.add(task)
            return True
        if self._warmup():
            there.standby.add(task)
            self._warmups.add((task, destination))
            return True
        return False

    def _warmup(self) -> bool:
        """Take one of the warm-ups that are left."""
        self._warmups_left -= 1
        return self._warmups_left >= 0


def _is_learned(lag: int, settings: PlacementSettings) -> bool:
    return lag == RUNNING or 0 <= lag <= settings.acceptable_recovery_lag_bytes
