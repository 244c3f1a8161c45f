"""The base installation does what it is for without any package of an extra; what needs one, names it.

Also: ranges of pyproject.toml take what CI ran, which is what is installed here.
"""

import re
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import version
from pathlib import Path

import pytest

from kstreams_replay.state.errors import MachineError
from kstreams_replay.state.extras import EXTRAS, how_to_install
from kstreams_replay.state.failures import failure_of
from tests.installed.light_imports import named, normal
from tests.source_tree import ROOT, copy_checkout, text_of

PROGRAM = Path(__file__).with_name("light_imports.py")
PROJECT = tomllib.loads(text_of("pyproject.toml"))["project"]
EXTRA = PROJECT["optional-dependencies"]
CONSTRAINTS = dict(line.split("==") for line in text_of(".ci/constraints.txt").splitlines() if "==" in line)

WALK = """
import sys
from kstreams_replay import Consumed, Serde, StreamsBuilder, TopologyTestDriver, assert_outputs
from kstreams_replay.orchestration.cli.main import main

assert {"pyspark", "dagster", "great_expectations", "confluent_kafka", "pyiceberg", "yaml", "jinja2"} <= hidden, hidden
tests = {}
assert main(["init", "shop"]) == 0
import os, runpy
os.chdir("shop")
sys.path.insert(0, "")
for name, test in runpy.run_path("test_topology.py").items():
    if name.startswith("test_"):
        test()
for command in (
    ["land", "clicks", "--files", "in", "--timestamp", "ms", "--key", "user"], ["run"], ["show", "click_sessions"],
    ["books"], ["pipelines"], ["check", "--engine", "plain"], ["explain", "--record", "clicks:0:0"],
    ["export", "click_sessions", "--out", "s.csv"], ["doctor"], ["describe", "topology.py:topology"], ["fsck"],
    ["sql", "SELECT * FROM click_sessions"], ["inspect"], ["verify", "--increments", "1"],
):
    assert main(command) == 0, command
for command, extra in (
    (["run", "--master", "local[1]"], "spark"), (["check"], "expectations"),
    (["report", "--out", "q.html"], "report"), (["metrics"], "report"),
    (["land", "orders", "--iceberg", "lake.a.b"], "iceberg"),
):
    assert main(command) == 1, command
    print(extra, file=sys.stderr)
everything = {}
exec("from kstreams_replay import *", everything)
assert {"StreamsBuilder", "Serde", "TopologyTestDriver", "fold"} <= set(everything)
assert not {"replay_definitions", "open_spark"} & set(everything)
for name, extra in (("replay_definitions", "dagster"), ("open_spark", "spark"), ("KafkaResource", "dagster")):
    try:
        getattr(__import__("kstreams_replay"), name)
    except ModuleNotFoundError as error:
        assert str(error).endswith(f"pip install 'kafka-streams-replay[{extra}]'"), error
    else:
        raise AssertionError(name)
"""


@pytest.mark.every_run
def test_the_base_tests_lands_runs_and_checks_and_what_it_lacks_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, PROGRAM, WALK], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "REPLAY_KERNELS": "interpreted", "REPLAY_CACHE": str(tmp_path / "cache")},
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stderr.splitlines()
    for extra in ("spark", "expectations", "report", "iceberg"):
        before = said[said.index(extra) - 1]
        assert f"pip install 'kafka-streams-replay[{extra}]' [replay errors MachineError]" in before


TESTING = """
import re

assert {"numba", "llvmlite", "deltalake", "obstore", "arro3", "click", "rich"} <= hidden, hidden
face = {}
exec("from kstreams_replay import *", face)
assert "StreamsBuilder" in face and "TopologyTestDriver" in face and "land_files" not in face, sorted(face)
for page in pages:
    names = {"__name__": "a_page"}
    for block in re.findall(r"^```python$(.*?)^```", open(page).read(), re.M | re.S):
        if "replay_definitions" not in block:
            exec(block.replace("from topology import topology", ""), names)
driver = names["TopologyTestDriver"](names["topology"])
driver.pipe_values("lines", ["a b"] * 7_000)
assert driver.read_outputs("counts")[-1].value == 7_000
"""


def test_a_topology_is_tested_with_the_few_packages_that_the_page_names():
    readme, page = ROOT / "README.md", ROOT / "docs" / "testing-a-topology.md"
    (packages,) = re.findall(r"^pip install .*constraints\.txt\" (.*) pytest$", page.read_text(), re.M)
    done = subprocess.run(
        [sys.executable, PROGRAM, f"pages = {[str(readme), str(page)]}\n{TESTING}", *packages.split()],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "REPLAY_KERNELS": "interpreted"},
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", EXTRAS)
def test_a_missing_package_of_an_extra_is_no_bug(module):
    error = ModuleNotFoundError(f"No module named {module!r}", name=module)

    found = failure_of(error, "this command")

    assert isinstance(found, MachineError)
    assert found.next_step == how_to_install(module) == f"pip install 'kafka-streams-replay[{EXTRAS[module]}]'"
    assert failure_of(ModuleNotFoundError("No module named 'mine'", name="mine"), "this command") is None


def test_imports_of_others_are_left_alone():
    code = "import kstreams_replay\ntry:\n import yaml\nexcept ModuleNotFoundError as error:\n print(error)"

    done = subprocess.run([sys.executable, PROGRAM, code], capture_output=True, text=True, check=True)

    assert done.stdout == "No module named 'yaml'\n"


def test_every_extra_that_an_error_names_is_there_and_all_has_them():
    assert set(EXTRAS.values()) <= EXTRA.keys()
    (everything,) = EXTRA["all"]
    assert set(EXTRAS.values()) | {"kafka"} == set(re.findall(r"[\w-]+", everything.partition("[")[2]))


def bounds(requirement: str) -> list[tuple[str, str]]:
    """("<", "2"), … of a requirement."""
    return re.findall(r"([<>=!]=?)([\w.]+)", requirement.partition(";")[0])


def number(text: str) -> tuple[int, ...]:
    """2.1.0 as numbers that compare; 2.1 is 2.1.0, and .post1 is left out."""
    parts = [int(part) for part in re.findall(r"\d+", text.partition(".post")[0])]
    return (*parts, *[0] * (4 - len(parts)))


REQUIREMENTS = [*PROJECT["dependencies"], *(each for extra in EXTRA.values() for each in extra)]
OTHERS = [each for each in REQUIREMENTS if not each.startswith("kafka-streams-replay[")]


@pytest.mark.parametrize("requirement", OTHERS)
def test_what_ci_ran_is_installed_and_is_in_the_range(requirement):
    (name,) = named([requirement])
    ran = CONSTRAINTS[name]

    assert version(name) == ran
    for sign, bound in bounds(requirement):
        got, want = number(ran), number(bound)
        assert {">=": got >= want, "<": got < want, "==": got == want, "!=": got != want}[sign], (sign, bound)


def test_the_base_has_an_upper_bound_for_each_and_no_exact_version():
    signs = {named_one: {sign for sign, _ in bounds(each)}
             for each in PROJECT["dependencies"] for named_one in named([each])}  # fmt: skip

    assert set(map(frozenset, signs.values())) == {frozenset({">=", "<"})}
    assert signs.keys().isdisjoint({normal(name) for name in ("pyspark", "dagster", "great_expectations")})


@pytest.mark.nightly
def test_a_fresh_environment_of_the_base_is_small_and_runs_a_project(tmp_path):
    """Installed from the packages' registry, with what CI ran."""
    copy_checkout(tmp_path / "source", has_links=False)
    venv.create(tmp_path / "venv", with_pip=True)
    python, replay = (tmp_path / "venv" / "bin" / name for name in ("python", "replay"))
    pip = [python, "-m", "pip", "-q", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "-c", ROOT / ".ci" / "constraints.txt", tmp_path / "source", "pytest"], check=True)
    quick = {"PATH": f"{python.parent}:/usr/bin:/bin", "REPLAY_KERNELS": "interpreted", "HOME": str(tmp_path)}

    def run(*command: object, folder: Path) -> None:
        done = subprocess.run(command, cwd=folder, env=quick, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    run(replay, "init", "shop", folder=tmp_path)
    run(python, "-m", "pytest", folder=tmp_path / "shop")
    land = ("land", "clicks", "--files", "in", "--timestamp", "ms", "--key", "user")
    for command in (land, ("run",), ("show", "click_sessions"), ("check", "--engine", "plain")):
        run(replay, *command, folder=tmp_path / "shop")
    size = sum(path.stat().st_size for path in (tmp_path / "venv").rglob("*") if path.is_file())
    assert size < 900 << 20
