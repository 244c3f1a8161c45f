"""The output that is compared: its serdes, its windows, and what the topology above it can do to its rows.

Owns what is known before a row is read. Rule: a cause that the topology rules out is never given: no cache below a
suppress, no late record where nothing above the output drops one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa

from ...state.records.murmur2 import murmur2_partitions
from ...state.serdes import Serde
from ..graph.graph import Node
from ..graph.nodes import RepartitionNode, SourceNode
from ..operators.joins.stream_join_node import StreamJoinNode
from ..topology.named_output import NamedOutput
from ..topology.topology import SubTopology

CHANGELOG, EVENTS = "changelog", "events"
"""How an output is compared: the last row of each key and window, or every row."""


@dataclass(frozen=True)
class ComparedOutput(NamedOutput):
    """The output ``name`` of ``topology``, which is compared. Raises as NamedOutput."""

    verb: ClassVar[str] = "compare"

    # --- bytes -----------------------------------------------------------------------------------------------

    @property
    def value_serde(self) -> Serde:
        return self.sink.shape.value

    def partitions_of(self, keys: pa.Array, partitions: int) -> np.ndarray:
        """Where Kafka's default partitioner puts these keys: by the key alone, without its window (Kafka's
        WindowedStreamPartitioner).
        """
        numbers: np.ndarray = murmur2_partitions(self.sink.shape.key.encode(keys), partitions)
        return numbers

    # --- what is above ---------------------------------------------------------------------------------------

    @cached_property
    def above(self) -> tuple[Node, ...]:
        """All nodes from which a record may come to it, nearest first, through repartition topics too."""
        nodes, above, waiting = self.topology.graph.nodes, dict[str, Node](), [self.sink.name]
        while waiting:
            node = nodes[waiting.pop(0)]
            for name in (*node.inputs, *node.reads):
                if name not in above:
                    above[name] = nodes[name]
                    waiting.append(name)
        return tuple(above.values())

    @property
    def own_path(self) -> Iterator[Node]:
        """From the sink up to where the path begins, or forks."""
        node: Node = self.sink
        while len(node.inputs) == 1 and not (node is not self.sink and node.is_source):
            node = self.topology.graph.parent(node)
            yield node

    @cached_property
    def moves_keys(self) -> bool:
        """Its keys are not those by which its task was chosen, so Kafka sends a row to another partition than ours."""
        if self.sink.partitioning is not None:
            return False
        own = [node for node in self.above if node in self.sub_topology.nodes and not node.is_source]
        return any(node.changes_keys for node in own)

    def keeps_key_of(self, node: str) -> bool:
        """Whether the rows have the keys that the node ``node`` above forwards; not known where the path forks."""
        for each in self.own_path:
            if each.name == node:
                return True
            if each.changes_keys:
                return False
        return False

    @cached_property
    def is_final(self) -> bool:
        """A result leaves when its window closes, because of a later record."""
        return any(node.holds_back or node.waits_for_close for node in self.own_path)

    @cached_property
    def may_be_cached(self) -> bool:
        """The nearest store above may have a record cache, which holds updates back until the commit."""
        graph = self.topology.graph
        for node in self.own_path:
            if node.holds_back or node.waits_for_close:
                return False
            if graph.store_of(node) is not None:
                # Kafka puts no cache before a versioned store (KIP-889), nor before the stores of a join of streams.
                spec = graph.tables[node.name].store if node.name in graph.tables else None
                return node.is_table and not (spec is not None and spec.is_versioned)
        return False

    @cached_property
    def is_stateful(self) -> bool:
        """A record that is taken twice may give another value: some node above keeps something. A join of streams gives
        its pairs again, which are the same.
        """
        return any(node.store is not None and not isinstance(node, StreamJoinNode) for node in self.above)

    @cached_property
    def has_stream_time(self) -> bool:
        """A restart may change its rows: some node above keeps more than a plain table, so its stream time counts."""
        stores = [node for node in self.above if node.store is not None]
        return any(not node.is_table or node.holds_back or node.windowed_by is not None for node in stores)

    @cached_property
    def default_form(self) -> str:
        """CHANGELOG of what a table forwards under its own keys, before it is final; else EVENTS."""
        for node in self.own_path:
            if node.changes_keys or node.is_source or node.holds_back or node.waits_for_close:
                return EVENTS
            if node.is_table:
                return CHANGELOG
        return EVENTS

    @property
    def sources(self) -> tuple[SourceNode | RepartitionNode, ...]:
        """What its sub-topology reads."""
        return self.sub_topology.sources

    @cached_property
    def causing(self) -> tuple[SourceNode | RepartitionNode, ...]:
        """Those of ``sources`` whose records cause its rows: not that of a table which is only looked into."""
        return self._causing(self.sink, self.sub_topology)

    def _causing(self, node: Node, sub: SubTopology) -> tuple[SourceNode | RepartitionNode, ...]:
        nodes, causing, waiting = self.topology.graph.nodes, dict[str, None](), [node.name]
        while waiting:
            above = nodes[waiting.pop()]
            if above.reach(self.topology.graph).gives_times:  # it may act at any time of its task
                return sub.sources
            causing |= dict.fromkeys(above.inputs)
            waiting += [name for name in above.inputs if nodes[name] not in sub.sources]
        return tuple(source for source in sub.sources if source.name in causing)

    def has_one_order(self, tasks: Mapping[str, int]) -> bool:
        """Whether its rows can come in one order alone: one task makes those of a partition, of the records of one
        topic, and so it is above. ``tasks``: how many, by sub-topology.
        """
        causing = self.causing
        while len(causing) == 1 and isinstance(causing[0], RepartitionNode):
            senders = [sub for sub in self.topology.sub_topologies if causing[0] in sub.repartitions]
            if len(senders) != 1 or tasks.get(str(senders[0].id)) != 1:
                return False
            causing = self._causing(causing[0], senders[0])
        return len(causing) == 1

    @property
    def cause_topic(self) -> str | None:
        """The topic that the rows' ``cause_offset`` speaks of; None where its tasks read several."""
        return self.sources[0].topic if len(self.sources) == 1 else None

    @property
    def landed_cause_topic(self) -> str | None:
        """``cause_topic``, where it is a landed one."""
        return self.cause_topic if self.cause_topic and self.sources[0].landed_topic is not None else None
