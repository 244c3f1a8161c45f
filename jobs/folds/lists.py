"""The fold whose aggregate is a list of all values: collect.

Rule: lists grow at their end, in order of processing, nulls included; of merged sessions the one that ends first comes
first. What is forwarded is a copy, so an update costs the length of its list; below a suppress only final lists are
copied.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from jobs.expressions import Expressible, Expression, Shape, bind
from jobs.folds.fold import Fold, FoldState, Program, Wanted
from jobs.kernels.program import ADD, COPY, EMIT, MERGE, OLD, START
from state.records import Batch


@dataclass(frozen=True)
class ListFold(Fold):
    """collect: all values of an expression."""

    of: Expressible

    def output(self, shape: Shape, place: str) -> pa.DataType:
        return pa.list_(bind(self.of, shape, place).result.arrow_type)

    def start(self, shape: Shape, place: str) -> "ListState":
        return ListState(bind(self.of, shape, place))


class ListState(FoldState):
    """A Python list a slot."""

    def __init__(self, of: Expression) -> None:
        self.of = of
        self.saved_type = pa.list_(of.result.arrow_type)
        self.state: list[list[Any] | None] = []
        """None: an aggregate of before there was this list, which takes nothing in until its next value."""

    def grow(self, capacity: int) -> None:
        self.state.extend([] for _ in range(capacity - len(self.state)))

    def run(self, program: Program, batch: Batch, wanted: Wanted) -> tuple[pa.Array, pa.Array]:
        values, state = self.of.evaluate(batch).to_pylist(), self.state
        new: list[list[Any] | None] = [None] * wanted.n_new
        old: list[list[Any] | None] = [None] * wanted.n_old
        update = 0
        for flags, slot, argument in zip(*(column.tolist() for column in program), strict=True):
            if flags & START:
                state[slot] = []
            if flags & COPY:
                state[slot] = _copy(state[argument])
            if flags & OLD and wanted.old[update] >= 0:
                old[wanted.old[update]] = _copy(state[slot])
            if flags & MERGE and state[argument] is not None:
                state[slot] = [*(state[slot] or []), *(state[argument] or [])]
            if flags & ADD:
                state[slot] = _grown(state[slot], values[argument])
            if flags & EMIT:
                if wanted.new[update] >= 0:
                    new[wanted.new[update]] = _copy(state[slot])
                update += 1
        return pa.array(new, self.saved_type), pa.array(old, self.saved_type)

    def save(self, slots: np.ndarray) -> pa.Array:
        return pa.array([self.state[slot] for slot in slots.tolist()], self.saved_type)

    def load(self, slots: np.ndarray, saved: pa.Array) -> None:
        for slot, values in zip(slots.tolist(), saved.to_pylist(), strict=True):
            self.state[slot] = values

    def result(self, saved: pa.Array) -> pa.Array:
        return saved


def _copy(values: list[Any] | None) -> list[Any] | None:
    return None if values is None else values.copy()


def _grown(values: list[Any] | None, value: Any) -> list[Any]:
    if values is None:
        return [value]
    values.append(value)
    return values


def collect(of: Expressible = "value") -> Fold:
    """All ``of`` as a list, in order of processing, nulls included. A field of a struct: give the fold a name."""
    return ListFold(of)
