"""The node of an aggregate of a grouped table: how it is configured, and what it says of itself."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ...graph.graph import Graph, Node
from ...graph.kafka_traits import KafkaTrait


@dataclass(frozen=True, eq=False, kw_only=True)
class TableAggregateNode(Node):
    """KTableAggregate and KTableReduce over a grouped table: takes the old value away, then adds the new one.

    ``adder``/``subtractor`` (key, value, aggregate) are Python callables, or ``function`` is "count" or "sum" (of a
    long value, null 0), which compiled code does. ``initializer`` None: a reducer, whose first value is the aggregate.
    """

    function: str | None = None
    initializer: Callable[[], Any] | None = None
    adder: Callable[[Any, Any, Any], Any] | None = None
    subtractor: Callable[[Any, Any, Any], Any] | None = None

    operator = ".table_aggregate:build"
    takes_back = True

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        yield from super().kafka_traits(graph)
        yield KafkaTrait.TABLE_AGGREGATE
