"""A reader's replica of a global store, which a processor of the user's keeps from a topic (Topology.addGlobalStore,
GlobalStateUpdateTask).

Rule: every record of the topic goes to the processor, one with a null key too, in the order of the reader's tape; a
record of a stream finds what those before it have put. The processor forwards nothing, and has no schedules and no
stream time. Its readers only read.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from ....state.buffers import only_chunk
from ....state.errors import ConfigError, TaskFailed
from ....state.records.batches import Batch
from ....state.records.keys import Keys
from ....state.serdes import Serde
from ....state.times import Duration
from ...functions.callable_bodies import check_nothing_returned
from ...functions.parameters import form_of
from ...functions.processor_api import (
    NOT_GIVEN,
    Cancellable,
    Headers,
    KeyValueStore,
    ProcessorContext,
    PunctuationType,
    Record,
    RecordMetadata,
)
from ...graph.graph import Graph
from ..base.failed_records import records_of
from ..base.operator import Found, OperatorContext, TableView
from ..base.single_records import headers_of
from .opened_stores import stores_of
from .process_node import GlobalStoreNode
from .stores import Store


class GlobalStoreView(TableView):
    """Of the global store of ``node``. Its reader resumes and saves the rows of ``replica``."""

    is_replica = False

    def __init__(self, node: GlobalStoreNode) -> None:
        self.node, self.wants = node, frozenset({(node.name, self.PUT)})
        (replica,) = stores_of(node.stores, node.name).values()
        assert isinstance(replica, Store), "the calls that make the node take key-value stores alone"
        self.replica = replica
        self.is_known = False
        """Whether the increment before has left the replica's rows; else all that it read of the topic is taken now."""
        self._processor: Any = None
        self._fed: list[tuple[int, Record]] = []
        """Records of the chunk that are still to be taken, the last of them first, with their rows in the chunk."""

    def feed(self, seen: Mapping[tuple[str, str], Batch]) -> None:
        fed = seen[self.node.name, self.PUT]
        records = records_of(OperatorContext(self.node.name, self.node.shape, fed.keys), fed)
        self._fed = [*zip(fed.cause.tolist(), records, strict=True)][::-1]

    def get(self, asking: Batch, keys: np.ndarray, as_of_ms: np.ndarray | None = None) -> Found:
        raise AssertionError("processors read a global store through what `shown` gives them")

    def come_to(self, cause: int) -> None:
        """Take the records before that row of the chunk."""
        while self._fed and self._fed[-1][0] < cause:
            self._take(self._fed.pop()[1])

    def settle(self) -> None:
        while self._fed:
            self._take(self._fed.pop()[1])

    def resume(self, stores: Mapping[str, pa.Table]) -> None:
        self.renew()
        if not self.is_known and self.node.name in stores:
            self.replica.clear()
            self.take(stores[self.node.name])

    def take(self, rows: pa.Table) -> None:
        """``rows`` of the topic, in order."""
        for record in _records(self.node, rows):
            self._take(record)

    def running(self) -> Mapping[str, object]:
        return {f"the processor of the global store {self.node.store!r}": self._processor}

    def renew(self) -> None:
        self._processor = self.node.supplier()
        form_of(self._processor.init, self.node.name, ("context",), gives=False)
        form_of(self._processor.process, self.node.name, ("record",), gives=False)
        self._call(self._processor.init, _UpdateContext(self.node, self.replica), "init")

    def shown(self, place: str) -> "ReadOnlyStore":
        """The store as its reader at ``place`` sees it."""
        return ReadOnlyStore(self.replica, place)

    def _take(self, record: Record) -> None:
        self._call(self._processor.process, record, f"key {record.key!r}")

    def _call(self, function: Callable[[Any], Any], argument: Any, given: str) -> None:
        try:
            returned = function(argument)
        except Exception as error:
            raise TaskFailed.by(
                error, self.node.name, "a processor that does not fail", f"on {given}", "correct the processor"
            ) from error
        check_nothing_returned(returned, function, self.node.name)


def build_view(node: GlobalStoreNode, graph: Graph, keys: Keys) -> GlobalStoreView:
    """The view of a reader whose stream has ``keys``."""
    return GlobalStoreView(node)


class GlobalReplica:
    """The global store of ``node``, as its processor makes it of the records of its topic."""

    def __init__(self, node: GlobalStoreNode) -> None:
        self._view = GlobalStoreView(node)
        self._view.resume({})

    @property
    def store(self) -> Store:
        return self._view.replica

    def take(self, rows: pa.Table) -> None:
        """``rows`` of the topic, in order: key, value, record_time_ms, perhaps headers."""
        self._view.take(rows)


def _records(node: GlobalStoreNode, rows: pa.Table) -> list[Record]:
    keys = node.shape.key.to_python(only_chunk(rows, "key"))
    values = node.shape.value.to_python(only_chunk(rows, "value"))
    headers = rows["headers"].to_pylist() if "headers" in rows.column_names else [None] * len(rows)
    return list(map(Record, keys, values, rows["record_time_ms"].to_pylist(), map(headers_of, headers)))


class ReadOnlyStore(KeyValueStore):
    """A global store, as those see it that read it."""

    def __init__(self, store: Store, place: str) -> None:
        self._store, self.place = store, f"{place}, store {store.store_name!r}"

    def get(self, key: Any) -> Any:
        return self._store.get(key)

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        return self._store.range(first, last)

    def reverse_range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        return self._store.reverse_range(first, last)

    def prefix_scan(self, prefix: Any, serde: Serde) -> Iterator[tuple[Any, Any]]:
        return self._store.prefix_scan(prefix, serde)

    def __len__(self) -> int:
        return len(self._store)

    def put(self, key: Any, value: Any) -> None:
        self._refuse("a put")

    def delete(self, key: Any) -> Any:
        self._refuse("a delete")

    def _refuse(self, got: str) -> NoReturn:
        raise ConfigError(self.place, "a global store to be read", got, "write to the topic of the global store")


class _UpdateContext(ProcessorContext):
    """What the processor of a global store sees of the engine (GlobalProcessorContextImpl): its store."""

    def __init__(self, node: GlobalStoreNode, store: Store) -> None:
        self._node, self._store = node, store

    def store(self, name: str) -> Any:
        if name != self._store.store_name:
            self._refuse(f"the store {self._store.store_name!r}, which it keeps", repr(name), "name that one")
        return self._store

    def forward(
        self,
        key: Any,
        value: Any = NOT_GIVEN,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
        *,
        child: str | None = None,
    ) -> None:
        self._refuse("puts into its store", "forward, where nothing is below", "forward in a processor that reads it")

    def schedule(
        self,
        interval: Duration,
        kind: PunctuationType,
        callback: Callable[[int], None],
        *,
        start_ms: int | None = None,
    ) -> Cancellable:
        self._refuse("work for each record", "a schedule", "schedule it in a processor of a stream")

    def current_stream_time_ms(self) -> int:
        self._refuse("the times of records", "a question for stream time", "take record.timestamp_ms")

    def current_system_time_ms(self) -> int:
        self._refuse("the times of records", "a question for the wall clock", "take record.timestamp_ms")

    @property
    def record_metadata(self) -> RecordMetadata | None:
        self._refuse("keys, values, times and headers", "a question for the place of a record", "land it as a header")

    def task_id(self) -> str:
        self._refuse("what every task repeats", "a question for the task", "leave it out")

    def _refuse(self, expected: str, got: str, next_step: str) -> NoReturn:
        raise ConfigError(self._node.name, f"{expected}, in a processor of a global store", got, next_step)
