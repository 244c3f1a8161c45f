"""A new project: its test passes, its pipeline runs, Dagster loads it, and nothing that is there is written over."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from kstreams_replay import __version__
from tests.source_tree import ROOT

LAND = ["land", "clicks", "--files", "in", "--timestamp", "ms", "--key", "user"]


@pytest.fixture
def project(command, tmp_path, monkeypatch) -> Path:
    """The current folder, as `replay init shop` makes it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REPLAY_WAREHOUSE", raising=False)
    assert command("init", "shop")[0] == 0
    monkeypatch.chdir("shop")
    monkeypatch.syspath_prepend(str(tmp_path / "shop"))
    monkeypatch.delitem(sys.modules, "topology", raising=False)
    yield tmp_path / "shop"
    sys.modules.pop("topology", None)


def test_the_project_is_tested_run_shown_and_checked_by_the_commands_of_its_page(project, command):
    tests = runpy.run_path("test_topology.py")
    for name in (each for each in tests if each.startswith("test_")):
        tests[name]()

    assert command(*LAND)[0] == 0
    assert command("run")[0] == 0
    code, out, _ = command("show", "click_sessions", "--json")
    assert code == 0
    assert [(row["key"], row["value"]) for row in json.loads(out)["rows"]] == [
        ("ann", {"pages": 2, "last_page": "cart"}),
    ]  # fmt: skip
    assert command("check", "--engine", "plain")[0] == 0
    assert sorted(each.name for each in project.iterdir() if each.name != "__pycache__") == [
        ".github", ".gitignore", "README.md", "definitions.py", "in", "replay.toml", "requirements.txt",
        "test_topology.py", "topology.py", "warehouse",
    ]  # fmt: skip


def test_dagster_lands_and_replays_the_same(project, command):
    """After the commands: the files are known, so nothing is new."""
    command(*LAND)
    command("run")

    defs = runpy.run_path("definitions.py")["defs"]
    dg.Definitions.validate_loadable(defs)
    with dg.DagsterInstance.ephemeral() as instance:
        result = defs.resolve_job_def("shop_replay").execute_in_process(instance=instance)

    assert result.success
    assert json.loads(command("pipelines", "--json")[1])["pipelines"][0]["increment"] == 1


def test_its_page_and_its_ci_run_these_commands(project):
    page = (project / "README.md").read_text()
    steps = yaml.safe_load((project / ".github" / "workflows" / "test.yml").read_text())["jobs"]["test"]["steps"]
    run = [step["run"] for step in steps if "run" in step]

    assert run == [
        "pip install -r requirements.txt", "python -m pytest", f"replay {' '.join(LAND)}", "replay run",
        "replay check --engine plain",
    ]  # fmt: skip
    assert all(line in page for line in run)
    assert (project / "requirements.txt").read_text().startswith(f"kafka-streams-replay[dagster]=={__version__}\n")
    assert all("@" not in text.replace("actions/checkout@v", "").replace("actions/setup-python@v", "")
               for text in (path.read_text() for path in project.rglob("*") if path.is_file() and "py" not in path.name)
               )  # fmt: skip


@pytest.mark.nightly
def test_its_test_passes_under_pytest(project):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )  # fmt: skip

    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("full", "init full: expected a new or an empty folder, got one with files; choose another name"),
        ("file", "init file: expected a new or an empty folder, got one with files; choose another name"),
        ("landed", "pipeline: expected a name that is not a folder of the warehouse, got landed"),
        ("a shop", "pipeline: expected letters, digits, '.', '_' and '-', at most 249, got 'a shop'"),
    ],
)
def test_what_cannot_be_a_project_is_refused_and_nothing_is_written(command, tmp_path, monkeypatch, name, want):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "topology.py").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))

    code, out, err = command("init", name)

    assert (code, out) == (2, "")
    assert err.startswith(f"replay: {want}")
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "full" / "topology.py").read_text() == "mine"


def test_an_empty_folder_becomes_a_project(command, tmp_path):
    (tmp_path / "web").mkdir()

    assert command("init", tmp_path / "web")[0] == 0
    assert 'pipeline = "web"' in (tmp_path / "web" / "replay.toml").read_text()
