"""Steps of the DSL, bound to the records that they see: a polars expression, an SQL string or a Python callable.

Rule: a callable needs ``returns``, the serde of what it gives.
"""

from collections.abc import Callable
from typing import Any

import polars as pl

from ....state.errors import ConfigError, TopologyError
from ....state.serdes import Serde
from ....state.times import Duration, duration_ms
from ...functions.expressions import Call, Expressible, Expression, Shape, Struct, bind, bind_predicate, bind_struct

Step = Expressible | Callable[[Any, Any], Any]
"""Of (key, value) when it is a callable."""


def bind_step(step: Step, shape: Shape, returns: Serde | None, place: str) -> Expression | Call:
    """Raises TopologyError for anything else, and for a callable without ``returns``."""
    if isinstance(step, str | pl.Expr):
        return bind(step, shape, place)
    if not callable(step):
        expected = "an expression, SQL text or a callable of (key, value)"
        raise TopologyError(place, expected, repr(step), "correct the step")
    if returns is None:
        raise TopologyError(place, "returns= beside a Python callable", "none", "give the serde of the result")
    return Call(step, shape, returns, place)


def bind_condition(step: Step, shape: Shape, place: str) -> Expression | Call:
    """A step that gives a boolean."""
    if isinstance(step, str | pl.Expr):
        return bind_predicate(step, shape, place)
    return bind_step(step, shape, Serde.boolean(), place)


def bind_mapper(
    steps: tuple[Step, ...], columns: dict[str, Expressible], returns: Serde | None, shape: Shape, place: str
) -> Expression | Struct | Call:
    """One step gives a plain value; several, or named ones, the fields of a struct."""
    if len(steps) == 1 and not columns:
        return bind_step(steps[0], shape, returns, place)
    if not steps and not columns:
        raise TopologyError(place, "at least one step", "none", 'give for example "air_time / 60 AS hours"')
    struct: dict[str, Expression] = {}
    for step in steps:
        bound = bind_step(step, shape, returns, place)
        if not isinstance(bound, Expression):
            raise TopologyError(place, "expressions side by side", "a Python callable", "give the callable alone")
        if bound.name in struct | columns:
            next_step = "name one of them anew, with .alias() or AS"
            raise TopologyError(place, "fields of different names", f"{bound.name!r} twice", next_step)
        struct[bound.name] = bound
    return bind_struct(struct | {column: bind(step, shape, place) for column, step in columns.items()}, place)


def whole_value(shape: Shape, place: str) -> Expression | Struct:
    """The value as it is."""
    if not shape.value.is_struct:
        return bind("value", shape, place)
    return bind_struct({name: bind(pl.col(name), shape, place) for name in shape.fields()}, place)


def plain_key(shape: Shape, place: str, purpose: str) -> None:
    """Raises TopologyError when the key is windowed."""
    if shape.window is not None:
        next_step = 'use select_key("record_key") first'
        raise TopologyError(place, f"a plain key to {purpose}", "a windowed key", next_step)


def same_keys(left: Shape, right: Shape, place: str) -> None:
    """Raises TopologyError when keys of the two never compare."""
    if (left.key, left.window) != (right.key, right.window):
        raise TopologyError(place, f"keys of {_key(left)} on both sides", _key(right), "select keys of one type")


def _key(shape: Shape) -> str:
    return str(shape.key) if shape.window is None else f"{shape.key}, windowed ({shape.window})"


def not_negative(duration: Duration, place: str) -> int:
    """``duration`` in milliseconds, 0 or more, else ConfigError."""
    found = duration_ms(duration, place)
    if found < 0:
        raise ConfigError(place, "0 ms or more", f"{found} ms", "correct the duration")
    return found


def check_callable(function: Any, place: str) -> None:
    """Raises TopologyError for what cannot be called."""
    if not callable(function):
        raise TopologyError(place, "a callable", repr(function), "give a Python function")


def check_initializer(initializer: Callable[[], Any], returns: Serde, place: str) -> None:
    """Raises TopologyError when it does not give something of ``returns``."""
    try:
        returns.from_python([initializer()])
    except Exception as error:
        got = error.got if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
        raise TopologyError(place, f"an initial value of {returns}", got, "correct the initializer") from error
