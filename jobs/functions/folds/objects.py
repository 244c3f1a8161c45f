"""Folds whose aggregate is a Python object that is never changed in place: count_distinct, top."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.errors import ConfigError, TopologyError
from ....state.records.batches import Batch
from ..call_arguments import checked_as
from ..expression_text import expressible_text
from ..expressions import Expressible, Expression, Shape, bind
from .fold import Fold, FoldState
from .numbers import number_columns, ranked
from .object_state import ObjectState
from .taken_back import different, leading, timeless

# --- count_distinct --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DistinctCountFold(Fold):
    """count_distinct of an expression."""

    of: Expressible

    @property
    def words(self) -> str:
        return f"count_distinct {expressible_text(self.of)}"

    def output(self, shape: Shape, place: str) -> pa.DataType:
        kind = bind(self.of, shape, place).result
        if pa.types.is_nested(kind.arrow_type):
            next_step = "give one of its fields"
            raise TopologyError(place, "plain values to count", f"{self.of!s}, which gives {kind}", next_step)
        return pa.int64()

    def start(self, shape: Shape, place: str) -> "DistinctCountState":
        return DistinctCountState(bind(self.of, shape, place))

    def start_taking(self, shape: Shape, place: str) -> FoldState:
        return different(timeless(bind(self.of, shape, place)))


_Numbered = tuple[dict[Any, int], int]
"""Values with their numbers by first appearance, and how many of them count."""


class DistinctCountState(ObjectState):
    """Several aggregates may be beginnings of one dict, as with lists; only one of them can make it longer."""

    empty: _Numbered = ({}, 0)
    output_type = pa.int64()

    def __init__(self, of: Expression) -> None:
        super().__init__()
        self.of = of
        self.saved_type = pa.list_(of.result.arrow_type)

    def inputs(self, batch: Batch) -> list[Any]:
        return [_comparable(value) for value in self.of.evaluate(batch).to_pylist()]

    def added(self, aggregate: _Numbered, value: Any) -> _Numbered:
        numbers, count = aggregate
        if numbers.get(value, count) < count:
            return aggregate
        # The dict of ``empty`` is the same for all slots, so the first value goes into one of its own.
        if len(numbers) != count or count == 0:
            numbers = dict(list(numbers.items())[:count])
        numbers[value] = count
        return numbers, count + 1

    def merged(self, one: _Numbered, other: _Numbered) -> _Numbered:
        for value in self.saved(other):
            one = self.added(one, value)
        return one

    def shown(self, aggregate: _Numbered) -> int:
        return aggregate[1]

    def saved(self, aggregate: _Numbered) -> list[Any]:
        numbers, count = aggregate
        return list(numbers)[:count]

    def loaded(self, saved: list[Any]) -> _Numbered:
        return {_comparable(value): number for number, value in enumerate(saved)}, len(saved)


_NAN = float("nan")


def _comparable(value: Any) -> Any:
    """One NaN is as another."""
    return _NAN if value != value else value


@checked_as("fold.count_distinct")
def count_distinct(of: Expressible = "value") -> Fold:
    """Number of different ``of`` that are not null: plain values; all NaN are one, and 0.0 and -0.0 are. The state has
    every value once.

        >>> show(clicks.group_by("'all'").aggregate(pages=fold.count_distinct("page")))
        all: {'pages': 1} at 0
        all: {'pages': 1} at 1000
        all: {'pages': 2} at 2000
        all: {'pages': 3} at 70000
    """
    return DistinctCountFold(of)


# --- top -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TopFold(Fold):
    """top ``k`` of an expression ``by`` a number."""

    k: int
    by: Expressible
    of: Expressible

    @property
    def words(self) -> str:
        return f"top {self.k} {expressible_text(self.of)} by {expressible_text(self.by)}"

    def output(self, shape: Shape, place: str) -> pa.DataType:
        ranked(self.by, shape, place)
        return pa.list_(bind(self.of, shape, place).result.arrow_type)

    def start(self, shape: Shape, place: str) -> "TopState":
        return TopState(self.k, bind(self.of, shape, place), *ranked(self.by, shape, place))

    def start_taking(self, shape: Shape, place: str) -> FoldState:
        of, by = (timeless(bind(one, shape, place)) for one in (self.of, self.by))
        return leading(of, by, self.k)


_Ranked = tuple[tuple[Any, Any], ...]
"""(by, value), the largest first."""


class TopState(ObjectState):
    """At most ``k`` of (by, value); of equal ones the first stays before."""

    empty: _Ranked = ()

    def __init__(self, k: int, of: Expression, by: Expression, dtype: type) -> None:
        super().__init__()
        self.k, self.of, self.by, self.dtype = k, of, by, dtype
        kind = of.result.arrow_type
        by_type = pa.int64() if dtype is np.int64 else pa.float64()
        self.saved_type = pa.list_(pa.struct([("value", kind), ("by", by_type)]))
        self.output_type = pa.list_(kind)

    def inputs(self, batch: Batch) -> list[Any]:
        by, valid = number_columns(self.by.evaluate(batch), self.dtype)
        values, are_there = self.of.evaluate(batch).to_pylist(), valid & (by == by)
        return [
            (number, value) if is_there else None
            for number, value, is_there in zip(by.tolist(), values, are_there.tolist(), strict=True)
        ]

    def added(self, aggregate: _Ranked, value: tuple[Any, Any]) -> _Ranked:
        rank = bisect_right(aggregate, -value[0], key=lambda ranked: -ranked[0])
        return (*aggregate[:rank], value, *aggregate[rank : self.k - 1]) if rank < self.k else aggregate

    def merged(self, one: _Ranked, other: _Ranked) -> _Ranked:
        for value in other:
            one = self.added(one, value)
        return one

    def shown(self, aggregate: _Ranked) -> list[Any]:
        return [value for _, value in aggregate]

    def saved(self, aggregate: _Ranked) -> list[dict[str, Any]]:
        return [{"value": value, "by": by} for by, value in aggregate]

    def loaded(self, saved: list[dict[str, Any]]) -> _Ranked:
        return tuple((one["by"], one["value"]) for one in saved)


@checked_as("fold.top")
def top(k: int, by: Expressible = "value", of: Expressible | None = None) -> Fold:
    """``of`` of the ``k`` records with the largest ``by``, as a list, the largest first; of equal ones the first in
    order of processing comes first. Null and NaN in ``by`` are passed over. ``of``: ``by`` itself if not given.
    ConfigError for a ``k`` below 1.

        >>> show(clicks.group_by_key().aggregate(fold.top(2, by="seconds", of="page")))
        ann: ['home'] at 0
        bob: ['home'] at 1000
        ann: ['cart', 'home'] at 2000
        bob: ['pay', 'home'] at 70000
    """
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise ConfigError("fold.top", "k to be a number of 1 or more", repr(k), "correct it")
    return TopFold(k, by, by if of is None else of)
