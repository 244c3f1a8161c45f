"""What a guarantee is: a sentence that must hold, where it comes from, what proves it, and the rules that judge it.

Owns the shape. Rule: one guarantee, one audit frame for each table that it speaks of, and rules that all have one form:
*this column of the frame is 0 in every row*. Two front ends read them, `suites` (Great Expectations) and `verdicts`
(plain code), so a guarantee cannot mean two things.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from .audits import Audit, Scope, Unchecked
from .facts import ReplayFacts
from .second_run import OTHER_ROWS

About = tuple[str, Callable[[Scope], Audit | Unchecked]]
"""A table as the ledger calls it, and how the guarantee is audited there."""


@dataclass(frozen=True)
class Rule:
    """``column`` of the audit frame is 0 in every row. ``name`` is the expectation's name in a suite."""

    name: str
    column: str
    sentence: str


@dataclass(frozen=True)
class Guarantee:
    """One guarantee. ``kip``: "" where it is of none; ``kafka``: the class of Kafka Streams that keeps it, "" likewise.

    ``evidence``: the tables that are compared; ``cost``: what is read. ``check`` names the asset check, ``proof`` the
    test file that breaks it on purpose. ``severity``: whether an increment that breaks it is wrong, or to be looked at.
    ``questions``: the tables of a topology that it speaks of. ``by_settings``: it judges rows by what the topology says
    of them (a gap, a wait, which output is final), so it says nothing of an increment that another topology ran.
    ``by_steps``: it computes values by the topology's steps and functions, so it says nothing of tables that others
    filled.
    """

    id: str
    sentence: str
    kip: str
    operator: str
    check: str
    proof: str
    status: str
    rules: tuple[Rule, ...]
    kafka: str = ""
    evidence: str = ""
    cost: str = ""
    severity: Literal["error", "warning"] = "error"
    by_settings: bool = True
    by_steps: bool = False
    questions: Callable[[ReplayFacts], Iterable[About]] = field(default=lambda _: (), repr=False, compare=False)


@dataclass(frozen=True)
class Question:
    """A guarantee about one table of a pipeline, and how to audit it there."""

    guarantee: Guarantee
    table: str
    audit: Callable[[Scope], Audit | Unchecked] = field(repr=False, compare=False)

    def judge(self, scope: Scope) -> Audit | Unchecked:
        """The audit of one increment; nothing where its rows were made by other settings than it judges by."""
        otherwise = scope.made_otherwise if self.guarantee.by_settings else ""
        if not otherwise and self.guarantee.by_steps:
            otherwise = scope.made_by_other_steps(self.table)
        return Unchecked(otherwise) if otherwise else self.audit(scope)

    def judged_by(self, audit: Audit) -> Guarantee:
        """The guarantee; of a second run with the rule that it is the run which was committed."""
        if OTHER_ROWS not in audit.frame.columns:
            return self.guarantee
        name = f"expect_{self.guarantee.id.lower()}_of_the_run_that_was_committed"
        rule = Rule(name, OTHER_ROWS, "Tables below the operator have what a second run of the increment writes there.")
        return replace(self.guarantee, rules=(*self.guarantee.rules, rule))
