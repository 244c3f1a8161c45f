"""G12: few records are dropped, and few cannot be decoded: at most one in a hundred, of an increment and sub-topology.

Owns two counts, of records beyond the share. It is a warning: late records are refused on purpose. The numbers are
those of the ledger's books, which G3 recounts from the tables.
"""

from collections.abc import Iterator

import polars as pl

from ...state.tables.names import LEDGER
from ..audits import Audit, Scope, Unchecked
from ..facts import ReplayFacts
from ..guarantee import About, Guarantee, Rule

SHARE_MAX = 0.01
_COUNTS = ("read", "dropped", "undecodable")


def audit_few_are_refused(scope: Scope) -> Audit | Unchecked:
    """Frame: `rows` (records read), and sub-topologies that refused `too_many_dropped` or `too_many_undecodable`."""
    books = (scope.done.books or {}).get("by_sub_topology", {})
    parts = [
        {"sub_topology": part.id, **{name: int(books.get(str(part.id), {}).get(name, 0)) for name in _COUNTS}}
        for part in scope.facts.sub_topologies
    ]
    if scope.done.kind is not None:
        return Unchecked("the increment restates what others wrote, and read nothing of its own")
    counts = pl.DataFrame(parts, {"sub_topology": pl.Int64, **dict.fromkeys(_COUNTS, pl.Int64)})
    too_many = {
        f"too_many_{name}": counts.filter(pl.col(name) > pl.col("read") * SHARE_MAX)
        for name in ("dropped", "undecodable")
    }
    return Audit.of(int(counts["read"].sum()), too_many)


def _questions(_: ReplayFacts) -> Iterator[About]:
    yield LEDGER, audit_few_are_refused


G12 = Guarantee(
    id="G12",
    sentence="Few records are dropped or cannot be decoded.",
    kip="",
    operator="all",
    check="few_records_are_refused",
    proof="tests/expectations/test_mutants.py",
    status="done",
    rules=(
        Rule("expect_few_drops", "too_many_dropped", "No sub-topology drops more than 1 % of what it reads."),
        Rule("expect_few_dead_letters", "too_many_undecodable", "No more than 1 % of what it reads is undecodable."),
    ),
    kafka="StreamsMetrics dropped-records-total",
    evidence="the books in the ledger, which G3 recounts",
    cost="a row of the ledger",
    severity="warning",
    by_settings=False,
    questions=_questions,
)
