"""What is costly to make and only read: made once a test run, by the first process that asks, and used by all.

Owns the run's folder, named by $REPLAY_TEST_RUN, which the first process makes and deletes at its end. Rule: who asks
while another process makes it waits for the file lock beside it; what was left half made is made again.
"""

import atexit
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

RUN_VARIABLE = "REPLAY_TEST_RUN"
_MADE = "made"


@functools.cache
def run_folder() -> Path:
    """The folder of this test run. Processes that this one starts see it too."""
    if RUN_VARIABLE not in os.environ:
        folder = tempfile.mkdtemp(prefix="replay-tests-")
        os.environ[RUN_VARIABLE] = folder
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(os.environ[RUN_VARIABLE])


def once_a_run(name: str, make: Callable[[Path], None]) -> Path:
    """The folder ``name`` of this run, which ``make`` has filled once. Read only.

    What ``make`` raises comes out of the call that ran it; the next one to ask tries again.
    """
    folder = run_folder() / name
    with _locked(folder.with_name(f"{name}.lock")):
        if not (folder / _MADE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make(folder)
            (folder / _MADE).touch()
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Alone among the processes of this machine. The lock goes with the process that holds it."""
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
