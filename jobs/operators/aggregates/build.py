"""Which aggregate of streams a node runs."""

from ...folds.aggregation import Aggregation
from ...graph.windows import LAST_MS, SessionWindows, SlidingWindows, TimeWindows
from ..aggregate_parts.aggregate import Aggregate
from ..operator import OperatorContext
from .aggregate_nodes import AggregateNode, CogroupNode
from .record_aggregate import RecordAggregate
from .session_windows import SessionAggregate
from .sliding_windows import SlidingWindowAggregate
from .time_windows import TimeWindowAggregate
from .versioned_aggregate import VersionedAggregate


def build(node: AggregateNode, place: OperatorContext) -> Aggregate:
    """The operator of an AggregateNode; ``emit`` "on_close" makes it forward final results only."""
    spec = place.table.store
    if node.windows is None and spec is not None and spec.history_retention_ms is not None:
        return VersionedAggregate(place, node.aggregation, node.shape, spec.history_retention_ms)
    return aggregate(node, place, node.aggregation, emits_final=node.emit == "on_close")


def aggregate(
    node: AggregateNode | CogroupNode,
    place: OperatorContext,
    aggregation: Aggregation,
    *,
    emits_final: bool = False,
    inputs: int = 1,
) -> Aggregate:
    """``inputs``: streams that share the store."""
    windows, retention, is_persistent = node.windows, node.retention_ms, node.is_persistent
    is_kip = node.semantics == "kip"
    if windows is None:
        return RecordAggregate(place, aggregation, inputs=inputs)
    if isinstance(windows, SessionWindows):
        return SessionAggregate(
            place,
            aggregation,
            gap_ms=windows.gap_ms,
            grace_ms=windows.grace_ms,
            retention_ms=retention,
            is_persistent=is_persistent,
            emits_final=emits_final,
            is_kip=is_kip,
            inputs=inputs,
        )
    if isinstance(windows, SlidingWindows):
        return SlidingWindowAggregate(
            place,
            aggregation,
            difference_ms=windows.difference_ms,
            grace_ms=windows.grace_ms,
            retention_ms=retention,
            is_persistent=is_persistent,
            emits_final=emits_final,
            is_kip=is_kip,
            inputs=inputs,
        )
    if isinstance(windows, TimeWindows):
        size_ms, advance_ms, grace_ms, origin_ms = windows.size_ms, windows.advance_ms, windows.grace_ms, 0
    else:
        size_ms = advance_ms = LAST_MS - windows.start_ms
        grace_ms, origin_ms = 0, windows.start_ms
    return TimeWindowAggregate(
        place,
        aggregation,
        size_ms=size_ms,
        advance_ms=advance_ms,
        grace_ms=grace_ms,
        retention_ms=retention,
        is_persistent=is_persistent,
        emits_final=emits_final,
        is_kip=is_kip,
        origin_ms=origin_ms,
        inputs=inputs,
    )
