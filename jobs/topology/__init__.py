"""The DSL: Kafka Streams' own in snake_case. Who knows one knows the other; ``fold`` is the only addition, and what
KIP-655 proposes. Everything a topology file needs is here.
"""

from jobs import folds as fold
from jobs.graph.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from jobs.topology.dsl.branched import BranchedKStream
from jobs.topology.dsl.cogrouped import CogroupedKStream
from jobs.topology.dsl.global_table import GlobalKTable
from jobs.topology.dsl.grouped import KGroupedStream
from jobs.topology.dsl.grouped_table import KGroupedTable
from jobs.topology.dsl.kstream import KStream
from jobs.topology.dsl.ktable import KTable
from jobs.topology.dsl.materialized import Materialized
from jobs.topology.dsl.streams_builder import Consumed, StreamsBuilder
from jobs.topology.dsl.suppressed import BufferConfig, Suppressed
from jobs.topology.topology import SubTopology, Topology
from state.serdes import Serde

__all__ = [
    "BranchedKStream",
    "BufferConfig",
    "CogroupedKStream",
    "Consumed",
    "GlobalKTable",
    "JoinWindows",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "Materialized",
    "Serde",
    "SessionWindows",
    "SlidingWindows",
    "StreamsBuilder",
    "SubTopology",
    "Suppressed",
    "TimeWindows",
    "Topology",
    "UnlimitedWindows",
    "fold",
]
