"""The command `dg` on a project outside of this repository, which knows the component by its entry point alone."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.dagster.documented_project import DEFINITIONS, PROJECT
from tests.source_tree import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.slow]


def installed(folder: Path) -> Path:
    """The entry points that an installation of this checkout has, in a folder of the module path."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    place = folder / f"{told['name'].replace('-', '_')}-{told['version']}.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {told['name']}\nVersion: {told['version']}\n")
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())])
        for group, entries in told["entry-points"].items()
    ]
    (place / "entry_points.txt").write_text("\n".join(groups) + "\n")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name, text in {"pyproject.toml": PROJECT, "shop/definitions.py": DEFINITIONS, "shop/__init__.py": ""}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "shop" / "defs").mkdir()
    (folder / "home").mkdir()
    return folder


def run(project: Path, *command: str) -> str:
    """What a command says that is run in the project, as in its own environment."""
    own = project.parent / "installed"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    project.mkdir(exist_ok=True)
    done = subprocess.run(
        [shutil.which(command[0], path=path), *command[1:]],
        cwd=project,
        env=os.environ
        | {
            "PYTHONPATH": f"{own if own.exists() else installed(own)}{os.pathsep}{ROOT}",
            "DAGSTER_HOME": str(project / "home"),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "PATH": path,
            "COLUMNS": "200",
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_dg_lists_the_component(project):
    assert "kstreams_replay.ReplayPipelineComponent" in run(project, "dg", "list", "components")


def test_what_dg_scaffolds_is_checked_listed_and_launched(project):
    run(project, "dg", "scaffold", "defs", "kstreams_replay.ReplayPipelineComponent", "clicks")

    assert "All definitions loaded successfully" in run(project, "dg", "check", "defs")
    assert "clicks/outputs/pages-by-hour" in run(project, "dg", "list", "defs")
    assert "RUN_SUCCESS" in run(project, "dg", "launch", "--job", "clicks_replay")
    shown = run(project, "replay", "show", "pages-by-hour", "--warehouse", "warehouse", "--pipeline", "clicks")
    assert "home" in shown
