"""A SELECT over tables by name, by polars' SQLContext.

Rule: only tables that the query names are read, and nothing else of the machine (jobs/history/query_rules.py). What
polars refuses is said with the names that may have been meant: of columns where a column is wrong, else of tables.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import polars as pl
import pyarrow as pa
from polars.exceptions import ColumnNotFoundError, PolarsError, StructFieldNotFoundError

from ...state.errors import ConfigError
from ...state.near_names import near_names
from ...state.tables.names import given_names
from .query_rules import QUERY, refuse_what_is_no_query, refuse_what_reads_files

Tables = Mapping[str, Callable[[], pa.Table | pl.DataFrame]]
"""What reads each, by its name."""

_WRONG_COLUMN = re.compile(r"unable to find column \"(.+?)\"|no (?:table or struct )?column named '(.+?)'")
_WRONG_TABLE = re.compile(r"relation '(.+?)' was not found")
COLUMNS_MAX = 30
"""Of an error that lists columns."""


def run_query(query: str, tables: Tables) -> pl.DataFrame:
    """The answer. Fields of a value are ``value.clicks``. Raises ConfigError for what polars refuses, for another
    statement than a query, and for a query that reads files.
    """
    context, named = pl.SQLContext(), dict[str, pl.DataFrame]()
    known = ", ".join(map(_quoted, given_names(sorted(tables))))
    refuse_what_is_no_query(query, known)
    for name, read in tables.items():
        if re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", query):
            named[name] = _frame(read())
            context.register(name, named[name].lazy())
    try:
        frame = context.execute(query, eager=False)
        refuse_what_reads_files(frame, known)
        return frame.collect()
    except PolarsError as error:
        sentence = str(error).strip().splitlines()[0].partition("; valid columns:")[0]
        if isinstance(error, StructFieldNotFoundError):
            sentence = f"unable to find field {sentence!r}"
        raise ConfigError("sql", QUERY, sentence, _next_step(error, query, tables, named)) from error


def _next_step(error: PolarsError, query: str, tables: Collection[str], named: Mapping[str, pl.DataFrame]) -> str:
    first = str(error).strip().splitlines()[0]
    if (wrong := _WRONG_TABLE.search(first)) is not None:
        near = near_names(wrong[1].rpartition("/")[2], {each.rpartition("/")[2]: each for each in sorted(tables)[::-1]})
        meant = f"; did you mean {' or '.join(map(_quoted, near))}?" if near else ""
        return f"tables are {', '.join(map(_quoted, given_names(sorted(tables))))}{meant}"
    bare = [name for name in named if "/" in name and not re.search(rf'(["`]){re.escape(name)}\1', query)]
    if bare:
        return f"write {_quoted(bare[0])}, in double quotes"
    column = _WRONG_COLUMN.search(first)
    if column is None and not isinstance(error, (ColumnNotFoundError, StructFieldNotFoundError)):
        return "correct the query, in the SQL of polars (docs/asking.md)"
    name = first if column is None else column[1] or column[2]
    columns = [path for frame in named.values() for path in _paths(frame.schema)]
    near = near_names(name.rpartition(".")[2], {path.rpartition(".")[2]: path for path in reversed(columns)})
    if near:
        return f"did you mean {' or '.join(near)}?"
    more = "" if len(columns) <= COLUMNS_MAX else ", …"
    return f"columns are {', '.join([*dict.fromkeys(columns)][:COLUMNS_MAX])}{more}"


def _paths(fields: Mapping[str, Any], above: str = "") -> list[str]:
    """Columns, and fields of structs as value.clicks."""
    paths: list[str] = []
    for name, kind in fields.items():
        inner = _paths(dict(kind), f"{above}{name}.") if isinstance(kind, pl.Struct) else []
        paths += [f"{above}{name}", *inner]
    return paths


def _quoted(name: str) -> str:
    return f'"{name}"' if re.search(r"[^A-Za-z0-9_]", name) else name


def _frame(table: pa.Table | pl.DataFrame) -> pl.DataFrame:
    frame = table if isinstance(table, pl.DataFrame) else pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
