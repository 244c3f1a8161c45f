"""Which function a decorator's wrapper calls with just what it is given, seen in its bytecode.

Rule: ``functools.wraps`` says what is wrapped, not how it is called. A wrapper of ``*args`` has the parameters of what
it wraps where it calls that with them as a whole: ``f(*args, **kwargs)``, behind its own parameters if it has some, or
``run(f, *args)``. One that adds, leaves out or replaces an argument has its own.
"""

import dis
import functools
import inspect
import re
import types
from collections.abc import Iterator
from typing import Any

_Steps = list[tuple[str, Any]]

_BETWEEN = ("CACHE", "EXTENDED_ARG", "NOP", "PUSH_NULL")
"""Instructions that only some versions of Python have between two others."""

_VARIABLE = re.compile(r"(LOAD|STORE|DELETE)_(?:(FAST|CLOSURE)|DEREF|CLASSDEREF|GLOBAL|NAME)")
"""Python 3.13 joins two of FAST to one instruction."""

_HANDED = "HANDED"
"""Instead of LOAD: a variable that a function within encloses."""

_ARGUMENT = re.compile("LOAD(?!_ATTR|_METHOD)|BUILD")
"""Instructions that give an argument."""


def called_by(function: Any) -> Any:
    """A callable of the parameters that ``function`` takes: what its decorators wrap, if they pass all on."""
    if isinstance(function, functools.partial):
        return functools.partial(called_by(function.func), *function.args, **function.keywords)
    if isinstance(function, types.MethodType):
        return types.MethodType(called_by(function.__func__), function.__self__)
    is_object = not isinstance(function, types.FunctionType)
    call = type(function).__call__ if is_object else function
    if not hasattr(function, "__wrapped__") or hasattr(function, "__signature__"):
        is_decorated = is_object and isinstance(call, types.FunctionType) and hasattr(call, "__wrapped__")
        return called_by(types.MethodType(call, function)) if is_decorated else function
    wrapped = function.__wrapped__
    if not isinstance(call, types.FunctionType):  # written in C, such as functools.cache
        return called_by(wrapped)
    if not call.__code__.co_flags & inspect.CO_VARARGS or not _passes_on(call, wrapped, is_object):
        return function
    is_bound_first = "__get__" in call.__code__.co_names  # as functools.singledispatchmethod does
    return called_by(types.MethodType(wrapped, function) if is_bound_first else wrapped)


def _passes_on(call: types.FunctionType, wrapped: Any, is_object: bool) -> bool:
    """Whether ``call`` calls ``wrapped`` with all that is given, and never otherwise. ``is_object``: it is the method
    of an object. What it calls is known if its own code encloses it; else anything called so is taken to be it.
    """
    code = call.__code__
    own, rest = _parameters(code, is_object)
    held = [name for name, one in inspect.getclosurevars(call).nonlocals.items() if one is wrapped]
    passes_on = False
    for steps in map(_steps, _codes(code)):
        for index, (verb, what) in enumerate(steps[:-1]):
            if verb in ("STORE", "DELETE") and what in (*own, *rest):
                return False
            is_it = verb == "LOAD" and what in held
            is_whole = _begins(steps[index + 1 :], own, rest) or (is_it and _begins(steps[index:], (what, *own), rest))
            if is_it and not is_whole and _ARGUMENT.match(steps[index + 1][0]):
                return False
            passes_on |= is_whole and (is_it or not held)
    return passes_on


def _parameters(code: types.CodeType, is_object: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Its own by position, without the object, and ``*args`` with ``**kwargs``, if it has them."""
    named = code.co_argcount + code.co_kwonlyargcount
    rest = code.co_varnames[named : named + 1 + bool(code.co_flags & inspect.CO_VARKEYWORDS)]
    return code.co_varnames[int(is_object) : code.co_argcount], rest


def _begins(steps: _Steps, own: tuple[str, ...], rest: tuple[str, ...]) -> bool:
    """Whether ``steps`` begin with the arguments of a call with ``own`` and ``rest``, with or without ``**kwargs``."""
    wholes = (_whole(own, rest[:1]), _whole(own, rest))
    return any(steps[: len(whole)] == whole for whole in wholes)


@functools.cache
def _whole(own: tuple[str, ...], rest: tuple[str, ...]) -> _Steps:
    """As this Python compiles it."""
    given = ", ".join([*own, *("*" * (at + 1) + name for at, name in enumerate(rest))])
    steps = _steps(compile(f"called({given})", "", "eval"))
    return steps[steps.index(("LOAD", "called")) + 1 : [verb for verb, _ in steps].index("CALL_FUNCTION_EX") + 1]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """With those of the functions within."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)


def _steps(code: types.CodeType) -> _Steps:
    """Its instructions: ("LOAD", name of a variable), ("STORE", name), (_HANDED, name) and others."""
    steps: _Steps = []
    enclosed = (*code.co_cellvars, *code.co_freevars)
    for one in dis.get_instructions(code):
        if verbs := _VARIABLE.findall(one.opname):
            names = one.argval if isinstance(one.argval, tuple) else (one.argval,)
            steps += [
                (_HANDED if is_fast and name in enclosed else verb, name)
                for (verb, is_fast), name in zip(verbs, names, strict=True)
            ]
        elif one.opname not in _BETWEEN:
            steps.append((one.opname, one.arg))
    return steps
