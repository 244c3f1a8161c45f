"""The scenario language's named functions as polars expressions, exact for longs, strings and variants.

Rule: ``num`` of null is 0, of an integer itself, of a string its number of code points; ``str`` of null is ``null``, of
an integer its digits, of a string itself. Written ``name`` or ``name:argument``. Aggregates are in aggregates.py.
"""

from collections.abc import Callable
from typing import Any

import polars as pl

from kstreams_replay.jobs.functions.expressions import Shape, Windowed
from kstreams_replay.jobs.functions.processor_api import ValueTransformerWithKey
from kstreams_replay.jobs.topology import Serde

_KEY, _VALUE, _PARTITION_TIME = pl.col("record_key"), pl.col("value"), pl.col("partition_time_ms")
LONG, STRING, VARIANT = Serde.long(), Serde.string(), Serde.variant()


class NotCovered(Exception):
    """A scenario asks for something that this project does not have."""


def split(function: str) -> tuple[str, str]:
    """(name, argument); the argument is all after the first colon."""
    name, _, argument = function.partition(":")
    return name, argument


# --- values as numbers and as text ---------------------------------------------------------------------------


def num_of(column: pl.Expr, serde: Serde) -> pl.Expr:
    """``num`` of a column of values, never null."""
    if serde == LONG:
        return column.fill_null(0)
    if serde == STRING:
        return column.str.len_chars().cast(pl.Int64).fill_null(0)
    parts = column.struct.field("long"), column.struct.field("string").str.len_chars().cast(pl.Int64)
    return pl.coalesce(*parts, pl.lit(0, pl.Int64))


def text_of(column: pl.Expr, serde: Serde) -> pl.Expr:
    """``str`` of a column of values, but null for null."""
    if serde == LONG:
        return column.cast(pl.String)
    if serde == STRING:
        return column
    return pl.coalesce(column.struct.field("long").cast(pl.String), column.struct.field("string"))


def variant_of(serde: Serde) -> pl.Expr:
    """The value, of a long or a string, as a variant."""
    longs, strings = pl.lit(None, pl.Int64), pl.lit(None, pl.String)
    parts = (_VALUE, strings) if serde == LONG else (longs, _VALUE)
    return pl.struct(parts[0].alias("long"), parts[1].alias("string"))


def _num(shape: Shape) -> pl.Expr:
    return num_of(_VALUE, shape.value)


def _text(shape: Shape) -> pl.Expr:
    return text_of(_VALUE, shape.value)


def _is_there(shape: Shape) -> pl.Expr:
    """Is the value not null? (A variant is a struct, of which one field is set.)"""
    return _text(shape).is_not_null()


# --- extractors, selectors, predicates, mappers, joiners -----------------------------------------------------


def extractor(function: str, shape: Shape) -> pl.Expr:
    """Time of a record of a topic."""
    name, argument = split(function)
    match name:
        case "value":
            return _num(shape)
        case "value_or_partition":
            return pl.when(_is_there(shape)).then(_num(shape)).otherwise(_PARTITION_TIME)
        case "shift":
            return pl.col("record_time_ms") + int(argument)
        case "partition_plus":
            return _PARTITION_TIME + int(argument)
    raise NotCovered(f"extractor {function}")


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
            return _text(shape)
        case "field":
            return _field(shape, int(argument))
        case "prefix":
            return _unless_empty(_text(shape).str.slice(0, int(argument)))
        case "mod":
            return pl.when(_is_there(shape)).then((_num(shape) % int(argument)).cast(pl.String))
    raise NotCovered(f"selector {function}")


def _unless_asked_to_fail(argument: str) -> Callable[[Any], None]:
    def look(value: Any) -> None:
        number = 0 if value is None else value if isinstance(value, int) else len(value)
        if number == int(argument):
            raise RuntimeError("asked to fail")

    return look


def predicate(function: str, shape: Shape) -> pl.Expr | Callable[..., bool]:
    """A condition; those that begin with ``value_`` are false of a null value."""
    name, argument = split(function)
    if name == "fail_on":
        look = _unless_asked_to_fail(argument)
        return lambda key, value: look(value) is None
    conditions: dict[str, Callable[[], pl.Expr]] = {
        "true": lambda: pl.lit(True),
        "false": lambda: pl.lit(False),
        "value_not_null": lambda: _is_there(shape),
        "value_even": lambda: _num(shape) % 2 == 0,
        "value_odd": lambda: _num(shape) % 2 != 0,
        "value_gt": lambda: _num(shape) > int(argument),
        "value_lt": lambda: _num(shape) < int(argument),
        "value_contains": lambda: _text(shape).str.contains(argument, literal=True),
        "key_eq": lambda: _KEY.eq_missing(pl.lit(argument)),
        "key_ne": lambda: _KEY.ne_missing(pl.lit(argument)),
    }
    if name not in conditions:
        raise NotCovered(f"predicate {function}")
    return conditions[name]() & _is_there(shape) if name.startswith("value_") else conditions[name]()


def mapper(function: str, shape: Shape) -> pl.Expr | Callable[..., Any]:
    """New value; null for null, since an expression maps a tombstone to a tombstone."""
    name, argument = split(function)
    if name == "fail_on":
        look = _unless_asked_to_fail(argument)
        return lambda value: value if value is None else (look(value), value)[1]
    mappers: dict[str, Callable[[], pl.Expr]] = {
        "identity": lambda: _VALUE,
        "add": lambda: _num(shape) + int(argument),
        "mul": lambda: _num(shape) * int(argument),
        "mod": lambda: _num(shape) % int(argument),
        "length": lambda: _text(shape).str.len_chars().cast(pl.Int64),
        "to_string": lambda: _text(shape),
        "append": lambda: _text(shape) + pl.lit(argument),
        "prepend": lambda: pl.lit(argument) + _text(shape),
        "field": lambda: _field(shape, int(argument)),
        "null_if_even": lambda: pl.when(_num(shape) % 2 != 0).then(_VALUE),
        "null_if_odd": lambda: pl.when(_num(shape) % 2 == 0).then(_VALUE),
    }
    if name not in mappers:
        raise NotCovered(f"mapper {function}")
    return mappers[name]()


class TextTransformer(ValueTransformerWithKey):
    """A value as text, with what the context knows; ``function`` as of mappers, but null is seen, too."""

    def __init__(self, function: str) -> None:
        self.name, self.argument = split(function)
        if self.name not in ("tell", "from", "or", "after"):
            raise NotCovered(f"transformer {function}")

    def transform(self, key: Any, value: Any) -> str | None:
        text, plain = "null" if value is None else str(value), key.key if isinstance(key, Windowed) else key
        if self.name == "tell":
            return f"{plain}={text}@{self.context.timestamp_ms}"
        if self.name == "from":
            place = self.context.record_metadata
            return f"{text} of null:-1" if place is None else f"{text} of {place.topic}:{place.offset}"
        if self.name == "or":
            return self.argument if value is None else text
        return text if self.context.timestamp_ms > int(self.argument) else None


def joiner(function: str, left: Serde, right: Serde) -> pl.Expr | Callable[..., str]:
    """Joined value; a missing side is null."""
    name, argument = split(function)
    if name == "pair_but":
        look = _unless_asked_to_fail(argument)
        return lambda one, other: (look(other), f"({_said(one)},{_said(other)})")[1]
    if name == "keyed":
        return lambda key, one, other: f"{_said(key)}=({_said(one)},{_said(other)})"
    sides = [(pl.col("left"), left), (pl.col("right"), right)]
    joiners: dict[str, Callable[[], pl.Expr]] = {
        "pair": lambda: pl.format("({},{})", *(text_of(*side).fill_null("null") for side in sides)),
        "sum": lambda: num_of(*sides[0]) + num_of(*sides[1]),
        "left": lambda: sides[0][0],
        "right": lambda: sides[1][0],
    }
    if function not in joiners:
        raise NotCovered(f"joiner {function}")
    return joiners[function]()


def _said(value: Any) -> str:
    return "null" if value is None else str(value)


def _field(shape: Shape, number: int) -> pl.Expr:
    return _unless_empty(_text(shape).str.split("|").list.get(number, null_on_oob=True))


def _unless_empty(column: pl.Expr) -> pl.Expr:
    return pl.when(column != "").then(column)
