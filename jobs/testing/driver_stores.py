"""Stores of a test driver by their names: those of tables and aggregates, of Python processors, and of global tables.

Rule: a store is read by the method of its kind (Kafka's getKeyValueStore and so on, which give null for another kind,
where here an error names the method that reads it).
"""

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...state.compilation.kernel_tiers import tiers
from ...state.errors import ConfigError
from ...state.near_names import did_you_mean
from ...state.records.batches import Batch
from ...state.records.drop_reasons import DropReason
from ...state.times import NO_TIMESTAMP_MS
from ..functions.call_names import Hinting
from ..functions.expressions import Shape
from ..functions.processor_api import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from ..graph.graph import Node
from ..graph.nodes import GlobalTableNode
from ..operators.base.operator import InnerStore, StoreContents, StoreVersions
from ..operators.tables.key_value_view import OBSERVED
from ..task.decoding import Decoder
from ..task.task import Task
from ..topology.topology import Topology
from .driver_inputs import encoded
from .driver_records import DeadLetter, DroppedRecord
from .state_stores import Looks, Shown
from .store_edits import StoreEdit
from .store_view import StoreView, VersionedStoreView
from .written_stores import DriverKeyValueStore, DriverSessionStore, DriverVersionedStore, DriverWindowStore

StateStore = DriverKeyValueStore | DriverWindowStore | DriverSessionStore | DriverVersionedStore

_KEY_VALUE, _WINDOW, _SESSION, _VERSIONED = "key-value", "window", "session", "versioned key-value"
_READ_BY = {
    _KEY_VALUE: "get_key_value_store",
    _WINDOW: "get_window_store",
    _SESSION: "get_session_store",
    _VERSIONED: "get_versioned_key_value_store",
}
_KIND_OF_WINDOW = {None: _KEY_VALUE, "time": _WINDOW, "sliding": _WINDOW, "session": _SESSION}


class _Kind(NamedTuple):
    """Of a store: None of rows that wait; whether it knows times and headers of its values."""

    name: str | None
    knows_times: bool = False
    knows_headers: bool = False

    @property
    def shown(self) -> Shown | None:
        """What shows all that it knows."""
        if self.knows_headers:
            return ValueTimestampHeaders if self.knows_times else AggregationWithHeaders
        return ValueAndTimestamp if self.knows_times else None


class GlobalStores:
    """Rows of global tables: all of their topics, whether somebody joins them or not."""

    def __init__(self, topology: Topology) -> None:
        nodes = topology.graph.nodes.values()
        self.nodes = {node.store: node for node in nodes if isinstance(node, GlobalTableNode)}
        self._rows: dict[str, list[tuple[pa.Table, np.ndarray]]] = {node.topic: [] for node in self.nodes.values()}
        self._made: dict[str, tuple[Any, int]] = {}
        """Of global stores: the replica, and of how many parts of the topic it is made."""

    def add(self, landed: Mapping[str, tuple[pa.Table, np.ndarray]]) -> tuple[list[DroppedRecord], list[DeadLetter]]:
        """Rows of topics, and their arrivals. Gives what is refused of them, once however many tasks read the table.

        As in a table null keys are dropped; a global store's processor gets them.
        """
        dropped, dead_letters = list[DroppedRecord](), list[DeadLetter]()
        for node in self.nodes.values():
            if node.topic not in landed:
                continue
            rows, arrival = landed[node.topic]
            self._rows[node.topic].append(landed[node.topic])
            batch, bad, reasons = _decode(node, rows)
            # Without copies: only what is refused becomes Python values.
            has_time, has_key = batch.time_ms >= 0, (batch.key >= 0) | bool(node.made_by)
            for row in np.flatnonzero(bad | ~has_time | ~has_key).tolist():
                one = {name: rows[name][row].as_py() for name in ("offset", "context_offset", "key", "value")}
                offset = one["offset"] if one["context_offset"] is None else one["context_offset"]
                if row in reasons:
                    letter = node.topic, offset, reasons[row], one["key"], one["value"]
                    dead_letters.append(DeadLetter(*letter, int(arrival[row])))
                    continue
                reason = DropReason.NULL_KEY if has_time[row] else DropReason.NEGATIVE_TIMESTAMP
                # A global table is no task's: there is no stream time.
                place = node.name, reason.value, node.topic, offset
                times = int(batch.time_ms[row]), NO_TIMESTAMP_MS, None, None
                dropped.append(DroppedRecord(*place, *times, int(arrival[row])))
        return dropped, dead_letters

    def forget_after(self, arrival: int) -> None:
        """Records of later arrivals did not come."""
        # A replica cannot give back what it has taken; it is made again of the records that remain.
        self._made.clear()
        for topic, parts in self._rows.items():
            self._rows[topic] = [(rows.filter(pa.array(at <= arrival)), at[at <= arrival]) for rows, at in parts]

    def made(self, store: str) -> InnerStore | None:
        """What the processor of a global store has made of its topic's records; None of a global table."""
        node = self.nodes[store]
        if not node.made_by:
            return None
        parts = self._rows[node.topic]
        replica, taken = self._made.get(store) or (node.found_at(node.made_by)(node), 0)
        for rows, _ in parts[taken:]:
            batch, is_read = _decoded(node, rows)
            replica.take(_records(batch.take(np.flatnonzero(is_read))))
        self._made[store] = replica, len(parts)
        inner: InnerStore = replica.store
        return inner

    def contents(self, store: str) -> StoreContents:
        """A record replaces what its key had, whatever its time; null deletes it, a null key is passed over
        (GlobalStateUpdateTask). Of a global store: what its processor makes of all records.
        """
        made, node = self.made(store), self.nodes[store]
        if made is not None:
            return made.contents()
        key, value = node.shape.key, node.shape.value
        columns = {"key": key.arrow_type, "value": value.arrow_type, "record_time_ms": pa.int64()}
        parts = [rows for rows, _ in self._rows[node.topic]]
        if not parts:
            return StoreContents(key, value, pa.schema(list(columns.items())).empty_table())
        batch, is_read = _decoded(node, pa.concat_tables(parts, promote_options="default"))
        rows = np.flatnonzero(is_read & (batch.key >= 0))
        last = dict(zip(batch.key[rows].tolist(), rows.tolist(), strict=True))
        kept = np.array([row for row in last.values() if batch.valid[row]], np.int64)
        shown = [
            batch.keys.typed(batch.key[kept]),
            batch.value.all().take(pa.array(kept)),
            pa.array(batch.time_ms[kept], pa.int64()),
        ]
        return StoreContents(key, value, pa.table(shown, names=list(columns)))


def _decoded(node: GlobalTableNode, rows: pa.Table) -> tuple[Batch, np.ndarray]:
    """Records of a global table's topic, and which of them can be read and have a time."""
    batch, bad, _ = _decode(node, rows)
    return batch, ~bad & (batch.time_ms >= 0)


def _decode(node: GlobalTableNode, rows: pa.Table) -> tuple[Batch, np.ndarray, dict[int, str]]:
    """Records of a global table's topic, which of them cannot be read, and why."""
    return Decoder().decode(node, rows.combine_chunks(), np.arange(len(rows)))


class StoreReader(Hinting):
    """The part of a test driver that reads and writes stores."""

    topology: Topology
    _globals: GlobalStores
    _shown: dict[str, StoreContents]
    """By store, what was read since records were played last."""

    @abstractmethod
    def run(self) -> None:
        """Process what was piped."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raises ConfigError once the driver is closed."""

    @abstractmethod
    def _edit(self, edit: StoreEdit) -> None:
        """Put into a store, behind what was piped."""

    @property
    @abstractmethod
    def _tasks(self) -> list[Task]: ...

    def store(self, name: str) -> StoreView:
        """What the store ``name`` shows now, whatever its kind, in the short form.

        Raises ConfigError for a name that no store has, and for one of rows that are no values by key (records that
        wait in a join).
        """
        self._check_open()
        self._check_name("store", name)
        self.run()
        with tiers.running():
            return self._version_view(name) or StoreView(self._contents(name))

    def get_key_value_store(self, name: str) -> DriverKeyValueStore:
        """Values by key of a table, an aggregate without windows, a processor's or a global store, without their times
        (Kafka's getKeyValueStore). Raises ConfigError for another store's name.
        Example: ``driver.get_key_value_store("counts").get("ann")``.
        """
        self._check(name, _KEY_VALUE)
        return DriverKeyValueStore(name, self._looks_into(name), edit=self._edit)

    def get_timestamped_key_value_store(self, name: str) -> DriverKeyValueStore:
        """As ``get_key_value_store``, with ``ValueAndTimestamp`` values. Raises ConfigError also for a store that knows
        no times, such as a processor's key-value store.
        """
        self._check(name, _KEY_VALUE, needs_times=True)
        return DriverKeyValueStore(name, self._looks_into(name), ValueAndTimestamp, edit=self._edit)

    def get_timestamped_key_value_store_with_headers(self, name: str) -> DriverKeyValueStore:
        """As ``get_key_value_store``, with ``ValueTimestampHeaders`` values. Raises ConfigError also for a store that
        keeps no headers, such as a table's.
        """
        self._check(name, _KEY_VALUE, needs_times=True, needs_headers=True)
        return DriverKeyValueStore(name, self._looks_into(name), ValueTimestampHeaders, edit=self._edit)

    def get_window_store(self, name: str) -> DriverWindowStore:
        """Values by key and window of a windowed aggregate (Kafka's getWindowStore). Raises ConfigError for another
        store's name. Example: ``driver.get_window_store("hourly").fetch("ann", 0, 3_600_000)``.
        """
        self._check(name, _WINDOW)
        return DriverWindowStore(name, self._looks_into(name), edit=self._edit)

    def get_timestamped_window_store(self, name: str) -> DriverWindowStore:
        """As ``get_window_store``, with ``ValueAndTimestamp`` values."""
        self._check(name, _WINDOW, needs_times=True)
        return DriverWindowStore(name, self._looks_into(name), ValueAndTimestamp, edit=self._edit)

    def get_timestamped_window_store_with_headers(self, name: str) -> DriverWindowStore:
        """As ``get_window_store``, with ``ValueTimestampHeaders`` values. Raises ConfigError also for a store that
        keeps no headers, such as an aggregate's.
        """
        self._check(name, _WINDOW, needs_times=True, needs_headers=True)
        return DriverWindowStore(name, self._looks_into(name), ValueTimestampHeaders, edit=self._edit)

    def get_session_store(self, name: str) -> DriverSessionStore:
        """Aggregates by key and session (Kafka's getSessionStore). Raises ConfigError for another store's name.
        Example: ``driver.get_session_store("visits").find_sessions("ann", 0, 60_000)``.
        """
        self._check(name, _SESSION)
        return DriverSessionStore(name, self._looks_into(name), edit=self._edit)

    def get_session_store_with_headers(self, name: str) -> DriverSessionStore:
        """As ``get_session_store``, with ``AggregationWithHeaders`` values. Raises ConfigError also for a store that
        keeps no headers, such as an aggregate's.
        """
        self._check(name, _SESSION, needs_headers=True)
        return DriverSessionStore(name, self._looks_into(name), AggregationWithHeaders, edit=self._edit)

    def get_versioned_key_value_store(self, name: str) -> DriverVersionedStore:
        """Versions by key and time (Kafka's getVersionedKeyValueStore). Raises ConfigError for another store's name.
        Example: ``driver.get_versioned_key_value_store("prices").get("tea", as_of=1_000)``.
        """
        self._check(name, _VERSIONED)
        return DriverVersionedStore(name, partial(self._versions, name), edit=self._edit)

    def get_all_state_stores(self) -> dict[str, StateStore]:
        """Every store that one of the methods above reads, by name, with timestamps and headers where it knows them.
        Buffers of joins, suppress and deduplication are not among them: ``store(name)`` shows what it can of them.
        """
        kinds = {name: self._kind(name) for name in self._names()}
        stores: dict[str, StateStore] = {}
        for name, kind in kinds.items():
            if kind.name == _KEY_VALUE:
                stores[name] = DriverKeyValueStore(name, self._looks_into(name), kind.shown, edit=self._edit)
            elif kind.name == _WINDOW:
                stores[name] = DriverWindowStore(name, self._looks_into(name), kind.shown, edit=self._edit)
            elif kind.name == _SESSION:
                stores[name] = DriverSessionStore(name, self._looks_into(name), kind.shown, edit=self._edit)
            elif kind.name == _VERSIONED:
                stores[name] = DriverVersionedStore(name, partial(self._versions, name), edit=self._edit)
        return stores

    def _looks_into(self, name: str) -> Looks:
        return Looks(partial(self._now, name), partial(self._of_key, name))

    # --- finding ---------------------------------------------------------------------------------------------

    def _check(self, name: str, kind: str, *, needs_times: bool = False, needs_headers: bool = False) -> None:
        method = _READ_BY[kind].replace("get_", "get_timestamped_") if needs_times else _READ_BY[kind]
        expected = f"a {'timestamped ' if needs_times else ''}{kind} store"
        if needs_headers:
            method, expected = f"{method}_with_headers", f"{expected} with headers"
        self._check_name(method, name)
        store = self._kind(name)
        if store.name == kind and needs_times <= store.knows_times and needs_headers <= store.knows_headers:
            return
        got, reader = f"{name!r}, a {store.name} store" if store.name else f"{name!r}, whose rows wait", "store"
        if store.name:
            reader = _READ_BY[store.name]
        raise ConfigError(method, expected, got, f"read it by {reader}({name!r})")

    def _check_name(self, method: str, name: str) -> None:
        """Raises ConfigError for a name that no store has; the stores of a processor are asked for one by one."""
        names = self._names()
        if name in names:
            return
        tables = (task.stores.get(name) for task in self._tasks)
        inner = [one for table in tables if table is not None for one in table.inner_stores()]
        next_step, got = did_you_mean(str(name), names, "name a store of the topology"), repr(name)
        if inner:
            next_step = f"name one of {', '.join(map(repr, inner))}"
            got = f"{name!r}, which keeps the rows of these stores"
        raise ConfigError(method, f"one of {names}", got, next_step)

    def _names(self) -> list[str]:
        own = [name for task in self._tasks for name in task.stores if not task.stores[name].inner_stores()]
        inner = [name for task in self._tasks for one in task.stores.values() for name in one.inner_stores()]
        return [*own, *inner, *self._globals.nodes]

    def _kind(self, name: str) -> _Kind:
        if name in self._globals.nodes:
            return _Kind(_KEY_VALUE, "record_time_ms" in self._contents(name).rows.column_names)
        store = self._inner(name)
        if store is not None:
            # Only the columns are needed. The rows of one key, which need not exist, have them all and
            # cost no read of the store.
            inner = store.contents_of(b"")
            known = inner.rows.column_names
            if inner.versions is not None:
                return _Kind(_VERSIONED, knows_times=True)
            return _Kind(_KIND_OF_WINDOW[inner.window], "record_time_ms" in known, "headers" in known)
        node = self.topology.stores()[name]
        traits = self.topology.graph.tables.get(node.name)
        spec = None if traits is None else traits.store
        if spec is not None and spec.is_versioned:
            return _Kind(_VERSIONED, knows_times=True)
        if (spec is None or spec.name != name) and (node.shape.window is None or node.holds_back):
            return _Kind(None)
        # Kafka has no timestamped session store: an aggregate's time is the end of its session.
        return _Kind(_KIND_OF_WINDOW[node.shape.window], knows_times=node.shape.window != "session")

    def _inner(self, name: str) -> InnerStore | None:
        stores = (one.inner_stores().get(name) for task in self._tasks for one in task.stores.values())
        return next((store for store in stores if store is not None), None)

    def _now(self, name: str) -> StoreContents:
        self._check_open()
        self.run()
        with tiers.running():
            return self._contents(name)

    def _of_key(self, name: str, key: Any) -> StoreContents | None:
        """What the store shows of one key, where it finds that without its other rows."""
        self._check_open()
        self.run()
        with tiers.running():
            store = self._globals.made(name) if name in self._globals.nodes else self._inner(name)
            if store is None:
                return None
            (data,) = encoded(store.key, [key])
            assert data is not None, "nobody asks for a null key"
            return store.contents_of(data)

    def _contents(self, name: str) -> StoreContents:
        if name not in self._shown:
            self._shown[name] = self._read_contents(name)
        return self._shown[name]

    def _read_contents(self, name: str) -> StoreContents:
        if name in self._globals.nodes:
            return self._globals.contents(name)
        inner = self._inner(name)
        if inner is not None:
            return inner.contents()
        for task in self._tasks:
            if name in task.stores:
                return _shown(name, task.sub_topology.stores[name], task.stores[name].contents())
        raise ConfigError("store", f"one of {self._names()}", repr(name), "name a store of the topology")

    def _versions(self, name: str) -> VersionedStoreView:
        self._check_open()
        self.run()
        with tiers.running():
            view = self._version_view(name)
        assert view is not None
        return view

    def _version_view(self, name: str) -> VersionedStoreView | None:
        """None of a store without versions."""
        store = self._inner(name)
        if store is not None:
            inner = self._contents(name)
            shape = Shape(inner.key, inner.value)
            return None if inner.versions is None else VersionedStoreView(name, shape, inner.versions)
        task = next((task for task in self._tasks if name in task.stores), None)
        if task is None or "valid_from_ms" not in (rows := task.stores[name].contents()).column_names:
            return None
        node = task.sub_topology.stores[name]
        spec = task.graph.tables[node.name].store
        assert spec is not None
        assert spec.history_retention_ms is not None
        versions = StoreVersions(rows, spec.history_retention_ms, int(rows.schema.metadata[OBSERVED]))
        return VersionedStoreView(name, node.shape, versions)


def _records(batch: Batch) -> pa.Table:
    """Of a global store's topic, as its processor takes them."""
    times = pa.array(batch.time_ms, pa.int64())
    columns = {"key": batch.keys.typed(batch.key), "value": batch.value.all(), "record_time_ms": times}
    return pa.table(columns if batch.headers is None else columns | {"headers": batch.headers})


def _shown(name: str, node: Node, rows: pa.Table) -> StoreContents:
    if not {"key", "value"} <= {*rows.column_names}:
        got = f"the rows of {node.name}, with {', '.join(rows.column_names)}"
        raise ConfigError(f"store {name!r}", "a store of values by key", got, "look at the outputs that come of them")
    return StoreContents(node.shape.key, node.shape.value, rows, node.shape.window)
