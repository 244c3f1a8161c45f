"""Spark runs two attempts of one task at once, and one whose owner has died a second time: one result counts, and what
the other has written is waste that vacuum knows.
"""

from pathlib import Path

import pytest

from kstreams_replay.jobs.branches.vacuum import UNCOMMITTED, vacuum
from tests.cluster.placed_cluster import (
    DriverProcess,
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
from tests.cluster.two_attempts import end_race, start_race
from tests.planted import tables_of

INCREMENTS, RECORDS = 24, 48
SPECULATIVE = {"spark.speculation": "true", "spark.locality.wait": "600s"}
"""So long is nobody waited for whose standby is there: spark.locality.wait.process is ours."""


@pytest.mark.jvm
@pytest.mark.nightly
def test_of_two_attempts_one_counts_and_the_files_of_the_other_are_waste_that_vacuum_deletes(tmp_path):
    (alone, shared), gate = two_warehouses(tmp_path, INCREMENTS, RECORDS), tmp_path / "gate"
    gate.mkdir()
    with standalone(tmp_path / "cluster", workers=0, environment={}, cores_max=2) as cluster:
        workers = {number: start(cluster, number, gate) for number in (1, 2)}
        with placed_driver(cluster, shared, RECORDS, SPECULATIVE) as driver:
            for worker in workers.values():
                until(lambda worker=worker: executors(worker) > 0, "starting an executor")
            settle(driver, cluster)
            counted, lost = [], []
            for task, winner in (("0_3", 1), ("0_5", 0)):
                written = race(driver, gate, task, winner)
                counted += written[winner]
                lost += written[1 - winner]
            done = kill_one_in_the_middle_of_a_stage(driver, workers[2], gate)

    want = tables_of_one_process(alone, RECORDS, done)
    assert tables_of(shared, "p", topology()) == want
    waste = {f"{each.table}/{Path(each.path).parent.name}/{Path(each.path).name}" for each in vacuum(shared, "p").waste}
    assert set(lost) <= waste
    assert waste.isdisjoint(counted)
    assert {each.reason for each in vacuum(shared, "p", delete=True).waste} == {UNCOMMITTED}
    assert vacuum(shared, "p").waste == []
    assert tables_of(shared, "p", topology()) == want


def settle(driver: DriverProcess, cluster: Cluster) -> None:
    """Each of both workers has all state warm, after however many increments: a worker that does not answer within
    half a second is taken for what it was before.
    """
    found = driver.increment()
    for _ in range(INCREMENTS - 6):
        until(lambda found=found: is_learned(cluster, found), "learning")
        if is_settled(found, workers=2):
            return
        found = driver.increment()
    raise AssertionError(f"the group has not settled: {found}")


def race(driver: DriverProcess, gate: Path, task: str, winner: int) -> dict[int, list[str]]:
    """Files that two attempts of ``task`` in one increment have written, by attempt."""
    start_race(gate, task, winner)
    driver.increment()
    written = end_race(gate)

    assert sorted(written) == [0, 1]
    for files in written.values():
        tables = {path.partition("/partition=")[0] for path in files}
        assert {"outputs/counts", "outputs/windows", "state/counts", "state/windows"} <= tables
    assert set(written[0]).isdisjoint(written[1])
    return written


def kill_one_in_the_middle_of_a_stage(driver: DriverProcess, victim: ClusterDaemon, gate: Path) -> int:
    """Its standby takes its tasks over long before spark.locality.wait has passed; the number of the increment."""
    (gate / "close").write_text("worker-2")
    driver.begin()
    until((gate / "reached").exists, "the stage")
    victim.kill()
    (gate / "close").unlink()
    found = driver.end()  # it has less time than spark.locality.wait

    of_the_dead = [task for task, host in planned(found).items() if host == "127.0.0.2"]
    assert of_the_dead
    for task in of_the_dead:
        assert ran(found)[task] in standbys(found)[task]
    return int(found["increment"])
