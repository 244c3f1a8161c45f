"""From expressions to instructions that a kernel carries out for every record.

Owns which expressions of an aggregate can be computed so. Rule: what names neither ``aggregate`` nor ``other`` is
computed by polars, for all records of a batch at once, whatever it is; so only what is done with the aggregate is an
instruction. Types are polars' own, except that integers are longs and floats doubles.
"""

import io
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from .....state.errors import TopologyError
from . import instructions_kernel as does

AGGREGATE, OTHER = "aggregate", "other"
Node = Any
"""An expression as polars writes it in JSON."""

_OF_TWO = {
    "Plus": does.PLUS, "Add": does.PLUS, "Minus": does.MINUS, "Sub": does.MINUS, "Multiply": does.TIMES,
    "Mul": does.TIMES, "TrueDivide": does.DIVIDE, "Div": does.DIVIDE, "IntDiv": does.DIVIDE, "Rem": does.REMAINDER,
}  # fmt: skip
_COMPARISONS = {
    "Eq": does.EQUAL, "NotEq": does.UNEQUAL, "Lt": does.LESS, "LtEq": does.AT_MOST, "Gt": does.LESS,
    "GtEq": does.AT_MOST, "EqValidity": does.SAME, "NotEqValidity": does.NOT_SAME,
}  # fmt: skip
_SWAPPED = ("Gt", "GtEq")
_OF_BOOLEANS = {"And": does.AND, "LogicalAnd": does.AND, "Or": does.OR, "LogicalOr": does.OR}
_OF_ONE = {"IsNull": does.IS_NULL, "IsNotNull": does.IS_NOT_NULL, "Not": does.NOT}
_OF_MANY = {"Coalesce": does.OR_ELSE, "MaxHorizontal": does.GREATEST, "MinHorizontal": does.LEAST}
_ALTERNATIVE = "compute it of the record alone, or give initializer=, aggregator= (adder=, subtractor= of a table)"


def kind_of(dtype: Any) -> Any:
    """What a value of that type is in a register: Int64, Float64 or Boolean; None if it cannot be in one."""
    if dtype.is_integer() and dtype != pl.UInt64:
        return pl.Int64
    if dtype.is_float():
        return pl.Float64
    return pl.Boolean if dtype == pl.Boolean else None


@dataclass
class Instructions:
    """Those of all parts of one fold, over the same registers. ``fields``: the kinds of the aggregate's, by name; a
    single one under the name "" is a plain value. ``empty``: a frame of what may be named, without rows.
    """

    fields: Mapping[str, Any]
    empty: pl.DataFrame
    place: str
    code: list[tuple[int, ...]] = field(default_factory=list)
    inputs: dict[int, tuple[pl.Expr, Any]] = field(default_factory=dict)
    """What is put into a register for every record, and its kind; booleans as 0 and 1."""
    constants: dict[int, Any] = field(default_factory=dict)
    registers: int = 0
    _given: dict[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.registers = 2 * len(self.fields)

    def add(self, expression: pl.Expr, kind: Any) -> int:
        """Instructions for ``expression``; returns the register in which its value is, of that kind."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # polars says that what it writes is for this version alone
            return self._value(json.loads(expression.meta.undo_aliases().meta.serialize(format="json")), kind)

    def _value(self, node: Node, wanted: Any) -> int:
        if not _is_of_aggregate(node):
            return self._of_record(node, wanted)
        register, kind = self._computed(node)
        if kind == wanted or (kind, wanted) == (pl.Boolean, pl.Int64):
            return register
        if wanted == pl.Float64:
            return self._instruction(does.TO_DOUBLE, register)
        if (kind, wanted) == (pl.Int64, pl.Boolean):
            return self._instruction(does.TO_BOOLEAN, register)
        raise self._refused(node, "no double of an aggregate as an integer or a boolean")

    def _of_record(self, node: Node, wanted: Any) -> int:
        key = json.dumps(node), str(wanted)
        if key in self._given:
            return self._given[key]
        expression, dtype = _expression(node), self._type(node)
        if kind_of(dtype) is None and not dtype.is_decimal() and dtype not in (pl.Null, pl.UInt64):
            raise self._refused(node, "numbers and booleans")
        expression = expression.cast(wanted)
        register = self._given[key] = self._new()
        if expression.meta.root_names():
            kind = pl.Float64 if wanted == pl.Float64 else pl.Int64
            self.inputs[register] = expression.cast(kind), kind
        else:
            self.constants[register] = pl.select(expression).item()
        return register

    def _computed(self, node: Node) -> tuple[int, Any]:
        """Register and kind of what is computed with the aggregate."""
        (sort, about), *_ = node.items()
        named = _name_of(node)
        if named is not None:
            side, name = named
            register = list(self.fields).index(name) + (len(self.fields) if side == OTHER else 0)
            return register, self.fields[name]
        if sort == "Ternary":
            kind = self._kind(node)
            test = self._value(about["predicate"], pl.Boolean)
            one, other = (self._value(about[branch], kind) for branch in ("truthy", "falsy"))
            return self._instruction(does.CHOOSE, test, one, other), kind
        if sort == "Cast":
            kind = self._kind(node)
            if self._type(node) != kind:
                raise self._refused(node, "CAST to BIGINT, DOUBLE or BOOLEAN")
            return self._value(about["expr"], kind), kind
        if sort == "BinaryExpr":
            return self._of_two(node, about["op"], about["left"], about["right"])
        if sort == "Function":
            return self._function(node, about["function"], about["input"])
        raise self._refused(node)

    def _function(self, node: Node, function: Any, given: list[Node]) -> tuple[int, Any]:
        name = next(iter(function.values())) if isinstance(function, dict) else function
        if isinstance(name, dict) and "Binary" in name:
            return self._of_two(node, name["Binary"], *given)
        if name in _OF_ONE:
            kind = pl.Boolean if name == "Not" else self._kind(given[0])
            return self._instruction(_OF_ONE[name], self._value(given[0], kind)), pl.Boolean
        kind = self._kind(node)
        if name == "Sqrt" or name == "Abs":
            of = self._value(given[0], kind)
            operation = does.SQUARE_ROOT if name == "Sqrt" else _of_kind(does.ABSOLUTE, kind)
            return self._instruction(operation, of, of), kind
        if name not in _OF_MANY:
            raise self._refused(node)
        operation = _OF_MANY[name]
        register, *others = (self._value(each, kind) for each in given)
        for other in others:
            register = self._instruction(
                operation if name == "Coalesce" else _of_kind(operation, kind), register, other
            )
        return register, kind

    def _of_two(self, node: Node, name: str, left: Node, right: Node) -> tuple[int, Any]:
        if name in _COMPARISONS:
            kind = self._common(left, right)
            registers = self._value(left, kind), self._value(right, kind)
            operation = _of_kind(_COMPARISONS[name], kind)
            return self._instruction(operation, *(registers[::-1] if name in _SWAPPED else registers)), pl.Boolean
        kind = self._kind(node)
        if name in _OF_BOOLEANS and kind == pl.Boolean:
            registers = self._value(left, kind), self._value(right, kind)
            return self._instruction(_OF_BOOLEANS[name], *registers), kind
        is_longs_only = name in ("IntDiv", "Rem")
        if name not in _OF_TWO or kind == pl.Boolean or (is_longs_only and self._common(left, right) != pl.Int64):
            raise self._refused(node)
        registers = self._value(left, kind), self._value(right, kind)
        return self._instruction(_of_kind(_OF_TWO[name], kind), *registers), kind

    def _instruction(self, operation: int, *reads: int) -> int:
        into = self._new()
        self.code.append((operation, into, *reads, *[0] * (3 - len(reads))))
        return into

    def _new(self) -> int:
        self.registers += 1
        return self.registers - 1

    def _type(self, node: Node) -> Any:
        return self.empty.select(_expression(node)).dtypes[0]

    def _kind(self, node: Node) -> Any:
        kind = kind_of(self._type(node))
        if kind is None:
            raise self._refused(node, "longs, doubles and booleans; CAST(… AS DOUBLE) of a decimal")
        return kind

    def _common(self, left: Node, right: Node) -> Any:
        """The kind in which polars compares the two."""
        dtype = self.empty.select(pl.coalesce(_expression(left), _expression(right))).dtypes[0]
        kind = kind_of(dtype)
        if kind is None:
            raise self._refused(left, "longs, doubles and booleans to compare; CAST(… AS DOUBLE) of a decimal")
        return kind

    def _refused(self, node: Node, expected: str = "") -> TopologyError:
        known = expected or (
            "+ - * / // % of longs, comparisons, AND, OR, NOT, IS NULL, CASE, COALESCE, NULLIF, GREATEST, LEAST, ABS, "
            "SQRT and CAST"
        )
        return TopologyError(self.place, f"of an aggregate {known}", str(_expression(node)), _ALTERNATIVE)


def _of_kind(operation: int, kind: Any) -> int:
    return operation + does.DOUBLES if kind == pl.Float64 else operation


def _expression(node: Node) -> pl.Expr:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pl.Expr.deserialize(io.StringIO(json.dumps(node)), format="json")


def _is_of_aggregate(node: Node) -> bool:
    if isinstance(node, dict):
        return node.get("Column") in (AGGREGATE, OTHER) or any(map(_is_of_aggregate, node.values()))
    return isinstance(node, list) and any(map(_is_of_aggregate, node))


def _name_of(node: Node) -> tuple[str, str] | None:
    """(side, field) of what is a field of an aggregate, or a plain one."""
    if "Column" in node:
        return node["Column"], ""
    function = node.get("Function", {})
    of = function.get("function")
    if isinstance(of, dict) and isinstance(of.get("StructExpr"), dict) and "FieldByName" in of["StructExpr"]:
        side = function["input"][0].get("Column")
        return (side, of["StructExpr"]["FieldByName"]) if side in (AGGREGATE, OTHER) else None
    return None


# --- for the kernel ----------------------------------------------------------------------------------------------


def word_of(value: Any, kind: Any) -> int:
    """A value as eight bytes of a register; 0 for None."""
    if value is None:
        return 0
    return int(np.float64(value).view(np.int64)) if kind == pl.Float64 else int(value)


def arrow_of(words: np.ndarray, known: np.ndarray, kind: Any) -> pa.Array:
    """Column of a field's words."""
    column = np.ascontiguousarray(words)
    values = column.view(np.float64) if kind == pl.Float64 else column != 0 if kind == pl.Boolean else column
    return pa.array(values) if known.all() else pa.array(values, mask=~known)
