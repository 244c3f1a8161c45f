"""Workers of a real cluster join, die in the middle of a stage and are decommissioned, and every table is as if one
process had run it all.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.runs.local_copies import CACHE_VARIABLE
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.cluster.placed_topology import GATE, WORKER, topology
from tests.cluster.standalone import Cluster, Daemon, standalone
from tests.planted import Landed, plant, tables_of

PARTITIONS, INCREMENTS, RECORDS = 8, 24, 48
LIMIT_S = 120.0

Owners = dict[str, str]


def clicks() -> list[Landed]:
    """Of every increment the same number in each partition; times rise, a little out of order."""
    count = INCREMENTS * RECORDS
    return [
        Landed(n % PARTITIONS, b"key %d" % (n % PARTITIONS + PARTITIONS * (n % 7)), b"x", n - n % 5)
        for n in range(count)
    ]


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, f"{what} took longer than {LIMIT_S:.0f} s"
        time.sleep(0.05)


@dataclass
class Driver:
    """``names``: member by worker, as far as they have been seen."""

    process: subprocess.Popen[str]

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> dict[str, Any]:
        """What is known of the group after the increment."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the driver died"
        found: dict[str, Any] = json.loads(line)
        assert found["increments"] == 1, "there were too few records"
        return found

    def increment(self) -> dict[str, Any]:
        self.begin()
        return self.end()


def by_host(found: dict[str, Any]) -> dict[str, str]:
    """Member of every host."""
    return {host: member for member, said in found["members"].items() for host in said["hosts"]}


def ran(found: dict[str, Any]) -> Owners:
    """Host on which every task ran."""
    hosts = {member: host for host, member in by_host(found).items()}
    return {task: hosts[said["owner"]] for task, said in found["group"]["tasks"].items()}


def planned(found: dict[str, Any]) -> Owners:
    hosts = {member: host for host, member in by_host(found).items()}
    return {task: hosts[member] for member, tasks in found["active"].items() for task in tasks}


def start(cluster: Cluster, number: int, gate: Path) -> Daemon:
    name = f"worker-{number}"
    own = {CACHE_VARIABLE: str(cluster.folder / f"cache-{number}"), WORKER: name, GATE: str(gate)}
    return cluster.start_worker(name, host=f"127.0.0.{number}", environment=own)


@pytest.mark.jvm
@pytest.mark.nightly
def test_workers_join_die_and_are_decommissioned_and_the_tables_are_those_of_one_process(tmp_path):
    alone, shared, gate = Warehouse(tmp_path / "alone"), Warehouse(tmp_path / "shared"), tmp_path / "gate"
    gate.mkdir()
    for warehouse in (alone, shared):
        plant(warehouse, "clicks", clicks(), partitions=PARTITIONS)
    with standalone(tmp_path / "cluster", workers=0, environment={}, cores_max=3) as cluster:
        workers = {number: start(cluster, number, gate) for number in (1, 2)}
        command = [sys.executable, "-m", "tests.cluster.placed_driver", cluster.master, shared.root, str(RECORDS)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(cluster.environment)
        ) as process:
            try:
                done = scenario(Driver(process), cluster, workers, gate)
            finally:
                process.kill()

    whole = replay(alone, topology(), pipeline="p", runner=LocalRunner(), max_records=RECORDS, increments=done)
    assert len(list(whole)) == done
    assert tables_of(shared, "p", topology()) == tables_of(alone, "p", topology())


def scenario(driver: Driver, cluster: Cluster, workers: dict[int, Daemon], gate: Path) -> int:
    """Play it; how many increments that were."""
    for worker in workers.values():
        until(lambda worker=worker: has_executor(worker), "starting an executor")
    two_share(driver, cluster)
    a_third_learns_and_takes_over(driver, cluster, start(cluster, 3, gate))
    one_is_killed_in_the_middle_of_a_stage(driver, workers[2], gate)
    return one_is_decommissioned(driver, workers[1])


def increments(driver: Driver, is_done: Callable[[dict[str, Any]], bool], most: int, what: str) -> list[dict[str, Any]]:
    """As many as it takes, at most so many."""
    found = [driver.increment()]
    while not is_done(found[-1]):
        assert len(found) < most, f"{what} took more than {most} increments: {found[-1]}"
        found.append(driver.increment())
    return found


def two_share(driver: Driver, cluster: Cluster) -> None:
    """Each of two workers runs half of the tasks and keeps standbys of the others."""
    found = driver.increment()
    for _ in range(3):  # the second may come after the first increment, and then learns
        until(lambda found=found: is_learned(cluster, found), "learning")
        found = driver.increment()
    assert is_settled(found, workers=2), found
    assert ran(found) == planned(found)
    until(lambda: is_learned(cluster, found), "learning")


def is_settled(found: dict[str, Any], *, workers: int) -> bool:
    counts = [len(tasks) for tasks in found["active"].values()]
    return len(counts) == workers and max(counts) - min(counts) <= 1 and not found["moves"]


def standbys(found: dict[str, Any]) -> dict[str, set[str]]:
    """Hosts that keep a standby of each task, or learn it."""
    hosts: dict[str, set[str]] = {}
    for host, member in by_host(found).items():
        for task in found["group"]["standby"].get(member, ()):
            hosts.setdefault(task, set()).add(host)
    return hosts


def is_learned(cluster: Cluster, found: dict[str, Any]) -> bool:
    """Whether every worker has whole copies of all that it is to keep warm."""
    return all(
        (cluster.folder / f"cache-{host[-1]}" / name / "seal.json").exists()
        for task, hosts in standbys(found).items()
        for host in hosts
        for name in found["group"]["tasks"][task]["files"]
    )


def has_executor(worker: Daemon) -> bool:
    """Whether the driver knows an executor of the worker."""
    logs = worker.log.parent.glob("app-*/*/stderr")
    return any("Successfully registered with driver" in log.read_text(errors="replace") for log in logs)


def a_third_learns_and_takes_over(driver: Driver, cluster: Cluster, third: Daemon) -> None:
    """It runs none of its tasks until it has learned them, and whoever runs them meanwhile has learned them, too."""
    until(lambda: has_executor(third), "starting an executor")
    joined = increments(driver, lambda found: len(found["members"]) == 3, 6, "joining")
    learning = joined[-1]
    for found in joined:
        assert ran(found) == planned(found)
    assert "127.0.0.3" not in ran(learning).values()
    assert {move["task"] for move in learning["moves"] if move["is_learning"]}
    until(lambda: is_learned(cluster, learning), "learning")
    taken_over = driver.increment()
    assert is_settled(taken_over, workers=3), taken_over
    moved = {task for task, host in ran(taken_over).items() if ran(learning)[task] != host}
    assert moved
    assert all(ran(taken_over)[task] in standbys(learning)[task] for task in moved)
    assert ran(taken_over) == planned(taken_over)
    until(lambda: is_learned(cluster, taken_over), "learning")


def one_is_killed_in_the_middle_of_a_stage(driver: Driver, victim: Daemon, gate: Path) -> None:
    """Its tasks run again on their standbys, in the same increment; the others run where they always did."""
    (gate / "close").write_text("worker-2")
    driver.begin()
    until((gate / "reached").exists, "the stage")
    victim.kill()
    (gate / "close").unlink()
    found = driver.end()
    for task, host in planned(found).items():
        allowed = standbys(found)[task] if host == "127.0.0.2" else {host}
        assert ran(found)[task] in allowed, f"{task} of {host} ran on {ran(found)[task]}"
    assert "127.0.0.2" in planned(found).values()


def one_is_decommissioned(driver: Driver, worker: Daemon) -> int:
    """It runs no task of the next increments."""
    os.kill(worker.process.pid, signal.SIGPWR)
    found = increments(driver, lambda found: set(by_host(found)) == {"127.0.0.3"}, 6, "leaving")[-1]
    assert set(ran(found).values()) == {"127.0.0.3"}
    return int(found["increment"])
