"""Groups of members in few words, for tests of placement."""

from collections.abc import Mapping

from kstreams_replay.jobs.placement.assignor import assign
from kstreams_replay.jobs.placement.members import RUNNING, Assignment, Member, TaskId
from kstreams_replay.jobs.placement.settings import HIGH_AVAILABILITY, STICKY, PlacementSettings


def tasks(text: str) -> frozenset[TaskId]:
    """``"0_0 0_1"`` as tasks."""
    return frozenset(map(TaskId.of, text.split()))


def member(
    name: str,
    stateful: str,
    *,
    active: str = "",
    standby: str = "",
    lag: int = 0,
    lags: Mapping[str, int] | None = None,
    capacity: int = 1,
    tags: Mapping[str, str] | None = None,
) -> Member:
    """A member that runs ``active``, keeps ``standby`` without a lag, and has ``lag`` of the other stateful tasks, or
    what ``lags`` says.
    """
    found = dict.fromkeys(tasks(stateful), lag)
    found |= dict.fromkeys(tasks(standby), 0)
    found |= {TaskId.of(task): number for task, number in (lags or {}).items()}
    found |= dict.fromkeys(tasks(active) & tasks(stateful), RUNNING)
    return Member(name, capacity, dict(tags or {}), tasks(active), tasks(standby), found)


def highly_available(members: list[Member], stateful: str, stateless: str = "", **settings: object) -> Assignment:
    chosen = PlacementSettings(HIGH_AVAILABILITY, **settings)  # type: ignore[arg-type]
    return assign(members, tasks(stateful) | tasks(stateless), tasks(stateful), chosen)


def sticky(members: list[Member], stateful: str, **settings: object) -> Assignment:
    chosen = PlacementSettings(STICKY, **settings)  # type: ignore[arg-type]
    return assign(members, tasks(stateful), tasks(stateful), chosen)


def table(assignment: Assignment) -> str:
    """A line a member: what it runs (A) and what it keeps a standby of or learns (S)."""
    lines = []
    for name, active in assignment.active.items():
        standby = assignment.standby[name]
        lines.append(f"{name} A={','.join(map(str, active))} S={','.join(map(str, standby))}")
    return "\n".join(lines)
