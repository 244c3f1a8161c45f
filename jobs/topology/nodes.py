"""Nodes of a topology: what each operator is configured with, and nothing that runs.

Owns the graph's vocabulary; ``jobs/operators`` turns nodes into running things.
"""

from dataclasses import dataclass

from jobs.expressions import Call, Expression, Shape, Struct
from jobs.folds.aggregation import Aggregation
from jobs.topology.windows import SessionWindows, TimeWindows


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """``shape``: of the records that the node forwards."""

    name: str
    inputs: tuple[str, ...]
    shape: Shape
    is_table: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceNode(Node):
    """Reads the landed ``topic``."""

    topic: str


@dataclass(frozen=True, eq=False, kw_only=True)
class FilterNode(Node):
    """``keeps``: forward what the predicate says yes to (filter), else what it does not (filter_not)."""

    predicate: Expression | Call
    keeps: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class MapValuesNode(Node):
    """New values; keys, times and order stay."""

    mapper: Expression | Struct | Call


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectKeyNode(Node):
    """New keys; what groups by them comes after a repartition."""

    selector: Expression | Call


@dataclass(frozen=True, eq=False, kw_only=True)
class RepartitionNode(Node):
    """Ends a sub-topology with a repartition table and begins the next; null keys are filtered in silence, as Kafka
    does.

    ``partitions``: None for as many as the largest source topic has.
    """

    topic: str
    sink_name: str
    filter_name: str
    partitions: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class AggregateNode(Node):
    """``windows`` None: one aggregate a key. ``retention_ms`` 0 without windows."""

    store: str
    aggregation: Aggregation
    windows: TimeWindows | SessionWindows | None
    retention_ms: int
    is_persistent: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class SuppressNode(Node):
    """``windows``: of the aggregate above, whose close the results wait for."""

    store: str
    windows: TimeWindows | SessionWindows
    max_records: int | None
    max_bytes: int | None


@dataclass(frozen=True, eq=False, kw_only=True)
class ToStreamNode(Node):
    """A table's changes as a stream of records."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SinkNode(Node):
    """Writes to the output ``topic``."""

    topic: str


StoreNode = AggregateNode | SuppressNode
