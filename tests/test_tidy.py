"""House rules as tests. Each message says where and how to fix it.

Rule: a limit is never raised and a file never excepted; what breaks a rule is split, renamed or finished.
"""

import ast
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter

import grimp
import pytest

from tests.node_type_tests import type_tests
from tests.source_tree import PACKAGES, ROOT, Function, files, matches, modules, package_modules, refuse, text_of

pytestmark = pytest.mark.xdist_group("source tree")  # read and parsed once

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
ROOM_MODULES_MAX = 15
ROOMS_MAX, ARROWS_MAX = 20, 100
LINKED = ("benchmarks", "expectations", "jobs", "orchestration", "state")
RATCHET = {
    "jobs/operators/aggregates/time_windows_kernel.py: aggregate_time_windows": 66,
}
"""Compiled loops over rows that keep their counters in locals, which parts could only hand round. They may shrink."""

NODE_TYPE_TESTS_MAX = 36
"""Of sources, sinks and repartition tables, most of them, which a task runs in its own way. It may shrink."""

EMPTY_WORDS = frozenset({"util", "utils", "helper", "helpers", "common", "manager", "managers", "info", "misc"})
UNFINISHED = r"pytest\.skip|mark\.skip|skipif|importorskip|xfail|NotImplementedError|\b(?:TODO|FIXME|XXX)\b"
ADDRESS = (
    r"https?://(?!localhost|127\.0\.0\.1|0\.0\.0\.0|[{<$])[\w.-]+|\b(?:[\w-]+\.)+(?:org|com|net|io|dev)\b(?!\w|\(|\.\w)"
)
MACHINE_PATH = r"(?<![\w./>}-])/(?:work|root|home|tmp)\b"


def functions() -> dict[str, int]:
    """Lines of every function and method, by "path: name"; of equal names in one file the longest counts."""
    found: dict[str, int] = {}
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                name = f"{path}: {node.name}"
                found[name] = max(found.get(name, 0), (node.end_lineno or node.lineno) - node.lineno + 1)
    return found


# --- sizes ---------------------------------------------------------------------------------------------------


def test_a_module_has_at_most_400_lines():
    lengths = {path: text_of(path).count("\n") for path in modules()}
    refuse(
        [f"{path}: {lines} lines" for path, lines in lengths.items() if lines > MODULE_LINES_MAX],
        f"Split it by the questions that it answers; a module has at most {MODULE_LINES_MAX} lines:",
    )


def test_there_are_at_most_20_rooms_and_100_arrows_between_them():
    package = imports()
    rooms = {module: room for module in package.modules if (room := room_of(module))}
    arrows = {
        (room, rooms[imported])
        for module, room in rooms.items()
        for imported in package.find_modules_directly_imported_by(module)
        if rooms.get(imported, room) != room
    }

    assert len({*rooms.values()}) <= ROOMS_MAX
    assert len(arrows) <= ARROWS_MAX, "let a room below answer, as Topology.state_schema does"


def test_files_import_one_another_in_no_circle():
    package = imports()
    imported = {module: package.find_modules_directly_imported_by(module) for module in package.modules}

    TopologicalSorter(imported).prepare()  # else a CycleError, which names the files


@cache
def imports() -> grimp.ImportGraph:
    """Which file imports which, when it runs: what is imported for types alone is left out."""
    return grimp.build_graph("kstreams_replay", exclude_type_checking_imports=True, cache_dir=None)


def room_of(module: str) -> str | None:
    """A folder of `jobs/`, the command, or one of the other packages; None: what is installed beside them."""
    package, _, below = module.removeprefix("kstreams_replay.").partition(".")
    if package == "jobs":
        return f"jobs/{below.split('.')[0]}" if below else None
    if package == "orchestration" and below.split(".")[0] == "cli":
        return "orchestration/cli"
    return package if package in ("orchestration", "expectations", "state") else None


def test_a_room_has_at_most_15_modules():
    rooms = Counter(
        path.rpartition("/")[0] for path in package_modules() if not path.endswith(("__init__.py", "__main__.py"))
    )
    refuse(
        [f"{room}: {count} modules" for room, count in sorted(rooms.items()) if count > ROOM_MODULES_MAX],
        f"Split it by the questions that it answers; a folder has at most {ROOM_MODULES_MAX} modules:",
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


def test_generic_code_asks_a_node_and_not_what_kind_it_is():
    found = type_tests()
    excess = found if len(found) > NODE_TYPE_TESTS_MAX else []
    refuse(
        [f"{path}:{line}: {what}" for path, line, what in excess],
        f"Give the node a method (jobs/graph/graph.py); {len(found)} such tests, at most {NODE_TYPE_TESTS_MAX} may be:",
    )


def test_a_table_is_named_in_one_place():
    spelled = matches(r'f"(outputs|state|repartition|retractions|landed)/\{')
    refuse(
        [place for place, _ in spelled if place.split("/")[0] in PACKAGES and "state/tables/names.py" not in place],
        "Say TableName.output(…) and so on (state/tables/names.py):",
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
        [f"{place}: {word}" for place, word in matches(UNFINISHED)],
        "Finish it, or take it out. A test that cannot run here gets a marker of pyproject.toml:",
    )


def test_no_merge_is_left_half_done():
    refuse([place for place, _ in matches(r"^(?:<{7}|>{7}) ")], "Resolve the conflict and take its markers out:")


def test_no_file_names_an_address_of_another_machine():
    refuse(
        [f"{place}: {address}" for place, address in matches(ADDRESS)],
        "Name the package, the project or the class instead of an address; registries are the client's settings:",
    )


def test_no_file_names_a_path_of_one_machine():
    def is_untidy(place: str, path: str) -> bool:
        return path != "/tmp" or not place.startswith("tests/")

    refuse(
        [f"{place}: {path}" for place, path in matches(MACHINE_PATH) if is_untidy(place, path)],
        "Give paths relative to the checkout, or take them from an argument; tests take pytest's tmp_path:",
    )


# --- imports -------------------------------------------------------------------------------------------------


def test_everything_that_is_installed_is_imported_by_one_name():
    """
    `import jobs` would load a module a second time, or a package of the user's own that has this name.
    """

    def by_its_folder(node: ast.AST) -> list[str]:
        if isinstance(node, ast.Import):
            return [each.name for each in node.names if each.name.split(".")[0] in LINKED]
        if isinstance(node, ast.ImportFrom) and not node.level and node.module is not None:
            return [node.module] if node.module.split(".")[0] in LINKED else []
        return []

    refuse(
        [
            f"{path}:{node.lineno}: {name}"
            for path, tree in modules().items()
            for node in ast.walk(tree)
            for name in by_its_folder(node)
        ],
        "Import it as kstreams_replay.<folder>…; inside of these folders relative to the file:",
    )


def test_what_is_installed_is_a_link_to_the_folder_beside_it():
    links = {path.name: str(path.readlink()) for path in (ROOT / "kstreams_replay").iterdir() if path.is_symlink()}

    assert links == {name: f"../{name}" for name in LINKED}


# --- docstrings ----------------------------------------------------------------------------------------------


def test_every_module_begins_with_what_it_owns():
    refuse(
        [path for path, tree in package_modules().items() if ast.get_docstring(tree) is None],
        "Begin it with a docstring: what it owns, and the rule that it keeps:",
    )


def test_every_public_function_and_class_says_what_it_is():
    refuse(
        [
            f"{path}:{node.lineno}: {node.name}"
            for path, tree in package_modules().items()
            for node in tree.body
            if isinstance(node, Function | ast.ClassDef)
            and not node.name.startswith("_")
            and ast.get_docstring(node) is None
        ],
        "Give it a docstring (units, bounds, order, errors), or a leading underscore:",
    )
