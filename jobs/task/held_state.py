"""What a user's functions and processors hold beside their stores, and which of it changed as records were processed.

Owns where such state can be: attributes of an object, of its class and of those that it inherits from, and variables of
an enclosing function. Also global variables that a function or a method names, itself or by another one of its package.
Rule: this names what changed, for a function whose answers differ already, and puts plain data back behind a check.
What cannot be copied or compared counts as unchanged, and so does what belongs to this project (stores, contexts).
"""

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import fields
from types import CodeType
from typing import Any

from ..functions.expressions import Call
from ..functions.folds.aggregation import Aggregation
from ..functions.folds.python import PythonFold
from ..functions.value_joiners import CallJoiner
from ..graph.graph import Node
from .put_back import LARGE, MISSING, HeldValue, PutBack

_PROJECT = tuple(f"{__name__.partition('.jobs.')[0]}.{room}." for room in ("jobs", "state"))
_DEPTH_MAX = 6
_BASES = ("builtins", "abc", "typing")
"""Modules of classes that hold nothing of a user's."""
_Pairs = dict[tuple[int, int], tuple[int, Any, Any]]
"""By identities of two objects: how deep they were compared, and both, so that no other object takes an identity."""


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
    """What functions hold now: copies to compare with, and what can be put back."""

    def __init__(self, functions: Sequence[Any]) -> None:
        self.functions = functions
        held = self._held()
        self._before = {one.place: _copied(one.value) for one in held}
        self._put_back = PutBack(held)

    def changed(self) -> list[str]:
        """What has changed since then, in words."""
        now = self._held()
        changed = [one.label for one in now if not _is_same(self._before.get(one.place, MISSING), one.value)]
        return list(dict.fromkeys(changed))

    def put_back(self) -> None:
        """Let plain data be as it was (jobs/task/put_back.py)."""
        self._put_back.put_back(self._held())

    def _held(self) -> list[HeldValue]:
        found: dict[tuple[int, str], HeldValue] = {}
        seen: set[int] = set()
        for function in self.functions:
            for one in _held_by(function, 0, seen):
                found.setdefault(one.place, one)
        return list(found.values())


def changed_attributes(what: str, ran: object, fresh: object) -> list[str]:
    """Attributes that ``ran``, which processed records, has otherwise than ``fresh``, which is new, in words. ``what``:
    they are ("the processor").
    """
    one, other = _attributes(ran), _attributes(fresh)
    changed = [name for name, value in one.items() if not _is_same(other.get(name, MISSING), value)]
    return [f"{what}'s attribute {name!r}" for name in changed]


def _held_by(function: Any, depth: int, seen: set[int]) -> Iterator[HeldValue]:
    if depth > _DEPTH_MAX or id(function) in seen:
        return
    if not inspect.ismethod(function):  # each look at a method makes another object
        seen.add(id(function))
    if isinstance(function, functools.partial):
        yield from _held_by(function.func, depth + 1, seen)
        for one in (*function.args, *function.keywords.values()):
            if callable(one):
                yield from _held_by(one, depth + 1, seen)
    elif inspect.ismethod(function):
        yield from _held_by(function.__func__, depth + 1, seen)
        yield from _labelled(function.__self__, depth, seen)
    elif inspect.isfunction(function):
        yield from _enclosed(function, depth, seen)
        if not _is_of_project(function):
            yield from _global(function, depth, seen)
    elif inspect.isclass(function):
        for kind in function.__mro__:
            if not _is_of_project(kind) and kind.__module__ not in _BASES:
                yield from _of_class(kind, depth, seen)
    elif callable(function):
        yield from _held_by(type(function).__call__, depth + 1, seen)
        yield from _labelled(function, depth, seen)


def _enclosed(function: Any, depth: int, seen: set[int]) -> Iterator[HeldValue]:
    """Variables of the functions around it (nonlocals)."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # it is not set yet
            continue
        if name == "__class__":  # of super()
            continue
        if callable(value):
            yield from _held_by(value, depth + 1, seen)
        else:
            yield HeldValue(f"the variable {name!r}", value, (id(cell), ""), _setting(cell, "cell_contents"))


def _global(function: Any, depth: int, seen: set[int]) -> Iterator[HeldValue]:
    """Global variables that it names, and what the functions and classes of the same package hold that it names."""
    places = function.__globals__
    for name in _names(function.__code__):
        value = places.get(name, MISSING)
        if value is MISSING or inspect.ismodule(value) or _is_of_project(type(value)):
            continue
        if not callable(value):
            yield HeldValue(f"the global variable {name!r}", value, (id(places), name), _keeping(places, name))
        elif _package(value) == _package(function):
            yield from _held_by(value, depth + 1, seen)


def _names(code: CodeType) -> Iterator[str]:
    """Names that the code has, with those of functions within."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _of_class(kind: type, depth: int, seen: set[int]) -> Iterator[HeldValue]:
    """Attributes of one class, and what its methods hold."""
    for name, value in list(vars(kind).items()):
        body = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if inspect.isfunction(body):
            yield from _held_by(body, depth + 1, seen)
        elif not name.startswith("__") and not callable(value) and not inspect.isdatadescriptor(value):
            label = f"the attribute {name!r} of the class {kind.__name__}"
            yield HeldValue(label, value, (id(kind), name), _setting(kind, name))


def _labelled(owner: object, depth: int, seen: set[int]) -> Iterator[HeldValue]:
    for name, value in _attributes(owner).items():
        if callable(value):
            yield from _held_by(value, depth + 1, seen)
        elif not _is_of_project(type(owner)):
            yield HeldValue(
                f"the attribute {name!r} of {type(owner).__name__}", value, (id(owner), name), _setting(owner, name)
            )


def _setting(owner: Any, name: str) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        if value is MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, value)

    return put


def _keeping(places: dict[str, Any], name: str) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        if value is MISSING:
            places.pop(name, None)
        else:
            places[name] = value

    return put


def _package(kind: Any) -> str:
    return str(getattr(kind, "__module__", None)).partition(".")[0]


def _attributes(owner: object) -> dict[str, Any]:
    found = dict(getattr(owner, "__dict__", {}))
    for kind in type(owner).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(owner, name):
                found.setdefault(name, getattr(owner, name))
    return found


def _copied(value: Any) -> Any:
    if isinstance(value, Sized) and _length(value) > LARGE:
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


def _is_same(one: Any, other: Any, depth: int = 0, met: _Pairs | None = None) -> bool:
    """Whether they hold the same down to _DEPTH_MAX. A pair that is reached by several ways is compared once."""
    if one is other or depth > _DEPTH_MAX:
        return True
    if type(one) is not type(other):
        return False
    if _is_of_project(type(one)) or inspect.isroutine(one) or inspect.isclass(one):
        return True
    met = {} if met is None else met
    pair = id(one), id(other)
    if pair in met and met[pair][0] <= depth:  # it is the same as far as it was compared, or this had ended
        return True
    met[pair] = depth, one, other
    below = functools.partial(_is_same, depth=depth + 1, met=met)
    if isinstance(one, Mapping):
        return _is_equal(set(one), set(other)) and all(below(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(below, one, other))
    if _has_equality(type(one)):
        return _is_equal(one, other)
    if hasattr(one, "__dict__"):
        mine, others = _attributes(one), _attributes(other)
        return set(mine) == set(others) and all(below(mine[name], others[name]) for name in mine)
    return " at 0x" in repr(one) or repr(one) == repr(other)


def _has_equality(kind: Any) -> bool:
    return kind.__eq__ is not object.__eq__


def _is_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # as of arrays
        return repr(one) == repr(other)


def _is_of_project(kind: Callable[..., Any]) -> bool:
    return f"{getattr(kind, '__module__', None)}.".startswith(_PROJECT)
