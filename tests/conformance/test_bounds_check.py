"""Compiled kernels never reach beyond their arrays: all goldens, and times at both ends, with every index checked.

Without the check, a kernel that does so reads or writes memory that is not its own, and may still give right rows.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PLAY = """
import numpy as np
from kstreams_replay.state.compilation.kernel_compilation import inner_kernel, kernel
from tests.conformance.__main__ import report
from tests.conformance.test_goldens import SCENARIOS
from tests.operators.times_at_both_ends import all_played


@inner_kernel
def at(column, place):
    return column[place]


@kernel
def beyond(column):
    return at(column, len(column))


try:
    beyond(np.zeros(3, np.int64))
except IndexError:
    failures = [f"{scenario.name}\\n{why}" for scenario in SCENARIOS if (why := report(scenario)) is not None]
    all_played(range(2))
    print("\\n".join(failures) or f"{len(SCENARIOS)} passed")
else:
    print("no index is checked")
"""


@pytest.mark.nightly
def test_no_kernel_reaches_beyond_its_arrays(tmp_path):
    """
    In one process, with a cache of its own, since what is compiled is other code: 3 CPU minutes, nearly all of them
    for compiling.
    """
    own = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "REPLAY_KERNELS": "compiled"}
    environment = os.environ | own | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PLAY]
    said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert (said.stdout, said.stderr) == ("437 passed\n", "")
