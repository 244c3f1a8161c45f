"""``python -m tests.laws.races``: two runners on one pipeline, against the run that was alone.

Rule: one wins and continues to the end; the other does nothing wrong: it finds nothing to do, or stops with a sentence
that says so. Every tenth round is run by two real processes of the command line. In the others two threads take turns
at every step that touches the disk, as the seed says, so that a round can be repeated. In some a third one vacuums
meanwhile.
"""

import argparse
import functools
import random
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from kstreams_replay.jobs.branches.vacuum import vacuum
from kstreams_replay.state.errors import CommitLost, LedgerConflict
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.border import StorageStep, above, watched
from tests.laws.object_stores import ObjectStore
from tests.laws.outcome import failure
from tests.laws.pipelines import INCREMENTS, NAME, PIPELINES, RECORDS, begun, done_of, drive, undisturbed
from tests.laws.processes import raced
from tests.laws.whole import first_difference

RUNNERS = 2
VACUUMED = "vacuum"
STUCK_SECONDS = 300
"""No turn takes that long; a round that does is stuck, and ends."""


@dataclass(frozen=True)
class Race:
    """Increments ``(begun, target]``, run by all. ``changes``: how likely another runner continues after a step."""

    seed: int
    pipeline: str
    begun: int
    target: int
    changes: float
    lead: int
    """Steps that the first runner takes before the second begins."""
    vacuums: bool

    @classmethod
    def of(cls, seed: int) -> "Race":
        generator = random.Random(seed)
        pipeline = generator.choice((*["brief"] * 8, "everything", "joined"))
        start = generator.choice((0, 0, 1, 4, 8))
        changes = generator.choice((0.02, 0.1, 0.5, 1.0))
        lead = generator.choice((0, 0, generator.randrange(400)))
        return cls(seed, pipeline, start, start + generator.choice((1, 2)), changes, lead, generator.random() < 0.3)

    @property
    def is_by_processes(self) -> bool:
        """Whether two processes of the command line run it."""
        return self.seed % 10 == 0


def stratum_of(seed: int) -> tuple[str, bool, bool]:
    """Pipeline, whether processes run it, and whether a vacuum is at work meanwhile."""
    race = Race.of(seed)
    return race.pipeline, race.is_by_processes, race.vacuums


@dataclass
class RaceOutcome:
    """``difference``: None when all is as it should be. ``ends``: how each runner ended, in a word."""

    race: Race
    ends: list[str] = field(default_factory=list)
    difference: str | None = None

    def __str__(self) -> str:
        r = self.race
        played = f"{r.pipeline}, increments {r.begun + 1} to {r.target}; {', '.join(self.ends)}"
        return failure("races", "rounds", r.seed, played, [self.difference])


def outcome_of(seed: int, store: ObjectStore | None = None) -> RaceOutcome:
    """Run one round; on an object store only by threads."""
    race = Race.of(seed)
    assert store is None or not race.is_by_processes, f"round {seed} is run by processes"
    outcome = RaceOutcome(race)
    try:
        with begun(race.pipeline, 1, race.begun, store) as warehouse:
            outcome.ends = _by_processes(warehouse, race) if race.is_by_processes else _by_turns(warehouse, race)
            outcome.difference = _difference(warehouse, race, outcome.ends)
    except Exception:
        outcome.difference = traceback.format_exc()
    return outcome


def _difference(warehouse: Warehouse, race: Race, ends: list[str]) -> str | None:
    if "finished" not in ends:
        return "nobody won"
    known = ("finished", VACUUMED, LedgerConflict.__name__, CommitLost.__name__)
    strange = [end for end in ends if end not in known]
    if strange:
        return strange[0]
    want, topology = undisturbed(race.pipeline, 1).warehouse, PIPELINES[race.pipeline].topology
    target = done_of(warehouse)  # the command line has no target, both may do so many increments
    if target < race.target:
        return f"{target} increments are done"
    since = max(race.begun, Ledger(warehouse.pipeline(NAME).ledger).oldest_kept() - 1)
    return first_difference(warehouse, want, topology, since=since, until=target)


def _by_processes(warehouse: Warehouse, race: Race) -> list[str]:
    """The command line, twice at once."""
    command = ["run", f"{PIPELINES[race.pipeline].reference}", "--warehouse", warehouse.root, "--pipeline", NAME]
    command += ["--local", "--idle", "proceed", "--max-records", str(RECORDS)]
    command += ["--increments", str(min(race.target - race.begun, (INCREMENTS - race.begun) // RUNNERS))]
    ends = []
    for code, errors in raced(command, RUNNERS):
        refused = [line for line in errors.splitlines() if line.startswith("replay: ") and "warning:" not in line[:17]]
        if code == 0 and not refused:
            ends.append("finished")
        elif (
            code == 1
            and len(refused) == 1
            and "[replay errors LedgerConflict]" in refused[0]
            and errors.endswith(f"{refused[0]}\n")
        ):
            ends.append(LedgerConflict.__name__)
        else:
            ends.append(f"exit code {code}: {errors}")
    return ends


# --- threads -------------------------------------------------------------------------------------------------


class _Turns:
    """One of the threads runs at a time; at every step the dice may hand over to the other."""

    def __init__(self, seed: int, changes: float, lead: int, number: int) -> None:
        self._dice, self._changes, self._lead = random.Random(seed), changes, lead
        self._changed = threading.Condition()
        self._running, self._left = 0, list(range(number))
        self._numbers: dict[int, int] = {}

    def begin(self, number: int) -> None:
        self._numbers[threading.get_ident()] = number
        self._wait_for(number)

    def on_step(self, step: StorageStep) -> None:
        number = self._numbers.get(threading.get_ident())
        if number is None:  # a thread of Arrow's
            return
        self._lead -= 1
        if self._lead < 0 and self._dice.random() < self._changes:
            self._hand_over(self._dice.choice(self._left))
            self._wait_for(number)

    def end(self, number: int) -> None:
        self._left.remove(number)
        if self._left:
            self._hand_over(self._left[0])

    def _hand_over(self, number: int) -> None:
        with self._changed:
            self._running = number
            self._changed.notify_all()

    def _wait_for(self, number: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._running == number, STUCK_SECONDS):
                raise RuntimeError("the other runner waits for a lock that this one holds")


def _get_without_lock(self: Any, instance: Any, owner: Any = None) -> Any:
    """``cached_property`` as of Python 3.12. Before, all threads of a process wait for one lock, which runners in
    processes of their own never do; here one of them would wait for its turn inside.
    """
    if instance is None:
        return self
    if self.attrname not in instance.__dict__:
        instance.__dict__[self.attrname] = self.func(instance)
    return instance.__dict__[self.attrname]


def _by_turns(warehouse: Warehouse, race: Race) -> list[str]:
    works = [lambda: drive(warehouse, PIPELINES[race.pipeline].build(), race.target)] * RUNNERS
    works += [lambda: _vacuum(warehouse)] * race.vacuums
    ends = raced_by_turns(warehouse, works, race.seed, changes=race.changes, lead=race.lead)
    return [VACUUMED if end == "finished" and number >= RUNNERS else end for number, end in enumerate(ends)]


def raced_by_turns(
    warehouse: Warehouse,
    works: Sequence[Callable[[], Any]],
    seed: int,
    *,
    changes: float,
    lead: int = 0,
    told: tuple[type[Exception], ...] = (LedgerConflict, CommitLost),
) -> list[str]:
    """How each of ``works`` ended, which take turns: "finished", the name of one of the errors that it may be ``told``,
    or a traceback.
    """
    turns, ends = _Turns(seed, changes, lead, len(works)), [""] * len(works)

    def run(number: int) -> None:
        turns.begin(number)
        try:
            works[number]()
            ends[number] = "finished"
        except told as refusal:
            ends[number] = type(refusal).__name__
        except Exception:
            ends[number] = traceback.format_exc()
        finally:
            turns.end(number)

    unlocked = mock.patch.object(functools.cached_property, "__get__", _get_without_lock)
    with unlocked, watched(above(warehouse), turns.on_step):
        threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return ends


def _vacuum(warehouse: Warehouse) -> None:
    """Again and again while there is something to ask for."""
    for _ in range(3):
        ledger = Ledger(warehouse.pipeline(NAME).ledger)
        if ledger.rows():
            vacuum(warehouse, NAME, keep_increments=1, delete=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.races", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, metavar="N", help="so many (default 200)")
    parser.add_argument("--from", type=int, default=1, metavar="SEED", dest="first", help="the first (default 1)")
    chosen = parser.parse_args(arguments)
    failed, ends = 0, Counter[str]()
    for seed in range(chosen.first, chosen.first + chosen.rounds):
        outcome = outcome_of(seed)
        ends.update([" and ".join(sorted(outcome.ends))])
        if outcome.difference is not None:
            failed += 1
            print(outcome, flush=True)
    print("".join(f"{count:6} {end}\n" for end, count in sorted(ends.items()) if "\n" not in end), end="")
    print(f"{chosen.rounds - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
