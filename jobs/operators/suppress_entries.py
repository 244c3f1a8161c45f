"""What waits in a suppress buffer: an entry a key (and window), in memory, in a file beyond a bound, and as durable
rows.

Owns the entries' slots and values. An entry is (buffer time; of its latest change: new and old value, headers, time and
context; the prior value: what its first change replaced). A kernel refers to row r of a batch as ``-(r + 2)``; before
the batch is gone, what stays goes from it to the heaps.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.kernels.suppress import NO_VALUE, hashes
from jobs.operators.operator import Place
from state.buffers import binary_view, is_valid
from state.records import Batch, Chunk
from state.serdes import Serde
from state.stores.slots import LIVE, Slots
from state.stores.spilling_heap import SpillingHeap
from state.stores.value_heap import ValueHeap
from state.tables import HEADERS

CONTEXT_BYTES = 20
"""Timestamp, offset and partition of the record context, which Kafka counts in an entry's size beside the topic's
name and the headers.
"""


class BufferSlots(Slots):
    """Entries: ``due`` is the buffer time, ``reference`` and ``prior`` refer to the heaps (NO_VALUE: nothing),
    ``leaves`` is the row of the call at which the entry goes; sizes in bytes.
    """

    beside = ("due", "reference", "prior", "leaves")
    extra: ClassVar[Mapping[str, type]] = {"bytes": np.int64, "prior_bytes": np.int64, "prior_hash": np.int64}
    due: np.ndarray
    reference: np.ndarray
    prior: np.ndarray
    leaves: np.ndarray
    bytes: np.ndarray
    prior_bytes: np.ndarray
    prior_hash: np.ndarray

    def entries(self) -> tuple[np.ndarray, ...]:
        """What kernels take as ``entries``; right until the next ``reserve``."""
        return self.due, self.reference, self.prior, self.leaves, self.bytes, self.prior_bytes, self.prior_hash


class Entries:
    """``value``: serde of the table's values. ``keeps_tombstones``: deletions are forwarded, so they need a reference.
    ``counts_bytes``: sizes are Kafka's; else 0. ``memory``: (values, bytes) that may stay in memory, None: all.
    """

    def __init__(
        self,
        place: Place,
        value: Serde,
        *,
        keeps_tombstones: bool,
        counts_bytes: bool,
        memory: tuple[int, int] | None,
    ) -> None:
        self.place, self.value = place, value
        self.keeps_tombstones, self.counts_bytes = keeps_tombstones, counts_bytes
        self.slots = BufferSlots()
        fields = [("value", value.arrow_type), ("old", value.arrow_type), ("headers", HEADERS)]
        self.change = pa.struct([*fields, ("topic", pa.int16()), ("offset", pa.int64()), ("seen_ms", pa.int64())])
        self.latest, self.priors = (self._heap(kind, memory) for kind in (self.change, value.arrow_type))
        self._topics: dict[str, int] = {}

    @staticmethod
    def _heap(kind: pa.DataType, memory: tuple[int, int] | None) -> ValueHeap:
        if memory is None:
            return ValueHeap(kind)
        return SpillingHeap(kind, records_max=memory[0], bytes_max=memory[1] // 2)

    @property
    def is_windowed(self) -> bool:
        return self.place.shape.window is not None

    def sizes(self, batch: Batch, chunk: Chunk) -> tuple[np.ndarray, ...]:
        """Bytes that Kafka counts for each change: (key, context and time; new; old or -1; hash of old)."""
        if not self.counts_bytes:
            return (np.zeros(0, np.int64),) * 4
        assert batch.old is not None
        assert batch.old_valid is not None
        keys = self.place.keys
        window_bytes = {None: 0, "session": 16}.get(self.place.shape.window, 8)
        topic_bytes = np.array([*(_chars(topic) for topic in chunk.context_topics), 0], np.int64)
        fixed = 8 + np.diff(keys.offsets)[batch.key] + window_bytes + CONTEXT_BYTES
        fixed = fixed + topic_bytes[batch.coordinates(chunk)[0]] + header_bytes(batch)
        return fixed.astype(np.int64), self.value.sizes(batch.value.all()), *self._weighed(batch.old.all())

    def _weighed(self, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Serialized size of each value, -1 for null, and a hash of its bytes, 0 for null."""
        valid, encoded = is_valid(values), binary_view(self.value.encode(values))
        with np.errstate(over="ignore"):  # the hash wraps; NumPy would say so when JIT is off
            found = hashes(encoded.data, encoded.offsets)
        return np.where(valid, self.value.sizes(values), -1), np.where(valid, found, 0)

    def settle(self, batch: Batch, chunk: Chunk, seen_ms: np.ndarray, leaving: np.ndarray) -> pa.StructArray:
        """Latest changes of the references ``leaving``; those of what stays go from the batch to the heap.

        ``seen_ms``: stream time after every row of the batch.
        """
        slots = self.slots
        stays = np.flatnonzero(slots.reference < NO_VALUE)
        is_fresh = leaving < NO_VALUE
        n = int(is_fresh.sum())
        rows = np.concatenate([-leaving[is_fresh] - 2, -slots.reference[stays] - 2])
        fresh = self._changes(batch, chunk, seen_ms, rows)
        kept = None if n == len(leaving) else self.latest.take(leaving[~is_fresh])
        slots.reference[stays] = self.latest.append(fresh.slice(n)) + np.arange(len(stays))
        self.latest.keep_only(slots.reference)
        self._settle_priors(batch)
        if kept is None:
            return fresh.slice(0, n)
        places = np.empty(len(leaving), np.int64)
        places[~is_fresh] = np.arange(len(kept))
        places[is_fresh] = len(kept) + np.arange(n)
        return pa.concat_arrays([kept, fresh.slice(0, n)]).take(pa.array(places))

    def _settle_priors(self, batch: Batch) -> None:
        if batch.old is not None:
            stays = np.flatnonzero(self.slots.prior < NO_VALUE)
            base = self.priors.append(batch.old.take(-self.slots.prior[stays] - 2))
            self.slots.prior[stays] = base + np.arange(len(stays))
            self.priors.keep_only(self.slots.prior)

    def _changes(self, batch: Batch, chunk: Chunk, seen_ms: np.ndarray, rows: np.ndarray) -> pa.StructArray:
        n = len(rows)
        has_old = batch.old is not None and self.place.wants_old
        topic, offset = batch.coordinates(chunk)
        codes = np.array([*(self._topic(name) for name in chunk.context_topics), -1], np.int16)
        columns = [
            batch.value.take(rows),
            batch.old.take(rows) if has_old and batch.old is not None else pa.nulls(n, self.value.arrow_type),
            pa.nulls(n, HEADERS) if batch.headers is None else batch.headers.take(pa.array(rows)),
            pa.array(codes[topic[rows]]),
            pa.array(offset[rows]),
            pa.array(seen_ms[rows]),
        ]
        return pa.StructArray.from_arrays(columns, fields=list(self.change))

    def _topic(self, name: str) -> int:
        return self._topics.setdefault(name, len(self._topics))

    def context(self, changes: pa.StructArray, chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
        """Of every change, as in ``Batch.context``."""
        place = {topic: number for number, topic in enumerate(chunk.context_topics)}
        places = np.array([*(place.get(topic, -1) for topic in self._topics), -1], np.int16)
        return places[changes.field("topic").to_numpy()], changes.field("offset").to_numpy()

    # --- state -----------------------------------------------------------------------------------------------

    def load(self, rows: pa.Table) -> np.ndarray:
        """Take back durable rows; their slots."""
        rows, slots = rows.combine_chunks(), self.slots
        key = self.place.keys.intern(self.place.shape.key.encode(_column(rows, "key")))
        bounds = [rows[name].to_numpy() if self.is_windowed else np.zeros(len(rows), np.int64) for name in _BOUNDS]
        at = slots.add(key, bounds[0], bounds[1], rows["record_time_ms"].to_numpy())
        slots.due[at], slots.bytes[at] = rows["buffer_time_ms"].to_numpy(), rows["bytes"].to_numpy()
        value, prior = _column(rows, "value"), _column(rows, "prior")
        topics = [-1 if topic is None else self._topic(topic) for topic in rows["context_topic"].to_pylist()]
        columns = [
            value,
            _column(rows, "old"),
            _column(rows, "headers"),
            pa.array(topics, pa.int16()),
            _column(rows, "context_offset"),
            _column(rows, "stream_time_ms"),
        ]
        latest = pa.StructArray.from_arrays(columns, fields=list(self.change))
        has_change = is_valid(value) | self.keeps_tombstones
        slots.reference[at] = np.where(has_change, self.latest.append(latest) + np.arange(len(at)), NO_VALUE)
        slots.prior[at] = np.where(is_valid(prior), self.priors.append(prior) + np.arange(len(at)), NO_VALUE)
        if self.counts_bytes:
            slots.prior_bytes[at], slots.prior_hash[at] = self._weighed(prior)
        return at

    def schema(self) -> pa.Schema:
        kind = self.value.arrow_type
        bounds = [(name, pa.int64()) for name in _BOUNDS] if self.is_windowed else []
        times = [(name, pa.int64()) for name in ("record_time_ms", "buffer_time_ms", "stream_time_ms", "bytes")]
        values = [("value", kind), ("old", kind), ("prior", kind), ("headers", HEADERS)]
        context = [("context_topic", pa.string()), ("context_offset", pa.int64())]
        return pa.schema([("key", self.place.shape.key.arrow_type), *bounds, *values, *context, *times])

    def table(self, at: np.ndarray) -> pa.Table:
        """Rows of the slots ``at``; only the key and the window are there where no entry is any more."""
        slots = self.slots
        is_live = (slots.flags[at] & LIVE) > 0
        latest = self.latest.take(np.where(is_live, slots.reference[at], NO_VALUE))
        topics = pa.array(list(self._topics), pa.string())
        topic = latest.field("topic")
        columns = {
            "key": self.place.keys.typed(slots.key[at]),
            "window_start_ms": pa.array(slots.start[at]),
            "window_end_ms": pa.array(slots.end[at]),
            "prior": self.priors.take(np.where(is_live, slots.prior[at], NO_VALUE)),
            "context_topic": topics.take(pc.if_else(pc.less(topic, 0), None, topic)),
            "context_offset": latest.field("offset"),
            "record_time_ms": pa.array(slots.time[at]),
            "buffer_time_ms": pa.array(slots.due[at]),
            "stream_time_ms": latest.field("seen_ms"),
            "bytes": pa.array(slots.bytes[at]),
        } | {name: latest.field(name) for name in ("value", "old", "headers")}
        schema = self.schema()
        return pa.table([columns[name] for name in schema.names], schema=schema)


_BOUNDS = ("window_start_ms", "window_end_ms")


def header_bytes(batch: Batch) -> np.ndarray | int:
    """Characters of the headers' keys and bytes of their values, as Kafka counts them, a record."""
    if batch.headers is None:
        return 0
    flat = batch.headers.flatten()
    names = pc.dictionary_encode(flat.field("key"))
    chars = np.array([*(_chars(name.as_py()) for name in names.dictionary), 0], np.int64)
    one = chars[names.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    one = one + pc.binary_length(flat.field("value")).fill_null(0).to_numpy(zero_copy_only=False)
    sums = np.concatenate([[0], np.cumsum(one)])
    lengths = pc.list_value_length(batch.headers).fill_null(0).to_numpy(zero_copy_only=False)
    return np.diff(sums[np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)])


def _chars(text: str) -> int:
    """Length of a Java string."""
    return len(text.encode("utf-16-le")) // 2


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows[name]
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([pa.array([], column.type), *column.chunks])
