"""A driver whose tasks are placed, workers with hosts and caches of their own, and what is known of the group."""

import contextlib
import fcntl
import json
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.runs.local_copies import CACHE_VARIABLE
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.cluster.placed_topology import GATE, WORKER, topology
from tests.cluster.standalone import Cluster, ClusterDaemon
from tests.planted import LandedRecord, plant, tables_of

PARTITIONS = 8
LIMIT_S = 300.0

Owners = dict[str, str]
Hint = dict[str, Any]


def clicks(increments: int, records: int) -> list[LandedRecord]:
    """Of every increment the same number in each partition; times rise, a little out of order."""
    return [
        LandedRecord(n % PARTITIONS, b"key %d" % (n % PARTITIONS + PARTITIONS * (n % 7)), b"x", n - n % 5)
        for n in range(increments * records)
    ]


def two_warehouses(folder: Path, increments: int, records: int) -> tuple[Warehouse, Warehouse]:
    """One for a single process and one for the cluster, both with the same ``clicks``."""
    found = Warehouse(str(folder / "alone")), Warehouse(str(folder / "shared"))
    for warehouse in found:
        plant(warehouse, "clicks", clicks(increments, records), partitions=PARTITIONS)
    return found


def tables_of_one_process(warehouse: Warehouse, records: int, increments: int) -> dict[str, Any]:
    """Every table after so many increments of so many records that this process has replayed."""
    reports = replay(
        warehouse, topology(), pipeline="p", runner=LocalRunner(), max_records=records, increments=increments
    )
    assert len(list(reports)) == increments
    return tables_of(warehouse, "p", topology())


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, f"{what} took longer than {LIMIT_S:.0f} s"
        time.sleep(0.05)


@dataclass
class DriverProcess:
    """A process that replays an increment at every request (placed_driver.py)."""

    process: subprocess.Popen[str]

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> Hint:
        """What is known of the group after the increment."""
        assert self.process.stdout is not None
        answered, _, _ = select.select([self.process.stdout], [], [], LIMIT_S)
        assert answered, f"an increment took longer than {LIMIT_S:.0f} s"
        line = self.process.stdout.readline()
        assert line, "the driver died"
        found: Hint = json.loads(line)
        assert found["increments"] == 1, "there were too few records"
        return found

    def increment(self) -> Hint:
        self.begin()
        return self.end()

    def increments(self, is_done: Callable[[Hint], bool], most: int, what: str) -> list[Hint]:
        """As many as it takes, at most so many."""
        found = [self.increment()]
        while not is_done(found[-1]):
            assert len(found) < most, f"{what} took more than {most} increments: {found[-1]}"
            found.append(self.increment())
        return found


@contextlib.contextmanager
def placed_driver(
    cluster: Cluster, warehouse: Warehouse, records: int, settings: Mapping[str, str]
) -> Iterator[DriverProcess]:
    """``records``: an increment; ``settings``: of Spark, on top of ours."""
    command = [sys.executable, "-m", "tests.cluster.placed_driver", cluster.master, warehouse.root, str(records)]
    with subprocess.Popen(
        [*command, json.dumps(dict(settings))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=dict(cluster.environment),
    ) as process:  # fmt: skip
        try:
            yield DriverProcess(process)
        finally:
            process.kill()


def start(cluster: Cluster, number: int, gate: Path) -> ClusterDaemon:
    """Worker ``number``, on 127.0.0.<number>."""
    name = f"worker-{number}"
    own = {CACHE_VARIABLE: str(cluster.folder / f"cache-{number}"), WORKER: name, GATE: str(gate)}
    return cluster.start_worker(name, host=f"127.0.0.{number}", environment=own)


def executors(worker: ClusterDaemon) -> int:
    """How many executors of the worker the driver has known so far."""
    logs = worker.log.parent.glob("app-*/*/stderr")
    return sum("Successfully registered with driver" in log.read_text(errors="replace") for log in logs)


def by_host(found: Hint) -> dict[str, str]:
    """Member of every host."""
    return {host: member for member, said in found["members"].items() for host in said["hosts"]}


def ran(found: Hint) -> Owners:
    """Host on which every task ran; the member's name where it is not there any more."""
    hosts = {member: host for host, member in by_host(found).items()}
    return {task: hosts.get(said["owner"], said["owner"]) for task, said in found["group"]["tasks"].items()}


def planned(found: Hint) -> Owners:
    hosts = {member: host for host, member in by_host(found).items()}
    return {task: hosts[member] for member, tasks in found["active"].items() for task in tasks}


def standbys(found: Hint) -> dict[str, set[str]]:
    """Hosts that keep a standby of each task, or learn it."""
    hosts: dict[str, set[str]] = {}
    for host, member in by_host(found).items():
        for task in found["group"]["standby"].get(member, ()):
            hosts.setdefault(task, set()).add(host)
    return hosts


def is_settled(found: Hint, *, workers: int) -> bool:
    counts = [len(tasks) for tasks in found["active"].values()]
    return len(counts) == workers and max(counts) - min(counts) <= 1 and not found["moves"]


def is_learned(cluster: Cluster, found: Hint) -> bool:
    """Whether every worker has whole copies of all that it is to keep warm."""
    return all(
        (cluster.folder / f"cache-{host[-1]}" / name / "seal.json").exists()
        for task, hosts in standbys(found).items()
        for host in hosts
        for name in found["group"]["tasks"][task]["files"]
    )


def has_learner(cluster: Cluster, number: int) -> bool:
    """Whether a process of worker ``number`` copies state."""
    for path in (cluster.folder / f"cache-{number}" / "learning").glob("*.lock"):
        with path.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False
