"""The built wheel, in a project that has packages called ``jobs`` and ``state`` of its own.

Each side must see its own: through the command, Python, Spark's workers and Dagster.
"""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.source_tree import copy_checkout, files

pytestmark = [pytest.mark.jvm, pytest.mark.sampled]

PROJECT = {
    "jobs/__init__.py": "",
    "jobs/prices.py": "def doubled(price):\n    return price * 2\n",
    "state/__init__.py": "CITIES = ('Rome', 'Oslo')\n",
    "topology.py": """
from jobs.prices import doubled
from kstreams_replay import Consumed, Serde, StreamsBuilder
from state import CITIES


def topology():
    builder = StreamsBuilder()
    orders = builder.stream("orders", Consumed(Serde.string(), Serde.long()))
    known = orders.filter(lambda city, price: city in CITIES)
    known.map_values(lambda city, price: doubled(price), returns=Serde.long()).to("doubled")
    return builder.build()
""",
    "definitions.py": """
from kstreams_replay import replay_definitions
from topology import topology

defs = replay_definitions(topology(), pipeline="p", warehouse="warehouse")
""",
    "replayed.py": """
import jobs
import pyarrow as pa
import state
from kstreams_replay import SparkRunner, Warehouse, land_records, open_spark, replay
from topology import topology

import kstreams_replay.jobs
import kstreams_replay.state

warehouse = Warehouse("warehouse")
records = pa.table({
    "partition": pa.array([0, 0, 0], pa.int32()), "timestamp": [1, 2, 3],
    "key": pa.array([b"Rome", b"Bonn", b"Oslo"]), "value": pa.array([n.to_bytes(8, "big") for n in (1, 2, 3)]),
})
land_records(warehouse, "orders", records)
spark = open_spark("local[1]")
(report,) = replay(warehouse, topology(), pipeline="p", runner=SparkRunner(spark))
spark.stop()
print(report.outputs, jobs.__name__, state.CITIES, kstreams_replay.jobs.__name__)
""",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder of a virtual environment with the wheel, and beside it, by path alone, what the wheel depends on."""
    folder = tmp_path_factory.mktemp("installed")
    copy_checkout(folder / "source", has_links=False)
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(folder / "source")], check=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    install = [*pip, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder


@pytest.fixture
def project(tmp_path):
    for path, text in PROJECT.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def few_records(project: Path) -> dict[str, str]:
    """Nothing is compiled for them in an environment that goes with the tests."""
    return {"REPLAY_CACHE": str(project / "cache"), "REPLAY_KERNELS": "interpreted"}


def run(installed: Path, project: Path, *command: str, exit_code: int = 0) -> str:
    """What a command of the environment prints, run in the project."""
    program, *arguments = command
    done = subprocess.run(
        [str(installed / "venv" / "bin" / program), *arguments],
        cwd=project,
        env=os.environ | {"DAGSTER_DISABLE_TELEMETRY": "yes"} | few_records(project),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == exit_code, done.stdout + done.stderr
    return done.stdout or done.stderr


def test_a_checkout_without_links_gives_a_wheel_of_one_package_with_every_module(installed):
    (wheel,) = installed.glob("*.whl")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    folders = ("expectations/", "jobs/", "orchestration/", "state/")
    modules = {f"kstreams_replay/{path}" for path in files() if path.startswith(folders) and path.endswith(".py")}

    assert {name for name in names if name.endswith(".py")} == {"kstreams_replay/__init__.py", *modules}
    assert {name for name in names if not name.endswith(".py")} == {
        "kstreams_replay/__init__.pyi",
        "kstreams_replay/py.typed",
        "kstreams_replay/expectations/suites/data_docs.css",
        "kstreams_replay/expectations/suites/index.html.j2",
        "kstreams_replay/expectations/suites/page_banner.html.j2",
        "kstreams_replay/expectations/suites/page_head.html.j2",
        "kstreams_replay/jobs/execution/ivysettings.xml",
        "kstreams_replay/jobs/execution/log4j2.xml",
        "kstreams_replay/jobs/judge/Judge.java",
        "kstreams_replay/jobs/judge/KafkaTasks.java",
        "kstreams_replay/jobs/judge/WatchedState.java",
        *(f"kstreams_replay/{path}" for path in files() if path.startswith("orchestration/cli/new_project/")),
        "kstreams_replay/orchestration/quality/report.html.j2",
        "kstreams_replay/state/when-something-is-wrong.md",
    }


CHECKERS = ("build==1.6.1", "twine==7.0.0", "check-wheel-contents==0.6.3")


@pytest.mark.nightly
def test_what_would_be_published_passes_the_checks_of_the_index(tmp_path):
    """Both files have their metadata, the README renders, and the wheel holds nothing that does not belong there."""
    copy_checkout(tmp_path / "source", has_links=False)
    venv.create(tmp_path / "venv", with_pip=True)
    commands = tmp_path / "venv" / "bin"

    def checked(command: str, *arguments: str | Path) -> None:
        subprocess.run([commands / command, *arguments], check=True, cwd=tmp_path)

    checked("pip", "install", "-q", "--disable-pip-version-check", *CHECKERS)
    checked("python", "-m", "build", "-o", "dist", "source")
    (wheel,), (sdist,) = ((tmp_path / "dist").glob(ending) for ending in ("*.whl", "*.tar.gz"))

    checked("twine", "check", "--strict", wheel, sdist)
    checked("check-wheel-contents", wheel)


def test_a_tree_that_lacks_a_package_is_not_built(tmp_path):
    copy_checkout(tmp_path, has_links=False)
    (tmp_path / "jobs" / "__init__.py").unlink()

    built = subprocess.run(
        [sys.executable, "setup.py", "--name"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert built.returncode != 0
    assert "expected a whole checkout, got one without jobs/__init__.py" in built.stderr


def test_what_is_installed_says_where_the_benchmarks_are(installed, project):
    said = run(installed, project, "replay", "bench", exit_code=2)

    assert "replay: bench: expected a checkout, which has the benchmarks, got an installed package" in said


def test_an_installed_command_explains_an_error_from_the_page_in_the_wheel(installed, project):
    assert "An argument or a setting is wrong" in run(installed, project, "replay", "errors", "ConfigError")


def test_the_command_loads_a_topology_that_has_a_jobs_package_of_its_own(installed, project):
    said = run(installed, project, "replay", "describe", "topology.py:topology")

    assert "(topics: [orders])" in said


@pytest.fixture
def replayed(installed, project):
    """What the replay on Spark prints."""
    return run(installed, project, "python", "replayed.py")


def test_a_replay_on_spark_runs_functions_of_the_users_own_packages(replayed):
    assert replayed.splitlines()[-1] == "{'doubled': 2} jobs ('Rome', 'Oslo') kstreams_replay.jobs"


def test_dagster_validates_definitions_beside_the_users_own_packages(installed, project):
    run(installed, project, "python", "-m", "dagster", "definitions", "validate", "-m", "definitions")
