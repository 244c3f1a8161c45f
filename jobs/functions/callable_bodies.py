"""What the body of a user's callable can give, looked at when the topology is built, and what it did give.

Rule: what nobody runs is refused, that is ``async def``, and a generator where nobody iterates it. So is a function
that gives nothing where its result is the point: one that has statements and no ``return``, and a lambda that only
changes what it is given. What can only be seen when it is called is refused then: a result where results are
forwarded, and text where several results are wanted.
"""

import ast
import dis
import functools
import inspect
import linecache
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...state.errors import ConfigError, TopologyError, shown

RETURN = "return the result; flat_map and flat_map_values take several"
FORWARD = "call self.context.forward(record) for each result"
EFFECT = "do the work without a yield"
"""What to write instead of a yield."""

_IN_PLACE = ("append", "extend", "insert", "sort", "reverse", "update")
"""Methods of lists and dicts that change them, and give None. One that is cleared may be meant to be deleted."""

_EMPTY = (ast.Pass, ast.Global, ast.Nonlocal)


def check_body(function: Any, place: str, *, may_yield: bool = False, instead: str = RETURN) -> None:
    """Raises TopologyError for ``async def``, which nobody awaits, and for a generator function unless it
    ``may_yield``: its body would not run. ``instead``: what to write instead of a yield.
    """
    bodies = (function, type(function).__call__)
    if any(inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body) for body in bodies):
        got, next_step = f"async def {name_of(function)}", "nobody awaits it here: write def"
        raise TopologyError(place, "a function that runs when it is called", got, next_step)
    if not may_yield and any(inspect.isgeneratorfunction(body) for body in bodies):
        got = f"{name_of(function)}, which yields"
        raise TopologyError(place, "a function that runs when it is called", got, f"nobody iterates it here: {instead}")


def check_returns(function: Any, place: str) -> None:
    """Raises TopologyError for a function whose text has no ``return``, though it does something and does not end with
    a ``raise``. ``return None`` is one: it makes a tombstone, or deletes an aggregate. Also for a lambda that only
    changes a list or dict that it is given.
    """
    inner = function.func if isinstance(function, functools.partial) else function
    inner = getattr(inner, "__func__", inner)
    if not isinstance(inner, types.FunctionType):
        return
    if inner.__name__ == "<lambda>":
        if changed := _changed_only(inner):
            got, next_step = f"a lambda of {changed}, which gives None", "write def, and return what was changed"
            raise TopologyError(place, "a function that gives a result", got, next_step)
        return
    if inspect.isgeneratorfunction(inner) or not _forgets_return(inner):
        return
    got, next_step = f"{name_of(function)}, which has no return", "return the result; return None where none is meant"
    raise TopologyError(place, "a function that gives a result", got, next_step)


_UNRUN = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
"""What a body that has not run gives."""


def check_ran(result: Any, place: str) -> None:
    """Raises ConfigError for a generator and a coroutine, given by a callable that is called for its effect."""
    if isinstance(result, types.CoroutineType):
        result.close()  # else Python warns later that nobody awaited it
    if isinstance(result, _UNRUN):
        got, next_step = f"a {type(result).__name__} that nobody runs", "write def, and no yield"
        raise ConfigError(place, "a callable that does its work when it is called", got, next_step)


def check_nothing_returned(result: Any, function: Any, place: str) -> None:
    """Raises ConfigError for a ``result`` of a processor's call, to which nothing would happen. A lambda cannot but
    give what it calls gives; of it only what was meant to be forwarded is refused.
    """
    check_ran(result, place)
    is_lambda = getattr(function, "__name__", "") == "<lambda>"
    if result is None or (is_lambda and not hasattr(result, "with_value")):
        return
    got = f"{name_of(function)} that returns {shown(result)}"
    raise ConfigError(place, "a processor that forwards its results", got, "call self.context.forward(record) instead")


_UNORDERED: tuple[type, ...] = (set, frozenset, type(iter(frozenset(""))))


def several(given: Any, place: str, example: str) -> Iterable[Any]:
    """What a callable of a flat map gives, to be iterated once, in its order. ``example``: of what it is to return.

    Raises ConfigError for text, bytes and a mapping, of which Python would iterate letters, numbers and keys; and for
    what cannot be iterated. Also for a set and its iterator, whose order differs from run to run.
    """
    if isinstance(given, (str, bytes, bytearray, Mapping, *_UNORDERED)) or not isinstance(given, Iterable):
        next_step = "return [] where no record is meant" if given is None else f"return {example}"
        if isinstance(given, _UNORDERED):
            next_step = "a set has another order in every run: return sorted(…) of it"
        raise ConfigError(
            place, "a list of results for each record", f"{shown(given)} ({type(given).__name__})", next_step
        )
    return given


def name_of(function: Any) -> str:
    """What a user calls it: "str.split", "Adder" of an object, "a lambda"."""
    if isinstance(function, functools.partial):
        return f"partial({name_of(function.func)}, …)"
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return "a lambda" if name.endswith("<lambda>") else name.rpartition("<locals>.")[2]


def _forgets_return(function: types.FunctionType) -> bool:
    """Of a function without text, as in a console, False. A decorator's wrapper forgets it where what it wraps does, if
    it returns nothing but that one's results.
    """
    try:
        # By its code: of the function itself, inspect gives the text of what it wraps.
        parsed = ast.parse(textwrap.dedent(inspect.getsource(function.__code__)))
    except (OSError, TypeError, SyntaxError):
        return False
    definition = parsed.body[0] if len(parsed.body) == 1 else None
    if not isinstance(definition, ast.FunctionDef) or inspect.isgeneratorfunction(function):
        return False
    statements = [one for one in definition.body if not _is_empty(one)]
    returns = [one for statement in statements for one in _returns(statement)]
    if not returns:
        return bool(statements) and not isinstance(statements[-1], ast.Raise)
    wrapped = getattr(function, "__wrapped__", None)
    if not isinstance(wrapped, types.FunctionType):
        return False
    names = [name for name, one in inspect.getclosurevars(function).nonlocals.items() if one is wrapped]
    calls = [one.value.func for one in returns if isinstance(one.value, ast.Call)]
    passes_results = len(calls) == len(returns) and all(isinstance(f, ast.Name) and f.id in names for f in calls)
    return passes_results and _forgets_return(wrapped)


def _changed_only(function: types.FunctionType) -> str | None:
    """What a lambda calls, as it is written, if it is one of _IN_PLACE of a parameter or of a part of one."""
    steps = list(dis.get_instructions(function))
    at = steps[-2].positions if len(steps) > 1 and steps[-2].opname.startswith("CALL") else None
    if at is None or at.lineno is None or at.end_lineno is None or any(step.is_jump_target for step in steps):
        return None
    lines = [line.encode() for line in linecache.getlines(function.__code__.co_filename)[at.lineno - 1 : at.end_lineno]]
    if not lines:
        return None
    lines[-1] = lines[-1][: at.end_col_offset]
    lines[0] = lines[0][at.col_offset :]
    text = b"".join(lines).decode(errors="replace")
    try:
        call = ast.parse(f"({text})", mode="eval").body
    except SyntaxError:
        return None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _IN_PLACE):
        return None
    owner = call.func.value
    while isinstance(owner, ast.Subscript):
        owner = owner.value
    given = function.__code__.co_varnames[: function.__code__.co_argcount]
    return text if isinstance(owner, ast.Name) and owner.id in given else None


def _is_empty(statement: ast.stmt) -> bool:
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant or isinstance(statement, _EMPTY)


def _returns(node: ast.AST) -> Iterator[ast.Return]:
    """Each ``return`` in it that is not one of a function within."""
    if isinstance(node, ast.Return):
        yield node
    elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        for inner in ast.iter_child_nodes(node):
            yield from _returns(inner)
