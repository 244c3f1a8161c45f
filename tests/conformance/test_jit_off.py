"""The kernels are Python that Numba compiles: as they are they must say the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.test_goldens import SAMPLE

ROOT = Path(__file__).parents[2]

PLAY = """
import sys
from tests.conformance.__main__ import report
from tests.conformance.test_goldens import SAMPLE

failures = [f"{scenario.name}\\n{why}" for scenario in SAMPLE if (why := report(scenario)) is not None]
assert "numba" not in sys.modules
print("\\n".join(failures) or f"{len(SAMPLE)} passed")
"""


@pytest.mark.every_run
@pytest.mark.slow
def test_goldens_of_every_operator_pass_without_compiled_kernels():
    """
    Warnings are errors: unsigned hashes wrap, and that must cause no warning.
    """
    environment = os.environ | {"REPLAY_KERNELS": "interpreted", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", PLAY]
    said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert (said.stdout, said.stderr) == (f"{len(SAMPLE)} passed\n", "")
