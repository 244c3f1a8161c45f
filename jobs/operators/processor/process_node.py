"""The node of a processor that a user wrote: how it is configured, and what it says of itself."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ....state.errors import TopologyError
from ...functions.expressions import Shape
from ...functions.processor_api import KeyValues
from ...graph.graph import Graph, Node
from ...graph.kafka_processors import KafkaNode, kafka_processor
from ...graph.name_rules import check_name
from ...graph.store_rows import StoreRows

ROWS = StoreRows(pa.schema([("store", pa.string()), ("key", pa.binary()), ("value", pa.binary())]), ("store", "key"))
"""Of all stores of one processor; keys and values serialized."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessNode(Node):
    """A Python processor, record by record (jobs/functions/processor_api.py). ``stores``: its key-value stores, or mere
    names of such as keep keys and values of its input's types.
    """

    supplier: Callable[[], Any]
    store: str
    """Name of the table that keeps the rows of all its stores."""
    stores: tuple[KeyValues | str, ...] = ()

    operator = ".process:build"
    changes_keys = True

    @property
    def key_step(self) -> Any:
        return self.supplier

    @property
    def inner_stores(self) -> tuple[str, ...]:
        return tuple(store if isinstance(store, str) else store.name for store in self.stores)

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        return [kafka_processor(self.name, self.inputs, self.inner_stores)]

    def store_rows(self, graph: Graph) -> StoreRows:
        return ROWS

    def store_settings(self, graph: Graph) -> Mapping[str, Any]:
        return {"stores": {store.name: store for store in full_stores(self.stores, graph.parent(self).shape)}}


def full_stores(stores: Iterable[KeyValues | str], shape: Shape) -> list[KeyValues]:
    """A mere name means a store of the processor's input types, those of ``shape``."""
    return [KeyValues(one, shape.key, shape.value) if isinstance(one, str) else one for one in stores]


def given_stores(graph: Graph, stores: Any, shape: Shape, place: str) -> tuple[KeyValues | str, ...]:
    """``stores`` as ``KStream.process`` takes them, of a processor whose input has ``shape``.

    Raises TopologyError for anything but a list of stores of different names, and for a store that another processor
    or a table has.
    """
    given = _listed(stores, place)
    for store in full_stores(given, shape):
        for node in graph.nodes.values():
            _check_unshared(graph, store, node, f"{place} store {store.name!r}")
    return given


def _check_unshared(graph: Graph, store: KeyValues, node: Node, place: str) -> None:
    """Raises TopologyError when ``node`` has a store of the name. Kafka Streams lets processors share one, and look
    into those of tables: it takes a record through all of them before the next, and here a chunk of records goes
    through one node before the other.
    """
    if graph.store_of(node) == store.name:
        next_step = "join the table to see its values (stream.join, table.join), or give the store another name"
        raise TopologyError(place, "a store of the processor's own", f"that of {node.name}", next_step)
    if not isinstance(node, ProcessNode) or store.name not in node.inner_stores:
        return
    if store not in full_stores(node.stores, graph.parent(node).shape):
        got = f"a state store with the name {store.name} that is already added, with other types, by {node.name}"
        raise TopologyError(place, "stores of different names", got, "rename one of them")
    next_step = "let one processor do what both do, or give each a store of its own name"
    raise TopologyError(place, "a store of one processor", f"that of {node.name} too", next_step)


def _listed(stores: Any, place: str) -> tuple[KeyValues | str, ...]:
    if isinstance(stores, str | KeyValues):
        raise TopologyError(place, "stores= to be a list of stores", repr(stores), f"write stores=[{stores!r}]")
    if not isinstance(stores, Iterable):
        raise TopologyError(place, "stores= to be a list of stores", repr(stores), "write for example stores=['seen']")
    found: dict[str, KeyValues | str] = {}
    for store in stores:
        if not isinstance(store, str | KeyValues):
            next_step = "use KeyValues(name, key serde, value serde)"
            raise TopologyError(place, "a KeyValues or the name of a store", repr(store), next_step)
        name = check_name(store if isinstance(store, str) else store.name)
        if name in found:
            raise TopologyError(place, "stores of different names", f"{name!r} twice", "rename one of them")
        found[name] = store
    return tuple(found.values())
