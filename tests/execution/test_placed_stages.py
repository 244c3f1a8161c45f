"""Stages whose tasks are placed, on workers that are played (benchmarks/placement/played_workers.py)."""

import errno
import os
from pathlib import Path

import pytest

from kstreams_replay.benchmarks.placement.played_workers import PlayedRunner, PlayedWorkers
from kstreams_replay.jobs.execution.placement_hint import hint_path, read_hint
from kstreams_replay.jobs.execution.spark_members import Executor
from kstreams_replay.jobs.execution.spark_runner import _cache_here
from kstreams_replay.jobs.execution.state_learner import member_id
from kstreams_replay.jobs.execution.task_description import TaskDescription, TaskReport
from kstreams_replay.jobs.execution.task_run import LocalRunner, run_task
from kstreams_replay.jobs.placement.settings import HIGH_AVAILABILITY, STICKY, PlacementSettings
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.runs.local_copies import copies_in
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.execution.test_state_learner import topology
from tests.planted import LandedRecord, plant, tables_of

PARTITIONS, RECORDS = 4, 8


@pytest.fixture
def cluster(tmp_path):
    played = PlayedWorkers(tmp_path / "caches")
    played.start(1)
    return played


@pytest.fixture
def warehouse(tmp_path):
    return planted(tmp_path / "warehouse")


def planted(folder: Path) -> Warehouse:
    found = Warehouse(folder)
    clicks = [LandedRecord(n % PARTITIONS, b"key %d" % (n % 12), b"x", n) for n in range(RECORDS * 12)]
    plant(found, "clicks", clicks, partitions=PARTITIONS)
    return found


def settings(placement: str = HIGH_AVAILABILITY, **chosen: int) -> PlacementSettings:
    return PlacementSettings(placement, **{"acceptable_recovery_lag_bytes": 0, "max_warmup_replicas": 8, **chosen})


def increment(warehouse: Warehouse, runner: PlayedRunner) -> dict[str, str]:
    """Host of every task of one more increment."""
    assert list(replay(warehouse, topology(), pipeline="p", runner=runner, max_records=RECORDS, increments=1))
    return dict(runner.ran)


def as_one_process(tmp_path: Path, warehouse: Warehouse) -> None:
    alone = planted(tmp_path / "alone")
    whole = replay(alone, topology(), pipeline="p", runner=LocalRunner(), max_records=RECORDS)
    for report in whole:
        if report.increment == read_hint(warehouse.pipeline("p"))["increment"]:
            break
    assert tables_of(warehouse, "p", topology()) == tables_of(alone, "p", topology())


@pytest.mark.slow
def test_a_worker_that_joins_learns_its_tasks_first_and_then_takes_them_over(tmp_path, cluster, warehouse):
    runner = PlayedRunner(cluster, settings())
    first = increment(warehouse, runner)
    cluster.start(2)

    learning = increment(warehouse, runner)
    nothing_learned = increment(warehouse, runner)
    cluster.learn()
    taken_over = increment(warehouse, runner)

    assert set(first.values()) == {"host-1"}
    assert learning == nothing_learned == first
    assert sorted(taken_over.values()) == ["host-1"] * 2 + ["host-2"] * 2
    as_one_process(tmp_path, warehouse)


@pytest.mark.slow
def test_a_worker_that_dies_in_a_stage_leaves_its_tasks_to_their_standbys(tmp_path, cluster, warehouse):
    cluster.start(2)
    cluster.start(3)
    runner = PlayedRunner(cluster, settings(num_standby_replicas=1))
    for _ in range(3):
        before = increment(warehouse, runner)
        cluster.learn()
    standby = read_hint(warehouse.pipeline("p"))["group"]["standby"]
    hosts = {member_id(cluster.cache(executor)): executor.host for executor in cluster.there}
    cluster.lost = {"2"}

    died = increment(warehouse, runner)

    of_the_dead = [task for task, host in before.items() if host == "host-2"]
    assert of_the_dead
    for task in of_the_dead:
        assert died[task] in [hosts[member] for member, tasks in standby.items() if task in tasks]
    as_one_process(tmp_path, warehouse)


@pytest.mark.slow
def test_a_sticky_group_keeps_tasks_where_they_were_and_looks_at_no_state(tmp_path, cluster, warehouse):
    cluster.start(2)
    runner = PlayedRunner(cluster, settings(STICKY))
    first = increment(warehouse, runner)

    assert increment(warehouse, runner) == first
    cluster.start(3)
    joined = increment(warehouse, runner)
    assert "host-3" in joined.values()
    as_one_process(tmp_path, warehouse)


def test_a_new_run_finds_its_workers_again_by_their_caches_whatever_executors_are_called(cluster, warehouse):
    cluster.start(2)
    before = increment(warehouse, PlayedRunner(cluster, settings()))
    cluster.there = [Executor("17", "host-2", 1), Executor("18", "host-1", 1)]

    assert increment(warehouse, PlayedRunner(cluster, settings())) == before


def test_two_executors_that_share_a_cache_are_one_member_with_the_cores_of_both(cluster, warehouse):
    cluster.there = [Executor("1", "host-1", 1), Executor("2", "host-1", 2), Executor("3", "host-3", 1)]

    increment(warehouse, PlayedRunner(cluster, settings()))

    members = read_hint(warehouse.pipeline("p"))["members"]
    assert sorted((said["hosts"], said["cores"]) for said in members.values()) == [(["host-1"], 3), (["host-3"], 1)]


@pytest.mark.slow
def test_a_lost_hint_and_lost_caches_change_no_table(tmp_path, cluster, warehouse):
    runner = PlayedRunner(cluster, settings(num_standby_replicas=1))
    cluster.start(2)
    increment(warehouse, runner)
    Path(hint_path(warehouse.pipeline("p"))).unlink()
    for name in copies_in(cluster.cache(cluster.there[0])):
        (Path(cluster.cache(cluster.there[0])) / name / "seal.json").unlink()

    increment(warehouse, PlayedRunner(cluster, settings(num_standby_replicas=1)))

    as_one_process(tmp_path, warehouse)


def fill(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """No folder is made below ``folder`` from now on, itself included, since its disk is full."""
    mkdir = os.mkdir

    def full(path, *arguments, **options):
        if Path(path).is_relative_to(folder):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        mkdir(path, *arguments, **options)

    monkeypatch.setattr(os, "mkdir", full)


def run_as_on_spark(topology: Topology, task: TaskDescription, cache: str | None) -> TaskReport:
    return run_task(topology, task, _cache_here(cache))


@pytest.mark.slow
def test_a_worker_whose_disk_is_full_from_the_start_is_no_member(tmp_path, cluster, warehouse, monkeypatch):
    cluster.there.append(Executor("2", "host-2", 1))
    fill(monkeypatch, cluster.cache(cluster.there[1]))
    runner = PlayedRunner(cluster, settings(num_standby_replicas=1), run_as_on_spark)

    for _ in range(2):
        increment(warehouse, runner)

    members = read_hint(warehouse.pipeline("p"))["members"]
    assert [said["hosts"] for said in members.values()] == [["host-1"]]
    as_one_process(tmp_path, warehouse)


@pytest.mark.slow
def test_a_worker_whose_disk_becomes_full_leaves_its_tasks_to_one_that_learns_them(
    tmp_path, cluster, warehouse, monkeypatch
):
    cluster.start(2)
    cache = cluster.cache(cluster.there[1])
    runner = PlayedRunner(cluster, settings(num_standby_replicas=1))
    increment(warehouse, runner)
    before = copies_in(cache)
    fill(monkeypatch, cache)
    first = increment(warehouse, runner)
    cluster.learn()
    second = increment(warehouse, runner)

    assert "host-2" in first.values()
    assert set(second.values()) == {"host-1"}  # which could learn what the other has no room for
    assert set(copies_in(cache)) <= set(before)
    as_one_process(tmp_path, warehouse)
