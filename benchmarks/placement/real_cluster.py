"""Where tasks run, and what they find there, on a real cluster whose workers come and die.

``python -m kstreams_replay.benchmarks.placement.real_cluster [--records 800] [--quiet 4] [--json]``

Two workers of a standalone cluster on this machine replay increments of 8 tasks with one standby, until each has all
state warm. Then a third joins, and one of the first two gets SIGKILL in the middle of a stage. Rule: counts come from
the caches of the workers when an increment begins, and from where its tasks ran. A loaded machine changes the seconds,
which are those on the clock, and hardly the counts.
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...state.runs.local_copies import copies_in

MOST = 12
"""So many increments may one part of the scenario take at most."""
QUIET, LEARNING, LEARNED, KILLED, AFTER = (
    "quiet",
    "one joins, and learns",
    "learned tasks move",
    "one is killed",
    "after",
)
_AGAIN = re.compile(r"Running task \d+\.[1-9]\d* in stage")
"""In Spark's words: an attempt of a task that was begun before."""


@dataclass
class RealIncrement:
    """``moved``: tasks that ran on another host than before; ``warm``: of those, whose state lay there whole;
    ``cold``: of all tasks, whose state did not; ``again``: tasks that were begun a second time. ``unmoved_s``: of the
    longest task that stayed.
    """

    part: str
    seconds: float
    unmoved_s: float
    moved: int
    warm: int
    cold: int
    again: int


@dataclass
class Counted:
    """Drives increments, and counts. ``driver``: a process that replays one at every request."""

    cluster: Any
    driver: Any
    gate: Path
    done: list[RealIncrement] = field(default_factory=list)
    last: dict[str, Any] | None = None

    def increment(self, part: str, victim: Any = None) -> dict[str, Any]:
        """One more, of this part; ``victim``: gets SIGKILL when a task waits on it, which is worker 2."""
        from tests.cluster.placed_cluster import ran, until

        copies, again, began = self._copies(), self._again(), time.monotonic()
        if victim is not None:
            (self.gate / "close").write_text("worker-2")
        self.driver.begin()
        if victim is not None:
            until((self.gate / "reached").exists, "the stage")
            victim.kill()
            (self.gate / "close").unlink()
        after: dict[str, Any] = self.driver.end()
        took, before = time.monotonic() - began, self.last
        if before is not None:
            hosts, last_hosts, states = ran(after), ran(before), before["group"]["tasks"]
            cold = {task for task, host in hosts.items() if not set(states[task]["files"]) <= copies.get(host, set())}
            moved = {task for task, host in hosts.items() if last_hosts[task] != host}
            unmoved_s = max((after["seconds"][task] for task in hosts.keys() - moved), default=0.0)
            self.done.append(
                RealIncrement(part, took, unmoved_s, len(moved), len(moved - cold), len(cold), self._again() - again)
            )
        self.last = after
        return after

    def _copies(self) -> dict[str, set[str]]:
        """What lies whole in the cache of every host."""
        caches = self.cluster.folder.glob("cache-*")
        return {f"127.0.0.{cache.name.rpartition('-')[2]}": set(copies_in(str(cache))) for cache in caches}

    def _again(self) -> int:
        logs = self.cluster.folder.glob("worker-*/app-*/*/stderr")
        return sum(len(_AGAIN.findall(log.read_text(errors="replace"))) for log in logs)


def measured(folder: Path, records: int, quiet: int) -> list[RealIncrement]:
    """Play it all. ``quiet``: so many increments in which nothing happens."""
    from tests.cluster.placed_cluster import (
        executors,
        is_learned,
        is_settled,
        placed_driver,
        start,
        two_warehouses,
        until,
    )
    from tests.cluster.standalone import standalone

    (_, warehouse), gate = two_warehouses(folder, 3 * MOST + quiet, records), folder / "gate"
    gate.mkdir()
    with standalone(folder / "cluster", workers=0, environment={}, cores_max=3) as cluster:
        workers = {number: start(cluster, number, gate) for number in (1, 2)}
        with placed_driver(cluster, warehouse, records, {}) as driver:
            counted = Counted(cluster, driver, gate)

            def learned(after: dict[str, Any]) -> None:
                until(lambda: is_learned(cluster, after), "learning")

            def until_settled(part: str, there: int) -> None:
                for _ in range(MOST):
                    after = counted.increment(part)
                    learned(after)
                    if is_settled(after, workers=there):
                        return
                raise AssertionError(f"the group has not settled: {after}")

            for worker in workers.values():
                until(lambda worker=worker: executors(worker) > 0, "starting an executor")
            until_settled("start", 2)
            for _ in range(quiet):
                learned(counted.increment(QUIET))
            third = start(cluster, 3, gate)
            until(lambda: executors(third) > 0, "starting an executor")
            learned(counted.increment(LEARNING))
            until_settled(LEARNED, 3)
            counted.increment(KILLED, workers[2])
            counted.increment(AFTER)
    return [each for each in counted.done if each.part != "start"]


def summary_of_parts(increments: list[RealIncrement], records_a_task: int) -> list[dict[str, Any]]:
    """A row a part: seconds as ratios to the median of quiet increments, and counts."""
    quiet = [each for each in increments if each.part == QUIET]
    median, unmoved = (statistics.median(getattr(each, name) for each in quiet) for name in ("seconds", "unmoved_s"))
    rows = []
    for part in dict.fromkeys(each.part for each in increments):
        own = [each for each in increments if each.part == part]
        rows.append({
            "part": part,
            "increments": len(own),
            "longest to quiet": round(max(each.seconds for each in own) / median, 2),
            "unmoved to quiet": round(max(each.unmoved_s for each in own) / unmoved, 2) if unmoved else None,
            "moved": sum(each.moved for each in own),
            "of them warm": sum(each.warm for each in own),
            "cold": sum(each.cold for each in own),
            "records again": sum(each.again for each in own) * records_a_task,
        })  # fmt: skip
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kstreams_replay.benchmarks.placement.real_cluster")
    parser.add_argument("--records", type=int, default=800, metavar="N", help="an increment; default 800")
    parser.add_argument("--quiet", type=int, default=4, metavar="N", help="increments without a change; default 4")
    parser.add_argument("--json", action="store_true", help="every increment, as JSON")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="replay-real-cluster-") as folder:
        increments = measured(Path(folder), chosen.records, chosen.quiet)
    if chosen.json:
        print(json.dumps([asdict(each) for each in increments]))
        return 0
    from tests.cluster.placed_cluster import PARTITIONS

    from ...orchestration.text_tables import text_table

    print(text_table(summary_of_parts(increments, chosen.records // PARTITIONS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
