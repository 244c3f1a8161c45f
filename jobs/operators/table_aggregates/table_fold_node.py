"""The node of a grouped table's aggregate by folds: how it is configured, and what it says of itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...functions.folds.aggregation import Aggregation
from ...graph.graph import Graph, Node
from ...graph.kafka_traits import KafkaTrait
from ...graph.store_rows import StoreRowSchema, aggregate_schema


@dataclass(frozen=True, eq=False, kw_only=True)
class TableFoldNode(Node):
    """KTableAggregate whose adder and subtractor are folds that values can be taken back from."""

    aggregation: Aggregation

    operator = ".table_fold:build"
    takes_back = True

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        yield from super().kafka_traits(graph)
        yield KafkaTrait.TABLE_AGGREGATE

    def store_settings(self, graph: Graph) -> Mapping[str, Any]:
        return {"folds": self.aggregation.folds}

    def store_rows(self, graph: Graph) -> StoreRowSchema:
        """Of a versioned store as of any table's; else the folds' durable form."""
        spec = graph.tables[self.name].store
        if spec is not None and spec.is_versioned:
            return super().store_rows(graph)
        saved = self.aggregation.start_taking().saved_type
        return StoreRowSchema(aggregate_schema(self.shape.key.arrow_type, saved, is_windowed=False))
