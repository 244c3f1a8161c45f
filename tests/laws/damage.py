"""``python -m tests.laws.damage``: warehouses in which something was damaged, by seed, and what the commands say then.

Rule: each of run, check, show and explain ends with an error that names the damaged table, or with exactly what the
undamaged warehouse gives; never a third thing. A seed says all: the pipeline, how far it was, what is damaged and how.
The warehouse is a copy by hard links of one that the crash law made, but for the file that is damaged.

One thing cannot be known: that the newest entry of a ledger's log is gone, or all of a warehouse is an old copy. A
ledger without its last done row is that of a run that died before it. So the increment before is shown, and the
next run replays the last one again; that counts as undamaged here.
"""

import argparse
import functools
import os
import random
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kstreams_replay.expectations.verdicts import Verdict, check_increment
from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.history.committed_tables import read_state, read_table
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.errors import ReplayError, TaskFailed
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.outcome import failure
from tests.laws.pipelines import NAME, PIPELINES, begun, done_of, drive, undisturbed

STARTS = (3, 4, 8, 9, 10)
"""Increments that are done when something is damaged."""

KINDS = ("bit", "bit", "bit", "range", "truncated", "deleted", "table", "old table", "entry removed", "entry changed")
_TAPES_A_SEED = 1 / 250


@dataclass(frozen=True)
class Damage:
    """``kind`` of KINDS; ``at`` and ``place`` in [0, 1): of which file or table, and where in it."""

    kind: str
    at: float
    place: float
    bit: int


@dataclass(frozen=True)
class DamageScenario:
    """A pipeline after ``done`` increments, and the damage. ``is_warm``: copies of the state are there, of a run before
    the damage.
    """

    seed: int
    pipeline: str
    tape: int
    done: int
    is_warm: bool
    damage: Damage

    @classmethod
    def of(cls, seed: int) -> "DamageScenario":
        dice = random.Random(seed)
        pipeline = dice.choice((*["brief"] * 6, "everything", "joined"))
        damage = Damage(dice.choice(KINDS), dice.random(), dice.random(), dice.randrange(8))
        return cls(seed, pipeline, 1 + int(seed * _TAPES_A_SEED), dice.choice(STARTS), dice.random() < 0.3, damage)


@dataclass
class DamageOutcome:
    """``said``: what each command came to, "same" or "error"; ``silent``: what must not be, in words, or None."""

    scenario: DamageScenario
    damage: str = ""
    said: dict[str, str] = field(default_factory=dict)
    silent: str | None = None

    def __str__(self) -> str:
        s = self.scenario
        played = f"{s.pipeline}, tape {s.tape}, {s.done} increments done{', warm' * s.is_warm}"
        return failure("damage", "seeds", s.seed, played, [self.damage, self.said, self.silent])


def outcome_of(seed: int) -> DamageOutcome:
    """Play one seed."""
    s = DamageScenario.of(seed)
    outcome, topology = DamageOutcome(s), PIPELINES[s.pipeline].topology
    with begun(s.pipeline, s.tape, s.done) as warehouse:
        done = s.done
        if s.is_warm:
            drive(warehouse, topology, done := done + 1)
        table, outcome.damage = _damage(warehouse, s)
        for name, command in _commands(warehouse, s, done).items():
            _judge(outcome, name, table, command)
            if outcome.silent is not None:
                break
    return outcome


def _judge(outcome: DamageOutcome, name: str, table: str, command: Callable[[], str | None]) -> None:
    """``command`` returns what differs, None: nothing; or raises."""
    try:
        difference = command()
    except ReplayError as error:
        outcome.said[name] = "error"
        if table not in str(error) or isinstance(error, TaskFailed):
            outcome.silent = f"{name}: an error that does not name {table}: {type(error).__name__}: {error}"
    except Exception:
        outcome.silent = f"{name}: {traceback.format_exc()}"
    else:
        outcome.said[name] = "same"
        outcome.silent = None if difference is None else f"{name}: {difference}"


# --- the damage ---------------------------------------------------------------------------------------------------


def _damage(warehouse: Warehouse, s: DamageScenario) -> tuple[str, str]:
    """Do it; the damaged table's path in the warehouse, and what was done, in words."""
    root, damage = Path(warehouse.root), s.damage
    tables = sorted(str(log.parent.relative_to(root)) for log in root.rglob("_delta_log"))
    if damage.kind in ("table", "old table"):
        table = _of(tables, damage.at)
        return table, _damage_table(root, table, s)
    if damage.kind.startswith("entry"):
        files = sorted(path for table in tables for path in (root / table / "_delta_log").iterdir() if path.is_file())
    else:
        files = sorted(path for path in root.rglob("*") if path.is_file() and "_exchange" not in path.parts)
    path = _of(files, damage.at)
    name = str(path.relative_to(root))
    table = max((table for table in tables if name.startswith(f"{table}/")), key=len)
    return table, f"{_damage_file(path, damage)} of {name}"


def _of(choices: list, at: float):
    return choices[int(at * len(choices))]


def _damage_table(root: Path, table: str, s: DamageScenario) -> str:
    shutil.rmtree(root / table)
    if s.damage.kind == "table":
        return f"{table} deleted"
    older = [done for done in (0, *STARTS) if done < s.done]
    before = undisturbed(s.pipeline, s.tape).before[_of(older, s.damage.place)]
    if (before / table).is_dir():
        shutil.copytree(before / table, root / table, copy_function=os.link)
    return f"{table} as it was in {before.name}"


def _damage_file(path: Path, damage: Damage) -> str:
    whole = path.read_bytes()
    path.unlink()  # the others have a link to it
    at, size = int(damage.place * len(whole)), len(whole)
    if damage.kind in ("deleted", "entry removed"):
        return "all"
    if damage.kind == "truncated":
        path.write_bytes(whole[:at])
        return f"what is behind byte {at} of {size}"
    changed = bytearray(whole)
    length = 1 if damage.kind == "bit" else min(size - at, 1 + damage.bit * 16)
    if damage.kind == "bit":
        changed[at] ^= 1 << damage.bit
    elif damage.kind == "entry changed" and damage.bit % 2:
        digits = [number for number, byte in enumerate(whole) if byte in b"0123456789"]
        at, length = _of(digits or [at], damage.place), 1
        changed[at] = ord("9") if whole[at] != ord("9") else ord("1")
    else:
        dice = random.Random(damage.place)
        changed[at : at + length] = bytes(dice.randrange(256) for _ in range(length))
    path.write_bytes(changed)
    return f"{length} bytes at {at} of {size} changed"


# --- the commands -------------------------------------------------------------------------------------------------


def _commands(warehouse: Warehouse, s: DamageScenario, done: int) -> dict[str, Callable[[], str | None]]:
    """What each gives that the undamaged warehouse does not."""
    return {
        "show": lambda: shows(warehouse, s, done),
        "check": lambda: checks(warehouse, s, done),
        "explain": lambda: _explains(warehouse, s),
        "run": lambda: runs(warehouse, s, done + 1),
        "show again": lambda: shows(warehouse, s, done_of(warehouse)),
        "check again": lambda: checks(warehouse, s, done_of(warehouse)),
    }


def shows(warehouse: Warehouse, s: DamageScenario, done: int) -> str | None:
    """Every table is shown by itself: a damaged one is an error, the others are as they were."""
    want, topology = undisturbed(s.pipeline, s.tape).warehouse, PIPELINES[s.pipeline].topology
    ledger = Ledger(warehouse.pipeline(NAME).ledger)
    pending, last = ledger.pending(), ledger.last_done()
    if pending is not None and pending.increment == done and last is not None:
        done = last.increment  # as after a run that died before its done row
    for name in [*(f"outputs/{sink.topic}" for sink in topology.sinks()), "dropped", *topology.stores()]:
        read = read_table if name == "dropped" or name.startswith("outputs/") else read_state
        got, wanted = read(warehouse, NAME, name), _wanted(want, name, done)
        if not got.equals(wanted):
            return f"{name} has {len(got)} rows that are not the {len(wanted)} as of increment {done}"
    return None


@functools.cache
def _wanted(warehouse: Warehouse, name: str, increment: int):
    read = read_table if name == "dropped" or name.startswith("outputs/") else read_state
    return read(warehouse, NAME, name, increment=increment)


def checks(warehouse: Warehouse, s: DamageScenario, done: int) -> str | None:
    """All verdicts; one that is not known, or false where it is not so, is an error that says why."""
    verdicts = check_increment(warehouse, NAME, replay_facts(PIPELINES[s.pipeline].topology), engine="plain")
    if unknown := [verdict.reason for verdict in verdicts if verdict.answer == "unknown"]:
        raise _Unknown(" ".join(unknown))
    got, wanted = _told(verdicts), _checked(s.pipeline, s.tape, verdicts[0].increment or done)
    if got == wanted:
        return None
    broken = [
        f"{verdict.table} {verdict.broken} {verdict.witnesses}" for verdict in verdicts if verdict.answer == "false"
    ]
    if not broken:
        return f"{got} instead of {wanted}"
    raise _Unknown(f"{NAME}/{' '.join(broken)}")


@functools.cache
def _checked(pipeline: str, tape: int, increment: int) -> list:
    want, facts = undisturbed(pipeline, tape).warehouse, replay_facts(PIPELINES[pipeline].topology)
    return _told(check_increment(want, NAME, facts, increment, engine="plain"))


def _told(verdicts: list[Verdict]) -> list:
    return [(verdict.guarantee, verdict.table, verdict.answer, verdict.observed) for verdict in verdicts]


class _Unknown(ReplayError):
    """What a verdict says."""

    def __init__(self, reason: str) -> None:
        Exception.__init__(self, reason)


def _explains(warehouse: Warehouse, s: DamageScenario) -> str | None:
    record = f"{sorted(PIPELINES[s.pipeline].topology.source_topics())[0]}:0:{s.seed % 10}"
    want = _explained(s.pipeline, s.tape, s.done, s.is_warm, record)
    try:
        got = repr(explain(warehouse, NAME, PIPELINES[s.pipeline].topology, record))
    except ReplayError as error:
        if repr(error) == want:
            return None
        raise
    return None if got == want else f"{record}: {got} instead of {want}"


@functools.cache
def _explained(pipeline: str, tape: int, done: int, is_warm: bool, record: str) -> str:
    """What is said of a record, or why nothing can be: it waits."""
    topology = PIPELINES[pipeline].topology
    with begun(pipeline, tape, done) as warehouse:
        if is_warm:
            drive(warehouse, topology, done + 1)
        try:
            return repr(explain(warehouse, NAME, topology, record))
        except ReplayError as error:
            return repr(error)


def runs(warehouse: Warehouse, s: DamageScenario, target: int) -> str | None:
    drive(warehouse, PIPELINES[s.pipeline].topology, target)
    got = done_of(warehouse)
    return None if got == target else f"ended well with {got} increments done instead of {target}"


# --- the command --------------------------------------------------------------------------------------------------


@contextmanager
def _counted(outcomes: Counter[str]) -> Iterator[None]:
    yield
    for name, count in sorted(outcomes.items()):
        print(f"{count:6} {name}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.damage", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="so many (default 1000)")
    parser.add_argument("--from", type=int, default=1, metavar="SEED", dest="first", help="the first (default 1)")
    chosen = parser.parse_args(arguments)
    failed, counts = 0, Counter[str]()
    with _counted(counts):
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            outcome = outcome_of(seed)
            noticed = "noticed" if "error" in outcome.said.values() else "without effect"
            counts[f"{outcome.scenario.damage.kind}: {'SILENT' if outcome.silent is not None else noticed}"] += 1
            if outcome.silent is not None:
                failed += 1
                print(outcome, flush=True)
    print(f"{chosen.seeds - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
