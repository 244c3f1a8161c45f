"""``python -m tests.node_type_tests``: where generic code asks what kind of node it has, instead of asking the node.

Owns the count. Rule: every mention of a node class outside the operators' rooms counts, unless it makes such a node,
types a variable or is imported. A table by node class (a dispatch) counts, and an attribute of a node compared with a
text (``kind == "inner"``). So does ``hasattr`` or ``getattr`` of an attribute that only some nodes have.
"""

import ast
from collections import Counter
from collections.abc import Iterator

from tests.source_tree import package_modules

GENERIC = "jobs", "orchestration"
NOT_GENERIC = "jobs/operators/"
BASE = "Node"
NAMES = {"store", "topic", "sink_name", "filter_name", "semantics"}
"""Texts that name things, or say what is promised; which kind of node it is they do not say."""


def node_classes() -> dict[str, ast.ClassDef]:
    """Classes of nodes by name: what inherits from Node, wherever it is defined."""
    classes = {each.name: each for tree in package_modules().values() for each in tree.body if _is_class(each)}
    found: dict[str, ast.ClassDef] = {}
    while True:
        more = {
            name: each
            for name, each in classes.items()
            if name not in found and any(_name(base) in (BASE, *found) for base in each.bases)
        }
        if not more:
            return found
        found |= more


def type_tests() -> list[tuple[str, int, str]]:
    """(path, line, what) of every test."""
    classes = node_classes()
    texts, some = _attributes(classes)
    return [
        (path, line, what)
        for path, tree in package_modules().items()
        if path.split("/")[0] in GENERIC and not path.startswith(NOT_GENERIC)
        for line, what in _Tests(set(classes), texts, some).of(tree)
    ]


def _attributes(classes: dict[str, ast.ClassDef]) -> tuple[set[str], set[str]]:
    """Names of attributes of nodes: those with a text for a value, and those that only some nodes have."""
    fields = [
        (one.target.id, ast.unparse(one.annotation))
        for each in classes.values()
        for one in each.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    ]
    texts = {name for name, kind in fields if kind == "str"} - NAMES
    return texts, {name for name, _ in fields}


class _Tests(ast.NodeVisitor):
    def __init__(self, classes: set[str], texts: set[str], some: set[str]) -> None:
        self.classes, self.texts, self.some = classes, texts, some
        self.found: list[tuple[int, str]] = []

    def of(self, tree: ast.Module) -> list[tuple[int, str]]:
        self.visit(tree)
        return self.found

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self.classes:
            self.found.append((node.lineno, node.id))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in self.classes:
            self.found.append((node.lineno, node.attr))
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        """An annotation is no test."""

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for each in node.body:
            self.visit(each)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for each in (*node.args.defaults, *node.args.kw_defaults, *node.body):
            if each is not None:
                self.visit(each)

    def visit_Call(self, node: ast.Call) -> None:
        if _name(node.func) not in self.classes:
            self.visit(node.func)
        if _name(node.func) in ("getattr", "hasattr") and _text(node.args[1]) in self.some:
            self.found.append((node.lineno, f"{_name(node.func)} {_text(node.args[1])}"))
        for each in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.visit(each)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        named = [each.attr for each in sides if isinstance(each, ast.Attribute) and each.attr in self.texts]
        if named and any(_text(each) is not None for each in sides) and not _is_self(sides):
            self.found.append((node.lineno, f"{named[0]} compared with a text"))
        self.generic_visit(node)


def _is_self(sides: list[ast.expr]) -> bool:
    """Of an object's own attribute: it is no node's."""
    values = [each.value for each in sides if isinstance(each, ast.Attribute)]
    return any(isinstance(value, ast.Name) and value.id == "self" for value in values)


def _is_class(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def lines() -> Iterator[str]:
    """A line a test, and how many there are in how many files."""
    found = type_tests()
    for path, line, what in found:
        yield f"{path}:{line}: {what}"
    kinds = Counter("texts" if "text" in what else "attributes" if " " in what else "classes" for _, _, what in found)
    files = len({path for path, _, _ in found})
    parts = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    yield f"{len(found)} tests of node types in {files} files ({parts})"


if __name__ == "__main__":
    print("\n".join(lines()))
