"""Which rows of a table are asked for: those of a key, of a window, or the last ones.

Owns how both are written by people. Rule: a table without the column that is asked for is refused, and never shown
whole.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import ConfigError
from ...state.tables.warehouse import WINDOW
from ...state.times import instant_ms
from .inspection import equals_key, parse_key

WRITTEN = ("increment", "partition", "offset")
"""By these columns a row is newer than another."""


@dataclass(frozen=True)
class RowChoice:
    """``key``: as text, a number, or JSON for a key of fields; ``window``: the time at which it begins, ISO 8601 or
    milliseconds; ``last``: so many rows, those that were written last. None: all.
    """

    key: str | None = None
    window: str | None = None
    last: int | None = None

    def of(self, rows: pa.Table) -> tuple[pa.Table, int]:
        """Those of ``rows``, in their order; with ``last`` in the order in which they were written. And how many there
        are with the key and the window. Raises ConfigError for a key or a time that is none, and for rows that have no
        key, no window or no order.
        """
        if self.key is not None:
            column = "id" if "id" in rows.column_names and "key" not in rows.column_names else "key"
            _refuse_without(column, rows, "--key")
            rows = rows.filter(equals_key(rows[column], parse_key(rows.schema.field(column).type, self.key)))
        if self.window is not None:
            _refuse_without(WINDOW[0], rows, "--window")
            rows = rows.filter(pc.equal(rows[WINDOW[0]], instant_ms(self.window, "--window")))
        return rows if self.last is None else _last(rows, self.last), len(rows)


def _last(rows: pa.Table, last: int) -> pa.Table:
    columns = [name for name in WRITTEN if name in rows.column_names]
    if "increment" not in columns:
        raise ConfigError("--last", "rows with their increment", "a store as its readers see it", "leave it out")
    order = np.lexsort([rows[name].to_numpy() for name in reversed(columns)])
    return rows.take(pa.array(order[max(len(rows) - last, 0) :]))


def _refuse_without(column: str, rows: pa.Table, option: str) -> None:
    if column not in rows.column_names:
        got = f"columns {', '.join(rows.column_names)}"
        raise ConfigError(option, f"a table with the column {column}", got, "leave it out, or use `replay sql`")
