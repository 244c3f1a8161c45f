"""A fold of one's own, by expressions: ``fold.of(0, "aggregate + amount")``.

Owns what the expressions may name and which type an aggregate has. Rule: a step computes the next aggregate of the one
before, ``aggregate``, and of the record; a merge of two aggregates, ``aggregate`` and ``other``. A plain aggregate that
becomes null is a tombstone, and the next record begins with the initial value again, as of a Python aggregator.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from .....state.buffers import is_valid
from .....state.errors import TopologyError
from .....state.records.batches import Batch
from .....state.serdes import Serde
from ...call_arguments import checked_as
from ...expression_text import expressible_text
from ...expressions import Expressible, Expression, Shape, bind, tried
from ..fold import Fold, FoldState, WantedUpdates
from ..fold_program import FoldProgram
from ..numbers import number_columns
from ..taken_back import timeless
from .instructions import AGGREGATE, OTHER, Instructions, arrow_of, kind_of, word_of
from .instructions_kernel import fold_expressions

Initial = bool | int | float | str | pl.Expr | None
Part = Mapping[str, Expressible]

_ARROW = {pl.Int64: pa.int64(), pl.Float64: pa.float64(), pl.Boolean: pa.bool_()}
PARTS = ("merge", "subtract", "step")
"""In the order in which the kernel numbers them."""


@dataclass(frozen=True)
class _Sight:
    """What the expressions of a part may name, beside an aggregate: with ``shape`` a record's, else another one."""

    aggregate: pa.DataType
    shape: Shape | None

    def columns(self) -> dict[str, pa.DataType]:
        of_record = {OTHER: self.aggregate} if self.shape is None else self.shape.columns()
        return {AGGREGATE: self.aggregate} | of_record


@dataclass(frozen=True, eq=False)
class ExpressionFold(Fold):
    """Expressions by field name; a single one under the name "" makes a plain value."""

    initial: Mapping[str, Initial]
    step: Part
    merge: Part | None
    subtract: Part | None

    @property
    def is_plain(self) -> bool:
        return "" in self.initial

    @property
    def may_be_null(self) -> bool:
        return self.is_plain

    @property
    def merges(self) -> bool:
        return self.merge is not None

    @property
    def parts(self) -> Mapping[str, Part]:
        """Those that are given."""
        parts = {"merge": self.merge, "subtract": self.subtract, "step": self.step}
        return {sort: part for sort, part in parts.items() if part is not None}

    @property
    def words(self) -> str:
        parts = {"of": self.initial, "step": self.step, "merge": self.merge, "subtract": self.subtract}
        return " ".join(f"{name} {_said(part)}" for name, part in parts.items() if part is not None)

    def output(self, shape: Shape, place: str) -> pa.DataType:
        return _written(self, shape, place).type

    def start(self, shape: Shape, place: str) -> "ExpressionState":
        return ExpressionState(_written(self, shape, place))

    def start_taking(self, shape: Shape, place: str) -> "ExpressionState":
        if self.subtract is None:
            expected = "subtract= beside the step, since a change of a table takes its old value away"
            next_step = 'give for example subtract="aggregate - amount"'
            raise TopologyError(place, expected, f"fold.of without it: {self.words}", next_step)
        for one in (*self.step.values(), *self.subtract.values()):
            timeless(bind(one, _Sight(_written(self, shape, place).type, shape), place))
        return ExpressionState(_written(self, shape, place))


@dataclass(frozen=True, eq=False)
class FoldInstructions:
    """A fold as instructions: ``codes`` as the kernel takes them, ``kinds`` of the aggregate's fields by name."""

    kinds: Mapping[str, Any]
    codes: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    initial: tuple[np.ndarray, np.ndarray]
    instructions: Instructions
    read: tuple[Expression, ...]
    """What is computed of each record before."""
    shape: Shape

    @property
    def type(self) -> pa.DataType:
        return _type_of(self.kinds)

    def registers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Words, the same as doubles, and which are known; constants are in their place."""
        words, known = np.zeros(self.instructions.registers, np.int64), np.zeros(self.instructions.registers, np.bool_)
        for register, value in self.instructions.constants.items():
            words[register] = word_of(value, pl.Float64 if isinstance(value, float) else pl.Int64)
            known[register] = value is not None
        return words, words.view(np.float64), known

    def inputs(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Of each record what the instructions read, as words, and which are known."""
        words = np.zeros((len(batch), len(self.read)), np.int64)
        known = np.zeros((len(batch), len(self.read)), np.bool_)
        names = dict.fromkeys(name for one in self.read for name in one.expression.meta.root_names())
        frame = self.shape.frame(batch, list(names)) if names else None
        for column, expression in enumerate(self.read):
            assert frame is not None
            dtype = np.float64 if expression.result == Serde.double() else np.int64
            values, known[:, column] = number_columns(expression.compute(frame), dtype)
            words[:, column] = values.view(np.int64)
        return words, known


class ExpressionState(FoldState):
    """An aggregate a slot: eight bytes a field, whether each is known, and whether there is an aggregate."""

    def __init__(self, written: FoldInstructions) -> None:
        self.written, self.saved_type = written, written.type
        self.fields = len(written.kinds)
        self.state = self._rows(0)
        self.registers = written.registers()

    def _rows(self, rows: int) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((rows, self.fields), np.int64), np.zeros((rows, self.fields + 1), np.bool_)

    def grow(self, capacity: int) -> None:
        more = capacity - len(self.state[0])
        if more > 0:
            words, known = (np.concatenate(pair) for pair in zip(self.state, self._rows(more), strict=True))
            self.state = words, known

    def run(self, program: FoldProgram, batch: Batch, wanted: WantedUpdates) -> tuple[pa.Array, pa.Array]:
        new, old = self._rows(wanted.n_new), self._rows(wanted.n_old)
        fold_expressions(
            tuple(program), self.written.codes, self.registers, self.written.initial, self.written.inputs(batch),
            self.state, wanted.new, wanted.old, new, old, "" in self.written.kinds,
        )  # fmt: skip
        return self._shown(new), self._shown(old)

    def save(self, slots: np.ndarray) -> pa.Array:
        words, known = self.state
        return self._shown((words[slots], known[slots]))

    def load(self, slots: np.ndarray, saved: pa.Array) -> None:
        words, known = self.state
        parts = [saved] if "" in self.written.kinds else saved.flatten()
        for column, (part, kind) in enumerate(zip(parts, self.written.kinds.values(), strict=True)):
            part = part.cast(pa.int64()) if kind == pl.Boolean else part
            values, known[slots, column] = number_columns(part, np.float64 if kind == pl.Float64 else np.int64)
            words[slots, column] = values.view(np.int64)
        known[slots, self.fields] = is_valid(saved)

    def result(self, saved: pa.Array) -> pa.Array:
        return saved

    @property
    def shows_all(self) -> bool:
        return True

    def _shown(self, rows: tuple[np.ndarray, np.ndarray]) -> pa.Array:
        words, known = rows
        kinds = self.written.kinds.values()
        columns = [arrow_of(words[:, at], known[:, at], kind) for at, kind in enumerate(kinds)]
        if "" in self.written.kinds:
            return columns[0]
        is_there = known[:, self.fields]
        mask = None if is_there.all() else pa.array(~is_there)
        return pa.StructArray.from_arrays(columns, fields=list(self.saved_type), mask=mask)


def _type_of(kinds: Mapping[str, Any]) -> pa.DataType:
    types = {name: pa.null() if kind == pl.Null else _ARROW[kind] for name, kind in kinds.items()}
    return types[""] if "" in types else pa.struct(list(types.items()))


# --- from expressions to instructions ----------------------------------------------------------------------------


def _written(fold: ExpressionFold, shape: Shape, place: str) -> FoldInstructions:
    return (_written_once if shape.is_hashable else _written_anew)(fold, shape, place)


def _written_anew(fold: ExpressionFold, shape: Shape, place: str) -> FoldInstructions:
    if clash := sorted({AGGREGATE, OTHER} & set(shape.fields())):
        next_step = "rename these fields in a step before"
        raise TopologyError(place, "value fields beside aggregate and other", ", ".join(clash), next_step)
    first = {name: _constant(value, place) for name, value in fold.initial.items()}
    kinds = _kinds(fold.parts, first, shape, place)
    of_all = shape.columns() | {AGGREGATE: _type_of(kinds), OTHER: _type_of(kinds)}
    empty = pl.from_arrow(pa.table({name: pa.array([], kind) for name, kind in of_all.items()}))
    assert isinstance(empty, pl.DataFrame)
    instructions, bounds = Instructions(kinds, empty, place), [0]
    results = np.zeros((len(PARTS), len(kinds)), np.int64)
    for number, sort in enumerate(PARTS):
        part, sight = fold.parts.get(sort, {}), _Sight(_type_of(kinds), None if sort == "merge" else shape)
        for at, (name, kind) in enumerate(kinds.items() if part else ()):
            results[number, at] = instructions.add(bind(part[name], sight, place).expression, kind)
        bounds.append(len(instructions.code))
    code = np.array(instructions.code, np.int64).reshape(-1, 5)
    codes = code, np.array(bounds), results, np.array(list(instructions.inputs), np.int64)
    begun = {name: first[name].cast(kind)[0] for name, kind in kinds.items()}
    words = np.array([[word_of(value, kinds[name]) for name, value in begun.items()]])
    known = np.array([[*(value is not None for value in begun.values()), True]])
    read = tuple(
        Expression(one, shape, Serde.double() if kind == pl.Float64 else Serde.long(), "", place)
        for one, kind in instructions.inputs.values()
    )
    return FoldInstructions(kinds, codes, (words, known), instructions, read, shape)


_written_once = lru_cache(512)(_written_anew)
"""Every task of every increment starts the same folds."""


def _kinds(parts: Mapping[str, Part], first: Mapping[str, pl.Series], shape: Shape, place: str) -> Mapping[str, Any]:
    """The type of each field: one that holds the initial value and every result. Adding a double to a long makes both
    doubles.
    """
    types = {name: _wider(pl.Null, value.dtype, str(value[0]), place) for name, value in first.items()}
    for _ in range(len(types) + 2):
        seen, aggregate = types, _type_of(types)
        for sort, part in parts.items():
            sight = _Sight(aggregate, None if sort == "merge" else shape)
            for name, expressible in part.items():
                answer = tried(expressible, sight, place)[1].dtypes[0]
                types = {**types, name: _wider(types[name], answer, expressible, place)}
        if types == seen:
            break
    for name, dtype in types.items():
        if dtype == pl.Null:
            of = f"of {name} " if name else ""
            next_step = "give an initial value, or CAST(NULL AS BIGINT)"
            raise TopologyError(place, f"a type {of}that is known", "null alone", next_step)
    return types


def _wider(one: Any, other: Any, of: Expressible, place: str) -> Any:
    kinds = [pl.Null if dtype == pl.Null else kind_of(dtype) for dtype in (one, other)]
    if None in kinds or (pl.Boolean in kinds and len({*kinds} - {pl.Null}) > 1):
        got = f"{of!s}, which gives {other}" + ("" if None in kinds else f", of what is {one}")
        next_step = "CAST(… AS DOUBLE) or BIGINT, or use initializer=, aggregator= and returns="
        raise TopologyError(place, "an aggregate of integers, doubles or booleans", got, next_step)
    return next((kind for kind in (pl.Float64, pl.Int64, pl.Boolean) if kind in kinds), pl.Null)


def _constant(value: Initial, place: str) -> pl.Series:
    """One value."""
    if not isinstance(value, str | pl.Expr):
        return pl.Series([value])
    expression, _ = tried(value, _Sight(pa.null(), None), place)
    if expression.meta.root_names():
        raise TopologyError(place, "an initial value that is a constant", str(value), "put it into the step")
    constant = pl.select(expression).to_series()
    return constant.cast(pl.Float64) if constant.dtype.is_decimal() else constant


def _said(part: Mapping[str, Any]) -> str:
    if "" in part:
        return expressible_text(part[""])
    return "(" + ", ".join(f"{expressible_text(one)} AS {name}" for name, one in part.items()) + ")"


@checked_as("fold.of")
def of(
    initial: Initial | Mapping[str, Initial],
    step: Expressible | Part,
    *,
    merge: Expressible | Part | None = None,
    subtract: Expressible | Part | None = None,
) -> Fold:
    """A fold of your own: ``initial``, and as SQL or polars expression a ``step`` that makes the next ``aggregate`` of
    the one before and a record's fields. Sessions want a ``merge`` of ``aggregate`` and ``other``, grouped tables a
    ``subtract``. Mappings make a struct, whose fields are ``aggregate.total`` in expressions. Computed are numbers and
    booleans, as SQL does: what is null stays null unless ``COALESCE`` is asked.

        >>> show(orders.group_by_key().aggregate(fold.of(1, "aggregate * amount")))
        ann: 5 at 1000
        bob: 1 at 2000
        ann: 10 at 61000
    """
    parts = [
        _by_name(initial),
        _by_name(step),
        *(None if part is None else _by_name(part) for part in (merge, subtract)),
    ]
    names = list(parts[0] or ())
    for call, part in zip(("initial", "step", "merge", "subtract"), parts, strict=True):
        if part is not None and (set(part) != set(names) or not names):
            got = f"{call} with {', '.join(part) if '' not in part else 'one expression'}"
            expected = f"{', '.join(names)} in each part" if names != [""] else "one expression for each part"
            raise TopologyError("fold.of", expected, got, "give every part the same fields")
    begun, next_, merged, subtracted = parts
    assert begun is not None
    assert next_ is not None
    return ExpressionFold(begun, next_, merged, subtracted)


def _by_name(part: Any) -> dict[str, Any]:
    return dict(part) if isinstance(part, Mapping) else {"": part}
