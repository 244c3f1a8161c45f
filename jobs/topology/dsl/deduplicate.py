"""Deduplication of streams (KIP-655) and putting them back in order, which Kafka Streams does not have.

Rule: a record with a null key or id is not lost, so the repartition tables of this step keep such records. A stream
whose key changed is repartitioned below as if it had not been deduplicated. That table may be named after the node,
so the repartition tables here have names of their own. Deduplication by id works over all partitions: each record, key
and value, goes through a repartition table by its id and is unpacked.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from ....state.records.batches import Batch
from ....state.serdes import Serde
from ....state.serdes.packed import packed
from ....state.times import Duration
from ...functions.expressions import Call, Expression, Shape, Struct, bind
from ...graph.graph import Graph, Node
from ...graph.repartition import repartitioned
from ...operators.deduplicate_node import DeduplicateNode
from ...operators.reorder_node import ReorderNode
from ...operators.stateless_nodes import MapNode
from ..call_options import Named
from . import rekeying
from .rekeying import followed
from .step_arguments import Step, bind_step, not_negative, plain_key

if TYPE_CHECKING:
    from .kstream import KStream

_PREFIX = "KSTREAM-DEDUPLICATE-"


def deduplicate_by_key(stream: "KStream", interval: Duration, *options: Named, name: str | None = None) -> "KStream":
    """The first record of every key within ``interval``, closed on both sides; null keys pass (KIP-655).

    ConfigError for a negative interval; TopologyError for a windowed key.

    Source: KIP-655.

        >>> show(orders.deduplicate_by_key("1m").map_values("amount"))
        ann: 5 at 1000
        bob: 1 at 2000
    """
    node_name, store = _names(stream, name)
    above = _by_key(stream, name or node_name)
    return followed(stream, _node(stream.graph, above, node_name, store, "key", interval, None))


def deduplicate_by_key_value(
    stream: "KStream",
    id_selector: Step,
    interval: Duration,
    *options: Named,
    returns: Serde | None = None,
    name: str | None = None,
) -> "KStream":
    """The first record of every key and id within ``interval``; records without either pass (KIP-655).

    ``id_selector``: a step that gives the id; a callable needs ``returns``, its serde.

    Source: KIP-655.

        >>> show(clicks.deduplicate_by_key_value("page", "5m").map_values("page"))
        ann: home at 0
        bob: home at 1000
        ann: cart at 2000
        bob: pay at 70000
    """
    node_name, store = _names(stream, name)
    selector = bind_step(id_selector, stream.shape, returns, node_name)
    above = _by_key(stream, name or node_name)
    return followed(stream, _node(stream.graph, above, node_name, store, "key-value", interval, selector))


def deduplicate(
    stream: "KStream",
    id_selector: Step,
    interval: Duration,
    *options: Named,
    returns: Serde | None = None,
    name: str | None = None,
) -> "KStream":
    """The first record of every id within ``interval``, whatever its key; records without an id pass (KIP-655).
    ``id_selector``: a step that gives the id; a callable needs ``returns``, its serde.

    The records go through a repartition table by id and keep their keys. What needs equal keys below comes after one
    more repartition.

    Source: KIP-655.

        >>> show(clicks.deduplicate("page", "5m").map_values("page"))
        ann: home at 0
        ann: cart at 2000
        bob: pay at 70000
    """
    graph = stream.graph
    node_name, store = _names(stream, name)
    plain_key(stream.shape, node_name, "deduplicate")
    selector = bind_step(id_selector, stream.shape, returns, node_name)
    whole = WholeRecord({}, packed(key=stream.shape.key, value=stream.shape.value))
    pack = MapNode(
        name=f"{node_name}-pack",
        inputs=(stream.node.name,),
        shape=Shape(selector.result, whole.result),
        selector=selector,
        mapper=whole,
    )
    table = repartitioned(graph, graph.add(pack), f"{name or node_name}-by-id", is_replay_only=True)
    by_its_key = bind("record_key", table.shape, node_name)
    unique = _node(graph, table, node_name, store, "id", interval, by_its_key)
    key, value = (bind(pl.col("value").struct.field(field), unique.shape, node_name) for field in ("key", "value"))
    unpack = MapNode(
        name=f"{node_name}-unpack",
        inputs=(graph.add(unique).name,),
        shape=stream.shape,
        selector=replace(key, result=stream.shape.key),
        mapper=replace(value, result=stream.shape.value),
    )
    graph.add(unpack)
    return type(stream)(graph, unpack, is_rekeyed=stream.is_rekeyed, is_scattered=True)


def reorder_within(stream: "KStream", grace: Duration, *options: Named, name: str | None = None) -> "KStream":
    """Hold records until stream time has passed them by ``grace`` (record time <= stream time - grace), then forward
    them in order of their times.

    A record older than one that was forwarded is dropped (``late``). ConfigError for a negative grace. Source: KIP-914,
    its long-term vision; Kafka Streams has no such call.

        >>> consumed = Consumed(STRING, CLICK, timestamp_extractor="seconds * 1000")
        >>> show(builder.stream("clicks", consumed).reorder_within("10s").map_values("page"), until_ms=200_000)
        bob: home at 1000
        bob: pay at 2000
        ann: home at 5000
        ann: cart at 9000
    """
    node_name = stream.graph.name(name, "KSTREAM-REORDER-")
    store = f"{name}-store" if name else stream.graph.next_name("KSTREAM-REORDER-STATE-STORE-")
    return followed(
        stream,
        ReorderNode(
            name=node_name,
            inputs=(stream.node.name,),
            shape=stream.shape,
            store=store,
            grace_ms=not_negative(grace, f"{node_name} grace"),
        ),
    )


def _names(stream: "KStream", name: str | None) -> tuple[str, str]:
    node_name = stream.graph.name(name, _PREFIX)
    return node_name, f"{name}-store" if name else stream.graph.next_name(f"{_PREFIX}STATE-STORE-")


def _by_key(stream: "KStream", base: str) -> Node:
    plain_key(stream.shape, base, "deduplicate by")
    return rekeying.by_key(stream, f"{base}-by-key", shows=False)


def _node(
    graph: Graph, above: Node, name: str, store: str, by: str, interval: Duration, selector: Expression | Call | None
) -> DeduplicateNode:
    return DeduplicateNode(
        name=name,
        inputs=(above.name,),
        shape=above.shape,
        store=store,
        by=by,
        interval_ms=not_negative(interval, f"{name} interval"),
        id_selector=selector,
        semantics=graph.semantics,
    )


@dataclass(frozen=True, eq=False)
class WholeRecord(Struct):
    """Key and value of a record as one struct of the serde ``result``, also for a tombstone. ``columns`` is empty."""

    def evaluate(self, batch: Batch) -> pa.Array:
        """The struct of every row of ``batch``."""
        columns = [batch.keys.typed(batch.key), batch.value.all()]
        return pa.StructArray.from_arrays(columns, fields=list(self.result.arrow_type))
