"""Smallest and largest of values that have an order and are no numbers of the machine, and the sum of decimals.

Rule: null changes nothing. Text goes by its characters' code points, binary by its bytes without a sign, false comes
before true. A sum has all its digits: a decimal of 38, and one that needs more ends the run.
"""

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from ....state.errors import TaskFailed
from ....state.records.batches import Batch
from ..expressions import Expression
from .folding_kernel import MIN, SUM
from .object_state import ObjectState

_DIGITS = 38
# Python's default context rounds to 28 digits.
_EXACT = Context(prec=2 * _DIGITS)


def has_order(kind: pa.DataType) -> bool:
    """Whether ``min`` and ``max`` take values of ``kind``, beside numbers of the machine."""
    is_plain = pa.types.is_temporal(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind)
    return bool(is_plain or pa.types.is_decimal(kind))


class OrderedState(ObjectState):
    """min, max or sum (of decimals) of an expression; None: nothing yet."""

    def __init__(self, kind: int, of: Expression) -> None:
        super().__init__()
        self.kind, self.of = kind, of
        declared = of.result.arrow_type
        self.saved_type = pa.decimal128(_DIGITS, declared.scale) if kind == SUM else declared
        self.output_type = self.saved_type
        self.empty = Decimal(0) if kind == SUM else None

    def inputs(self, batch: Batch) -> list[Any]:
        return list(self.of.evaluate(batch).to_pylist())

    def added(self, aggregate: Any, value: Any) -> Any:
        if self.kind == SUM:
            return self._sum(aggregate, value)
        if aggregate is None:
            return value
        return value if (value < aggregate if self.kind == MIN else value > aggregate) else aggregate

    def taken(self, aggregate: Any, value: Any) -> Any:
        assert self.kind == SUM, "the smallest of what is left is not known"
        # A unary minus would round to the digits of the default context.
        return self._sum(aggregate, value.copy_negate())

    def merged(self, one: Any, other: Any) -> Any:
        return self.added(one, other)

    def shown(self, aggregate: Any) -> Any:
        return aggregate

    def saved(self, aggregate: Any) -> Any:
        return aggregate

    def loaded(self, saved: Any) -> Any:
        return saved

    @property
    def shows_all(self) -> bool:
        return True

    def _sum(self, one: Decimal, other: Decimal) -> Decimal:
        total = _EXACT.add(one, other)
        if total.adjusted() + self.output_type.scale >= _DIGITS:
            expected, next_step = f"a sum of at most {_DIGITS} digits", "sum CAST(... AS DOUBLE), or fewer digits"
            raise TaskFailed(self.of.place, expected, str(total), next_step)
        return total
