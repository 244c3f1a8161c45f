"""Prints a topology as Kafka's TopologyDescription does, to the letter.

Rule: the nodes of a sub-topology come by falling size of what hangs below them, equal ones by name. Neighbours of a
node are kept in the same order, but by the sizes known when they were connected, and Kafka connects them in the order
of a Java HashMap: both are reproduced (InternalTopologyBuilder.describeSubtopology).
"""

from dataclasses import dataclass, field, replace

from ..graph.graph import Graph, Node
from ..graph.kafka_processors import PROCESSOR, SINK, SOURCE, KafkaNode
from .java_collections import TreeSet, in_hash_order

_FINGERPRINTED = {"is_replay_only": "is_ours"}
"""Fields that had another name when fingerprints were recorded: by today's name, the one in a fingerprint."""


def _rank(node: "_Described") -> tuple[int, str]:
    return -node.size, node.kafka.name


@dataclass(eq=False)
class _Described:
    """``size``: nodes from here downwards, as far as they are connected, one that is reached twice counted twice."""

    kafka: KafkaNode
    size: int = 1
    above: "TreeSet[_Described]" = field(default_factory=lambda: TreeSet(_rank))
    below: "TreeSet[_Described]" = field(default_factory=lambda: TreeSet(_rank))

    def grow(self, size: int) -> None:
        self.size += size
        for node in self.above:
            node.grow(size)

    def lines(self) -> list[str]:
        kafka = self.kafka
        shown = {
            SOURCE: f"(topics: {kafka.pattern or _listed(kafka.topics or (kafka.topic,))})",
            PROCESSOR: f"(stores: {_listed(kafka.stores)})",
            SINK: f"(extractor class: {kafka.extractor})" if kafka.extractor else f"(topic: {kafka.topic})",
        }
        lines = [f"    {kafka.kind}: {kafka.name} {shown[kafka.kind]}"]
        if kafka.kind != SINK:
            lines.append(f"      --> {_names(self.below)}")
        if kafka.kind != SOURCE:
            lines.append(f"      <-- {_names(self.above)}")
        return lines


def _listed(names: tuple[str, ...]) -> str:
    return f"[{', '.join(in_hash_order(list(names)))}]"


def _names(nodes: TreeSet[_Described]) -> str:
    return ", ".join(node.kafka.name for node in nodes) or "none"


def describe(graph: Graph) -> str:
    """What Kafka prints for the same topology."""
    parts = []
    for number, group in enumerate(described_groups(graph)):
        nodes = _connected(group)
        if not group[0].is_global:
            nodes.sort(key=_rank)
        title = " for global store (will not generate tasks)" if group[0].is_global else ""
        lines = [f"  Sub-topology: {number}{title}", *(line for node in nodes for line in node.lines()), ""]
        parts.append("\n".join(lines if group[0].is_global else [*lines, ""]))
    return "Topologies:\n " + "".join(parts)


def described_groups(graph: Graph) -> list[list[KafkaNode]]:
    """What Kafka makes of the nodes, sub-topology by sub-topology."""
    made = [one for node in graph.nodes.values() for one in node.kafka_processors(graph)]
    return _groups(_with_kafkas_parents(graph, made))


def settings(graph: Graph, node: Node) -> str:
    """What describe does not say of a node but its results depend on: numbers and names, not functions."""
    plain = {
        _FINGERPRINTED.get(name, name): value
        for name, value in vars(node).items()
        if isinstance(value, int | str | bool | tuple | None) or name == "windows"
        if not (isinstance(value, tuple) and any(map(callable, value)))  # whose text would be their addresses
    }
    table = graph.tables.get(node.name)
    times = "" if node.time_step is None else f" {node.time_step.words}"
    return f"{plain} {node.shape.key} {node.shape.value} {node.shape.window} {table}{times}"


def _with_kafkas_parents(graph: Graph, made: list[KafkaNode]) -> list[KafkaNode]:
    """Below a node of ours that Kafka has none for, they are below those above it."""
    names = {kafka.name for kafka in made}

    def kafka_names(name: str) -> tuple[str, ...]:
        return (name,) if name in names else graph.nodes[name].forwarding_processors(graph)

    return [replace(kafka, above=tuple(name for above in kafka.above for name in kafka_names(above))) for kafka in made]


def _groups(nodes: list[KafkaNode]) -> list[list[KafkaNode]]:
    """Sub-topologies: nodes that are connected, or share a store; in order of their first node."""
    group_of: dict[str, int] = {}
    for number, node in enumerate(nodes):
        group_of[node.name] = number
        for other in (*node.above, *(f"store {store}" for store in node.stores)):
            low, high = sorted((group_of.setdefault(other, number), group_of[node.name]))
            group_of |= {name: low for name, group in group_of.items() if group == high}
    groups: dict[int, list[KafkaNode]] = {}
    for node in nodes:
        groups.setdefault(group_of[node.name], []).append(node)
    return list(groups.values())


def _connected(group: list[KafkaNode]) -> list[_Described]:
    nodes = {node.name: _Described(node) for node in group}
    for name in in_hash_order(list(nodes)):
        node = nodes[name]
        for above in node.kafka.above:
            node.above.add(nodes[above])
            nodes[above].below.add(node)
            nodes[above].grow(node.size)
    return list(nodes.values())
