"""The scenario language's aggregate functions: built-in folds where these are exact, else Python callables.

Rule: of streams with initial value, what a record adds, and how sessions merge; of grouped tables with adder and
subtractor. A reduce has no initial value: the first value is the aggregate as it is.
"""

from collections.abc import Callable
from typing import Any

import polars as pl

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.functions.folds.fold import Fold
from kstreams_replay.jobs.topology import (
    KGroupedStream,
    KGroupedTable,
    KTable,
    Materialized,
    Serde,
    SessionWindows,
    fold,
)
from tests.conformance.functions import LONG, STRING, VARIANT, NotCovered, num_of, split, text_of

_VALUE = pl.col("value")
Reducer = Callable[[Any, Any], Any]


def num(value: Any) -> int:
    if value is None:
        return 0
    return value if isinstance(value, int) else len(value)


def text(value: Any) -> str:
    return "null" if value is None else str(value)


# --- of streams ----------------------------------------------------------------------------------------------

REDUCERS: dict[str, Reducer] = {
    "first": lambda one, other: one,
    "last": lambda one, other: other,
    "concat": lambda one, other: text(one) + text(other),
    "sum": lambda one, other: num(one) + num(other),
}


def of_stream(function: str, grouped: KGroupedStream, materialized: Materialized) -> KTable:
    """``function`` over a grouped stream, windowed or not."""
    built_in = compiled_fold(function, grouped.shape)
    if built_in is not None:
        return grouped.aggregate(built_in, materialized=materialized)
    if function == "concat":
        return grouped.aggregate(
            initializer=lambda: "",
            aggregator=lambda key, value, aggregate: aggregate + text(value) + ";",
            merger=_of_sessions(grouped, lambda key, one, other: one + other),
            returns=STRING,
            materialized=materialized,
        )
    if function.startswith("sum_but:"):
        add = _sum_but(function)
        return grouped.aggregate(
            initializer=lambda: 0,
            aggregator=lambda key, value, aggregate: add(aggregate, value),
            merger=_of_sessions(grouped, lambda key, one, other: one + other),
            returns=LONG,
            materialized=materialized,
        )
    reducer = _of_reduce(function, REDUCERS)
    return _reduce(grouped, reducer, _reduced(function, grouped.shape.value), materialized)


def _of_sessions(grouped: KGroupedStream, merger: Callable[..., Any]) -> Callable[..., Any] | None:
    return merger if isinstance(grouped.windows, SessionWindows) else None


def _sum_but(function: str, sign: int = 1) -> Reducer:
    """A sum that fails on one number."""
    number = int(split(function)[1])

    def add(aggregate: int, value: Any) -> int:
        if num(value) == number:
            raise RuntimeError("asked to fail")
        return aggregate + sign * num(value)

    return add


def compiled_fold(function: str, shape: Shape) -> Fold | None:
    """The built-in fold of an aggregate function, or None where there is none."""
    folds: dict[str, Callable[[], Fold]] = {
        "count": fold.count,
        "sum": lambda: fold.sum(num_of(_VALUE, shape.value)),
        "min": lambda: fold.min(num_of(_VALUE, shape.value)),
        "max": lambda: fold.max(num_of(_VALUE, shape.value)),
    }
    return folds[function]() if function in folds else None


def _reduce(grouped: KGroupedStream, reduce: Reducer, returns: Serde, materialized: Materialized) -> KTable:
    if returns == grouped.shape.value:
        return grouped.reduce(reduce, materialized=materialized)
    return grouped.aggregate(
        initializer=lambda: None,
        aggregator=lambda key, value, aggregate: value if aggregate is None else reduce(aggregate, value),
        merger=_of_sessions(grouped, lambda key, one, other: other if one is None else reduce(one, other)),
        returns=returns,
        materialized=materialized,
    )


# --- of grouped tables ---------------------------------------------------------------------------------------

TABLE_REDUCERS: dict[str, tuple[Reducer, Reducer]] = {
    "first": (lambda aggregate, value: aggregate, lambda aggregate, value: aggregate),
    "last": (lambda aggregate, value: value, lambda aggregate, value: aggregate),
    "concat": (
        lambda aggregate, value: f"{text(aggregate)}+{text(value)}",
        lambda aggregate, value: f"{text(aggregate)}-{text(value)}",
    ),
    "sum": (
        lambda aggregate, value: num(aggregate) + num(value),
        lambda aggregate, value: num(aggregate) - num(value),
    ),
}


def of_table(function: str, grouped: KGroupedTable, materialized: Materialized) -> KTable:
    """``function`` over a grouped table."""
    value = grouped.shape.value
    if function.startswith("fold:"):
        return _folded(split(function)[1], grouped, materialized)
    if function == "count":
        return grouped.count(materialized=materialized)
    if function == "sum" and value == LONG:
        return grouped.sum(materialized=materialized)
    if function == "sum":
        add, subtract = TABLE_REDUCERS["sum"]
        return _aggregate(grouped, lambda: 0, add, subtract, LONG, materialized)
    if function == "concat":
        add, subtract = (lambda a, v: f"{a}+{text(v)};"), (lambda a, v: f"{a}-{text(v)};")
        return _aggregate(grouped, lambda: "", add, subtract, STRING, materialized)
    if function.startswith("sum_but:"):
        return _aggregate(grouped, lambda: 0, _sum_but(function), _sum_but(function, -1), LONG, materialized)
    add, subtract = _of_reduce(function, TABLE_REDUCERS)
    returns = _reduced(function, value)
    if returns == value:
        return grouped.reduce(add, subtract, materialized=materialized)
    return _aggregate(
        grouped, lambda: None, lambda a, v: v if a is None else add(a, v), subtract, returns, materialized
    )


def _folded(name: str, grouped: KGroupedTable, materialized: Materialized) -> KTable:
    """A built-in fold; the texts of a list are joined, a condition becomes text and a mean is rounded."""
    number, words = num_of(_VALUE, grouped.shape.value), text_of(_VALUE, grouped.shape.value)
    listed = pl.col("shown").list.eval(pl.element() + ";").list.join("")
    folds: dict[str, tuple[Fold, pl.Expr | None]] = {
        "count": (fold.count(), None),
        "sum": (fold.sum(number), None),
        "min": (fold.min(number), None),
        "max": (fold.max(number), None),
        "mean": (fold.mean(number), pl.col("shown").floor().cast(pl.Int64)),
        "distinct": (fold.count_distinct(words), None),
        "least": (fold.min_by(words, number), None),
        "collect": (fold.collect(words), listed),
        "top2": (fold.top(2, number, words), listed),
        "any_even": (fold.any(number % 2 == 0), pl.col("shown").cast(pl.String)),
    }
    if name not in folds:
        raise NotCovered(f"aggregate function fold:{name}")
    of, read = folds[name]
    if read is None:
        return grouped.aggregate(of, materialized=materialized)
    return grouped.aggregate(shown=of, materialized=materialized).map_values(read)


def _aggregate(
    grouped: KGroupedTable,
    initializer: Callable[[], Any],
    add: Reducer,
    subtract: Reducer,
    returns: Serde,
    materialized: Materialized,
) -> KTable:
    return grouped.aggregate(
        initializer=initializer,
        adder=lambda key, value, aggregate: add(aggregate, value),
        subtractor=lambda key, value, aggregate: subtract(aggregate, value),
        returns=returns,
        materialized=materialized,
    )


def _of_reduce(function: str, reducers: dict[str, Any]) -> Any:
    name, reducer = split(function)
    if name != "reduce" or reducer not in reducers:
        raise NotCovered(f"aggregate function {function}")
    return reducers[reducer]


def _reduced(function: str, value: Serde) -> Serde:
    """Serde of the aggregate: the first value is taken as it is, what follows may be of another type."""
    reducer = split(function)[1]
    if reducer in ("first", "last") or (reducer, value) in (("concat", STRING), ("sum", LONG)):
        return value
    return VARIANT
