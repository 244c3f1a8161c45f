"""Folds in Python: a user's aggregator, reducer and merger, driven by the same program as the compiled folds.

Rule: custom code costs speed, never correctness. A function may return None, which deletes the aggregate; since that
decides what the next record meets, such folds run record by record.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from jobs.expressions import Expressible, Expression, Shape, bind, python_keys
from jobs.folds.fold import Fold, FoldState, Program, Wanted
from jobs.kernels.program import ADD, COPY, EMIT, MERGE, OLD, START
from state.errors import ConfigError, TaskFailed
from state.records import Batch
from state.serdes import Serde

Aggregator = Callable[[Any, Any, Any], Any]
"""(key, value, aggregate) -> aggregate; for sessions a merger (key, one aggregate, other aggregate) -> aggregate."""


_UNCHANGEABLE = (int, str, float, bool, bytes)


def _no_merger(key: Any, one: Any, other: Any) -> Any:
    raise TypeError("no session merger was given")


@dataclass(frozen=True, eq=False)
class PythonFold(Fold):
    """``returns`` types the aggregate. ``of`` limits the value that the aggregator sees to one expression."""

    initializer: Callable[[], Any]
    aggregator: Aggregator
    returns: Serde
    merger: Aggregator = _no_merger
    of: Expressible | None = None
    is_record_by_record: bool = True
    place: str = field(default="aggregate")

    def output(self, shape: Shape, place: str) -> pa.DataType:
        return self.returns.arrow_type

    def start(self, shape: Shape, place: str) -> "PythonState":
        return PythonState(self, shape, None if self.of is None else bind(self.of, shape, place), place)


class PythonState(FoldState):
    """A Python object a slot, None where there is no aggregate."""

    def __init__(self, fold: PythonFold, shape: Shape, of: Expression | None, place: str) -> None:
        self.fold, self.shape, self.of, self.place = fold, shape, of, place
        self.saved_type = fold.returns.arrow_type
        self.state: list[Any] = []
        self._rows_of: Batch | None = None
        self._rows: list[tuple[Any, Any]] = []

    def grow(self, capacity: int) -> None:
        self.state.extend([None] * (capacity - len(self.state)))

    def run(self, program: Program, batch: Batch, wanted: Wanted) -> tuple[pa.Array, pa.Array]:
        new, old = self.step(program, batch)
        kept_new, kept_old = [None] * wanted.n_new, [None] * wanted.n_old
        for update, value in enumerate(new):
            if wanted.new[update] >= 0:
                kept_new[wanted.new[update]] = value
            if wanted.n_old and wanted.old[update] >= 0:
                kept_old[wanted.old[update]] = old[update]
        return self.typed(kept_new), self.typed(kept_old)

    def step(self, program: Program, batch: Batch) -> tuple[list[Any], list[Any]]:
        """New and old value of every update of ``program``, as Python values; the new value of a tombstone is what it
        deletes.
        """
        rows, state, fold = self._python_rows(batch), self.state, self.fold
        new: list[Any] = []
        old: list[Any] = []
        key = before = None
        try:
            entries = list(zip(*(column.tolist() for column in program), strict=True))
            merging_keys = _keys_of_merges(entries, rows)
            for flags, slot, argument in entries:
                if flags & START:
                    state[slot] = fold.initializer()
                if flags & COPY:
                    state[slot] = state[argument]
                if flags & OLD:
                    before = state[slot]
                if flags & MERGE:
                    key = merging_keys.pop()
                    state[slot] = fold.merger(key, _own(state[slot]), _own(state[argument]))
                if flags & ADD:
                    key, value = rows[argument]
                    state[slot] = fold.aggregator(key, value, _own(state[slot]))
                if flags & EMIT:
                    new.append(state[slot])
                    old.append(before if flags & OLD else None)
        except Exception as error:
            got = f"{type(error).__name__}: {error} on key {key!r}"
            raise TaskFailed(self.place, "an aggregate", got, "correct the aggregator or the merger") from error
        return new, old

    def typed(self, values: list[Any]) -> pa.Array:
        """Column of aggregates. Raises TaskFailed when the functions gave something that ``returns`` cannot carry."""
        try:
            return self.fold.returns.from_python(values)
        except ConfigError as error:
            next_step = "correct the aggregator, or the serde in returns"
            raise TaskFailed(self.place, f"an aggregate of {self.fold.returns}", error.got, next_step) from error

    def show(self, batch: Batch, rows: list[tuple[Any, Any]]) -> None:
        """Key and value of each row of ``batch`` as functions are to see them."""
        self._rows_of, self._rows = batch, rows

    def _python_rows(self, batch: Batch) -> list[tuple[Any, Any]]:
        if self._rows_of is not batch:
            keys = python_keys(self.shape, batch)
            if self.of is None:
                values = self.shape.value.to_python(batch.value.all())
            else:
                values = self.of.result.to_python(self.of.evaluate(batch))
            self._rows_of, self._rows = batch, list(zip(keys, values, strict=True))
        return self._rows

    def save(self, slots: np.ndarray) -> pa.Array:
        return self.typed([self.state[slot] for slot in slots.tolist()])

    def load(self, slots: np.ndarray, saved: pa.Array) -> None:
        for slot, value in zip(slots.tolist(), self.fold.returns.to_python(saved), strict=True):
            self.state[slot] = value

    def result(self, saved: pa.Array) -> pa.Array:
        return saved


def _own(aggregate: Any) -> Any:
    """The aggregate for a function that may change it in place, as what Kafka deserializes is the function's own."""
    return aggregate if aggregate is None or type(aggregate) in _UNCHANGEABLE else copy.deepcopy(aggregate)


def _keys_of_merges(entries: list[tuple[int, int, int]], rows: list[tuple[Any, Any]]) -> list[Any]:
    """Key of every MERGE entry, last first: the key of the row that is added after it."""
    keys: list[Any] = []
    key: Any = None
    for flags, _, argument in reversed(entries):
        if flags & ADD:
            key = rows[argument][0]
        elif flags & MERGE:
            keys.append(key)
    return keys


def reducer(function: Callable[[Any, Any], Any], returns: Serde) -> PythonFold:
    """Kafka's reduce: the first value is the aggregate as it is, later ones are ``function(aggregate, value)``."""

    def add(key: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else function(aggregate, value)

    def merge(key: Any, one: Any, other: Any) -> Any:
        return other if one is None else function(one, other)

    return PythonFold(lambda: None, add, returns, merge)
