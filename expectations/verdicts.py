"""Verdicts: is a guarantee true of an increment, and which rows say that it is not.

Owns the answer. Rule: true, false, unknown or unchecked. False names witness rows; what could not be read is unknown,
and what no table has evidence of is unchecked, with the reason, and neither is ever true. The rules run in Great
Expectations or as plain code; a failure of Great Expectations is noted and the plain answer given, so that it never
stops a replay.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from ..state.errors import ReplayError
from ..state.tables.data_files import table_version
from ..state.tables.warehouse import Warehouse
from .audits import WITNESSES_MAX, Audit, Scope, Unchecked, open_scope
from .facts import FinalOutput, ReplayFacts, Source, SubTopology
from .guarantees import Guarantee, Question, questions_of

__all__ = ["FinalOutput", "ReplayFacts", "Source", "SubTopology", "Verdict", "as_one", "check_increment", "is_in_order"]

Engine = Literal["gx", "plain"]
Answer = Literal["true", "false", "unknown", "unchecked"]


_WORST_FIRST: tuple[Answer, ...] = ("false", "unknown", "unchecked", "true")


@dataclass(frozen=True)
class Verdict:
    """One guarantee about one table in one increment.

    ``table`` as in the ledger ("outputs/x"; "ledger" for the books), ``version`` its Delta version. ``observed``: the
    audit's counts, differences without sign, summed over its rows. ``witnesses``: up to 20 rows that speak against the
    guarantee. ``broken``: names of the rules that do not hold. ``reason``: why it was not judged, or why the engine is
    not the one asked for; else "". ``rows``: how many rows were judged, in so many ``seconds`` of wall clock (Great
    Expectations' own apart). ``kip``: "" where the guarantee is of none.
    """

    guarantee: str
    sentence: str
    check: str
    table: str
    version: int | None
    increment: int | None
    answer: Answer
    observed: dict[str, int] = field(default_factory=dict)
    witnesses: list[dict[str, Any]] = field(default_factory=list)
    broken: tuple[str, ...] = ()
    engine: Engine = "plain"
    reason: str = ""
    kip: str = ""
    severity: Literal["error", "warning"] = "error"
    rows: int = 0
    seconds: float = 0.0

    @property
    def holds(self) -> bool | None:
        """True or false; None when it was not judged."""
        return self.answer == "true" if self.answer in ("true", "false") else None


def is_in_order(verdict: Verdict) -> bool:
    """Whether nothing has to be done: it holds, or no table has evidence of it, or breaking it is only a warning."""
    return verdict.answer in ("true", "unchecked") or (verdict.answer == "false" and verdict.severity == "warning")


def as_one(verdicts: Sequence[Verdict]) -> Verdict:
    """Verdicts on one guarantee about several tables as one: the worst of them, with the counts and witnesses of all;
    ``table`` names the worst. There must be one.
    """
    worst = min(verdicts, key=lambda verdict: _WORST_FIRST.index(verdict.answer))
    observed: dict[str, int] = {}
    for verdict in verdicts:
        for name, count in verdict.observed.items():
            observed[name] = observed.get(name, 0) + count
    return replace(
        worst,
        observed=observed,
        witnesses=[row for verdict in verdicts for row in verdict.witnesses][:WITNESSES_MAX],
        broken=tuple(dict.fromkeys(rule for verdict in verdicts for rule in verdict.broken)),
        rows=sum(verdict.rows for verdict in verdicts),
        seconds=sum(verdict.seconds for verdict in verdicts),
    )


def check_increment(
    warehouse: Warehouse, pipeline: str, facts: ReplayFacts, increment: int | None = None, *, engine: Engine = "gx"
) -> list[Verdict]:
    """Verdicts on one done increment (None: the last one), by guarantee and table.

    Never raises for what the tables hold or lack: such a verdict is unknown, with the reason.
    """
    questions = questions_of(facts)
    try:
        scope = open_scope(warehouse, pipeline, facts, increment)
    except (ReplayError, OSError) as error:
        return [_unknown(question, None, increment, error) for question in questions]
    timed = [_timed_audit(question, scope) for question in questions]
    audits = [audit for audit, _ in timed]
    known = [(q.guarantee, audit.frame) for q, audit in zip(questions, audits, strict=True) if isinstance(audit, Audit)]
    answers, used, reason = _judge(known, engine)
    judged = iter(answers)
    verdicts = [
        _verdict(question, scope, audit, next(judged), used, reason)
        if isinstance(audit, Audit)
        else _unknown(question, scope, scope.increment, audit)
        for question, audit in zip(questions, audits, strict=True)
    ]
    return [replace(verdict, seconds=seconds) for verdict, (_, seconds) in zip(verdicts, timed, strict=True)]


def _timed_audit(question: Question, scope: Scope) -> tuple[Audit | Unchecked | Exception, float]:
    """The audit, or why it was not possible; and the seconds that it took."""
    begun = time.perf_counter()
    found: Audit | Unchecked | Exception
    try:
        found = question.audit(scope)
    except (ReplayError, OSError, pl.exceptions.PolarsError) as error:
        found = error
    return found, time.perf_counter() - begun


def _judge(audited: list[tuple[Guarantee, pl.DataFrame]], engine: Engine) -> tuple[list[dict[str, bool]], Engine, str]:
    """Rule name to whether it holds, for each audit; the engine that answered; why it is not the one asked for."""
    if engine == "gx":
        try:
            from .suites import validate_frames

            return validate_frames(audited), "gx", ""
        except Exception as error:  # whatever breaks inside Great Expectations must not stop a replay
            return _judge_plainly(audited), "plain", f"Great Expectations failed: {error!r}"
    return _judge_plainly(audited), "plain", ""


def _judge_plainly(audited: list[tuple[Guarantee, pl.DataFrame]]) -> list[dict[str, bool]]:
    return [
        {rule.name: bool((frame[rule.column] == 0).all()) for rule in guarantee.rules} for guarantee, frame in audited
    ]


def _verdict(
    question: Question, scope: Scope, audit: Audit, answer: dict[str, bool], engine: Engine, reason: str
) -> Verdict:
    guarantee = question.guarantee
    broken = tuple(rule.name for rule in guarantee.rules if not answer[rule.name])
    counts = audit.frame.drop("output", "sub_topology", strict=False).select(pl.all().abs().sum()).row(0, named=True)
    return Verdict(
        guarantee=guarantee.id,
        sentence=guarantee.sentence,
        check=guarantee.check,
        table=question.table,
        version=_version(question, scope),
        increment=scope.increment,
        answer="false" if broken else "true",
        observed={name: int(count) for name, count in counts.items()},
        witnesses=audit.witnesses[:WITNESSES_MAX],
        broken=broken,
        engine=engine,
        reason=reason,
        kip=guarantee.kip,
        severity=guarantee.severity,
        rows=audit.rows,
    )


def _unknown(question: Question, scope: Scope | None, increment: int | None, why: Exception | Unchecked) -> Verdict:
    return Verdict(
        guarantee=question.guarantee.id,
        sentence=question.guarantee.sentence,
        check=question.guarantee.check,
        table=question.table,
        version=None if scope is None else _version(question, scope),
        increment=increment,
        answer="unchecked" if isinstance(why, Unchecked) else "unknown",
        reason=why.reason if isinstance(why, Unchecked) else str(why),
        kip=question.guarantee.kip,
        severity=question.guarantee.severity,
    )


def _version(question: Question, scope: Scope) -> int | None:
    """Version of the audited table; of the ledger, which is read whole, the newest."""
    if question.table == "ledger":
        return table_version(scope.tables.ledger, storage_options=scope.warehouse.storage_options)
    version = scope.done.versions.get(question.table)
    return None if version is None else int(version)
