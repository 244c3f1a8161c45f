"""Folds about how far numbers lie apart: var_pop, var_samp, stddev_pop, stddev_samp.

Rule: a slot keeps the number of values, the first value, the distance of the mean from it, and the sum of squared
distances from the mean, as doubles. This is Welford's method on distances from the first value; two slots merge by
Chan's rule. So no large
numbers are subtracted from one another, equal values have exactly 0, and the result depends on the order of processing
by rounding alone, never on where the input is cut. Null is passed over; NaN and infinity make NaN. Decimals are
taken as doubles.
"""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ....state.compilation.kernel_compilation import inlined_kernel, kernel
from ....state.records.batches import Batch
from ....state.serdes import Serde
from ..call_arguments import checked_as
from ..expression_text import expressible_text
from ..expressions import Expressible, Expression, Shape
from .fold import Fold, FoldState, WantedUpdates
from .fold_program import ADD, COPY, EMIT, MERGE, OLD, START, FoldProgram
from .numbers import filtered, number_columns, numeric

MOMENTS = ("count", "first", "mean", "squares")
"""``mean``: less the first; ``squares``: the sum of the squared distances from the mean."""


@kernel
def fold_moments(program, values, valid, state, wanted, wanted_old, new, old):  # type: ignore[no-untyped-def]
    """Fold ``values`` of the rows into ``state`` by slot: columns as of `MOMENTS`, float64.

    ``new``, ``old``: the same columns of wanted updates; other parameters as of ``folding_kernel.fold_numbers``.
    """
    flags, slots, arguments = program
    update = 0
    for p in range(flags.shape[0]):
        f, s, a = flags[p], slots[p], arguments[p]
        if f & START:
            state[s, 0] = state[s, 1] = state[s, 2] = state[s, 3] = 0.0
        if f & COPY:
            copy(state, s, state, a)
        if f & OLD and wanted_old[update] >= 0:
            copy(old, wanted_old[update], state, s)
        if f & MERGE and state[a, 0] > 0 and state[s, 0] == 0:
            copy(state, s, state, a)
        elif f & MERGE and state[a, 0] > 0:
            both = state[s, 0] + state[a, 0]
            apart = (state[a, 1] - state[s, 1]) + (state[a, 2] - state[s, 2])
            state[s, 3] += state[a, 3] + apart * apart * (state[s, 0] * state[a, 0] / both)
            state[s, 2] += apart * (state[a, 0] / both)
            state[s, 0] = both
        if f & ADD and valid[a]:
            if state[s, 0] == 0:
                state[s, 1] = values[a]
            state[s, 0] += 1.0
            distance = values[a] - state[s, 1]
            apart = distance - state[s, 2]
            state[s, 2] += apart / state[s, 0]
            state[s, 3] += apart * (distance - state[s, 2])
        if f & EMIT:
            if wanted[update] >= 0:
                copy(new, wanted[update], state, s)
            update += 1


@inlined_kernel
def copy(into, row, state, s):  # type: ignore[no-untyped-def]
    """The columns of ``state`` in slot ``s``, as those of ``into`` in ``row``."""
    into[row, 0], into[row, 1], into[row, 2], into[row, 3] = state[s, 0], state[s, 1], state[s, 2], state[s, 3]


@dataclass(frozen=True)
class MomentsFold(Fold):
    """``is_sample``: of a sample, divided by one less. ``is_root``: the standard deviation."""

    of: Expressible
    where: Expressible | None
    is_sample: bool
    is_root: bool

    @property
    def may_be_null(self) -> bool:
        return True

    @property
    def words(self) -> str:
        name = f"{'stddev' if self.is_root else 'var'}_{'samp' if self.is_sample else 'pop'}"
        where = "" if self.where is None else f" where {expressible_text(self.where)}"
        return f"{name} {expressible_text(self.of)}{where}"

    def output(self, shape: Shape, place: str) -> pa.DataType:
        self.start(shape, place)
        return pa.float64()

    def start(self, shape: Shape, place: str) -> "MomentsState":
        values = filtered(self.of, self.where, shape, place)
        if pa.types.is_decimal(values.result.arrow_type):
            values = replace(values, expression=values.expression.cast(pl.Float64), result=Serde.double())
        of, _ = numeric(values, self.of, place)
        return MomentsState(of, is_sample=self.is_sample, is_root=self.is_root)


class MomentsState(FoldState):
    """`MOMENTS`, a row a slot."""

    saved_type = pa.struct([(name, pa.float64()) for name in MOMENTS])

    def __init__(self, of: Expression, *, is_sample: bool, is_root: bool) -> None:
        self.of, self.is_sample, self.is_root = of, is_sample, is_root
        self.state: np.ndarray = np.zeros((0, len(MOMENTS)), np.float64)

    def grow(self, capacity: int) -> None:
        more = capacity - len(self.state)
        if more > 0:
            self.state = np.concatenate([self.state, np.zeros((more, len(MOMENTS)), np.float64)])

    def run(self, program: FoldProgram, batch: Batch, wanted: WantedUpdates) -> tuple[pa.Array, pa.Array]:
        values, valid = number_columns(self.of.evaluate(batch), np.float64)
        new, old = (np.zeros((rows, len(MOMENTS)), np.float64) for rows in (wanted.n_new, wanted.n_old))
        fold_moments(tuple(program), values, valid, self.state, wanted.new, wanted.old, new, old)
        return self._shown(new), self._shown(old)

    def save(self, slots: np.ndarray) -> pa.Array:
        parts = [pa.array(column.copy()) for column in self.state[slots].T]
        return pa.StructArray.from_arrays(parts, fields=list(self.saved_type))

    def load(self, slots: np.ndarray, saved: pa.Array) -> None:
        self.state[slots] = _columns(saved)

    def result(self, saved: pa.Array) -> pa.Array:
        return self._shown(_columns(saved))

    def _shown(self, moments: np.ndarray) -> pa.Array:
        """Null for fewer than one value, or two of a sample."""
        divisor = moments[:, 0] - self.is_sample
        is_known = divisor > 0
        variance = moments[:, 3] / np.where(is_known, divisor, 1.0)
        return pa.array(np.sqrt(variance) if self.is_root else variance, mask=~is_known)


def _columns(saved: pa.Array) -> np.ndarray:
    columns = [number_columns(pc.struct_field(saved, name), np.float64)[0] for name in MOMENTS]
    return np.stack(columns, axis=1)


@checked_as("fold.var_pop")
def var_pop(of: Expressible = "value", *, where: Expressible | None = None) -> Fold:
    """Variance of the non-null numbers ``of``, of records for which ``where`` is true, as those of a whole population;
    a double, null when there were only nulls.

        >>> show(orders.group_by("item").aggregate(fold.var_pop("amount")))
        tea: 0.0 at 1000
        mug: 0.0 at 2000
        tea: 2.25 at 61000
    """
    return MomentsFold(of, where, is_sample=False, is_root=False)


@checked_as("fold.var_samp")
def var_samp(of: Expressible = "value", *, where: Expressible | None = None) -> Fold:
    """Variance as of a sample: divided by one less than the number of values; null of fewer than two.

    >>> show(orders.group_by_key().aggregate(fold.var_samp("amount")))
    ann: None at 1000
    bob: None at 2000
    ann: 4.5 at 61000
    """
    return MomentsFold(of, where, is_sample=True, is_root=False)


@checked_as("fold.stddev_pop")
def stddev_pop(of: Expressible = "value", *, where: Expressible | None = None) -> Fold:
    """Square root of ``var_pop``.

    >>> show(orders.group_by_key().aggregate(fold.stddev_pop("amount", where="item = 'tea'")))
    ann: 0.0 at 1000
    bob: None at 2000
    ann: 1.5 at 61000
    """
    return MomentsFold(of, where, is_sample=False, is_root=True)


@checked_as("fold.stddev_samp")
def stddev_samp(of: Expressible = "value", *, where: Expressible | None = None) -> Fold:
    """Square root of ``var_samp``.

    >>> show(clicks.group_by_key().aggregate(fold.stddev_samp("seconds - 1")))
    ann: None at 0
    bob: None at 1000
    ann: 2.8284271247461903 at 2000
    bob: 0.7071067811865476 at 70000
    """
    return MomentsFold(of, where, is_sample=True, is_root=True)
