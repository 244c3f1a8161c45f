"""Why `show` has no row to show: of a key that no row has, or of a window that begins at no such time.

Rule: it is only said, beside the empty table. The rows are read once more for it, without the choice.
"""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from ...jobs.history.row_choice import RowChoice
from ...state.near_names import near_names
from ...state.tables.warehouse import WINDOW
from ...state.times import instant_ms
from ..text_tables import json_value, utc

NEAR_MAX = 10_000
"""So many keys are compared with one that no row has."""


def why_no_rows(rows: pa.Table, key: str | None, window: str | None, *, as_numbers: bool) -> str | None:
    """``rows``: those of the table without the choice. None: neither a key nor a window was asked for."""
    if key is not None:
        of_key, _ = RowChoice(key).of(rows)
        if not len(of_key):
            near = _near_keys(key, rows["id" if "key" not in rows.column_names else "key"])
            return f"no row has the key {key!r}{f'; did you mean {near}?' if near else ''}"
        rows = of_key
    return None if window is None else _why_no_window(rows, instant_ms(window, "--window"), as_numbers=as_numbers)


def _near_keys(key: str, column: pa.ChunkedArray) -> str:
    """Those that differ in case or spaces alone, else those that are nearly the same."""
    known = [json_value(value) for value in pc.unique(column)[:NEAR_MAX].to_pylist() if value is not None]
    texts = [str(value) for value in known]
    alike = [text for text in texts if _folded(text) == _folded(key)]
    return _or(alike[:2] or near_names(key, {text: text for text in texts}))


def _folded(text: str) -> str:
    return "".join(text.split()).casefold()


def _or(texts: Iterable[str]) -> str:
    return " or ".join(map(repr, texts))


def _why_no_window(rows: pa.Table, asked_ms: int, *, as_numbers: bool) -> str:
    def said(time_ms: int) -> str:
        return str(time_ms) if as_numbers else utc(time_ms)

    begins = sorted({*rows[WINDOW[0]].drop_null().to_pylist()})
    near = [*[begin for begin in begins if begin < asked_ms][-1:], *[begin for begin in begins if begin > asked_ms][:1]]
    where = f"; the nearest begin at {' and '.join(map(said, near))}" if near else ""
    return f"no window of these rows begins at {said(asked_ms)}{where}"
