"""Where records for the topic of dead letters come out of a sub-topology (KIP-1034)."""

from dataclasses import dataclass

from ..graph.graph import Node
from ..graph.observations import Observation
from ..graph.wording import Wording


@dataclass(frozen=True, eq=False, kw_only=True)
class DeadLettersNode(Node):
    """Forwards what its task made of records without which the application continues. ``inputs``: a source of its
    sub-topology, which says where it runs and hands it nothing. ``reads_failures_of``: the nodes that may fail.
    """

    reads_failures_of: tuple[str, ...]

    operator = ".dead_letters:ForwardDeadLetters"
    forwards_at_once = True
    takes_letters = True

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return ["becomes a record of the topic of dead letters" for _ in seen.forwarded]
