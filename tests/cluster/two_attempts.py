"""Two attempts of one task that wait for each other until both have written their files, so their speed does not
matter.

In the folder $GATE the file ``race`` names a task and the attempt whose result is to count. The other one then holds
its own back until ``raced`` is there, or Spark ends it.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from tests.cluster.placed_topology import GATE

Outcomes = Iterator[tuple[int, Any]]
RunTasks = Callable[[Iterable[int]], Outcomes]


def start_race(gate: Path, task: str, winner: int) -> None:
    """In the next increment two attempts of ``task`` will wait for each other."""
    for left in gate.glob("written-*"):
        left.unlink()
    (gate / "raced").unlink(missing_ok=True)
    (gate / "race").write_text(f"{task} {winner}")


def end_race(gate: Path) -> dict[int, list[str]]:
    """What each attempt has written: table and path below it, by attempt."""
    (gate / "race").unlink()
    (gate / "raced").touch()
    return {int(path.name.rpartition("-")[2]): json.loads(path.read_text()) for path in gate.glob("written-*")}


def meeting(worker: Callable[..., RunTasks]) -> Callable[..., RunTasks]:
    """``worker``, whose tasks have written their files when they come here."""

    def with_work(work: bytes, **options: Any) -> RunTasks:
        run_tasks = worker(work, **options)

        def run(numbers: Iterable[int]) -> Outcomes:
            for number, outcome in run_tasks(numbers):
                meet(outcome)
                yield number, outcome

        return run

    return with_work


def meet(outcome: dict[str, Any]) -> None:
    """Wait for the other attempt, and hold back the one that is not to win."""
    gate, running = Path(os.environ.get(GATE, "/nowhere")), TaskContext.get()
    assert running is not None
    if not (gate / "race").exists():
        return
    task, winner = (gate / "race").read_text().split()
    if task != f"{outcome['sub_topology']}_{outcome['partition']}":
        return
    attempt = running.attemptNumber()
    written = [f"{table}/{file['path']}" for table, files in outcome["files"].items() for file in files]
    unfinished = gate / f"unfinished-{attempt}"
    unfinished.write_text(json.dumps(written))
    unfinished.rename(gate / f"written-{attempt}")
    while not all((gate / f"written-{each}").exists() for each in (0, 1)):
        time.sleep(0.02)
    while attempt != int(winner) and not (gate / "raced").exists():
        time.sleep(0.02)
