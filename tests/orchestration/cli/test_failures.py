"""Trouble of the machine, in one sentence with place, expected, got and next step; only a bug is called one."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JNetworkError

from kstreams_replay.orchestration.cli.failures import failure_of
from kstreams_replay.state.errors import MachineError, StorageError
from tests.orchestration.cli.test_main import SHOP, place, run

__all__ = ["run"]

LAND = ("--timestamp", "ms", "--key", "user", "--local")


def raised(call) -> Exception:
    with pytest.raises(Exception) as info:  # noqa: PT011 - which one is what is asked
        call()
    return info.value


@pytest.mark.parametrize(
    ("number", "expected", "next_step"),
    [
        (errno.ENOSPC, "room on the disk", "free some, then give the same command again; what is committed stays"),
        (errno.EROFS, "a disk that can be written", "mount it for writing, or name another place"),
        (errno.EACCES, "leave to read and write", "give this user the rights, or name another place"),
        (errno.ENOENT, "a file or folder that is there", "check the path"),
        (errno.EIO, "a disk that works", "look into the machine's log for this disk"),
    ],
)
def test_what_the_system_refuses_names_the_file_and_what_to_do(number, expected, next_step):
    python = failure_of(OSError(number, os.strerror(number), "w/outputs/x.parquet"))
    rust = failure_of(OSError(f'Generic LocalFileSystem error: Os {{ code: {number}, kind: Other, message: "no" }}'))

    for found, where in ((python, "w/outputs/x.parquet"), (rust, "a file of the warehouse")):
        assert isinstance(found, StorageError)
        assert (found.place, found.expected, found.got) == (where, expected, os.strerror(number))
        assert found.next_step.startswith(next_step)


def test_a_full_disk_is_found_below_the_error_that_it_caused():
    outer = RuntimeError("the thread ended")
    outer.__cause__ = OSError(errno.ENOSPC, "No space left on device", "w/x")

    found = failure_of(outer)

    assert found is not None
    assert found.got == "No space left on device"


def test_a_file_that_is_none_is_no_bug(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"hello, this is no file of that kind")

    found = failure_of(raised(lambda: pq.read_table(tmp_path / "x.parquet")))

    assert isinstance(found, StorageError)
    assert found.expected == "a whole file"


def test_deltas_own_errors_are_no_bugs(tmp_path):
    (tmp_path / "file").touch()

    not_a_folder = failure_of(raised(lambda: DeltaTable(str(tmp_path / "file"))))
    scheme = failure_of(raised(lambda: DeltaTable("nope://b/t")))

    assert isinstance(not_a_folder, StorageError)
    assert isinstance(scheme, StorageError)
    assert str(tmp_path / "file") in str(not_a_folder)


def test_a_jvm_that_is_gone_or_has_no_memory_left_says_so():
    gone = failure_of(Py4JNetworkError("Answer from Java side is empty"))
    full = failure_of(Py4JNetworkError("java.lang.OutOfMemoryError: Java heap space"))
    disk = failure_of(Py4JNetworkError("java.io.IOException: No space left on device"))

    assert isinstance(gone, MachineError)
    assert "no answer from it" in str(gone)
    assert "REPLAY_SPARK_DRIVER_MEMORY" in str(full)
    assert isinstance(disk, StorageError)


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), KeyError("x"), pa.ArrowInvalid("Column 3 has 2 rows")])
def test_what_nobody_outside_can_mend_is_a_bug(error):
    assert failure_of(error) is None


# --- the command ---------------------------------------------------------------------------------------------


def test_a_warehouse_that_is_a_file_and_one_of_an_unknown_scheme_are_named(run, tmp_path, clicks):
    (tmp_path / "file").touch()

    code, _, err = run("land", "clicks", "--warehouse", tmp_path / "file", "--files", clicks, *LAND)
    assert (code, len(err.splitlines())) == (1, 1)
    assert f"{tmp_path}/file" in err
    assert "expected a folder, got Not a directory" in err

    code, _, err = run("land", "clicks", "--warehouse", "nope://b/w", "--files", clicks, *LAND)
    assert (code, len(err.splitlines())) == (1, 1)
    assert "expected a path, or a URI of a known scheme, got Unknown scheme: nope" in err


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
