"""Verdicts of a pipeline as the page shows them: a line for each guarantee and table, and one for each kind of fault.

Owns their order: what is broken comes first, then what could not be checked, then warnings, then what holds; of equals
the one that was last so in the newest increment. Increments are newest first. Rule: verdicts of one guarantee on one
table that are alike are one fault, however many increments have it.
"""

from collections.abc import Sequence
from shlex import quote
from typing import Any

from ...expectations.guarantees import GUARANTEES
from ...expectations.quality_tables import Row
from ..text_tables import flat_row

MATRIX_INCREMENTS = 60
"""So many newest increments have a column in the matrix of verdicts."""
FAULTS_MAX = 20
TREND_INCREMENTS = 12
"""So many newest increments of a fault are listed, each with what was counted."""

PASSED, FAILED, NOT_CHECKED, WARNING = "passed", "failed", "not checked", "warning"
"""Verdicts. What fails with the severity of a warning is called one here: it stops nobody."""
NOBODY = "nobody checked it"
STATES = (FAILED, NOT_CHECKED, WARNING, NOBODY, PASSED)
"""Of an increment, or of a pipeline: the worst first."""

_RANKS = {state: rank for rank, state in enumerate(STATES)}
_SENTENCES = {guarantee.id: guarantee.sentence for guarantee in GUARANTEES}


def as_shown(row: Row) -> Row:
    """A row of `quality_results` with one of the four verdicts above."""
    return row | {"verdict": WARNING} if (row["verdict"], row["severity"]) == (FAILED, "warning") else row


def worst_by_increment(results: Sequence[Row], increments: Sequence[int]) -> dict[int, str]:
    """Of each of ``increments`` the worst verdict among ``results``, or NOBODY."""
    worst = dict.fromkeys(increments, NOBODY)
    for row in sorted(results, key=lambda row: -_RANKS[row["verdict"]]):
        worst[row["increment"]] = row["verdict"]
    return worst


def matrix(results: Sequence[Row], increments: Sequence[int], faults: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Guarantee and table by increment, the newest MATRIX_INCREMENTS. A cell leads to its fault among ``faults``."""
    shown = list(reversed(increments[-MATRIX_INCREMENTS:]))
    anchors = {(fault["verdict"], fault["guarantee"], fault["table"]): fault["anchor"] for fault in faults}
    lines, order = [], []
    for (guarantee, table), rows in _grouped(results, "guarantee", "table").items():
        by_increment = {row["increment"]: row for row in rows}
        verdicts = [row["verdict"] for row in rows]
        lines.append(
            {
                "guarantee": guarantee,
                "sentence": _SENTENCES.get(guarantee, ""),
                "table": table,
                "cells": [(number, _cell(by_increment.get(number), anchors)) for number in shown],
                "passed": verdicts.count(PASSED),
                "failed": verdicts.count(FAILED),
            }
        )
        order.append(min(map(_order, rows)))
    # Lines of which all passed keep the order of guarantees, in whichever increment each was last checked.
    indices = sorted(range(len(lines)), key=lambda at: order[at] if order[at][0] < _RANKS[PASSED] else order[at][:1])
    return {"increments": shown, "lines": [lines[at] for at in indices], "all": len(increments)}


def faults_of(
    results: Sequence[Row], all_increments: int, *, warehouse: str, pipeline: str, section: str
) -> list[dict[str, Any]]:
    """What is not "passed", worst first: the newest row of each fault, with its witnesses, the commands that explain
    it, and in which increments it is. ``section``: id of the pipeline's part of the page.
    """
    faults = []
    bad = [row for row in results if row["verdict"] != PASSED]
    groups = sorted(_grouped(bad, "verdict", "guarantee", "table").values(), key=lambda rows: min(map(_order, rows)))
    for number, rows in enumerate(groups[:FAULTS_MAX]):
        rows = sorted(rows, key=lambda row: -row["increment"])
        newest = rows[0]
        witnesses = [{name: str(value) for name, value in flat_row(each).items()} for each in newest["witnesses"]]
        faults.append(
            newest
            | {
                "anchor": f"{section}-fault-{number + 1}",
                "sentence": _SENTENCES.get(newest["guarantee"], ""),
                "where": _where(rows, all_increments),
                "trend": [(row["increment"], _observed(row)) for row in rows[:TREND_INCREMENTS]],
                "more": max(0, len(rows) - TREND_INCREMENTS),
                "witnesses": witnesses,
                "columns": list(dict.fromkeys(name for each in witnesses for name in each)),
                "explain": _explains(newest, f"--warehouse {quote(warehouse)} --pipeline {quote(pipeline)}"),
            }
        )
    return faults


def _order(row: Row) -> tuple[int, int, str, str]:
    return _RANKS[row["verdict"]], -row["increment"], row["guarantee"], row["table"]


def _grouped(results: Sequence[Row], *names: str) -> dict[tuple[str, ...], list[Row]]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(results, key=lambda row: (row["guarantee"], row["table"], row["increment"])):
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def _where(rows: Sequence[Row], all_increments: int) -> str:
    newest = rows[0]["increment"]
    if len(rows) == 1:
        return f"increment {newest}"
    return f"{len(rows)} of {all_increments} increments, from {rows[-1]['increment']} to {newest}"


def _cell(row: Row | None, anchors: dict[tuple[str, str, str], str]) -> dict[str, str]:
    if row is None:
        return {"verdict": NOT_CHECKED, "says": NOBODY, "anchor": ""}
    says = "; ".join(part for part in (_observed(row), row["reason"]) if part)
    anchor = anchors.get((row["verdict"], row["guarantee"], row["table"]), "")
    return {"verdict": row["verdict"], "says": says, "anchor": anchor}


def _observed(row: Row) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in row["observed"].items())


def _explains(row: Row, where: str) -> list[str]:
    """Commands that explain the landed records which the witnesses name, or that check the increment again."""
    records = [
        f"{each['topic']}:{each['partition']}:{each['offset']}"
        for each in row["witnesses"]
        if {"topic", "partition", "offset"} <= each.keys()
    ]
    named = [
        f"replay explain --record {quote(record)} {where} --topology topology.py:topology"
        for record in list(dict.fromkeys(records))[:3]
    ]
    return named or [f"replay check topology.py:topology {where} --increment {row['increment']} --json"]
