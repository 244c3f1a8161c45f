"""What the guarantees found about a table, as a suite of Great Expectations and a batch of rows for it.

Owns names and columns of both. Rule: one suite a table, one expectation a rule, named as the rule. A batch has, for
every rule, the counts that were found (one row each), and behind them the violating rows of the table. An expectation
looks at the rows of its own rule alone (its row condition) and holds when none of them has a violation. So it is
Great Expectations that judges, on the same numbers as the plain engine.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import polars as pl

from ..audits import Audit
from ..guarantees import Guarantee, Rule
from .library import load_great_expectations

VIOLATION = "violation"
"""What speaks against the rule, in words; null where nothing does."""
ROW = "row"
"""The row of a table that a row of a batch represents, in words; every batch of a checkpoint has it."""
SEVERITIES = {"error": "critical", "warning": "warning"}
"""Ours, in Great Expectations' words."""
_SCHEMA = {"guarantee": pl.String, "rule": pl.String, "count": pl.Int64, VIOLATION: pl.String, ROW: pl.String}


@dataclass(frozen=True)
class Evidence:
    """A guarantee about ``table``, and what its audit found. ``increment``: of which it is."""

    table: str
    guarantee: Guarantee
    audit: Audit
    increment: int = 0


def suite_name(table: str) -> str:
    """How a table is called where a slash would make a folder: "outputs.counts"."""
    return table.replace("/", ".")


def batch_of(evidence: Sequence[Evidence]) -> pl.DataFrame:
    """Counts and rows of all guarantees about one table; of several increments each row says of which it is. Raises
    KeyError where a frame lacks a rule's column.
    """
    return pl.DataFrame([row for each in rows_of(evidence) for rows in each.values() for row in rows], _SCHEMA)


def rows_of(evidence: Sequence[Evidence]) -> list[dict[str, list[dict[str, Any]]]]:
    """Rows of a batch, of each evidence by the name of the rule."""
    of_several = len({each.increment for each in evidence}) > 1
    whose = [f"increment {each.increment}, " if of_several else "" for each in evidence]
    return [
        {rule.name: list(_rows(each, rule, words)) for rule in each.guarantee.rules}
        for each, words in zip(evidence, whose, strict=True)
    ]


def _rows(evidence: Evidence, rule: Rule, whose_row: str) -> Iterator[dict[str, Any]]:
    if rule.column not in evidence.audit.frame.columns:
        raise KeyError(f"{rule.name}: the audit of {evidence.guarantee.id} has no column {rule.column}")
    whose = {"guarantee": evidence.guarantee.id, "rule": rule.name}
    broken = 0
    for counts in evidence.audit.frame.to_dicts():
        count, words = abs(int(counts[rule.column])), f"{whose_row}counted: {_words(counts)}"
        broken += count
        yield {**whose, "count": count, VIOLATION: words if count else None, ROW: words}
    for row in evidence.audit.witnesses if broken else []:
        if _is_against(rule, row):
            yield {**whose, "count": 1, VIOLATION: _words(row), ROW: f"{whose_row}{_words(row)}"}


def build_suite(table: str, guarantees: Sequence[Guarantee]) -> Any:
    """The ``ExpectationSuite`` of a table: an expectation for each rule of ``guarantees``."""
    gx = load_great_expectations()
    column = gx.expectations.row_conditions.Column("rule")
    return gx.ExpectationSuite(
        name=suite_name(table),
        expectations=[
            expectation_class(rule)(
                row_condition=column == rule.name,
                severity=SEVERITIES[guarantee.severity],
                meta={"guarantee": guarantee.id, "check": guarantee.check, "source": _source(guarantee)},
            )
            for guarantee in guarantees
            for rule in guarantee.rules
        ],
        notes="\n\n".join(f"{each.id}: {each.sentence}{each.kip and f' ({each.kip})'}" for each in guarantees),
        meta={
            "table": table,
            "guarantees": {
                each.id: {"statement": each.sentence, "source": _source(each), "evidence": each.evidence}
                for each in guarantees
            },
        },
    )


@cache
def expectation_class(rule: Rule) -> type[Any]:
    """An expectation whose name in Data Docs is the rule's: none of the rule's rows has a violation.

    One class a rule: Great Expectations registers each by its name.
    """
    base = load_great_expectations().expectations.ExpectColumnValuesToBeNull
    fields = {
        "__module__": __name__,
        "__doc__": rule.sentence,
        "__annotations__": {"column": str, "description": str},
        "column": VIOLATION,
        "description": rule.sentence,
    }
    return type("".join(word.capitalize() for word in rule.name.split("_")), (base,), fields)


def _source(guarantee: Guarantee) -> str:
    """The KIP that a guarantee is of and the class of Kafka Streams that keeps it, as far as there are any."""
    return ", ".join(each for each in (guarantee.kip, guarantee.kafka) if each)


def _is_against(rule: Rule, row: dict[str, Any]) -> bool:
    """A row names the rule it breaks (`breaks`, or `is_early`), or speaks against all rules of its guarantee."""
    return row["breaks"] == rule.column if "breaks" in row else bool(row.get(f"is_{rule.column}", True))


def _words(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {json.dumps(value, default=str)}" for name, value in row.items())
