"""Which table comes from which: the topology's graph, seen through its tables.

Owns the tables of a sub-topology and the edges between them. Rule: an edge says that records of the one reach the other
with no table between; a step that keeps nothing (a filter, a map) is no node of it. A repartition table belongs to the
sub-topology whose records it holds, as Kafka's description puts its sink there.
"""

from dataclasses import dataclass

from ..jobs.graph.graph import Node
from ..jobs.topology import SubTopology, Topology
from ..state.tables.names import TableName


@dataclass(frozen=True)
class Table:
    """A table that an increment writes.

    ``name`` as in the ledger's versions ("state/x", "outputs/y", "repartition/z"); ``upstream``: names of the tables it
    is made from, "landed/<topic>" among them, in order of the graph.
    """

    name: str
    node: Node
    upstream: tuple[str, ...]

    @property
    def kind(self) -> str:
        """``state``, ``outputs`` or ``repartition``."""
        return TableName(self.name).kind


def tables_of(topology: Topology, sub: SubTopology) -> list[Table]:
    """Tables of a sub-topology, each after those it is made from."""
    written = {node.name for node in sub.nodes if not node.is_source}
    own = written | {  # its sources are written by others; what several write belongs to the last of them
        node.name for node in sub.repartitions if topology.is_last_writer(node.topic, sub)
    }
    return [
        Table(table, node, _upstream(topology, node))
        for node in topology.graph.nodes.values()
        if node.name in own and (table := node.table(topology.graph)) is not None
    ]


def _upstream(topology: Topology, node: Node) -> tuple[str, ...]:
    found: list[str] = []
    for name in (*node.inputs, *node.reads):
        above = topology.graph.nodes[name]
        table = above.table(topology.graph)
        found += _upstream(topology, above) if table is None else [table]
    return tuple(dict.fromkeys(found))
