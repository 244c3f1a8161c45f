"""Warm copies: right, or made again; never trusted when they are damaged or another's."""

import errno
import io
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from kstreams_replay.state.errors import DamagedFile
from kstreams_replay.state.runs import local_copies
from kstreams_replay.state.runs.local_copies import (
    RunWriter,
    StateFile,
    default_cache,
    forget_others,
    make_copy,
    open_run,
)
from kstreams_replay.state.runs.sorted_runs import SortedRun, every_row, run_of
from kstreams_replay.state.tables.parquet_writer import TaskFile
from tests.state.runs.test_sorted_runs import FORM, hashes, table

PARTS = ("rows.arrow", "hashes", "due_times", "due_rows", "seal.json")
ROWS = [(f"k{n}", n % 7, n) for n in range(200)]


@pytest.fixture
def written(tmp_path) -> StateFile:
    """A state file whose rows are in order of their hash."""
    return write(tmp_path / "table", ROWS)


def write(directory: Path, rows: list[tuple[str, int, int | None]], *, name: str = "00000001-0_0") -> StateFile:
    run = run_of(table(rows, 1), FORM)
    file = TaskFile(str(directory), partition=0, name=name)
    file.write(run.part(0, len(run), FORM.schema))
    done = file.close()
    assert done is not None
    return StateFile(str(directory), done)


def rows(run: SortedRun) -> list[tuple[str, int, int]]:
    found = every_row([run], FORM).to_pylist()
    return sorted((row["key"], row["start"], row["value"]) for row in found)


def copy_of(cache: Path) -> Path:
    (seal,) = cache.rglob("seal.json")
    return seal.parent


def is_made_anew(cache: Path, state_file: StateFile) -> bool:
    """Whether opening makes another copy, whose rows are right in any case."""
    before = (copy_of(cache) / "rows.arrow").stat().st_ctime_ns
    run = open_run(state_file, FORM, str(cache))
    assert rows(run) == sorted(ROWS)
    assert len(run.due(-1, 100)) == len([row for row in ROWS if row[1] % 3 == 0])
    return (copy_of(cache) / "rows.arrow").stat().st_ctime_ns != before


def test_a_copy_is_made_when_missing_and_used_from_then_on(written, tmp_path):
    assert rows(open_run(written, FORM, str(tmp_path / "cache"))) == sorted(ROWS)

    assert not is_made_anew(tmp_path / "cache", written)


def test_without_a_directory_rows_come_from_delta(written):
    assert rows(open_run(written, FORM, None)) == sorted(ROWS)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("place", [0.0, 0.5, 0.99])
def test_a_copy_with_one_changed_byte_is_not_trusted(written, tmp_path, part, place):
    cache = tmp_path / "cache"
    open_run(written, FORM, str(cache))
    file = copy_of(cache) / part
    content = bytearray(file.read_bytes())
    content[int(len(content) * place)] ^= 0x40
    file.write_bytes(content)

    assert is_made_anew(cache, written)


@pytest.mark.parametrize("part", PARTS)
def test_a_copy_that_is_cut_off_or_lacks_a_part_is_not_trusted(written, tmp_path, part):
    cache = tmp_path / "cache"
    open_run(written, FORM, str(cache))
    file = copy_of(cache) / part
    file.write_bytes(file.read_bytes()[:-1])
    assert is_made_anew(cache, written)
    (copy_of(cache) / part).unlink()

    assert rows(open_run(written, FORM, str(cache))) == sorted(ROWS)


def test_damage_that_keeps_size_and_modification_time_is_found(written, tmp_path):
    cache = tmp_path / "cache"
    open_run(written, FORM, str(cache))
    file = copy_of(cache) / "hashes"
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    file.write_bytes(bytes(len(file.read_bytes())))
    os.utime(file, ns=times)

    assert is_made_anew(cache, written)


def test_a_copy_does_not_stand_for_a_file_that_is_gone(written, tmp_path):
    open_run(written, FORM, str(tmp_path / "cache"))
    Path(written.table, written.file.path).unlink()

    with pytest.raises(DamagedFile, match="of increment 1: expected the file as it was committed, got no file"):
        open_run(written, FORM, str(tmp_path / "cache"))


def test_a_copy_of_another_file_in_its_place_is_not_trusted(written, tmp_path):
    cache = tmp_path / "cache"
    open_run(written, FORM, str(cache))
    other = write(tmp_path / "other", [("x", 1, 1)])
    open_run(other, FORM, str(tmp_path / "elsewhere"))
    target = copy_of(cache)
    shutil.rmtree(target)
    shutil.copytree(copy_of(tmp_path / "elsewhere"), target)

    assert is_made_anew(cache, written)


def test_a_copy_of_other_rows_than_the_operator_has_now_is_not_trusted(written, tmp_path):
    cache = tmp_path / "cache"
    open_run(written, FORM, str(cache))
    changed = replace(FORM, name="other", due_ms=None)

    assert len(open_run(written, changed, str(cache)).due(-1, 100)) == 0


def test_a_copy_that_was_moved_whole_is_used(written, tmp_path):
    cache, moved = tmp_path / "cache", tmp_path / "moved"
    open_run(written, FORM, str(cache))
    shutil.copytree(cache, moved)

    assert not is_made_anew(moved, written)


def test_the_copy_that_a_task_writes_beside_its_file_is_that_of_the_file(tmp_path):
    writer = RunWriter(str(tmp_path / "cache"), str(tmp_path / "table"), FORM)
    run = run_of(table(ROWS, 1), FORM)
    writer.write(run.part(0, 50, FORM.schema))
    writer.write(run.part(50, 200, FORM.schema))
    state_file = write(tmp_path / "table", ROWS)
    writer.close(state_file.file)

    assert not is_made_anew(tmp_path / "cache", state_file)


def full(*_args, **_options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullFile(io.RawIOBase):
    """A disk that takes no more, when so many bytes are written."""

    def __init__(self, room: int) -> None:
        self.room = room

    def writable(self) -> bool:
        return True

    def write(self, piece) -> int:
        self.room -= memoryview(piece).nbytes
        return full() if self.room < 0 else memoryview(piece).nbytes


FULL = {
    "at the folder": lambda patched: patched.setattr(Path, "mkdir", full),
    "at the first row": lambda patched: patched.setattr(pa, "OSFile", lambda *_: pa.PythonFile(FullFile(0), "w")),
    "at the last row": lambda patched: patched.setattr(pa, "OSFile", lambda *_: pa.PythonFile(FullFile(4000), "w")),
    "at the seal": lambda patched: patched.setattr(Path, "write_text", full),
}
"""Where the disk of the cache has no room, by where it has none."""


@pytest.mark.parametrize("place", FULL)
def test_a_cache_on_a_full_disk_costs_time_and_no_row(written, tmp_path, monkeypatch, caplog, place):
    cache = tmp_path / "cache"
    with monkeypatch.context() as patched:
        FULL[place](patched)
        got = rows(open_run(written, FORM, str(cache)))
        writer = RunWriter(str(cache), written.table, FORM)
        writer.write(table(ROWS, 1))
        writer.close(written.file)

    assert got == sorted(ROWS)
    assert [path for path in cache.rglob("*") if path.is_file()] == []
    assert len(caplog.messages) == 2
    assert f"no warm copy of state of {written.table} in {cache}" in caplog.text
    assert "No space left on device" in caplog.text
    assert rows(open_run(written, FORM, str(cache))) == sorted(ROWS)
    assert copy_of(cache)


def test_nobody_sees_a_copy_that_was_never_finished(written, tmp_path):
    cache = tmp_path / "cache"
    writer = RunWriter(str(cache), written.table, FORM)
    writer.write(table(ROWS[:10], 1))

    assert rows(open_run(written, FORM, str(cache))) == sorted(ROWS)


def test_what_a_killed_process_left_unfinished_goes_and_what_a_living_one_writes_stays(written, tmp_path):
    cache = tmp_path / "cache"
    writer = RunWriter(str(cache), written.table, FORM)
    child = subprocess.Popen(["true"])
    child.wait()
    (cache / "unfinished" / f"{child.pid}-dead").mkdir()

    forget_others(str(cache), written.table, 0, [])

    (left,) = (cache / "unfinished").iterdir()
    assert left.name.startswith(f"{os.getpid()}-")
    writer.close(None)
    assert list((cache / "unfinished").iterdir()) == []


def test_a_file_in_another_order_is_sorted(tmp_path):
    file = TaskFile(str(tmp_path / "table"), partition=0, name="00000001-0_0")
    file.write(table(ROWS, 1))
    done = file.close()
    assert done is not None

    run = open_run(StateFile(str(tmp_path / "table"), done), FORM, str(tmp_path / "cache"))

    assert (run.hashes[1:] >= run.hashes[:-1]).all()
    assert len(run.find(hashes(["k17"]))) == 1
    assert rows(run) == sorted(ROWS)


def test_a_copy_is_made_piece_by_piece_and_may_be_given_up_after_any(written, tmp_path, monkeypatch):
    monkeypatch.setattr(local_copies, "_READ_ROWS", 64)
    cache, told = str(tmp_path / "cache"), list[int]()

    make_copy(written, FORM, cache, lambda rows: bool(told.append(rows)) or rows < 128)

    assert told == [64, 128]
    assert [path for path in Path(cache).rglob("*") if path.is_file()] == []
    make_copy(written, FORM, cache, lambda rows: bool(told.append(rows)) or True)
    assert told == [64, 128, 64, 128, 192, 200]
    assert not is_made_anew(tmp_path / "cache", written)


def test_a_file_whose_rows_stand_by_rising_hash_is_read_once_for_its_copy(written, tmp_path, monkeypatch):
    opened, open_file = list[str](), local_copies.open_file
    monkeypatch.setattr(
        local_copies, "open_file", lambda table, file: opened.append(file.path) or open_file(table, file)
    )

    open_run(written, FORM, str(tmp_path / "cache"))

    assert opened == [written.file.path]


def test_copies_of_files_that_are_not_asked_for_any_more_go(written, tmp_path):
    cache = str(tmp_path / "cache")
    newer = write(tmp_path / "table", [("x", 1, 1)], name="00000002-0_0")
    for state_file in (written, newer):
        open_run(state_file, FORM, cache)

    forget_others(cache, written.table, 0, [newer.file])

    (left,) = Path(cache).rglob("seal.json")
    assert Path(newer.file.path).stem == left.parent.name


def test_the_directory_is_named_by_the_environment(monkeypatch):
    monkeypatch.setenv("REPLAY_CACHE", "/somewhere")
    assert default_cache() == "/somewhere"
    monkeypatch.delenv("REPLAY_CACHE")
    assert default_cache().endswith(str(os.getuid()))


def test_rows_are_cast_to_what_the_store_has_now(tmp_path):
    file = TaskFile(str(tmp_path / "table"), partition=0, name="00000001-0_0")
    run = run_of(table(ROWS, 1), FORM)
    narrow = run.part(0, len(run), FORM.schema).cast(FORM.schema.set(2, pa.field("value", pa.int32())))
    file.write(narrow)
    done = file.close()
    assert done is not None

    assert rows(open_run(StateFile(str(tmp_path / "table"), done), FORM, None)) == sorted(ROWS)
