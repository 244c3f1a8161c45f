"""What the landings of a topic found of the order of its files: the border at which its times go back furthest.

Owns the reading of it from the topic's ledger. Rule: the plan says it of the file behind the border. Plans from before
say nothing, and neither do those whose rows have Kafka's offsets.
"""

from ...state.tables.ledger import LandingLedger
from ...state.tables.warehouse import Warehouse
from .files.file_order import Disorder
from .given_up_plans import kept_plans


def landed_disorder(warehouse: Warehouse, topic: str) -> Disorder | None:
    """The worst of ``topic`` in ``warehouse``; None where times go back at no border further than within a file."""
    plans = kept_plans(LandingLedger(warehouse.landing_ledger(topic)))
    disorders = [Disorder.of_file(file) for plan in plans for file in plan.content.files or ()]
    return max((each for each in disorders if each is not None), key=lambda each: each.back_ms, default=None)
