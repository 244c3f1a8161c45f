"""Rows that one increment wrote to a table, as users' suites see them: flat columns of plain values.

Owns the shape. Rule: a struct's fields are columns of their own ("value.seats"), bytes are text, lists are JSON, and
`row` says in words which row it is. Headers are left out. A table without rows has its columns all the same.
"""

import json
from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from ...state.tables.data_files import open_table, read_rows
from ...state.tables.names import OUTPUTS, TableName
from ...state.tables.warehouse import WINDOW_KEY
from ..audits import Scope, shown
from .evidence import ROW

_PLACES = ("topic", "partition", "offset")


def rows_of_increment(scope: Scope, table: str) -> pl.DataFrame:
    """Rows of ``table`` ("outputs/pages", "dropped", "dead_letter") with the increment's number, at its version."""
    name = TableName(table)
    path = scope.tables.output(name.name) if name.kind == OUTPUTS else scope.tables.table(table)
    version, number = scope.version(table), scope.increment
    opened = open_table(path, version=version)
    assert opened is not None, "a version was named"
    schema = pa.schema([each for each in pa.schema(opened.schema().to_arrow()) if each.name != "headers"])
    files = [file for file in scope.files(table, path) if file.may_hold("increment", number, number)]
    rows = pl.from_arrow(read_rows(path, files, schema))
    assert isinstance(rows, pl.DataFrame)
    return _flat(rows.filter(pl.col("increment") == number))


def keys_by_row(rows: pl.DataFrame, words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Key and window, as far as the table has them, of those ``rows`` whose words (`row`) are ``words``."""
    if not words:
        return {}
    names = [name for name in rows.columns if name in WINDOW_KEY or name.startswith("key.")]
    chosen = rows.filter(pl.col(ROW).is_in(list(words))).select(ROW, *names)
    return {str(row.pop(ROW)): row for row in chosen.to_dicts()}


def _flat(rows: pl.DataFrame) -> pl.DataFrame:
    while structs := [name for name, kind in rows.schema.items() if isinstance(kind, pl.Struct)]:
        for name in structs:
            rows = rows.with_columns(pl.col(name).struct.unnest().name.prefix(f"{name}.")).drop(name)
    words = [pl.format(f"{name} {{}}", pl.col(name)) for name in _PLACES if name in rows.columns]
    texts = [_as_text(rows[name]) for name, kind in rows.schema.items() if kind == pl.Binary or kind.is_nested()]
    return rows.with_columns(*texts, pl.concat_str(words, separator=", ").alias(ROW))


def _as_text(column: pl.Series) -> pl.Series:
    values = [None if value is None else shown(value) for value in column.to_list()]
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pl.Series(column.name, texts, pl.String)
