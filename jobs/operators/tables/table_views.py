"""What a reader sees of a table (KTableValueGetter), found by walking up to the stores that it is on.

Rule: a materialized table and an aggregate show their store. A filter or map_values without a store applies its step to
what the table above shows. A join without a store joins what both of its tables show. A suppressed table shows, while
a change waits, the value that the first waiting change replaced.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from ....state.buffers import is_valid
from ....state.records.batches import Batch, Values
from ....state.records.keys import Keys
from ...graph.graph import Graph, Node
from ...graph.windows import SessionWindows
from ..base.operator import Found, TableView
from .global_table import GlobalTableView
from .key_value_view import Clamp, KeyValueView
from .suppressed_table_view import SuppressView
from .table_nodes import TableFilterNode, TableMapValuesNode
from .table_steps import Step, step_of
from .versioned_store import VersionedView

if TYPE_CHECKING:
    from ..aggregates.aggregate_nodes import AggregateNode, CogroupNode
    from ..joins.table_join_node import TableJoinNode
    from ..suppress.suppress_node import SuppressNode


class StepView(TableView):
    """``step`` on what ``above`` shows; it is not done where nothing is shown."""

    def __init__(self, step: Step, above: TableView, keys: Keys) -> None:
        self.step, self.above, self.keys = step, above, keys
        self.wants, self.is_versioned = above.wants, above.is_versioned

    def feed(self, seen: Mapping[tuple[str, str], Batch]) -> None:
        self.above.feed(seen)

    def get(self, asking: Batch, keys: np.ndarray, as_of_ms: np.ndarray | None = None) -> Found:
        above = self.above.get(asking, keys, as_of_ms)
        asked = _asked(asking, keys, self.keys)
        done = self.step(replace(asked, value=Values(above.value), valid=above.valid, time_ms=above.time_ms))
        return Found(done.value.all(), done.valid, np.where(done.valid, above.time_ms, -1))

    def advance(self, reached_ms: Mapping[str, int]) -> None:
        self.above.advance(reached_ms)

    def settle(self) -> None:
        self.above.settle()

    def begin_input(self) -> None:
        self.above.begin_input()

    def end_input(self) -> None:
        self.above.end_input()

    def running(self) -> Mapping[str, object]:
        return self.above.running()

    def renew(self) -> None:
        self.above.renew()

    def resume(self, stores: Mapping[str, pa.Table]) -> None:
        self.above.resume(stores)


class JoinView(TableView):
    """What ``left`` and ``right`` show, joined; its time is the larger of theirs. With a complete history (KIP-914) it
    can be asked as of a time.
    """

    def __init__(self, node: "TableJoinNode", left: TableView, right: TableView, keys: Keys) -> None:
        self.kind, self.joiner, self.left, self.right, self.keys = node.kind, node.joiner, left, right, keys
        self.is_versioned = node.history == "complete"
        self.wants = {*left.wants, *right.wants}

    def feed(self, seen: Mapping[tuple[str, str], Batch]) -> None:
        self.left.feed(seen)
        self.right.feed(seen)

    def get(self, asking: Batch, keys: np.ndarray, as_of_ms: np.ndarray | None = None) -> Found:
        """Without a complete history, whatever ``as_of_ms``: the join of what both show now."""
        as_of_ms = as_of_ms if self.is_versioned else None
        left, right = self.left.get(asking, keys, as_of_ms), self.right.get(asking, keys, as_of_ms)
        is_there = _is_shown(self.kind, left, right)
        rows = np.flatnonzero(is_there)
        values = (side.value.take(pa.array(rows)) for side in (left, right))
        joined = self.joiner.evaluate(_asked(asking, keys, self.keys).take(rows), *values)
        value = joined.take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))
        valid = is_valid(value)
        return Found(value, valid, np.where(valid, np.maximum(left.time_ms, right.time_ms), -1))

    def advance(self, reached_ms: Mapping[str, int]) -> None:
        self.left.advance(reached_ms)
        self.right.advance(reached_ms)

    def settle(self) -> None:
        self.left.settle()
        self.right.settle()

    def begin_input(self) -> None:
        self.left.begin_input()
        self.right.begin_input()

    def end_input(self) -> None:
        self.left.end_input()
        self.right.end_input()

    def resume(self, stores: Mapping[str, pa.Table]) -> None:
        self.left.resume(stores)
        self.right.resume(stores)


def _is_shown(kind: str, left: Found, right: Found) -> np.ndarray:
    """For which rows an unmaterialized join has a value, when its tables answer so."""
    if kind == "inner":
        return left.valid & right.valid
    return left.valid if kind == "left" else left.valid | right.valid


def _asked(asking: Batch, codes: np.ndarray, keys: Keys) -> Batch:
    """The asking rows under the keys that they ask for."""
    nothing = Values(pa.nulls(len(asking)))
    return replace(asking, key=codes.astype(np.int32, copy=False), keys=keys, value=nothing, old=None, old_valid=None)


def build_view(graph: Graph, table: str, keys: Keys) -> TableView:
    """A reader's view of the table of node ``table``, for keys coded by ``keys``."""
    node, traits = graph.nodes[table], graph.tables.get(table)
    spec = None if traits is None else traits.store
    if spec is not None and spec.history_retention_ms is not None:
        return VersionedView(table, node.shape, keys, history_retention_ms=spec.history_retention_ms)
    if spec is None and node.view:
        made: TableView = node.found_at(node.view)(node, graph, keys)
        return made
    if node.is_global:
        return GlobalTableView(table, node.shape, keys)
    return KeyValueView(table, node.shape, keys, _clamp(node))


def step_view(node: TableFilterNode | TableMapValuesNode, graph: Graph, keys: Keys) -> TableView:
    """Of a step without a store: it is done on what the table above shows."""
    return StepView(step_of(node), build_view(graph, node.inputs[0], keys), keys)


def join_view(node: "TableJoinNode", graph: Graph, keys: Keys) -> TableView:
    """Of a join without a store: what both of its tables show, joined."""
    left, right = (build_view(graph, name, keys) for name in node.inputs)
    return JoinView(node, left, right, keys)


def suppress_view(node: "SuppressNode", graph: Graph, keys: Keys) -> TableView:
    """Of a suppressed table: what it has not emitted yet is as it was before."""
    return SuppressView(node, build_view(graph, node.inputs[0], keys), keys)


def _clamp(node: Node) -> Clamp:
    """How long a window store shows its windows."""
    if node.windowed_by is None:
        return Clamp()
    aggregate = cast("AggregateNode | CogroupNode", node)  # no other table has windows
    if isinstance(aggregate.windows, SessionWindows):
        return Clamp(aggregate.retention_ms, by_end=True)
    is_by_time = aggregate.is_persistent and getattr(aggregate, "emit", "on_update") == "on_close"
    return Clamp(aggregate.retention_ms + is_by_time)  # RocksDB ordered by time looks one millisecond further back
