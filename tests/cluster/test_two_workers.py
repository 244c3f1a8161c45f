"""A replay on a cluster of two workers: the same tables as in one process, made by both."""

from pathlib import Path

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.runs.local_copies import CACHE_VARIABLE
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.cluster.standalone import replay_command, standalone
from tests.cluster.topology import PROBE, topology
from tests.laws.topologies import PARTITIONS, tape
from tests.planted import plant, tables_of

RECORDS = 200


@pytest.mark.jvm
@pytest.mark.nightly
def test_two_workers_share_the_tasks_of_every_stage_and_leave_the_tables_of_one_process(tmp_path):
    alone, shared = Warehouse(tmp_path / "alone"), Warehouse(tmp_path / "shared")
    for warehouse in (alone, shared):
        plant(warehouse, "clicks", tape(1, RECORDS), partitions=PARTITIONS)
    for _ in replay(alone, topology(), pipeline="p", runner=LocalRunner(), max_records=RECORDS // 2):
        pass
    probe = tmp_path / "probe"
    probe.mkdir()

    own = {PROBE: str(probe), CACHE_VARIABLE: str(tmp_path / "cache")}
    with standalone(tmp_path / "cluster", workers=2, environment=own) as cluster:
        place = ["--warehouse", shared.root, "--pipeline", "p"]
        reference = f"{Path(__file__).with_name('topology.py')}:topology"
        ran = replay_command(cluster, "run", reference, *place, "--max-records", str(RECORDS // 2))

    assert ran.returncode == 0, ran.stderr
    assert tables_of(shared, "p", topology()) == tables_of(alone, "p", topology())
    assert {trace.name for trace in probe.iterdir()} == {
        "first-worker-0", "first-worker-1", "second-worker-0", "second-worker-1",
    }  # fmt: skip
