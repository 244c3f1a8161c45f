"""The files of this repository, for tests that read them: which there are, their text, their syntax trees."""

import ast
import gc
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("state", "jobs", "expectations", "orchestration", "kstreams_replay")
HOUSE_RULES = "tests/test_tidy.py"
"""Spells what it forbids, so it is not searched for it."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def files() -> tuple[str, ...]:
    """Paths of all files that are committed, or would be by `git add`; a link is none."""
    return tuple(path for path in _listed() if (ROOT / path).is_file() and not (ROOT / path).is_symlink())


def _listed() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return sorted(set(listed.stdout.splitlines()))


def copy_checkout(folder: Path, *, has_links: bool = True) -> None:
    """All files and links, as they are now. ``has_links``: False makes of a link a file that has its target as text, as
    git does where a system has no links.
    """
    for path in files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes((ROOT / path).read_bytes())
    for path in _listed():
        if (ROOT / path).is_symlink() and has_links:
            (folder / path).symlink_to((ROOT / path).readlink())
        elif (ROOT / path).is_symlink():
            (folder / path).write_text(str((ROOT / path).readlink()))


@cache
def text_of(path: str) -> str:
    """Text of a file; "" for one that is none."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


@cache
def modules() -> dict[str, ast.Module]:
    """Parsed Python files by path. They stay, so the garbage collector leaves them out. While they are made it would
    look through them again and again, which takes twice as long as parsing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        parsed = {path: ast.parse(text_of(path)) for path in files() if path.endswith(".py")}
        gc.freeze()
    finally:
        if was_on:
            gc.enable()
    return parsed


def package_modules() -> dict[str, ast.Module]:
    """Those of the four packages."""
    return {path: tree for path, tree in modules().items() if path.split("/")[0] in PACKAGES}


def matches(pattern: str) -> Iterator[tuple[str, str]]:
    """("path:line", text found) for every match in every file."""
    compiled = re.compile(pattern)
    for path in files():
        if path != HOUSE_RULES:
            for number, line in enumerate(text_of(path).splitlines(), 1):
                for found in compiled.finditer(line):
                    yield f"{path}:{number}", found.group()


def refuse(found: list[str], how_to_fix: str) -> None:
    """Fail when something was found, with a line each."""
    assert not found, f"{how_to_fix}\n  " + "\n  ".join(found)
