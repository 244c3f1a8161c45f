"""G5: nothing vanishes in a suppress: windows that opened = final results + those still open + those deleted (KIP-328).

Owns two counts. `vanished`: the increment changed a window in the store of the aggregate, which neither waits in the
buffer afterwards nor left to the output in the increment. `lost`: a window that had waited before the increment closed
in it, by the stream time of the buffer, and did not leave; a session may have been merged into another one instead.
What was refused never came to the store, and is in `dropped`, which G3 recounts. Judged where an output has all
that leaves the suppress.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import polars as pl

from ...state.node_rows import NodeRows
from ...state.promises import InputPromise, SuppressPromise
from ...state.tables.names import TableName, TaskId
from ...state.tables.warehouse import WINDOW
from ..audits import Audit, Scope, Unchecked
from ..facts import Promised, ReplayFacts
from ..guarantee import About, Guarantee, Rule
from ..second_run import judged_again
from ..store_history import HISTORY_ROWS_MIN, store_history

IDENTITY = ["partition", "key", *WINDOW]


def audit_nothing_vanishes(scope: Scope, who: Promised, promise: SuppressPromise) -> Audit | Unchecked:
    """Frame: `rows` (windows that changed or were due), `finals`, `waiting`, and `vanished` and `lost` ones."""
    if scope.done.kind is not None:
        return Unchecked("the increment restates what others wrote, so its rows are not its own changes")
    if promise.outputs:
        return _audit(scope, who, promise)

    def again(seen: Scope, rows: NodeRows, inputs: tuple[InputPromise, ...], forwarded: str) -> Audit:
        return _audit(seen, who, replace(promise, outputs=(forwarded,)))

    why_not = f"no output has all that leaves {promise.table}, under its key and window"
    return judged_again(scope, who.node, why_not, again) if promise.aggregate else Unchecked(why_not)


def _audit(scope: Scope, who: Promised, promise: SuppressPromise) -> Audit:
    changed = scope.own_rows(promise.aggregate, ["key", *WINDOW, "deleted"]).filter(~pl.col("deleted"))
    buffer = scope.own_rows(promise.table, ["key", *WINDOW, "deleted"])
    waiting, due = buffer.filter(~pl.col("deleted")), _due(scope, who, promise)
    vanished, lost, finals = changed.clear(), due.clear(), 0
    for output in promise.outputs:
        final = scope.own_rows(output, ["key", *WINDOW])
        finals += final.height
        if not promise.may_be_absent:  # it has been in the store alone
            vanished = pl.concat([vanished, _without(changed, _of_all(waiting, final))])
        gone = _without(due, _of_all(final))
        if promise.are_sessions:
            gone = _outside(gone, _of_all(final, waiting))
        lost = pl.concat([lost, gone])
    counts = {"finals": finals, "waiting": waiting.height}
    return Audit.of(changed.height + due.height, {"vanished": vanished, "lost": lost}, **counts)


def _due(scope: Scope, who: Promised, promise: SuppressPromise) -> pl.DataFrame:
    """Windows that waited before the increment and closed in it, as far as the buffer's history is read."""
    none = pl.DataFrame(schema=[*IDENTITY])
    before = scope.ledger.done_before(scope.increment)
    if before is None or before.increment < scope.ledger.oldest_kept():
        return none
    planned = scope.ledger.rows_of(before.increment).planned
    if planned is None:
        return none
    earlier = replace(scope, increment=before.increment, planned=planned.content, done=before.content)
    if promise.table not in earlier.done.versions:
        return none
    columns = ("buffer_time_ms", "value")
    waited = store_history(earlier, promise.table, ("key", *WINDOW), columns, HISTORY_ROWS_MIN).rows
    if waited.is_empty():
        return none
    reached = dict[int, int]()
    for task, entry in scope.done.tasks.items():
        sub, partition = TaskId.of(task)
        time_ms = entry.counters.get(TableName(promise.table).name, {}).get("stream_time_ms")
        if sub == who.sub_topology and time_ms is not None:
            reached[partition] = time_ms
    times = pl.DataFrame(
        {"partition": list(reached), "_time": list(reached.values())}, {"partition": pl.Int32, "_time": pl.Int64}
    )
    # Final results drop a tombstone that waited (shouldForward in KTableSuppressProcessorSupplier).
    closed = waited.filter(pl.col("value").is_not_null()).join(times, on="partition", how="inner")
    # Equal is due: Kafka evicts while minTimestamp <= observed stream time - wait.
    return closed.filter(pl.col("buffer_time_ms") + promise.wait_ms <= pl.col("_time")).select(IDENTITY)


def _outside(sessions: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Sessions that are in none of ``others``: those that are were merged into them."""
    if sessions.is_empty() or others.is_empty():
        return sessions
    beside = sessions.join(others, on=["partition", "key"], how="inner", nulls_equal=True, suffix="_other")
    start, end = (pl.col(f"{name}_other") for name in WINDOW)
    merged = beside.filter(start <= pl.col(WINDOW[0]), pl.col(WINDOW[1]) <= end)
    return sessions.join(merged.select(IDENTITY), on=IDENTITY, how="anti", nulls_equal=True)


def _of_all(*tables: pl.DataFrame) -> pl.DataFrame:
    """Windows of the tables that have rows; one without has no type of its keys."""
    windows = [rows.select(IDENTITY) for rows in tables if rows.height]
    return pl.concat(windows) if windows else tables[0].select(IDENTITY)


def _without(rows: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    return rows.join(others, on=IDENTITY, how="anti", nulls_equal=True) if rows.height and others.height else rows


def _questions(facts: ReplayFacts) -> Iterator[About]:
    for who, promise in facts.promised(SuppressPromise):
        yield promise.table, partial(audit_nothing_vanishes, who=who, promise=promise)


G5 = Guarantee(
    id="G5",
    sentence="Nothing vanishes in a suppress: windows opened = final + still open + deleted.",
    kip="KIP-328",
    operator="suppress until the window closes",
    check="nothing_vanishes_in_a_suppress",
    proof="tests/expectations/test_mutants.py",
    status="done",
    rules=(
        Rule(
            "expect_windows_to_wait_or_leave",
            "vanished",
            "Every window that changed in the aggregate's store waits in the buffer, or left to the output.",
        ),
        Rule(
            "expect_what_waited_to_leave",
            "lost",
            "Every window that waited and closed in the increment left to the output, or was merged into a session.",
        ),
    ),
    kafka="KTableSuppressProcessorSupplier",
    evidence="rows of the aggregate's store against the buffer and the output",
    cost="the increment's rows of three tables whole; what had waited: the newest files of the buffer",
    questions=_questions,
)
