"""G6: sessions of a key are disjoint, and further apart than the inactivity gap (SessionWindows, closed on both sides).

Owns one count, of pairs of neighbours of which at least one is the increment's own. Rule: records exactly one gap apart
are one session, so of two sessions of a key the later starts more than the gap after the earlier one's end. Sessions
that the store does not show any more (``end <= stream time of the store - retention``) do not count: none can be merged
with them.
"""

from collections.abc import Iterator
from functools import partial

import polars as pl

from ...state.promises import SessionsPromise
from ...state.tables.names import TableName, TaskId
from ...state.tables.warehouse import WINDOW
from ..audits import Audit, Scope
from ..facts import Promised, ReplayFacts
from ..guarantee import About, Guarantee, Rule
from ..store_history import store_history

KEY = ["partition", "key"]


def audit_sessions_apart(scope: Scope, who: Promised, promise: SessionsPromise) -> Audit:
    """Frame: `rows` (sessions that the increment made or changed), `unread`, `seed`, and `touching` pairs."""
    own = scope.own_rows(promise.table, ["key", *WINDOW, "deleted"]).filter(~pl.col("deleted"))
    if own.is_empty():
        return Audit.of(0, {"touching": own}, unread=0, seed=0)
    history = store_history(scope, promise.table, ("key", *WINDOW), (), own.height)
    shown = history.rows.join(own.select(KEY).unique(), on=KEY, how="semi", nulls_equal=True).filter(
        pl.col("window_end_ms") > _shown_after(scope, who, promise)
    )
    neighbours = shown.sort(*KEY, *WINDOW).with_columns(
        pl.col("window_end_ms").shift(1).over(KEY).alias("earlier_end_ms"),
        pl.col("increment").shift(1).over(KEY).alias("earlier_increment"),
    )
    touching = neighbours.filter(
        pl.col("window_start_ms") - pl.col("earlier_end_ms") <= promise.gap_ms,
        (pl.col("increment") == scope.increment) | (pl.col("earlier_increment") == scope.increment),
    )
    return Audit.of(own.height, {"touching": touching}, unread=history.unread, seed=history.seed)


def _shown_after(scope: Scope, who: Promised, promise: SessionsPromise) -> pl.Expr:
    """By partition, the time up to which the store shows nothing any more; -1 before it has seen a record."""
    store = TableName(promise.table).name
    times = pl.lit(-1, pl.Int64)
    for task, entry in scope.done.tasks.items():
        sub, partition = TaskId.of(task)
        counters = entry.counters.get(store, {})
        if sub == who.sub_topology and "store_time_ms" in counters:
            limit = counters["store_time_ms"] - promise.retention_ms
            times = pl.when(pl.col("partition") == partition).then(pl.lit(limit, pl.Int64)).otherwise(times)
    return times


def _questions(facts: ReplayFacts) -> Iterator[About]:
    for who, promise in facts.promised(SessionsPromise):
        yield promise.table, partial(audit_sessions_apart, who=who, promise=promise)


G6 = Guarantee(
    id="G6",
    sentence="Sessions of a key are further apart than the gap.",
    kip="KIP-94",
    operator="session windows",
    check="sessions_are_further_apart_than_the_gap",
    proof="tests/expectations/test_mutants.py",
    status="done",
    rules=(
        Rule(
            "expect_sessions_apart",
            "touching",
            "No session of a key starts within the gap of the end of an earlier one, or before it.",
        ),
    ),
    kafka="KStreamSessionWindowAggregate",
    evidence="sessions of the store against one another",
    cost="the increment's rows whole, of history the newest files up to four times as many rows, older ones by chance",
    questions=_questions,
)
