"""What is costly to make and only read: made once a test run, by the first process that asks, and used by all.

Owns the run's folder, named by $REPLAY_TEST_RUN, which the first process makes and deletes at its end. Rule: who asks
while another process makes it waits for the file lock beside it; what was left half made is made again.
"""

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from kstreams_replay.state.compilation.numba_cache import alone

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
    with alone(str(run_folder()), f"{name}.lock"):
        if not (folder / _MADE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make(folder)
            (folder / _MADE).touch()
    return folder
