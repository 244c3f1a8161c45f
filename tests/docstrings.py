"""What the docstrings of public code leave out: themselves, parameters, fields, errors; of kernels, dtypes and shapes.

Owns the places that are read, and what counts as said. A parameter is named by the docstring of its function or of the
class; an error by its class. A method without a docstring has that of the method it overrides. Rule: a docstring names
parameters and errors in double or single backquotes or as plain words, so a reader who searches for them finds them.
"""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from types import FunctionType
from typing import Any

import kstreams_replay
from tests.source_tree import files, modules

PACKAGE = "kstreams_replay"
DSL = "jobs/topology/dsl/"
"""The room whose public classes are read, though not all are on the face: `windowed_by` gives one."""
OPERATOR = "jobs/operators/base/operator.py"
"""The operator interface, read whole."""
UNREAD_PARAMETERS = {"self", "cls", "this"}


def module_of(path: str) -> Any:
    return import_module(f"{PACKAGE}.{path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}")


def public_objects() -> dict[str, Any]:
    """Classes and functions by "module.name": of the face, and of the rooms and modules that are read."""
    face = {each: getattr(kstreams_replay, each) for each in kstreams_replay.__all__}
    found = {f"{each.__module__}.{each.__qualname__}": each for each in face.values() if is_code(each)}
    for path in files():
        if path.endswith(".py") and (path.startswith(DSL) or path == OPERATOR):
            module = module_of(path)
            own = {
                name: each for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__
            }
            is_read = is_code if path == OPERATOR else inspect.isclass
            found |= {
                f"{module.__name__}.{name}": each for name, each in own.items() if name[0] != "_" and is_read(each)
            }
    return {name.removeprefix(f"{PACKAGE}."): each for name, each in sorted(found.items())}


def is_code(each: Any) -> bool:
    return inspect.isclass(each) or inspect.isfunction(each)


# --- findings ----------------------------------------------------------------------------------------------------


def findings() -> Iterator[str]:
    """A line for each thing that a docstring leaves out, in order of names."""
    for name, each in public_objects().items():
        yield from of_class(name, each) if inspect.isclass(each) else of_function(name, each)


def of_class(name: str, each: type) -> Iterator[str]:
    said = own_docstring(each)
    if not said:
        yield f"{name}: no docstring"
    whole = " ".join(own_docstring(base) + attributes(base) for base in each.__mro__)
    if dataclasses.is_dataclass(each):
        fields = [field.name for field in dataclasses.fields(each) if field.name[0] != "_" and field.init]
        yield from (f"{name}: field {field}" for field in unsaid(fields, whole))
    for method, function in vars(each).items():
        function = inspect.unwrap(getattr(function, "fget", None) or getattr(function, "__func__", function))
        is_made = method == "__init__" and (dataclasses.is_dataclass(each) or getattr(each, "_is_protocol", False))
        if isinstance(function, FunctionType) and (method[0] != "_" or method == "__init__") and not is_made:
            yield from of_function(f"{name}.{method}", function, whole, inherited(each, method))


def of_function(name: str, function: FunctionType, more: str = "", above: str = "") -> Iterator[str]:
    """``more``: the docstring of its class. ``above``: of the method that it overrides."""
    said = inspect.cleandoc(function.__doc__ or above)
    if not said and not name.endswith("__init__"):
        yield f"{name}: no docstring"
    parameters = [each for each in inspect.signature(function).parameters if each[0] != "_"]
    yield from (f"{name}: parameter {each}" for each in unsaid(parameters, f"{said} {more}"))
    yield from (f"{name}: error {each}" for each in raised(function) if not is_said(each, f"{said} {more}"))


def own_docstring(each: type) -> str:
    """Not what a dataclass or an Enum writes by itself, and not object's."""
    said = each.__dict__.get("__doc__") or ""
    return "" if each is object or said.startswith(f"{each.__name__}(") else inspect.cleandoc(said)


def inherited(each: type, method: str) -> str:
    """Of the nearest base that has the method with a docstring; from Python 3.13 on, None has one of its own."""
    overridden = (base.__dict__[method] for base in each.__mro__[1:] if method in base.__dict__)
    return next((each.__doc__ for each in overridden if each.__doc__), "")


def attributes(each: type) -> str:
    """Names of fields that have a docstring of their own, which is a string below them."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
    except (OSError, TypeError):  # of a class that Python or a library has built in
        return ""
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef)).body
    pairs = pairwise(body)
    named = [
        a.target.id
        for a, b in pairs
        if isinstance(a, ast.AnnAssign) and isinstance(b, ast.Expr) and isinstance(a.target, ast.Name)
    ]
    return " ".join(["", *named])


def is_said(word: str, docstring: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", docstring) is not None


def unsaid(names: list[str], docstring: str) -> list[str]:
    return [each for each in names if each not in UNREAD_PARAMETERS and not is_said(each, docstring)]


def raised(function: FunctionType) -> Iterator[str]:
    """Classes of the errors that the function raises itself; not those of functions within it."""
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    seen = set()
    for each in within(node):
        if isinstance(each, ast.Raise) and each.exc is not None:
            called = each.exc.func if isinstance(each.exc, ast.Call) else each.exc
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name[:1].isupper() and name not in seen:
                seen.add(name)
                yield name


def within(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield child
            yield from within(child)


# --- kernels -----------------------------------------------------------------------------------------------------

_DTYPE = r"\b(?:u?int(?:8|16|32|64)|float64|bool)\b"
_SHAPE = r"\([^()]*,[^()]*\)"
_BUNDLE = r"\b(?:[A-Z][a-z]+)+\b|\b[Tt]uples?\b"


def kernel_modules() -> dict[str, ast.Module]:
    """Modules of kernels by path: jobs/kernels, and those beside operators and folds."""
    return {
        path: tree
        for path, tree in modules().items()
        if path.startswith("jobs/kernels/") or (path.startswith("jobs/") and path.endswith("_kernel.py"))
    }


def kernel_findings(path: str, tree: ast.Module) -> Iterator[str]:
    """A line for each array of a kernel of which neither its docstring nor the module's says dtype and shape, or the
    bundle (a NamedTuple, which has a dtype a field).
    """
    above = ast.get_docstring(tree) or ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any("kernel" in ast.unparse(each) for each in node.decorator_list):
            said = re.sub(r"\s+", " ", f"{ast.get_docstring(node) or ''} {above}")
            for name in arrays(node):
                if not says_array(name, said):
                    yield f"{path}:{node.lineno} {node.name}: {name}"


def arrays(node: ast.FunctionDef) -> list[str]:
    """Parameters that the function indexes, measures, unpacks, or reads a field of."""
    used = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Subscript | ast.Attribute | ast.Starred):
            used.add(getattr(each.value, "id", None))
        if isinstance(each, ast.Assign) and any(isinstance(target, ast.Tuple) for target in each.targets):
            used.add(getattr(each.value, "id", None))
    return [each.arg for each in node.args.args if each.arg in used]


def says_array(name: str, docstring: str) -> bool:
    """Whether a sentence has the name, then (perhaps after other names) a dtype, and a shape; or a bundle."""
    for found in re.finditer(rf"``{re.escape(name)}``((?:(?:,|,? and| or) ``\w+``)*)([^`.;]*)([^.;]*)", docstring):
        is_typed = re.search(_DTYPE, found[2]) and re.search(_SHAPE, found[2] + found[3])
        if is_typed or re.search(_BUNDLE, found[2]):
            return True
    return False
