"""The page "Your pipeline in Dagster": its blocks build a project that loads, runs day by day and is checked."""

import subprocess
import sys

import dagster as dg
import pytest

from kstreams_replay.jobs.history.committed_tables import read_newest
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster.conftest import passed
from tests.dagster.documented_project import FILES, blocks, write
from tests.dagster.test_dg_project import run

EIGHT, DAY = 1767254400000, 86_400_000  # 2026-01-01T08:00:00Z
FINAL = [("cart", EIGHT + 3_600_000, 1), ("cart", EIGHT + DAY, 1), ("home", EIGHT, 2)]


def final_results() -> list[tuple[str, int, int]]:
    rows = read_newest(Warehouse("warehouse"), "pages", "pages-by-hour")
    return sorted((row["key"], row["window_start_ms"], row["value"]) for row in rows.to_pylist())


def test_the_pages_files_are_a_project_that_runs_by_days(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in blocks():
        if name is not None:
            write(tmp_path, name, text)
        elif "dg " not in text:
            subprocess.run(["bash", "-ec", text], check=True)
    definitions = dg.load_from_defs_folder(path_within_project=tmp_path / "shop")

    with dg.DagsterInstance.ephemeral() as instance:
        assert definitions.resolve_job_def("pages_land").execute_in_process(instance=instance).success
        for day in ("2026-01-01", "2026-01-02"):
            result = definitions.resolve_job_def("pages_replay").execute_in_process(
                instance=instance, partition_key=day
            )
            assert result.success

    assert final_results() == FINAL
    assert passed(result)["pages-by-hour: pages_are_known"]
    for module in [name for name in sys.modules if name == "shop" or name.startswith("shop.")]:
        del sys.modules[module]


@pytest.mark.nightly
@pytest.mark.slow
def test_every_block_of_the_page_runs_in_its_order(tmp_path, monkeypatch):
    said = ""
    for name, text in blocks():
        if name is None:
            said = run(tmp_path / "project", "bash", "-ec", text)
        else:
            write(tmp_path / "project", name, text)

    monkeypatch.chdir(tmp_path / "project")
    assert final_results() == FINAL
    assert "All definitions loaded successfully" in said
    assert said.count("RUN_SUCCESS") == 3
    assert set(FILES) == {
        "pyproject.toml", "shop/definitions.py", "shop/defs/checks.py",
        "shop/defs/pages/topology.py", "shop/defs/pages/defs.yaml",
    }  # fmt: skip
