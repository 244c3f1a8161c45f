"""Trouble of the machine, as the command says it: one sentence, its class, and no bug where there is none."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kstreams_replay.jobs.execution import task_run
from tests.orchestration.cli.test_main import SHOP, place, run

__all__ = ["run"]

LAND = ("--timestamp", "ms", "--key", "user", "--local")


def test_a_warehouse_that_is_a_file_and_one_of_an_unknown_scheme_are_named(run, tmp_path, clicks):
    (tmp_path / "file").touch()

    code, _, err = run("land", "clicks", "--warehouse", tmp_path / "file", "--files", clicks, *LAND)
    assert (code, len(err.splitlines())) == (1, 1)
    assert f"{tmp_path}/file" in err
    assert "expected a folder, got Not a directory" in err

    code, _, err = run("land", "clicks", "--warehouse", "nope://b/w", "--files", clicks, *LAND)
    assert (code, len(err.splitlines())) == (2, 1)
    assert "expected a folder, or a URI of s3://" in err
    assert "got nope://" in err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_takes_no_more_ends_a_run_with_one_sentence(run, replayed, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number), "w/shop/ledger")

    monkeypatch.setattr("kstreams_replay.orchestration.cli.commands.describe.done_row", refuse)

    code, _, err = run("books", *place(replayed))

    assert code == 1
    assert err.startswith("replay: w/shop/ledger: expected ")
    assert len(err.splitlines()) == 1
    assert "bug" not in err


def test_a_topologys_file_that_cannot_be_read_is_named(run, replayed, tmp_path):
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00")

    code, _, err = run("describe", tmp_path / "bytes.py")

    assert code == 2
    assert "bytes.py" in err
    assert "bug" not in err


@pytest.mark.slow
def test_a_project_with_packages_jobs_and_state_of_its_own_runs(tmp_path, clicks):
    for name in ("jobs", "state", "orchestration"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the package of the user')")
    text = Path(SHOP.rpartition(":")[0]).read_text()
    (tmp_path / "own_shop.py").write_text(text)
    code = "from kstreams_replay.orchestration.cli.main import main; raise SystemExit(main())"

    said = subprocess.run(
        [sys.executable, "-c", code, "describe", "own_shop.py:topology"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip

    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("Topologies:")


def test_a_disk_that_is_full_while_a_task_runs_is_no_bug_either(run, tmp_path, clicks, monkeypatch):
    where = ["--warehouse", tmp_path / "w"]
    run("land", "clicks", *where, "--files", clicks, *LAND)

    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "w/shop/outputs/pages/x.parquet")

    with monkeypatch.context() as patched:
        patched.setattr(task_run.TaskRun, "run", refuse)
        code, _, err = run("run", SHOP, *where, "--pipeline", "shop", "--local")

    assert code == 1
    assert err.splitlines()[-1] == (
        "replay: w/shop/outputs/pages/x.parquet: expected room on the disk, got No space left on device; free some, "
        "then give the same command again; what is committed stays [replay errors StorageError]"
    )
    assert run("run", SHOP, *where, "--pipeline", "shop", "--local")[0] == 0
