"""The fold whose aggregate is a list of all values: collect.

Rule: lists grow at their end, in order of processing, nulls included; of merged sessions the one that ends first comes
first. What is forwarded is a copy, so an update costs the length of its list; below a suppress only final lists are
copied. Several aggregates may be beginnings of one list in memory, so that a session which continues as another one is
not copied; only one of them can make it longer.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.records.batches import Batch
from ..call_arguments import checked_as
from ..expressions import Expressible, Expression, Shape, bind
from .fold import Fold, FoldState, WantedUpdates
from .fold_program import ADD, COPY, EMIT, MERGE, OLD, START, FoldProgram
from .taken_back import every, timeless


@dataclass(frozen=True)
class ListFold(Fold):
    """collect: all values of an expression."""

    of: Expressible

    def output(self, shape: Shape, place: str) -> pa.DataType:
        return pa.list_(bind(self.of, shape, place).result.arrow_type)

    def start(self, shape: Shape, place: str) -> "ListState":
        return ListState(bind(self.of, shape, place))

    def start_taking(self, shape: Shape, place: str) -> FoldState:
        return every(timeless(bind(self.of, shape, place)))


class ListState(FoldState):
    """(list, how many of its values count) a slot."""

    def __init__(self, of: Expression) -> None:
        self.of = of
        self.saved_type = pa.list_(of.result.arrow_type)
        self.state: list[_Values | None] = []
        """None: an aggregate from before there was this list, which takes nothing in until its next value."""

    def grow(self, capacity: int) -> None:
        self.state.extend([None] * (capacity - len(self.state)))

    def run(self, program: FoldProgram, batch: Batch, wanted: WantedUpdates) -> tuple[pa.Array, pa.Array]:
        values, state = self.of.evaluate(batch).to_pylist(), self.state
        new: list[list[Any] | None] = [None] * wanted.n_new
        old: list[list[Any] | None] = [None] * wanted.n_old
        update = 0
        for flags, slot, argument in zip(*(column.tolist() for column in program), strict=True):
            if flags & START:
                state[slot] = [], 0
            if flags & COPY:
                state[slot] = state[argument]
            if flags & OLD and wanted.old[update] >= 0:
                old[wanted.old[update]] = _copy(state[slot])
            if flags & MERGE and state[argument] is not None:
                state[slot] = _merged(state[slot], state[argument])
            if flags & ADD:
                state[slot] = _grown(state[slot], [values[argument]])
            if flags & EMIT:
                if wanted.new[update] >= 0:
                    new[wanted.new[update]] = _copy(state[slot])
                update += 1
        return pa.array(new, self.saved_type), pa.array(old, self.saved_type)

    def save(self, slots: np.ndarray) -> pa.Array:
        return pa.array([_copy(self.state[slot]) for slot in slots.tolist()], self.saved_type)

    def load(self, slots: np.ndarray, saved: pa.Array) -> None:
        for slot, values in zip(slots.tolist(), saved.to_pylist(), strict=True):
            self.state[slot] = None if values is None else (values, len(values))

    def result(self, saved: pa.Array) -> pa.Array:
        return saved

    @property
    def shows_all(self) -> bool:
        return True


_Values = tuple[list[Any], int]


def _copy(of: _Values | None) -> list[Any] | None:
    return None if of is None else of[0][: of[1]]


def _merged(one: _Values | None, other: _Values | None) -> _Values | None:
    """One behind the other."""
    if one is None or one[1] == 0:
        return other
    return one if other is None else _grown(one, other[0][: other[1]])


def _grown(of: _Values | None, more: list[Any]) -> _Values:
    """A longer list; where another aggregate has made it longer already, a new one."""
    values, length = ([], 0) if of is None else of
    if len(values) != length:
        values = values[:length]
    values.extend(more)
    return values, len(values)


@checked_as("fold.collect")
def collect(of: Expressible = "value") -> Fold:
    """All ``of`` as a list, in order of processing, nulls included.

    >>> show(words.group_by_key().aggregate(fold.collect()))
    k: ['to be'] at 0
    k: ['to be', 'or not'] at 1
    """
    return ListFold(of)
