"""A short digest of a Python function's code, which differs when the code does.

Rule: the digits are of its code, its parameters and their defaults, all that it encloses, and what it names of the
user's. That is functions, classes and constants of its module and of those that it imports, and what these name. A
value counts by what pickling would keep of it (state/serdes/value_digest.py). The digits are not of lines, comments and
docstrings, of libraries, or of global variables that may change as it runs (lists, dictionaries, sets, attributes of
objects, and those that it sets itself). They hold for one version of Python, and of this module.
"""

import dis
import functools
import operator
import sys
import sysconfig
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import is_dataclass
from inspect import getattr_static
from pathlib import Path
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

from .value_digest import CONSTANTS, ValueDigest, digest_of

_LIBRARIES = tuple(
    str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_PROJECT = tuple(f"{__name__.partition('.state.')[0]}.{room}." for room in ("jobs", "state"))
_MAKES_CODE = functools.partial | operator.itemgetter | operator.attrgetter | operator.methodcaller
"""Callable objects of libraries that are made of what the user gives them."""
_FLAGS = 0x04 | 0x08 | 0x20 | 0x80 | 0x200
"""Of code: takes further arguments, by name too; makes a generator, a coroutine, or both."""


def function_text(function: Callable[..., Any]) -> str:
    """Its name and the digits of its code: "total 1f0c9a7b". Behind them are types in it that no digits are of."""
    name = getattr(function, "__qualname__", type(function).__qualname__).rpartition(".")[2]
    digest = _FunctionDigest(function)
    digits = digest.of(function).hex()[:8]
    return f"{name} {digits}{digest.unread()}"


class _FunctionDigest(ValueDigest):
    """``given``: by the package of this function, another one is the user's though it is among the libraries."""

    def __init__(self, given: Any) -> None:
        super().__init__()
        while isinstance(given, functools.partial):
            given = given.func
        self._package = _package(getattr(given, "__module__", None))

    def of_other(self, thing: Any) -> bytes | None:
        if isinstance(thing, CodeType):
            return self._of_code(thing)
        if isinstance(thing, FunctionType):
            return self._of_function(thing)
        if isinstance(thing, MethodType):
            return self._of_method(thing)
        if isinstance(thing, type):
            return self._of_class(thing)
        if isinstance(thing, ModuleType):
            return digest_of("module", thing.__name__)
        wrapped = getattr_static(thing, "__wrapped__", None)
        if callable(thing) and isinstance(wrapped, FunctionType):  # it may keep answers, or compiled code
            return digest_of("wrapped", type(thing).__qualname__, self.of(wrapped))
        return None

    # --- code ------------------------------------------------------------------------------------------------

    def _of_code(self, code: CodeType) -> bytes:
        """Its operations with the names, values and places that they are done on, and its parameters."""
        steps = _steps(code)
        places = [step.offset for step in steps]
        parts: list[str | bytes] = []
        for step in steps:
            parts.append(step.opname)
            if step.opcode in dis.hasconst:
                parts.append(self.of(step.argval))
            elif step.opcode in dis.hasname or step.opcode in dis.hascompare:
                parts.append(step.argval)
            elif step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
                parts.append(str(bisect_left(places, step.argval)))
            else:
                parts.append(str(step.arg))
        for entry in dis.Bytecode(code).exception_entries:  # type: ignore[attr-defined]
            bounds = [bisect_left(places, place) for place in (entry.start, entry.end, entry.target)]
            parts.append(f"{bounds} {entry.depth} {entry.lasti}")
        numbers = code.co_posonlyargcount, code.co_argcount, code.co_kwonlyargcount, code.co_flags & _FLAGS
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return digest_of("operations", repr((numbers, names)), *parts)

    def _of_function(self, function: FunctionType) -> bytes:
        parts = [self.of(one) for one in (function.__code__, function.__defaults__, function.__kwdefaults__)]
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:  # nothing is in it yet
                parts.append(digest_of("empty"))
                continue
            parts.append(self.of(value))
            if isinstance(value, ModuleType) and self._is_users(value):
                parts += self._of_module(value, function)
        if self._is_users(function):
            parts += self._of_names(function)
        return digest_of("function", *parts)

    def _of_names(self, function: FunctionType) -> Iterator[bytes]:
        """What the function names of the user's, beside what it encloses."""
        changing = _names(function.__code__, "STORE_GLOBAL")
        for name in _names(function.__code__, "LOAD_GLOBAL"):
            value = function.__globals__.get(name)
            if name in changing:
                continue
            if not isinstance(value, ModuleType):
                yield from self._of_name(name, value)
            elif self._is_users(value):
                yield from self._of_module(value, function)

    def _of_module(self, module: ModuleType, function: FunctionType) -> Iterator[bytes]:
        """What the function names of the module, and of modules within it: ``package.limits.MOST``."""
        if not self.begins(("module", id(module), id(function))):
            return
        for name in _names(function.__code__, "LOAD_ATTR", "LOAD_METHOD"):
            value = getattr(module, name, None)
            if not isinstance(value, ModuleType):
                yield from self._of_name(name, value)
            elif self._is_users(value):
                yield from self._of_module(value, function)

    def _of_name(self, name: str, value: Any) -> Iterator[bytes]:
        if self._is_code(value) or _is_constant(value):
            yield digest_of(name, self.of(value))
        elif self._is_users(type(value)):  # its attributes may change
            yield digest_of(name, self.of(type(value)))

    def _is_code(self, value: Any) -> bool:
        if isinstance(value, BuiltinMethodType):
            return not isinstance(value.__self__, ModuleType) and _is_constant(value.__self__)
        return isinstance(value, _MAKES_CODE) or (callable(value) and self._is_users(value))

    # --- classes ---------------------------------------------------------------------------------------------

    def _of_class(self, kind: type) -> bytes:
        """What its methods say, its constants, and what it inherits from classes of the user's; a library's by name."""
        name = f"{kind.__module__}.{kind.__qualname__}"
        if not self._is_users(kind):
            return digest_of("class", name)
        parts = []
        changing = {name for body in _methods(kind) for name in _names(body.__code__, "STORE_ATTR")}
        for name, value in sorted(vars(kind).items()):
            bodies = _bodies(value)
            if bodies:
                parts.append(digest_of(name, *map(self.of, bodies)))
            elif not name.startswith("__") and name not in changing:
                parts += self._of_name(name, value)
        parts += [self.of(base) for base in kind.__bases__]
        return digest_of("class", *parts)

    def _of_method(self, method: MethodType) -> bytes:
        """A bound method: its function, and what it is bound to. An attribute of that may be a method of its own."""
        function, bound = method.__func__, method.__self__
        parts = [self.of(function)]
        if isinstance(bound, type) or not self._is_users(type(bound)):
            parts.append(self.of(bound))
        else:
            parts.append(self.once(bound, self.content))
            if isinstance(function, FunctionType):
                parts += self._of_own_names(function.__code__, type(bound), _attributes(bound))
        return digest_of("method", *parts)

    def _of_own_names(self, code: CodeType, kind: type, own: Collection[str]) -> Iterator[bytes]:
        """What a method names of its object's class ``kind``: other methods, what these name of it, and constants.
        ``own``: attributes of the object, which come before those of its class.
        """
        # Not the whole class, as of an object that is called: a method that the step does not use is not its code.
        classes = [one for one in kind.__mro__ if self._is_users(one)]
        changing = {name for one in classes for body in _methods(one) for name in _names(body.__code__, "STORE_ATTR")}
        for name in _names(code, "LOAD_ATTR", "LOAD_METHOD"):
            holder = next((one for one in classes if name in vars(one)), None)
            if holder is None:
                continue
            bodies = _bodies(vars(holder)[name])
            if not bodies and name not in changing and name not in own:
                yield from self._of_name(name, vars(holder)[name])
            for body in bodies:
                if self.begins(("own names", id(body))):
                    yield digest_of(name, self.of(body))
                    yield from self._of_own_names(body.__code__, kind, own)

    def _is_users(self, thing: Any) -> bool:
        """Whether it is of the package of the given function, or no library has it."""
        name = str(getattr(thing, "__name__" if isinstance(thing, ModuleType) else "__module__", None))
        if name == "builtins" or f"{name}.".startswith(_PROJECT):
            return False
        if _package(name) == self._package:
            return True
        file = getattr(sys.modules.get(name), "__file__", None)
        return file is not None and not str(Path(file).resolve()).startswith(_LIBRARIES)


def _package(module: str | None) -> str:
    return str(module).partition(".")[0]


def _steps(code: CodeType) -> list[dis.Instruction]:
    """Its operations, without those that only hold a line's place or a docstring of a class within."""
    steps = [one for one in dis.get_instructions(code) if one.opname not in ("NOP", "EXTENDED_ARG")]
    docs = {at for at, one in enumerate(steps) if one.opname == "STORE_NAME" and one.argval == "__doc__"}
    return [one for at, one in enumerate(steps) if at not in docs and at + 1 not in docs]


def _names(code: CodeType, *operations: str) -> list[str]:
    """Names on which the code, or that of functions within, does one of the operations (of the module ``dis``)."""
    names = [one.argval for one in dis.get_instructions(code) if one.opname in operations]
    within = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return list(dict.fromkeys([*names, *(name for one in within for name in _names(one, *operations))]))


def _methods(kind: type) -> list[FunctionType]:
    return [body for one in vars(kind).values() for body in _bodies(one)]


def _bodies(one: Any) -> list[FunctionType]:
    """The functions of what a class has for a method: a property, a static or a cached one, or the function itself."""
    names = ("fget", "fset", "fdel", "__func__", "func", "__wrapped__")
    # Statically: ``pl.col`` and mocks have any attribute that is asked for.
    parts = [one] if isinstance(one, FunctionType) else [_held(one, name) for name in names]
    return [part for part in parts if isinstance(part, FunctionType)]


def _held(one: Any, name: str) -> Any:
    return getattr(one, name, None) if getattr_static(one, name, None) is not None else None


def _is_constant(value: Any) -> bool:
    """Whether it stays what it is: a plain value, a tuple or a frozen object of some."""
    if isinstance(value, tuple | frozenset):
        return all(map(_is_constant, value))
    if isinstance(value, MappingProxyType):
        return all(map(_is_constant, _flat(value.items())))
    if is_dataclass(value) and not isinstance(value, type):
        kind: Any = type(value)
        return kind.__dataclass_params__.frozen and all(map(_is_constant, _attributes(value).values()))
    return isinstance(value, CONSTANTS)


def _flat(pairs: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
    for pair in pairs:
        yield from pair


def _attributes(thing: Any) -> dict[str, Any]:
    """Attributes of an object, those in slots too."""
    slots = {name: one for kind in type(thing).__mro__ for name, one in vars(kind).items() if _is_slot(one)}
    named = {name: getattr(thing, name) for name in slots if hasattr(thing, name)}
    return named | getattr(thing, "__dict__", {})


def _is_slot(one: Any) -> bool:
    """Whether it is what a class has for a name in its ``__slots__``."""
    return isinstance(one, MemberDescriptorType) and "__slots__" in vars(one.__objclass__)
