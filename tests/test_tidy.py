"""House rules as tests. Each message says where and how to fix it.

Rule: a limit is never raised and a file never excepted; what breaks a rule is split, renamed or finished.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("state", "jobs", "expectations", "orchestration")

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
RATCHET = {
    "jobs/kernels/session_windows.py: aggregate_sessions": 81,
    "jobs/kernels/suppress.py: suppress_until_window_closes": 74,
    "jobs/kernels/time_windows.py: aggregate_time_windows": 66,
}
"""Compiled loops over rows that keep their counters in locals, which parts could only hand round. They may shrink."""

EMPTY_WORDS = frozenset({"util", "utils", "helper", "helpers", "common", "manager", "managers", "info", "misc"})
UNFINISHED = re.compile(
    r"pytest\.skip|mark\.skip|skipif|importorskip|xfail|NotImplementedError|\b(?:TODO|FIXME|XXX)\b",
)
ADDRESS = re.compile(
    r"https?://(?!localhost|127\.0\.0\.1|0\.0\.0\.0|[{<$])[\w.-]+|\b(?:[\w-]+\.)+(?:org|com|net|io|dev)\b(?!\w|\(|\.\w)"
)
MACHINE_PATH = re.compile(r"(?<![\w./>}-])/(?:work|root|home|tmp)\b")

Function = ast.FunctionDef | ast.AsyncFunctionDef


# --- the tree ------------------------------------------------------------------------------------------------


@cache
def files() -> tuple[str, ...]:
    """Paths of all files that are committed, or would be by `git add`."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return tuple(sorted(path for path in set(listed.stdout.splitlines()) if (ROOT / path).is_file()))


@cache
def text_of(path: str) -> str:
    """Text of a file; "" for one that is none."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


@cache
def modules() -> dict[str, ast.Module]:
    """Parsed Python files by path."""
    return {path: ast.parse(text_of(path)) for path in files() if path.endswith(".py")}


def of_packages() -> Iterator[tuple[str, ast.Module]]:
    """Modules of the four packages."""
    return ((path, tree) for path, tree in modules().items() if path.split("/")[0] in PACKAGES)


def functions() -> dict[str, int]:
    """Lines of every function and method, by "path: name"; of equal names in one file the longest counts."""
    found: dict[str, int] = {}
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                name = f"{path}: {node.name}"
                found[name] = max(found.get(name, 0), (node.end_lineno or node.lineno) - node.lineno + 1)
    return found


def matches(pattern: re.Pattern[str], paths: Iterator[str]) -> Iterator[tuple[str, str]]:
    """("path:line", text found) for every match; this file, which spells what it forbids, is left out."""
    for path in paths:
        if (ROOT / path) != Path(__file__):
            for number, line in enumerate(text_of(path).splitlines(), 1):
                for found in pattern.finditer(line):
                    yield f"{path}:{number}", found.group()


def refuse(untidy: list[str], how_to_fix: str) -> None:
    assert not untidy, f"{how_to_fix}\n  " + "\n  ".join(untidy)


# --- sizes ---------------------------------------------------------------------------------------------------


def test_a_module_has_at_most_400_lines():
    lengths = {path: text_of(path).count("\n") for path in modules()}
    refuse(
        [f"{path}: {lines} lines" for path, lines in lengths.items() if lines > MODULE_LINES_MAX],
        f"Split it by the questions that it answers; a module has at most {MODULE_LINES_MAX} lines:",
    )


def test_a_function_has_at_most_60_lines():
    long = {name: lines for name, lines in functions().items() if lines > FUNCTION_LINES_MAX}
    refuse(
        [f"{name}: {lines} lines" for name, lines in long.items() if lines > RATCHET.get(name, 0)],
        f"Take out the part that has a name of its own; a function has at most {FUNCTION_LINES_MAX} lines, "
        "and what the ratchet lists may not grow:",
    )


def test_the_ratchet_lists_only_functions_that_need_it():
    lines = functions()
    refuse(
        [name for name in RATCHET if lines.get(name, 0) <= FUNCTION_LINES_MAX],
        "These are short enough now, or gone: take them off RATCHET in tests/test_tidy.py:",
    )


# --- names and words -----------------------------------------------------------------------------------------


def test_file_names_are_nouns_of_the_domain():
    def is_empty(part: str) -> bool:
        stem = part.partition(".")[0]
        return stem == "data" or bool(EMPTY_WORDS & set(stem.lower().split("_")))

    refuse(
        [path for path in files() if any(map(is_empty, path.split("/")))],
        f"Name it after what is in it; no {', '.join(sorted(EMPTY_WORDS))}, no module `data`:",
    )


def test_nothing_is_left_out_or_left_for_later():
    refuse(
        [f"{place}: {word}" for place, word in matches(UNFINISHED, iter(files()))],
        "Finish it, or take it out. A test that cannot run here gets a marker of pyproject.toml:",
    )


def test_no_file_names_an_address_of_another_machine():
    refuse(
        [f"{place}: {address}" for place, address in matches(ADDRESS, iter(files()))],
        "Name the package, the project or the class instead of an address; registries are the client's settings:",
    )


def test_no_file_names_a_path_of_one_machine():
    def is_untidy(place: str, path: str) -> bool:
        return path != "/tmp" or not place.startswith("tests/")

    refuse(
        [f"{place}: {path}" for place, path in matches(MACHINE_PATH, iter(files())) if is_untidy(place, path)],
        "Give paths relative to the checkout, or take them from an argument; tests take pytest's tmp_path:",
    )


# --- docstrings ----------------------------------------------------------------------------------------------


def test_every_module_begins_with_what_it_owns():
    refuse(
        [path for path, tree in of_packages() if tree.body and ast.get_docstring(tree) is None],
        "Begin it with a docstring: what it owns, and the rule that it keeps:",
    )


def test_every_public_function_and_class_says_what_it_is():
    refuse(
        [
            f"{path}:{node.lineno}: {node.name}"
            for path, tree in of_packages()
            for node in tree.body
            if isinstance(node, Function | ast.ClassDef)
            and not node.name.startswith("_")
            and ast.get_docstring(node) is None
        ],
        "Give it a docstring (units, bounds, order, errors), or a leading underscore:",
    )
