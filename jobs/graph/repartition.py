"""Repartition tables, named as Kafka names them (KStreamImpl.createRepartitionedSource)."""

import re
from dataclasses import dataclass, replace
from typing import Any

from ...state.errors import TopologyError
from ..functions.parameters import PARTITIONER, form_of
from .graph import Graph, Node
from .nodes import PartitionedNode, Partitioner, RepartitionNode

_GENERATED = re.compile("KSTREAM.*-[0-9]{10}")


def repartitioned(
    graph: Graph,
    above: Node,
    base: str,
    *,
    partitions: int | None = None,
    is_replay_only: bool = False,
    shared: Node | None = None,
) -> Node:
    """The records of ``above``, through the repartition table ``<base>-repartition``.

    The three nodes are named after the table, unless its own name is generated; three numbers are taken in both cases.
    A table that ``above`` already goes through is not made again; ``shared``: one to use instead.
    ``is_replay_only``: Kafka Streams has none here, so that nothing may show that it is there; null keys go through it.
    """
    sink, null_filter, source = (graph.next_name(f"KSTREAM-{kind}-") for kind in ("SINK", "FILTER", "SOURCE"))
    topic = base if base.endswith("-repartition") else f"{base}-repartition"
    if _GENERATED.fullmatch(base) is None:
        sink, null_filter, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
    if shared is not None:
        return shared
    table_node = found_repartition(graph, above, topic)
    if table_node is not None:
        return table_node
    return add_repartition(
        graph,
        above,
        topic,
        sink=sink,
        null_filter=null_filter,
        source=source,
        partitions=partitions,
        keeps_null_keys=is_replay_only,
        is_replay_only=is_replay_only,
        has_own_offsets=is_replay_only and graph.semantics == "kip",
    )


def found_repartition(graph: Graph, above: Node, topic: str) -> Node | None:
    """The repartition table ``topic`` that ``above`` already goes through, or None."""
    children = graph.children(above.name)
    return next((child for child in children if isinstance(child, RepartitionNode) and child.topic == topic), None)


def add_repartition(
    graph: Graph, above: Node, topic: str, *, sink: str, source: str, null_filter: str = "", **settings: Any
) -> Node:
    """A new repartition table of the records of ``above``; ``sink``, ``source`` and ``null_filter`` (empty: there is
    none) name Kafka's nodes. ``settings``: the other fields of RepartitionNode.
    """
    names: dict[str, Any] = {"name": source, "sink_name": sink, "filter_name": null_filter}
    return graph.add(RepartitionNode(inputs=(above.name,), shape=above.shape, topic=topic, **names, **settings))


def check_partitions(place: str, partitioner: Any, partitions: Any) -> None:
    """Raises TopologyError for a partitioner of another form, and for fewer than one partition. None: there is none."""
    if partitions is not None and (type(partitions) is not int or partitions < 1):
        raise TopologyError(place, "1 partition or more", repr(partitions), "correct the number")
    if partitioner is not None:
        form_of(partitioner, place, PARTITIONER)


def partition_by(graph: Graph, table: Node, partitioner: Partitioner | None) -> Node:
    """``table``, a repartition table, whose records go where ``partitioner`` says; None: as they are."""
    if partitioner is None:
        return table
    # A value that is replaced keeps its place in the dict, and sub-topologies are numbered by the order of nodes.
    graph.nodes[table.name] = PartitionedNode(**vars(table), partitioner=partitioner)
    return graph.nodes[table.name]


@dataclass(frozen=True)
class OfKeyAlone:
    """A partitioner that is asked without the value, as those of a foreign-key join are (doJoinOnForeignKey)."""

    partitioner: Partitioner

    def __call__(self, topic: str, key: Any, value: Any, partitions: int) -> Any:
        return self.partitioner(topic, key, None, partitions)


def keep_null_keys(graph: Graph) -> None:
    """Repartition tables keep null keys where a left or outer join of a stream is somewhere below
    (InternalStreamsBuilder.rewriteRepartitionNodes).
    """
    relaxed: set[str] = set()
    # Nodes come after those above them, so all below a node has been looked at. A key that is there already may get
    # another value while the dict is iterated.
    for node in reversed(graph.nodes.values()):
        if node.wants_null_keys or node.name in relaxed:
            relaxed.update(node.inputs)
        if isinstance(node, RepartitionNode) and node.name in relaxed:
            graph.nodes[node.name] = replace(node, keeps_null_keys=True)
