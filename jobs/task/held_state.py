"""What a user's functions and processors hold beside their stores, and which of it changed as records were processed.

Owns where such state can be: attributes of an object or of its class, variables of an enclosing function, and global
variables that a function names. Rule: this only names what changed, for a function whose answers differ already. What
cannot be copied or compared counts as unchanged, and so does what belongs to this project (stores, contexts).
"""

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import fields
from typing import Any

from ..functions.expressions import Call
from ..functions.folds.aggregation import Aggregation
from ..functions.folds.python import PythonFold
from ..functions.value_joiners import CallJoiner
from ..graph.graph import Node

_PROJECT = tuple(f"{__name__.partition('.jobs.')[0]}.{room}." for room in ("jobs", "state"))
_DEPTH_MAX = 6
_LARGE = 100_000
"""Of more entries than this nothing is copied to be compared."""
_MISSING = object()


def functions_of(node: Node) -> list[Any]:
    """The user's functions that ``node`` is configured with."""
    return [function for field in fields(node) for function in _functions_in(getattr(node, field.name))]


def _functions_in(value: Any) -> Iterator[Any]:
    if isinstance(value, Aggregation):
        for fold in value.folds.values():
            if isinstance(fold, PythonFold):
                yield from (fold.initializer, fold.aggregator, fold.merger)
    elif isinstance(value, tuple):
        for one in value:
            yield from _functions_in(one)
    elif isinstance(value, Call | CallJoiner):
        yield value.function
    elif callable(value):
        yield value


class Kept:
    """Copies of what functions hold now."""

    def __init__(self, functions: Sequence[Any]) -> None:
        self.functions = functions
        self._before = {label: _copied(value) for label, value in self._held()}

    def changed(self) -> list[str]:
        """What has changed since then, in words."""
        return [label for label, value in self._held() if not _is_same(self._before.get(label, _MISSING), value)]

    def _held(self) -> list[tuple[str, Any]]:
        found: dict[str, Any] = {}
        for function in self.functions:
            for label, value in _held_by(function, 0):
                found.setdefault(label, value)
        return list(found.items())


def changed_attributes(what: str, ran: object, fresh: object) -> list[str]:
    """Attributes that ``ran``, which processed records, has otherwise than ``fresh``, which is new, in words. ``what``:
    they are ("the processor").
    """
    one, other = _attributes(ran), _attributes(fresh)
    changed = [name for name, value in one.items() if not _is_same(other.get(name, _MISSING), value)]
    return [f"{what}'s attribute {name!r}" for name in changed]


def _held_by(function: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > _DEPTH_MAX:
        return
    if isinstance(function, functools.partial):
        yield from _held_by(function.func, depth + 1)
    elif inspect.ismethod(function):
        yield from _held_by(function.__func__, depth + 1)
        yield from _labelled(function.__self__)
    elif inspect.isfunction(function):
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # it is not set yet
                continue
            yield from _held_by(value, depth + 1) if callable(value) else [(f"the variable {name!r}", value)]
        if not _is_ours(function):
            for name in function.__code__.co_names:
                value = function.__globals__.get(name, _MISSING)
                if not (value is _MISSING or callable(value) or inspect.ismodule(value) or _is_ours(type(value))):
                    yield f"the global variable {name!r}", value
    elif inspect.isclass(function):
        if not _is_ours(function):
            for name, value in vars(function).items():
                if not name.startswith("__") and not callable(value) and not inspect.isdatadescriptor(value):
                    yield f"the attribute {name!r} of the class {function.__name__}", value
    elif callable(function):
        yield from _held_by(type(function).__call__, depth + 1)
        yield from _labelled(function, depth)


def _labelled(owner: object, depth: int = 0) -> Iterator[tuple[str, Any]]:
    for name, value in _attributes(owner).items():
        if callable(value):
            yield from _held_by(value, depth + 1)
        elif not _is_ours(type(owner)):
            yield f"the attribute {name!r} of {type(owner).__name__}", value


def _attributes(owner: object) -> dict[str, Any]:
    found = dict(getattr(owner, "__dict__", {}))
    for kind in type(owner).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(owner, name):
                found.setdefault(name, getattr(owner, name))
    return found


def _copied(value: Any) -> Any:
    if isinstance(value, Sized) and _length(value) > _LARGE:
        return value
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def _length(value: Sized) -> int:
    try:
        return len(value)
    except Exception:
        return 0


def _is_same(one: Any, other: Any, depth: int = 0) -> bool:
    if one is other or depth > _DEPTH_MAX:
        return True
    if type(one) is not type(other):
        return False
    if _is_ours(type(one)) or inspect.isroutine(one) or inspect.isclass(one):
        return True
    if isinstance(one, Mapping):
        return _is_equal(set(one), set(other)) and all(_is_same(one[name], other[name], depth + 1) for name in one)
    if isinstance(one, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_is_same(*pair, depth + 1) for pair in pairs)
    if _has_equality(type(one)):
        return _is_equal(one, other)
    if hasattr(one, "__dict__"):
        mine, others = _attributes(one), _attributes(other)
        return set(mine) == set(others) and all(_is_same(mine[name], others[name], depth + 1) for name in mine)
    return " at 0x" in repr(one) or repr(one) == repr(other)


def _has_equality(kind: Any) -> bool:
    return kind.__eq__ is not object.__eq__


def _is_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # as of arrays
        return repr(one) == repr(other)


def _is_ours(kind: Callable[..., Any]) -> bool:
    return f"{getattr(kind, '__module__', None)}.".startswith(_PROJECT)
