"""``python -m tests.laws.placement``: groups whose members come, go, die and come back, by seed.

Rule: a seed says all. The real ``Group`` decides; the world around it (which files a member really has, how fast it
copies, what it reports) is a model. Of every increment the laws of incremental rebalancing are asked, and once
nobody comes or goes any more the group must settle with even loads.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kstreams_replay.jobs.placement.group import Group, Present
from kstreams_replay.jobs.placement.members import Assignment, TaskId
from kstreams_replay.jobs.placement.settings import (
    BALANCE_SUBTOPOLOGY,
    HIGH_AVAILABILITY,
    NONE,
    STICKY,
    PlacementSettings,
)

EVENTS = ("join", "leave", "kill", "decommission", "return", "lost registry", "quiet", "quiet")
SETTLES_WITHIN = 200
"""Increments: with one warm-up and slow copying a group of 16 tasks needs some dozens."""


QUICK = 200_000
"""Bytes an increment: more than all tasks write, without which nobody could ever learn a task."""


class LawBroken(AssertionError):
    """A law does not hold in a history."""


@dataclass
class Worker:
    """A member as it really is: ``copies`` on its disk, bytes that it copies an increment, and those that it has
    ``read`` of what it copies now.
    """

    present: Present
    speed: int
    copies: set[str] = field(default_factory=set)
    is_leaving: bool = False
    read: int = 0


@dataclass
class World:
    """Everything that is there. ``files``: live state files of every task with state."""

    seed: int
    generator: random.Random
    settings: PlacementSettings
    files: dict[TaskId, dict[str, int]]
    stateless: list[TaskId]
    group: Group
    workers: dict[str, Worker] = field(default_factory=dict)
    dead: dict[str, Worker] = field(default_factory=dict)
    owners: dict[TaskId, str] = field(default_factory=dict)
    is_peaceful: bool = False
    increment: int = 0
    moves: int = 0
    number: int = 0


def world_of(seed: int) -> World:
    generator = random.Random(seed)
    settings = PlacementSettings(
        generator.choice([HIGH_AVAILABILITY, HIGH_AVAILABILITY, STICKY]),
        num_standby_replicas=generator.choice([0, 0, 1, 2]),
        max_warmup_replicas=generator.choice([1, 2, 4]),
        acceptable_recovery_lag_bytes=generator.choice([0, 100, 1000]),
        rack_aware_assignment_tags=generator.choice([(), ("zone",)]),
        rack_aware_assignment_strategy=generator.choice([NONE, NONE, BALANCE_SUBTOPOLOGY]),
    )
    count = generator.randrange(1, 17)
    stateful = [TaskId(0, partition) for partition in range(count)]
    stateless = [TaskId(1, partition) for partition in range(generator.choice([0, 0, count]))]
    files = {task: {f"{task}/0": generator.randrange(1000, 5000)} for task in stateful}
    world = World(seed, generator, settings, files, stateless, Group(settings))
    for _ in range(generator.randrange(1, 5)):
        join(world)
    return world


def join(world: World) -> None:
    world.number += 1
    generator = world.generator
    member = Present(f"m{world.number:02d}", generator.choice([1, 1, 1, 2]), {"zone": generator.choice("ab")})
    world.workers[member.id] = Worker(member, generator.choice([500, 3000, 50_000]))


def happen(world: World, event: str) -> None:
    """An event between two increments. The last member never goes."""
    generator, workers = world.generator, world.workers
    name = generator.choice(sorted(workers))
    if event == "join" and len(workers) < 8:
        join(world)
    elif event in ("leave", "kill") and len(workers) > 1:
        gone = workers.pop(name)
        if event == "kill" and generator.random() < 0.7:  # its disk stays, with a copy that is not whole
            gone.copies.discard(generator.choice(sorted(gone.copies) or [""]))
            world.dead[name] = gone
    elif event == "decommission":
        workers[name].is_leaving = True
    elif event == "return" and world.dead:  # a zombie: its copies are old, and its speed may be another one
        name = generator.choice(sorted(world.dead))
        workers[name] = world.dead.pop(name)
        workers[name].is_leaving = False
    elif event == "lost registry":
        world.group = Group(world.settings)


def stage(world: World) -> Iterator[tuple[TaskId, str]]:
    """Run an increment: every task with the member that ran it. Who is killed in the middle leaves its tasks to a
    standby, or to anybody.
    """
    leaving = [name for name, worker in world.workers.items() if worker.is_leaving]
    for name in leaving[: max(0, len(world.workers) - 1)]:
        del world.workers[name]
    group = world.group
    for task, files in world.files.items():
        group.note_files(task, dict(files))
    for task in world.stateless:
        group.note_files(task, None)
    for name, worker in world.workers.items():
        group.has_warm(name, worker.copies)
    before = world.owners
    cold = {(task, name) for task in world.files for name, w in world.workers.items() if lag(world, w, task)}
    assignment = group.assign([worker.present for worker in world.workers.values()])
    check(world, assignment, before, cold)
    victim = None
    if not world.is_peaceful and len(world.workers) > 1 and world.generator.random() < 0.1:
        victim = world.generator.choice(sorted(world.workers))
    for task, owner in assignment.owners().items():
        runs_on = owner
        if owner == victim:
            standbys = [name for name in assignment.standbys(task) if name != victim]
            runs_on = (standbys or sorted(set(world.workers) - {victim}))[0]
        yield task, runs_on
    if victim is not None:
        world.dead[victim] = world.workers.pop(victim)


def lag(world: World, worker: Worker, task: TaskId) -> int:
    return sum(size for name, size in world.files[task].items() if name not in worker.copies)


def check(world: World, assignment: Assignment, before: dict[TaskId, str], cold: set[tuple[TaskId, str]]) -> None:
    """The laws of one increment. ``cold``: who would have to read state of a task before it runs it."""
    placed = [task for tasks in assignment.active.values() for task in tasks]
    everything = [*world.files, *world.stateless]
    refuse(world, sorted(placed) != sorted(everything), f"each task has one owner: {Counter(placed)}")
    refuse(world, not set(assignment.active) <= set(world.workers), "an owner is there")
    for task, owner in assignment.owners().items():
        refuse(world, owner in assignment.standbys(task), f"{task} has a standby where it runs")
        if before.get(task) == owner:
            refuse(world, (task, owner) in cold, f"{task} stays on {owner} and reads its state again")
    refuse(
        world,
        any(task in assignment.standby[name] for task in world.stateless for name in assignment.standby),
        "a stateless task has no standby",
    )
    if world.settings.placement == STICKY:
        return
    warmups = sum(move.is_learning for move in assignment.moves) - swaps(world, assignment)
    refuse(world, warmups > world.settings.max_warmup_replicas, f"{warmups} tasks are learned at a time")
    for task, owner in assignment.owners().items():
        old = before.get(task)
        if task in world.files and old in world.workers and old != owner and (task, old) not in cold:
            there = lag(world, world.workers[owner], task)
            refuse(
                world,
                there > world.settings.acceptable_recovery_lag_bytes,
                f"{task} moves from {old} to {owner}, which lacks {there} bytes",
            )
    no_peaks(world, assignment, cold)


def no_peaks(world: World, assignment: Assignment, cold: set[tuple[TaskId, str]]) -> None:
    """While tasks are learned nobody is given one with which it has more to do than the busiest had, if its owner has
    room for it and continues keeping it warm. Who owned it is what the group knows: its registry may have been lost.
    """
    if not assignment.is_probing:
        return
    cores = {name: worker.present.capacity for name, worker in world.workers.items()}
    owned = Counter(task.owner for task in world.group.tasks.values())
    peak = max(owned[name] / cores[name] for name in cores)
    for task, owner in assignment.owners().items():
        old = world.group.tasks[task].owner
        if old in cores and old != owner and (task, old) not in cold and task in assignment.standby[old]:
            has_room = (len(assignment.active[old]) + 1) / cores[old] <= peak
            is_peak = len(assignment.active[owner]) / cores[owner] > peak
            refuse(world, is_peak and has_room, f"{task} moves to {owner}, which then has more to do than any had")


def swaps(world: World, assignment: Assignment) -> int:
    """Moves whose destination learns as one of the configured standbys."""
    standbys = sum(map(len, assignment.standby.values()))
    wanted = min(world.settings.num_standby_replicas, len(world.workers) - 1) * len(world.files)
    learning = sum(move.is_learning for move in assignment.moves)
    return learning - max(0, standbys - wanted)


def refuse(world: World, is_broken: bool, law: str) -> None:
    if is_broken:
        raise LawBroken(f"seed {world.seed}, increment {world.increment}: {law}")


def step(world: World) -> bool:
    """One increment; whether a task moved."""
    world.increment += 1
    before, after = dict(world.owners), {}
    for task, name in stage(world):
        after[task] = name
        worker = world.workers[name]
        files = world.files.get(task)
        if files is not None:
            advance(world, task, files)
            worker.copies |= set(files)
        world.group.ran(task, name, None if files is None else dict(files))
    world.owners = after
    for worker in world.workers.values():
        learn(world, worker)
    moved = sum(before.get(task, name) != name for task, name in after.items())
    world.moves += moved
    return bool(moved)


def advance(world: World, task: TaskId, files: dict[str, int]) -> None:
    """A run writes a new file, and now and then merges some, or all, into it."""
    generator = world.generator
    name, size = f"{task}/{world.increment}", generator.randrange(1, 80)
    kind = generator.random()
    merged = list(files) if kind < 0.03 else [old for old in files if files[old] < 200] if kind < 0.6 else []
    for old in merged:
        size += files.pop(old)
    files[name] = size


def learn(world: World, worker: Worker) -> None:
    """Copy what the group says, as far as the worker gets in an increment; a large file takes it several."""
    worker.read += max(worker.speed, QUICK) if world.is_peaceful else worker.speed
    missing = [
        (name, size)
        for task in world.group.to_learn(worker.present.id)
        for name, size in world.files[task].items()
        if name not in worker.copies
    ]
    for name, size in missing:
        if worker.read < size:
            return
        worker.read -= size
        worker.copies.add(name)
    worker.read = 0


@dataclass(frozen=True)
class PlacementHistory:
    """``moves``: made from one settled state to the next; ``fewest``: how many it takes at least to come from the
    numbers of tasks that members had to those that they have.
    """

    placement: str
    increments: int
    moves: int
    fewest: int


def history(seed: int) -> PlacementHistory:
    """Play a history. Raises LawBroken."""
    world = world_of(seed)
    moves = fewest = 0
    for _ in range(world.generator.randrange(1, 5)):
        settle(world)
        world.moves, start = 0, dict(world.owners)
        for _ in range(world.generator.randrange(1, 6)):
            happen(world, world.generator.choice(EVENTS))
            step(world)
        settle(world)
        moves += world.moves
        fewest += fewest_moves(world, start)
    return PlacementHistory(world.settings.placement, world.increment, moves, fewest)


def settle(world: World) -> None:
    """Increments without events until nothing moves and nothing is to move; then loads are even."""
    quiet, world.is_peaceful = 0, True
    for _ in range(SETTLES_WITHIN):
        is_moved = step(world)
        quiet = 0 if is_moved or world.group.assignment.is_probing else quiet + 1
        if quiet == 3:
            even(world)
            world.is_peaceful = False
            return
    refuse(world, True, f"the group has not settled in {SETTLES_WITHIN} increments")


def even(world: World) -> None:
    """Loads are within one task of each other."""
    assignment = world.group.assignment
    loads = [(len(tasks) / world.workers[name].present.capacity, name) for name, tasks in assignment.active.items()]
    least, most = min(loads), max(loads)
    refuse(world, most[0] - least[0] > 1, f"loads are {least} and {most}")


def fewest_moves(world: World, start: dict[TaskId, str]) -> int:
    """To come from the owners at ``start`` to as many tasks for every member as there are now."""
    before, after = Counter(start.values()), Counter(world.owners.values())
    return sum(max(0, after[name] - before[name]) for name in after)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.placement", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000, metavar="N", help="so many (default 1000)")
    parser.add_argument("--from", type=int, default=1, metavar="SEED", dest="first", help="the first (default 1)")
    chosen = parser.parse_args(arguments)
    failed, found = 0, list[PlacementHistory]()
    for seed in range(chosen.first, chosen.first + chosen.histories):
        try:
            found.append(history(seed))
        except LawBroken as broken:
            failed += 1
            print(broken, flush=True)
    for placement in (HIGH_AVAILABILITY, STICKY):
        of_it = [one for one in found if one.placement == placement]
        moves, fewest = sum(one.moves for one in of_it), sum(one.fewest for one in of_it)
        print(f"{placement}: {len(of_it)} histories, {moves} moves where {fewest} were the fewest possible")
    print(f"{chosen.histories - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
