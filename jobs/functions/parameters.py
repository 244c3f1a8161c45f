"""How a callable of the user's is called, decided when the topology is built.

Rule: a callable is called with what one of its *forms* names, each a tuple of parameters such as ("key", "value"): the
form of as many parameters as the callable *requires* by position. A parameter with a default keeps its default, as in
``lambda value, limit=limit: value > limit``. A callable that requires none, or takes ``*rest``, is of the only form
that it can be called with. What may be meant in several ways is refused, and so is what nobody runs: ``async def``, and
a generator where a value is wanted.

This is the only place where a signature is read to decide what a callable is given.
"""

import functools
import inspect
import math
import operator
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...state.errors import TopologyError
from .callable_bodies import EFFECT, FORWARD, RETURN, check_body, check_returns, name_of
from .decorated_functions import called_by

Form = tuple[str, ...]

NOTHING: Form = ()
KEY_VALUE: Form = ("key", "value")
VALUE: Form = ("value",)
KEY_VALUE_CONTEXT: Form = ("key", "value", "context")
LEFT_RIGHT: Form = ("left", "right")
KEY_LEFT_RIGHT: Form = ("key", "left", "right")
REDUCER: Form = ("aggregate", "value")
AGGREGATOR: Form = ("key", "value", "aggregate")
MERGER: Form = ("key", "one", "other")
PARTITIONER: Form = ("topic", "key", "value", "partitions")

_CONVERSIONS = (str, bytes, bytearray, int, float, complex, list, tuple, set, frozenset, dict)
"""Classes that convert one value, or without any give an empty one. Which have a signature depends on Python."""

_GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
"""Callable objects of one value, which have no signature before Python 3.13."""


@dataclass(frozen=True)
class _Positions:
    """What a callable takes by position: at least ``required`` and at most ``most``. ``takes_rest``: ``*rest``, too;
    ``by_keyword``: what it requires by keyword, which no call gives.
    """

    required: int
    most: float
    takes_rest: bool = False
    by_keyword: tuple[str, ...] = ()

    def may_be(self, form: Form) -> bool:
        """Whether Python could call it with the form's parameters."""
        return not self.by_keyword and self.required <= len(form) <= self.most


def form_of(function: Any, place: str, *forms: Form, may_yield: bool = False, gives: bool = True) -> Form:
    """The one of ``forms`` that ``function`` is called with. ``may_yield``: a generator function is one that gives any
    number of values; ``gives``: its result is used.

    Raises TopologyError for what cannot be called, and for a callable of other parameters or of several forms. Also
    for ``async def``, for a generator function that may not yield, and for a function that gives nothing.
    """
    if not callable(function):
        raise TopologyError(place, f"a callable of {_said(forms)}", repr(function), "give a Python function")
    check_body(function, place, may_yield=may_yield, instead=RETURN if gives else EFFECT)
    if gives:
        check_returns(function, place)
    takes = _positions(function)
    if takes is None:
        if len(forms) == 1:
            return forms[0]
        raise _refused(function, place, forms, f"{name_of(function)}, whose parameters Python does not know", forms)
    same = [form for form in forms if len(form) == takes.required and takes.may_be(form)]
    if same:
        return same[0]
    possible = [form for form in forms if takes.may_be(form)]
    if len(possible) == 1 and (takes.takes_rest or takes.required == 0):
        return possible[0]
    raise _refused(function, place, forms, f"{_written(function)}", possible)


def object_of(given: Any, place: str) -> Any:
    """An object of a class, as Kafka makes one of a setting that names it; another value as it is. Raises
    TopologyError for a class that cannot be made without arguments.
    """
    if not isinstance(given, type):
        return given
    if (takes := _positions(given)) is not None and not takes.may_be(NOTHING):
        got, next_step = _written(given), f"give an object of it: {given.__name__}(…)"
        raise TopologyError(place, "a class that is made without arguments", got, next_step)
    return given()


def check_supplier(supplier: Any, place: str, *methods: str) -> None:
    """Raises TopologyError for a supplier that takes parameters, for one that gives the same object twice, which is
    asked as Kafka does (ApiUtils.checkSupplier), and where one of ``methods`` is ``async`` or yields.
    """
    if isinstance(supplier, type) and (takes := _positions(supplier)) is not None and not takes.may_be(NOTHING):
        got, next_step = f"{_written(supplier)}", f"give its arguments: lambda: {supplier.__name__}(…)"
        raise TopologyError(place, "a supplier without parameters, such as a class without arguments", got, next_step)
    expected = f"a callable of {_said((NOTHING,))}"
    if not callable(supplier):
        name = type(supplier).__name__
        if callable(getattr(supplier, methods[-1], None)):
            next_step = f"every task makes its own: write {name}, or lambda: {name}(…)"
            raise TopologyError(place, expected, f"an object of {name}", next_step)
        if callable(getattr(supplier, "get", None)):
            raise TopologyError(place, expected, f"an object of {name}", "give its method get, without ()")
    if isinstance(supplier, types.FunctionType) and (takes := _positions(supplier)) and takes.required:
        next_step = f"give a class with {methods[-1]}(); a function of records is for map_values(), foreach() and so on"
        raise TopologyError(place, expected, _written(supplier), next_step)
    form_of(supplier, place, NOTHING)
    cls = supplier.func if isinstance(supplier, functools.partial) else supplier
    if not isinstance(cls, type):
        one, other = supplier(), supplier()
        if one is other and one is not None:
            got, next_step = (
                f"{name_of(supplier)}, which gives the same one",
                "make it within, as in lambda: MyProcessor()",
            )
            raise TopologyError(place, "a supplier that gives a new object whenever it is called", got, next_step)
        cls = type(one)
    for method in methods:
        if callable(body := getattr(cls, method, None)):
            check_body(body, place, instead=FORWARD)


def of_key_and_value(
    function: Any, place: str, *, may_take_value: bool = False, may_yield: bool = False, gives: bool = True
) -> Callable[[Any, Any], Any]:
    """``function`` as one of (key, value). ``may_take_value``: it may be one of the value alone; ``may_yield`` and
    ``gives``: as of ``form_of``, whose errors it raises.
    """
    forms = (KEY_VALUE, VALUE) if may_take_value else (KEY_VALUE,)
    called: Callable[[Any, Any], Any] = function
    return (
        _of_value(function) if form_of(function, place, *forms, may_yield=may_yield, gives=gives) is VALUE else called
    )


def _of_value(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """A function and no object, so that what it encloses is compared when code changes."""

    def called(key: Any, value: Any) -> Any:
        return function(value)

    called.__name__ = called.__qualname__ = getattr(function, "__name__", type(function).__name__)
    return called


def _positions(function: Any) -> _Positions | None:
    """None where Python does not know them, as of some functions written in C."""
    if isinstance(function, functools.partial):
        if (inner := _positions_by_kind(function.func)) is not None:
            given = len(function.args)
            return _Positions(max(inner.required - given, 0), inner.most - given)
    elif (known := _positions_by_kind(function)) is not None:
        return known
    try:
        signature = _own_signature(function)
    except (TypeError, ValueError):
        return None
    required, most, by_keyword = 0, 0.0, []
    for each in signature.parameters.values():
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
            most += 1
            required += each.default is each.empty
        elif each.kind is each.KEYWORD_ONLY and each.default is each.empty:
            by_keyword.append(each.name)
    takes_rest = any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values())
    return _Positions(required, math.inf if takes_rest else most, takes_rest, tuple(by_keyword))


def _positions_by_kind(function: Any) -> _Positions | None:
    """Of the kinds of callables that have no signature in some versions of Python."""
    if isinstance(function, _GETTERS):
        return _Positions(1, 1)
    if function in (bool, *_CONVERSIONS) or (isinstance(function, type) and _converts(function)):
        return _Positions(0, 1)
    return None


def _converts(cls: type) -> bool:
    """Whether ``cls`` is one of a conversion's, with its parameters."""

    def made_by(one: type) -> tuple[Any, ...]:
        return tuple(getattr(one, name) for name in ("__new__", "__init__"))

    return any(issubclass(cls, one) and made_by(cls) == made_by(one) for one in _CONVERSIONS)


def _own_signature(function: Any) -> inspect.Signature:
    """How ``function`` itself is called. Of a decorator that passes all on, the signature of what it wraps."""
    return inspect.signature(called_by(function), follow_wrapped=False)


def _refused(function: Any, place: str, forms: tuple[Form, ...], got: str, possible: Any) -> TopologyError:
    """``possible``: the forms with which Python could call it."""
    next_step = "correct its parameters"
    if (takes := _positions(function)) is not None and takes.by_keyword:
        next_step = f"no call gives {', '.join(takes.by_keyword)} by name: take it by position, or give it a default"
    if possible:
        next_step = f"write {' or '.join(_reading(function, form) for form in possible)}"
    if len(forms) == 1 and possible:
        next_step = f"a parameter with a default keeps it: {next_step}, with what you mean"
    return TopologyError(place, f"a callable of {_said(forms)}", got, next_step)


def _reading(function: Any, form: Form) -> str:
    is_code = isinstance(function, type | types.FunctionType | types.BuiltinFunctionType | types.MethodDescriptorType)
    is_bound = not isinstance(getattr(function, "__self__", None), type(None) | type | types.ModuleType)
    name = name_of(function)
    name = name if is_code and not is_bound and name.replace(".", "").isidentifier() else "f"
    arguments = ", ".join(form)
    return f"lambda {arguments}: {name}({arguments})" if form else f"lambda: {name}()"


def _written(function: Any) -> str:
    try:
        signature = str(_own_signature(function))
    except (TypeError, ValueError):
        signature = ""
    name = name_of(function)
    return f"{name} of {signature}" if name == "a lambda" else f"{name}{signature}"


def _said(forms: tuple[Form, ...]) -> str:
    return " or of ".join("no parameters" if not form else f"({', '.join(form)})" for form in forms)
