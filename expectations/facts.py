"""What a check must know of a topology, and no more.

Owns the words between the topology (which this package never sees) and the checks. Rule: facts say what must hold and
where the evidence lies; whoever owns the topology fills them in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from ..state.promises import Promise
from ..state.tables.refused_shares import DEFAULT_LIMIT, RefusedLimit

P = TypeVar("P")


@dataclass(frozen=True)
class SourceTopic:
    """A topic that a sub-topology reads. ``kind`` says in which table its records lie; ``has_own_times``: their times
    are those of that table, and not what an extractor makes of them.
    """

    topic: str
    kind: Literal["landed", "repartition"] = "landed"
    has_own_times: bool = True


@dataclass(frozen=True)
class SubTopologyFacts:
    """A sub-topology, by its number, with the topics it reads."""

    id: int
    sources: tuple[SourceTopic, ...]


@dataclass(frozen=True)
class FinalOutput:
    """An output whose records all left a suppress-until-window-closes.

    ``wait_ms``: a window is closed when ``stream_time_ms >= window_end_ms + wait_ms``; the grace for time and sliding
    windows, gap + grace for sessions. ``window_end_ms`` is exclusive for time windows, inclusive for the other two.
    """

    name: str
    sub_topology: int
    window: Literal["time", "sliding", "session"]
    wait_ms: int


@dataclass(frozen=True)
class Promised:
    """What ``node``, of a sub-topology, says of rows that it leaves in tables."""

    sub_topology: int
    node: str
    promise: Promise


@dataclass(frozen=True)
class ReplayFacts:
    """All that the checks of one pipeline need to know."""

    sub_topologies: tuple[SubTopologyFacts, ...]
    final_outputs: tuple[FinalOutput, ...] = ()
    promises: tuple[Promised, ...] = ()
    topology: str | None = None
    """Its fingerprint, as plans have it; None: not known."""
    steps: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False)
    """By table ("outputs/x", "state/y"), the texts of all steps and functions above it, as the ledger keeps them."""
    refused: RefusedLimit = DEFAULT_LIMIT
    """How many records may be refused without an alarm."""

    def promised(self, kind: type[P]) -> list[tuple[Promised, P]]:
        """Promises of one kind, each with who gives it."""
        return [(each, each.promise) for each in self.promises if isinstance(each.promise, kind)]

    def sub_topology(self, number: int) -> SubTopologyFacts:
        """The sub-topology with this number; KeyError when there is none."""
        return {each.id: each for each in self.sub_topologies}[number]
