"""``python -m tests.laws.failing``: runs on an object store that stutters, against the run that nobody disturbed.

Rule: a seed says all: the pipeline, how far it was, which requests fail and how. Each increment is a command of its
own. A command may end with an error that says so; it is given again, as a user would. The tables must be those of the
undisturbed run in any case, and of a hundred commands at most one may end so.
"""

import argparse
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from kstreams_replay.state.errors import ReplayError, StorageError
from kstreams_replay.state.failures import failure_of
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.object_stores import ObjectStore, azure_store, gateway_store, played_store
from tests.laws.outcome import failure
from tests.laws.pipelines import BEGINNINGS, INCREMENTS, PIPELINES, begun, drive, undisturbed
from tests.laws.stuttering import FAULTS, Proxy, Stutter, proxy_before
from tests.laws.whole import first_difference

SHARE = 0.05
AGAIN = 5
"""So often a command is given again."""


@dataclass(frozen=True)
class StutteringStore:
    """A store behind the proxy ``proxy``."""

    store: ObjectStore
    proxy: Proxy


@contextmanager
def stuttering(store: ObjectStore) -> Iterator[StutteringStore]:
    """``store`` behind a proxy that fails at nothing yet."""
    with proxy_before(store.endpoint) as proxy:
        yield StutteringStore(replace(store, endpoint=proxy.endpoint), proxy)


@dataclass(frozen=True)
class FailingRun:
    """Increments ``(begun, target]``, of whose requests a share fails."""

    seed: int
    pipeline: str
    begun: int
    target: int
    stutter: Stutter

    @classmethod
    def of(cls, seed: int) -> "FailingRun":
        dice = random.Random(seed)
        pipeline = dice.choice((*["brief"] * 8, "everything", "joined"))
        start = dice.choice((0, 0, 1, 1, *BEGINNINGS))  # a long history is uploaded file by file
        target = min(INCREMENTS, start + dice.choice((1, 2, 3)))
        return cls(seed, pipeline, start, target, Stutter(SHARE, seed, FAULTS))


@dataclass
class FailingOutcome:
    """``difference``: None when the tables are whole. ``errors``: of commands that ended so."""

    run: FailingRun
    difference: str | None = None
    commands: int = 0
    errors: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def faults(self) -> int:
        """So many requests failed."""
        return sum(self.counts[fault] for fault in FAULTS)

    def __str__(self) -> str:
        r = self.run
        return failure("failing", "seeds", r.seed, f"{r.pipeline}, increments {r.begun + 1} to {r.target}",
                       [*self.errors, self.difference])  # fmt: skip


def outcome_of(seed: int, there: StutteringStore, pipeline: str | None = None) -> FailingOutcome:
    """Play one seed; ``pipeline``: another than the seed's."""
    run = FailingRun.of(seed)
    run = run if pipeline is None else replace(run, pipeline=pipeline)
    outcome, topology = FailingOutcome(run), PIPELINES[run.pipeline].topology
    want = undisturbed(run.pipeline, 1).warehouse
    try:
        there.proxy.begin()
        with begun(run.pipeline, 1, run.begun, there.store) as warehouse:
            there.proxy.begin(run.stutter)
            for target in range(run.begun + 1, run.target + 1):
                _commanded(warehouse, run, target, outcome)
            outcome.counts = there.proxy.counts()
            there.proxy.begin()
            outcome.difference = first_difference(warehouse, want, topology, since=run.begun, until=run.target)
    except Exception:
        outcome.difference = traceback.format_exc()
    return outcome


def _commanded(warehouse: Warehouse, run: FailingRun, target: int, outcome: FailingOutcome) -> None:
    """Replay one increment; what is no error of the store goes through."""
    for _ in range(AGAIN):
        outcome.commands += 1
        try:
            drive(warehouse, PIPELINES[run.pipeline].topology, target)
            return
        except Exception as error:
            said = failure_of(error, f"warehouse {warehouse.root}")
            if not isinstance(said, ReplayError) or not isinstance(said, StorageError):
                raise
            outcome.errors.append(str(said))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.failing", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="so many (default 100)")
    parser.add_argument("--from", type=int, default=1, metavar="SEED", dest="first", help="the first (default 1)")
    another = parser.add_mutually_exclusive_group()
    another.add_argument("--gateway", action="store_true", help="on the gateway instead of the played store")
    another.add_argument("--azure", action="store_true", help="on Azurite instead of the played store")
    parser.add_argument("--pipeline", choices=sorted(PIPELINES), help="this one alone")
    chosen = parser.parse_args(arguments)
    failed, commands, errors, counts = 0, 0, 0, Counter[str]()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        opened = gateway_store(folder) if chosen.gateway else azure_store(folder) if chosen.azure else played_store()
        store = stack.enter_context(opened)
        there = stack.enter_context(stuttering(store))
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            outcome = outcome_of(seed, there, chosen.pipeline)
            commands, errors = commands + outcome.commands, errors + len(outcome.errors)
            counts.update(outcome.counts)
            failed += outcome.difference is not None
            if outcome.difference is not None or outcome.errors:
                print(outcome, flush=True)
            else:
                print(f"{seed}: {outcome.commands} commands, {outcome.faults} faults", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    print(f"{commands} commands, {errors} ended with an error")
    print(f"{chosen.seeds - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
