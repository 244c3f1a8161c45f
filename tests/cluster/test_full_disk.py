"""A worker whose disk takes no warm copy of state runs its tasks, and the tables are those of one process."""

import os
from pathlib import Path

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.placement.settings import HIGH_AVAILABILITY, SPARK
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.runs.local_copies import CACHE_VARIABLE
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.cluster.standalone import replay_command, standalone
from tests.cluster.topology import topology
from tests.laws.topologies import PARTITIONS, tape
from tests.planted import plant, tables_of

RECORDS = 200
FULL = """import errno
import os

mkdir = os.mkdir


def full(path, *arguments, **options):
    if os.fspath(path).startswith(os.environ["REPLAY_CACHE"]):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(path))
    mkdir(path, *arguments, **options)


os.mkdir = full
"""
"""What Python runs before all else: from then on the disk of its cache is full."""


@pytest.mark.jvm
@pytest.mark.nightly
@pytest.mark.parametrize("placement", [SPARK, HIGH_AVAILABILITY])
def test_a_worker_whose_disk_is_full_costs_time_and_no_row(tmp_path, placement):
    """It had room for the folder of the cache, and has none for a copy."""
    alone, shared = Warehouse(tmp_path / "alone"), Warehouse(tmp_path / "shared")
    for warehouse in (alone, shared):
        plant(warehouse, "clicks", tape(1, RECORDS), partitions=PARTITIONS)
    for _ in replay(alone, topology(), pipeline="p", runner=LocalRunner(), max_records=RECORDS // 2):
        pass
    cache, site = tmp_path / "cache", tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(FULL)
    cache.mkdir(mode=0o700)

    with standalone(tmp_path / "cluster", workers=0, environment={}, cores_max=1) as cluster:
        path = os.pathsep.join([str(site), cluster.environment["PYTHONPATH"]])
        cluster.start_worker("worker-0", environment={"PYTHONPATH": path, CACHE_VARIABLE: str(cache)})
        place = ["--warehouse", shared.root, "--pipeline", "p", "--placement", placement]
        reference = f"{Path(__file__).with_name('topology.py')}:topology"
        ran = replay_command(cluster, "run", reference, *place, "--max-records", str(RECORDS // 2))
        said = "".join(log.read_text() for log in (cluster.folder / "worker-0").glob("app-*/*/stderr"))

    assert ran.returncode == 0, ran.stderr
    assert tables_of(shared, "p", topology()) == tables_of(alone, "p", topology())
    assert "no warm copy of state of" in said
    assert not [each for each in cache.rglob("*") if each.suffix == ".arrow"]
