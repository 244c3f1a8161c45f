"""The kernels are Python that Numba compiles: without Numba they must say the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PLAY = """
import sys
from numba import config
from tests.conformance.__main__ import report
from tests.conformance.test_goldens import SCENARIOS

assert config.DISABLE_JIT
failures = [f"{scenario.name}\\n{why}" for scenario in SCENARIOS if (why := report(scenario)) is not None]
print("\\n".join(failures) or f"{len(SCENARIOS)} passed")
"""


@pytest.mark.slow
def test_every_golden_passes_without_compiled_kernels():
    """
    Warnings are off: unsigned hashes wrap, which NumPy remarks upon and Numba does not.
    """
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-c", PLAY]
    said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert (said.stdout, said.stderr) == ("437 passed\n", "")
