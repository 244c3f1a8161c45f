"""The node of a processor that a user wrote: how it is configured, and what it says of itself."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ....state.errors import TopologyError
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

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        stores = tuple(store if isinstance(store, str) else store.name for store in self.stores)
        return [kafka_processor(self.name, self.inputs, stores)]

    def store_rows(self, graph: Graph) -> StoreRows:
        return ROWS

    def store_settings(self, graph: Graph) -> Mapping[str, Any]:
        shape = graph.parent(self).shape
        stores = (KeyValues(one, shape.key, shape.value) if isinstance(one, str) else one for one in self.stores)
        return {"stores": {store.name: store for store in stores}}


def given_stores(stores: Any, place: str) -> tuple[KeyValues | str, ...]:
    """``stores`` as ``KStream.process`` takes them. Raises TopologyError for anything but a list of stores of different
    names.
    """
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
