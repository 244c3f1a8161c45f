"""A built topology: sub-topologies, what they read and write, and Kafka's description of them."""

import hashlib
from dataclasses import dataclass

from jobs.topology.describe import describe
from jobs.topology.graph import Graph
from jobs.topology.nodes import AggregateNode, Node, RepartitionNode, SinkNode, SourceNode, StoreNode, SuppressNode
from state.errors import TopologyError


@dataclass(frozen=True, eq=False)
class SubTopology:
    """Nodes that run together in one task, the first being the source. ``id``: Kafka's number."""

    id: int
    nodes: tuple[Node, ...]
    repartitions: tuple[RepartitionNode, ...]
    """Repartition tables that this sub-topology writes."""

    @property
    def source(self) -> SourceNode | RepartitionNode:
        first = self.nodes[0]
        assert isinstance(first, SourceNode | RepartitionNode)
        return first

    @property
    def sinks(self) -> tuple[SinkNode, ...]:
        return tuple(node for node in self.nodes if isinstance(node, SinkNode))

    @property
    def stores(self) -> tuple[StoreNode, ...]:
        return tuple(node for node in self.nodes if isinstance(node, StoreNode))


class Topology:
    """What ``StreamsBuilder.build`` returns. Pickles, so that tasks run anywhere."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        if not graph.nodes:
            raise TopologyError("topology", "at least one stream()", "none", "read a topic with builder.stream()")
        self.sub_topologies = tuple(
            SubTopology(
                number,
                tuple(group),
                tuple(
                    child for node in group for child in graph.children(node.name) if isinstance(child, RepartitionNode)
                ),
            )
            for number, group in enumerate(graph.groups())
        )

    def describe(self) -> str:
        """The topology as Kafka's ``TopologyDescription.toString`` prints it."""
        return describe(self.graph)

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits that change with the graph, its windows and its limits (not with Python callables)."""
        return hashlib.sha256(
            "\n".join([self.describe(), *map(settings, self.graph.nodes.values())]).encode()
        ).hexdigest()[:16]

    def source_topics(self) -> list[str]:
        return [node.topic for node in self.graph.nodes.values() if isinstance(node, SourceNode)]

    def sinks(self) -> list[SinkNode]:
        return [node for node in self.graph.nodes.values() if isinstance(node, SinkNode)]

    def stores(self) -> list[StoreNode]:
        return [node for node in self.graph.nodes.values() if isinstance(node, StoreNode)]

    def sub_topology_of(self, store: str) -> SubTopology | None:
        """The sub-topology that keeps ``store``; None when there is none."""
        return next((sub for sub in self.sub_topologies if store in [node.store for node in sub.stores]), None)

    def suppress_above(self, sink: SinkNode) -> SuppressNode | None:
        """The suppress whose final results ``sink`` writes, or None when it writes something else."""
        for node in self.graph.above(sink):
            if isinstance(node, SuppressNode):
                return node
            if isinstance(node, AggregateNode | RepartitionNode):
                return None
        return None


def settings(node: Node) -> str:
    """What describe does not say of a node but its results depend on."""
    parts = [node.name, str(node.shape.key), str(node.shape.value), str(node.shape.window)]
    if isinstance(node, AggregateNode):
        parts += [repr(node.windows), str(node.retention_ms), str(node.is_persistent)]
    elif isinstance(node, SuppressNode):
        parts += [repr(node.windows), str(node.max_records), str(node.max_bytes)]
    return " ".join(parts)
