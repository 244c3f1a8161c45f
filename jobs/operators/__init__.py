"""Operators, and which node each one runs."""

from collections.abc import Callable
from typing import Any

from jobs.operators.aggregate import Aggregate, RecordAggregate
from jobs.operators.operator import Clocks, Operator, Place, StatefulOperator
from jobs.operators.session_windows import SessionAggregate
from jobs.operators.stateless import Filter, MapValues, SelectKey
from jobs.operators.suppress import UNBOUNDED, SuppressUntilWindowCloses
from jobs.operators.time_windows import TimeWindowAggregate
from jobs.topology.nodes import AggregateNode, FilterNode, MapValuesNode, Node, SelectKeyNode, SuppressNode
from jobs.topology.windows import TimeWindows
from state.keys import Keys


def _aggregate(node: AggregateNode, place: Place) -> Aggregate:
    if node.windows is None:
        return RecordAggregate(place, node.aggregation)
    if isinstance(node.windows, TimeWindows):
        return TimeWindowAggregate(
            place,
            node.aggregation,
            size_ms=node.windows.size_ms,
            advance_ms=node.windows.advance_ms,
            grace_ms=node.windows.grace_ms,
            retention_ms=node.retention_ms,
        )
    return SessionAggregate(
        place,
        node.aggregation,
        gap_ms=node.windows.gap_ms,
        grace_ms=node.windows.grace_ms,
        retention_ms=node.retention_ms,
        is_persistent=node.is_persistent,
    )


def _suppress(node: SuppressNode, place: Place) -> SuppressUntilWindowCloses:
    return SuppressUntilWindowCloses(
        place,
        node.shape.value,
        wait_ms=node.windows.wait_ms,
        max_records=UNBOUNDED if node.max_records is None else node.max_records,
        max_bytes=UNBOUNDED if node.max_bytes is None else node.max_bytes,
    )


def _select_key(node: SelectKeyNode, place: Place) -> SelectKey:
    return SelectKey(place, node.selector, Keys(node.shape.key))


OPERATORS: dict[type[Node], Callable[[Any, Place], Operator]] = {
    AggregateNode: _aggregate,
    FilterNode: lambda node, place: Filter(place, node.predicate, keeps=node.keeps),
    MapValuesNode: lambda node, place: MapValues(place, node.mapper),
    SelectKeyNode: _select_key,
    SuppressNode: _suppress,
}
"""Nodes that are not here (source, repartition, to_stream, sink) are the task's own."""

__all__ = ["OPERATORS", "Clocks", "Operator", "Place", "StatefulOperator"]
