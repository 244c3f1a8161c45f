"""G12: few records are dropped, few cannot be decoded, and no operator refuses many of those that come to it: at most
one in a hundred, of an increment, unless a project says another share.

Owns three counts, of records beyond the share. It is a warning, unless a project says otherwise: late records are
refused on purpose. The numbers are those of the ledger's books. G3 recounts from the tables what was dropped and
undecodable, and how often each operator refused; how many records came to an operator is known only there.
"""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from ...state.tables.names import LEDGER
from ...state.tables.refused_shares import DEFAULT_LIMIT, RefusedLimit, refused_shares
from ..audits import Audit, Scope, Unchecked
from ..facts import ReplayFacts
from ..guarantee import About, Guarantee, Rule

_COUNTS = ("read", "dropped", "undecodable")


def audit_few_are_refused(scope: Scope) -> Audit | Unchecked:
    """Frame: `rows` (records read), sub-topologies with `too_many_dropped` or `too_many_undecodable`, and operators
    with `too_many_refused`.
    """
    books = (scope.done.books or {}).get("by_sub_topology", {})
    parts = [
        {"sub_topology": part.id, **{name: int(books.get(str(part.id), {}).get(name, 0)) for name in _COUNTS}}
        for part in scope.facts.sub_topologies
    ]
    if scope.done.kind is not None:
        return Unchecked("the increment restates what others wrote, and read nothing of its own")
    limit, schema = scope.facts.refused, {"sub_topology": pl.Int64, **dict.fromkeys(_COUNTS, pl.Int64)}
    too_many = {
        f"too_many_{name}": pl.DataFrame([p for p in parts if not limit.allows(p[name], p["read"])], schema)
        for name in ("dropped", "undecodable")
    }
    too_many["too_many_refused"] = pl.DataFrame(
        [
            {
                "sub_topology": int(each.sub_topology),
                "operator": each.operator,
                "came": each.came,
                "refused": each.refused,
            }
            for each in refused_shares([scope.done.books or {}])
            if each.operator is not None and not limit.allows(each.refused, each.came)
        ],
        {"sub_topology": pl.Int64, "operator": pl.String, "came": pl.Int64, "refused": pl.Int64},
    )
    return Audit.of(sum(part["read"] for part in parts), too_many)


def with_limit(guarantee: Guarantee, limit: RefusedLimit) -> Guarantee:
    """G12 as a project wants it; others as they are."""
    return replace(G12, severity=limit.severity, rules=_rules(limit)) if guarantee is G12 else guarantee


def _rules(limit: RefusedLimit) -> tuple[Rule, ...]:
    most = f"more than {limit.percent} %"
    return (
        Rule("expect_few_drops", "too_many_dropped", f"No sub-topology drops {most} of what it reads."),
        Rule("expect_few_refusals", "too_many_refused", f"No operator refuses {most} of what comes to it."),
        Rule("expect_few_dead_letters", "too_many_undecodable", f"No {most} of what it reads is undecodable."),
    )


def _questions(_: ReplayFacts) -> Iterator[About]:
    yield LEDGER, audit_few_are_refused


G12 = Guarantee(
    id="G12",
    sentence="Few records are dropped, refused by an operator, or cannot be decoded.",
    kip="",
    operator="all",
    check="few_records_are_refused",
    proof="tests/expectations/test_mutants.py",
    status="done",
    rules=_rules(DEFAULT_LIMIT),
    kafka="StreamsMetrics dropped-records-total",
    evidence="the books in the ledger, which G3 recounts",
    cost="a row of the ledger",
    severity="warning",
    by_settings=False,
    questions=_questions,
)
