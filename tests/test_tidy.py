"""House rules as tests. Each message says where and how to fix it.

Rule: a test finds mistakes. How large files, functions and folders are is no mistake: ``python -m tests.house`` reports
it, and a reader decides.
"""

import ast
from functools import cache
from graphlib import TopologicalSorter

import grimp
import pytest

from tests.source_tree import PACKAGES, ROOT, Function, files, matches, modules, package_modules, refuse

pytestmark = pytest.mark.xdist_group("source tree")  # read and parsed once

LINKED = ("benchmarks", "expectations", "jobs", "orchestration", "state")
EMPTY_WORDS = frozenset({"util", "utils", "helper", "helpers", "common", "manager", "managers", "info", "misc"})
UNFINISHED = r"pytest\.skip|mark\.skip|skipif|importorskip|xfail|NotImplementedError|\b(?:TODO|FIXME|XXX)\b"
ADDRESS = (
    r"https?://(?!localhost|127\.0\.0\.1|0\.0\.0\.0|[{<$])[\w.-]+|\b(?:[\w-]+\.)+(?:org|com|net|io|dev)\b(?!\w|\(|\.\w)"
)
MACHINE_PATH = r"(?<![\w./>}-])/(?:work|root|home|tmp)\b"


def test_files_import_one_another_in_no_circle():
    package = imports()
    imported = {module: package.find_modules_directly_imported_by(module) for module in package.modules}

    TopologicalSorter(imported).prepare()  # else a CycleError, which names the files


@cache
def imports() -> grimp.ImportGraph:
    """Which file imports which, when it runs: what is imported for types alone is left out."""
    return grimp.build_graph("kstreams_replay", exclude_type_checking_imports=True, cache_dir=None)


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
        [f"{place}: {address}" for place, address in matches(ADDRESS) if not place.startswith("LICENSE:")],
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
