"""How far back a record can matter at a node: what a replay of a range must have read before it begins.

Owns the answer that every node gives. Rule: a reach counts in the node's own stream time: once that has passed a time
by the reach, no record of that time or before decides anything that the node still does. A node that says nothing of
itself, and keeps something, reaches back without end.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reach:
    """``ms``: in milliseconds of the node's stream time, 0 or more. ``gap_ms``: what came before also matters as long
    as one record follows another by no more than that, key by key (sessions), so that the reach depends on the data.
    ``is_unbounded``: what a key has stays until it is replaced, however old it is. ``gives_times``: results may have
    any time, whatever the times of the records that they come of.
    """

    ms: int = 0
    gap_ms: int | None = None
    is_unbounded: bool = False
    gives_times: bool = False

    @property
    def is_nothing(self) -> bool:
        """Each record is taken alone."""
        return self == NO_REACH


NO_REACH = Reach()
UNBOUNDED_REACH = Reach(is_unbounded=True)
