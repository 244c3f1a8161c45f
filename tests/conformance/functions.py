"""The scenario language's named functions: as polars expressions where these are exact, else as Python callables.

Rule: ``num`` of null is 0, of an integer itself, of a string its number of code points; ``str`` of null is ``null``, of
an integer its digits, of a string itself. Written ``name`` or ``name:argument``.
"""

from collections.abc import Callable
from typing import Any

import polars as pl

from jobs.expressions import Shape
from jobs.folds.fold import Fold
from jobs.topology import Serde, fold

_KEY, _VALUE = pl.col("record_key"), pl.col("value")
LONG, STRING, VARIANT = Serde.long(), Serde.string(), Serde.variant()


class NotCovered(Exception):
    """A scenario asks for something that this project does not have."""


def split(function: str) -> tuple[str, str]:
    """(name, argument); the argument is all after the first colon."""
    name, _, argument = function.partition(":")
    return name, argument


# --- values as numbers and as text ---------------------------------------------------------------------------


def num(value: Any) -> int:
    if value is None:
        return 0
    return value if isinstance(value, int) else len(value)


def text(value: Any) -> str:
    return "null" if value is None else str(value)


def num_of(shape: Shape) -> pl.Expr:
    """``num`` of the value as a column, never null."""
    if shape.value == LONG:
        return _VALUE.fill_null(0)
    if shape.value == STRING:
        return _VALUE.str.len_chars().cast(pl.Int64).fill_null(0)
    parts = _VALUE.struct.field("long"), _VALUE.struct.field("string").str.len_chars().cast(pl.Int64)
    return pl.coalesce(*parts, pl.lit(0, pl.Int64))


def text_of(shape: Shape) -> pl.Expr:
    """``str`` of the value as a column, but null for null."""
    if shape.value == LONG:
        return _VALUE.cast(pl.String)
    if shape.value == STRING:
        return _VALUE
    return pl.coalesce(_VALUE.struct.field("long").cast(pl.String), _VALUE.struct.field("string"))


def is_there(shape: Shape) -> pl.Expr:
    """Is the value not null? (A variant is a struct, of which one field is set.)"""
    return text_of(shape).is_not_null()


# --- selectors, predicates, mappers --------------------------------------------------------------------------


def selector(function: str, shape: Shape) -> pl.Expr:
    """New key, a string or null."""
    name, argument = split(function)
    match name:
        case "key":
            return _KEY
        case "key_window" if shape.window is None:
            return _KEY
        case "key_window":
            return pl.format("{}@{}/{}", _KEY, pl.col("window_start_ms"), pl.col("window_end_ms"))
        case "const":
            return pl.lit(argument)
        case "value":
            return text_of(shape)
        case "field":
            return _field(shape, int(argument))
        case "prefix":
            return _unless_empty(text_of(shape).str.slice(0, int(argument)))
        case "mod":
            return pl.when(is_there(shape)).then((num_of(shape) % int(argument)).cast(pl.String))
    raise NotCovered(f"selector {function}")


def predicate(function: str, shape: Shape) -> pl.Expr:
    """A condition; those that begin with ``value_`` are false of a null value."""
    name, argument = split(function)
    conditions: dict[str, Callable[[], pl.Expr]] = {
        "true": lambda: pl.lit(True),
        "false": lambda: pl.lit(False),
        "value_not_null": lambda: is_there(shape),
        "value_even": lambda: num_of(shape) % 2 == 0,
        "value_odd": lambda: num_of(shape) % 2 != 0,
        "value_gt": lambda: num_of(shape) > int(argument),
        "value_lt": lambda: num_of(shape) < int(argument),
        "value_contains": lambda: text_of(shape).str.contains(argument, literal=True),
        "key_eq": lambda: _KEY.eq_missing(pl.lit(argument)),
        "key_ne": lambda: _KEY.ne_missing(pl.lit(argument)),
    }
    if name not in conditions:
        raise NotCovered(f"predicate {function}")
    return conditions[name]() & is_there(shape) if name.startswith("value_") else conditions[name]()


def mapper(function: str, shape: Shape) -> pl.Expr:
    """New value; null for null, since an expression maps a tombstone to a tombstone."""
    name, argument = split(function)
    mappers: dict[str, Callable[[], pl.Expr]] = {
        "identity": lambda: _VALUE,
        "add": lambda: num_of(shape) + int(argument),
        "mul": lambda: num_of(shape) * int(argument),
        "mod": lambda: num_of(shape) % int(argument),
        "length": lambda: text_of(shape).str.len_chars().cast(pl.Int64),
        "to_string": lambda: text_of(shape),
        "append": lambda: text_of(shape) + pl.lit(argument),
        "prepend": lambda: pl.lit(argument) + text_of(shape),
        "field": lambda: _field(shape, int(argument)),
        "null_if_even": lambda: pl.when(num_of(shape) % 2 != 0).then(_VALUE),
        "null_if_odd": lambda: pl.when(num_of(shape) % 2 == 0).then(_VALUE),
    }
    if name not in mappers:
        raise NotCovered(f"mapper {function}")
    return mappers[name]()


def _field(shape: Shape, number: int) -> pl.Expr:
    return _unless_empty(text_of(shape).str.split("|").list.get(number, null_on_oob=True))


def _unless_empty(column: pl.Expr) -> pl.Expr:
    return pl.when(column != "").then(column)


# --- aggregates ----------------------------------------------------------------------------------------------


def compiled_fold(function: str, shape: Shape) -> Fold | None:
    """The built-in fold of an aggregate function, or None where there is none."""
    folds: dict[str, Callable[[], Fold]] = {
        "count": fold.count,
        "sum": lambda: fold.sum(num_of(shape)),
        "min": lambda: fold.min(num_of(shape)),
        "max": lambda: fold.max(num_of(shape)),
    }
    return folds[function]() if function in folds else None


REDUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "first": lambda one, other: one,
    "last": lambda one, other: other,
    "concat": lambda one, other: text(one) + text(other),
    "sum": lambda one, other: num(one) + num(other),
}


def reduced(reducer: str, value: Serde) -> Serde:
    """Serde of the aggregate: the first value is taken as it is, what follows may be of another type."""
    if reducer in ("first", "last") or (reducer, value) in (("concat", STRING), ("sum", LONG)):
        return value
    return VARIANT
