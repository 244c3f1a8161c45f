"""Spark starts executors when tasks wait and ends those that are idle: members come, go and come back by themselves."""

from pathlib import Path

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.cluster.placed_cluster import (
    PARTITIONS,
    DriverProcess,
    Hint,
    by_host,
    clicks,
    executors,
    has_learner,
    is_learned,
    is_settled,
    placed_driver,
    planned,
    ran,
    standbys,
    start,
    until,
)
from tests.cluster.placed_topology import EVERYBODY, topology
from tests.cluster.standalone import Cluster, ClusterDaemon, standalone
from tests.planted import plant, tables_of

INCREMENTS, RECORDS = 60, 48
IDLE_S = 60
ALLOCATED_BY_SPARK = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": f"{IDLE_S}s",
    "spark.executor.cores": "1",
    "spark.locality.wait": "20s",
    "spark.locality.wait.process": "20s",
}
"""A busy owner is waited for, so that each task runs where it is planned."""
HOSTS = {"127.0.0.1": 1, "127.0.0.2": 2}


@pytest.mark.jvm
@pytest.mark.nightly
def test_members_that_spark_allocates_and_takes_away_learn_hand_over_and_come_back(tmp_path):
    alone, shared, gate = Warehouse(tmp_path / "alone"), Warehouse(tmp_path / "shared"), tmp_path / "gate"
    gate.mkdir()
    for warehouse in (alone, shared):
        plant(warehouse, "clicks", clicks(INCREMENTS, RECORDS), partitions=PARTITIONS)
    with standalone(tmp_path / "cluster", workers=0, environment={}, cores_max=2) as cluster:
        workers = {number: start(cluster, number, gate) for number in HOSTS.values()}
        with placed_driver(cluster, shared, RECORDS, ALLOCATED_BY_SPARK) as driver:
            both = a_second_comes_learns_and_takes_over(driver, cluster, workers, gate)
            left = who_is_idle_goes_and_its_standby_runs_its_tasks(driver, cluster, workers, both)
            with_tasks_that_wait(driver, workers, gate, left["executors"] + 1)
            done = who_comes_back_is_the_member_that_it_was(driver, both, left)

    whole = replay(alone, topology(), pipeline="p", runner=LocalRunner(), max_records=RECORDS, increments=done)
    assert len(list(whole)) == done
    assert tables_of(shared, "p", topology()) == tables_of(alone, "p", topology())


def with_tasks_that_wait(driver: DriverProcess, workers: dict[int, ClusterDaemon], gate: Path, started: int) -> None:
    """An increment whose tasks wait until Spark has started so many executors because of them."""
    (gate / "close").write_text(EVERYBODY)
    driver.begin()
    until(lambda: sum(map(executors, workers.values())) >= started, "allocating an executor")
    (gate / "close").unlink()
    driver.end()


def learned_and_settled(driver: DriverProcess, cluster: Cluster, workers: dict[int, ClusterDaemon]) -> Hint:
    """Increments until two members share the tasks and have all state warm."""
    for _ in range(12):
        found, gone = driver.increment(), sum(map(ended_executors, workers.values()))
        until(
            lambda found=found, gone=gone: (
                is_learned(cluster, found) or sum(map(ended_executors, workers.values())) > gone
            ),
            "learning",
        )
        if is_settled(found, workers=2):
            return found
    raise AssertionError(f"two members have not settled: {found}")


def a_second_comes_learns_and_takes_over(
    driver: DriverProcess, cluster: Cluster, workers: dict[int, ClusterDaemon], gate: Path
) -> Hint:
    with_tasks_that_wait(driver, workers, gate, 2)

    both = learned_and_settled(driver, cluster, workers)

    assert ran(both) == planned(both)
    return both


def ended_executors(worker: ClusterDaemon) -> int:
    return worker.log.read_text(errors="replace").count("finished with state")


def who_is_idle_goes_and_its_standby_runs_its_tasks(
    driver: DriverProcess, cluster: Cluster, workers: dict[int, ClusterDaemon], both: Hint
) -> Hint:
    """Nobody asks for anything until Spark has taken an executor away, with its learner."""
    assert all(has_learner(cluster, number) for number in workers)
    before = {number: ended_executors(worker) for number, worker in workers.items()}
    until(lambda: sum(map(ended_executors, workers.values())) > sum(before.values()), "taking an executor away")
    (gone,) = [number for number, worker in workers.items() if ended_executors(worker) > before[number]]
    until(lambda: not has_learner(cluster, gone), "the end of the learner of who has gone")

    started = sum(map(executors, workers.values()))
    left = driver.increment()

    (host,) = by_host(left)
    assert HOSTS[host] != gone
    assert set(ran(left).values()) == {host}
    assert all(host in standbys(both)[task] for task, owner in ran(both).items() if owner != host)
    return left | {"executors": started}


def who_comes_back_is_the_member_that_it_was(driver: DriverProcess, both: Hint, left: Hint) -> int:
    """Because of its cache folder, whatever Spark calls its executor now. The number of the last increment."""
    again = driver.increments(lambda found: len(found["members"]) == 2, 12, "coming back")[-1]

    assert set(left["members"]) < set(again["members"]) == set(both["members"])
    return int(again["increment"])
