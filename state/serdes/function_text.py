"""A short digest of a Python function's code, which differs when the code does.

Rule: the digits are of its code, its defaults, all that it encloses, and what it names of the user's. That is
functions, classes and constants of its module and of those that it imports, and what these name. The digits are not of
the lines where it is, of libraries, or of global variables that may change as it runs (lists, dictionaries and sets,
and those that it sets itself). They hold for one version of Python, and of this module.
"""

import datetime as dt
import dis
import functools
import hashlib
import re
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterator
from dataclasses import is_dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

_VALUES = (
    int, float, str, bytes, bool, type(None), Decimal, Enum, UUID, re.Pattern, dt.date, dt.time, dt.timedelta,
    dt.timezone, ZoneInfo, PurePath, range, complex,
)  # fmt: skip
"""Whose ``repr`` says what they are."""
_PATTERN_SHOWN = 200
_LIBRARIES = tuple(
    str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_PROJECT = tuple(f"{__name__.partition('.state.')[0]}.{room}." for room in ("jobs", "state"))


Seen = set[int | tuple[str, int]]
"""Ids of functions, classes and objects that are in the text; a pair with a word where only a part of them is."""


def function_text(function: Callable[..., Any]) -> str:
    """Its name and the digits of its code: "total 1f0c9a7b"."""
    name = getattr(function, "__qualname__", type(function).__qualname__).rpartition(".")[2]
    digest = hashlib.sha256("\n".join(_said(function, set())).encode()).hexdigest()[:8]
    return f"{name} {digest}"


def _said(thing: Any, seen: Seen) -> Iterator[str]:
    """What a function's code says, or an object's that is called, with all that it encloses; not where it is."""
    if isinstance(thing, CodeType):
        yield thing.co_code.hex()
        yield from thing.co_names
        for constant in thing.co_consts:
            yield from _said(constant, seen)
    elif isinstance(thing, MethodType):
        yield from _said(thing.__func__, seen)
        yield from _said_of_bound(thing.__func__, thing.__self__, seen)
    elif _has_code(thing) and id(thing) not in seen:
        seen.add(id(thing))
        yield from _said(thing.__code__, seen)
        for value in (thing.__defaults__, thing.__kwdefaults__):
            yield from _said(value, seen)
        for cell in thing.__closure__ or ():
            yield from _said(cell.cell_contents, seen)
        if isinstance(thing, FunctionType):
            yield from _said_of_names(thing, seen)
    elif isinstance(thing, type) and thing.__module__ != "builtins" and id(thing) not in seen:
        seen.add(id(thing))
        yield from _said_of_class(thing, seen)
    elif isinstance(thing, functools.partial):
        yield from _said((thing.func, thing.args, thing.keywords), seen)
    elif isinstance(thing, tuple | list):
        yield from _once_within(thing, _said_of_each(thing, seen), seen)
    elif isinstance(thing, set | frozenset):
        yield from sorted(map(_shown, thing))
    elif isinstance(thing, dict):
        yield from _once_within(thing, _said_of_entries(thing, seen), seen)
    elif isinstance(thing, _VALUES):
        yield _shown(thing)
    elif is_dataclass(thing) and id(thing) not in seen:
        seen.add(id(thing))
        yield from _said((type(thing), _attributes(thing)), seen)
    elif callable(thing) and (hasattr(thing, "__dict__") or _attributes(thing)) and id(thing) not in seen:
        seen.add(id(thing))
        yield from _said(type(thing), seen)
        yield from _said(vars(thing) if isinstance(thing, type) else _attributes(thing), seen)
    else:
        yield type(thing).__qualname__


def _has_code(thing: Any) -> bool:
    """Of Python. ``pl.col`` and mocks have any attribute that is asked for."""
    return isinstance(getattr(thing, "__code__", None), CodeType)


def _shown(value: Any) -> str:
    """Its ``repr``, and the whole of a pattern, of which that has 200 characters."""
    text = repr(value)
    is_cut = isinstance(value, re.Pattern) and len(repr(value.pattern)) > _PATTERN_SHOWN
    return text + repr(value.pattern) if is_cut else text


def _once_within(holder: Any, texts: Iterator[str], seen: Seen) -> Iterator[str]:
    """``texts`` of what it holds, and nothing where it is within itself."""
    mark = ("within", id(holder))
    if mark not in seen:
        seen.add(mark)
        yield from texts
        seen.discard(mark)


def _said_of_each(several: tuple[Any, ...] | list[Any], seen: Seen) -> Iterator[str]:
    for one in several:
        yield from _said(one, seen)


def _said_of_entries(entries: dict[Any, Any], seen: Seen) -> Iterator[str]:
    for name, value in sorted(entries.items(), key=repr):
        yield repr(name)
        yield from _said(value, seen)


def _said_of_bound(function: Any, bound: Any, seen: Seen) -> Iterator[str]:
    """What a method is bound to. An attribute of that may be a method of its own, or of another that refers to it."""
    if isinstance(bound, type):
        yield from _said(bound, seen)
    else:
        yield from _once_within(bound, _said(_attributes(bound), seen), seen)
        if _has_code(function):
            yield from _said_of_own_names(function.__code__, type(bound), _attributes(bound), seen)


def _said_of_own_names(code: CodeType, kind: type, own: Collection[str], seen: Seen) -> Iterator[str]:
    """What a method names of its object's class ``kind``: other methods, what these name of it, and constants.
    ``own``: attributes of the object, which come before those of its class.
    """
    # Not the whole class, as of an object that is called: a method that the step does not use is not its code.
    classes = [one for one in kind.__mro__ if _is_users(one, kind)]
    changing = {name for one in classes for body in _methods(one) for name in _names(body.__code__, "STORE_ATTR")}
    for name in _names(code, "LOAD_ATTR", "LOAD_METHOD"):
        body = next((_body(vars(one)[name]) for one in classes if name in vars(one)), None)
        if body is not None and not _has_code(body):
            if name not in changing and name not in own:
                yield from _said_of_name(name, body, kind, seen)
        elif body is not None and ("own names", id(body)) not in seen:
            seen.add(("own names", id(body)))
            if id(body) not in seen:
                yield name
                yield from _said(body, seen)
            yield from _said_of_own_names(body.__code__, kind, own, seen)


def _said_of_class(kind: type, seen: Seen) -> Iterator[str]:
    """What its methods say, its constants, and what it inherits from classes of the user's."""
    methods = _methods(kind)
    for method in methods:
        yield from _said(method, seen)
    changing = {name for method in methods for name in _names(method.__code__, "STORE_ATTR")}
    for name, value in vars(kind).items():
        if not name.startswith("__") and name not in changing and _is_constant(value):
            yield name
            yield from _said(value, seen)
    for base in kind.__bases__:
        if _is_users(base, kind):
            yield from _said(base, seen)


def _methods(kind: type) -> list[Any]:
    bodies = [_body(one) for one in vars(kind).values()]
    return [body for body in bodies if _has_code(body)]


def _body(one: Any) -> Any:
    """The function of what a class has for a method: a property, a static or a cached one, or the function itself."""
    names = ("__code__", "fget", "__func__", "func", "__wrapped__")
    name = next((name for name in names if hasattr(one, name)), "__code__")
    return one if name == "__code__" else getattr(one, name)


def _said_of_names(function: FunctionType, seen: Seen) -> Iterator[str]:
    """What the function names of the user's, beside what it encloses."""
    code = function.__code__
    changing = _names(code, "STORE_GLOBAL")
    for name in [name for name in _names(code, "LOAD_GLOBAL") if name not in changing]:
        value = function.__globals__.get(name)
        if not isinstance(value, ModuleType):
            yield from _said_of_name(name, value, function, seen)
        elif _is_users(value, function):
            yield from _said_of_module(value, function, seen)


def _said_of_module(module: ModuleType, function: FunctionType, seen: Seen) -> Iterator[str]:
    """What the function names of the module, and of modules within it: ``package.limits.MOST``."""
    seen.add(("module", id(module)))
    for name in _names(function.__code__, "LOAD_ATTR", "LOAD_METHOD"):
        value = getattr(module, name, None)
        if not isinstance(value, ModuleType):
            yield from _said_of_name(name, value, function, seen)
        elif ("module", id(value)) not in seen and _is_users(value, function):
            yield from _said_of_module(value, function, seen)
    seen.discard(("module", id(module)))


def _said_of_name(name: str, value: Any, by: Any, seen: Seen) -> Iterator[str]:
    is_code = callable(value) and (isinstance(value, functools.partial) or _is_users(value, by))
    if is_code or _is_constant(value):
        yield name
        yield from _said(value, seen)


def _names(code: CodeType, *operations: str) -> list[str]:
    """Names on which the code, or that of functions within, does one of the operations (of the module ``dis``)."""
    names = [one.argval for one in dis.get_instructions(code) if one.opname in operations]
    within = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return list(dict.fromkeys([*names, *(name for one in within for name in _names(one, *operations))]))


def _is_constant(value: Any) -> bool:
    """Whether it stays what it is: a plain value, a tuple or a frozen object of some."""
    if isinstance(value, tuple | frozenset):
        return all(map(_is_constant, value))
    if is_dataclass(value) and not isinstance(value, type):
        kind: Any = type(value)
        return kind.__dataclass_params__.frozen and all(map(_is_constant, _attributes(value).values()))
    return isinstance(value, _VALUES)


def _is_users(thing: Any, by: Any) -> bool:
    """Whether it is of the package of ``by``, or no library has it."""
    name = str(getattr(thing, "__name__" if isinstance(thing, ModuleType) else "__module__", None))
    if name == "builtins" or f"{name}.".startswith(_PROJECT):
        return False
    if name.partition(".")[0] == str(by.__module__).partition(".")[0]:
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and not str(Path(file).resolve()).startswith(_LIBRARIES)


def _attributes(thing: Any) -> dict[str, Any]:
    """Attributes of an object, those in slots too."""
    slots = {name: one for kind in type(thing).__mro__ for name, one in vars(kind).items() if _is_slot(one)}
    named = {name: getattr(thing, name) for name in slots if hasattr(thing, name)}
    return named | getattr(thing, "__dict__", {})


def _is_slot(one: Any) -> bool:
    """Whether it is what a class has for a name in its ``__slots__``."""
    return isinstance(one, MemberDescriptorType) and "__slots__" in vars(one.__objclass__)
