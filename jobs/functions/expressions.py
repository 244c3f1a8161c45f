"""Steps that a user writes as a polars expression, an SQL string or a Python callable, checked when the topology is
built.

Owns the names that an expression sees: the fields of a JSON value by their names (a primitive value is ``value``), and
``record_key``, ``record_time_ms``, ``value_is_null``, ``window_start_ms``, ``window_end_ms`` (the last two of a
windowed key only). Text may call a field that is named as a word of SQL is (``order``) as it is: sql_text.py says how
that is read.
Rule: an expression is tried on an empty frame of the declared types at once, so that an unknown column is a
TopologyError and not a failure at three in the morning.
"""

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from ...state.errors import ConfigError, TaskFailed, TopologyError
from ...state.near_names import did_you_mean
from ...state.records.batches import Batch
from ...state.serdes import Serde, computed_type
from ...state.serdes.codec import refused_part
from ...state.serdes.handed_over import own_copy
from ...state.serdes.windowed_codec import Windowed as Windowed
from ...state.tables.warehouse import WINDOW
from .null_comparisons import misuse_of_null
from .row_independence import looks_beyond_the_record
from .sql_text import DEPTH_MAX, balanced, clock_word, depth, in_sql, readings

VALUE_IS_NULL = "value_is_null"
"""True of a tombstone; otherwise a row of nulls and no value at all look alike. A field of this name goes first."""

RESERVED = ("record_key", "record_time_ms", *WINDOW)

Expressible = pl.Expr | str
"""A polars expression, or SQL text such as ``"air_time / 60 AS hours"``."""


class Columns(Protocol):
    """What an expression may name."""

    def columns(self) -> dict[str, pa.DataType]: ...


@dataclass(frozen=True)
class Shape:
    """What the records of a stream look like: types of key and value, and whether the key is windowed."""

    key: Serde
    value: Serde
    window: str | None = None
    """None, "time" or "session"."""

    def __post_init__(self) -> None:
        clash = sorted(set(RESERVED) & set(self.fields()))
        if clash:
            raise TopologyError(
                "value fields", f"names other than {', '.join(RESERVED)}", ", ".join(clash), "rename these fields"
            )

    @property
    def is_hashable(self) -> bool:
        """Whether both serdes are: one of the user's own may not be."""
        try:
            hash(self)
        except TypeError:
            return False
        return True

    def fields(self) -> dict[str, pa.DataType]:
        """The value's columns by name."""
        if self.value.is_struct:
            return {field.name: field.type for field in self.value.arrow_type}
        return {"value": self.value.arrow_type}

    def columns(self) -> dict[str, pa.DataType]:
        """All columns that an expression may name."""
        of_key = key_columns(self.key, self.window)
        return self.fields() | {"record_key": of_key["record_key"], "record_time_ms": pa.int64()} | of_key

    def frame(self, batch: Batch, names: list[str]) -> pl.DataFrame:
        """The named columns of ``batch``, and nothing else."""
        arrays: dict[str, pa.Array] = {}
        fields = self.fields()
        value = batch.value.all() if any(name in fields for name in names) else None
        for name in names:
            if name in fields:
                assert value is not None
                arrays[name] = _field(value, name) if self.value.is_struct else value
            elif name == VALUE_IS_NULL:
                arrays[name] = pa.array(~batch.valid)
            elif name == "record_time_ms":
                arrays[name] = pa.array(batch.time_ms)
        arrays |= key_arrays(self.key, batch, names)
        if not arrays:
            return pl.DataFrame({"rows": np.zeros(len(batch), np.int8)})
        frame = pl.from_arrow(pa.table(arrays))
        assert isinstance(frame, pl.DataFrame)
        return frame


def key_columns(key: Serde, window: str | None) -> dict[str, pa.DataType]:
    """What an expression may name of a key: ``record_key``, and the bounds of a windowed one, whether windows are
    beside the keys (``window``) or in their bytes.
    """
    if window is None and key.codec.is_windowed:
        inner = key.arrow_type
        return {"record_key": inner.field("key").type} | {name: inner.field(name).type for name in WINDOW}
    bounds = {} if window is None else dict.fromkeys(WINDOW, pa.int64())
    return {"record_key": key.arrow_type} | bounds


def key_arrays(key: Serde, batch: Batch, names: Collection[str]) -> dict[str, pa.Array]:
    """The columns of ``key_columns`` that are among ``names``."""
    columns: dict[str, pa.Array] = {}
    named = [name for name in ("record_key", *WINDOW) if name in names]
    if not named:
        return columns
    if batch.window_start_ms is None and key.codec.is_windowed:
        parts = dict(zip(("record_key", *WINDOW), batch.keys.typed(batch.key).flatten(), strict=True))
        return {name: parts[name] for name in named}
    for name in named:
        columns[name] = batch.keys.typed(batch.key) if name == "record_key" else pa.array(getattr(batch, name))
    return columns


def _field(struct: pa.StructArray, name: str) -> pa.Array:
    return struct.flatten()[struct.type.get_field_index(name)]


@dataclass(frozen=True, eq=False)
class Expression:
    """A polars expression bound to the columns it reads; ``result`` is the serde of what it gives."""

    expression: pl.Expr
    shape: Columns
    result: Serde
    name: str
    place: str

    def evaluate(self, batch: Batch) -> pa.Array:
        """One value a record. Raises TaskFailed when polars cannot compute it on these values."""
        assert isinstance(self.shape, Shape)
        return self.compute(self.shape.frame(batch, self.expression.meta.root_names()))

    def compute(self, frame: pl.DataFrame) -> pa.Array:
        """One value a row of ``frame``, which has the columns that the expression names."""
        rows = frame.height
        try:
            column = frame.select(self.expression.alias("result"))["result"]
        except pl.exceptions.PolarsError as error:
            raise TaskFailed(
                self.place, "values that the expression can compute", str(error).splitlines()[0], "correct the step"
            ) from error
        if len(column) == 1 and rows != 1 and not self.expression.meta.root_names():  # a constant
            column = column.new_from_index(0, rows) if rows else column.clear()
        if len(column) != rows:
            got = f"{len(column)} values for {rows} records"
            raise TaskFailed(self.place, "one value for each record", got, "correct the step")
        return self._arrow(column)

    def _arrow(self, column: pl.Series) -> pa.Array:
        wanted = self.result.arrow_type
        array = column.to_arrow(compat_level=pl.CompatLevel.oldest())
        try:
            return array if array.type == wanted else array.cast(wanted)
        except pa.ArrowInvalid as error:
            expected, got = f"values that fit {self.result}", str(error).splitlines()[0]
            raise TaskFailed(self.place, expected, got, "correct the step, or cast it") from error


def bind(expressible: Expressible, shape: Columns, place: str) -> Expression:
    """Check ``expressible`` against ``shape``; ``place`` is named in errors.

    Raises TopologyError for text that is no SQL expression, an unknown column, types that do not fit or that no serde
    has, and several columns. Also for a result that depends on other records or on the wall clock, and a comparison
    with NULL.
    """
    if isinstance(expressible, str) and isinstance(shape, Shape) and shape.is_hashable:
        return _bound_text(expressible, shape, place)
    return _bound(expressible, shape, place)


def _bound(expressible: Expressible, shape: Columns, place: str) -> Expression:
    if not isinstance(expressible, str | pl.Expr):
        raise TopologyError(place, "a polars expression or SQL text", repr(expressible), "use pl.col(...), or text")
    expression, answer = tried(expressible, shape, place)
    if answer.width != 1 or expression.meta.has_multiple_outputs():
        got = f"{expressible!s}, which gives {', '.join(answer.columns)}"
        raise TopologyError(place, "an expression of one column, named", got, "give one expression for each column")
    if looks_beyond_the_record(expression, _columns(expressible, shape)):
        got = f"{expressible!s}, which looks at other records too"
        formats = ", or give the format of the text" if ".strptime(" in str(expression) else ""  # else of the first row
        raise TopologyError(
            place, "one value for each record, from that record alone", got, f"use an aggregation{formats}"
        )
    _check_null(expression, expressible, place)
    column = answer.to_series()
    declared = _declared(expression, shape.columns())
    serde = _serde_of(column, expressible, place) if declared is None else Serde.of_type(declared)
    return Expression(expression, shape, serde, column.name, place)


def _check_null(expression: pl.Expr, expressible: Expressible, place: str, *, is_condition: bool = False) -> None:
    if (misuse := misuse_of_null(expression, is_condition=is_condition)) is not None:
        expected, got, next_step = misuse
        words = "IS NULL or IS NOT NULL" if isinstance(expressible, str) else ".is_null() or .is_not_null()"
        raise TopologyError(place, expected, f"{expressible!s}, {got}", next_step or f"write {words}")


def _check_clock(reading: str, expressible: Expressible, place: str) -> None:
    """Polars would put the present time into the expression, another one in each process that builds the topology."""
    if word := clock_word(reading):
        got, next_step = f"{expressible!s}, in which {word} is the wall clock", "use record_time_ms, or give a constant"
        raise TopologyError(place, "a step that gives the same in every run", got, next_step)


_bound_text = functools.lru_cache(4096)(_bound)
"""Every task of every increment binds the same texts."""


def _declared(expression: pl.Expr, columns: Mapping[str, pa.DataType]) -> pa.DataType | None:
    """The type of the column, or of the field of one, that the expression is, where a computed one would be wider."""
    plain = expression.meta.undo_aliases()
    for name, kind in columns.items():
        if kind == computed_type(kind):
            continue
        if plain.meta.eq(pl.col(name)):
            return kind
        fields = kind if pa.types.is_struct(kind) else []
        types = [field.type for field in fields if plain.meta.eq(pl.col(name).struct.field(field.name))]
        if types:
            return types[0]
    return None


def tried(expressible: Expressible, shape: Columns, place: str) -> tuple[pl.Expr, pl.DataFrame]:
    """The expression, and what it gives of no records. Raises TopologyError when no reading of it can be computed."""
    columns = _columns(expressible, shape)
    empty = pl.from_arrow(pa.table({name: pa.array([], kind) for name, kind in columns.items()}))
    assert isinstance(empty, pl.DataFrame)
    failures: list[pl.exceptions.PolarsError] = []
    parsed: list[pl.Expr] = []
    for reading in [expressible] if isinstance(expressible, pl.Expr) else readings(expressible, columns):
        try:
            expression = pl.sql_expr(balanced(reading)) if isinstance(reading, str) else reading
            parsed.append(expression)
            answer = empty.select(expression)
            if isinstance(reading, str):
                _check_clock(reading, expressible, place)
            return expression, answer
        except pl.exceptions.PolarsError as error:
            failures.append(error)
    for expression in parsed:
        _check_null(expression, expressible, place)
    if isinstance(expressible, str) and (levels := depth(expressible)) > DEPTH_MAX:
        got, next_step = f"{levels} levels in {expressible}", "build it with pl.col(...), or give it in several steps"
        raise TopologyError(place, f"SQL of at most {DEPTH_MAX} levels", got, next_step) from failures[0]
    failure = next((one for one in failures if not isinstance(one, _NO_SQL)), failures[0])
    said = str(failure).splitlines()[0]
    meant = in_sql(expressible) if isinstance(expressible, str) else ""
    if isinstance(failure, pl.exceptions.ColumnNotFoundError):
        got = f"{expressible!s}: {said.partition(';')[0]}"
        near = did_you_mean(said.partition('"')[2].partition('"')[0], columns, "")
        next_step = "; ".join(filter(None, (meant or "correct the name or the declared serde", near)))
        raise TopologyError(place, f"columns of {', '.join(columns)}", got, next_step) from failure
    raise TopologyError(
        place, "an expression that polars can compute", f"{expressible!s} ({said})", meant or "correct the step"
    ) from failure


def _columns(expressible: Expressible, shape: Columns) -> dict[str, pa.DataType]:
    """What the expression may name, ``value_is_null`` only where it does: it is no field of ``pl.all()``."""
    columns = shape.columns()
    named = expressible if isinstance(expressible, str) else expressible.meta.root_names()
    if isinstance(shape, Shape) and VALUE_IS_NULL in named:
        columns = columns | {VALUE_IS_NULL: columns.get(VALUE_IS_NULL, pa.bool_())}
    return columns


_NO_SQL = pl.exceptions.SQLInterfaceError, pl.exceptions.SQLSyntaxError
"""Of text that is no expression at all."""


def _serde_of(column: pl.Series, expressible: Expressible, place: str) -> Serde:
    try:
        return Serde.of_computed(column.to_arrow(compat_level=pl.CompatLevel.oldest()).type)
    except ConfigError as error:
        got = f"{expressible!s}, which gives {column.dtype}"
        raise TopologyError(place, f"a result of type {error.expected}", got, error.next_step) from error


def bind_predicate(expressible: Expressible, shape: Columns, place: str) -> Expression:
    """As ``bind``, and the result must be boolean."""
    predicate = bind(expressible, shape, place)
    _check_null(predicate.expression, expressible, place, is_condition=True)
    if predicate.result.arrow_type != pa.bool_():
        raise TopologyError(place, "a condition", f"{expressible!s}, which gives {predicate.result}", "compare with ==")
    return predicate


@dataclass(frozen=True, eq=False)
class Call:
    """A Python callable of (key, value), run record by record; ``result`` is the serde of what it gives."""

    function: Callable[[Any, Any], Any]
    shape: Shape
    result: Serde
    place: str

    def evaluate(self, batch: Batch) -> pa.Array:
        """One value a record. Raises TaskFailed that names the first record on which the callable failed."""
        values = self.shape.value.to_python(batch.value.all())
        results, can_change = [None] * len(batch), self.result.codec.can_change
        for row, (key, value) in enumerate(zip(python_keys(self.shape, batch), values, strict=True)):
            try:
                result = self.function(key, value)
                results[row] = own_copy(result) if can_change else result
            except Exception as error:
                given = f"on key {key!r}, value {value!r}"
                raise TaskFailed.by(
                    error, self.place, "a result of the callable", given, "correct the callable"
                ) from error
        return self._typed(results, batch)

    def _typed(self, results: list[Any], batch: Batch) -> pa.Array:
        try:
            return self.result.from_python(results)
        except ConfigError:
            row, refused = first_misfit(self.result, results)
        (key,) = python_keys(self.shape, batch.where(np.arange(len(batch)) == row))
        next_step = "correct the callable, or the serde in returns"
        if pa.types.is_boolean(self.result.arrow_type):
            next_step = "return True or False, as bool(…) gives"
        got = f"{refused_part(refused)} on key {key!r}"
        raise TaskFailed(self.place, f"a result of {self.result}", got, next_step) from refused


@dataclass(frozen=True, eq=False)
class ContextCall(Call):
    """A Python callable of (key, value, context), with a RecordContext: jobs/operators/base/record_contexts.py calls it
    where contexts are known.
    """


def first_misfit(serde: Serde, results: list[Any]) -> tuple[int, ConfigError]:
    """Of ``results``, of which the serde refuses one: the row of the first, and why."""
    for row, result in enumerate(results):
        try:
            serde.from_python([result])
        except ConfigError as error:
            return row, error
    raise AssertionError("a column was refused of which every value is taken")


def python_keys(shape: Shape, batch: Batch) -> list[Any]:
    """Keys as Python values; Windowed ones of a windowed stream."""
    keys = shape.key.to_python(batch.keys.typed(batch.key))
    if batch.window_start_ms is None or batch.window_end_ms is None:
        return keys
    starts, ends = batch.window_start_ms.tolist(), batch.window_end_ms.tolist()
    return [Windowed(key, start, end) for key, start, end in zip(keys, starts, ends, strict=True)]


@dataclass(frozen=True, eq=False)
class Struct:
    """Several expressions side by side: a struct value. A tombstone stays a tombstone."""

    columns: Mapping[str, Expression]
    result: Serde

    def evaluate(self, batch: Batch) -> pa.Array:
        arrays = [column.evaluate(batch) for column in self.columns.values()]
        mask = None if batch.valid.all() else pa.array(~batch.valid)
        return pa.StructArray.from_arrays(arrays, fields=list(self.result.arrow_type), mask=mask)


def bind_struct(columns: Mapping[str, Expression], place: str) -> Struct:
    """``columns`` as the fields of a value. Raises TopologyError for a type that JSON does not have."""
    return Struct(columns, fields_of(columns, place))


def fields_of(columns: Mapping[str, Expression], place: str) -> Serde:
    """Serde of a value with ``columns`` as its fields."""
    fields = [pa.field(name, column.result.arrow_type) for name, column in columns.items()]
    try:
        return Serde.of_type(pa.struct(fields))
    except ConfigError as error:
        raise TopologyError(place, f"fields of type {error.expected}", error.got, error.next_step) from error
