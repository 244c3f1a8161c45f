"""A worker whose Python lacks this project ends the run in a sentence, before the first task."""

import os
from pathlib import Path

import pytest

from kstreams_replay.state.tables.warehouse import Warehouse
from tests.cluster.standalone import replay_command, standalone
from tests.laws.topologies import PARTITIONS, tape
from tests.planted import plant

LACKS = """import sys


class Lacks:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "kstreams_replay":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Lacks())
"""
"""What Python runs before all else: from then on it is one in which the project was never installed."""


@pytest.mark.jvm
@pytest.mark.nightly
def test_a_worker_whose_python_lacks_the_project_is_named_with_the_next_step(tmp_path):
    warehouse = Warehouse(tmp_path / "warehouse")
    plant(warehouse, "clicks", tape(1, 10), partitions=PARTITIONS)
    lacks = tmp_path / "lacks"
    lacks.mkdir()
    (lacks / "sitecustomize.py").write_text(LACKS)

    with standalone(tmp_path / "cluster", workers=0, environment={}, cores_max=1) as cluster:
        path = os.pathsep.join([str(lacks), cluster.environment["PYTHONPATH"]])
        cluster.start_worker("worker-0", environment={"PYTHONPATH": path})
        reference = f"{Path(__file__).with_name('topology.py')}:topology"
        ran = replay_command(cluster, "run", reference, "--warehouse", warehouse.root, "--pipeline", "p")

    assert ran.returncode == 1, ran.stderr
    assert (
        "the worker at 127.0.0.1: expected the Python module kstreams_replay, as the driver has it, got none; "
        "install it there, or set PYSPARK_PYTHON"
    ) in ran.stderr
