"""The nodes of what a user wrote, processors and transformers of tables: how they are configured, and what they say of
themselves.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from ...functions.processor_api import FixedKeyRecord, KeyValues, Record, fixed_key_record
from ...functions.state_stores import KEY_VALUE, KEY_VALUES, SESSIONS, VERSIONED, WINDOWS, WITH_HEADERS, StoreBuilder
from ...graph.graph import Graph, Node, compacted
from ...graph.kafka_processors import KafkaNode, kafka_processor
from ...graph.kafka_traits import KafkaTrait
from ...graph.nodes import GlobalTableNode
from ...graph.reach import Reach
from ...graph.store_rows import StoreRowSchema
from ..tables.table_nodes import TableStepNode

ROWS = StoreRowSchema(
    pa.schema([("store", pa.string()), ("key", pa.binary()), ("value", pa.binary())]), ("store", "key")
)
"""Of all stores of one processor; keys and values serialized."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessNode(Node):
    """A Python processor, record by record (jobs/functions/processor_api.py). ``stores``: those whose rows it keeps.
    By name of a store, the node that keeps it: ``shared`` for stores of other processors, ``tables`` for those of
    tables, ``replicas`` for global stores.
    """

    supplier: Callable[[], Any]
    store: str
    """Name of the table that keeps the rows of all its stores."""
    stores: tuple[KeyValues, ...] = ()
    shared: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[str, str] = field(default_factory=dict)

    operator = ".process:Process"
    changes_keys = True
    has_clock = True

    @property
    def key_step(self) -> Any:
        return self.supplier

    def handed(self, record: Record) -> Record | FixedKeyRecord:
        """What the processor is given."""
        return record

    @property
    def inner_stores(self) -> tuple[str, ...]:
        return tuple(store.name for store in self.stores)

    def changelogs(self, graph: Graph) -> tuple[str, ...]:
        return self.inner_stores

    def changelog_settings(self, graph: Graph, store: str) -> Mapping[str, str]:
        spec = next(each for each in self.stores if each.name == store)
        kind = spec.kind if isinstance(spec, StoreBuilder) else KEY_VALUE
        retention_ms = spec.retention_ms if isinstance(spec, StoreBuilder) and kind not in KEY_VALUES else None
        return compacted(None, history_ms=retention_ms) if kind == VERSIONED else compacted(retention_ms)

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.tables.values(), *self.replicas.values())

    @property
    def shares(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys(self.shared.values()))

    @property
    def puts_into(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.shares, *dict.fromkeys(self.tables.values()))

    @property
    def is_by_record(self) -> bool:  # type: ignore[override]
        return bool(self.shared or self.tables)

    def kafka_processors(self, graph: Graph) -> Iterable[KafkaNode]:
        # Kafka connects a processor with no store of a global table: every processor may ask for it.
        tables = (store for store, owner in self.tables.items() if not graph.nodes[owner].is_global)
        return [kafka_processor(self.name, self.inputs, (*self.inner_stores, *self.shared, *tables))]

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        yield KafkaTrait.PROCESSOR
        if self.stores:
            yield KafkaTrait.TASK_STATE
        yield from _traits_of_stores(self.stores)

    def reach(self, graph: Graph) -> Reach:
        """A processor may forward a record of any time, at once or when it is punctuated."""
        return replace(super().reach(graph), gives_times=True)

    def store_rows(self, graph: Graph) -> StoreRowSchema:
        return ROWS

    def store_settings(self, graph: Graph) -> Mapping[str, Any]:
        globals_ = [graph.nodes[name] for name in self.replicas.values()]
        replicas = [store for node in globals_ if isinstance(node, GlobalStoreNode) for store in node.stores]
        return {"stores": {store.name: store for store in (*self.stores, *replicas)}}


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessValuesNode(ProcessNode):
    """A Python processor that keeps keys, a window's too (KStreamImpl.processValues)."""

    changes_keys = False

    @property
    def key_step(self) -> Any:
        return None

    def handed(self, record: Record) -> FixedKeyRecord:
        return fixed_key_record(record)


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalStoreNode(GlobalTableNode):
    """A global store (Topology.addGlobalStore): in every task that reads it, ``supplier``'s processor takes each record
    of ``topic``, null keys too, and puts into a replica of the one store in ``stores``. Who reads it keeps the
    replica's rows among its own.
    """

    supplier: Callable[[], Any]
    stores: tuple[KeyValues, ...]

    made_by = ".global_store:GlobalReplica"
    view = ".global_store:build_view"

    def kafka_traits(self, graph: Graph) -> Iterable[KafkaTrait]:
        yield from (KafkaTrait.GLOBAL_TABLE, KafkaTrait.FILLED_GLOBAL_STORE)
        yield from _traits_of_stores(self.stores)

    def taken(self, key: Any, value: Any) -> str:
        return f"its processor takes {key!r}: {value!r} into the store {self.store}, in every task that reads it"


def _traits_of_stores(stores: Iterable[KeyValues]) -> Iterable[KafkaTrait]:
    """A plain KeyValues does not say whether Kafka would have it in RocksDB, and is taken for such a one."""
    for store in stores:
        kind = store.kind if isinstance(store, StoreBuilder) else KEY_VALUE
        is_persistent = store.is_persistent if isinstance(store, StoreBuilder) else True
        if kind in KEY_VALUES:
            yield KafkaTrait.PROCESSOR_KEY_VALUES
        if kind in WITH_HEADERS:
            yield KafkaTrait.STORE_WITH_HEADERS
        if kind == VERSIONED:
            yield KafkaTrait.VERSIONED_STORE
        if is_persistent:
            yield KafkaTrait.PERSISTENT_STORE
        if is_persistent and kind in (*WINDOWS, *SESSIONS):
            yield KafkaTrait.PERSISTENT_WINDOWS


@dataclass(frozen=True, eq=False, kw_only=True)
class TransformValuesNode(TableStepNode):
    """KTableTransformValues. ``supplier`` gives a ValueTransformerWithKey (jobs/functions/processor_api.py), one for
    the operator, and one for each reader that looks into the table where it has no store.
    """

    supplier: Callable[[], Any]

    operator = ".transform_values:build"
    view = ".transform_values:build_view"
