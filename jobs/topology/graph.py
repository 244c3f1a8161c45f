"""The graph that the DSL builds: nodes in the order they were added, with Kafka's names.

Rule: every node and store takes the next number, in the order in which Kafka's InternalStreamsBuilder would give it, so
that ``describe`` reads as Kafka's and an unnamed store keeps its name while nothing before it changes.
"""

from collections.abc import Iterator

from jobs.topology.name_rules import check_name
from jobs.topology.nodes import GlobalTableNode, Node, RepartitionNode, SinkNode, SourceNode, StoreSpec, TableTraits
from state.errors import TopologyError


class Graph:
    """Nodes by name; grows while the DSL is used, read-only afterwards. ``semantics``: "kafka" or "kip"."""

    def __init__(self, semantics: str = "kafka") -> None:
        self.semantics = semantics
        self.nodes: dict[str, Node] = {}
        self.tables: dict[str, TableTraits] = {}
        """Of the nodes that are tables; changed by Kafka's rules until the topology is built."""
        self.on_demand: dict[str, StoreSpec] = {}
        """Stores of source tables, should something below need them (jobs/topology/table_traits.py)."""
        self.parts: dict[str, tuple[str, ...]] = {}
        """Names of the processors that a node of ours is made of in Kafka (jobs/topology/kafka_processors.py)."""
        self.copartitioned: list[frozenset[str]] = []
        """Sources that must have as many partitions as one another (jobs/topology/copartitioning.py)."""
        self._number = 0

    def next_name(self, prefix: str) -> str:
        name = f"{prefix}{self._number:010d}"
        self._number += 1
        return name

    def name(self, given: str | None, prefix: str, suffix: str = "") -> str:
        """``given`` and the suffix, or else the next name; a number is taken in both cases (NamedInternal)."""
        generated = self.next_name(prefix)
        return generated if given is None else given + suffix

    def add(self, node: Node) -> Node:
        """Raises TopologyError for a name, a source topic or an output that is taken already."""
        check_name(node.name)
        if node.name in self.nodes:
            raise TopologyError("topology", "names that differ", f"{node.name!r} twice", "rename one of them")
        for other in self.nodes.values():
            self._check_together(node, other)
        self.nodes[node.name] = node
        if node.is_table:
            self.tables.setdefault(node.name, TableTraits())
        self.check_stores()
        return node

    @staticmethod
    def _check_together(node: Node, other: Node) -> None:
        if isinstance(node, SourceNode) and isinstance(other, SourceNode) and node.topic == other.topic:
            raise TopologyError(
                f"topic {node.topic!r}", "one stream()", "two", "keep the first stream and use it in both places"
            )
        if isinstance(node, SinkNode) and isinstance(other, SinkNode) and node.topic == other.topic:
            raise TopologyError(f"output {node.topic!r}", "one to()", "two", "write to outputs of different names")

    def store_of(self, node: Node) -> str | None:
        """Name of the table that keeps the node's state, or None."""
        own: str | None = getattr(node, "store", None)
        traits = self.tables.get(node.name)
        return traits.store.name if own is None and traits is not None and traits.store is not None else own

    def check_stores(self) -> None:
        """Raises TopologyError when two operators share a store's name."""
        taken: dict[str, Node] = {}
        for node in self.nodes.values():
            store = self.store_of(node)
            if store is not None and taken.setdefault(store, node) is not node:
                raise TopologyError(f"store {store!r}", "one operator", "two", "give them different names")

    def children(self, name: str) -> list[Node]:
        """Nodes whose input is ``name``, in the order they were added; twice one that has it as two inputs."""
        return [node for node in self.nodes.values() for above in node.inputs if above == name]

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
        for number, node in enumerate(self.nodes.values()):
            if isinstance(node, GlobalTableNode):
                continue  # every task has all of it
            group_of[node.name] = number
            above = () if isinstance(node, SourceNode | RepartitionNode) else node.inputs
            for name in (*above, *getattr(node, "reads", ())):
                if name not in group_of:
                    continue
                joined, into = group_of[name], group_of[node.name]
                low, high = min(joined, into), max(joined, into)
                group_of |= {other: low for other, group in group_of.items() if group == high}
        groups: dict[int, list[Node]] = {}
        for name, group in group_of.items():
            groups.setdefault(group, []).append(self.nodes[name])
        return list(groups.values())
