"""Joins of tables by foreign key (KTableImpl.doJoinOnForeignKey; KIP-213).

Left changes become subscriptions, which go to where the right table has their foreign key; what it answers comes back
to the partition of the left record.
"""

from ....state.errors import TopologyError
from ...functions.expressions import Call, Expression, Shape
from ...functions.value_joiners import Joiner
from ...graph.copartitioning import copartition
from ...graph.foreign_key_messages import response_shape, subscription_shape
from ...graph.graph import Graph, Node
from ...graph.repartition import add_repartition
from ...graph.table_traits import add_table, look_into, send_old
from ...operators.joins.foreign_key_nodes import ForeignKeyJoinNode, ForeignKeyResponseNode, ForeignKeySendNode
from .materialized import Materialized

_PREFIX = "KTABLE-FK-JOIN-"


def join(
    graph: Graph,
    left: Node,
    right: Node,
    kind: str,
    foreign_key: Expression | Call,
    joiner: Joiner,
    materialized: Materialized | None,
    name: str | None,
) -> Node:
    """The nodes of the join, of which the result is the last. TopologyError for windowed keys, and for a foreign key
    that is not of the right table's type.
    """
    place = name or f"{kind} join of {left.name}"
    if left.shape.window is not None or right.shape.window is not None:
        raise TopologyError(place, "tables of plain keys", "windowed keys", "group them by a plain key first")
    if foreign_key.result != right.shape.key:
        next_step = "select keys of the right table's type"
        raise TopologyError(place, f"foreign keys of {right.shape.key}", f"{foreign_key.result}", next_step)
    send_old(graph, right.name, force=True)
    send_old(graph, left.name, force=True)
    names = _Names(graph, name)
    subscriptions = _subscribed(graph, left, right, kind, foreign_key, names)
    responses = _answered(graph, left, right, kind, subscriptions, names)
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
