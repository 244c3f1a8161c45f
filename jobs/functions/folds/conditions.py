"""Folds whose aggregate is about a condition: count_if, any, all.

Rule: a condition that is null is passed over, neither true nor false; so any of nothing is false, and all of nothing
is true. What is kept is a number, the trues (count_if, any) or the falses (all), read when it is asked for. In a
grouped table any and all ignore a value that is taken back and was never added; count_if becomes smaller, as a count.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.records.batches import Batch
from ..call_arguments import checked_as
from ..expression_text import expressible_text
from ..expressions import Expressible, Expression, Shape, bind_predicate
from .changing_kernel import THERE, change_numbers
from .fold import Fold, FoldState, WantedUpdates
from .fold_program import FoldProgram
from .folding_kernel import SUM, fold_numbers
from .numbers import NumberState
from .taken_back import timeless


@dataclass(frozen=True)
class ConditionFold(Fold):
    """``kind``: "count_if", "any" or "all" of a condition."""

    kind: str
    of: Expressible

    @property
    def words(self) -> str:
        return f"{self.kind} {expressible_text(self.of)}"

    def output(self, shape: Shape, place: str) -> pa.DataType:
        bind_predicate(self.of, shape, place)
        return pa.int64() if self.kind == "count_if" else pa.bool_()

    def start(self, shape: Shape, place: str) -> "ConditionState":
        return ConditionState(self.kind, bind_predicate(self.of, shape, place))

    def start_taking(self, shape: Shape, place: str) -> "ConditionState":
        adds = SUM if self.kind == "count_if" else THERE
        return ConditionState(self.kind, timeless(bind_predicate(self.of, shape, place)), adds, change_numbers)


class ConditionState(FoldState):
    """How often the condition was true, or false for "all", a slot. ``adds``: SUM or THERE."""

    def __init__(
        self, kind: str, of: Expression, adds: int = SUM, carry_out: Callable[..., None] = fold_numbers
    ) -> None:
        self.kind = kind
        self.number = NumberState(adds, ConditionIndicator(of, kind != "all"), np.int64, carry_out)  # type: ignore[arg-type]
        self.saved_type = self.number.saved_type

    def grow(self, capacity: int) -> None:
        self.number.grow(capacity)

    def run(self, program: FoldProgram, batch: Batch, wanted: WantedUpdates) -> tuple[pa.Array, pa.Array]:
        new, old = self.number.run(program, batch, wanted)
        return self.result(new), self.result(old)

    def save(self, slots: np.ndarray) -> pa.Array:
        return self.number.save(slots)

    def load(self, slots: np.ndarray, saved: pa.Array) -> None:
        self.number.load(slots, saved)

    def result(self, saved: pa.Array) -> pa.Array:
        if self.kind == "count_if":
            return saved
        return pc.greater(saved, 0) if self.kind == "any" else pc.equal(saved, 0)

    @property
    def shows_all(self) -> bool:
        return self.kind == "count_if"


@dataclass(frozen=True, eq=False)
class ConditionIndicator:
    """1 where a condition's answer is ``wanted``, else 0."""

    of: Expression
    wanted: bool

    def evaluate(self, batch: Batch) -> pa.Array:
        answers = pc.fill_null(self.of.evaluate(batch), not self.wanted)
        return pc.equal(answers, self.wanted).cast(pa.int64())


@checked_as("fold.count_if")
def count_if(of: Expressible) -> Fold:
    """Number of records for which ``of`` is true. Never null.

    >>> show(clicks.group_by_key().aggregate(fold.count_if("seconds > 4")))
    ann: 1 at 0
    bob: 0 at 1000
    ann: 2 at 2000
    bob: 0 at 70000
    """
    return ConditionFold("count_if", of)


@checked_as("fold.any")
def any_(of: Expressible) -> Fold:
    """Whether ``of`` was true of a record; false when it was never more than null.

    >>> show(clicks.group_by_key().aggregate(fold.any("page = 'pay'")))
    ann: False at 0
    bob: False at 1000
    ann: False at 2000
    bob: True at 70000
    """
    return ConditionFold("any", of)


@checked_as("fold.all")
def all_(of: Expressible) -> Fold:
    """Whether ``of`` was false of no record; true when it was never more than null.

    >>> show(clicks.group_by_key().aggregate(fold.all("seconds < 5")))
    ann: False at 0
    bob: True at 1000
    ann: False at 2000
    bob: True at 70000
    """
    return ConditionFold("all", of)
