"""A process in which only what the base installation brings can be imported: run as a program, with code as argument.
Names of packages after it: in which only these can be imported, and what they need.

Rule: what is left is worked out from pyproject.toml and from what each package says it needs, not written down.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

ROOT = Path(__file__).parents[2]


def normal(name: str) -> str:
    """A distribution's name as PyPI compares them."""
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirements: list[str], extras: frozenset[str] = frozenset()) -> Iterator[str]:
    """Names of distributions, of extras those that are asked for."""
    for requirement in requirements:
        marker = requirement.partition(";")[2]
        asked = re.search(r"extra\s*==\s*['\"]([^'\"]+)", marker)
        if asked is None or asked[1] in extras:
            yield normal(re.match(r"[\w.-]+", requirement)[0])  # type: ignore[index]


def base() -> list[str]:
    """What an installation without extras asks for."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]


def brought_by(requirements: list[str]) -> set[str]:
    """Distributions that installing these brings."""
    found: set[str] = set()
    unseen = [*named(requirements)]
    while unseen:
        name = unseen.pop()
        if name not in found:
            found.add(name)
            try:
                unseen += named(requires(name) or [])
            except PackageNotFoundError:
                found.remove(name)  # of another platform or version of Python
    return found


class Hiding(MetaPathFinder):
    """As Python's own finder of files, but it does not find these modules."""

    def __init__(self, modules: set[str]) -> None:
        self.modules = modules

    def find_spec(self, fullname, path=None, target=None):
        return None if fullname in self.modules else PathFinder.find_spec(fullname, path, target)

    def find_distributions(self, *arguments):
        """All: what is installed has its metadata."""
        return PathFinder.find_distributions(*arguments)


def hide_all_but(requirements: list[str]) -> set[str]:
    """From now on; returns the names of the modules that cannot be imported."""
    left = brought_by(requirements) | {"kafka-streams-replay"}
    modules = {
        module for module, owners in packages_distributions().items() if not {normal(each) for each in owners} & left
    }
    sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding(modules)
    return modules


if __name__ == "__main__":
    hidden = hide_all_but(sys.argv[2:] or base())
    sys.path.insert(0, str(ROOT))
    exec(sys.argv[1], {"__name__": "__main__", "hidden": hidden})
