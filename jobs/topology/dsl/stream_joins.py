"""Joins of a stream: with a stream, a table, or a global table (KStreamImpl.join, KStreamImplJoin).

Rule: both sides have keys of one serde, and where a side's key changed before, it goes through a repartition table.
The inner, the left and the outer join are written out, so that editors and type checkers show their own parameters and
words; what they share is in ``_Join``.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from ....state.errors import ConfigError, TopologyError
from ....state.serdes import Serde
from ....state.times import Duration
from ...functions.expressions import Expressible, Shape
from ...functions.value_joiners import Joiner, JoinerStep, bind_joiner, pair_of
from ...graph.copartitioning import copartition
from ...graph.graph import Node
from ...graph.table_traits import check_history, look_into
from ...graph.windows import JoinWindows
from ...operators.joins.stream_join_node import ImmediateStreamJoinNode, StreamJoinNode
from ...operators.joins.stream_table_join_nodes import StreamGlobalTableJoinNode, StreamTableJoinNode
from ..call_options import Named
from ..materialized import Materialized
from .ktable import GlobalKTable, KTable
from .rekeying import by_key_for_join, followed
from .step_arguments import (
    Step,
    bind_step,
    check_one_builder,
    check_selected,
    joined_fields,
    not_negative,
    option_or_field,
    plain_key,
    same_keys,
)

if TYPE_CHECKING:
    from .kstream import KStream


def join(
    left: "KStream",
    other: Any,
    kind: str,
    /,
    joiner: JoinerStep | None,
    windows: JoinWindows | Named | None = None,
    *,
    returns: Serde | None = None,
    materialized: Materialized | None = None,
    grace: Duration | None = None,
    selector: Step | None = None,
    selector_returns: Serde | None = None,
    name: str | None = None,
    fields: Mapping[str, Expressible] | None = None,
    **columns: Expressible,
) -> "KStream":
    """``windows`` (and ``materialized``, the kind and name of the two stores) are for streams, ``grace`` for tables,
    ``selector`` for global tables; ``returns``: serde of a callable joiner's result. TopologyError for another mixture.
    """
    typed = {"returns": returns, "materialized": materialized, "selector_returns": selector_returns, "name": name}
    if isinstance(other, type(left) | KTable | GlobalKTable):
        columns = joined_fields(kind, joiner, columns, fields, typed, pair_of(left.shape, other.shape.value))
    asked = _Join(left, kind, joiner, columns, returns, name)
    left.graph.note_call(asked.place)
    if isinstance(joiner, JoinWindows):
        next_step = (
            "windows= is behind the joiner: join(other, joiner, windows), or join(other, windows=…, item='left.item')"
        )
        raise TopologyError(asked.place, "a joiner before its windows", f"{joiner!r} as joiner", next_step)
    if joiner is not None and isinstance(windows, str | pl.Expr):
        expected = "one joiner, and JoinWindows to join a stream"
        next_step = "name the fields: join(other, item='left.item', price='right')"
        raise TopologyError(asked.place, expected, f"a second step, {windows!r}", next_step)
    options = {"windows": windows, "materialized": materialized, "grace": grace, "selector": selector}
    if isinstance(other, KTable) and kind != "outer":
        asked.check_options(options, "a table", allowed={"grace"})
        return asked.with_table(other, grace)
    if isinstance(other, GlobalKTable) and kind != "outer":
        asked.check_options(options, "a global table", allowed={"selector"}, needed="selector")
        assert selector is not None
        return asked.with_global_table(other, selector, selector_returns)
    if not isinstance(other, type(left)):
        expected = "a stream" if kind == "outer" else "a stream, a table or a global table"
        raise TopologyError(asked.place, expected, type(other).__name__, "join one of these")
    asked.check_options(options, "a stream", allowed={"windows", "materialized"}, needed="windows")
    if not isinstance(windows, JoinWindows):
        next_step = 'use JoinWindows.of_time_difference_with_no_grace("5m")'
        with asked.option("windows", windows):
            raise TopologyError(asked.place, "JoinWindows", repr(windows), next_step)
    return asked.with_stream(other, windows, materialized or Materialized())


def inner(
    this: "KStream",
    other: "KStream | KTable | GlobalKTable",
    /,
    joiner: JoinerStep | None = None,
    windows: JoinWindows | Named | None = None,
    *options: Named,
    returns: Serde | None = None,
    materialized: Materialized | None = None,
    grace: Duration | None = None,
    selector: Step | None = None,
    selector_returns: Serde | None = None,
    name: str | None = None,
    fields: Mapping[str, Expressible] | None = None,
    **columns: Expressible,
) -> "KStream":
    """Records of this stream joined with those of ``other`` that have equal keys.

    ``joiner``: a step over the columns ``left`` and ``right``, or a callable of (left, right) or of (key, left, right)
    with ``returns``. Instead of it, named ``columns`` give a struct, and so do ``fields``, whose names may be those of
    options. What ``other`` is decides the rest:

    - a KStream: records at most ``windows`` apart in time; ``materialized`` names the two stores and says their kind.
    - a KTable: its value when the record is read, or as of the record's time once ``grace`` has passed.
    - a GlobalKTable: its value of the key that ``selector`` gives; a callable needs ``selector_returns``, its serde.

    A joined record has the later of both times. TopologyError for options of another kind of ``other``, and for keys
    of different serdes.

    Source: ``KStream.join``.

        >>> windows = JoinWindows.of_time_difference_with_no_grace("2s")
        >>> show(orders.join(payments, windows=windows, paid="right", amount="left.amount"))
        ann: {'paid': 'card', 'amount': 5} at 1500
    """
    given: dict[str, Any] = {"returns": returns, "materialized": materialized, "grace": grace, "name": name}
    given |= {"selector": selector, "selector_returns": selector_returns, "fields": fields}
    return join(this, other, "inner", joiner, windows, **(given | columns))


def left(
    this: "KStream",
    other: "KStream | KTable | GlobalKTable",
    /,
    joiner: JoinerStep | None = None,
    windows: JoinWindows | Named | None = None,
    *options: Named,
    returns: Serde | None = None,
    materialized: Materialized | None = None,
    grace: Duration | None = None,
    selector: Step | None = None,
    selector_returns: Serde | None = None,
    name: str | None = None,
    fields: Mapping[str, Expressible] | None = None,
    **columns: Expressible,
) -> "KStream":
    """As ``join``, but a record of this stream without a match in ``other`` is forwarded, too, with null as ``right``.

    Of two streams it is forwarded when its window and the grace have passed. ``joiner``, ``columns``, ``fields``,
    ``windows``, ``materialized``, ``grace``, ``selector``, ``selector_returns``, ``returns`` and ``name`` are those of
    ``join``.

    Source: ``KStream.leftJoin`` (KIP-962).

        >>> show(orders.left_join(payments.to_table(), item="left.item", paid="right"))
        ann: {'item': 'tea', 'paid': None} at 1000
        bob: {'item': 'mug', 'paid': None} at 2000
        ann: {'item': 'tea', 'paid': 'card'} at 61000
    """
    given: dict[str, Any] = {"returns": returns, "materialized": materialized, "grace": grace, "name": name}
    given |= {"selector": selector, "selector_returns": selector_returns, "fields": fields}
    return join(this, other, "left", joiner, windows, **(given | columns))


def outer(
    this: "KStream",
    other: "KStream",
    /,
    joiner: JoinerStep | None = None,
    windows: JoinWindows | Named | None = None,
    *options: Named,
    returns: Serde | None = None,
    materialized: Materialized | None = None,
    grace: Duration | None = None,
    selector: Step | None = None,
    selector_returns: Serde | None = None,
    name: str | None = None,
    fields: Mapping[str, Expressible] | None = None,
    **columns: Expressible,
) -> "KStream":
    """As ``left_join`` with the stream ``other``, and its records without a match are forwarded, too, with null as
    ``left``. TopologyError for a table.

    ``joiner``, ``columns``, ``fields``, ``windows``, ``materialized``, ``returns`` and ``name`` are those of ``join``;
    ``grace``, ``selector`` and ``selector_returns`` are refused, since they are of joins with tables.

    Source: ``KStream.outerJoin``.

        >>> windows = JoinWindows.of_time_difference_and_grace("2s", "1s")
        >>> show(orders.outer_join(payments, windows=windows, item="left.item", paid="right"), until_ms=200_000)
        ann: {'item': 'tea', 'paid': 'card'} at 1500
        bob: {'item': 'mug', 'paid': None} at 2000
        ann: {'item': 'tea', 'paid': None} at 61000
        bob: {'item': None, 'paid': 'cash'} at 90000
    """
    given: dict[str, Any] = {"returns": returns, "materialized": materialized, "grace": grace, "name": name}
    given |= {"selector": selector, "selector_returns": selector_returns, "fields": fields}
    return join(this, other, "outer", joiner, windows, **(given | columns))


@dataclass(frozen=True)
class _Join:
    """What all joins of a stream have."""

    left: "KStream"
    kind: str
    joiner: JoinerStep | None
    columns: dict[str, Expressible]
    returns: Serde | None
    name: str | None

    @property
    def place(self) -> str:
        return self.name or f"{self.kind} join of {self.left.name}"

    def option(self, option: str, value: Any) -> AbstractContextManager[None]:
        """Beside a joiner it is meant as one."""
        return option_or_field(option, value if self.joiner is None else None)

    def check_options(self, given: dict[str, Any], other: str, allowed: set[str], needed: str | None = None) -> None:
        wrong = [option for option, value in given.items() if value is not None and option not in allowed]
        if wrong:
            expected = f"a join with {other}, without {wrong[0]}"
            with self.option(wrong[0], given[wrong[0]]):
                is_order = wrong[0] == "windows" and callable(given["windows"])
                next_step = "give the selector as selector=, and the joiner before it" if is_order else "leave it out"
                raise TopologyError(self.place, expected, f"{wrong[0]}={given[wrong[0]]!r}", next_step)
        if needed is not None and given[needed] is None:
            raise TopologyError(self.place, f"{needed} for a join with {other}", "none", f"give {needed}=")

    def with_stream(self, right: "KStream", windows: JoinWindows, materialized: Materialized) -> "KStream":
        left, graph, name = self.left, self.left.graph, self.name
        if materialized.retention is not None or materialized.is_versioned:
            next_step = "leave the retention to the windows"
            raise ConfigError(self.place, "a store's name and kind", repr(materialized), next_step)
        for side in (left, right):
            plain_key(side.shape, side.name, "join by")
        same_keys(left.shape, right.shape, self.place)
        joiner = self._joiner(right.shape)
        check_one_builder(graph, right.graph, self.place)
        this, that = self._repartitioned(left, "-left"), self._repartitioned(right, "-right")
        sides = _SIDES[self.kind]
        windowed = [graph.name(name, "KSTREAM-WINDOWED-", f"-{side}-windowed") for side in ("this", "other")]
        generated = [graph.next_name(f"KSTREAM-{_PREFIX[side]}-") for side in sides]
        joins = generated if name is None else [f"{name}{side}-join" for side in sides]
        base = materialized.name
        stores = [
            f"{made if base is None else base + side + '-join'}-store"
            for made, side in zip(generated, sides, strict=True)
        ]
        settings: dict[str, Any] = {
            "name": graph.name(name, "KSTREAM-MERGE-", "-merge"),
            "inputs": (this.name, that.name),
            "shape": Shape(left.shape.key, joiner.result),
            "store": stores[0],
            "kind": self.kind,
            "before_ms": windows.before_ms,
            "after_ms": windows.after_ms,
            "grace_ms": windows.grace_ms,
            "joiner": joiner,
            "is_persistent": (materialized.store or self.left.graph.default_store) == "persistent",
        }
        node = ImmediateStreamJoinNode(**settings) if windows.emits_at_once else StreamJoinNode(**settings)
        if self.kind != "inner" and not windows.emits_at_once:
            number = f"KSTREAM-OUTERSHARED-{generated[0][-10:]}"
            stores.append(f"{number if base is None else base + _SHARED[self.kind]}-store")
        graph.parts[node.name] = (*windowed, *joins, *stores)
        copartition(graph, this.name, that.name)
        return followed(left, node, is_rekeyed=False)

    def with_table(self, table: "KTable", grace: Duration | None) -> "KStream":
        left, graph = self.left, self.left.graph
        plain_key(left.shape, left.name, "join by")
        same_keys(left.shape, table.shape, self.place)
        joiner = self._joiner(table.shape)
        check_one_builder(graph, table.graph, self.place)
        above = self._repartitioned(left, "")
        copartition(graph, above.name, table.node.name)
        name = graph.name(self.name, "KSTREAM-JOIN-" if self.kind == "inner" else "KSTREAM-LEFTJOIN-")
        with self.option("grace", grace):
            grace_ms = None if grace is None else not_negative(grace, f"{name} grace")
        if grace_ms is not None:
            check_history(graph, table.node.name, grace_ms, name)
        look_into(graph, table.node.name)
        node = StreamTableJoinNode(
            name=name,
            inputs=(above.name,),
            reads=(table.node.name,),
            shape=Shape(left.shape.key, joiner.result),
            kind=self.kind,
            joiner=joiner,
            store=None if grace_ms is None else f"{name}-Buffer",
            grace_ms=grace_ms,
            semantics=graph.semantics,
        )
        return followed(left, node, is_rekeyed=False)

    def with_global_table(self, table: "GlobalKTable", selector: Step, returns: Serde | None) -> "KStream":
        left = self.left
        name = left.graph.name(self.name, "KSTREAM-LEFTJOIN-")
        with self.option("selector", selector):
            bound = bind_step(selector, left.shape, returns, name, option="selector_returns")
        check_selected(bound, table.shape.key, name, "keys", "selector_returns")
        joiner = self._joiner(table.shape)
        check_one_builder(left.graph, table.graph, self.place)
        node = StreamGlobalTableJoinNode(
            name=name,
            inputs=(left.node.name,),
            reads=(table.node.name,),
            shape=Shape(left.shape.key, joiner.result, left.shape.window),
            kind=self.kind,
            selector=bound,
            joiner=joiner,
        )
        return followed(left, node)

    def _joiner(self, right: Shape) -> Joiner:
        with option_or_field("joiner", self.joiner if self.columns else None):
            return bind_joiner(self.joiner, self.columns, self.left.shape, right.value, self.returns, self.place)

    def _repartitioned(self, side: "KStream", suffix: str) -> Node:
        return by_key_for_join(side, None if self.name is None else self.name + suffix)


_SIDES = {
    "inner": ("-this", "-other"),
    "left": ("-this", "-outer-other"),
    "outer": ("-outer-this", "-outer-other"),
}
_SHARED = {"left": "-left-shared-join", "outer": "-outer-shared-join"}
_PREFIX = {"-this": "JOINTHIS", "-other": "JOINOTHER", "-outer-this": "OUTERTHIS", "-outer-other": "OUTEROTHER"}
