"""The DSL and what it builds. Everything a topology file needs is here."""

from jobs import folds as fold
from jobs.topology.dsl import Consumed, KGroupedStream, KStream, KTable, StreamsBuilder
from jobs.topology.topology import SubTopology, Topology
from jobs.topology.windows import Materialized, SessionWindows, Suppressed, TimeWindows
from state.serdes import Serde

__all__ = [
    "Consumed",
    "KGroupedStream",
    "KStream",
    "KTable",
    "Materialized",
    "Serde",
    "SessionWindows",
    "StreamsBuilder",
    "SubTopology",
    "Suppressed",
    "TimeWindows",
    "Topology",
    "fold",
]
