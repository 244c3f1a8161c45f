"""What is known of a group from increment to increment, and who is to run what in the next one.

Owns the hint: who ran each task, which files its state has, which of them every member has warm. Rule: all of it may be
wrong or lost. Then a task reads its state where it could have had it warm; which rows it writes never depends on it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .assignor import assign
from .interim_loads import without_peaks
from .members import RUNNING, Assignment, Member, TaskId
from .settings import PlacementSettings

Files = Mapping[str, int]
"""State files of a task by the name of their warm copy, with their bytes."""


@dataclass(frozen=True, slots=True)
class Present:
    """A member that is there now."""

    id: str
    capacity: int = 1
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class GroupTask:
    """``files``: those of its state after its last run; None: it has no stores. ``owner``: who ran it last."""

    files: Files | None = None
    owner: str | None = None

    @property
    def bytes(self) -> int:
        return sum((self.files or {}).values())


class Group:
    """``settings``: with a strategy, so not "spark"."""

    def __init__(self, settings: PlacementSettings) -> None:
        self.settings = settings
        self.tasks: dict[TaskId, GroupTask] = {}
        self.warm: dict[str, frozenset[str]] = {}
        self.assignment = Assignment({}, {})

    def assign(self, present: Collection[Present]) -> Assignment:
        """Who runs what now: asked once an increment, and once more where a task turns up that nobody knew."""
        members = [self._member(member) for member in present]
        stateful = [task for task, known in self.tasks.items() if known.files is not None]
        assignment = assign(members, list(self.tasks), stateful, self.settings)
        self.assignment = without_peaks(assignment, members, self.settings)
        return self.assignment

    def lag(self, member: str, task: TaskId) -> int:
        """Bytes of the task's live state files that ``member`` has not copied."""
        has = self.warm.get(member, frozenset())
        return sum(size for name, size in (self.tasks[task].files or {}).items() if name not in has)

    def note_files(self, task: TaskId, files: Files | None) -> None:
        """A task is to run whose state has these files now."""
        self.tasks.setdefault(task, GroupTask()).files = files

    def ran(self, task: TaskId, member: str | None, files: Files | None) -> None:
        """A task ran on ``member`` (None: nobody knows where), which has all its files warm now."""
        known = self.tasks.setdefault(task, GroupTask())
        gone = frozenset(known.files or ()) - frozenset(files or ())
        known.files, known.owner = files, member
        if member is not None:
            self.warm[member] = (self.warm.get(member, frozenset()) - gone) | frozenset(files or ())

    def has_warm(self, member: str, names: Iterable[str]) -> None:
        """A member was asked; it has these copies and no others."""
        self.warm[member] = frozenset(names)

    def to_learn(self, member: str) -> list[TaskId]:
        """Tasks whose state ``member`` is to keep warm though another one runs them: standbys and warm-ups."""
        return list(self.assignment.standby.get(member, ()))

    def _member(self, present: Present) -> Member:
        lags = {}
        for task, known in self.tasks.items():
            if known.files is not None:
                lag = self.lag(present.id, task)
                # RUNNING ranks before a lag of 0. An owner that has lost its cache has to read the state
                # as any other member, so it gets its lag.
                lags[task] = RUNNING if lag == 0 and known.owner == present.id else lag
        active = frozenset(task for task, known in self.tasks.items() if known.owner == present.id)
        standby = frozenset(self.assignment.standby.get(present.id, ())) - active
        return Member(present.id, present.capacity, present.tags, active, standby, lags)

    # --- kept beside the ledger ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """As JSON; copies of files that no task has any more are left out."""
        live = frozenset(name for known in self.tasks.values() for name in known.files or ())
        return {
            "tasks": {
                str(task): {"files": known.files, "owner": known.owner} for task, known in sorted(self.tasks.items())
            },
            "warm": {member: sorted(names & live) for member, names in sorted(self.warm.items())},
            "standby": {member: list(map(str, tasks)) for member, tasks in self.assignment.standby.items()},
        }

    @classmethod
    def from_dict(cls, settings: PlacementSettings, content: Mapping[str, Any]) -> "Group":
        """What ``to_dict`` gave; KeyError, TypeError, ValueError or AttributeError: it is something else."""
        group = cls(settings)
        for task, known in content["tasks"].items():
            files = None if known["files"] is None else {str(name): int(size) for name, size in known["files"].items()}
            group.tasks[TaskId.of(task)] = GroupTask(files, known["owner"])
        group.warm = {member: frozenset(names) for member, names in content["warm"].items()}
        standby = {member: tuple(map(TaskId.of, tasks)) for member, tasks in content["standby"].items()}
        group.assignment = Assignment({}, standby)
        return group
