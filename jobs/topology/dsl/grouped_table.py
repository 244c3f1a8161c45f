"""A table grouped anew (KGroupedTable): every change takes the old value out of its group and adds the new one."""

from collections.abc import Callable
from typing import Any

from ....state.errors import TopologyError
from ....state.serdes import Serde
from ...functions.call_arguments import checked_class
from ...functions.call_names import Hinting
from ...functions.expressions import Shape
from ...functions.folds.python import Aggregator
from ...functions.parameters import AGGREGATOR, REDUCER, form_of
from ...graph.graph import Graph, Node
from ...graph.repartition import add_repartition, found_repartition
from ...graph.table_traits import add_table
from ...operators.table_aggregates.table_aggregate_node import TableAggregateNode
from . import ktable
from .materialized import Materialized, given_materialized
from .step_arguments import check_initializer

Reducer = Callable[[Any, Any], Any]
"""(aggregate, value) -> aggregate."""


@checked_class
class KGroupedTable(Hinting):
    """What ``KTable.group_by`` gives. ``topic``: what the repartition table is named after, if it has a name of its
    own.
    """

    def __init__(self, graph: Graph, node: Node, *, topic: str | None) -> None:
        self.graph, self.node, self.topic = graph, node, topic

    @property
    def shape(self) -> Shape:
        return self.node.shape

    def count(self, materialized: Materialized | None = None, *, name: str | None = None) -> "ktable.KTable":
        """Number of keys in every group, as a long; a group that is empty again stays, with 0."""
        return self._aggregate("AGGREGATE", Serde.long(), materialized, name, function="count")

    def sum(self, *, materialized: Materialized | None = None, name: str | None = None) -> "ktable.KTable":
        """Sum of the values, which must be longs, else TopologyError."""
        if self.shape.value != Serde.long():
            next_step = "give group_by() a mapper to a long"
            raise TopologyError(name or self.node.name, "longs to sum", f"{self.shape.value}", next_step)
        return self._aggregate("AGGREGATE", Serde.long(), materialized, name, function="sum")

    def reduce(
        self,
        adder: Reducer,
        subtractor: Reducer,
        *,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> "ktable.KTable":
        """``adder(aggregate, value)``, ``subtractor(aggregate, value)``; the first value is the aggregate as it is.

        The subtractor may meet a value that was never added (see ``aggregate``).
        """
        for function in (adder, subtractor):
            form_of(function, name or "reduce", REDUCER)
        return self._aggregate(
            "REDUCE",
            self.shape.value,
            materialized,
            name,
            adder=WithoutKey(adder),
            subtractor=WithoutKey(subtractor),
        )

    def aggregate(
        self,
        *,
        initializer: Callable[[], Any],
        adder: Aggregator,
        subtractor: Aggregator,
        returns: Serde,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> "ktable.KTable":
        """``adder(key, value, aggregate)``, ``subtractor(key, value, aggregate)``; ``returns``: the aggregate's serde.

        The subtractor runs first. A result of None deletes the group. It may meet a value that was never added, as
        Kafka's does: what a change replaced is what the table above had before, which below
        ``suppress(until_time_limit)`` may have been held back, and of a window's first record is the initial value.
        """
        for function in (adder, subtractor):
            form_of(function, name or "aggregate", AGGREGATOR)
        check_initializer(initializer, returns, name or "aggregate")
        return self._aggregate(
            "AGGREGATE",
            returns,
            materialized,
            name,
            initializer=initializer,
            adder=adder,
            subtractor=subtractor,
        )

    def _aggregate(
        self, prefix: str, returns: Serde, materialized: Materialized | None, name: str | None, **functions: Any
    ) -> "ktable.KTable":
        graph, materialized = self.graph, given_materialized(materialized, name or prefix.lower())
        store = materialized.name or graph.next_name("KTABLE-AGGREGATE-STATE-STORE-")
        sink = graph.name(name, "KSTREAM-SINK-", "-sink")
        source = graph.name(name, "KSTREAM-SOURCE-", "-source")
        node_name = graph.name(name, f"KTABLE-{prefix}-")
        above = self._repartitioned(f"{self.topic or store}-repartition", sink, source)
        node = TableAggregateNode(
            name=node_name,
            inputs=(above.name,),
            shape=Shape(self.shape.key, returns),
            is_table=True,
            **functions,
        )
        add_table(graph, node, store=materialized.spec(store), is_versioned=materialized.is_versioned)
        return ktable.KTable(graph, node)

    def _repartitioned(self, topic: str, sink: str, source: str) -> Node:
        found = found_repartition(self.graph, self.node, topic)
        if found is not None:
            return found
        return add_repartition(self.graph, self.node, topic, sink=sink, source=source, carries_change=True)


class WithoutKey:
    """A reducer called as an aggregator is."""

    def __init__(self, reducer: Reducer) -> None:
        self.reducer = reducer

    def __call__(self, key: Any, value: Any, aggregate: Any) -> Any:
        return self.reducer(aggregate, value)
