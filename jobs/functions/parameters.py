"""How many parameters a callable of the user's takes, looked at when the topology is built.

Rule: a callable is called with what one of its *forms* names, each a tuple of parameters such as ("key", "value"). It
is of the first form that fits it; where Python does not know its parameters, as of some built-in functions, it is taken
as it is.
"""

import inspect
from collections.abc import Callable
from typing import Any

from ...state.errors import TopologyError

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


def form_of(function: Any, place: str, *forms: Form) -> Form:
    """The first of ``forms`` that ``function`` can be called with. Raises TopologyError for what cannot be called, and
    for a callable of other parameters.
    """
    if not callable(function):
        raise TopologyError(place, f"a callable of {_said(forms)}", repr(function), "give a Python function")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return forms[0]
    for form in forms:
        try:
            signature.bind(*form)
        except TypeError:
            continue
        return form
    name = getattr(function, "__name__", type(function).__name__)
    got = f"a lambda of {signature}" if name == "<lambda>" else f"{name}{signature}"
    raise TopologyError(place, f"a callable of {_said(forms)}", got, "correct its parameters")


def of_key_and_value(function: Any, place: str, *, may_take_value: bool = False) -> Callable[[Any, Any], Any]:
    """``function`` as one of (key, value). ``may_take_value``: it may be one of the value alone.

    Raises TopologyError as ``form_of``.
    """
    forms = (KEY_VALUE, VALUE) if may_take_value else (KEY_VALUE,)
    found: Callable[[Any, Any], Any] = function
    return _of_value(function) if form_of(function, place, *forms) is VALUE else found


def _of_value(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """A function and no object, so that what it encloses is compared when code changes."""

    def called(key: Any, value: Any) -> Any:
        return function(value)

    called.__name__ = called.__qualname__ = getattr(function, "__name__", type(function).__name__)
    return called


def _said(forms: tuple[Form, ...]) -> str:
    return " or of ".join("no parameters" if not form else f"({', '.join(form)})" for form in forms)
