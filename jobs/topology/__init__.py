"""The DSL: Kafka Streams' own in snake_case. Who knows one knows the other; ``fold`` is the only addition, and what
KIP-655 proposes. Everything a topology file needs is here.
"""

from ...state.serdes import Serde
from ..functions import folds as fold
from ..functions.printed import Printed
from ..functions.processor_api import KeyValues, Processor, Record
from ..functions.timestamp_extractors import (
    ConsumerRecord,
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
from ..graph.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from .dsl.branched import Branched, BranchedKStream
from .dsl.cogrouped import CogroupedKStream
from .dsl.grouped import KGroupedStream
from .dsl.grouped_table import KGroupedTable
from .dsl.kstream import KStream
from .dsl.ktable import GlobalKTable, KTable
from .dsl.streams_builder import Consumed, StreamsBuilder
from .dsl.suppressed import BufferConfig, Suppressed
from .materialized import Materialized
from .topology import SubTopology, Topology

__all__ = [
    "Branched",
    "BranchedKStream",
    "BufferConfig",
    "CogroupedKStream",
    "Consumed",
    "ConsumerRecord",
    "FailOnInvalidTimestamp",
    "GlobalKTable",
    "JoinWindows",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KeyValues",
    "LogAndSkipOnInvalidTimestamp",
    "Materialized",
    "Printed",
    "Processor",
    "Record",
    "Serde",
    "SessionWindows",
    "SlidingWindows",
    "StreamsBuilder",
    "SubTopology",
    "Suppressed",
    "TimeWindows",
    "Topology",
    "UnlimitedWindows",
    "UsePartitionTimeOnInvalidTimestamp",
    "WallclockTimestampExtractor",
    "fold",
]
