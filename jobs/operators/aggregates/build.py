"""Which aggregate of streams a node runs."""

from ....state.times import UNBOUNDED
from ...functions.folds.aggregation import Aggregation
from ...graph.day_windows import DayWindows
from ...graph.own_windows import OwnWindows
from ...graph.windows import SessionWindows, SlidingWindows, TimeWindows, Windows
from ..aggregate_parts.aggregate import Aggregate
from ..aggregate_parts.window_settings import WindowSettings
from ..base.operator import OperatorContext
from .aggregate_nodes import AggregateNode, CogroupNode
from .record_aggregate import RecordAggregate
from .session_windows import SessionAggregate
from .sliding_windows import SlidingWindowAggregate
from .time_windows import TimeWindowAggregate
from .versioned_aggregate import VersionedAggregate


def build(node: AggregateNode, context: OperatorContext) -> Aggregate:
    """The operator of an AggregateNode; ``emit`` "on_close" makes it forward final results only."""
    spec = context.table.store
    if node.windows is None and spec is not None and spec.history_retention_ms is not None:
        return VersionedAggregate(context, node.aggregation, node.shape, spec.history_retention_ms)
    settings = settings_of(node, emits_final=node.emit == "on_close")
    return aggregate(context, node.aggregation, node.windows, settings)


def settings_of(node: AggregateNode | CogroupNode, *, emits_final: bool = False, inputs: int = 1) -> WindowSettings:
    """How ``node`` keeps its windows. ``inputs``: streams that share the store."""
    return WindowSettings(
        retention_ms=node.retention_ms,
        is_persistent=node.is_persistent,
        emits_final=emits_final,
        is_kip=node.semantics == "kip",
        inputs=inputs,
    )


def aggregate(
    context: OperatorContext, aggregation: Aggregation, windows: Windows | None, settings: WindowSettings
) -> Aggregate:
    """The aggregate of ``windows``; None: one a key, of which ``settings`` say nothing but ``inputs``."""
    if windows is None:
        return RecordAggregate(context, aggregation, inputs=settings.inputs)
    if isinstance(windows, SessionWindows):
        return SessionAggregate(context, aggregation, settings, gap_ms=windows.gap_ms, grace_ms=windows.grace_ms)
    if isinstance(windows, SlidingWindows):
        difference_ms, grace_ms = windows.difference_ms, windows.grace_ms
        return SlidingWindowAggregate(context, aggregation, settings, difference_ms=difference_ms, grace_ms=grace_ms)
    origin_ms, listing = 0, None
    if isinstance(windows, TimeWindows):
        size_ms, advance_ms, grace_ms = windows.size_ms, windows.advance_ms, windows.grace_ms
    elif isinstance(windows, DayWindows | OwnWindows):
        size_ms, advance_ms, grace_ms, listing = windows.size_ms, windows.size_ms, windows.grace_ms, windows.listing()
    else:
        size_ms = advance_ms = UNBOUNDED - windows.start_ms
        grace_ms, origin_ms = 0, windows.start_ms
    return TimeWindowAggregate(
        context,
        aggregation,
        settings,
        size_ms=size_ms,
        advance_ms=advance_ms,
        grace_ms=grace_ms,
        origin_ms=origin_ms,
        listing=listing,
    )
