"""Does an expression give each record its own value, whatever is beside it?

Owns what polars says of each part of an expression, and a handful of made-up records. Rule: a step computes a record
from that record alone, since batches begin and end anywhere. A part that is not computed row by row (``sum``,
``shift``, ``over``) is refused, wherever it is. So is an expression that answers differently about six records than
about each of them. One that fails on the made-up values is given the benefit of the doubt.
"""

import io
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

import polars as pl
import pyarrow as pa

_ROWS = 6
_NUMBERS = (3, None, 1, None, 3, 2)
"""Repeated, unordered, and with nulls between, wherever it begins, so that filling, ranking and sorting show."""


def looks_beyond_the_record(expression: pl.Expr, columns: Mapping[str, pa.DataType]) -> bool:
    """True when a part is not computed row by row, or the answer about several records is not the answers about
    each.
    """
    return _has_part_of_several_rows(expression) or _differs_beside_others(expression, columns)


_COLUMN = '{"Column":"unknown"}'
_ALL_ROWS = re.compile(r"(?<![.\w])len\(\)")
_PYTHON = re.compile(r"\.(?:cum_)?(?:fold|reduce)\(\[.*\]\)(?:\.alias\(.*\))?$")
"""Functions of the user's own, which polars cannot judge."""


def _has_part_of_several_rows(expression: pl.Expr) -> bool:
    """By what polars knows of functions. It says so of the outermost one of a part only: ``a > max(b)`` passes, its
    ``max(b)`` does not.
    """
    parts = [expression]
    while parts:
        part = parts.pop()
        is_by_row = _is_by_row(part)
        inner = part.meta.pop()
        if is_by_row is None and (opaque := [one for among in inner for one in _opaque(among)]):
            parts += opaque + (_with_columns_for(opaque, part) or inner)
        elif is_by_row is not False:
            parts += inner
        elif not _is_left_to_the_trial(part):
            return True
    return False


def _is_by_row(part: pl.Expr) -> bool | None:
    """None when polars would have to know the types of columns, as for ``IN (1, 2)`` or ``list.eval``."""
    try:
        return part.meta.is_row_separable()
    except pl.exceptions.PolarsError:
        return None


def _opaque(part: pl.Expr) -> Iterator[pl.Expr]:
    """The innermost parts that polars does not judge. They keep it from judging what is around them."""
    if _is_by_row(part) is None:
        within = [one for among in part.meta.pop() for one in _opaque(among)]
        yield from within or [part]


def _with_columns_for(opaque: list[pl.Expr], part: pl.Expr) -> list[pl.Expr]:
    """``part`` with a column where each of ``opaque`` is, which polars can judge. Nothing where it has a function that
    cannot be written down.
    """
    try:
        text = given = part.meta.serialize(format="json")
        for one in opaque:
            text = text.replace(one.meta.serialize(format="json"), _COLUMN)
    except pl.exceptions.ComputeError:
        return []
    return [] if text == given else [pl.Expr.deserialize(io.StringIO(text), format="json")]


def _is_left_to_the_trial(part: pl.Expr) -> bool:
    """True of a constant, of what is computed of the elements of a list, and of a function of the user's own."""
    text = str(part)
    if not set(part.meta.root_names()) - {""}:
        return "element()" in text or not _ALL_ROWS.search(text)
    return _PYTHON.search(text) is not None


def _differs_beside_others(expression: pl.Expr, columns: Mapping[str, pa.DataType]) -> bool:
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
