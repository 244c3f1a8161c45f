"""The node of a join of two tables by key: how it is configured, and what it says of itself."""

from collections.abc import Iterable
from dataclasses import dataclass

from ...functions.value_joiners import Joiner
from ...graph.graph import Graph, Node
from ...graph.kafka_processors import KafkaNode, kafka_processor
from ...graph.table_traits import send_old


@dataclass(frozen=True, eq=False, kw_only=True)
class TableJoinNode(Node):
    """``inputs`` and ``reads``: the left and the right table.

    ``history``: "kafka", or "complete" (KIP-914 attempt 2).
    """

    reads: tuple[str, ...]
    kind: str
    joiner: Joiner
    history: str = "kafka"

    operator = ".complete_history_join:build"
    view = "..tables.table_views:join_view"
    shows_inputs = True
    takes_back = True

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        (this, other), (left, right) = graph.parts[self.name], self.inputs
        store = graph.store_of(self)
        return [
            kafka_processor(this, (left,), graph.nodes[right].stores_shown(graph)),
            kafka_processor(other, (right,), graph.nodes[left].stores_shown(graph)),
            kafka_processor(self.name, (this, other), () if store is None else (store,)),
        ]

    def can_send_old(self, graph: Graph, *, force: bool) -> bool:
        for above in self.inputs:
            send_old(graph, above, force=True)
        return True
