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
from ..state.node_rows import RunAgain
from ..state.tables.warehouse import Warehouse
from .audits import WITNESSES_MAX, Audit, Scope, Unchecked, open_scope
from .facts import FinalOutput, ReplayFacts, SourceTopic, SubTopologyFacts
from .guarantees import Question, questions_of
from .suites.checkpoint import Judged, SuiteAnswer, run_checkpoint
from .suites.data_docs import DataDocs
from .suites.evidence import Evidence, suite_name
from .suites.project_suites import ProjectSuite
from .suites.run import JudgedRun
from .suites.table_rows import rows_of_increment

__all__ = [
    "FinalOutput",
    "ReplayFacts",
    "SourceTopic",
    "SubTopologyFacts",
    "Verdict",
    "as_one",
    "check_increment",
    "is_in_order",
]

Engine = Literal["gx", "plain"]
Answer = Literal["true", "false", "unknown", "unchecked"]


_WORST_FIRST: tuple[Answer, ...] = ("false", "unknown", "unchecked", "true")


@dataclass(frozen=True)
class Verdict:
    """One guarantee about one table in one increment.

    ``table`` as in the ledger ("outputs/x"; "ledger" for the books), ``version`` its Delta version. ``observed``: the
    audit's counts, differences without sign, summed over its rows. ``witnesses``: up to 20 rows that speak against the
    guarantee. ``broken``: names of the rules that do not hold. ``reason``: why it was not judged, or why the engine is
    not the one asked for, or which tasks ran again to judge it; else "". ``rows``: how many rows were judged, in so
    many ``seconds`` of wall clock (Great Expectations' own apart). ``kip``: "" where the guarantee is of none.
    ``page``: address of its page in Data Docs, "" where none was built.
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
    page: str = ""

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
    warehouse: Warehouse,
    pipeline: str,
    facts: ReplayFacts | None,
    increment: int | None = None,
    *,
    engine: Engine = "gx",
    suites: Sequence[ProjectSuite] = (),
    docs: DataDocs | None = None,
    run_id: str = "",
    again: RunAgain | None = None,
) -> list[Verdict]:
    """Verdicts on one done increment (None: the last one), by guarantee and table, then on ``suites``, one each.

    ``facts``: None to ask for suites alone. ``suites``: of the user's project; Great Expectations alone judges them.
    ``docs``: where Great Expectations builds its pages; None: it builds none. ``run_id``: of the Dagster run that asks.
    ``again``: runs increments again where no table has the evidence; None: such verdicts are unchecked.
    Never raises for what the tables hold or lack: such a verdict is unknown, with the reason.
    """
    questions = [] if facts is None else questions_of(facts)
    try:
        scope = open_scope(warehouse, pipeline, facts or ReplayFacts(()), increment, again)
    except (ReplayError, OSError) as error:
        nothing = [_suite_verdict(suite, None, increment, SuiteAnswer(error=str(error))) for suite in suites]
        return [*(_unknown(question, None, increment, error) for question in questions), *nothing]
    timed = [_timed_audit(question, scope) for question in questions]
    audits = [audit for audit, _ in timed]
    known = [
        Evidence(q.table, q.judged_by(audit), audit)
        for q, audit in zip(questions, audits, strict=True)
        if isinstance(audit, Audit)
    ]
    batches = [_timed_rows(suite, scope) for suite in suites]
    readable = [
        (suite, rows) for suite, (rows, _) in zip(suites, batches, strict=True) if isinstance(rows, pl.DataFrame)
    ]
    judged, used, reason = _judge(JudgedRun(pipeline, scope.increment, run_id), known, readable, engine, docs)
    answers = iter(judged.rules)
    verdicts = [
        _verdict(question, scope, audit, next(answers), used, reason)
        if isinstance(audit, Audit)
        else _unknown(question, scope, scope.increment, audit)
        for question, audit in zip(questions, audits, strict=True)
    ]
    with_seconds = [
        replace(verdict, seconds=seconds, page=judged.pages.get(suite_name(verdict.table), ""))
        for verdict, (_, seconds) in zip(verdicts, timed, strict=True)
    ]
    of_suites = iter(judged.suites)
    for suite, (rows, seconds) in zip(suites, batches, strict=True):
        is_read = isinstance(rows, pl.DataFrame)
        answer = next(of_suites) if is_read else SuiteAnswer(error=str(rows))
        verdict = _suite_verdict(
            suite, scope, scope.increment, answer, len(rows) if isinstance(rows, pl.DataFrame) else 0
        )
        with_seconds.append(replace(verdict, seconds=seconds, page=judged.pages.get(suite.name, "") if is_read else ""))
    return with_seconds


def _timed_audit(question: Question, scope: Scope) -> tuple[Audit | Unchecked | Exception, float]:
    """The audit, or why it was not possible; and the seconds that it took."""
    begun = time.perf_counter()
    found: Audit | Unchecked | Exception
    try:
        found = question.judge(scope)
    except (ReplayError, OSError, pl.exceptions.PolarsError) as error:
        found = error
    return found, time.perf_counter() - begun


def _timed_rows(suite: ProjectSuite, scope: Scope) -> tuple[pl.DataFrame | Exception, float]:
    """The rows that a suite is about, or why they cannot be read; and the seconds that it took."""
    begun = time.perf_counter()
    found: pl.DataFrame | Exception
    try:
        found = rows_of_increment(scope, suite.table)
    except (ReplayError, OSError, pl.exceptions.PolarsError) as error:
        found = error
    return found, time.perf_counter() - begun


def _judge(
    run: JudgedRun,
    evidence: list[Evidence],
    suites: list[tuple[ProjectSuite, pl.DataFrame]],
    engine: Engine,
    docs: DataDocs | None,
) -> tuple[Judged, Engine, str]:
    """What holds; the engine that answered; why it is not the one asked for."""
    reason = ""
    if engine == "gx":
        try:
            return run_checkpoint(run, evidence, suites, docs), "gx", ""
        except Exception as error:  # whatever breaks inside Great Expectations must not stop a replay
            reason = f"Great Expectations failed: {error!r}"
    without = SuiteAnswer(error=reason or "Great Expectations was not asked, and alone judges suites of a project")
    return Judged(_judge_plainly(evidence), [without] * len(suites)), "plain", reason


def _judge_plainly(evidence: list[Evidence]) -> list[dict[str, bool]]:
    return [
        {rule.name: bool((each.audit.frame[rule.column] == 0).all()) for rule in each.guarantee.rules}
        for each in evidence
    ]


def _verdict(
    question: Question, scope: Scope, audit: Audit, answer: dict[str, bool], engine: Engine, reason: str
) -> Verdict:
    guarantee = question.judged_by(audit)
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
        reason=". ".join(each for each in (audit.reason, reason) if each),
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


def _suite_verdict(
    suite: ProjectSuite, scope: Scope | None, increment: int | None, answer: SuiteAnswer, rows: int = 0
) -> Verdict:
    is_critical = bool(answer.error) or any(each.severity == "critical" for each in answer.failed)
    version = None if scope is None else scope.done.versions.get(suite.table)
    unjudged = ", ".join(answer.without_rows)
    reason = f"the increment wrote no row to {suite.table}, so there was nothing to judge for {unjudged}"
    return Verdict(
        guarantee=suite.name,
        sentence=suite.sentence,
        check=suite.check,
        table=suite.table,
        version=None if version is None else int(version),
        increment=increment,
        answer="unknown" if answer.error else "false" if answer.failed else "true",
        observed={"rows": rows, **{each.label: each.count for each in answer.failed}},
        witnesses=[row for each in answer.failed for row in each.rows][:WITNESSES_MAX],
        broken=tuple(each.label for each in answer.failed),
        engine="gx",
        reason=answer.error or (reason if unjudged else ""),
        severity="error" if is_critical or not answer.failed else "warning",
        rows=rows,
    )


def _version(question: Question, scope: Scope) -> int | None:
    """Version of the audited table; of the ledger, which is read whole, the newest."""
    if question.table == "ledger":
        return scope.ledger.version()
    version = scope.done.versions.get(question.table)
    return None if version is None else int(version)
