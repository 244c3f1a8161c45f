"""Nodes of a topology: what each operator is configured with, and nothing that runs.

Owns the graph's vocabulary; ``jobs/operators`` turns nodes into running things. A node reads the records of its
``inputs`` in the order in which Kafka Streams would forward them; it looks into the tables that ``reads`` names.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jobs.folds.aggregation import Aggregation
from jobs.functions.expressions import Call, Expression, Shape, Struct
from jobs.functions.processor_api import KeyValues
from jobs.functions.value_joiners import Joiner
from jobs.topology.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

Windows = TimeWindows | SessionWindows | SlidingWindows | UnlimitedWindows


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """``shape``: of the records that the node forwards."""

    name: str
    inputs: tuple[str, ...]
    shape: Shape
    is_table: bool = False


@dataclass(frozen=True)
class StoreSpec:
    """A table's key-value store. ``history_retention_ms``: of a versioned store (KIP-889), None for a plain one."""

    name: str
    is_persistent: bool = True
    history_retention_ms: int | None = None

    @property
    def is_versioned(self) -> bool:
        return self.history_retention_ms is not None


@dataclass
class TableTraits:
    """What the graph decides about a table, after Kafka's rules, while the DSL is used and when it is built.

    ``store``: None while the table is not materialized. ``sends_old``: its changes carry the value they replaced
    (KTable.enableSendingOldValues). ``is_versioned``: the graph rule of KIP-914.
    """

    store: StoreSpec | None = None
    sends_old: bool = False
    is_versioned: bool = False


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
class MapNode(Node):
    """New keys and values (KStreamMap); ``selector`` and ``mapper`` both see the record of before."""

    selector: Expression | Call
    mapper: Expression | Struct | Call


@dataclass(frozen=True, eq=False, kw_only=True)
class FlatMapNode(Node):
    """``function(key, value)`` gives any number of (key, value), or with ``keeps_key`` of values."""

    function: Callable[[Any, Any], Any]
    keeps_key: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class PeekNode(Node):
    """``function(key, value)`` is called for every record, which goes on unchanged."""

    function: Callable[[Any, Any], None]


@dataclass(frozen=True, eq=False, kw_only=True)
class MergeNode(Node):
    """Records of all ``inputs``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessNode(Node):
    """A Python processor, record by record (jobs/functions/processor_api.py). ``stores``: its key-value stores, or mere
    names of such as keep keys and values of its input's types.
    """

    supplier: Callable[[], Any]
    store: str
    """Name of the table that keeps the rows of all its stores."""
    stores: tuple[KeyValues | str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class DeduplicateNode(Node):
    """KIP-655. ``by``: "key", "key-value" or "id"; ``id_selector`` for the latter two. The interval is inclusive.

    ``semantics``: "kafka", by the letter of the KIP, or "kip": records that one input record caused are not taken for
    one record that is processed again.
    """

    store: str
    by: str
    interval_ms: int
    id_selector: Expression | Call | None = None
    semantics: str = "kafka"


@dataclass(frozen=True, eq=False, kw_only=True)
class DistinctNode(Node):
    """``windowed_by(...).distinct()`` of KIP-655's older proposal: the first record of every key and window."""

    store: str
    windows: Windows
    id_selector: Expression | Call | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class ReorderNode(Node):
    """``reorder_within(grace)``: records wait until stream time has passed them by the grace, then go on by time."""

    store: str
    grace_ms: int


@dataclass(frozen=True, eq=False, kw_only=True)
class RepartitionNode(Node):
    """Ends a sub-topology with a repartition table and begins the next.

    ``partitions``: None for as many as the largest source topic has. ``keeps_null_keys``: False filters them in
    silence, as Kafka does unless a left or outer stream join is below. ``carries_change``: the value is a table's
    change (new, old), as a grouping of a table writes it. ``target_of``: name of an int32 field of the value that is
    the target partition, None for murmur2 of the serialized key. ``is_ours``: Kafka has no such topic (deduplication):
    its records are taken as part of the record that sent them, keep topic and offset of before, and their lateness does
    not count again.
    """

    topic: str
    sink_name: str
    filter_name: str
    partitions: int | None = None
    keeps_null_keys: bool = False
    carries_change: bool = False
    target_of: str | None = None
    is_ours: bool = False
    has_own_offsets: bool = False
    """Of a table of ours: operators see its topic and offsets all the same (semantics "kip")."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AggregateNode(Node):
    """Of streams. ``windows`` None: one aggregate a key. ``retention_ms`` 0 without windows.

    ``emit``: "on_update" or "on_close". ``semantics``: "kafka", or "kip": results depend on no store's retention.
    """

    store: str
    aggregation: Aggregation
    windows: Windows | None
    retention_ms: int
    is_persistent: bool
    emit: str = "on_update"
    semantics: str = "kafka"


@dataclass(frozen=True, eq=False, kw_only=True)
class CogroupNode(Node):
    """One aggregate of several grouped streams; ``aggregators[i]`` takes the records of ``inputs[i]``.

    ``semantics``: as of an AggregateNode, and with "kip" all streams share one stream time.
    """

    store: str
    initializer: Callable[[], Any]
    aggregators: tuple[Callable[[Any, Any, Any], Any], ...]
    merger: Callable[[Any, Any, Any], Any] | None
    windows: Windows | None
    retention_ms: int
    is_persistent: bool
    semantics: str = "kafka"


@dataclass(frozen=True, eq=False, kw_only=True)
class SuppressNode(Node):
    """``until``: "window-closes" (``windows``: of the aggregate above; ``wait_ms``: from a window's end to its close)
    or "time-limit" (``wait_ms``: how long a key's changes wait).

    ``when_full``: "emit-early", "shut-down" or "spill".
    """

    store: str
    until: str
    wait_ms: int
    windows: Windows | None
    max_records: int | None
    max_bytes: int | None
    when_full: str


@dataclass(frozen=True, eq=False, kw_only=True)
class TableNode(Node):
    """A topic, a stream (to_table) or a response of a foreign-key join read as a table (KTableSource)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TableFilterNode(Node):
    """KTableFilter: what does not pass is deleted."""

    predicate: Expression | Call
    keeps: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class TableMapValuesNode(Node):
    """KTableMapValues; a deletion stays one."""

    mapper: Expression | Struct | Call


@dataclass(frozen=True, eq=False, kw_only=True)
class TableGroupByNode(Node):
    """KTableRepartitionMap: new keys and values of a table's changes; a RepartitionNode with a change comes next."""

    selector: Expression | Call
    mapper: Expression | Struct | Call


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


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalTableNode(Node):
    """A global table: every task has all of ``topic``."""

    topic: str
    store: str


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamGlobalTableJoinNode(Node):
    """``inputs``: the stream; ``reads``: the global table, looked up by ``selector`` of the record."""

    reads: tuple[str, ...]
    kind: str
    selector: Expression | Call
    joiner: Joiner


@dataclass(frozen=True, eq=False, kw_only=True)
class TableJoinNode(Node):
    """``inputs`` and ``reads``: the left and the right table.

    ``history``: "kafka", or "complete" (KIP-914 attempt 2).
    """

    reads: tuple[str, ...]
    kind: str
    joiner: Joiner
    history: str = "kafka"


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamJoinNode(Node):
    """``inputs``: left and right. A left record joins right records in ``[ts - before, ts + after]``."""

    store: str
    kind: str
    before_ms: int
    after_ms: int
    grace_ms: int
    joiner: Joiner
    is_persistent: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class ForeignKeySendNode(Node):
    """Subscriptions of the left table's changes (SubscriptionSendProcessorSupplier). A RepartitionNode comes next."""

    kind: str
    foreign_key: Expression | Call
    left_value: Any = None
    """Serde of the left value, whose bytes are hashed."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ForeignKeyJoinNode(Node):
    """``inputs``: the subscriptions and the right table; ``reads``: the right table. A RepartitionNode comes next."""

    reads: tuple[str, ...]
    kind: str
    store: str


@dataclass(frozen=True, eq=False, kw_only=True)
class ForeignKeyResponseNode(Node):
    """``inputs``: the responses; ``reads``: the left table, as of the cause. Forwards a table's changes."""

    reads: tuple[str, ...]
    kind: str
    joiner: Joiner
    left_value: Any = None
    """Serde of the left value, whose bytes are hashed."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ToStreamNode(Node):
    """A table's changes as a stream of records."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SinkNode(Node):
    """Writes to the output ``topic``."""

    topic: str
