"""Folds whose aggregate is a Python object that is never changed in place: count_distinct, top.

Owns how such a fold carries a program out, a record at a time. Rule: an object may be the aggregate of several slots
at once; to add to it makes another one.
"""

from abc import abstractmethod
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.errors import ConfigError, TopologyError
from ....state.records.batches import Batch
from ..call_arguments import checked_as
from ..expressions import Expressible, Expression, Shape, bind
from .fold import Fold, FoldState, Wanted
from .fold_program import ADD, COPY, EMIT, MERGE, OLD, START, Program
from .numbers import number_columns, numeric
from .taken_back import different, leading, timeless


class ObjectState(FoldState):
    """An object a slot; None is an aggregate of before there was this fold, null until its next value."""

    empty: Any
    output_type: pa.DataType

    def __init__(self) -> None:
        self.state: list[Any] = []

    @abstractmethod
    def inputs(self, batch: Batch) -> list[Any]:
        """What each row adds; None adds nothing."""

    @abstractmethod
    def added(self, aggregate: Any, value: Any) -> Any: ...

    @abstractmethod
    def merged(self, one: Any, other: Any) -> Any: ...

    @abstractmethod
    def shown(self, aggregate: Any) -> Any:
        """What a reader sees of it."""

    @abstractmethod
    def saved(self, aggregate: Any) -> Any:
        """Its durable form, of ``saved_type``."""

    @abstractmethod
    def loaded(self, saved: Any) -> Any: ...

    def grow(self, capacity: int) -> None:
        self.state.extend([None] * (capacity - len(self.state)))

    def forget(self, slots: np.ndarray) -> None:
        for slot in slots.tolist():
            self.state[slot] = None

    def run(self, program: Program, batch: Batch, wanted: Wanted) -> tuple[pa.Array, pa.Array]:
        values, state = self.inputs(batch), self.state
        new: list[Any] = [None] * wanted.n_new
        old: list[Any] = [None] * wanted.n_old
        update = 0
        for flags, slot, argument in zip(*(column.tolist() for column in program), strict=True):
            if flags & START:
                state[slot] = self.empty
            if flags & COPY:
                state[slot] = state[argument]
            if flags & OLD and wanted.old[update] >= 0 and state[slot] is not None:
                old[wanted.old[update]] = self.shown(state[slot])
            if flags & MERGE and state[argument] is not None:
                state[slot] = self.merged(self._own(slot), state[argument])
            if flags & ADD:
                state[slot] = self._own(slot)
                if values[argument] is not None:
                    state[slot] = self.added(state[slot], values[argument])
            if flags & EMIT:
                if wanted.new[update] >= 0 and state[slot] is not None:
                    new[wanted.new[update]] = self.shown(state[slot])
                update += 1
        return pa.array(new, self.output_type), pa.array(old, self.output_type)

    def _own(self, slot: int) -> Any:
        return self.empty if self.state[slot] is None else self.state[slot]

    def save(self, slots: np.ndarray) -> pa.Array:
        found = [self.state[slot] for slot in slots.tolist()]
        return pa.array([None if one is None else self.saved(one) for one in found], self.saved_type)

    def load(self, slots: np.ndarray, saved: pa.Array) -> None:
        for slot, one in zip(slots.tolist(), saved.to_pylist(), strict=True):
            self.state[slot] = None if one is None else self.loaded(one)

    def result(self, saved: pa.Array) -> pa.Array:
        found = [None if one is None else self.shown(self.loaded(one)) for one in saved.to_pylist()]
        return pa.array(found, self.output_type)


# --- count_distinct --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DistinctCountFold(Fold):
    """count_distinct of an expression."""

    of: Expressible

    @property
    def words(self) -> str:
        return f"count_distinct {self.of}"

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


_Places = tuple[dict[Any, int], int]
"""Values with their places by first appearance, and how many of them count."""


class DistinctCountState(ObjectState):
    """Several aggregates may be beginnings of one dict, as with lists; only one of them can make it longer."""

    empty: _Places = ({}, 0)
    output_type = pa.int64()

    def __init__(self, of: Expression) -> None:
        super().__init__()
        self.of = of
        self.saved_type = pa.list_(of.result.arrow_type)

    def inputs(self, batch: Batch) -> list[Any]:
        return [_comparable(value) for value in self.of.evaluate(batch).to_pylist()]

    def added(self, aggregate: _Places, value: Any) -> _Places:
        places, count = aggregate
        if places.get(value, count) < count:
            return aggregate
        if len(places) != count or count == 0:
            places = dict(list(places.items())[:count])
        places[value] = count
        return places, count + 1

    def merged(self, one: _Places, other: _Places) -> _Places:
        for value in self.saved(other):
            one = self.added(one, value)
        return one

    def shown(self, aggregate: _Places) -> int:
        return aggregate[1]

    def saved(self, aggregate: _Places) -> list[Any]:
        places, count = aggregate
        return list(places)[:count]

    def loaded(self, saved: list[Any]) -> _Places:
        return {_comparable(value): place for place, value in enumerate(saved)}, len(saved)


_NAN = float("nan")


def _comparable(value: Any) -> Any:
    """One NaN is as another."""
    return _NAN if value != value else value


@checked_as("fold.count_distinct")
def count_distinct(of: Expressible = "value") -> Fold:
    """Number of different ``of`` that are not null: plain values; all NaN are one, and 0.0 and -0.0 are. The state has
    every value once.
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
        return f"top {self.k} {self.of} by {self.by}"

    def output(self, shape: Shape, place: str) -> pa.DataType:
        numeric(self.by, shape, place)
        return pa.list_(bind(self.of, shape, place).result.arrow_type)

    def start(self, shape: Shape, place: str) -> "TopState":
        return TopState(self.k, bind(self.of, shape, place), *numeric(self.by, shape, place))

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
        place = bisect_right(aggregate, -value[0], key=lambda ranked: -ranked[0])
        return (*aggregate[:place], value, *aggregate[place : self.k - 1]) if place < self.k else aggregate

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
    order of processing comes first. Null and NaN in ``by`` are passed over. ``of``: ``by`` itself if not given. A field
    of a struct: give the fold a name. ConfigError for a ``k`` below 1.
    """
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise ConfigError("fold.top", "k to be a number of 1 or more", repr(k), "correct it")
    return TopFold(k, by, by if of is None else of)
