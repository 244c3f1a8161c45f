"""``python -m tests.laws.crash``: runs that are killed anywhere, again and again, against the run that nobody killed.

Rule: a seed says all: the pipeline, how far it was, and the deaths. Where a run touches the disk it may die, before
or in the middle; a disk that is full ends it, too; a vacuum may come after each death, and die as well. Every fifth
seed kills real processes, by SIGKILL, at a call to the kernel; the others die in this process, at a step that
tests/laws/border.py reports. Fifteen seeds, a round, have each pipeline with each kind of death at each place.
"""

import argparse
import errno
import itertools
import os
import random
import sys
import traceback
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from kstreams_replay.jobs.branches.vacuum import DAY_MS, vacuum
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.replaced_files import Waste
from kstreams_replay.state.tables.warehouse import Warehouse
from kstreams_replay.state.wall_clock import now_ms
from tests.laws.border import StorageStep, above, watched
from tests.laws.object_stores import ObjectStore
from tests.laws.outcome import failure
from tests.laws.pipelines import BEGINNINGS, NAME, PIPELINES, begun, done_of, drive, undisturbed
from tests.laws.processes import killed
from tests.laws.whole import first_difference

_TAPES_A_SEED = 1 / 1500
"""Another tape after so many seeds, since a tape costs seconds; the seeds of the tests have one."""

_CALLS_A_STEP = {False: 1.3, True: 10.0}
"""Calls to the kernel for a step that the border reports, without and with those that write into an open file."""


AREAS = ("commit", "file", "cache")
"""Where a run may die: at a commit or a folder, at a file of rows, at a warm copy. A copy has ten times the steps."""
KINDS = tuple(itertools.product(("died", "half", "full"), AREAS))
"""How and where a run in this process may die."""
DEATHS = (3, 3, 2, 1)
"""Deaths of the scenarios that a pipeline has in a round: each of KINDS comes once. One scenario more has SIGKILLs."""
A_ROUND = len(PIPELINES) * (len(DEATHS) + 1)


def area_of(step: StorageStep) -> str:
    if step.path.startswith("cache"):
        return "cache"
    return "file" if step.name in ("open", "close") else "commit"


class DiedInACrash(BaseException):
    """The process died here. Nobody catches it, and from here on nothing reaches the disk."""


@dataclass(frozen=True)
class Death:
    """``how``: "died", "half" (in the middle of the step), "full" (the disk is), "killed" (SIGKILL), "writing" (SIGKILL
    among the writes into open files). ``at`` in [0, 1): which of the steps that are left; in this process only steps of
    ``area`` count; SIGKILL has none.
    """

    how: str
    area: str
    at: float


@dataclass(frozen=True)
class Vacuum:
    """After every death. ``keep``: increments, None: all; ``at`` in [0, 1): where in its deletions it dies; the one at
    the end does not.
    """

    keep: int | None
    at: float

    def run(self, warehouse: Warehouse, *, delete: bool) -> list[Waste]:
        """When nobody has been at work for days."""
        options = {"keep_increments": self.keep, "delete": delete, "clock_ms": lambda: now_ms() + 2 * DAY_MS}
        return vacuum(warehouse, NAME, **options).waste


@dataclass(frozen=True)
class CrashScenario:
    """Increments ``(begun, target]`` of a pipeline, and the deaths on the way."""

    seed: int
    pipeline: str
    tape: int
    begun: int
    target: int
    deaths: tuple[Death, ...]
    vacuum: Vacuum | None

    @classmethod
    def of(cls, seed: int) -> "CrashScenario":
        number, place = divmod(seed - 1, A_ROUND)
        turn, which = divmod(place, len(PIPELINES))
        pipeline = tuple(PIPELINES)[which]
        generator = random.Random(seed)
        kinds, latest = [("killed", ""), ("writing", "")], 1.0  # SIGKILL reaches all places
        generator.shuffle(kinds)
        if turn < len(DEATHS):
            dealt = random.Random(f"{number} {pipeline}").sample(KINDS, len(KINDS))
            mine = dealt[sum(DEATHS[:turn]) : sum(DEATHS[: turn + 1])]
            kinds = sorted(mine, key=lambda kind: AREAS.index(kind[1]))  # copies are made when all is committed
            latest = 1 / len(kinds)  # so that the next death finds steps that are left
        deaths = tuple(Death(how, area, generator.random() * latest) for how, area in kinds)
        start = generator.choice(BEGINNINGS)
        target = start + generator.choice((1, 1, 1, 2))
        cleaned = Vacuum(generator.choice((None, 1, 2)), generator.random())
        vacuumed = cleaned if generator.random() < 0.3 else None
        return cls(seed, pipeline, 1 + int(seed * _TAPES_A_SEED), start, target, deaths, vacuumed)

    @property
    def is_killed(self) -> bool:
        """Whether real processes die."""
        return self.deaths[0].area == ""


def seeds_of_round(number: int) -> range:
    """Those of round ``number`` >= 0."""
    return range(number * A_ROUND + 1, (number + 1) * A_ROUND + 1)


@dataclass
class CrashOutcome:
    """``difference``: None when the tables are whole. ``deaths``: where the run died, in words."""

    scenario: CrashScenario
    difference: str | None = None
    deaths: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        s = self.scenario
        played = f"{s.pipeline}, tape {s.tape}, increments {s.begun + 1} to {s.target}"
        return failure("crash", "seeds", s.seed, played, [*self.deaths, self.difference])


def outcome_of(seed: int, store: ObjectStore | None = None) -> CrashOutcome:
    """Play one seed; on an object store only such as die in this process."""
    s = CrashScenario.of(seed)
    assert store is None or not s.is_killed, f"seed {seed} kills processes, whose calls to a store nobody sees"
    outcome, topology = CrashOutcome(s), PIPELINES[s.pipeline].topology
    try:
        with begun(s.pipeline, s.tape, s.begun, store) as warehouse:
            for death in s.deaths:
                outcome.deaths += _dies(warehouse, s, death)
                if s.vacuum is not None:
                    outcome.deaths += _dies_in_vacuum(warehouse, s.vacuum)
            drive(warehouse, topology, s.target)
            outcome.difference = _difference(warehouse, s)
    except Exception:
        outcome.difference = traceback.format_exc()
    return outcome


def _difference(warehouse: Warehouse, s: CrashScenario) -> str | None:
    """After a vacuum that came to its end only what is retained can be compared."""
    since = s.begun
    if s.vacuum is not None:
        s.vacuum.run(warehouse, delete=True)
        left = s.vacuum.run(warehouse, delete=False)
        if left:
            return f"a second vacuum finds {left[0]}"
        since = max(since, Ledger(warehouse.pipeline(NAME).ledger).oldest_kept() - 1)
    want, topology = undisturbed(s.pipeline, s.tape).warehouse, PIPELINES[s.pipeline].topology
    return first_difference(warehouse, want, topology, since=since, until=s.target)


def _dies_in_vacuum(warehouse: Warehouse, chosen: Vacuum) -> list[str]:
    if not Ledger(warehouse.pipeline(NAME).ledger).rows():
        return []
    number = int(chosen.at * (len(chosen.run(warehouse, delete=False)) + 2))
    reaper = _Reaper("died", None, number)
    with suppress(DiedInACrash), watched(above(warehouse), reaper.on_step):
        chosen.run(warehouse, delete=True)
    return [] if reaper.where is None else [reaper.where]


def _dies(warehouse: Warehouse, s: CrashScenario, death: Death) -> list[str]:
    """Run until it dies; where. [] when it came to its end before."""
    steps = list(itertools.chain.from_iterable(undisturbed(s.pipeline, s.tape).steps[done_of(warehouse) : s.target]))
    if death.how in ("killed", "writing"):
        counts_writes = death.how == "writing"
        at = int(death.at * len(steps) * _CALLS_A_STEP[counts_writes])
        change = killed(warehouse, s.pipeline, s.target, kill_at=at, counts_writes=counts_writes)
        return [] if change is None else [f"SIGKILL before {change}"]
    is_remote = "://" in warehouse.root
    area = "file" if is_remote and death.area == "cache" else death.area  # copies lie elsewhere then
    steps = [step for step in steps if not (is_remote and step.name == "make folder")]  # objects need none
    number = int(death.at * sum(area_of(step) == area for step in steps))
    reaper = _Reaper(death.how, area, number)
    try:
        with watched(above(warehouse), reaper.on_step):
            drive(warehouse, PIPELINES[s.pipeline].topology, s.target)
    except DiedInACrash:
        pass
    except Exception:
        if reaper.where is None or death.how != "full":
            raise
    return [] if reaper.where is None else [reaper.where]


class _Reaper:
    """Lets the run die at step number ``at`` of ``area`` (None: of all). ``where``: in words; None before."""

    def __init__(self, how: str, area: str | None, at: int) -> None:
        self.how, self.area, self.left = how, area, at
        self.where: str | None = None
        self._is_busy = False

    def on_step(self, step: StorageStep) -> None:
        if self._is_busy:
            return
        if self.where is not None and self.how != "full":
            raise DiedInACrash(self.where)
        self.left -= self.area in (None, area_of(step))
        if self.left != -1 or self.where is not None:
            return
        if self.how == "full":
            self.where = f"disk full: {step}"
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), step.path)
        self.where = f"died before: {step}"
        if self.how == "half" and step.half is not None:
            self.where = f"died in the middle of: {step}"
            self._is_busy = True
            step.half()
            self._is_busy = False
        raise DiedInACrash(self.where)


def _kind(death: str) -> str:
    """A death without names of files: "died before: close outputs"."""
    how, _, path = death.rpartition(" ")
    parts = path.split("/")
    place = parts[0] if parts[0] == "cache" else "/".join(parts[2:3])
    return f"{how} {place}{'/_delta_log' if '_delta_log' in parts else ''}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.crash", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="so many (default 1000)")
    parser.add_argument("--from", type=int, default=1, metavar="SEED", dest="first", help="the first (default 1)")
    parser.add_argument("--places", action="store_true", help="show how often runs died where")
    chosen = parser.parse_args(arguments)
    failed, places = 0, Counter[str]()
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        outcome = outcome_of(seed)
        places.update(map(_kind, outcome.deaths))
        if outcome.difference is not None:
            failed += 1
            print(outcome, flush=True)
    if chosen.places:
        print("".join(f"{count:6} {place}\n" for place, count in sorted(places.items())), end="")
    print(f"{sum(places.values())} deaths")
    print(f"{chosen.seeds - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
