"""Tutorials, as a reader follows them: each block in order, in an empty folder.

Rule: a block whose first line names a file becomes that file, and a block of bash runs. The ``text`` behind it is what
it prints: these lines in this order, one below the other; a line "…" is in the place of any others.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.source_tree import ROOT

PAGES = (
    "final-results.md", "reference-tables.md", "a-processor-with-state.md", "late-data.md", "a-fix.md",
)  # fmt: skip
FOLDER = ROOT / "docs" / "tutorials"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)\n```$", re.DOTALL | re.MULTILINE)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_tutorial_does_what_it_says(page, tmp_path):
    play(page, tmp_path)


@pytest.mark.nightly
@pytest.mark.jvm
def test_the_tutorial_of_a_cluster_does_what_it_says(tmp_path, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("PORT", str(free.getsockname()[1]))
    try:
        play("a-cluster.md", tmp_path)
    finally:
        for started in tmp_path.glob("*.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(started.read_text()), signal.SIGKILL)


def play(page: str, tmp_path: Path) -> None:
    """Write and run its blocks in ``tmp_path``; AssertionError for one that fails or prints other lines."""
    printed = ""
    for language, text in _BLOCK.findall((FOLDER / page).read_text(encoding="utf-8")):
        if language == "bash":
            printed = run(text, tmp_path)
        elif language == "text":
            assert missing_line(text, printed) is None, f"{text}\n\nis not what was printed:\n\n{printed}"
        else:
            name, _, rest = text.partition("\n")
            (tmp_path / name.removeprefix("# ")).write_text(rest + "\n", encoding="utf-8")


def run(script: str, folder: Path) -> str:
    """What bash prints for it, with this environment's commands and this checkout's packages."""
    bin_folder = str(Path(sys.executable).parent)
    environment = os.environ | {
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "120",
        "NO_COLOR": "1",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def missing_line(shown: str, printed: str) -> str | None:
    """The first shown line that is not where it must be; None: all do."""
    lines, place, may_skip = [line.rstrip() for line in printed.splitlines()], 0, True
    for line in shown.splitlines():
        if line == "…":
            may_skip = True
            continue
        found = [at for at in range(place, len(lines)) if lines[at] == line.rstrip()]
        if not found or (not may_skip and found[0] != place):
            return line
        place, may_skip = found[0] + 1, False
    return None


def test_a_line_that_is_not_printed_is_missed():
    assert missing_line("a\nb", "x\na\nb\nc") is None
    assert missing_line("a\n…\nc", "a\nb\nc") is None
    assert missing_line("a\nc", "a\nb\nc") == "c"
    assert missing_line("b\n…\na", "a\nb") == "a"


def test_every_tutorial_is_played():
    assert {path.name for path in FOLDER.glob("*.md")} == {*PAGES, "a-cluster.md"}
