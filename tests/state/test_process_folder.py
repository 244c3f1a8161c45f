"""What a process leaves in the machine's temporary folder when it is killed goes with the next one."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kstreams_replay.state import process_folder

WORK = (
    "import sys\n"
    "from kstreams_replay.state.process_folder import process_folder\n"
    "open(process_folder() + '/left', 'w').close()\n"
    "print(process_folder(), flush=True)\n"
    "sys.stdin.read()\n"
)


@pytest.fixture
def start(tmp_path):
    """Starts a process with a folder below ``tmp_path``; the process, and its folder."""
    started = []

    def begin() -> tuple[subprocess.Popen, Path]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, "-c", WORK],
            stdin=pipe,
            stdout=pipe,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        started.append(process)
        folder = Path(process.stdout.readline().strip())
        an_hour_ago = time.time() - 3_600
        os.utime(folder, (an_hour_ago, an_hour_ago))
        return process, folder

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_the_folder_of_a_killed_process_goes_with_the_next_and_that_of_a_living_one_stays(start, tmp_path):
    killed, left = start()
    _, other = start()
    killed.kill()
    killed.wait()
    assert left.parent == tmp_path
    assert (left / "left").exists()

    _, new = start()

    assert sorted(tmp_path.iterdir()) == sorted([other, new])
    assert (other / "left").exists()


def test_a_folder_goes_with_a_process_that_ends(start, tmp_path):
    process, folder = start()
    assert folder.stat().st_mode & 0o777 == 0o700

    process.communicate()

    assert process.returncode == 0
    assert not folder.exists()


def test_what_is_new_or_not_of_this_project_or_a_link_is_left_alone(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    new, strange, without = (tmp_path / name for name in ("replay-process-new", "replay-x", "replay-process-without"))
    for folder in (new, strange, without, elsewhere):
        folder.mkdir()
    for folder in (new, strange, elsewhere):
        (folder / "lock").touch()
    (tmp_path / "replay-process-link").symlink_to(elsewhere)
    for folder in (strange, without, elsewhere):
        os.utime(folder, (0, 0))
    os.utime(tmp_path / "replay-process-link", (0, 0), follow_symlinks=False)

    process_folder._delete_left(str(tmp_path))

    assert len([*tmp_path.iterdir()]) == 5
    assert (elsewhere / "lock").exists()


def test_a_child_has_a_folder_of_its_own():
    mine = process_folder.process_folder()
    assert process_folder.process_folder() == mine
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, process_folder.process_folder().encode())
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(read, 1_000).decode() != mine
    assert Path(mine).is_dir()
