"""What an upgrade of Kafka Streams means for a topology: the known differences that touch its operators.

In: a topology and two versions. Out: differences, each with the operators that it touches. Rule: an operator says what
it is (``Node.kafka_traits``), the table says what changed (kafka_differences.py), and here the two are brought
together. It names operators, and does not count the rows of history that would be others.
"""

from dataclasses import dataclass

from ...state.errors import ConfigError
from ..topology.topology import Topology
from .kafka_differences import VERSIONS, KafkaDifference, differences


@dataclass(frozen=True)
class TouchedOperators:
    """A difference, and the names of the operators that it touches, as ``describe()`` has them."""

    difference: KafkaDifference
    operators: tuple[str, ...]


@dataclass(frozen=True)
class UpgradeAdvice:
    """``known``: how many differences are known between the versions; ``touched``: those that touch an operator."""

    since: str
    until: str
    known: int
    touched: tuple[TouchedOperators, ...]


def upgrade_advice(topology: Topology, since: str, until: str) -> UpgradeAdvice:
    """What changes for ``topology`` from version ``since`` of Kafka Streams to ``until``, such as "3.9" and "4.4".

    Raises ConfigError for a version that the table does not have, and for one that is not later.
    """
    for name, version in (("--from", since), ("--to", until)):
        if version not in VERSIONS:
            next_step = "give the first two numbers of a version; what is said is of its first release"
            raise ConfigError(name, f"a version from {VERSIONS[0]} to {VERSIONS[-1]}", repr(version), next_step)
    if VERSIONS.index(since) >= VERSIONS.index(until):
        raise ConfigError("--to", f"a version after {since}", repr(until), "give the earlier version as --from")
    known, graph = differences(since, until), topology.described
    traits = {name: frozenset(node.kafka_traits(graph)) for name, node in graph.nodes.items()}
    touched = [
        TouchedOperators(each, tuple(name for name, own in traits.items() if not own.isdisjoint(each.touches)))
        for each in known
    ]
    return UpgradeAdvice(since, until, len(known), tuple(each for each in touched if each.operators))
