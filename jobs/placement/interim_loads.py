"""While tasks are learned nobody has more to do than the busiest had before.

Rule: an increment lasts as long as its busiest member. Until its next call, Kafka's assignor may pile tasks up on a
member that has learned some of them and has not handed over others yet. So such a task stays where it runs, and its
next owner keeps its copy. No move is lost: all are made when all is learned, which is Kafka's assignment.
"""

from collections.abc import Collection
from dataclasses import replace

from .members import RUNNING, Assignment, Member, Move, TaskId
from .settings import PlacementSettings


def without_peaks(assignment: Assignment, members: Collection[Member], settings: PlacementSettings) -> Assignment:
    """``assignment``, with tasks put back from members that would have too many to those that still have them warm."""
    if not assignment.is_probing:
        return assignment
    return _Interim(assignment, members, settings).assignment()


class _Interim:
    def __init__(self, assignment: Assignment, members: Collection[Member], settings: PlacementSettings) -> None:
        self._assignment, self._capacity = assignment, {member.id: member.capacity for member in members}
        self._active = {name: set(tasks) for name, tasks in assignment.active.items()}
        self._standby = {name: set(tasks) for name, tasks in assignment.standby.items()}
        self._peak = max(len(member.previous_active) / member.capacity for member in members)
        self._stateful = frozenset(task for member in members for task in member.lags)
        # An owner that has lost its warm copy is none: a task that is put back to it would wait for its state.
        self._owners = {
            task: member.id
            for member in members
            for task in member.previous_active
            if task not in self._stateful or member.lags[task] == RUNNING
        }
        # What is in standby beyond the configured replicas is a warm-up, and the limit counts those of Kafka's assignor
        # and those added here together. A task has at most one copy a member.
        configured = min(settings.num_standby_replicas, len(members) - 1) * len(self._stateful)
        self._warmups_left = settings.max_warmup_replicas + configured - sum(map(len, self._standby.values()))
        self._moves = list(assignment.moves)

    def assignment(self) -> Assignment:
        for name in sorted(self._active):
            for task in sorted(self._active[name]):
                if self._load(name) <= self._peak:
                    break
                self._put_back(task, name)
        return replace(
            self._assignment,
            active={name: tuple(sorted(tasks)) for name, tasks in self._active.items()},
            standby={name: tuple(sorted(tasks)) for name, tasks in self._standby.items()},
            moves=tuple(self._moves),
        )

    def _load(self, name: str, more: int = 0) -> float:
        return (len(self._active[name]) + more) / self._capacity[name]

    def _put_back(self, task: TaskId, name: str) -> None:
        """To its owner, if it is another one, has room, and ``name`` may keep the state warm instead."""
        owner = self._owners.get(task, name)
        if owner == name or self._load(owner, 1) > self._peak:
            return
        if task in self._stateful:
            # Owner and member exchange roles: the task has no copy more than before, so this takes no warm-up.
            if task in self._standby[owner]:
                self._standby[owner].remove(task)
            elif self._warmups_left > 0:
                self._warmups_left -= 1
            else:
                return
            self._standby[name].add(task)
        self._active[name].remove(task)
        self._active[owner].add(task)
        self._book(Move(task, owner, name, is_active=True, is_learning=True))

    def _book(self, put_off: Move) -> None:
        """Who is to have the task in the end may be another one than the member that it was put back from."""
        for number, move in enumerate(self._moves):
            if move.task == put_off.task and move.is_active:
                self._moves[number] = replace(move, source=put_off.source)
                return
        self._moves.append(put_off)
