"""Prints a topology as Kafka's TopologyDescription does."""

from jobs.topology.graph import Graph
from jobs.topology.nodes import AggregateNode, Node, RepartitionNode, SinkNode, SourceNode, SuppressNode


def describe(graph: Graph) -> str:
    lines = ["Topologies:"]
    for number, group in enumerate(graph.groups()):
        lines.append(f"   Sub-topology: {number}")
        for node in group:
            lines += _node(graph, node)
        for node in group:
            for child in graph.children(node.name):
                if isinstance(child, RepartitionNode):
                    lines += _repartition_out(child)
        lines.append("")
    return "\n".join(lines)


def _node(graph: Graph, node: Node) -> list[str]:
    after = ", ".join(_entry(child) for child in graph.children(node.name)) or "none"
    before = ", ".join(node.inputs) or "none"
    if isinstance(node, SourceNode | RepartitionNode):
        return [f"    Source: {node.name} (topics: [{node.topic}])", f"      --> {after}"]
    if isinstance(node, SinkNode):
        return [f"    Sink: {node.name} (topic: {node.topic})", f"      <-- {before}"]
    stores = f"[{node.store}]" if isinstance(node, AggregateNode | SuppressNode) else "[]"
    return [f"    Processor: {node.name} (stores: {stores})", f"      --> {after}", f"      <-- {before}"]


def _entry(child: Node) -> str:
    return child.filter_name if isinstance(child, RepartitionNode) else child.name


def _repartition_out(node: RepartitionNode) -> list[str]:
    """The null-key filter and the sink at the end of the sub-topology before."""
    return [
        f"    Processor: {node.filter_name} (stores: [])",
        f"      --> {node.sink_name}",
        f"      <-- {node.inputs[0]}",
        f"    Sink: {node.sink_name} (topic: {node.topic})",
        f"      <-- {node.filter_name}",
    ]
