"""Verdicts: is a guarantee true of an increment, and which rows say that it is not.

Owns the answer. Rule: true, false, unknown or unchecked. False names witness rows; what could not be read is unknown,
and what no table has evidence of is unchecked, with the reason, and neither is ever true. The rules run in Great
Expectations or as plain code; a failure of Great Expectations is noted and the plain answer given, so that it never
stops a replay.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from ..state.errors import ReplayError
from ..state.node_rows import RunAgain
from ..state.tables.warehouse import Warehouse
from .audits import WITNESSES_MAX, Audit, Scope, Unchecked, open_scope
from .facts import FinalOutput, ReplayFacts, SourceTopic, SubTopologyFacts
from .guarantees import Question, questions_of
from .suites.checkpoint import Judged, SuiteAnswer, SuiteRows, run_checkpoint
from .suites.data_docs import DataDocs
from .suites.evidence import Evidence
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
    "check_increments",
    "is_in_order",
]

Engine = Literal["gx", "plain"]
Answer = Literal["true", "false", "unknown", "unchecked"]


UNREADABLE = (ReplayError, OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""Of tables that cannot be read; a panic of Polars is below BaseException, where no other clause would see it."""


TOGETHER = 30
"""So many increments are one run of Great Expectations."""
ROWS_TOGETHER = 100_000
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
    case = _case_of(warehouse, pipeline, facts, increment, suites, again)
    (verdicts,), _ = _judged([case], JudgedRun(pipeline, case.increment or 0, run_id), engine, docs)
    return verdicts


def check_increments(
    warehouse: Warehouse,
    pipeline: str,
    facts: ReplayFacts | None,
    increments: Sequence[int],
    *,
    engine: Engine = "gx",
    suites: Sequence[ProjectSuite] = (),
    docs: DataDocs | None = None,
    run_id: str = "",
    again: RunAgain | None = None,
) -> Iterator[list[Verdict]]:
    """As ``check_increment``, of each of them in order, and in a fraction of the time.

    Up to TOGETHER increments are one run of Great Expectations, with one page a table; fewer, where users' suites have
    more than ROWS_TOGETHER rows to judge. Where that fails, each of them is judged alone.
    """
    waiting: list[_Case] = []
    for number in increments:
        waiting.append(_case_of(warehouse, pipeline, facts, number, suites, again))
        if len(waiting) == TOGETHER or sum(each.rows for each in waiting) > ROWS_TOGETHER:
            yield from _judged_together(pipeline, waiting, run_id, engine, docs)
            waiting = []
    yield from _judged_together(pipeline, waiting, run_id, engine, docs)


@dataclass(frozen=True)
class _Case:
    """What there is to judge of an increment: ``scope``, or why it could not be read; audits, and rows for suites, each
    with the seconds that they took.
    """

    increment: int | None
    scope: Scope | Exception
    questions: list[Question]
    audits: list[tuple[Audit | Unchecked | BaseException, float]]
    batches: list[tuple[ProjectSuite, pl.DataFrame | BaseException, float]]

    @property
    def rows(self) -> int:
        return sum(len(rows) for _, rows, _ in self.batches if isinstance(rows, pl.DataFrame))


def _case_of(
    warehouse: Warehouse,
    pipeline: str,
    facts: ReplayFacts | None,
    increment: int | None,
    suites: Sequence[ProjectSuite],
    again: RunAgain | None,
) -> _Case:
    questions = [] if facts is None else questions_of(facts)
    try:
        scope = open_scope(warehouse, pipeline, facts or ReplayFacts(()), increment, again)
    except (ReplayError, OSError) as error:
        return _Case(increment, error, questions, [], [(suite, error, 0.0) for suite in suites])
    audits = [_timed_audit(question, scope) for question in questions]
    batches = [(suite, *_timed_rows(suite, scope)) for suite in suites]
    return _Case(scope.increment, scope, questions, audits, batches)


def _judged_together(
    pipeline: str, cases: list[_Case], run_id: str, engine: Engine, docs: DataDocs | None
) -> list[list[Verdict]]:
    if len(cases) > 1:
        numbers = [each.increment or 0 for each in cases]
        verdicts, used = _judged(cases, JudgedRun(pipeline, numbers[0], run_id, numbers[-1]), engine, docs)
        if used == engine:
            return verdicts
    alone = [_judged([each], JudgedRun(pipeline, each.increment or 0, run_id), engine, docs) for each in cases]
    return [verdicts[0] for verdicts, _ in alone]


def _judged(
    cases: list[_Case], run: JudgedRun, engine: Engine, docs: DataDocs | None
) -> tuple[list[list[Verdict]], Engine]:
    """Verdicts by increment, and the engine that gave them."""
    known = [
        Evidence(question.table, question.judged_by(audit), audit, each.increment or 0)
        for each in cases
        for question, (audit, _) in zip(each.questions, each.audits, strict=False)  # none of what could not be read
        if isinstance(audit, Audit)
    ]
    readable = [
        SuiteRows(suite, rows, each.increment or 0)
        for each in cases
        for suite, rows, _ in each.batches
        if isinstance(rows, pl.DataFrame)
    ]
    judged, used, reason = _judge(run, known, readable, engine, docs)
    rules, of_suites = iter(judged.rules), iter(judged.suites)
    verdicts = [
        [*_of_guarantees(each, rules, judged, used, reason), *_of_suites(each, of_suites, judged)] for each in cases
    ]
    return verdicts, used


def _of_guarantees(
    case: _Case, rules: Iterator[dict[str, bool]], judged: Judged, used: Engine, reason: str
) -> Iterator[Verdict]:
    if isinstance(case.scope, Exception):
        for question in case.questions:
            yield _unknown(question, None, case.increment, case.scope)
        return
    for question, (audit, seconds) in zip(case.questions, case.audits, strict=True):
        if isinstance(audit, Audit):
            verdict = _verdict(question, case.scope, audit, next(rules), used, reason)
        else:
            verdict = _unknown(question, case.scope, case.increment, audit)
        yield replace(verdict, seconds=seconds, page=judged.pages.get(verdict.table, ""))


def _of_suites(case: _Case, answers: Iterator[SuiteAnswer], judged: Judged) -> Iterator[Verdict]:
    scope = None if isinstance(case.scope, Exception) else case.scope
    for suite, rows, seconds in case.batches:
        is_read = isinstance(rows, pl.DataFrame)
        answer = next(answers) if is_read else SuiteAnswer(error=str(rows))
        count = len(rows) if isinstance(rows, pl.DataFrame) else 0
        verdict = _suite_verdict(suite, scope, case.increment, answer, count)
        page = judged.pages.get((suite.name, case.increment or 0), "")
        yield replace(verdict, seconds=seconds, page=page)


def _timed_audit(question: Question, scope: Scope) -> tuple[Audit | Unchecked | BaseException, float]:
    """The audit, or why it was not possible; and the seconds that it took."""
    begun = time.perf_counter()
    audit: Audit | Unchecked | BaseException
    try:
        audit = question.judge(scope)
    except UNREADABLE as error:
        audit = error
    return audit, time.perf_counter() - begun


def _timed_rows(suite: ProjectSuite, scope: Scope) -> tuple[pl.DataFrame | BaseException, float]:
    """The rows that a suite is about, or why they cannot be read; and the seconds that it took."""
    begun = time.perf_counter()
    rows: pl.DataFrame | BaseException
    try:
        rows = rows_of_increment(scope, suite.table)
    except UNREADABLE as error:
        rows = error
    return rows, time.perf_counter() - begun


def _judge(
    run: JudgedRun,
    evidence: list[Evidence],
    suites: list[SuiteRows],
    engine: Engine,
    docs: DataDocs | None,
) -> tuple[Judged, Engine, str]:
    """What holds; the engine that answered; why it is not the one asked for."""
    reason = ""
    if engine == "gx" and not (evidence or suites):
        return Judged([], []), "gx", ""
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


def _unknown(question: Question, scope: Scope | None, increment: int | None, why: BaseException | Unchecked) -> Verdict:
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
