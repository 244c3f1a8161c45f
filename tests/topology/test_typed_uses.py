"""A type checker knows the DSL: what is right passes, what is wrong is found on its line."""

import re
import subprocess
import sys

import pytest

from tests.source_tree import ROOT, text_of

USES = "tests/topology/typed_uses.py"


@pytest.mark.nightly
def test_mypy_finds_the_wrong_uses_and_no_others():
    want = {
        (number, found[1])
        for number, line in enumerate(text_of(USES).splitlines(), 1)
        if (found := re.search(r"  # wrong: ([\w-]+)$", line))
    }

    said = subprocess.run([sys.executable, "-m", "mypy", USES], cwd=ROOT, capture_output=True, text=True, check=False)

    found = re.findall(r"^tests/topology/typed_uses\.py:(\d+): error: .*\[([\w-]+)\]$", said.stdout, re.MULTILINE)
    assert {(int(number), code) for number, code in found} == want, said.stdout + said.stderr
    assert len(want) > 20
