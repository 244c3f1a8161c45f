"""G4: windows lie on the grid that the topology asks for (TimeWindows, SlidingWindows, SessionWindows).

Owns one count. Rule: a time window is ``[start, start + size)`` with a start at a multiple of the advance and not below
0; a sliding window ``[start, start + difference]``; a session ``[start, end]`` with start <= end. A day of a time zone
begins at its time of day and ends when the next begins. Judged of every row that the increment wrote to outputs with
windows and to stores of windows, deletions included.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

from ...state.promises import Grid, WindowedRows
from ...state.tables.warehouse import WINDOW
from ...state.times import UNBOUNDED
from ..audits import Audit, Scope
from ..facts import ReplayFacts
from ..guarantee import About, Guarantee, Rule


def audit_window_bounds(scope: Scope, promise: WindowedRows) -> Audit:
    """Frame: one row with `rows` (of the increment) and `off_grid` among them."""
    rows = scope.own_rows(promise.table, ["key", *WINDOW])
    return Audit.of(rows.height, {"off_grid": rows.filter(~_is_on(promise.grid, rows).fill_null(False))})


def _is_on(grid: Grid, rows: pl.DataFrame) -> pl.Expr:
    start, end = (pl.col(name) for name in WINDOW)
    if grid.bounds_at is not None:
        starts, ends = grid.bounds_at(np.maximum(rows[WINDOW[0]].fill_null(0).to_numpy(), 0))
        return (start == pl.lit(pl.Series(starts))) & (end == pl.lit(pl.Series(ends)))
    if grid.kind == "session":
        return (start >= 0) & (start <= end)
    if grid.kind == "sliding":
        # A record before the first difference is in [0, difference] (processEarly in KStreamSlidingWindowAggregate).
        return (start >= 0) & (end - start == grid.size_ms)
    if grid.size_ms is None or grid.advance_ms is None:
        return (start == grid.first_ms) & (end == UNBOUNDED)
    return (start >= 0) & (start % grid.advance_ms == 0) & (end - start == grid.size_ms)


def _questions(facts: ReplayFacts) -> Iterator[About]:
    for _, promise in facts.promised(WindowedRows):
        yield promise.table, partial(audit_window_bounds, promise=promise)


G4 = Guarantee(
    id="G4",
    sentence="Windows lie on their grid.",
    kip="",
    operator="windowed aggregates",
    check="windows_lie_on_their_grid",
    proof="tests/expectations/test_mutants.py",
    status="done",
    rules=(
        Rule(
            "expect_windows_on_the_grid",
            "off_grid",
            "A time window starts at a multiple of the advance and is as long as its size, a sliding window as the "
            "difference; a session does not end before it starts. A day of a zone ends where the next begins.",
        ),
    ),
    kafka="TimeWindows, SlidingWindows, SessionWindows",
    evidence="bounds of rows of the output and the store against the topology's settings",
    cost="the increment's rows whole: key and bounds",
    questions=_questions,
)
