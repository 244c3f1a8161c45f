"""``python -m tests.house [--since COMMIT]``: how large the parts of this tree are.

Owns the counts. Rule: it reports and refuses nothing. A reader decides whether a long file, a full folder or an arrow
between rooms is worth the work of changing it.
"""

import argparse
import ast
import subprocess
from collections import Counter

import grimp

from tests.node_type_tests import type_tests
from tests.source_tree import ROOT, Function, modules, package_modules, text_of

SHOWN = 10


def functions() -> dict[str, int]:
    """Lines of every function and method, by "path:line name"."""
    return {
        f"{path}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    }


def room_of(module: str) -> str | None:
    """A folder of ``jobs/``, the command, or one of the other packages; None: what is installed beside them."""
    package, _, below = module.removeprefix("kstreams_replay.").partition(".")
    if package == "jobs":
        return f"jobs/{below.split('.')[0]}" if below else None
    if package == "orchestration" and below.split(".")[0] == "cli":
        return "orchestration/cli"
    return package if package in ("orchestration", "expectations", "state") else None


def arrows() -> set[tuple[str, str]]:
    """(room, a room that it imports)."""
    package = grimp.build_graph("kstreams_replay", exclude_type_checking_imports=True, cache_dir=None)
    rooms = {module: room for module in package.modules if (room := room_of(module))}
    return {
        (room, rooms[imported])
        for module, room in rooms.items()
        for imported in package.find_modules_directly_imported_by(module)
        if rooms.get(imported, room) != room
    }


def growth(since: str) -> dict[str, int]:
    """Lines that were added less those that were removed since a commit, by top folder."""
    listed = subprocess.run(
        ["git", "diff", "--numstat", since, "--", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    counted: Counter[str] = Counter()
    for line in listed.stdout.splitlines():
        added, removed, path = line.split("\t")
        counted[path.split("/")[0]] += int(added) - int(removed)
    return dict(counted)


def report(since: str | None) -> None:
    """Print all counts."""
    lines = {path: text_of(path).count("\n") for path in modules()}
    folders = Counter(path.rpartition("/")[0] for path in package_modules() if not path.endswith("__init__.py"))
    by_package: Counter[str] = Counter()
    for path, count in lines.items():
        by_package[path.split("/")[0]] += count
    _print("lines of Python by folder", by_package)
    _print("longest files, in lines", lines)
    _print("longest functions, in lines", functions())
    _print("fullest folders, in modules", folders)
    arrows_out = Counter(room for room, _ in arrows())
    _print(f"arrows between rooms: {arrows_out.total()}; most from", arrows_out)
    print(f"\nquestions what kind a node is, in generic code: {len(type_tests())} (python -m tests.node_type_tests)")
    if since is not None:
        _print(f"growth since {since}, in lines of Python", growth(since))


def _print(title: str, counts: "Counter[str] | dict[str, int]") -> None:
    print(f"\n{title}")
    for name, count in sorted(counts.items(), key=lambda one: -one[1])[:SHOWN]:
        print(f"  {count:7,}  {name}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--since", metavar="COMMIT", help="also show how many lines each folder grew since then")
    report(arguments.parse_args().since)
