"""Cells of text, as CSV and lines with separators have them, before they become values.

Owns what is declared about such cells: words for null, the decimal comma, and the names that Kafka's console consumer
puts before times and numbers. Rule: a number with a point where a comma is declared is a bad row, and no other number.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ..bad_rows import BadRow
from ..file_source import FileSource
from .blocks import Block
from .columns import each

if TYPE_CHECKING:
    from .reading import SliceReading

_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?[\d.]*\.[\d,]*([eE][+-]?\d+)?")
_FRACTIONS = ("double", "json")
"""Types of cells that may have a fraction; a decimal is ``json``, whose digits are kept."""


class TextCells:
    """Makes blocks of rows of cells; ``names`` of the columns."""

    def __init__(self, reading: "SliceReading", names: Sequence[str]) -> None:
        self._reading, self._names, source = reading, names, reading.source
        self._nulls = set(source.nulls)
        self._numbers = numbers_with_commas(source) if source.decimal_comma else ()

    def block(
        self, locations: Sequence[int], rows: Sequence[Sequence[str]], lines: Sequence[bytes] | None = None
    ) -> Block:
        """Of rows with a cell for each column. ``lines``: theirs, where the reader has them."""
        columns: dict[str, Sequence[str | None]] = {}
        bad: dict[int, BadRow] = {}
        for name, column in zip(self._names, zip(*rows, strict=True), strict=True):
            cells: Sequence[str | None] = column
            if not self._nulls.isdisjoint(column):
                cells = [None if cell in self._nulls else cell for cell in column]
            columns[name] = cells
            if name in self._numbers:
                for row in (row for row, cell in enumerate(cells) if cell is not None and _POINT.fullmatch(cell)):
                    raw = None if lines is None else lines[row]
                    got = f"{cells[row]!r} in column {name}"
                    bad.setdefault(row, BadRow(locations[row], "a number with a decimal comma", got, raw))
                columns[name] = [None if cell is None else _with_point(cell) for cell in cells]
        if bad and (topics := self._topics(columns)) is not None:
            bad = {row: of for row, of in bad.items() if topics[row] == self._reading.source.topic}
        self._reading.refuse([bad[row] for row in sorted(bad)])
        block = Block(columns, locations, lines, self._names)
        return block.without(set(bad)) if bad else block

    def _topics(self, columns: Mapping[str, Sequence[str | None]]) -> Sequence[str | None] | None:
        """Of each row, where rows or the folder have it: those of other topics are left out later, bad or not. None:
        all are of the topic.
        """
        source, file = self._reading.source, self._reading.piece.name
        if source.topic_column is None or source.topic_column in source.pattern_columns(file):
            return None
        rows = len(next(iter(columns.values())))
        return columns.get(source.topic_column) or [source.folders_of(file).get(source.topic_column)] * rows

    def block_of_columns(self, locations: Sequence[int], columns: Sequence[pa.StringArray]) -> Block:
        """Of whole columns, of a source without decimal commas."""
        columns_by_name = dict(zip(self._names, map(self._without_nulls, columns), strict=True))
        return Block(columns_by_name, locations, whole=self._names, is_typed=False)

    def _without_nulls(self, cells: pa.StringArray) -> pa.StringArray:
        if not self._nulls:
            return cells
        if self._nulls == {""}:
            is_null = pc.equal(pc.binary_length(cells), 0)
        else:
            is_null = pc.is_in(cells, pa.array(sorted(self._nulls), pa.string()))
        return pc.if_else(is_null, None, cells) if pc.any(is_null).as_py() else cells


def with_points(cells: Sequence[str | None]) -> list[str | None]:
    """Cells of a column that may be numbers with a decimal comma. BadValuesError with those that have a point."""
    return each(cells, "a number with a decimal comma", _checked)


def _checked(cell: str | None) -> str | None:
    if cell is not None and _POINT.fullmatch(cell):
        raise ValueError(cell)
    return None if cell is None else _with_point(cell)


def _with_point(cell: str) -> str:
    return cell.replace(",", ".") if _COMMA.fullmatch(cell) else cell


def numbers_with_commas(source: FileSource) -> set[str]:
    """Columns that are numbers with a fraction, by what is declared."""
    with_commas = {name for name, kind in source.types.items() if kind in _FRACTIONS}
    declared = (source.key, source.key_type), (source.value, source.value_type)
    with_commas |= {name for name, kind in declared if isinstance(name, str) and kind == "double"}
    return with_commas if source.timestamp_unit == "iso" else with_commas | {source.timestamp}
