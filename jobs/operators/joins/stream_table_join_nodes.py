"""Nodes of joins of a stream with a table: how each is configured, what waits in it, and what it says of itself."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ....state.promises import JoinedAsOf, Promise
from ....state.tables.names import TableName
from ...functions.expressions import Call, Expression
from ...functions.value_joiners import Joiner
from ...graph.graph import Graph, Node
from ...graph.kafka_processors import KafkaNode, kafka_processor
from ...graph.kafka_traits import KafkaTrait
from ...graph.observations import Observation, Wait
from ...graph.reach import Reach
from ...graph.store_rows import BUFFER_KEY, StoreRowSchema, buffer_schema
from ...graph.wording import Wording
from ..base.promised_tables import joined_values, outputs_of, table_values_of, values_of
from ..base.waiting_records import records_waiting, say_waiting


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamTableJoinNode(Node):
    """``inputs``: the stream; ``reads``: the table. ``grace_ms`` None: no buffer (KIP-923). ``semantics``: "kafka", or
    "kip": a left join with a grace takes null keys (KIP-962).
    """

    reads: tuple[str, ...]
    kind: str
    joiner: Joiner
    store: str | None = None
    """Of the buffer, when there is a grace."""
    grace_ms: int | None = None
    semantics: str = "kafka"

    operator = ".stream_table_join:build"
    judged_by_values = True
    puts_for_table = True

    @property
    def wants_null_keys(self) -> bool:
        return self.kind != "inner"

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        buffer = () if self.store is None else (self.store,)
        shown = graph.nodes[self.reads[0]].stores_shown(graph)
        return [kafka_processor(self.name, self.inputs, (*buffer, *shown))]

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        if self.kind != "inner":
            yield KafkaTrait.JOIN_OF_NULL_KEYS
        if self.store is not None:
            yield from (KafkaTrait.JOIN_WITH_GRACE, KafkaTrait.TASK_STATE, KafkaTrait.PERSISTENT_STORE)

    def reach(self, graph: Graph) -> Reach:
        """What the table has stays without end; a grace holds records back besides."""
        return super().reach(graph) if self.grace_ms is None else Reach(self.grace_ms + 1, is_unbounded=True)

    def store_rows(self, graph: Graph) -> StoreRowSchema:
        return StoreRowSchema(buffer_schema(graph.parent(self).shape), BUFFER_KEY)

    def promises(self, graph: Graph) -> Iterable[Promise]:
        """Of a versioned table: a record is joined with the newest version not after its time."""
        yield from super().promises(graph)
        spec = graph.tables[self.reads[0]].store
        if spec is None or spec.history_retention_ms is None:
            return
        left, right = values_of(graph, self.inputs[0]), table_values_of(graph, self.reads[0])
        outputs = outputs_of(graph, self, unchanged=True)
        why_not = ""
        if self.grace_ms is not None:
            why_not = "records wait for a grace, and no table says when each was joined"
        elif left is None or right is None:
            why_not = "no table has the values that the join reads"
        elif not outputs:
            why_not = "no output has its rows as they are"
        joined = joined_values(graph.parent(self).shape, graph.nodes[self.reads[0]].shape.value, self.joiner)
        is_seen = self.grace_ms is None and graph.nodes[self.reads[0]].is_table_of_records
        table = self.reads[0] if is_seen else ""
        for output in outputs if not why_not else (TableName.state(spec.name),):
            yield JoinedAsOf(
                output, left, right, self.kind == "left", spec.history_retention_ms, joined, why_not, table
            )

    def waits_until(self, rows: pa.Table) -> pa.Array | None:
        return None if self.grace_ms is None else pc.add(rows["record_time_ms"], self.grace_ms)

    def waits(self, seen: Observation) -> list[Wait]:
        return [] if self.grace_ms is None else records_waiting(self, seen, self.grace_ms)

    def explain(self, seen: Observation, say: Wording) -> list[str]:
        if self.grace_ms is not None:
            return say_waiting(self, seen, say)
        said = []
        for table, rows in seen.looked.items():
            for row in seen.rows if not seen.refusals else ():
                values = [e["value"] for e in rows if e["key"] == row.key and _is_valid_at(e, row.record_time_ms)]
                what = f"has {values[0]!r}" if values else "has nothing"
                said.append(f"looks up {row.key!r}: {table} {what}")
        said += [f"forwards {say.row(row)}" for row in seen.forwarded]
        return said if seen.forwarded or seen.refusals else [*said, "no match: forwards nothing"]


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamGlobalTableJoinNode(Node):
    """``inputs``: the stream; ``reads``: the global table, looked up by ``selector`` of the record."""

    reads: tuple[str, ...]
    kind: str
    selector: Expression | Call
    joiner: Joiner

    operator = ".stream_table_join:build_global"

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        yield KafkaTrait.GLOBAL_JOIN
        if self.kind != "inner":
            yield from (KafkaTrait.GLOBAL_LEFT_JOIN, KafkaTrait.JOIN_OF_NULL_KEYS)

    @property
    def wants_null_keys(self) -> bool:
        return self.kind != "inner"


def _is_valid_at(entry: dict[str, Any], time_ms: int) -> bool:
    """Whether a table's row is its value as of a time; a plain table has the newest only."""
    if "valid_from_ms" not in entry:
        return True
    until = entry["valid_to_ms"]
    return entry["valid_from_ms"] <= time_ms and (until is None or time_ms < until) and entry["value"] is not None
