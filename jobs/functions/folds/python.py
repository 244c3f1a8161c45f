"""Folds in Python: a user's aggregator, reducer and merger, driven by the same program as the compiled folds.

Rule: custom code costs speed, never correctness. A function may return None, which deletes the aggregate; since the
next record then finds no aggregate, such folds run record by record. Functions own what they are given, and what an
aggregator returns is the aggregate as it is then (state/serdes/handed_over.py).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.errors import ConfigError, TaskFailed, shown
from ....state.records.batches import Batch
from ....state.serdes import Serde
from ....state.serdes.codec import refused_part
from ....state.serdes.handed_over import HandOver, own_copy
from ..expressions import Expressible, Expression, Shape, bind, python_keys
from .fold import Fold, FoldState, WantedUpdates
from .fold_program import ADD, COPY, EMIT, MERGE, OLD, START, FoldProgram

Aggregator = Callable[[Any, Any, Any], Any]
"""(key, value, aggregate) -> aggregate; for sessions a merger (key, one aggregate, other aggregate) -> aggregate."""


def initial_misfit(initializer: Callable[[], Any] | None, returns: Serde) -> str:
    """Text about the initializer for the error of an aggregate that failed: what it gives, if ``returns`` cannot
    serialize that; else "".
    """
    try:
        initial = None if initializer is None else initializer()
    except Exception:
        return "the initializer, "
    try:
        returns.from_python([initial])
    except ConfigError:
        return f"the initializer, which gives {shown(initial)}, "
    return ""


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

    @property
    def declared(self) -> Serde | None:
        return self.returns

    def start(self, shape: Shape, place: str) -> "PythonState":
        return PythonState(self, shape, None if self.of is None else bind(self.of, shape, place), place)


class PythonState(FoldState):
    """A Python object a slot, None where there is no aggregate."""

    def __init__(self, fold: PythonFold, shape: Shape, of: Expression | None, place: str) -> None:
        self.fold, self.shape, self.of, self.place = fold, shape, of, place
        self.saved_type = fold.returns.arrow_type
        self._aggregates = HandOver(fold.returns.codec)
        given = shape.value if of is None else of.result
        self._record_can_change = shape.key.codec.can_change or given.codec.can_change
        self.state: list[Any] = []
        self._new: list[Any] = []
        self._old: list[Any] = []
        self._rows_of: Batch | None = None
        self._rows: list[tuple[Any, Any]] = []

    def grow(self, capacity: int) -> None:
        self.state.extend([None] * (capacity - len(self.state)))

    def forget(self, slots: np.ndarray) -> None:
        for slot in slots.tolist():
            self.state[slot] = None

    def run(self, program: FoldProgram, batch: Batch, wanted: WantedUpdates) -> tuple[pa.Array, pa.Array]:
        new, old = self.step(program, batch)
        kept_new, kept_old = [None] * wanted.n_new, [None] * wanted.n_old
        for update, value in enumerate(new):
            if wanted.new[update] >= 0:
                kept_new[wanted.new[update]] = value
            if wanted.n_old and wanted.old[update] >= 0:
                kept_old[wanted.old[update]] = old[update]
        return self.typed(kept_new), self.typed(kept_old)

    def step(self, program: FoldProgram, batch: Batch) -> tuple[list[Any], list[Any]]:
        """``carry_out`` and ``emitted``."""
        self.carry_out(program, batch)
        return self.emitted()

    def emitted(self) -> tuple[list[Any], list[Any]]:
        """New and old value of every update since it was asked last, as Python values; the new value of a tombstone is
        what it deletes.
        """
        new, old = self._new, self._old
        self._new, self._old = [], []
        return new, old

    def carry_out(self, program: FoldProgram, batch: Batch, *, stops: bool = False) -> int:
        """Place of the last entry that left None for an aggregate, or -1. ``stops``: nothing is done after the first.
        Raises TaskFailed when a function raises.
        """
        rows, state, fold = self._python_rows(batch), self.state, self.fold
        aggregator, merger, aggregates = fold.aggregator, fold.merger, self._aggregates
        give, own, keep = aggregates.give, aggregates.own, aggregates.keep
        record_can_change = self._record_can_change
        new, old = self._new.append, self._old.append
        flags_of, slot_of, argument_of = (column.tolist() for column in program)
        before, null, at = None, -1, -1
        merging = iter(_rows_of_merges(program))
        try:
            for at, flags in enumerate(flags_of):
                slot = slot_of[at]
                if flags & START:
                    state[slot] = own(fold.initializer())
                if flags & COPY:
                    state[slot] = state[argument_of[at]]
                if flags & OLD:
                    before = state[slot]
                if flags & MERGE:
                    key = rows[next(merging)][0]
                    key = own_copy(key) if record_can_change else key
                    one = state[slot] if flags & START else give(state[slot])  # nobody else has what began here
                    state[slot] = own(merger(key, one, give(state[argument_of[at]])))
                if flags & ADD:
                    key, value = own_copy(rows[argument_of[at]]) if record_can_change else rows[argument_of[at]]
                    earlier = state[slot]
                    given = own_copy(earlier) if flags & START else give(earlier)  # it may be no value of the serde
                    result = aggregator(key, value, given)
                    try:
                        aggregate = state[slot] = keep(result)
                    except ConfigError as error:
                        raise self._misfit(error, f" on key {key!r}") from error
                    if aggregate is None:
                        _check_unchanged(earlier, given, self.place)
                        null = at
                if flags & EMIT:
                    new(state[slot])
                    old(before if flags & OLD else None)
                if stops and null >= 0:
                    break
        except TaskFailed:
            raise
        except Exception as error:
            adds = [argument for flags, argument in zip(flags_of[at:], argument_of[at:], strict=True) if flags & ADD]
            key = rows[adds[0]][0] if adds else None
            initial = initial_misfit(fold.initializer, fold.returns)
            raise TaskFailed.by(
                error,
                self.place,
                "an aggregate",
                f"on key {key!r}",
                f"correct {initial}the aggregator or the merger",
            ) from error
        return null

    def typed(self, values: list[Any], valid: np.ndarray | None = None) -> pa.Array:
        """Column of aggregates, null where not ``valid``. Raises TaskFailed for an initial value that ``returns``
        cannot carry; what an aggregator returned was taken before.
        """
        if valid is not None and not valid.all():
            values = [one if is_kept else None for one, is_kept in zip(values, valid.tolist(), strict=True)]
        try:
            return self.fold.returns.from_python(values)
        except ConfigError as error:
            raise self._misfit(error) from error

    def _misfit(self, error: ConfigError, given: str = "") -> TaskFailed:
        """``given``: on what the function gave it, where that is known."""
        initial = initial_misfit(self.fold.initializer, self.fold.returns)
        next_step = f"correct {initial}the aggregator, or the serde in returns"
        return TaskFailed(
            self.place, f"an aggregate of {self.fold.returns}", f"{refused_part(error)}{given}", next_step
        )

    def show(self, batch: Batch, rows: list[tuple[Any, Any]]) -> None:
        """Key and value of each row of ``batch`` as functions are to see them, of any serdes."""
        self._rows_of, self._rows, self._record_can_change = batch, rows, True

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

    @property
    def shows_all(self) -> bool:
        return True


def _check_unchanged(earlier: Any, given: Any, place: str) -> None:
    """Raises ConfigError where a function changed the aggregate that it was given, and then returned None: that deletes
    the aggregate, and nobody changes what is to be deleted.
    """
    if given is not earlier and given != earlier:
        got, next_step = f"None, and a change of {earlier!r} into {given!r}", "return the aggregate"
        raise ConfigError(place, "an aggregate, or None to delete it", got, next_step)


def _rows_of_merges(program: FoldProgram) -> list[int]:
    """Of every MERGE entry the row that is added after it."""
    merges = np.flatnonzero(program.flags & MERGE)
    if len(merges) == 0:
        return []
    adds = np.flatnonzero(program.flags & ADD)
    return program.arguments[adds[np.searchsorted(adds, merges)]].tolist()


def reducer(function: Callable[[Any, Any], Any], returns: Serde) -> PythonFold:
    """Kafka's reduce: the first value is the aggregate as it is, later ones are ``function(aggregate, value)``."""

    def add(key: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else function(aggregate, value)

    def merge(key: Any, one: Any, other: Any) -> Any:
        return other if one is None else function(one, other)

    return PythonFold(lambda: None, add, returns, merge)
