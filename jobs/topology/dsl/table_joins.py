"""Joins of a table: with a table by key, or by foreign key (KTableImpl.join, doJoinOnForeignKey; KIP-213).

By foreign key left changes become subscriptions, which go to where the right table has their foreign key; what it
answers comes back to the partition of the left record.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ....state.errors import ConfigError, TopologyError
from ....state.serdes import Serde
from ...functions.expressions import Call, Expressible, Expression, Shape
from ...functions.parameters import PARTITIONER, form_of
from ...functions.value_joiners import Joiner, JoinerStep, bind_joiner, pair_of
from ...graph.copartitioning import copartition
from ...graph.foreign_key_messages import response_shape, subscription_shape
from ...graph.graph import Graph, Node
from ...graph.nodes import Partitioner
from ...graph.repartition import OfKeyAlone, add_repartition, partition_by
from ...graph.table_traits import add_table, check_complete, look_into, send_old
from ...operators.joins.foreign_key_nodes import ForeignKeyJoinNode, ForeignKeyResponseNode, ForeignKeySendNode
from ...operators.joins.table_join_node import TableJoinNode
from ..call_options import Named
from ..materialized import Materialized, check_store
from .step_arguments import (
    ValueStep,
    bind_step,
    check_one_builder,
    check_selected,
    joined_fields,
    option_or_field,
    same_keys,
)

if TYPE_CHECKING:
    from .ktable import KTable

HISTORIES = ("kafka", "complete")
_PREFIX = "KTABLE-FK-JOIN-"


def inner(
    this: "KTable",
    other: "KTable",
    /,
    joiner: JoinerStep | None = None,
    *options: Named | Materialized,
    foreign_key: ValueStep | None = None,
    foreign_key_returns: Serde | None = None,
    partitioner: Partitioner | None = None,
    other_partitioner: Partitioner | None = None,
    returns: Serde | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
    history: str = "kafka",
    fields: Mapping[str, Expressible] | None = None,
    **columns: Expressible,
) -> "KTable":
    """Keys that are in this table and in ``other``; with ``foreign_key``, keys of this table whose row points to a row
    of the other.

    ``joiner``: a step over the columns ``left`` and ``right``, or a callable of (left, right) or of (key, left, right)
    with ``returns``. Instead of it, named ``columns`` give a struct, and so do ``fields``, whose names may be those of
    options.

    Without a foreign key, ``history`` is "kafka", or "complete" for the results of all versions of versioned tables
    (KIP-914's second attempt).

    With one:

    - ``foreign_key``: a step over this table's columns that gives the other table's key; a callable needs
      ``foreign_key_returns``, its serde. Null: no row of the other table.
    - ``partitioner``, ``other_partitioner``: functions of (topic, key, None, number of partitions) that give the
      partition of a key of this table and of the other, where that is not murmur2 of its bytes; None is the default.

    TopologyError for partitioners without a foreign key; ConfigError for another history.

    Source: ``KTable.join`` (KIP-213, KIP-775, KIP-914).

        >>> show(users.join(countries, foreign_key="city", person="left.name", country="right"))
        ann: {'person': 'Ann', 'country': 'NO'} at 0
        bob: {'person': 'Bob', 'country': 'IT'} at 50
        ann: {'person': 'Ann', 'country': 'IT'} at 3000
    """
    given: dict[str, Any] = {"returns": returns, "materialized": materialized, "name": name}
    given |= {"history": history, "fields": fields}
    given |= {"foreign_key": foreign_key, "foreign_key_returns": foreign_key_returns}
    given |= {"partitioner": partitioner, "other_partitioner": other_partitioner}
    return _joined(this, other, "inner", joiner, **(given | columns))


def left(
    this: "KTable",
    other: "KTable",
    /,
    joiner: JoinerStep | None = None,
    *options: Named | Materialized,
    foreign_key: ValueStep | None = None,
    foreign_key_returns: Serde | None = None,
    partitioner: Partitioner | None = None,
    other_partitioner: Partitioner | None = None,
    returns: Serde | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
    history: str = "kafka",
    fields: Mapping[str, Expressible] | None = None,
    **columns: Expressible,
) -> "KTable":
    """As ``join``, but keys of this table without a row in ``other`` are in the result, too, with null as ``right``.

    ``joiner``, ``columns``, ``fields``, ``foreign_key``, ``foreign_key_returns``, ``partitioner``,
    ``other_partitioner``, ``history`` and the options are those of ``join``.

    Source: ``KTable.leftJoin``.

        >>> show(users.left_join(points, person="left.name", points="right"))
        ann: {'person': 'Ann', 'points': 10} at 0
        bob: {'person': 'Bob', 'points': None} at 50
        bob: {'person': 'Bob', 'points': 7} at 100
        ann: {'person': 'Ann', 'points': 10} at 3000
        ann: {'person': 'Ann', 'points': 4} at 5000
    """
    given: dict[str, Any] = {"returns": returns, "materialized": materialized, "name": name}
    given |= {"history": history, "fields": fields}
    given |= {"foreign_key": foreign_key, "foreign_key_returns": foreign_key_returns}
    given |= {"partitioner": partitioner, "other_partitioner": other_partitioner}
    return _joined(this, other, "left", joiner, **(given | columns))


def outer(
    this: "KTable",
    other: "KTable",
    /,
    joiner: JoinerStep | None = None,
    *options: Named | Materialized,
    returns: Serde | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
    history: str = "kafka",
    fields: Mapping[str, Expressible] | None = None,
    **columns: Expressible,
) -> "KTable":
    """Keys that are in this table or in ``other``, with null where one of them has no row. TopologyError for a foreign
    key: there is no such outer join.

    ``joiner``, ``columns``, ``fields``, ``history`` and the options are those of ``join``.

    Source: ``KTable.outerJoin``.

        >>> show(points.outer_join(users, points="left", city="right.city"))
        ann: {'points': 10, 'city': None} at 0
        ann: {'points': 10, 'city': 'Oslo'} at 0
        bob: {'points': None, 'city': 'Rome'} at 50
        bob: {'points': 7, 'city': 'Rome'} at 100
        ann: {'points': 10, 'city': 'Rome'} at 3000
        ann: {'points': 4, 'city': 'Rome'} at 5000
    """
    given: dict[str, Any] = {"returns": returns, "materialized": materialized, "name": name}
    given |= {"history": history, "fields": fields}
    return _joined(this, other, "outer", joiner, **(given | columns))


def _joined(
    this: "KTable",
    other: "KTable",
    kind: str,
    /,
    joiner: JoinerStep | None,
    *,
    foreign_key: ValueStep | None = None,
    foreign_key_returns: Serde | None = None,
    partitioner: Partitioner | None = None,
    other_partitioner: Partitioner | None = None,
    returns: Serde | None = None,
    materialized: Materialized | None = None,
    name: str | None = None,
    history: str = "kafka",
    fields: Mapping[str, Expressible] | None = None,
    **columns: Expressible,
) -> "KTable":
    if not isinstance(other, type(this)):
        place = name or f"{kind} join of {this.node.name}"
        raise TopologyError(place, "a table", type(other).__name__, "join a table")
    options: dict[str, Any] = {"returns": returns, "materialized": materialized, "name": name}
    options["foreign_key_returns"] = foreign_key_returns
    partitioners = {"partitioner": partitioner, "other_partitioner": other_partitioner}
    options |= partitioners
    columns = joined_fields(kind, joiner, columns, fields, options, pair_of(this.shape, other.shape.value))
    graph, place = this.graph, name or f"{kind} join of {this.node.name}"
    graph.note_call(place)
    if history not in HISTORIES:
        with option_or_field("history", history if joiner is None else None):
            raise ConfigError(f"{place} history", " or ".join(map(repr, HISTORIES)), repr(history), "choose one")
    with option_or_field("joiner", joiner if columns else None):
        bound = bind_joiner(joiner, columns, this.shape, other.shape.value, returns, place)
    check_one_builder(graph, other.graph, place)
    routes = _routes(partitioners, place, is_by_foreign_key=foreign_key is not None)
    if foreign_key is not None:
        if kind == "outer" or history != "kafka":
            got = "outer_join" if kind == "outer" else f"history={history!r}"
            raise TopologyError(place, "join or left_join by a foreign key", got, "use one of them")
        with option_or_field("foreign_key", foreign_key if joiner is None else None):
            selector = bind_step(
                foreign_key,
                this.shape,
                foreign_key_returns,
                place,
                may_take_value=True,
                option="foreign_key_returns",
            )
        node = by_foreign_key(graph, this.node, other.node, kind, selector, bound, materialized, name, routes)
        return type(this)(graph, node)
    return type(this)(graph, _joined_by_key(this, other, kind, bound, materialized, name, history, place))


def _routes(partitioners: Mapping[str, Any], place: str, *, is_by_foreign_key: bool) -> "_Partitioners":
    """Raises TopologyError for a partitioner of another form, and where there is no foreign key."""
    routes = []
    for option, partitioner in partitioners.items():
        if partitioner is not None and not is_by_foreign_key:
            next_step = "leave it out: tables are joined by key in the partitions in which they are"
            raise TopologyError(place, f"{option}= beside a foreign_key", "one without", next_step)
        if partitioner is not None:
            form_of(partitioner, f"{place} {option}", PARTITIONER)
        routes.append(None if partitioner is None else OfKeyAlone(partitioner))
    return _Partitioners(*routes)


class _Partitioners(NamedTuple):
    """Partitioners of the left table's keys and of the foreign keys, None where murmur2 says where they are."""

    left: Partitioner | None
    right: Partitioner | None


def _joined_by_key(
    this: "KTable",
    other: "KTable",
    kind: str,
    bound: Joiner,
    materialized: Materialized | None,
    name: str | None,
    history: str,
    place: str,
) -> Node:
    graph = this.graph
    same_keys(this.shape, other.shape, place)
    store = None
    if materialized is not None:
        check_store(this.shape, materialized, place)
        store = materialized.spec(materialized.name or graph.next_name("KTABLE-MERGE-STATE-STORE-"))
    node = TableJoinNode(
        name=graph.name(name, "KTABLE-MERGE-"),
        inputs=(this.node.name, other.node.name),
        reads=(this.node.name, other.node.name),
        shape=Shape(this.shape.key, bound.result, this.shape.window),
        is_table=True,
        kind=kind,
        joiner=bound,
        history=history,
    )
    copartition(graph, *node.inputs)
    if kind != "inner":
        send_old(graph, this.node.name, force=True)
    if kind == "outer":
        send_old(graph, other.node.name, force=True)
    graph.parts[node.name] = (
        graph.name(name, "KTABLE-JOINTHIS-", "-join-this"),
        graph.name(name, "KTABLE-JOINOTHER-", "-join-other"),
    )
    for side in node.inputs:
        look_into(graph, side)
    if history == "complete":
        check_complete(graph, node.inputs, store, place)
    is_versioned = history == "complete" or (store is not None and store.is_versioned)
    return add_table(graph, node, store=store, is_versioned=is_versioned)


def by_foreign_key(
    graph: Graph,
    left: Node,
    right: Node,
    kind: str,
    foreign_key: Expression | Call,
    joiner: Joiner,
    materialized: Materialized | None,
    name: str | None,
    routes: _Partitioners,
) -> Node:
    """The nodes of the join, of which the result is the last. TopologyError for windowed keys, and for a foreign key
    that is not of the right table's type.
    """
    place = name or f"{kind} join of {left.name}"
    if left.shape.window is not None or right.shape.window is not None:
        raise TopologyError(place, "tables of plain keys", "windowed keys", "group them by a plain key first")
    check_selected(foreign_key, right.shape.key, place, "foreign keys", "foreign_key_returns")
    send_old(graph, right.name, force=True)
    send_old(graph, left.name, force=True)
    names = _Names(graph, name)
    subscriptions = _subscribed(graph, left, right, kind, foreign_key, names)
    subscriptions = partition_by(graph, subscriptions, routes.right)
    responses = _answered(graph, left, right, kind, subscriptions, names)
    responses = partition_by(graph, responses, routes.left)
    materialized = materialized or Materialized()
    spec = materialized.spec(materialized.name or graph.next_name(f"{_PREFIX}OUTPUT-STATE-STORE-"))
    result = ForeignKeyResponseNode(
        name=names.result,
        inputs=(responses.name,),
        reads=(left.name,),
        shape=Shape(left.shape.key, joiner.result),
        is_table=True,
        kind=kind,
        joiner=joiner,
        left_value=left.shape.value,
    )
    graph.parts[result.name] = (names.resolver,)
    store = None if materialized.name is None else spec
    return add_table(graph, result, store=store, on_demand=spec, is_versioned=materialized.is_versioned)


def _subscribed(
    graph: Graph, left: Node, right: Node, kind: str, foreign_key: Expression | Call, names: "_Names"
) -> Node:
    """Subscriptions of the left table's changes, where the right table has their foreign keys."""
    send = ForeignKeySendNode(
        name=names.send,
        inputs=(left.name,),
        shape=subscription_shape(left.shape.key, right.shape.key),
        kind=kind,
        foreign_key=foreign_key,
        left_value=left.shape.value,
    )
    registration = add_repartition(
        graph,
        graph.add(send),
        names.subscription_topic,
        sink=names.subscription_sink,
        source=names.subscription_source,
        keeps_null_keys=True,
    )
    copartition(graph, registration.name, right.name)
    return registration


def _answered(graph: Graph, left: Node, right: Node, kind: str, subscriptions: Node, names: "_Names") -> Node:
    """What the right table answers, in the left record's partition."""
    look_into(graph, right.name)
    join = ForeignKeyJoinNode(
        name=names.join,
        inputs=(subscriptions.name, right.name),
        reads=(right.name,),
        shape=response_shape(left.shape.key, right.shape.value),
        kind=kind,
        store=names.store,
    )
    graph.parts[join.name] = (names.receive, names.foreign_join)
    response = add_repartition(
        graph,
        graph.add(join),
        names.response_topic,
        sink=names.response_sink,
        source=names.response_source,
        keeps_null_keys=True,
        target_of="partition",
    )
    look_into(graph, left.name)
    copartition(graph, response.name, left.name)
    return response


class _Names:
    """Kafka's names, taken in Kafka's order."""

    def __init__(self, graph: Graph, name: str | None) -> None:
        def taken(prefix: str, suffix: str) -> str:
            return graph.name(name, prefix, suffix)

        subscribed, answered = "-subscription-registration", "-subscription-response"
        self.subscription_topic = taken(f"{_PREFIX}SUBSCRIPTION-REGISTRATION-", subscribed) + "-topic"
        self.send = taken(f"{_PREFIX}SUBSCRIPTION-REGISTRATION-", f"{subscribed}-processor")
        self.subscription_sink = taken("KTABLE-SINK-", f"{subscribed}-sink")
        self.subscription_source = taken("KTABLE-SOURCE-", f"{subscribed}-source")
        self.store = taken(f"{_PREFIX}SUBSCRIPTION-STATE-STORE-", "-subscription-store")
        self.receive = taken(f"{_PREFIX}SUBSCRIPTION-PROCESSOR-", "-subscription-receive")
        self.join = taken(f"{_PREFIX}SUBSCRIPTION-PROCESSOR-", "-subscription-join-foreign")
        self.foreign_join = taken(f"{_PREFIX}SUBSCRIPTION-PROCESSOR-", "-foreign-join-subscription")
        self.response_topic = taken(f"{_PREFIX}SUBSCRIPTION-RESPONSE-", answered) + "-topic"
        self.response_sink = taken("KTABLE-SINK-", f"{answered}-sink")
        self.response_source = taken("KTABLE-SOURCE-", f"{answered}-source")
        self.resolver = taken(f"{_PREFIX}SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-", f"{answered}-resolver")
        self.result = taken(f"{_PREFIX}OUTPUT-", "-result")
