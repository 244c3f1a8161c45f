"""The graph that the DSL builds: nodes in the order they were added, with Kafka's names.

Rule: every node and store takes the next number, in the order in which Kafka's InternalStreamsBuilder would give it, so
that ``describe`` reads as Kafka's and an unnamed store keeps its name while nothing before it changes.
"""

from collections.abc import Iterator

from jobs.topology.nodes import Node, RepartitionNode, SinkNode, SourceNode, StoreNode
from state.errors import TopologyError


class Graph:
    """Nodes by name; grows while the DSL is used, read-only afterwards."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._number = 0

    def next_name(self, prefix: str) -> str:
        name = f"{prefix}{self._number:010d}"
        self._number += 1
        return name

    def add(self, node: Node) -> Node:
        """Raises TopologyError for a name, a source topic or an output that is taken already."""
        if node.name in self.nodes:
            raise TopologyError("topology", "names that differ", f"{node.name!r} twice", "rename one of them")
        for other in self.nodes.values():
            self._check_together(node, other)
        self.nodes[node.name] = node
        return node

    @staticmethod
    def _check_together(node: Node, other: Node) -> None:
        if isinstance(node, SourceNode) and isinstance(other, SourceNode) and node.topic == other.topic:
            raise TopologyError(
                f"topic {node.topic!r}", "one stream()", "two", "keep the first stream and use it in both places"
            )
        if isinstance(node, SinkNode) and isinstance(other, SinkNode) and node.topic == other.topic:
            raise TopologyError(f"output {node.topic!r}", "one to()", "two", "write to outputs of different names")
        if isinstance(node, StoreNode) and isinstance(other, StoreNode) and node.store == other.store:
            raise TopologyError(f"store {node.store!r}", "one operator", "two", "give them different names")

    def children(self, name: str) -> list[Node]:
        """Nodes that read ``name``, in the order they were added."""
        return [node for node in self.nodes.values() if name in node.inputs]

    def parent(self, node: Node) -> Node:
        return self.nodes[node.inputs[0]]

    def above(self, node: Node) -> Iterator[Node]:
        """``node``'s ancestors, nearest first."""
        while node.inputs:
            node = self.parent(node)
            yield node

    def groups(self) -> list[list[Node]]:
        """Connected nodes, cut where a repartition begins; in order of their first node."""
        group_of: dict[str, int] = {}
        groups: list[list[Node]] = []
        for node in self.nodes.values():
            if isinstance(node, SourceNode | RepartitionNode):
                group_of[node.name] = len(groups)
                groups.append([node])
            else:
                group_of[node.name] = group_of[node.inputs[0]]
                groups[group_of[node.name]].append(node)
        return groups
