"""What the stores of a test driver's tasks were given, record by record: their changelog topics in Kafka Streams.

Rule: each put is a record with the key, the value (None: it is deleted) and the time that Kafka's changelog has. That
is the time of the value where the store keeps times, else of the record that is processed
(ChangeLoggingKeyValueBytesStore).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...state.records.batches import Batch, Chunk
from ...state.serdes import Serde
from ...state.serdes.handed_over import HandOver
from ...state.times import NO_TIMESTAMP_MS
from ..functions.expressions import Shape, Windowed, python_keys
from ..functions.processor_api import KeyValues, KeyValueStore, ValueAndTimestamp, ValueTimestampHeaders
from ..functions.state_stores import TIMESTAMPED, TIMESTAMPED_WITH_HEADERS
from ..graph.graph import Graph, Node
from ..operators.processor.process import Process
from ..operators.processor.stores import Store
from ..operators.processor.table_stores import TableValues
from ..operators.processor.table_windows import TableSessions, TableWindows
from ..task.task import Task
from ..topology.topology import Topology
from .driver_records import OutputRecord

CHANGELOG = "-changelog"
Now = Callable[[], tuple[int, int]]
"""The row of the chunk because of which something is put, and the time in ms of what is processed."""
_KEY_VALUE_KINDS = ("", TIMESTAMPED, TIMESTAMPED_WITH_HEADERS)


def changelogs_of(topology: Topology) -> dict[str, Shape]:
    """Names of the changelogs that can be read, and what is in them: of tables and aggregates that do not emit on close
    alone, and of key-value stores of processors.
    """
    shapes: dict[str, Shape] = {}
    for sub in topology.sub_topologies:
        for node in sub.nodes:
            if _is_logged(topology.graph, node):
                shapes[f"{topology.graph.store_of(node)}{CHANGELOG}"] = node.shape
            shapes |= {f"{store}{CHANGELOG}": shape for store, shape in _of_processor(topology.graph, node).items()}
    return shapes


def _is_logged(graph: Graph, node: Node) -> bool:
    # The log is made of what a node forwards. A suppress buffer's changelog has other values (BufferValue), an
    # aggregate that emits on close puts before it forwards, and a global store is restored from its topic.
    is_plain = not (node.is_global or node.holds_back or node.waits_for_close)
    return node.is_table and is_plain and graph.store_of(node) is not None


def _of_processor(graph: Graph, node: Node) -> dict[str, Shape]:
    if node.is_global:
        return {}
    shapes: dict[str, Shape] = {}
    for spec in getattr(node, "stores", ()):
        if isinstance(spec, str):
            above = graph.parent(node).shape
            shapes[spec] = Shape(above.key, above.value)
        elif isinstance(spec, KeyValues) and spec.settings.get("kind", "") in _KEY_VALUE_KINDS:
            shapes[spec.name] = Shape(spec.key, spec.value)
    return shapes


class ChangeLog:
    """Looks on while ``task`` runs, and notes what is put."""

    def __init__(self, task: Task) -> None:
        self.graph = task.graph
        self._noted: list[tuple[str, int, OutputRecord]] = []
        """Store, row of the chunk that caused it, and the record without its arrival."""
        task.observer = self
        for operator in task.operators.values():
            if isinstance(operator, Process):
                for name, store in operator.stores.items():
                    operator.stores[name] = self._logged(name, store, partial(_now_of, operator))

    def _logged(self, name: str, store: Any, now: Now) -> Any:
        """``store``, whose puts are noted if it has a changelog that can be read."""
        if isinstance(store, Store | TableValues):
            return _LoggedStore(store, self._noting(name, now))
        if isinstance(store, TableWindows | TableSessions):
            store.note_puts(self._noting_windows(name, now))
        return store

    def saw(self, node: Node, inputs: Sequence[Batch], forwarded: Batch, chunk: Chunk) -> None:
        """As jobs/task/chunk_run.py has it."""
        store = self.graph.store_of(node)
        if store is None or not len(forwarded) or not _is_logged(self.graph, node):
            return
        keys, values = python_keys(node.shape, forwarded), node.shape.value.to_python(forwarded.value.all())
        causes, valid, times = forwarded.cause.tolist(), forwarded.valid.tolist(), forwarded.time_ms.tolist()
        rows = zip(causes, keys, values, valid, times, strict=True)
        for cause, key, value, is_there, time_ms in rows:
            window = None if node.shape.window is None else (key.window_start_ms, key.window_end_ms)
            plain = key if window is None else key.key
            self._noted.append((store, cause, OutputRecord(plain, value if is_there else None, time_ms, window, -1)))

    def _noting(self, name: str, now: Now) -> Callable[[Any, Any], None]:
        def note(key: Any, value: Any) -> None:
            cause, time_ms = now()
            headers: Any = ()
            if isinstance(value, ValueTimestampHeaders):
                value, time_ms, headers = value
            elif isinstance(value, ValueAndTimestamp):
                value, time_ms = value
            self._noted.append((name, cause, OutputRecord(key, value, time_ms, None, -1, headers)))

        return note

    def look_at(self, name: str, store: TableValues | TableWindows | TableSessions) -> Any:
        """The store of that name as a test writes it, which is because of no record and at no time."""
        return self._logged(name, store, lambda: (0, NO_TIMESTAMP_MS))

    def _noting_windows(self, name: str, now: Now) -> Callable[[Windowed, Any, int | None], None]:
        def note(key: Windowed, value: Any, time_ms: int | None) -> None:
            cause, now_ms = now()
            window, put_ms = (key.window_start_ms, key.window_end_ms), now_ms if time_ms is None else time_ms
            self._noted.append((name, cause, OutputRecord(key.key, value, put_ms, window, -1)))

        return note

    def take(self, arrival: np.ndarray) -> Iterator[tuple[str, OutputRecord]]:
        """(changelog, record) of what was noted since; ``arrival``: of the chunk's rows. Nothing is noted then."""
        noted, self._noted = self._noted, []
        # Nodes process the whole chunk one after the other, so notes come node by node. A changelog has them by the
        # record that caused them; the sort is stable, so puts of one record keep their order.
        noted.sort(key=lambda one: one[1])
        for store, cause, record in noted:
            # A put of the test itself has no piped record: it comes with an empty ``arrival``.
            yield f"{store}{CHANGELOG}", record._replace(arrival=int(arrival[cause]) if cause < len(arrival) else -1)


def _now_of(operator: Process) -> tuple[int, int]:
    return operator.now


class _LoggedStore(KeyValueStore):
    """``store``; ``note`` is called with the key and value of each put, as the store has them."""

    def __init__(self, store: Store | TableValues, note: Callable[[Any, Any], None]) -> None:
        self._store, self._note = store, note
        self._take_key, self._take_value = HandOver(store.key.codec).keep, HandOver(store.value.codec).keep

    def get(self, key: Any) -> Any:
        return self._store.get(key)

    def put(self, key: Any, value: Any) -> None:
        self._store.put(key, value)
        self._note(self._take_key(key), self._taken(value))

    def _taken(self, value: Any) -> Any:
        """None for what deletes, as the store has it (Coder.encode_put)."""
        if not isinstance(value, ValueAndTimestamp | ValueTimestampHeaders):
            return self._take_value(value)
        if value.value is None:
            return None
        with_more: Any = value._replace(value=self._take_value(value.value))
        return with_more if isinstance(value, ValueAndTimestamp) else with_more._replace(headers=tuple(value.headers))

    def delete(self, key: Any) -> Any:
        deleted = self._store.delete(key)
        self._note(self._take_key(key), None)
        return deleted

    def range(self, first: Any = None, last: Any = None) -> Any:
        return self._store.range(first, last)

    def reverse_range(self, first: Any = None, last: Any = None) -> Any:
        return self._store.reverse_range(first, last)

    def prefix_scan(self, prefix: Any, serde: Serde) -> Any:
        return self._store.prefix_scan(prefix, serde)

    def __len__(self) -> int:
        return len(self._store)
