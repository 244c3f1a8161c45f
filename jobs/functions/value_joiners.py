"""Value joiners: what a join makes of a left and a right value.

Owns the names that a joiner's expression sees: ``left`` and ``right``, null where there is none (fields of a struct as
``left.name`` in SQL), ``record_key``, and ``window_start_ms``/``window_end_ms`` of a windowed key.
Rule: a joiner is called for every joined pair, one side missing or not; what it gives may be null.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from ...state.errors import ConfigError, TaskFailed, TopologyError
from ...state.records.batches import Batch
from ...state.serdes import Serde
from ...state.serdes.codec import refused_part
from ...state.serdes.handed_over import own_copy
from .expressions import (
    Expressible,
    Expression,
    Shape,
    bind,
    fields_of,
    first_misfit,
    key_arrays,
    key_columns,
    python_keys,
)
from .parameters import KEY_LEFT_RIGHT, LEFT_RIGHT, form_of

JoinerStep = Expressible | Callable[..., Any]
"""Of (left, right), or of (key, left, right), when it is a callable (Kafka's ValueJoiner, ValueJoinerWithKey)."""


class Joiner(ABC):
    """``result``: serde of the joined value."""

    result: Serde

    @abstractmethod
    def evaluate(self, batch: Batch, left: pa.Array, right: pa.Array) -> pa.Array:
        """Joined value of every row, which may be null. ``batch``: for the keys; either side is null where missing."""


@dataclass(frozen=True)
class Pair:
    """What a joiner's expression may name."""

    left: Serde
    right: Serde
    key: Serde
    window: str | None = None

    def columns(self) -> dict[str, pa.DataType]:
        sides = {"left": self.left.arrow_type, "right": self.right.arrow_type}
        return sides | key_columns(self.key, self.window)

    def frame(self, batch: Batch, left: pa.Array, right: pa.Array, names: set[str]) -> pl.DataFrame:
        """The named columns, one row a pair."""
        arrays: dict[str, Any] = {name: side for name, side in (("left", left), ("right", right)) if name in names}
        arrays |= key_arrays(self.key, batch, names)
        if not arrays:
            arrays["row"] = np.zeros(len(batch), np.int8)
        frame = pl.from_arrow(pa.table(arrays))
        assert isinstance(frame, pl.DataFrame)
        return frame


@dataclass(frozen=True, eq=False)
class ExpressionJoiner(Joiner):
    """Expressions by field name; a single one under the name "" makes a plain value."""

    pair: Pair
    expressions: Mapping[str, Expression]
    result: Serde

    def evaluate(self, batch: Batch, left: pa.Array, right: pa.Array) -> pa.Array:
        names = {name for step in self.expressions.values() for name in step.expression.meta.root_names()}
        frame = self.pair.frame(batch, left, right, names)
        arrays = [expression.compute(frame) for expression in self.expressions.values()]
        if "" in self.expressions:
            return arrays[0]
        return pa.StructArray.from_arrays(arrays, fields=list(self.result.arrow_type))


@dataclass(frozen=True, eq=False)
class CallJoiner(Joiner):
    """A Python callable of (left, right), run pair by pair. ``keyed``: of the left side where the callable is of (key,
    left, right), which a windowed key comes to as a Windowed.
    """

    function: Callable[..., Any]
    left: Serde
    right: Serde
    result: Serde
    place: str
    keyed: Shape | None = None

    def evaluate(self, batch: Batch, left: pa.Array, right: pa.Array) -> pa.Array:
        """Raises TaskFailed that names the first pair on which the callable failed."""
        sides = [self.left.to_python(left), self.right.to_python(right)]
        if self.keyed is not None:
            sides.insert(0, python_keys(self.keyed, batch))
        results: list[Any] = []
        can_change = self.result.codec.can_change
        for each in zip(*sides, strict=True):
            try:
                result = self.function(*each)
                results.append(own_copy(result) if can_change else result)
            except Exception as error:
                given = f"on {' and '.join(map(repr, each))}"
                raise TaskFailed.by(error, self.place, "a result of the joiner", given, "correct the joiner") from error
        try:
            return self.result.from_python(results)
        except ConfigError:
            row, refused = first_misfit(self.result, results)
        got = f"{refused_part(refused)} on {' and '.join(repr(side[row]) for side in sides)}"
        next_step = "correct the joiner, or the serde in returns"
        raise TaskFailed(self.place, f"a result of {self.result}", got, next_step) from refused


def pair_of(left: Shape, right: Serde) -> Pair:
    """What a join of ``left`` with values of ``right`` sees."""
    return Pair(left.value, right, left.key, left.window)


def bind_joiner(
    joiner: JoinerStep | None,
    columns: Mapping[str, Expressible],
    left: Shape,
    right: Serde,
    returns: Serde | None,
    place: str,
) -> Joiner:
    """Check the joiner of a join of ``left`` with values of ``right``; ``place`` is named in errors.

    Raises TopologyError for one that is missing, given twice, unknown columns, and a callable without ``returns`` or of
    other parameters.
    """
    if (joiner is None) == (not columns):
        got = "neither" if joiner is None else "both"
        raise TopologyError(place, "a joiner or named columns", got, 'give for example total="left + right"')
    pair = pair_of(left, right)
    if columns:
        bound = {name: bind(step, pair, place) for name, step in columns.items()}
        return ExpressionJoiner(pair, bound, fields_of(bound, place))
    if isinstance(joiner, str | pl.Expr):
        expression = bind(joiner, pair, place)
        return ExpressionJoiner(pair, {"": expression}, expression.result)
    if not callable(joiner):
        expected = "an expression, SQL text or a callable of (left, right)"
        next_step = "give fields=" if isinstance(joiner, Mapping) else "correct the joiner"
        raise TopologyError(place, expected, repr(joiner), next_step)
    is_keyed = form_of(joiner, place, LEFT_RIGHT, KEY_LEFT_RIGHT) is KEY_LEFT_RIGHT
    if returns is None:
        raise TopologyError(place, "returns= beside a Python callable", "none", "give the serde of the result")
    return CallJoiner(joiner, left.value, right, returns, place, left if is_keyed else None)
