"""The guarantees, and which of them a topology has.

Owns the list. Rule: each is beside its audit; what is in the list is described in expectations/README.md and has a
mutant (tests/expectations/mutants.py) that it finds.
"""

from .books_balance import G3
from .facts import ReplayFacts
from .final_after_close import G2
from .final_once import G1
from .guarantee import Guarantee, Question, Rule
from .operators.as_of_join import G15
from .operators.buffer_bounds import G7
from .operators.deduplicated_interval import G14
from .operators.few_are_refused import G12, with_limit
from .operators.foreign_key_join import G16
from .operators.nothing_vanishes import G5
from .operators.repartition_by_key import G10
from .operators.sessions_apart import G6
from .operators.stream_join_pairs import G13
from .operators.stream_time_rises import G8
from .operators.tombstones_of_values import G11
from .operators.versions_join_up import G9
from .operators.window_bounds import G4

__all__ = [
    "G1",
    "G2",
    "G3",
    "GUARANTEES",
    "Guarantee",
    "Question",
    "Rule",
    "questions_of",
]

GUARANTEES = (G1, G2, G3, G4, G5, G6, G7, G8, G9, G10, G11, G12, G13, G14, G15, G16)


def questions_of(facts: ReplayFacts) -> list[Question]:
    """What must hold for a topology with these facts, by guarantee and table. The facts say how many records may be
    refused.
    """
    judged = [with_limit(each, facts.refused) for each in GUARANTEES]
    return [Question(guarantee, table, audit) for guarantee in judged for table, audit in guarantee.questions(facts)]
