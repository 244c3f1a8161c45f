"""Type checkers know the DSL and the test driver: what is right passes, what is wrong is found on its line."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source_tree import ROOT, text_of
from tests.test_docs import DSL

USES = (
    "tests/topology/typed_uses.py",
    "tests/topology/typed_driver_uses.py",
    "tests/topology/test_named_calls.py",
)


def wrong_uses() -> set[tuple[str, int, str]]:
    """Of every wrong line: file, line and what mypy calls its error."""
    return {
        (Path(path).name, number, found[1])
        for path in USES
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if (found := re.search(r"  # wrong: ([\w-]+)$", line))
    }


def test_every_class_of_the_dsl_has_a_use():
    assert [each.__name__ for each in DSL if not re.search(rf"\b{each.__name__}\b", text_of(USES[0]))] == []


@pytest.mark.nightly
def test_mypy_finds_the_wrong_uses_and_no_others():
    said = subprocess.run([sys.executable, "-m", "mypy", *USES], cwd=ROOT, capture_output=True, text=True, check=False)

    found = re.findall(r"^tests/topology/(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", said.stdout, re.MULTILINE)
    assert {(name, int(number), code) for name, number, code in found} == wrong_uses(), said.stdout + said.stderr
    assert len(wrong_uses()) > 50


@pytest.mark.nightly
def test_pyright_finds_the_wrong_uses_and_no_others(tmp_path):
    """
    In a folder of its own, since it looks at everything beside its settings. It runs on the machine's Node.js and is
    asked for JSON, so that it neither fetches anything nor asks for a newer version.
    """
    settings = {"include": ["."], "pythonVersion": "3.11", "typeCheckingMode": "standard", "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    for path in USES:
        shutil.copy(ROOT / path, tmp_path)
    assert shutil.which("node") is not None, "install Node.js: pyright would fetch one"
    command = [sys.executable, "-m", "pyright", "--outputjson", "-p", str(tmp_path), "--pythonpath", sys.executable]

    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ)

    errors = [each for each in json.loads(said.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    found = {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in errors}
    assert found == {(name, number) for name, number, _ in wrong_uses()}, said.stdout
