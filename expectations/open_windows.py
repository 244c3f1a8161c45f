"""How many windows of a store are open after an increment: those that have not closed by the operator's stream time.

Owns the count. Rule: a window closes when suppress would let it go, at ``end <= stream time - wait``, so the number is
also that of the results which a suppress below would hold. Only files with windows that may be open are read.
"""

from collections.abc import Iterator

import polars as pl

from ..state.errors import LedgerError
from ..state.promises import WindowedRows
from ..state.tables.names import STATE, TableName, TaskId
from ..state.tables.warehouse import WINDOW, Warehouse
from ..state.times import UNBOUNDED
from .audits import Scope, open_scope
from .facts import Promised, ReplayFacts


def open_windows(
    warehouse: Warehouse, pipeline: str, facts: ReplayFacts, increment: int
) -> Iterator[tuple[int, str, int]]:
    """Sub-topology, operator and number of open windows, of every operator with windows in its store; nothing of an
    increment that another topology ran, or that a vacuum has forgotten.
    """
    try:
        scope = open_scope(warehouse, pipeline, facts, increment)
    except LedgerError:
        return
    for who, promise in [] if scope.made_otherwise else facts.promised(WindowedRows):
        if TableName(promise.table).kind == STATE:
            yield who.sub_topology, who.node, _count(scope, who, promise)


def _count(scope: Scope, who: Promised, promise: WindowedRows) -> int:
    reached = _stream_times(scope, who, TableName(promise.table).name)
    path, start, end = scope.tables.table(promise.table), *WINDOW
    oldest = min(reached.values(), default=0) - promise.wait_ms + 1
    files = [
        file for file in scope.files(promise.table, path) if file.records and file.may_hold(end, oldest, UNBOUNDED)
    ]
    if not files or not reached:
        return 0
    rows = scope.scan(path, files, ["key", start, end, "deleted", "increment"]).filter(pl.col(end) >= oldest).collect()
    newest = rows.sort("increment").unique(["partition", "key", start, end], keep="last")
    times = pl.DataFrame(
        {"partition": list(reached), "_time": list(reached.values())}, {"partition": pl.Int32, "_time": pl.Int64}
    )
    live = newest.filter(~pl.col("deleted")).join(times, on="partition", how="inner")
    return live.filter(pl.col(end) > pl.col("_time") - promise.wait_ms).height


def _stream_times(scope: Scope, who: Promised, store: str) -> dict[int, int]:
    """By partition; of an operator of several streams that of the slowest, which still opens windows."""
    slowest = {}
    for task, entry in scope.done.tasks.items():
        sub, partition = TaskId.of(task)
        clocks = entry.counters.get(store, {})
        times = [time_ms for name, time_ms in clocks.items() if name.startswith("stream_time")]
        if sub == who.sub_topology and times:
            slowest[partition] = min(times)
    return slowest
