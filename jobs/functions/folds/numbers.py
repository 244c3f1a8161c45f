"""Folds whose aggregate is a number: count, sum, min, max, mean.

Rule: integers fold to a long (wrapping as Java's), floats to a double, decimals to one with all digits; null inputs
change nothing, except that a count counts records. The mean keeps sum and count and divides when it is read.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import is_valid
from ....state.errors import TopologyError
from ....state.records.batches import Batch
from ..call_arguments import checked_as
from ..expression_text import expressible_text
from ..expressions import Expressible, Expression, Shape, bind, bind_predicate
from .changing_kernel import change_numbers
from .fold import Fold, FoldState, WantedUpdates
from .fold_program import FoldProgram
from .folding_kernel import COUNT, MAX, MIN, SUM, fold_numbers
from .ordered_values import OrderedState, has_order
from .taken_back import extreme, timeless

_NAMES = {COUNT: "count", SUM: "sum", MIN: "min", MAX: "max"}
_NOTHING: dict[type, np.ndarray] = {np.int64: np.zeros(0, np.int64), np.float64: np.zeros(0, np.float64)}


@dataclass(frozen=True)
class NumberFold(Fold):
    """count (``of`` is None), sum, min or max of an expression. ``where``: of records for which it is true."""

    kind: int
    of: Expressible | None = None
    where: Expressible | None = None

    @property
    def words(self) -> str:
        if self.where is None:
            return ""
        return f"{_NAMES[self.kind]} {expressible_text(self.of)} where {expressible_text(self.where)}"

    @property
    def may_be_null(self) -> bool:
        return self.kind in (MIN, MAX)

    def output(self, shape: Shape, place: str) -> pa.DataType:
        return self.start(shape, place).saved_type

    def start(self, shape: Shape, place: str) -> FoldState:
        if self.of is None:
            return NumberState(self.kind, None, np.int64)
        expression = filtered(self.of, self.where, shape, place)
        kind = expression.result.arrow_type
        if pa.types.is_decimal(kind) or (self.kind != SUM and has_order(kind)):
            return OrderedState(self.kind, expression)
        return NumberState(self.kind, *numeric(expression, self.of, place))

    def start_taking(self, shape: Shape, place: str) -> FoldState:
        if self.of is None:
            return NumberState(self.kind, None, np.int64, change_numbers)
        expression = timeless(filtered(self.of, self.where, shape, place))
        kind = expression.result.arrow_type
        if self.kind != SUM:
            if not has_order(kind):
                numeric(expression, self.of, place)
            return extreme(expression, largest=self.kind == MAX)
        if pa.types.is_decimal(kind):
            return OrderedState(SUM, expression)
        return NumberState(SUM, *numeric(expression, self.of, place), change_numbers)


def filtered(of: Expressible, where: Expressible | None, shape: Shape, place: str) -> Expression:
    """``of``, null for records for which ``where`` is not true. Raises TopologyError for what is no condition."""
    expression = bind(of, shape, place)
    if where is None:
        return expression
    condition = bind_predicate(where, shape, place)
    return replace(expression, expression=pl.when(condition.expression).then(expression.expression))


def numeric(expression: Expression, of: Expressible, place: str) -> tuple[Expression, type]:
    """The bound expression and the NumPy type that its numbers fold in. Raises TopologyError unless numeric."""
    kind = expression.result.arrow_type
    if pa.types.is_integer(kind):
        return expression, np.int64
    if pa.types.is_floating(kind):
        return expression, np.float64
    raise TopologyError(place, "a number to fold", f"{of!s}, which gives {expression.result}", "cast it, or use min_by")


def ranked(by: Expressible, shape: Shape, place: str) -> tuple[Expression, type]:
    """The bound expression by which records are ranked, and the NumPy type in which they compare: numbers, dates,
    times, timestamps, and decimals of up to 18 digits. Raises TopologyError for others.
    """
    expression = bind(by, shape, place)
    kind = expression.result.arrow_type
    if pa.types.is_temporal(kind) or (pa.types.is_decimal(kind) and kind.precision <= _DIGITS_OF_LONG):
        return expression, np.int64
    if pa.types.is_decimal(kind):
        got = f"{by!s}, which gives {expression.result}"
        next_step = f"CAST(... AS DECIMAL({_DIGITS_OF_LONG}, {kind.scale})), or AS DOUBLE"
        raise TopologyError(place, f"a decimal of up to {_DIGITS_OF_LONG} digits to rank by", got, next_step)
    return numeric(expression, by, place)


_DIGITS_OF_LONG = 18


class NumberState(FoldState):
    """A number and whether it is not null, a slot; ``dtype`` is int64 or float64. ``carry_out``: the kernel."""

    def __init__(
        self, kind: int, of: Expression | None, dtype: type, carry_out: Callable[..., None] = fold_numbers
    ) -> None:
        self.kind, self.of, self.dtype, self.carry_out = kind, of, dtype, carry_out
        self.state: np.ndarray = np.zeros(0, dtype)
        self.valid = np.zeros(0, np.bool_)
        self.saved_type = pa.int64() if dtype is np.int64 else pa.float64()

    def grow(self, capacity: int) -> None:
        more = capacity - len(self.state)
        if more > 0:
            self.state = np.concatenate([self.state, np.zeros(more, self.dtype)])
            self.valid = np.concatenate([self.valid, np.zeros(more, np.bool_)])

    def run(self, program: FoldProgram, batch: Batch, wanted: WantedUpdates) -> tuple[pa.Array, pa.Array]:
        values, valid = self._inputs(batch)
        new: np.ndarray = np.zeros(wanted.n_new, self.dtype)
        old: np.ndarray = np.zeros(wanted.n_old, self.dtype)
        new_valid, old_valid = np.zeros(wanted.n_new, np.bool_), np.zeros(wanted.n_old, np.bool_)
        self.carry_out(
            self.kind, tuple(program), values, valid, self.state, self.valid, wanted.new, wanted.old,
            new, new_valid, old, old_valid,
        )  # fmt: skip
        return numbers(new, new_valid), numbers(old, old_valid)

    def _inputs(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        if self.of is None:
            return _NOTHING[self.dtype], batch.valid
        return number_columns(self.of.evaluate(batch), self.dtype)

    def save(self, slots: np.ndarray) -> pa.Array:
        return numbers(self.state[slots], self.valid[slots])

    def load(self, slots: np.ndarray, saved: pa.Array) -> None:
        self.state[slots], self.valid[slots] = number_columns(saved, self.dtype)

    def result(self, saved: pa.Array) -> pa.Array:
        return saved

    @property
    def shows_all(self) -> bool:
        return True


def numbers(values: np.ndarray, valid: np.ndarray) -> pa.Array:
    """Array of ``values``, null where not ``valid``."""
    return pa.array(values) if valid.all() else pa.array(values, mask=~valid)


def number_columns(array: pa.Array, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (0 where null) and validity; of dates, times and decimals what ``ranked`` compares."""
    valid = is_valid(array)
    if pa.types.is_decimal(array.type):
        # Arrow keeps a decimal128 as two longs, the lower first; ``ranked`` takes no more digits than fit into that.
        halves = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
        return np.where(valid, halves[::2], 0).astype(dtype), valid
    if pa.types.is_temporal(array.type):
        array = array.cast(pa.int32() if array.type == pa.date32() else pa.int64())
    filled = array if array.null_count == 0 else pc.fill_null(array, 0)
    return np.array(
        filled.to_numpy(zero_copy_only=False), dtype=dtype
    ), valid  # a copy: kernels take no read-only memory


@dataclass(frozen=True)
class MeanFold(Fold):
    """mean: the sum of an expression divided by the number of its values. ``where``: only records where it is true."""

    of: Expressible
    where: Expressible | None = None

    @property
    def words(self) -> str:
        if self.where is None:
            return ""
        return f"mean {expressible_text(self.of)} where {expressible_text(self.where)}"

    @property
    def may_be_null(self) -> bool:
        return True

    def output(self, shape: Shape, place: str) -> pa.DataType:
        self.start(shape, place)
        return pa.float64()

    def start(self, shape: Shape, place: str) -> "MeanState":
        expression = filtered(self.of, self.where, shape, place)
        if pa.types.is_decimal(expression.result.arrow_type):
            return MeanState(expression, OrderedState(SUM, expression))
        return MeanState(expression, NumberState(SUM, *numeric(expression, self.of, place)))

    def start_taking(self, shape: Shape, place: str) -> "MeanState":
        expression = timeless(filtered(self.of, self.where, shape, place))
        if pa.types.is_decimal(expression.result.arrow_type):
            return MeanState(expression, OrderedState(SUM, expression), change_numbers)
        total = NumberState(SUM, *numeric(expression, self.of, place), change_numbers)
        return MeanState(expression, total, change_numbers)


class MeanState(FoldState):
    """Sum and count a slot, divided when read."""

    def __init__(self, of: Expression, total: FoldState, carry_out: Callable[..., None] = fold_numbers) -> None:
        self.sum = total
        self.count = NumberState(SUM, NotNull(of), np.int64, carry_out)  # type: ignore[arg-type]
        self.saved_type = pa.struct([("sum", self.sum.saved_type), ("count", pa.int64())])

    def grow(self, capacity: int) -> None:
        self.sum.grow(capacity)
        self.count.grow(capacity)

    def forget(self, slots: np.ndarray) -> None:
        self.sum.forget(slots)

    def run(self, program: FoldProgram, batch: Batch, wanted: WantedUpdates) -> tuple[pa.Array, pa.Array]:
        new_sum, old_sum = self.sum.run(program, batch, wanted)
        new_count, old_count = self.count.run(program, batch, wanted)
        return _divide(new_sum, new_count), _divide(old_sum, old_count)

    def save(self, slots: np.ndarray) -> pa.Array:
        parts = [self.sum.save(slots), self.count.save(slots)]
        return pa.StructArray.from_arrays(parts, fields=list(self.saved_type))

    def load(self, slots: np.ndarray, saved: pa.Array) -> None:
        self.sum.load(slots, saved.field("sum"))
        self.count.load(slots, saved.field("count"))

    def result(self, saved: pa.Array) -> pa.Array:
        return _divide(saved.field("sum"), saved.field("count"))


@dataclass(frozen=True, eq=False)
class NotNull:
    """1 where an expression has a value, else 0."""

    of: Expression

    def evaluate(self, batch: Batch) -> pa.Array:
        return self.of.evaluate(batch).is_valid().cast(pa.int64())


def _divide(total: pa.Array, count: pa.Array) -> pa.Array:
    some = pc.if_else(pc.greater(count, 0), count, pa.scalar(None, pa.int64()))
    # Not the safe cast: a sum of more than 53 bits is rounded.
    return pc.divide(total.cast(pa.float64(), safe=False), some.cast(pa.float64()))


@checked_as("fold.count")
def count() -> Fold:
    """Number of records, tombstones included where the operator takes them. Never null.

    >>> show(payments.group_by("value").aggregate(payments=fold.count()))
    card: {'payments': 1} at 1500
    cash: {'payments': 1} at 90000
    """
    return NumberFold(COUNT)


@checked_as("fold.sum")
def sum_(of: Expressible = "value", *, where: Expressible | None = None) -> Fold:
    """Sum of ``of``, of records for which ``where`` is true; 0 when there was nothing but nulls. Of decimals it has all
    digits. ``fold.sum("amount", where="currency = 'EUR'")``.

        >>> show(orders.group_by_key().aggregate(fold.sum("amount", where="amount > 1")))
        ann: 5 at 1000
        bob: 0 at 2000
        ann: 7 at 61000
    """
    return NumberFold(SUM, of, where)


@checked_as("fold.min")
def min_(of: Expressible = "value", *, where: Expressible | None = None) -> Fold:
    """Smallest ``of``, a number, decimal, date, time, timestamp, text or binary, of records for which ``where`` is
    true; null when there were only nulls. NaN is passed over while there is a number.

        >>> show(clicks.group_by_key().aggregate(fold.min("page")))
        ann: home at 0
        bob: home at 1000
        ann: cart at 2000
        bob: home at 70000
    """
    return NumberFold(MIN, of, where)


@checked_as("fold.max")
def max_(of: Expressible = "value", *, where: Expressible | None = None) -> Fold:
    """Largest ``of``, as of ``min``; null when there were only nulls.

    >>> show(clicks.group_by_key().aggregate(longest=fold.max("seconds")))
    ann: {'longest': 5} at 0
    bob: {'longest': 1} at 1000
    ann: {'longest': 9} at 2000
    bob: {'longest': 2} at 70000
    """
    return NumberFold(MAX, of, where)


@checked_as("fold.mean")
def mean(of: Expressible = "value", *, where: Expressible | None = None) -> Fold:
    """Mean of the non-null ``of`` as a double, of records for which ``where`` is true; null when there were only
    nulls.

        >>> show(orders.group_by("item").aggregate(fold.mean("amount")))
        tea: 5.0 at 1000
        mug: 1.0 at 2000
        tea: 3.5 at 61000
    """
    return MeanFold(of, where)
