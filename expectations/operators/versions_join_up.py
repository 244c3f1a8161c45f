"""G9: the versions of a versioned table are valid one after the other (KIP-889, RocksDBVersionedStore).

Owns two counts. `overlapping`: a version begins before the one before it, of the same key, has ended; of two neighbours
at least one is the increment's own. `empty`: a version ends before it begins, or when it begins. A hole between two
versions is a time in which the key was deleted, so it is none by itself. Marks, which only remember a deletion, are no
versions.
"""

from collections.abc import Iterator
from functools import partial

import polars as pl

from ...state.promises import VersionsPromise
from ..audits import Audit, Scope
from ..facts import ReplayFacts
from ..guarantee import About, Guarantee, Rule
from ..store_history import store_history

KEY = ["partition", "key"]
SPAN = ["valid_from_ms", "valid_to_ms"]


def audit_versions_join_up(scope: Scope, promise: VersionsPromise) -> Audit:
    """Frame: `rows` (versions that the increment made or ended), `unread`, `seed`, `overlapping` and `empty` ones."""
    own = scope.own_rows(promise.table, ["key", *SPAN, "is_mark", "deleted"]).filter(
        ~pl.col("deleted"), ~pl.col("is_mark"), pl.col("valid_from_ms") >= 0
    )
    if own.is_empty():
        return Audit.of(0, {"overlapping": own, "empty": own}, unread=0, seed=0)
    history = store_history(scope, promise.table, ("key", "valid_from_ms", "is_mark"), ("valid_to_ms",), own.height)
    versions = history.rows.join(own.select(KEY).unique(), on=KEY, how="semi", nulls_equal=True).filter(
        ~pl.col("is_mark"), pl.col("valid_from_ms") >= 0
    )
    # A key's versions begin at times that differ: the row key says so.
    neighbours = versions.sort(*KEY, "valid_from_ms").with_columns(
        *(pl.col(name).shift(-1).over(KEY).alias(f"next_{name}") for name in ("valid_from_ms", "increment"))
    )
    is_own = (pl.col("increment") == scope.increment) | (pl.col("next_increment") == scope.increment)
    ends_late = (pl.col("valid_to_ms") > pl.col("next_valid_from_ms")).fill_null(True)
    overlapping = neighbours.filter(pl.col("next_valid_from_ms").is_not_null(), is_own, ends_late)
    empty = own.filter(pl.col("valid_to_ms") <= pl.col("valid_from_ms"))
    counts = {"unread": history.unread, "seed": history.seed}
    return Audit.of(own.height, {"overlapping": overlapping, "empty": empty}, **counts)


def _questions(facts: ReplayFacts) -> Iterator[About]:
    for _, promise in facts.promised(VersionsPromise):
        yield promise.table, partial(audit_versions_join_up, promise=promise)


G9 = Guarantee(
    id="G9",
    sentence="A versioned table's versions are valid one after the other.",
    kip="KIP-889",
    operator="versioned tables",
    check="versions_are_valid_one_after_the_other",
    proof="tests/expectations/test_mutants.py",
    status="done",
    rules=(
        Rule("expect_versions_not_to_overlap", "overlapping", "No version of a key begins before the last has ended."),
        Rule("expect_versions_to_last", "empty", "Every version ends after it began."),
    ),
    kafka="RocksDBVersionedStore",
    evidence="versions of the store against one another",
    cost="the increment's rows whole, of history the newest files up to four times as many rows, older ones by chance",
    questions=_questions,
)
