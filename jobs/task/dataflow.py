"""How the nodes of one sub-topology hang together in a running task: who hands records to whom, and in which order.

Owns nothing that runs. Rule: an edge leads from a node to a child (in the order in which Kafka added them) or to a
reader that looks into its table. Where two edges of a node merge again below it, the node is *marked*: it writes its
output row and the edge into the path of the rows that it forwards. From these jobs/operators/base/forward_order.py
restores Kafka's order. It is worked out once a topology (``dataflows``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...state.records.batches import Batch
from ...state.records.keys import Keys
from ..graph.graph import Graph, Node
from ..graph.nodes import RepartitionNode, SinkNode
from ..operators.base.operator import TableView
from ..operators.tables.table_views import build_view
from ..topology.topology import SubTopology, Topology

EXCHANGE = "(exchange)"
"""Where all repartition tables of a sub-topology are merged: the row that is sent first is taken first."""
NAMED_TOPICS = "(named topics)"
"""Where records of several sinks merge that may name one topic."""


# Outputs and edges are numbered from 0 on, and the end of a path counts as -1 (forward_order).
_FIRST = -2
"""End of the path of a node's input, as a view sees it: it sorts before all that the node makes of the input."""


@dataclass(frozen=True)
class Edge:
    """From ``parent`` to ``child``, whose input number ``slot`` it is."""

    parent: str
    child: str
    slot: int


Wants = Mapping[str, Sequence[Iterable[tuple[str, str]]]]
"""``TableView.wants`` of the views of every node that looks into tables."""


@dataclass(frozen=True)
class StageInput:
    """What a later part of a sub-topology receives from ``node``. It is records for its children there, from ``child``
    up to the next one that is elsewhere, or what views see of it (``when``: TableView.PUT, INPUT or AFTER).
    """

    node: str
    when: str = ""
    child: str = ""

    @property
    def name(self) -> str:
        return f"{self.node}.{self.when}" if self.when else f"{self.node}.to.{self.child}"


class Dataflow:
    """``exports``: what later parts of the same sub-topology are handed (see ``imports``)."""

    def __init__(
        self, graph: Graph, sub_topology: SubTopology, wants: Wants, exports: tuple[StageInput, ...] = ()
    ) -> None:
        self.graph, self.sub_topology = graph, sub_topology
        here = {node.name for node in sub_topology.nodes}
        self.children: dict[str, list[Edge]] = {}
        self.readers: dict[str, set[str]] = {}
        self.edges_down: dict[str, list[Edge]] = {}
        """All edges down from a node, those to a later part of the sub-topology included."""
        for node in graph.nodes.values():
            for slot, above in enumerate(() if node.takes_letters else node.inputs):
                edge = Edge(above, node.name, slot)
                self.edges_down.setdefault(above, []).append(edge)
                # An edge to a repartition table belongs to the sub-topology that writes the table, an edge to any other
                # node to that node's sub-topology.
                if above in here if isinstance(node, RepartitionNode) else node.name in here:
                    self.children.setdefault(above, []).append(edge)
        looks: set[tuple[str, str]] = set()
        for reader in here & set(wants):
            looked_at = {look for wanted in wants[reader] for look in wanted}
            looks |= looked_at
            for look in looked_at:
                self.readers.setdefault(self._looked_at(*look), set()).add(reader)
        globals_ = [table.name for table in sub_topology.globals]
        elsewhere = [name for name in graph.nodes if name not in here and name not in globals_]
        handed = {
            StageInput(name, child=edges[0].child): edges for name in elsewhere for edges in self._side_by_side(name)
        }
        self.imports = (
            *handed,
            *(StageInput(name, when) for name in elsewhere for other, when in sorted(looks) if other == name),
        )
        """What earlier parts of the same sub-topology hand on to this one."""
        self._led = {imported.name: edges for imported, edges in handed.items()}
        self._origins = {edge: name for name, edges in self._led.items() for edge in edges}
        self.exports = exports
        self.written = {node.topic: node.is_replay_only for node in sub_topology.repartitions}
        self.written |= {export.name: True for export in exports}
        """What goes to other tasks, by name: whether it is inlined there (jobs/tape/causal_order.py)."""
        for export in exports:
            # This export is made when the node has run. By then ChunkRun._inputs has let the batch above it go, unless
            # that has a reader.
            if export.when == TableView.INPUT:
                self.readers.setdefault(self._looked_at(export.node, export.when), set()).add(EXCHANGE)
        naming = [node.name for node in sub_topology.nodes if isinstance(node, SinkNode) and node.has_topics]
        self.naming_sinks = naming if len(naming) > 1 else []
        """Sinks whose records may name one topic."""
        below = self._reached()
        self.marked = {name for name in graph.nodes if self._merges_again(name, below)}

    def _side_by_side(self, name: str) -> list[list[Edge]]:
        """Edges from ``name`` into this sub-topology; between two lists a child elsewhere has its turn."""
        lists: list[list[Edge]] = []
        here, before = self.children.get(name, ()), None
        for edge in self.edges_down.get(name, ()):
            if edge in here:
                if before not in here:
                    lists.append([])
                lists[-1].append(edge)
            before = edge
        return lists

    def edges_from(self, source: str) -> list[Edge]:
        """Edges that a node's records, or those of an import, go down here."""
        return self._led[source] if source in self._led else self.children.get(source, [])

    def node_of(self, source: str) -> str:
        """Node whose records a source of this sub-topology has: those of an import are another node's."""
        return self._led[source][0].parent if source in self._led else source

    def origin(self, edge: Edge) -> str:
        """Node or import whose records ``edge`` leads down."""
        return self._origins.get(edge, edge.parent)

    def _looked_at(self, name: str, when: str) -> str:
        """The node whose forwarded records a view then sees."""
        return self.graph.nodes[name].inputs[0] if when == TableView.INPUT else name

    def _reached(self) -> dict[str, set[str]]:
        """Nodes below each node, itself included."""
        below: dict[str, set[str]] = {}
        # A child was added after its parents, so its set is complete here. A reader may be older than the table that it
        # looks into; it then counts for itself alone.
        for name in reversed(self.graph.nodes):
            reached = {name}
            # What is sent to repartition topics merges again in the order in which it was sent, so all of them count as
            # one node.
            if isinstance(self.graph.nodes[name], RepartitionNode) and name not in self._heads():
                reached.add(EXCHANGE)
            if name in self.naming_sinks:
                reached.add(NAMED_TOPICS)
            for below_it in self._next(name):
                reached |= below.get(below_it, {below_it})
            below[name] = reached
        return below

    def _heads(self) -> set[str]:
        """Repartition tables that begin this sub-topology."""
        return {node.name for node in self.sub_topology.sources}

    def _next(self, name: str) -> list[str]:
        sent = [EXCHANGE for export in self.exports if export.node == name]
        return [*(edge.child for edge in self.children.get(name, ())), *sorted(self.readers.get(name, ())), *sent]

    def _merges_again(self, name: str, below: dict[str, set[str]]) -> bool:
        # Two children (or readers) from which one node can be reached: rows of this node come there on two paths.
        seen: set[str] = set()
        for child in self._next(name):
            reached = below.get(child, {child})
            if seen & reached:
                return True
            seen |= reached
        return False

    def only_reader(self, name: str) -> Node | None:
        """The node that alone sees what ``name`` forwards, by looking into its table; None when there are others."""
        (reader, *more) = self.readers.get(name) or (EXCHANGE,)
        is_sent = name in self.edges_down or any(export.node == name for export in self.exports)
        return None if is_sent or more else self.graph.nodes.get(reader)

    def below(self, batch: Batch, edge: Edge) -> Batch:
        """What ``edge`` leads down of the batch that its parent forwards."""
        if edge.parent not in self.marked:
            return batch
        return self._at(batch, edge.parent, 1 + self.edges_down[edge.parent].index(edge))

    def entering(self, batch: Batch, edge: Edge) -> Batch:
        """What a view sees of the input of the child of ``edge``: before all that the child makes of it."""
        batch = self.below(batch, edge)
        return replace(batch, path=(*batch.path, np.full(len(batch), _FIRST, np.int64)))

    def seen(self, batch: Batch, name: str, when: str) -> Batch:
        """What a view sees of the batch that ``name`` forwards: before all children have it, or after."""
        if name not in self.marked:
            return batch
        return self._at(batch, name, 0 if when == TableView.PUT else len(self.edges_down.get(name, ())) + 1)

    def exported(self, batch: Batch, export: StageInput) -> Batch:
        """What a later part is handed of the batch that the node forwards: when the child there would have it."""
        return self.below(batch, next(edge for edge in self.edges_down[export.node] if edge.child == export.child))

    def put(self, batch: Batch, name: str) -> Batch:
        """What a view sees of puts that are not forwarded: each before all that its record makes the node forward."""
        if name not in self.marked:
            return batch
        return replace(batch, path=(*batch.path, np.full(len(batch), -1, np.int64)))

    def _at(self, batch: Batch, name: str, branch: int) -> Batch:
        edges_down = len(self.edges_down.get(name, ())) + 2
        # One number for output and edge: row * (edges + 2) + edge. Kafka runs an output through all edges before the
        # next output, so the row counts more. Edge 0 is what views see before all children, 1 and up are the children
        # in Kafka's order, and edges + 1 is what views see after them.
        rows = np.arange(len(batch), dtype=np.int64) * edges_down + branch
        return replace(batch, path=(*batch.path, rows))

    def needs_old(self, name: str, *, counts_bytes: bool) -> bool:
        """Whether somebody below reads the value that a change of ``name`` replaced. ``counts_bytes``: every buffer
        counts its bytes.
        """
        traits = self.graph.tables.get(name)
        if traits is None:
            return False
        return any(
            self._needs_old(node, counts_bytes=counts_bytes) if node.holds_back else traits.sends_old
            for node in self._nodes_below(name)
        )

    def _needs_old(self, node: Node, *, counts_bytes: bool) -> bool:
        """Of a node in which changes wait: a look into its table shows what they replaced."""
        if node.wants_old(counts_bytes=counts_bytes) or self.readers.get(node.name):
            return True
        return self.needs_old(node.name, counts_bytes=counts_bytes)

    def _nodes_below(self, name: str) -> Iterable[Node]:
        return (node for node in self.graph.nodes.values() if name in node.inputs)


def build_dataflows(topology: Topology, wants: Wants) -> dict[int, Dataflow]:
    """Dataflow of every sub-topology, by id."""
    wired: dict[int, Dataflow] = {}
    # A part exports what later parts import, so the last one comes first.
    for sub in reversed(topology.sub_topologies):
        later = [
            wired[other.id] for other in topology.sub_topologies if other.kafka_id == sub.kafka_id and other.id in wired
        ]
        here = {node.name for node in sub.nodes}
        imported = (edge for dataflow in later for edge in dataflow.imports)
        exports = dict.fromkeys(edge for edge in imported if edge.node in here)
        wired[sub.id] = Dataflow(topology.graph, sub, wants, tuple(exports))
    return wired


def dataflows(topology: Topology) -> dict[int, Dataflow]:
    """Dataflow of every sub-topology, worked out once."""
    if topology.dataflows is None:
        wants = {
            node.name: [build_view(topology.graph, name, Keys(node.shape.key)).wants for name in node.reads]
            for node in topology.graph.nodes.values()
            if node.reads
        }
        topology.dataflows = build_dataflows(topology, wants)
    return topology.dataflows
