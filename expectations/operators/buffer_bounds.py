"""G7: a suppress buffer is within its bounds when an increment ends (KIP-328, BufferConfig.withMaxRecords,
withMaxBytes).

Owns one count, of partitions. Rule: exactly as much as the bound is allowed. A strict buffer that would have been over
its bound ended the run, and there is no such increment; an eager one emitted its oldest entries. Bytes are as Kafka
counts them.
"""

from collections.abc import Iterator
from functools import partial

import polars as pl

from ...state.promises import Buffered
from ...state.tables.warehouse import WINDOW
from ..audits import Audit, Scope
from ..facts import ReplayFacts
from ..guarantee import About, Guarantee, Rule
from ..store_history import store_history


def audit_buffer_bounds(scope: Scope, promise: Buffered) -> Audit:
    """Frame: `rows` that wait, `unread`, `seed`, and partitions that are `too_full`."""
    key = ("key", *WINDOW) if promise.is_windowed else ("key",)
    own = promise.max_records or 0
    history = store_history(scope, promise.table, key, ("bytes",), own)
    held = history.rows.group_by("partition").agg(
        pl.len().cast(pl.Int64).alias("records"), pl.col("bytes").cast(pl.Int64).sum()
    )
    bounds = [
        pl.col(name) > bound
        for name, bound in (("records", promise.max_records), ("bytes", promise.max_bytes))
        if bound is not None
    ]
    too_full = held.filter(pl.any_horizontal(pl.lit(False), *bounds)).sort("partition")
    return Audit.of(history.rows.height, {"too_full": too_full}, unread=history.unread, seed=history.seed)


def _questions(facts: ReplayFacts) -> Iterator[About]:
    for _, promise in facts.promised(Buffered):
        yield promise.table, partial(audit_buffer_bounds, promise=promise)


G7 = Guarantee(
    id="G7",
    sentence=(
        "A suppress buffer is within its bounds; a strict one ends the run with BufferFull at the first record beyond "
        "them, so no increment holds more."
    ),
    kip="KIP-328",
    operator="suppress with a bound",
    check="suppress_buffers_are_within_their_bounds",
    proof="tests/expectations/test_mutants.py",
    status="done",
    rules=(
        Rule("expect_buffers_within_bounds", "too_full", "No partition of the buffer holds more records or bytes."),
    ),
    kafka="InMemoryTimeOrderedKeyValueChangeBuffer",
    evidence="rows of the buffer's table that wait after the increment",
    cost="what waits, and what has left since the last merge of the buffer's files",
    questions=_questions,
)
