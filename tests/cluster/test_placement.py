"""Workers of a real cluster join, die in the middle of a stage and are decommissioned, and every table is as if one
process had run it all.
"""

import os
import signal
from pathlib import Path

import pytest

from tests.cluster.placed_cluster import (
    DriverProcess,
    by_host,
    executors,
    is_learned,
    is_settled,
    placed_driver,
    planned,
    ran,
    standbys,
    start,
    tables_of_one_process,
    two_warehouses,
    until,
)
from tests.cluster.placed_topology import topology
from tests.cluster.standalone import Cluster, ClusterDaemon, standalone
from tests.planted import tables_of

INCREMENTS, RECORDS = 24, 48
PATIENT = {"spark.locality.wait": "20s", "spark.locality.wait.process": "20s"}
"""A busy owner is waited for, so that each task runs where it is planned."""


@pytest.mark.jvm
@pytest.mark.nightly
def test_workers_join_die_and_are_decommissioned_and_the_tables_are_those_of_one_process(tmp_path):
    (alone, shared), gate = two_warehouses(tmp_path, INCREMENTS, RECORDS), tmp_path / "gate"
    gate.mkdir()
    with standalone(tmp_path / "cluster", workers=0, environment={}, cores_max=3) as cluster:
        workers = {number: start(cluster, number, gate) for number in (1, 2)}
        with placed_driver(cluster, shared, RECORDS, PATIENT) as driver:
            done = scenario(driver, cluster, workers, gate)

    assert tables_of(shared, "p", topology()) == tables_of_one_process(alone, RECORDS, done)


def scenario(driver: DriverProcess, cluster: Cluster, workers: dict[int, ClusterDaemon], gate: Path) -> int:
    """Play it; how many increments that were."""
    for worker in workers.values():
        until(lambda worker=worker: executors(worker) > 0, "starting an executor")
    two_share(driver, cluster)
    a_third_learns_and_takes_over(driver, cluster, start(cluster, 3, gate))
    one_is_killed_in_the_middle_of_a_stage(driver, workers[2], gate)
    return one_is_decommissioned(driver, workers[1])


def two_share(driver: DriverProcess, cluster: Cluster) -> None:
    """Each of two workers runs half of the tasks and keeps standbys of the others."""
    found = driver.increment()
    for _ in range(3):  # the second may come after the first increment, and then learns
        until(lambda found=found: is_learned(cluster, found), "learning")
        found = driver.increment()
    assert is_settled(found, workers=2), found
    assert ran(found) == planned(found)
    until(lambda: is_learned(cluster, found), "learning")


def a_third_learns_and_takes_over(driver: DriverProcess, cluster: Cluster, third: ClusterDaemon) -> None:
    """It runs none of its tasks until it has learned them, and whoever runs them meanwhile has learned them, too."""
    until(lambda: executors(third) > 0, "starting an executor")
    joined = driver.increments(lambda found: len(found["members"]) == 3, 6, "joining")
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


def one_is_killed_in_the_middle_of_a_stage(driver: DriverProcess, victim: ClusterDaemon, gate: Path) -> None:
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


def one_is_decommissioned(driver: DriverProcess, worker: ClusterDaemon) -> int:
    """It runs no task of the next increments."""
    os.kill(worker.process.pid, signal.SIGPWR)
    found = driver.increments(lambda found: set(by_host(found)) == {"127.0.0.3"}, 6, "leaving")[-1]
    assert set(ran(found).values()) == {"127.0.0.3"}
    return int(found["increment"])
