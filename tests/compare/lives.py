"""``python -m tests.compare.lives``: seeded lives of live applications, and whether `compare` names every true cause.

A life has 120 records, one partition, and up to 20 restarts, or three crashes, or a cache. All lives of a kind are
played side by side, and one comparison names the causes of their differences.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.compare.live_application import (
    AGAIN,
    LET_IN,
    SWALLOWED,
    TWICE,
    Input,
    Life,
    Published,
    WindowCounts,
    forward,
    live,
    random_inputs,
)
from tests.compare.test_lives import GRACE_MS, RECORDS, SIZE_MS, Played, counts, crashed, finals, forwarded, places

Publish = Callable[[random.Random, list[Input]], list[Published]]
RIGHT = {("restart", LET_IN), ("processed twice", AGAIN), ("published twice", TWICE), ("record cache", SWALLOWED)}


def _counted(life: Life, records: list[Input], *, cached: bool = False, final: bool = False) -> list[Published]:
    return live(records, WindowCounts(SIZE_MS, GRACE_MS, is_cached=cached, is_final=final), life).published


KINDS: dict[str, tuple[Callable[[], Topology], Publish]] = {
    "restarts": (counts, lambda rng, records: _counted(Life(restarts=places(rng, 20)), records)),
    "finals": (finals, lambda rng, records: _counted(Life(restarts=places(rng, 20)), records, final=True)),
    "cache": (counts, lambda rng, records: _counted(Life(commits=places(rng, 12)), records, cached=True)),
    "cache and restarts": (
        counts,
        lambda rng, records: _counted(Life(places(rng, 12), commits=places(rng, 12)), records, cached=True),
    ),
    "forwarded twice": (
        forwarded,
        lambda rng, records: forward(records, Life(crashes=places(rng, 3), commits=places(rng, 12))),
    ),
    "counted twice": (counts, crashed),
}


def played(kind: str, count: int, seed: int) -> list[tuple[list[Input], list[Published]]]:
    """``count`` lives of a kind; a key is in one life alone."""
    rng, found = random.Random(f"{kind} {seed}"), []
    for number in range(count):
        keys = [f"{key}{number}" for key in "abc"]
        records = random_inputs(rng, RECORDS, keys, span_ms=rng.choice([100_000, 400_000]), late_share=0.3)
        found.append((records, KINDS[kind][1](rng, records)))
    return found


def causes(kind: str, count: int, seed: int) -> Counter[tuple[str, str]]:
    """Of all differences the cause that was found and the true one."""
    with TemporaryDirectory() as folder:
        return Played(Warehouse(str(Path(folder))), KINDS[kind][0](), played(kind, count, seed)).causes()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compare.lives", description=__doc__)
    parser.add_argument("--lives", type=int, default=1_000, metavar="N", help="of all kinds together")
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    chosen = parser.parse_args(arguments)
    print(f"seed {chosen.seed}", flush=True)
    unexplained = false = 0
    for number, kind in enumerate(KINDS):
        count = chosen.lives * (number + 1) // len(KINDS) - chosen.lives * number // len(KINDS)
        found = causes(kind, count, chosen.seed)
        none = sum(many for (cause, _), many in found.items() if cause == "not explained")
        wrong = sum(many for pair, many in found.items() if pair not in RIGHT) - none
        unexplained, false = unexplained + none, false + wrong
        total = sum(found.values())
        print(f"{kind}: {count} lives, {total} differences, {none} unexplained, {wrong} false", flush=True)
        for pair, many in found.items():
            if pair not in RIGHT:
                print(f"  {many} are {pair[1]}, said to be {pair[0]}")
    print(f"{unexplained} unexplained, {false} falsely explained")
    return 1 if unexplained or false else 0


if __name__ == "__main__":
    sys.exit(main())
