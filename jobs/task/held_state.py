"""What a user's functions and processors hold beside their stores, and which of it changed as records were processed.

Owns where such state can be: attributes of an object, of its class and of those that it inherits from, variables of an
enclosing function, and a function's attributes, defaults and cache. Also global variables that a function or a method
names, itself or by another one of its package.
Rule: this names what changed, for a function whose answers differ already, and puts plain data back behind a check.
What shows nothing of itself (an open connection) may have changed: it is named where nothing else has. What belongs to
this project (stores, contexts) counts as unchanged.
"""

import copy
import functools
import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, fields
from enum import Enum
from types import CodeType, FunctionType, GeneratorType
from typing import Any, NamedTuple

from ..functions.expressions import Call
from ..functions.folds.aggregation import Aggregation
from ..functions.folds.python import PythonFold
from ..functions.value_joiners import CallJoiner
from ..graph.graph import Node
from ..graph.own_windows import OwnWindows
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
    elif isinstance(value, OwnWindows):
        yield value.given.windows_for
    elif isinstance(value, Call | CallJoiner):
        yield value.function
    elif callable(value):
        yield value


class Outside(NamedTuple):
    """State outside of stores, as subjects of a sentence. ``unknown``: nobody can say whether it changed."""

    changed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def with_(self, other: "Outside") -> "Outside":
        """Both, each thing once."""
        return Outside(*(tuple(dict.fromkeys(mine + others)) for mine, others in zip(self, other, strict=True)))

    def of(self, node: str) -> "Outside":
        """The same in words that name the node."""
        return Outside(*(tuple(f"{label} of {node}" for label in labels) for labels in self))


class Kept:
    """What functions hold now: copies to compare with, and what can be put back."""

    def __init__(self, functions: Sequence[Any]) -> None:
        self.functions = functions
        held = self._held()
        self._before = {one.location: _copied(one.value) for one in held}
        self._put_back = PutBack(held)

    def outside(self) -> Outside:
        """What has changed since then."""
        return _compared((self._before.get(one.location, MISSING), one.value, one.label) for one in self._held())

    def put_back(self) -> None:
        """Let plain data be as it was (jobs/task/put_back.py), and caches empty."""
        held = self._held()
        self._put_back.put_back(held)
        for one in held:
            if _is_cache(one.value):
                one.value.cache_clear()

    def _held(self) -> list[HeldValue]:
        held: dict[tuple[int, str], HeldValue] = {}
        seen: set[int] = set()
        for function in self.functions:
            for one in _held_by(function, 0, seen):
                held.setdefault(one.location, one)
        return list(held.values())


def outside_of(what: str, ran: object, fresh: object) -> Outside:
    """What ``ran``, which processed records, holds otherwise than ``fresh``, which is new. ``what``: they are ("the
    processor").
    """
    mine, others = ({one.label: one.value for one in _held_by_running(what, each)} for each in (ran, fresh))
    return _compared((others.get(label, MISSING), value, label) for label, value in mine.items())


def _held_by_running(what: str, owner: object) -> Iterator[HeldValue]:
    """Its attributes, what functions among them hold, and what its class holds: it may be made for each object."""
    seen: set[int] = set()
    for name, value in _attributes(owner).items():
        if callable(value):
            yield from _held_by(value, 1, seen)
        else:
            yield HeldValue(f"{what}'s attribute {name!r}", value, (id(owner), name), _setting(owner, name))
    yield from _held_by(type(owner), 1, seen)


def _compared(pairs: Iterable[tuple[Any, Any, str]]) -> Outside:
    """``pairs``: what was held, what is held now, and what it is called."""
    changed, unknown = dict[str, None](), dict[str, None]()
    for before, now, label in pairs:
        if not _is_same(before, now):
            changed[label] = None
        elif _is_opaque(now):
            unknown[label] = None
    return Outside(tuple(changed), tuple(unknown))


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
            yield from _of_function(function, depth, seen)
            yield from _global(function, depth, seen)
    elif inspect.isclass(function):
        for kind in function.__mro__:
            if not _is_of_project(kind) and kind.__module__ not in _BASES:
                yield from _of_class(kind, depth, seen)
    elif callable(function):
        if _is_cache(function) and _parameters(function):
            yield HeldValue(f"the cache of {function.__name__}()", function, (id(function), "()"), _ignored)
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


def _of_function(function: FunctionType, depth: int, seen: set[int]) -> Iterator[HeldValue]:
    """Its attributes, and the defaults of its parameters."""
    defaults, code = function.__defaults__ or (), function.__code__
    positional = code.co_varnames[: code.co_argcount][code.co_argcount - len(defaults) :]
    named = {**dict(zip(positional, defaults, strict=True)), **(function.__kwdefaults__ or {})}
    values = [
        (f"the default of {name!r} of {function.__name__}()", f"({name})", value) for name, value in named.items()
    ]
    values += [
        (f"the attribute {name!r} of {function.__name__}()", name, value) for name, value in vars(function).items()
    ]
    for label, name, value in values:
        if callable(value):
            yield from _held_by(value, depth + 1, seen)
        else:
            put = _ignored if name.startswith("(") else _setting(function, name)
            yield HeldValue(label, value, (id(function), name), put)


def _ignored(value: Any) -> None:
    """No other object takes the place of a default or of a cache."""


def _parameters(function: Any) -> bool:
    """Whether it has any: what one without them has cached, as a model that was loaded, depends on no record."""
    try:
        return bool(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return True


def _global(function: Any, depth: int, seen: set[int]) -> Iterator[HeldValue]:
    """Global variables that it names, and what the functions and classes of the same package hold that it names."""
    variables = function.__globals__
    for name in _names(function.__code__):
        value = variables.get(name, MISSING)
        if value is MISSING or inspect.ismodule(value) or _is_of_project(type(value)):
            continue
        if not callable(value):
            yield HeldValue(f"the global variable {name!r}", value, (id(variables), name), _keeping(variables, name))
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
        elif not name.startswith(("__", "_abc_")) and not callable(value) and not inspect.isdatadescriptor(value):
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


def _keeping(variables: dict[str, Any], name: str) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        if value is MISSING:
            variables.pop(name, None)
        else:
            variables[name] = value

    return put


def _package(kind: Any) -> str:
    return str(getattr(kind, "__module__", None)).partition(".")[0]


def _attributes(owner: object) -> dict[str, Any]:
    attributes = dict(getattr(owner, "__dict__", {}))
    for kind in type(owner).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(owner, name):
                attributes.setdefault(name, getattr(owner, name))
    return attributes


@dataclass(frozen=True, slots=True)
class _Noted:
    """What an object of class ``kind`` showed that cannot be copied, as of ``_shown``."""

    kind: type
    parts: dict[Any, Any]


def _copied(value: Any) -> Any:
    if isinstance(value, Sized) and _length(value) > LARGE:
        return value
    try:
        return copy.deepcopy(value)
    except Exception:
        return _noted(value, 0, {})


def _noted(value: Any, depth: int, met: dict[int, tuple[Any, _Noted]]) -> Any:
    """``met``: by identity what was noted already, with the object, so that no other one takes its identity."""
    if id(value) in met:
        return met[id(value)][1]
    if depth > _DEPTH_MAX or len(met) > LARGE or _is_of_project(type(value)) or _is_code(value):
        return value
    parts = _shown(value)
    if parts is None:
        return value
    noted = _Noted(type(value), {})
    met[id(value)] = value, noted
    noted.parts.update({name: _noted(part, depth + 1, met) for name, part in parts.items()})
    return noted


def _length(value: Sized) -> int:
    try:
        return len(value)
    except Exception:
        return 0


def _shown(value: Any) -> dict[Any, Any] | None:
    """What it consists of, by name or place. None: it is compared as a whole, or shows nothing."""
    if isinstance(value, _Noted):
        return value.parts
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple | deque):
        return dict(enumerate(value))
    if isinstance(value, GeneratorType):
        return {} if value.gi_frame is None else {**value.gi_frame.f_locals, "(at)": value.gi_frame.f_lasti}
    if _has_equality(type(value)):
        return None
    parts, reduced = _attributes(value), _reduced(value)
    if reduced is None:
        return parts or None
    if any(getattr(type(value), name) is not getattr(object, name) for name in _REDUCING):
        parts["(state)"] = reduced[1:3]
    return parts


_REDUCING = ("__reduce_ex__", "__reduce__", "__getstate__")


def _reduced(value: Any) -> tuple[Any, ...] | None:
    """What it is pickled as; None: it cannot be pickled, or is a constant."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:
        return None
    return reduced if isinstance(reduced, tuple) else None


def _is_opaque(value: Any) -> bool:
    """Whether nobody knows what it holds, or it is a cache."""
    if _is_cache(value):
        return True
    if _is_of_project(type(value)) or _is_code(value) or _has_equality(type(value)):
        return False
    return not isinstance(value, Enum | GeneratorType) and _reduced(value) is None


def _is_cache(value: Any) -> bool:
    return isinstance(value, functools._lru_cache_wrapper)


def _is_code(value: Any) -> bool:
    return inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value)


def _is_same(one: Any, other: Any, depth: int = 0, met: _Pairs | None = None) -> bool:
    """Whether they hold the same down to _DEPTH_MAX. A pair that is reached by several ways is compared once."""
    if one is other or depth > _DEPTH_MAX:
        return True
    if (one.kind if isinstance(one, _Noted) else type(one)) is not type(other):
        return False
    if _is_of_project(type(other)) or _is_code(other):
        return True
    met = {} if met is None else met
    pair = id(one), id(other)
    if pair in met and met[pair][0] <= depth:  # it is the same as far as it was compared, or this had ended
        return True
    met[pair] = depth, one, other
    mine, others = _shown(one), _shown(other)
    if mine is not None and others is not None:
        below = functools.partial(_is_same, depth=depth + 1, met=met)
        return _is_equal(set(mine), set(others)) and all(below(mine[name], others[name]) for name in mine)
    if _has_equality(type(other)):
        return _is_equal(one, other)
    # Python's own repr has the address, in which an object and its copy differ always: it shows no change.
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
