"""The node of a stream in order of time: how it is configured, what waits in it, and what it says of itself."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ..graph.graph import Graph, Node
from ..graph.observations import Observation, Wait
from ..graph.reach import Reach
from ..graph.store_rows import BUFFER_KEY, StoreRowSchema, buffer_schema
from ..graph.wording import Wording
from .base.waiting_records import records_waiting, say_waiting


@dataclass(frozen=True, eq=False, kw_only=True)
class ReorderNode(Node):
    """``reorder_within(grace)``: records wait until stream time has passed them by the grace, then continue by time."""

    store: str
    grace_ms: int

    operator = ".reorder:build"

    def reach(self, graph: Graph) -> Reach:
        return Reach(self.grace_ms + 1)

    def store_rows(self, graph: Graph) -> StoreRowSchema:
        return StoreRowSchema(buffer_schema(graph.parent(self).shape), BUFFER_KEY)

    def waits_until(self, rows: pa.Table) -> pa.Array | None:
        return pc.add(rows["record_time_ms"], self.grace_ms)

    def waits(self, seen: Observation) -> list[Wait]:
        return records_waiting(self, seen, self.grace_ms)

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        return say_waiting(self, seen, say)
