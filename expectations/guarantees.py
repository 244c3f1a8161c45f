"""The guarantees, and which of them a topology has.

Owns the list. Rule: each stands beside its audit; what is in the list is told in expectations/README.md and has a
mutant (tests/expectations/mutants.py) that it finds.
"""

from .books_balance import G3
from .facts import ReplayFacts
from .final_after_close import G2
from .final_once import G1
from .guarantee import Guarantee, Question, Rule
from .operators.window_bounds import G4

__all__ = ["G1", "G2", "G3", "G4", "GUARANTEES", "Guarantee", "Question", "Rule", "questions_of"]

GUARANTEES = (G1, G2, G3, G4)


def questions_of(facts: ReplayFacts) -> list[Question]:
    """What must hold for a topology with these facts, by guarantee and table."""
    return [
        Question(guarantee, table, audit) for guarantee in GUARANTEES for table, audit in guarantee.questions(facts)
    ]
