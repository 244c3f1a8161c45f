"""Does an expression give each record its own value, whatever is beside it?

Owns a handful of made-up records. Rule: a step computes a record from that record alone, since batches begin and end
anywhere. An expression that answers differently about six records than about each of them (``sum``, ``shift``,
``over``, ``head``) is found when the topology is built. One that fails on the made-up values is given the benefit of
the doubt.
"""

from collections.abc import Mapping
from decimal import Decimal

import polars as pl
import pyarrow as pa

_ROWS = 6
_NUMBERS = (3, None, 1, None, 3, 2)
"""Repeated, unordered, and with nulls between, wherever it begins, so that filling, ranking and sorting show."""


def looks_beyond_the_record(expression: pl.Expr, columns: Mapping[str, pa.DataType]) -> bool:
    """True when the answer about several records is not the answers about each."""
    table = pa.table({name: _made_up(kind, turn) for turn, (name, kind) in enumerate(columns.items())})
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    try:
        together = _answers(frame, expression)
        apart = [_answers(frame[row : row + 1], expression) for row in range(_ROWS)]
    except pl.exceptions.PolarsError:
        return False
    if len(together) == 1 and not expression.meta.root_names():  # a constant, the same for every record
        together *= _ROWS
    return [[answer] for answer in together] != apart


def _answers(frame: pl.DataFrame, expression: pl.Expr) -> list[str]:
    """As text, in which NaN equals NaN."""
    return [repr(value) for value in frame.select(expression.alias("answer"))["answer"].to_list()]


def _made_up(kind: pa.DataType, turn: int) -> pa.Array:
    """``_ROWS`` values of a type; ``turn`` makes columns differ."""
    numbers = [_NUMBERS[(row + turn) % _ROWS] for row in range(_ROWS)]
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([_made_up(field.type, turn) for field in kind], fields=list(kind))
    if pa.types.is_list(kind):
        rows = _made_up(kind.value_type, turn).to_pylist()
        return pa.array([None if value is None else [value, rows[0]] for value in rows], kind)
    if pa.types.is_map(kind):
        rows = _made_up(kind.item_type, turn).to_pylist()
        return pa.array([None if value is None else [("k", value), ("l", rows[0])] for value in rows], kind)
    if pa.types.is_decimal(kind):
        digits = [None if number is None else Decimal(number).scaleb(-kind.scale) for number in numbers]
        return pa.array(digits, kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if number is None else number > 1 for number in numbers], kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.array([None if number is None else str(number) for number in numbers], pa.string()).cast(kind)
    return pa.array(numbers, kind)
