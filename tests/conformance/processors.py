"""The scenario language's processors, by name, and how it says them and their stores; each uses the first of its
stores. Values are strings.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from kstreams_replay.jobs.functions.expressions import Windowed
from kstreams_replay.jobs.functions.processor_api import (
    AggregationWithHeaders,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    FixedKeyRecord,
    Headers,
    KeyValues,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    ValueAndTimestamp,
    ValueTimestampHeaders,
)
from kstreams_replay.jobs.functions.state_stores import Stores
from kstreams_replay.jobs.topology import KStream
from tests.conformance.functions import STRING, NotCovered, split


class NamedProcessor(Processor):
    """Of ``process``, and within KeepingKeys of ``process_values``.

    ``function``: name, or name:argument; ``stores``: names.
    """

    def __init__(self, function: str, stores: list[str]) -> None:
        self.name, self.argument = split(function)
        self.stores = stores
        if not hasattr(self, f"_{self.name}"):
            raise NotCovered(f"processor {function}")

    def init(self, context) -> None:
        super().init(context)
        self.store: Any = context.store(self.stores[0]) if self.stores else None
        if self.name == "tick":
            context.schedule(int(self.argument), PunctuationType.STREAM_TIME, self._punctuate)
        if self.name == "expire":
            context.schedule(int(self.argument), PunctuationType.STREAM_TIME, self._expire_old)
        if self.name in ("clock", "clocks"):
            context.schedule(int(self.argument), PunctuationType.WALL_CLOCK_TIME, self._punctuate)
        if self.name == "clocks":
            context.schedule(int(self.argument), PunctuationType.STREAM_TIME, self._punctuate)

    def process(self, record: Record) -> None:
        if record.key is None:
            self.context.forward(record.with_value("no key"))
        else:
            getattr(self, f"_{self.name}")(record, text(record.value))

    def _echo(self, record: Record, value: str) -> None:
        self._say(record, f"{self.argument}: {value}")

    def _route(self, record: Record, value: str) -> None:
        children = self.argument.split("+")
        self.context.forward(record.with_value(f"{value} alone"), child=children[len(value) % len(children)])
        self._say(record, f"{value} for all")

    def _punctuate(self, time_ms: int) -> None:
        self.context.forward(Record("tick", f"{told(self.store.all())}@{time_ms}", time_ms))
        self.store.put("tick", str(time_ms))

    def _expire(self, record: Record, value: str) -> None:
        self.store.put(record.key, None if record.value is None else str(record.timestamp_ms))

    def _expire_old(self, time_ms: int) -> None:
        """A tombstone of every key that has not been written for so long."""
        for key in [key for key, written in self.store.all() if time_ms - int(written) >= int(self.argument)]:
            self.context.forward(Record(key, None, time_ms))
            self.store.delete(key)

    def _say(self, record: Record, value: str) -> None:
        self.context.forward(record.with_value(value))

    def _around(self, record: Record, value: str) -> None:
        self._say(record, f"before {text(self.store.get(record.key))}")
        self.store.put(record.key, value)
        self._say(record, f"after {text(self.store.get(record.key))}")

    def _append(self, record: Record, value: str) -> None:
        self.store.put(record.key, (self.store.get(record.key) or "") + value)
        self._say(record, self.store.get(record.key))

    def _read(self, record: Record, value: str) -> None:
        self._say(record, f"{value} sees {text(self.store.get(record.key))}")

    def _list(self, record: Record, value: str) -> None:
        self._say(record, f"{value} sees {told(self.store.all())}")

    def _range(self, record: Record, value: str) -> None:
        bounds = self.argument.split("-")
        self._say(record, f"{told(self.store.range(*bounds))} {told(self.store.reverse_range(*bounds))}")

    def _remove(self, record: Record, value: str) -> None:
        self._say(record, f"removed {text(self.store.delete(record.key))}")

    def _absent(self, record: Record, value: str) -> None:
        self._say(record, f"had {text(self.store.put_if_absent(record.key, value))}")

    def _twice(self, record: Record, value: str) -> None:
        self._say(record, f"{value}1")
        later = record.with_key(f"{record.key}'").with_timestamp(record.timestamp_ms + 1)
        self._say(later, f"{value}2")

    def _bump(self, record: Record, value: str) -> None:
        bumped = None if record.value is None else ValueAndTimestamp(f"{value}!", record.timestamp_ms + 1)
        self.store.put(record.key, bumped)
        self._say(record, text(self.store.get(record.key)))

    def _wput(self, record: Record, value: str) -> None:
        self.store.put(record.key, self._timed(record, value), record.timestamp_ms)
        self._say(record, text(self.store.fetch(record.key, record.timestamp_ms)))

    def _timed(self, record: Record, value: str) -> Any:
        if record.value is None:
            return None
        if self.argument == "headers":
            return ValueTimestampHeaders(value, record.timestamp_ms + 1, headers(record.key, value))
        return ValueAndTimestamp(value, record.timestamp_ms + 1) if self.argument == "timed" else value

    def _wlook(self, record: Record, value: str) -> None:
        near = record.timestamp_ms - int(self.argument), record.timestamp_ms + int(self.argument)
        store, key = self.store, record.key
        parts = [
            text(store.fetch(key, record.timestamp_ms)),
            told(store.fetch_range(key, *near)),
            told(store.backward_fetch_range(key, *near)),
            told(store.fetch_keys("a", "b", *near)),
            told(store.backward_fetch_keys(None, "b", *near)),
            told(store.fetch_all(*near)),
            told(store.backward_fetch_all(*near)),
            told(store.all()),
            told(store.backward_all()),
        ]
        self._say(record, " ".join(parts))

    def _sput(self, record: Record, value: str) -> None:
        """A session that ends at the record's time, as long as the number in its value says."""
        length, _, said = value.partition(" ")
        key = Windowed(record.key, max(record.timestamp_ms - int(length), 0), record.timestamp_ms)
        if said == "remove":
            self.store.remove(key)
        elif self.argument == "headers":
            self.store.put(key, AggregationWithHeaders(said or None, headers(record.key, said)))
        else:
            self.store.put(key, said or None)
        self._say(record, text(self.store.fetch_session(record.key, key.window_start_ms, key.window_end_ms)))

    def _slook(self, record: Record, value: str) -> None:
        store, key, at, near = self.store, record.key, record.timestamp_ms, int(self.argument.removesuffix("+all"))
        parts = [
            told(store.fetch(key)),
            told(store.backward_fetch(key)),
            told(store.fetch("a", "b")),
            told(store.find_sessions(key, at - near, at + near)),
            told(store.backward_find_sessions(key, at - near, at + near)),
            told(store.find_sessions("a", "b", at - near, at + near)),
            told(store.backward_find_sessions("a", "b", at - near, at + near)),
        ]
        if self.argument.endswith("+all"):
            parts.append(told(store.find_sessions(max(at - near, 0), at + near)))
        self._say(record, " ".join(parts))

    def _vput(self, record: Record, value: str) -> None:
        if value == "delete":
            self._say(record, f"deleted {versioned(self.store.delete(record.key, record.timestamp_ms))}")
        else:
            answer = self.store.put(record.key, None if record.value is None else value, record.timestamp_ms)
            self._say(record, f"{answer} {versioned(self.store.get(record.key))}")

    def _vlook(self, record: Record, value: str) -> None:
        as_of = [versioned(self.store.get(record.key, int(time))) for time in value.split("+")]
        self._say(record, " ".join([versioned(self.store.get(record.key)), *as_of]))

    def _tput(self, record: Record, value: str) -> None:
        timed = None if record.value is None else ValueAndTimestamp(value, record.timestamp_ms + 1)
        self._say(record, f"had {text(self.store.get(record.key))}")
        self.store.put(record.key, self._timed(record, value) if self.argument == "headers" else timed)
        self._say(record, told(self.store.all()))

    def _tick(self, record: Record, value: str) -> None:
        self._say(record, value)

    _clock = _clocks = _tick


class KeepingKeys(FixedKeyProcessor):
    """A windowed record's key is that of its store without the window."""

    def __init__(self, function: str, stores: list[str]) -> None:
        self.named = NamedProcessor(function, stores)

    def init(self, context) -> None:
        self.context: Any = _Sending(context)
        self.named.init(self.context)

    def process(self, record: FixedKeyRecord) -> None:
        self.context.now = record
        key = record.key.key if isinstance(record.key, Windowed) else record.key
        self.named.process(Record(key, record.value, record.timestamp_ms))


class Silent(Processor):
    """Of a global store: what it would forward goes nowhere."""

    def __init__(self, function: str, stores: list[str]) -> None:
        self.named = NamedProcessor(function, stores)

    def init(self, context) -> None:
        self.named.init(_Nowhere(context))  # type: ignore[no-untyped-call]

    def process(self, record: Record) -> None:
        self.named.process(record)


class _Nowhere:
    """A context that has stores alone."""

    def __init__(self, context: ProcessorContext) -> None:
        self.store = context.store

    def forward(self, record: Record) -> None:
        pass


class _Sending:
    """A context that sends values of the record that is processed."""

    def __init__(self, context: FixedKeyProcessorContext) -> None:
        self.context, self.store = context, context.store
        self.now: Any = None

    def forward(self, record: Record, *, child: str | None = None) -> None:
        self.context.forward(self.now.with_value(record.value), child=child)


def versioned(found: Any) -> str:
    if found is None:
        return "none"
    return f"{found.value}@{found.timestamp_ms}/{'' if found.valid_to_ms is None else found.valid_to_ms}"


def headers(key: str, value: str) -> Headers:
    """None for "bare", else the key, and one without content."""
    return () if value == "bare" else (("by", key.encode()), ("none", None))


def told(rows: Iterable[tuple[Any, Any]]) -> str:
    return "[" + " ".join(f"{_key(key)}={text(value)}" for key, value in rows) + "]"


def _key(key: Any) -> str:
    return f"{key.key}@{key.window_start_ms}/{key.window_end_ms}" if isinstance(key, Windowed) else str(key)


def text(found: Any) -> str:
    """A value, or one with its time, as Java's program says it."""
    if isinstance(found, ValueTimestampHeaders | AggregationWithHeaders):
        *rest, of = found
        beside = ",".join(f"{name}:{'null' if content is None else content.decode()}" for name, content in of)
        return f"{'@'.join(map(text, rest))}{{{beside}}}"
    if isinstance(found, ValueAndTimestamp):
        return f"{text(found.value)}@{found.timestamp_ms}"
    if isinstance(found, dict):  # a variant
        return text(found["string"] if found["long"] is None else found["long"])
    return "null" if found is None else str(found)


# --- nodes of the language -----------------------------------------------------------------------------------


def state_store(translation: Any, node: dict[str, Any]) -> None:
    """Of strings, for the processors that name it."""
    translation.builder.add_state_store(_store(node))


def global_store(translation: Any, node: dict[str, Any]) -> None:
    """Of strings, which its processor keeps."""
    supplier = partial(Silent, node["processor"], [node["id"]])
    translation.builder.add_global_store(_store(node), node["topic"], translation.consumed(node), supplier)


def _store(node: dict[str, Any]) -> KeyValues:
    """Named as the node."""
    name, kind, serdes = node["id"], node["kind"], (STRING, STRING)
    on_disk = Stores.persistent_window_store if kind == "window" else Stores.persistent_timestamped_window_store
    windows = {"in_memory": Stores.in_memory_window_store, "rocksdb": on_disk}
    if kind.endswith("_headers"):
        return _store_with_headers(node, kind)
    if kind == "session":
        sessions = {"in_memory": Stores.in_memory_session_store, "rocksdb": Stores.persistent_session_store}
        return Stores.session_store_builder(sessions[node["store"]](name, node["retention"]), *serdes)
    if kind == "versioned":
        supplier = Stores.persistent_versioned_key_value_store(name, node["retention"], node.get("segment"))
        return Stores.versioned_key_value_store_builder(supplier, *serdes)
    if kind == "key_value":
        return Stores.key_value_store_builder(Stores.in_memory_key_value_store(name), *serdes)
    if kind == "timestamped":
        return Stores.timestamped_key_value_store_builder(Stores.in_memory_key_value_store(name), *serdes)
    opened = windows[node["store"]](name, node["retention"], node["size"], bool(node.get("duplicates")))
    build = Stores.window_store_builder if kind == "window" else Stores.timestamped_window_store_builder
    return build(opened, *serdes)


def _store_with_headers(node: dict[str, Any], kind: str) -> KeyValues:
    """In memory or in RocksDB (KIP-1271)."""
    name, is_in_memory, serdes = node["id"], node["store"] == "in_memory", (STRING, STRING)
    if kind == "timestamped_headers":
        on_disk = Stores.persistent_timestamped_key_value_store_with_headers
        keyed = Stores.in_memory_key_value_store if is_in_memory else on_disk
        return Stores.timestamped_key_value_store_with_headers_builder(keyed(name), *serdes)
    if kind == "session_headers":
        sessions = Stores.in_memory_session_store if is_in_memory else Stores.persistent_session_store_with_headers
        return Stores.session_store_with_headers_builder(sessions(name, node["retention"]), *serdes)
    of_windows = Stores.persistent_timestamped_window_store_with_headers
    windows = Stores.in_memory_window_store if is_in_memory else of_windows
    opened = windows(name, node["retention"], node["size"])
    return Stores.timestamped_window_store_with_headers_builder(opened, *serdes)


def process(translation: Any, node: dict[str, Any], stream: KStream) -> KStream:
    stores = node["stores"].split("+") if "stores" in node else []
    keeps_keys = node["op"] == "process_values"
    call = stream.process_values if keeps_keys else stream.process
    supplier = partial(KeepingKeys if keeps_keys else NamedProcessor, node["processor"], stores)
    return call(supplier, stores, returns=STRING, name=node.get("name"))
