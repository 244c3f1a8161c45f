"""G11: an output has tombstones only of keys that had a value (Kafka's changelog semantics).

Owns one count. Rule: a session that was merged into another one is taken back by a tombstone, so the newest record
before it, of its key and window, in the output is a value. Of a pipeline that begins with an application's state it may
be a row of that state, whose records the application wrote. Final results are never taken back: there a tombstone is
one too many. Judged where an output has all that its aggregate or suppress forwards, unchanged.
"""

from collections.abc import Iterator
from functools import partial

import polars as pl

from ...state.promises import Deletions
from ...state.tables.branch_files import table_files
from ...state.tables.rows_in_force import first_in_force
from ...state.tables.warehouse import WINDOW
from ..audits import Audit, Scope
from ..facts import ReplayFacts
from ..guarantee import About, Guarantee, Rule

IDENTITY = ["partition", "key", *WINDOW]


def audit_tombstones_of_values(scope: Scope, promise: Deletions) -> Audit:
    """Frame: `rows` (tombstones of the increment) and `of_nothing` among them."""
    own = scope.own_rows(promise.table, ["key", *WINDOW, "offset", "increment", "value"])
    rows = own.with_columns(pl.col("value").is_null().alias("is_tombstone")).drop("value")
    tombstones = rows.filter("is_tombstone")
    if promise.never or tombstones.is_empty():
        return Audit.of(tombstones.height, {"of_nothing": tombstones})
    records = pl.concat([_earlier(scope, promise, tombstones), rows]).sort("partition", "offset")
    with_previous = records.with_columns(pl.col("is_tombstone").shift(1).over(IDENTITY).alias("_was_tombstone"))
    of_nothing = with_previous.filter(
        "is_tombstone", pl.col("increment") == scope.increment, pl.col("_was_tombstone").fill_null(True)
    )
    of_nothing = of_nothing.filter(pl.col("_was_tombstone") | ~_are_given(scope, promise, of_nothing))
    return Audit.of(tombstones.height, {"of_nothing": of_nothing.drop("_was_tombstone")})


def _are_given(scope: Scope, promise: Deletions, tombstones: pl.DataFrame) -> pl.Series:
    """Whether an application's state, with which the pipeline begins, has the session of each of ``tombstones``."""
    nowhere = pl.repeat(value=False, n=tombstones.height, eager=True)
    if tombstones.is_empty() or promise.store is None:
        return nowhere
    first = first_in_force(scope.warehouse, scope.tables.name, scope.increment)
    if first is None or first[1].content.bootstrap is None:
        return nowhere
    pipeline, row = first
    files = table_files(scope.warehouse, pipeline, row.content, promise.store)
    if not files:
        return nowhere
    rows = scope.scan(scope.warehouse.pipeline(pipeline).table(promise.store), files, IDENTITY[1:])
    given = rows.select(*IDENTITY, pl.lit(value=True).alias("is_given")).unique(IDENTITY).collect()
    joined = tombstones.join(given, on=IDENTITY, how="left", nulls_equal=True, maintain_order="left")
    return joined["is_given"].fill_null(value=False)


def _earlier(scope: Scope, promise: Deletions, tombstones: pl.DataFrame) -> pl.DataFrame:
    """Earlier records of their windows; opens only files with windows that end where theirs do."""
    lowest, highest = tombstones["window_end_ms"].min(), tombstones["window_end_ms"].max()
    assert isinstance(lowest, int)
    assert isinstance(highest, int)
    path, number = scope.tables.table(promise.table), scope.increment
    files = [
        file
        for file in scope.files(promise.table, path)
        if file.may_hold("increment", 0, number - 1) and file.may_hold("window_end_ms", lowest, highest)
    ]
    if not files:
        return tombstones.clear()
    columns = ["key", *WINDOW, "offset", "increment", "value"]
    rows = scope.scan(path, files, columns).filter(pl.col("increment") < number)
    earlier = rows.join(tombstones.lazy().select(IDENTITY).unique(), on=IDENTITY, how="semi", nulls_equal=True)
    is_tombstone = pl.col("value").is_null().alias("is_tombstone")
    return earlier.with_columns(is_tombstone).select(tombstones.columns).collect()


def _questions(facts: ReplayFacts) -> Iterator[About]:
    for _, promise in facts.promised(Deletions):
        yield promise.table, partial(audit_tombstones_of_values, promise=promise)


G11 = Guarantee(
    id="G11",
    sentence="Tombstones are of keys that had a value.",
    kip="",
    operator="session windows; suppress until the window closes",
    check="tombstones_are_of_keys_that_had_a_value",
    proof="tests/expectations/test_mutants.py",
    status="done",
    rules=(
        Rule(
            "expect_tombstones_to_take_values_back",
            "of_nothing",
            "The newest record of a tombstone's key and window before it is a value; final results have no tombstones.",
        ),
    ),
    kafka="KStreamSessionWindowAggregate, KTableSuppressProcessorSupplier",
    evidence="tombstones of the output against its earlier records",
    cost="the increment's rows whole, of history the files with windows that end where its tombstones' do",
    questions=_questions,
)
