"""Workers whose Python has what the project needs, and neither the project nor a topology's modules.

What is missing is named in a sentence. A wheel, a module and a package that travel with the job are enough.
"""

import subprocess
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.orchestration.settings.topology_loading import load_topology
from kstreams_replay.state.runs.local_copies import CACHE_VARIABLE
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.cluster.standalone import Cluster, replay_command, standalone
from tests.planted import LandedRecord, plant, tables_of
from tests.source_tree import ROOT, files

PARTITIONS = 3
APPLICATION = {
    "prices_of_a_shop.py": "def doubled(user, price):\n    return price * 2\n",
    "shop_of_a_test/__init__.py": "",
    "shop_of_a_test/cities.py": "def is_known(user, price):\n    return user != 'user 3'\n",
    "topology.py": """
from kstreams_replay import Consumed, Serde, StreamsBuilder
from prices_of_a_shop import doubled
from shop_of_a_test.cities import is_known

builder = StreamsBuilder()
orders = builder.stream("orders", Consumed(Serde.string(), Serde.long())).filter(is_known)
orders.map_values(doubled, returns=Serde.long()).group_by_key().count(name="counts").to_stream().to("counted")
topology = builder.build()
""",
}
"""Files of a user. Their names are those of no other module of a test run, since a process imports a name once."""


def python_with_dependencies_alone(folder: Path) -> Path:
    """A Python with all packages of this one but the project, whose editable installation is not seen from there."""
    venv.create(folder, symlinks=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin" / "python"


def wheel_as_zip(path: Path) -> Path:
    """The modules of the project, as the built wheel has them (installed/test_wheel.py)."""
    with ZipFile(path, "w") as wheel:
        for name in files():
            if name.startswith(("expectations/", "jobs/", "kstreams_replay/", "orchestration/", "state/")):
                wheel.write(ROOT / name, f"kstreams_replay/{name.removeprefix('kstreams_replay/')}")
    return path


@dataclass(frozen=True)
class Bare:
    """A cluster of bare workers, and a warehouse and an application that it is to run."""

    cluster: Cluster
    warehouse: Warehouse
    folder: Path

    @property
    def reference(self) -> str:
        return f"{self.folder / 'topology.py'}:topology"

    def start(self, workers: int) -> None:
        for number in range(workers):
            own = {"PYTHONPATH": "", CACHE_VARIABLE: str(self.folder / f"cache-{number}")}
            self.cluster.start_worker(f"worker-{number}", environment=own)

    def run(self, settings: str = "") -> subprocess.CompletedProcess[str]:
        """The application, after a user has written ``settings`` into the file of Spark's."""
        with (self.cluster.folder / "conf" / "spark-defaults.conf").open("a") as defaults:
            defaults.write(settings)
        place = ["--warehouse", self.warehouse.root, "--pipeline", "p"]
        return replay_command(self.cluster, "run", self.reference, *place)

    def wheel(self) -> str:
        """Settings with which the project travels."""
        return f"spark.archives {wheel_as_zip(self.folder / 'wheel.zip')}#replay\nspark.executorEnv.PYTHONPATH replay\n"

    def package(self) -> Path:
        """One of the application's two modules, in a package."""
        with ZipFile(self.folder / "shop.zip", "w") as zipped:
            for path in (self.folder / "shop_of_a_test").glob("*.py"):
                zipped.write(path, f"shop_of_a_test/{path.name}")
        return self.folder / "shop.zip"


@pytest.fixture
def bare(tmp_path):
    folder = tmp_path / "application"
    for path, text in APPLICATION.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    warehouse = Warehouse(tmp_path / "warehouse")
    plant_orders(warehouse)
    python = {"PYSPARK_PYTHON": str(python_with_dependencies_alone(tmp_path / "bare"))}
    with standalone(tmp_path / "cluster", workers=0, environment=python, cores_max=3) as cluster:
        yield Bare(cluster, warehouse, folder)


def plant_orders(warehouse: Warehouse) -> None:
    orders = [LandedRecord(n % PARTITIONS, b"user %d" % (n % 7), n.to_bytes(8, "big"), n) for n in range(60)]
    plant(warehouse, "orders", orders, partitions=PARTITIONS)


def lacking(module: str) -> str:
    return f"expected the Python module {module}, as the driver has it, got none; install it there, set PYSPARK_PYTHON"


@pytest.mark.jvm
@pytest.mark.nightly
def test_three_bare_workers_run_a_wheel_a_module_and_a_package_that_travel_with_the_job(tmp_path, bare):
    bare.start(workers=3)
    ran = bare.run(f"{bare.wheel()}spark.submit.pyFiles {bare.folder / 'prices_of_a_shop.py'},{bare.package()}\n")

    assert ran.returncode == 0, ran.stderr
    alone, topology = Warehouse(tmp_path / "alone"), load_topology(bare.reference)
    plant_orders(alone)
    list(replay(alone, topology, pipeline="p", runner=LocalRunner()))
    assert tables_of(bare.warehouse, "p", topology) == tables_of(alone, "p", topology)
    assert tables_of(alone, "p", topology)["outputs/counted"]


@pytest.mark.jvm
@pytest.mark.nightly
def test_a_worker_that_lacks_the_project_or_a_module_of_the_topology_is_named_with_the_next_step(bare):
    bare.start(workers=1)
    without_project = bare.run()
    without_module = bare.run(f"{bare.wheel()}spark.submit.pyFiles {bare.package()}\n")

    assert (without_project.returncode, without_module.returncode) == (1, 1), without_module.stderr
    assert lacking("kstreams_replay") in without_project.stderr
    assert lacking("prices_of_a_shop") in without_module.stderr
