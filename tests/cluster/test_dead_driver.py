"""A driver is killed while its tasks run on workers: they end with it, and the next run leaves what one process leaves.

The topology holds up the tasks of one worker (placed_topology.py), so that the driver dies when others have written
their files.
"""

from pathlib import Path

import pytest

from kstreams_replay.jobs.branches.vacuum import UNCOMMITTED, vacuum
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.cluster.placed_cluster import start, tables_of_one_process, two_warehouses, until
from tests.cluster.placed_topology import topology
from tests.cluster.standalone import replay_beside, replay_command, standalone
from tests.planted import tables_of

INCREMENTS, RECORDS = 3, 48
REFERENCE = "tests.cluster.placed_topology:topology"


def files_of(warehouse: Warehouse) -> set[str]:
    """Files that tasks wrote, by their names, which no two of them share."""
    return {path.name for path in Path(warehouse.pipeline("p").root).rglob("partition=*/*.parquet")}


@pytest.mark.jvm
@pytest.mark.nightly
def test_the_run_after_a_driver_that_was_killed_leaves_the_tables_of_one_process(tmp_path):
    (alone, shared), gate = two_warehouses(tmp_path, INCREMENTS, RECORDS), tmp_path / "gate"
    tables_of_one_process(shared, RECORDS, 1)
    before = files_of(shared)
    gate.mkdir()
    (gate / "close").write_text("worker-2")
    command = ["run", REFERENCE, "--warehouse", shared.root, "--pipeline", "p", "--max-records", str(RECORDS)]
    with standalone(tmp_path / "cluster", workers=0, environment={}, cores_max=2) as cluster:
        workers = [start(cluster, number, gate) for number in (1, 2)]
        with replay_beside(cluster, *command) as driver:
            until(lambda: (gate / "reached").exists() and files_of(shared) > before, "the stage")
            driver.kill()
        for worker in workers:
            worker.says(r"Executor app-\S+ finished")
        left = files_of(shared)
        (gate / "close").unlink()
        ran = replay_command(cluster, *command)

    assert ran.returncode == 0, ran.stderr
    assert tables_of(shared, "p", topology()) == tables_of_one_process(alone, RECORDS, INCREMENTS)
    waste = vacuum(shared, "p", delete=True).waste
    assert waste
    assert {each.reason for each in waste} == {UNCOMMITTED}
    assert {Path(each.path).name for each in waste} <= left  # so the dead driver's executors wrote nothing afterwards
    assert vacuum(shared, "p").waste == []
