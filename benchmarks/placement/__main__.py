"""What an increment costs when workers come and go.

``python -m kstreams_replay.benchmarks.placement [--keys 1000000] [--only A;B] [--json]``

Three workers replay 30 increments of 10,000 records over the state of 1,000,000 keys in 8 tasks; at increment 10 a
fourth joins, at 20 one is killed in the middle of a stage. Rule: workers are played (``played_workers.py``) and storage
is slow (``slow_storage.py``): a task takes its CPU seconds and what its reads would take, an increment as long as its
busiest worker. So nothing depends on what else the machine does, and Spark's own seconds (some 0.1 an increment for
asking and answering workers) are not in it.
"""

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...jobs.execution.task_description import TaskDescription, TaskReport
from ...jobs.execution.task_run import LocalRunner, run_task
from ...jobs.placement.settings import HIGH_AVAILABILITY, SPARK, STICKY, PlacementSettings
from ...jobs.replay.pipeline_run import replay
from ...jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, Topology
from ...state.records.murmur2 import murmur2_partitions
from ...state.tables.warehouse import Warehouse
from ..landed_data import LandedColumns, land_rows
from .played_workers import PlayedRunner, PlayedWorkers
from .slow_storage import StorageReads, slow_storage

TASKS, WORKERS, INCREMENTS, RECORDS = 8, 3, 30, 10_000
JOINS_AT, DIES_AT = 10, 20
MEMBERS = ("a", "b", "d", "c")
"""Ids of the workers, the one that joins last: it comes third, where Kafka's assignor alone would give another worker
four tasks until all is learned. So every run takes the same way.
"""
WARM_UPS = 3
"""Increments before the first that counts, which make every cache warm."""
CONFIGURATIONS = {
    "spark": PlacementSettings(SPARK),
    "sticky": PlacementSettings(STICKY),
    "high_availability": PlacementSettings(HIGH_AVAILABILITY, acceptable_recovery_lag_bytes=0),
    "high_availability, 1 standby": PlacementSettings(
        HIGH_AVAILABILITY, num_standby_replicas=1, acceptable_recovery_lag_bytes=0
    ),
}
"""Nothing is an acceptable lag: the state of few keys would else be one, and be taken over cold."""


def topology() -> Topology:
    """How often each key came."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.long()))
    clicks.group_by_key().count(Materialized.as_("counts")).to_stream().to("counts")
    return builder.build()


@dataclass
class MeasuredIncrement:
    """``seconds``: of its busiest worker; ``unmoved``, ``moved``: of the longest task that stayed and that did not, 0
    where there is none. ``state_bytes``: read from the warehouse while the increment waited.
    """

    number: int
    seconds: float
    unmoved: float
    moved: float
    moves: int
    state_bytes: int


@dataclass
class _Timed:
    """Runs tasks through another runner's places, and counts what each takes."""

    reads: StorageReads
    seconds: dict[str, float] = field(default_factory=dict)

    def run(self, topology: Topology, description: TaskDescription, cache: str | None) -> TaskReport:
        began, delayed = time.process_time(), self.reads.seconds
        report = run_task(topology, description, cache)
        self.seconds[description.id] = time.process_time() - began + self.reads.seconds - delayed
        return report


class AnywhereRunner:
    """As Spark does without preferences: every worker has as many tasks as another, and which is chance."""

    def __init__(self, workers: PlayedWorkers, timed: _Timed) -> None:
        self.workers, self.ran, self._timed, self._random = workers, dict[str, str](), timed, random.Random(1)

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        """See ``Runner``."""
        there = list(self.workers.there)
        self._random.shuffle(there)
        if self.workers.lost:
            self.workers.there = there = [one for one in there if one.id not in self.workers.lost]
        reports = []
        for number, description in enumerate(descriptions):
            executor = there[number % len(there)]
            self.ran[description.id] = executor.host
            reports.append(self._timed.run(topology, description, self.workers.cache(executor)))
        return reports


def land(warehouse: Warehouse, keys: int) -> None:
    """Every key once, then the records of the increments, of any key alike."""
    generator = np.random.default_rng(3)
    later = generator.integers(0, keys, (WARM_UPS + INCREMENTS) * RECORDS)
    numbers = np.concatenate([np.arange(keys), later])
    names = pc.binary_join_element_wise("user-", pa.array(np.arange(keys)).cast(pa.string()), "").cast(pa.binary())
    partition_of = murmur2_partitions(names, TASKS)

    def partitions() -> Iterable[LandedColumns]:
        for partition in range(TASKS):
            at = np.flatnonzero(partition_of[numbers] == partition)
            yield LandedColumns(names.take(pa.array(numbers[at])), at.astype(np.int64), np.ones(len(at), np.int64))

    land_rows(warehouse, "clicks", partitions(), rows_a_file=50_000)


def built(folder: Path, keys: int) -> Warehouse:
    """A warehouse whose first increments have made the state of all keys."""
    warehouse = Warehouse(folder)
    land(warehouse, keys)
    list(replay(warehouse, topology(), pipeline="p", runner=LocalRunner(), max_records=keys, increments=1))
    return warehouse


def measured(built_at: Path, folder: Path, settings: PlacementSettings) -> list[MeasuredIncrement]:
    """The increments of one configuration, on a copy of the warehouse."""
    shutil.copytree(built_at, folder / "warehouse")
    workers, done = PlayedWorkers(folder / "caches"), list[MeasuredIncrement]()
    for number in range(1, WORKERS + 1):
        workers.start(number, MEMBERS[number - 1])
    with slow_storage() as reads:
        timed = _Timed(reads)
        runner: Any = AnywhereRunner(workers, timed)
        if settings.placement != SPARK:
            runner = PlayedRunner(workers, settings, timed.run)
        for number in range(1 - WARM_UPS, INCREMENTS + 1):
            if number == JOINS_AT:
                workers.start(WORKERS + 1, MEMBERS[WORKERS])
            workers.lost = {"2"} if number == DIES_AT else set()
            before, bytes_before = dict(runner.ran), reads.state_bytes
            one = replay(
                Warehouse(folder / "warehouse"), topology(), pipeline="p", runner=runner, max_records=RECORDS,
                increments=1,
            )  # fmt: skip
            assert list(one), "there are records for every increment"
            if number > 0:
                done.append(_increment(number, runner.ran, before, timed.seconds, reads.state_bytes - bytes_before))
            workers.learn()
    return done


def _increment(
    number: int, ran: dict[str, str], before: dict[str, str], seconds: dict[str, float], state_bytes: int
) -> MeasuredIncrement:
    moved = {task for task, host in ran.items() if before.get(task) != host}
    busy: dict[str, float] = defaultdict(float)
    for task, host in ran.items():
        busy[host] += seconds[task]
    return MeasuredIncrement(
        number,
        max(busy.values()),
        max((seconds[task] for task in ran if task not in moved), default=0.0),
        max((seconds[task] for task in moved), default=0.0),
        len(moved),
        state_bytes,
    )


def summary(increments: list[MeasuredIncrement]) -> dict[str, Any]:
    """The numbers that are to be compared."""
    quiet = [one for one in increments if one.number not in (JOINS_AT, DIES_AT) and one.moves == 0] or increments
    median = statistics.median(one.seconds for one in quiet)
    handed_over = [one for one in increments if JOINS_AT <= one.number < DIES_AT and one.moves]
    unmoved = statistics.median(one.unmoved for one in quiet)
    return {
        "median_s": round(median, 3),
        "join_unmoved_to_median": round(increments[JOINS_AT - 1].unmoved / unmoved, 2) if unmoved else None,
        "handed_over_to_median": round(max((one.seconds for one in handed_over), default=0.0) / median, 2),
        "kill_to_median": round(increments[DIES_AT - 1].seconds / median, 2),
        "after_kill_to_median": round(increments[DIES_AT].seconds / median, 2),
        "moves": sum(one.moves for one in increments),
        "state_bytes": sum(one.state_bytes for one in increments),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kstreams_replay.benchmarks.placement")
    parser.add_argument("--keys", type=int, default=1_000_000, metavar="N", help="default 1,000,000")
    parser.add_argument("--only", metavar="A;B", help=f"of {'; '.join(CONFIGURATIONS)}")
    parser.add_argument("--json", action="store_true", help="every increment, as JSON")
    chosen = parser.parse_args(arguments)
    names = chosen.only.split(";") if chosen.only else list(CONFIGURATIONS)
    results: dict[str, list[MeasuredIncrement]] = {}
    with tempfile.TemporaryDirectory(prefix="replay-placement-") as folder:
        built(Path(folder) / "built", chosen.keys)
        for number, name in enumerate(names):
            results[name] = measured(Path(folder) / "built", Path(folder) / str(number), CONFIGURATIONS[name.strip()])
            shutil.rmtree(Path(folder) / str(number))
    if chosen.json:
        print(json.dumps({
            name: summary(each) | {"increments": [asdict(one) for one in each]} for name, each in results.items()
        }))  # fmt: skip
        return 0
    from ...orchestration.text_tables import text_table

    print(text_table([{"placement": name, **summary(each)} for name, each in results.items()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
