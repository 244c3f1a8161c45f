"""Topics of a topology that Kafka Streams makes itself, as a test reads them: repartition topics and changelogs.

Rule: they have their names without the application's id. Records of a repartition topic are decoded when somebody reads
them.
"""

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from ..graph.nodes import RepartitionNode
from ..operators.base.single_records import headers_of
from ..topology.topology import Topology
from .changelogs import changelogs_of
from .driver_records import OutputRecord


class InternalTopics:
    """``outputs``: topics that users write, which are none. ``shapes``: by topic; ``changelogs``: those of stores."""

    def __init__(self, topology: Topology, outputs: Collection[str]) -> None:
        self._nodes = {
            node.topic: node
            for node in topology.graph.nodes.values()
            # What is in the replay alone is no topic of Kafka's. A grouped table's topic has pairs of new and old
            # values (ChangedSerializer), which are no values that a test could compare.
            if isinstance(node, RepartitionNode) and not node.is_replay_only and not node.carries_change
            if node.topic not in outputs
        }
        self.changelogs = changelogs_of(topology)
        self.shapes = {topic: node.shape for topic, node in self._nodes.items()} | self.changelogs
        self._sent: dict[str, list[tuple[np.ndarray, pa.Table]]] = {topic: [] for topic in self._nodes}

    def send(self, arrival: np.ndarray, tables: dict[str, pa.Table]) -> None:
        """Rows by topic; ``arrival``: of the chunk's rows."""
        for topic in tables.keys() & self._sent.keys():
            self._sent[topic].append((arrival, tables[topic]))

    def taken(self, topic: str) -> list[OutputRecord]:
        """Records that were sent to ``topic`` since they were taken last."""
        parts = self._sent.get(topic, [])
        if not parts:
            return []
        self._sent[topic] = []
        shape, records = self._nodes[topic].shape, list[OutputRecord]()
        for arrival, table in parts:
            rows = table.combine_chunks()
            # The topology wrote these bytes with the same serdes, so there is none that cannot be read.
            keys = shape.key.to_python(shape.key.decode(rows["key"].combine_chunks()).values)
            values = shape.value.to_python(shape.value.decode(rows["value"].combine_chunks()).values)
            times, arrivals = rows["timestamp"].to_pylist(), arrival[rows["cause"].to_numpy()].tolist()
            headers = map(headers_of, rows["headers"].to_pylist())
            nothing = [None] * len(keys)
            records += map(OutputRecord, keys, values, times, nothing, arrivals, headers)
        return records
