"""Which topics must have as many partitions as one another (AbstractStream.ensureCopartitionWith).

Rule: records of equal keys reach one task only if their topics have equally many partitions. How many a topic has is
known when it is landed, so ``partitions_of`` is asked then.
"""

from collections.abc import Mapping

from ...state.errors import TopologyError
from .graph import Graph, Node
from .nodes import RepartitionNode


def copartition(graph: Graph, *names: str) -> None:
    """The sources above the nodes ``names`` belong together."""
    graph.copartitioned.append(frozenset().union(*(sources_of(graph, name) for name in names)))


def sources_of(graph: Graph, name: str) -> frozenset[str]:
    """Sources and repartition tables nearest above a node, itself if it is one."""
    node = graph.nodes[name]
    if node.is_source:
        return frozenset([name])
    return frozenset().union(*(sources_of(graph, above) for above in (*node.inputs, *node.reads)))


def partitions_of(graph: Graph, counts: Mapping[str, int]) -> dict[str, int]:
    """Partitions of every topic, repartition tables included, by the ``counts`` of the landed topics.

    A repartition table without a number of its own has as many as the topics it is joined with, else as the largest
    topic above it. Raises TopologyError when topics that belong together differ.
    """
    partitions: dict[str, int] = {}
    for _ in range(len(graph.loops) + 1):  # what goes round a loop may come from every topic of it
        for node in graph.nodes.values():
            if node.is_source and node.topic_of_records in counts:  # a repartition table, too, if others write it
                partitions[node.name] = counts[node.topic_of_records]
            elif isinstance(node, RepartitionNode):
                above = (partitions.get(source, 1) for name in node.inputs for source in sources_of(graph, name))
                partitions[node.name] = node.partitions or max([partitions.get(node.name, 1), *above])
        for loop in graph.loops.values():
            same = [name for name in partitions if graph.nodes[name].topic_of_records == loop.topic]
            partitions |= dict.fromkeys(same, max(partitions[name] for name in same))
    groups = [frozenset().union(*(sources_of(graph, name) for name in group)) for group in graph.copartitioned]
    for group in _joined(groups):
        _settle(graph, group, partitions, counts)
    # of a loop's topic the node that reads it counts
    return {
        graph.nodes[name].topic_of_records: number for name, number in partitions.items() if name not in graph.loops
    }


def _settle(graph: Graph, group: frozenset[str], partitions: dict[str, int], counts: Mapping[str, int]) -> None:
    """Give the free repartition tables of a group the number of the others."""
    nodes = [node for name, node in graph.nodes.items() if name in group and name in partitions]
    fixed = {node.name: partitions[node.name] for node in nodes if not _is_free(node, counts)}
    if len(set(fixed.values())) > 1:
        said = [f"{graph.nodes[name].topic_of_records} has {number}" for name, number in sorted(fixed.items())]
        got = ", ".join(dict.fromkeys(said))
        next_step = "put repartition() before the join, or land topics of as many partitions"
        raise TopologyError("joined topics", "as many partitions on both sides", got, next_step)
    # Without a number that is fixed the largest is right for all (CopartitionedTopicsEnforcer).
    number = next(iter(fixed.values()), max((partitions[node.name] for node in nodes), default=1))
    partitions.update({node.name: number for node in nodes if _is_free(node, counts)})


def _is_free(node: Node, counts: Mapping[str, int]) -> bool:
    return isinstance(node, RepartitionNode) and node.partitions is None and node.topic not in counts


def _joined(groups: list[frozenset[str]]) -> list[frozenset[str]]:
    """Groups that share a member are one."""
    joined: list[frozenset[str]] = []
    for group in groups:
        apart = [other for other in joined if not other & group]
        joined = [*apart, group.union(*(other for other in joined if other & group))]
    return joined
