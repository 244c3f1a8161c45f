"""Nodes that a join of tables by foreign key is made of: how each is configured, and what it says of itself."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ....state.promises import JoinedByForeignKey, Promise
from ....state.serdes import Serde
from ....state.tables.names import TableName
from ...functions.expressions import Call, Expression
from ...functions.value_joiners import Joiner
from ...graph.graph import Graph, Node
from ...graph.kafka_processors import KafkaNode, kafka_processor
from ...graph.kafka_traits import KafkaTrait
from ...graph.nodes import RepartitionNode
from ...graph.store_rows import TIME, StoreRowSchema
from ..base.promised_tables import extracted_keys, joined_values, outputs_of, table_values_of


@dataclass(frozen=True, eq=False, kw_only=True)
class ForeignKeySendNode(Node):
    """Subscriptions of the left table's changes (SubscriptionSendProcessorSupplier). A RepartitionNode comes next."""

    kind: str
    foreign_key: Expression | Call
    left_value: Any = None
    """Serde of the left value, whose bytes are hashed."""

    operator = ".foreign_key_send_and_response:ForeignKeySend"
    takes_back = True


@dataclass(frozen=True, eq=False, kw_only=True)
class ForeignKeyJoinNode(Node):
    """``inputs``: the subscriptions and the right table; ``reads``: the right table. A RepartitionNode comes next."""

    reads: tuple[str, ...]
    kind: str
    store: str

    operator = ".foreign_key_join:ForeignKeyJoin"
    takes_back = True

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        receive, foreign_join = graph.parts[self.name]
        registration, right = self.inputs
        return [
            kafka_processor(receive, (registration,), (self.store,)),
            kafka_processor(self.name, (receive,), graph.nodes[right].stores_shown(graph)),
            kafka_processor(foreign_join, (right,), (self.store,)),
        ]

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        """Of the store of subscriptions, which is of the application's kind."""
        yield from (KafkaTrait.TASK_STATE, KafkaTrait.DSL_STORE)
        if graph.default_store == "persistent":
            yield KafkaTrait.PERSISTENT_STORE

    def forwarding_processors(self, graph: Graph) -> tuple[str, ...]:
        return self.name, graph.parts[self.name][1]

    def store_rows(self, graph: Graph) -> StoreRowSchema:
        return StoreRowSchema(subscription_schema(graph.parent(self).shape.key, self.shape.key), SUBSCRIPTION_KEY)

    def store_settings(self, graph: Graph) -> Mapping[str, Any]:
        send = graph.parent(graph.parent(self))
        return {"left_value": repr(send.left_value)}  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False, kw_only=True)
class ForeignKeyResponseNode(Node):
    """``inputs``: the responses; ``reads``: the left table, as of the cause. Forwards a table's changes."""

    reads: tuple[str, ...]
    kind: str
    joiner: Joiner
    left_value: Any = None
    """Serde of the left value, whose bytes are hashed."""

    operator = ".foreign_key_send_and_response:build_response"
    takes_back = True

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        (resolver,), store = graph.parts[self.name], graph.store_of(self)
        return [
            kafka_processor(resolver, self.inputs, graph.nodes[self.reads[0]].stores_shown(graph)),
            kafka_processor(self.name, (resolver,), () if store is None else (store,)),
        ]

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        yield from super().kafka_traits(graph)
        yield KafkaTrait.FOREIGN_KEY_JOIN
        if self.kind == "inner":
            yield KafkaTrait.FOREIGN_KEY_INNER_JOIN
        else:
            yield from (KafkaTrait.FOREIGN_KEY_LEFT_JOIN, KafkaTrait.JOIN_OF_NULL_KEYS)

    def promises(self, graph: Graph) -> Iterable[Promise]:
        """Its table is the join of both tables as they are when an increment ends."""
        yield from super().promises(graph)
        join = graph.parent(graph.parent(self))
        send, right = graph.parent(graph.parent(join)), graph.nodes[join.inputs[1]]
        assert isinstance(join, ForeignKeyJoinNode)
        assert isinstance(send, ForeignKeySendNode)
        answers, subscriptions = graph.parent(self), graph.parent(join)
        assert isinstance(answers, RepartitionNode)
        assert isinstance(subscriptions, RepartitionNode)
        left, outputs = graph.parent(send), outputs_of(graph, self, unchanged=True)
        of_left, of_right = (table_values_of(graph, each.name) for each in (left, right))
        why_not = ""
        if any(graph.tables[each.name].is_versioned for each in (left, right)):
            why_not = "a versioned table refuses what is out of order, so its newest record is not always its value"
        elif of_left is None or of_right is None:
            why_not = "no table has the values that the join reads"
        elif not outputs:
            why_not = "no output has its rows as they are"
        elif answers.has_partitioner or subscriptions.has_partitioner:
            why_not = "a partitioner, and not the key's hash, says in which partition a record is asked for"
        of_keys = extracted_keys(left.shape, send.foreign_key)
        joined = joined_values(left.shape, right.shape.value, self.joiner)
        is_left = self.kind == "left"
        for output in outputs if not why_not else (TableName.state(join.store),):
            yield JoinedByForeignKey(
                output, of_left, of_right, is_left, _keys_of(left.shape.key), of_keys, joined, why_not
            )


def _keys_of(serde: Serde) -> Callable[[pa.Array], pa.Array]:
    return lambda keys: serde.decode(keys).values


SUBSCRIPTION_KEY = ("key", "primary_key")


def subscription_schema(foreign: Serde, primary: Serde) -> pa.Schema:
    """Who is answered when the right value of a foreign key (``key``) changes; hash of the left value in two halves."""
    keys = [pa.field("key", foreign.arrow_type), pa.field("primary_key", primary.arrow_type)]
    hashes = [pa.field("hash_a", pa.int64()), pa.field("hash_b", pa.int64())]
    return pa.schema([*keys, *hashes, pa.field("left_partition", pa.int32()), TIME])
