"""What would happen to a group if other members were there: who would run what, and what has to be copied for it."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .group import Group, Present
from .members import Assignment, TaskId

_STEPS_A_TASK = 10
"""More increments than these a task are an error in the assignment."""


@dataclass(frozen=True, slots=True)
class Copy:
    """State that a member must copy before it runs a task or keeps its standby."""

    task: TaskId
    member: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Preview:
    """``owners``: who ran each task until now; ``increments``: until nothing is to move any more, if every learner is
    done from one to the next. ``copies``: in the order in which they are made.
    """

    owners: dict[TaskId, str | None]
    assignment: Assignment
    copies: tuple[Copy, ...]
    increments: int

    @property
    def moved(self) -> list[TaskId]:
        """Tasks that another member would run in the end."""
        return sorted(
            task for task, owner in self.assignment.owners().items() if self.owners[task] not in (None, owner)
        )


def preview(group: Group, present: Collection[Present]) -> Preview:
    """``present``: the members that would be there, at least one. The group itself stays as it is."""
    tried = Group.from_dict(group.settings, group.to_dict())
    owners, copies = {task: known.owner for task, known in tried.tasks.items()}, list[Copy]()
    # Each increment lets one learner be done at least, so a group has settled long before.
    for increments in range(1, _STEPS_A_TASK * (len(tried.tasks) + 1)):
        assignment = tried.assign(present)
        for task, owner in assignment.owners().items():
            copies += _copy(tried, task, owner)
            tried.ran(task, owner, tried.tasks[task].files)
        for member, tasks in assignment.standby.items():
            for task in tasks:
                copies += _copy(tried, task, member)
        if not assignment.is_probing:
            return Preview(owners, assignment, tuple(copies), increments)
    raise AssertionError("a group whose learners are done settles")


def _copy(group: Group, task: TaskId, member: str) -> list[Copy]:
    """Have the member copy what it lacks."""
    lag = group.lag(member, task)
    if lag:
        group.has_warm(member, group.warm.get(member, frozenset()) | frozenset(group.tasks[task].files or ()))
    return [Copy(task, member, lag)] if lag else []


def stage_advice(group: Group, present: Collection[Present], owners: Mapping[TaskId, str | None]) -> list[str]:
    """Advice for every sub-topology that leaves members idle while it runs, because their tasks are of other ones."""
    if group.settings.balances_sub_topologies:
        return []  # it comes when all is learned
    has_tasks, said = set(owners.values()), []
    for sub in sorted({task.sub_topology for task in owners}):
        counts = Counter(owner for task, owner in owners.items() if task.sub_topology == sub)
        idle = [member.id for member in present if member.id in has_tasks and member.id not in counts]
        if idle and any(counts[member.id] > member.capacity for member in present):
            said.append(
                f"sub-topology {sub} leaves {len(idle)} of {len(present)} workers idle: "
                "--rack-aware-assignment-strategy balance_subtopology gives each its share"
            )
    return said


def advice(present: Collection[Present], tasks: int, seconds: dict[TaskId, float]) -> list[str]:
    """What more or fewer workers would bring. ``seconds``: that each task took last."""
    slots = sum(member.capacity for member in present)
    said = []
    if slots > tasks:
        said.append(f"{slots - tasks} of {slots} cores have nothing to do: there are {tasks} tasks, one a partition")
    if seconds:
        longest = max(seconds, key=lambda task: (seconds[task], task))
        share = sum(seconds.values()) / max(slots, 1)
        if seconds[longest] > share:
            said.append(
                f"task {longest} takes {seconds[longest]:.2f} s, longer than the {share:.2f} s that each core has: "
                "it bounds the increment, and more workers do not make it shorter"
            )
    return said
