"""The input of an assignor, and its answer.

Owns the words: a *member* is what Kafka calls a client or process, a *task* a partition of a sub-topology, its *lag*
what a member would have to read before it could run the task. Kafka counts records, here they are bytes; no rule
depends on the unit.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...state.tables.names import TaskId as TaskId

RUNNING = -2
"""Lag of a member that runs the task: it cannot have less (Kafka's ``Task.LATEST_OFFSET``)."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member as the assignor sees it. ``capacity``: tasks that it can run at a time, at least 1. ``tags``: where it
    is, such as {"zone": "a"}. ``lags``: of every task with state, or RUNNING.
    """

    id: str
    capacity: int = 1
    tags: Mapping[str, str] = field(default_factory=dict)
    previous_active: frozenset[TaskId] = frozenset()
    previous_standby: frozenset[TaskId] = frozenset()
    lags: Mapping[TaskId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Move:
    """A task whose next place is ``destination``, which has not learned it yet, or has no room for it; ``source`` runs
    it (or keeps its standby) until then. ``is_learning``: the destination keeps a copy now; False: all warm-ups are
    given out, it has to wait for one.
    """

    task: TaskId
    source: str
    destination: str
    is_active: bool
    is_learning: bool


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who runs what. ``standby``: by member, with the tasks that it learns. ``moves``: what is to happen when members
    have learned; as long as there are any, an assignor must be asked again (Kafka's probing rebalance).
    """

    active: Mapping[str, tuple[TaskId, ...]]
    standby: Mapping[str, tuple[TaskId, ...]]
    moves: tuple[Move, ...] = ()

    @property
    def is_probing(self) -> bool:
        """Whether an assignor must be asked again though nobody comes or goes."""
        return bool(self.moves)

    def owner(self, task: TaskId) -> str:
        """The member that runs ``task``. KeyError: nobody does."""
        return self.owners()[task]

    def owners(self) -> dict[TaskId, str]:
        """The member that runs it, by task."""
        return {task: member for member, tasks in self.active.items() for task in tasks}

    def standbys(self, task: TaskId) -> list[str]:
        """Members that keep a standby of ``task`` or learn it, by ascending id."""
        return sorted(member for member, tasks in self.standby.items() if task in tasks)

    def learners(self, task: TaskId) -> list[str]:
        """Members that learn ``task`` in order to run it, or to keep its standby."""
        return sorted(move.destination for move in self.moves if move.task == task and move.is_learning)


class MemberTasks:
    """The tasks of one member while an assignment is made."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.active: set[TaskId] = set()
        self.standby: set[TaskId] = set()

    @property
    def count(self) -> int:
        return len(self.active) + len(self.standby)

    @property
    def load(self) -> float:
        """Tasks, standbys among them, for each that the member can run at a time."""
        return self.count / self.member.capacity

    @property
    def active_load(self) -> float:
        return len(self.active) / self.member.capacity

    def has(self, task: TaskId) -> bool:
        return task in self.active or task in self.standby


Tasks = dict[str, MemberTasks]
"""By member id, ascending."""


def no_tasks(members: Iterable[Member]) -> Tasks:
    """Every member without a task, by ascending id."""
    return {member.id: MemberTasks(member) for member in sorted(members, key=lambda member: member.id)}


def assignment_of(tasks: Tasks, moves: Sequence[Move] = ()) -> Assignment:
    """What was decided."""
    return Assignment(
        {member: tuple(sorted(held.active)) for member, held in tasks.items()},
        {member: tuple(sorted(held.standby)) for member, held in tasks.items()},
        tuple(moves),
    )
