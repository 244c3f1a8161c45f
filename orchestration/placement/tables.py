"""What a hint of placement says, as rows and sentences for people."""

from collections.abc import Mapping
from typing import Any

from ...jobs.execution.placement_hint import group_of
from ...jobs.placement.group import Group, Present
from ...jobs.placement.members import TaskId
from ...jobs.placement.preview import advice, preview, stage_advice

LEARNED_BYTES_PER_SECOND = 64 << 20
"""At most so much is copied by a learner (jobs/execution/state_learner.py)."""

Hint = Mapping[str, Any]
Rows = list[dict[str, Any]]


def placed_tables(hint: Hint) -> tuple[list[tuple[str, Rows]], list[str]]:
    """Members, tasks and planned moves of the last increment, each with its title; and what to know of them."""
    group = group_of(hint)
    title = f"increment {hint['increment']}, {group.settings.placement}"
    tables = [(f"members, {title}", _members(hint, group)), ("tasks", _tasks(hint, group))]
    if hint["moves"]:
        tables.append(("moves to come", [_move(hint, group, move) for move in hint["moves"]]))
    said = _advice(hint, group)
    if hint["elsewhere"]:
        said.append(f"Spark ran {', '.join(hint['elsewhere'])} elsewhere: the owner was lost, or busy for too long")
    return tables, said


def preview_lines(hint: Hint, members: int | None) -> list[str]:
    """What would happen with so many members (None: those that are there); those beyond the known are new."""
    group, known = group_of(hint), _present(hint)
    count = len(known) if members is None else members
    there = [*known, *(Present(f"new-{number}") for number in range(1, count - len(known) + 1))][:count]
    plan = preview(group, there)
    copied = sum(copy.bytes for copy in plan.copies)
    slowest = max((sum(c.bytes for c in plan.copies if c.member == member.id) for member in there), default=0)
    lines = [
        f"{len(plan.moved)} of {len(group.tasks)} tasks would move; increments until all is done: {plan.increments}",
        f"{_size(copied)} of state would be copied, {slowest / LEARNED_BYTES_PER_SECOND:.1f} s at least",
    ]
    for task in plan.moved:
        before, after = plan.owners[task], plan.assignment.owner(task)
        lines.append(f"  {task}: {_name(hint, before or '')} -> {_name(hint, after)}, {_size(group.tasks[task].bytes)}")
    said = advice(there, len(group.tasks), _seconds(hint))
    return lines + said + stage_advice(group, there, plan.assignment.owners())


def placement_numbers(hint: Hint | None, increment: int) -> dict[str, int]:
    """What Dagster plots of an increment; nothing where its tasks were not placed, or later ones were."""
    if hint is None or hint.get("increment") != increment:
        return {}
    return {
        "placement/members": len(hint["members"]),
        "placement/tasks_elsewhere": len(hint["elsewhere"]),
        "placement/tasks_learned": sum(move["is_learning"] for move in hint["moves"]),
        "placement/moves_to_come": len(hint["moves"]),
    }


def placement_sentence(hint: Hint | None, increment: int) -> str | None:
    """One line for a log; None where the tasks of the increment were not placed."""
    numbers = placement_numbers(hint, increment)
    if hint is None or not numbers:
        return None
    group = group_of(hint)
    said = [f"increment {increment}: tasks placed on {numbers['placement/members']} workers"]
    said += [
        f"{_name(hint, move['destination'])} learns {move['task']} ({_progress(group, move['destination'], task)})"
        for move in hint["moves"]
        if move["is_learning"] and (task := TaskId.of(move["task"]))
    ]
    if hint["elsewhere"]:
        said.append(f"{', '.join(hint['elsewhere'])} ran elsewhere")
    return "; ".join([*said, *_advice(hint, group)])


def _advice(hint: Hint, group: Group) -> list[str]:
    said = advice(_present(hint), len(group.tasks), _seconds(hint))
    return said + stage_advice(group, _present(hint), {task: state.owner for task, state in group.tasks.items()})


def _members(hint: Hint, group: Group) -> Rows:
    learning = {(move["task"], move["destination"]) for move in hint["moves"] if move["is_learning"]}
    rows = []
    for member, said in hint["members"].items():
        standby = hint["group"]["standby"].get(member, [])
        rows.append(
            {
                "member": member[:8],
                "hosts": " ".join(said["hosts"]),
                "cores": said["cores"],
                "tags": ",".join(f"{key}={value}" for key, value in said["tags"].items()),
                "runs": " ".join(hint["active"].get(member, [])),
                "standby": " ".join(task for task in standby if (task, member) not in learning),
                "learns": " ".join(task for task in standby if (task, member) in learning),
            }
        )
    return rows


def _tasks(hint: Hint, group: Group) -> Rows:
    rows = []
    for task, state in sorted(group.tasks.items()):
        standbys = [
            f"{_name(hint, member)} {_progress(group, member, task)}"
            for member, tasks in sorted(hint["group"]["standby"].items())
            if str(task) in tasks
        ]
        seconds = hint["seconds"].get(str(task))
        rows.append(
            {
                "task": str(task),
                "ran on": _name(hint, state.owner or ""),
                "state": _size(state.bytes) if state.files is not None else "none",
                "seconds": None if seconds is None else round(seconds, 2),
                "warm elsewhere": ", ".join(standbys),
            }
        )
    return rows


def _move(hint: Hint, group: Group, move: Mapping[str, Any]) -> dict[str, Any]:
    task = TaskId.of(move["task"])
    lag = group.lag(move["destination"], task)
    why = f"learns, {_size(lag)} to go" if lag else "learned, takes it over when it has room"
    return {
        "task": move["task"],
        "as": "owner" if move["is_active"] else "standby",
        "from": _name(hint, move["source"]),
        "to": _name(hint, move["destination"]),
        "why not yet": why if move["is_learning"] else "waits for a warm-up to be free",
    }


def _progress(group: Group, member: str, task: TaskId) -> str:
    whole = group.tasks[task].bytes
    return "100 %" if whole == 0 else f"{100 * (whole - group.lag(member, task)) // whole} %"


def _present(hint: Hint) -> list[Present]:
    return [Present(member, said["cores"], said["tags"]) for member, said in hint["members"].items()]


def _seconds(hint: Hint) -> dict[TaskId, float]:
    return {TaskId.of(task): float(seconds) for task, seconds in hint["seconds"].items()}


def _name(hint: Hint, member: str) -> str:
    """Its first host, which people know, and enough of its id to distinguish it from others there."""
    hosts = hint["members"].get(member, {}).get("hosts", [])
    return f"{hosts[0]}/{member[:8]}" if hosts else member[:8]


def _size(count: int) -> str:
    """Bytes in a unit that people read."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"
