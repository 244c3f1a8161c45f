"""Prints a topology as Kafka's TopologyDescription does, to the letter.

Rule: the nodes of a sub-topology come by falling size of what hangs below them, equal ones by name. The successors of a
node are kept in the same order, but by the sizes known when they were connected, and Kafka connects them in the order
of a Java HashMap: that order is reproduced here (InternalTopologyBuilder.describeSubtopology).
"""

from dataclasses import dataclass, field

from jobs.topology.graph import Graph
from jobs.topology.nodes import AggregateNode, Node, RepartitionNode, SinkNode, SourceNode, SuppressNode


@dataclass(eq=False)
class _Described:
    """``size``: nodes from here downwards, as far as they are connected; ``parent``: likewise."""

    name: str
    kind: str
    before: str | None
    size: int = 1
    parent: "_Described | None" = None
    successors: list["_Described"] = field(default_factory=list)

    def rank(self) -> tuple[int, str]:
        return -self.size, self.name

    def lines(self) -> list[str]:
        lines = [f"    {self.kind}"]
        if not self.kind.startswith("Sink"):
            lines.append(f"      --> {', '.join(child.name for child in self.successors) or 'none'}")
        if self.before is not None:
            lines.append(f"      <-- {self.before}")
        return lines


def describe(graph: Graph) -> str:
    """What Kafka prints for the same topology."""
    parts = []
    for number, group in enumerate(graph.groups()):
        nodes = [described for node in group for described in _described(graph, node)]
        _connect({node.name: node for node in nodes})
        lines = [line for node in sorted(nodes, key=_Described.rank) for line in node.lines()]
        parts.append("\n".join([f"  Sub-topology: {number}", *lines, "\n"]))
    return "Topologies:\n " + "".join(parts)


def _described(graph: Graph, node: Node) -> list[_Described]:
    """The node, and the null-key filter and the sink of repartitions that begin at it."""
    described = [_Described(node.name, _kind(node), None if _is_source(node) else node.inputs[0])]
    for child in graph.children(node.name):
        if isinstance(child, RepartitionNode):
            described.append(_Described(child.filter_name, f"Processor: {child.filter_name} (stores: [])", node.name))
            sink = f"Sink: {child.sink_name} (topic: {child.topic})"
            described.append(_Described(child.sink_name, sink, child.filter_name))
    return described


def _is_source(node: Node) -> bool:
    return isinstance(node, SourceNode | RepartitionNode)


def _kind(node: Node) -> str:
    if isinstance(node, SourceNode | RepartitionNode):
        return f"Source: {node.name} (topics: [{node.topic}])"
    if isinstance(node, SinkNode):
        return f"Sink: {node.name} (topic: {node.topic})"
    stores = f"[{node.store}]" if isinstance(node, AggregateNode | SuppressNode) else "[]"
    return f"Processor: {node.name} (stores: {stores})"


def _connect(nodes: dict[str, _Described]) -> None:
    for name in _in_hash_order(list(nodes)):
        node = nodes[name]
        if node.before is None:
            continue
        siblings = nodes[node.before].successors
        place = next((i for i, other in enumerate(siblings) if node.rank() < other.rank()), len(siblings))
        siblings.insert(place, node)
        above: _Described | None = nodes[node.before]
        node.parent = above
        while above is not None:
            above.size += node.size
            above = above.parent


def _in_hash_order(names: list[str]) -> list[str]:
    """Order in which a java.util.HashMap with these keys iterates: by bucket, in a bucket by insertion."""
    buckets = 16
    while len(names) > buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: _spread(name) & (buckets - 1))


def _spread(name: str) -> int:
    """Java's String.hashCode, mixed as HashMap does."""
    hashed = 0
    units = name.encode("utf-16-be")
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return hashed ^ (hashed >> 16)
