"""Folds whose aggregate is one of the values itself: first, last, min_by, max_by, earliest, latest.

Rule: a kernel moves references, never the values; a value is copied into the fold's heap when its chunk ends, and only
if a slot still refers to it. First and last go by order of processing; min_by and max_by by a number, ties to the
first.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ....state.records.batches import Batch
from ....state.stores.value_heap import ValueHeap
from ..call_arguments import checked_as
from ..expressions import Expressible, Expression, Shape, bind
from .fold import Fold, FoldState, WantedUpdates
from .fold_program import FoldProgram
from .folding_kernel import FIRST, LAST, LAST_BY, MAX_BY, MIN_BY, NO_REFERENCE, fold_references
from .numbers import number_columns, ranked
from .taken_back import preferred, timeless


@dataclass(frozen=True)
class ReferenceFold(Fold):
    """first, last (``by`` is None), min_by, max_by or latest of an expression."""

    kind: int
    of: Expressible
    by: Expressible | None = None

    @property
    def may_be_null(self) -> bool:
        return True

    def output(self, shape: Shape, place: str) -> pa.DataType:
        if self.by is not None:
            ranked(self.by, shape, place)
        return bind(self.of, shape, place).result.arrow_type

    def start(self, shape: Shape, place: str) -> "ReferenceState":
        by, dtype = (None, np.int64) if self.by is None else ranked(self.by, shape, place)
        return ReferenceState(self.kind, bind(self.of, shape, place), by, dtype)

    def start_taking(self, shape: Shape, place: str) -> FoldState:
        if self.by is None or self.kind == LAST_BY:
            return super().start_taking(shape, place)
        of, by = (timeless(bind(one, shape, place)) for one in (self.of, self.by))
        return preferred(of, by, largest=self.kind == MAX_BY)


class ReferenceState(FoldState):
    """A reference into the heap and its ``by`` number, a slot."""

    def __init__(self, kind: int, of: Expression, by: Expression | None, dtype: type) -> None:
        self.kind, self.of, self.by, self.dtype = kind, of, by, dtype
        self.state = np.zeros(0, np.int64)
        self.state_by: np.ndarray = np.zeros(0, dtype)
        self.heap = ValueHeap(of.result.arrow_type)
        by_type = pa.int64() if dtype is np.int64 else pa.float64()
        self.saved_type = pa.struct([("value", of.result.arrow_type), ("by", by_type), ("is_set", pa.bool_())])

    def grow(self, capacity: int) -> None:
        more = capacity - len(self.state)
        if more > 0:
            self.state = np.concatenate([self.state, np.full(more, NO_REFERENCE, np.int64)])
            self.state_by = np.concatenate([self.state_by, np.zeros(more, self.dtype)])

    def run(self, program: FoldProgram, batch: Batch, wanted: WantedUpdates) -> tuple[pa.Array, pa.Array]:
        values = self.of.evaluate(batch)
        by: np.ndarray
        if self.by is None:
            by, by_valid = np.zeros(len(batch), self.dtype), batch.valid
        else:
            by, by_valid = number_columns(self.by.evaluate(batch), self.dtype)
        new = np.full(wanted.n_new, NO_REFERENCE, np.int64)
        old = np.full(wanted.n_old, NO_REFERENCE, np.int64)
        base = self.heap.append(values)
        fold_references(
            self.kind, tuple(program), base, by, by_valid, self.state, self.state_by, wanted.new, wanted.old, new, old
        )
        results = self.heap.take(new), self.heap.take(old)
        self.heap.keep_only(self.state)
        return results

    def save(self, slots: np.ndarray) -> pa.Array:
        references = self.state[slots]
        parts = [self.heap.take(references), pa.array(self.state_by[slots]), pa.array(references != NO_REFERENCE)]
        return pa.StructArray.from_arrays(parts, fields=list(self.saved_type))

    def load(self, slots: np.ndarray, saved: pa.Array) -> None:
        base = self.heap.append(saved.field("value"))
        is_set = saved.field("is_set").to_numpy(zero_copy_only=False)
        self.state[slots] = np.where(is_set, base + np.arange(len(slots)), NO_REFERENCE)
        self.state_by[slots] = number_columns(saved.field("by"), self.dtype)[0]

    def result(self, saved: pa.Array) -> pa.Array:
        return saved.field("value")


@checked_as("fold.first")
def first(of: Expressible = "value") -> Fold:
    """``of`` of the first record in order of processing (for merged sessions: of the session that ends first).

    >>> show(orders.group_by_key().aggregate(fold.first("amount")))
    ann: 5 at 1000
    bob: 1 at 2000
    ann: 5 at 61000
    """
    return ReferenceFold(FIRST, of)


@checked_as("fold.last")
def last(of: Expressible = "value") -> Fold:
    """``of`` of the last record in order of processing (for merged sessions: of the session that ends last).

    >>> show(clicks.group_by_key().aggregate(fold.last("page")))
    ann: home at 0
    bob: home at 1000
    ann: cart at 2000
    bob: pay at 70000
    """
    return ReferenceFold(LAST, of)


@checked_as("fold.earliest")
def earliest(of: Expressible = "value") -> Fold:
    """``of`` of the record with the smallest time; of equal times the first in order of processing.

    >>> show(orders.group_by("item").aggregate(fold.earliest("amount")))
    tea: 5 at 1000
    mug: 1 at 2000
    tea: 5 at 61000
    """
    return ReferenceFold(MIN_BY, of, "record_time_ms")


@checked_as("fold.latest")
def latest(of: Expressible = "value") -> Fold:
    """``of`` of the record with the largest time; of equal times the last in order of processing.

    >>> show(orders.group_by("item").aggregate(amount=fold.latest("amount")))
    tea: {'amount': 5} at 1000
    mug: {'amount': 1} at 2000
    tea: {'amount': 2} at 61000
    """
    return ReferenceFold(LAST_BY, of, "record_time_ms")


@checked_as("fold.min_by")
def min_by(of: Expressible, by: Expressible) -> Fold:
    """``of`` of the record with the smallest ``by``, such as ``by="record_time_ms"``; the first of equal ones.

    >>> show(clicks.group_by_key().aggregate(fold.min_by("page", by="seconds")))
    ann: home at 0
    bob: home at 1000
    ann: home at 2000
    bob: home at 70000
    """
    return ReferenceFold(MIN_BY, of, by)


@checked_as("fold.max_by")
def max_by(of: Expressible, by: Expressible) -> Fold:
    """``of`` of the record with the largest ``by``; the first of equal ones.

    >>> show(clicks.group_by_key().aggregate(longest_on=fold.max_by("page", by="seconds")))
    ann: {'longest_on': 'home'} at 0
    bob: {'longest_on': 'home'} at 1000
    ann: {'longest_on': 'cart'} at 2000
    bob: {'longest_on': 'pay'} at 70000
    """
    return ReferenceFold(MAX_BY, of, by)
