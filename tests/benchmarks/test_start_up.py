"""What a first result loads: columns, and nothing that only a replay, a compiler or a browser of assets needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kstreams_replay.benchmarks.first_results import run_python
from kstreams_replay.benchmarks.start_up import child, topology
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Serde
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

ROOT = Path(__file__).parents[2]
HEAVY = {"numba", "pyspark", "deltalake", "dagster", "great_expectations"}

LOADED = """
import json, sys
from kstreams_replay.orchestration.cli.main import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted(name for name in sys.modules if "." not in name)]))
"""


@pytest.mark.slow
def test_the_test_driver_comes_without_a_compiler_spark_delta_and_dagster():
    loaded = set(child("driver", REPLAY_KERNELS="auto")["loaded"])

    assert loaded.isdisjoint(HEAVY)


@pytest.mark.slow
def test_numba_switched_off_by_its_own_variable_gives_the_same():
    loaded = set(child("driver", NUMBA_DISABLE_JIT="1", REPLAY_KERNELS="compiled")["loaded"])

    assert "numba" not in loaded


def test_what_is_measured_runs_in_the_checkout_and_says_why_it_failed():
    assert run_python(["-c", "import examples.flights, os; print(os.getcwd())"]).strip() == str(ROOT)
    with pytest.raises(RuntimeError, match=r"python -c raise SystemExit\('no rows'\): exit code 1\nno rows"):
        run_python(["-c", "raise SystemExit('no rows')"])


def plant_clicks(warehouse: Warehouse) -> None:
    """2,000 records of kstreams_replay.benchmarks.start_up's topology."""
    values = [Serde.long().encode(Serde.long().from_python([n]))[0].as_py() for n in range(2_000)]
    plant(
        warehouse, "clicks", [LandedRecord(0, b"ann", value, 1_000 * n) for n, value in enumerate(values)], partitions=1
    )


def loaded_by(*arguments: str) -> tuple[int, set[str]]:
    """Exit code of a command in a process of its own, and the packages that it has imported."""
    said = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT), "REPLAY_KERNELS": "auto"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    code, names = json.loads(said.stdout.splitlines()[-1])
    return code, set(names)


def test_the_list_of_commands_comes_without_anything_that_computes():
    code, loaded = loaded_by("--help")

    assert code == 0
    assert loaded & (HEAVY | {"numpy", "polars", "pyarrow", "rich"}) == set()


@pytest.mark.slow
def test_a_local_run_of_few_records_comes_without_a_compiler_spark_and_dagster(warehouse):
    plant_clicks(warehouse)

    place = ("--warehouse", warehouse.root, "--pipeline", "p")
    code, loaded = loaded_by("run", "kstreams_replay.benchmarks.start_up:topology", "--local", *place)

    assert code == 0
    assert loaded & HEAVY == {"deltalake"}


@pytest.mark.slow
def test_showing_rows_comes_without_a_compiler_spark_and_dagster(warehouse):
    plant_clicks(warehouse)
    list(replay(warehouse, topology(), pipeline="p", runner=LocalRunner()))

    code, loaded = loaded_by("show", "totals", "--warehouse", warehouse.root, "--pipeline", "p")

    assert code == 0
    assert loaded & HEAVY == {"deltalake"}
