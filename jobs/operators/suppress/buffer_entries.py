"""What waits in a suppress buffer: an entry a key (and window), in memory, in a file beyond a bound, and as durable
rows.

Owns the entries' slots and values. An entry is (buffer time; of its latest change: new and old value, headers, time and
context; the prior value: what its first change replaced). A kernel refers to row r of a batch as ``-(r + 2)``; before
the batch is gone, what stays goes from it to the heaps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import binary_view, is_valid, only_chunk
from ....state.records.batches import Batch, Chunk, Column, Values
from ....state.serdes import Serde
from ....state.stores.slots import LIVE, Slots
from ....state.stores.spilling_heap import SpillingHeap
from ....state.stores.value_heap import ValueHeap
from ....state.tables.warehouse import HEADERS, WINDOW
from ..base.operator import OperatorContext
from .suppress_kernel import NO_VALUE, hashes
from .suppress_node import suppressed_schema

CONTEXT_BYTES = 20
"""Timestamp, offset and partition of the record context, which Kafka counts in an entry's size beside the topic's
name and the headers.
"""


class BufferSlots(Slots):
    """Entries: ``due`` is the buffer time, ``number`` that of the entry in a call of the kernel; ``reference``,
    ``prior``, ``old`` and ``headers`` refer to the heaps (NO_VALUE: nothing). Of the latest change: ``seen`` is the
    stream time when it came, ``topic`` and ``offset`` its context. Sizes are in bytes.
    """

    beside = ("due", "reference", "prior", "number")
    extra: ClassVar[Mapping[str, type]] = {
        "bytes": np.int64,
        "prior_bytes": np.int64,
        "prior_hash": np.int64,
        "old": np.int64,
        "headers": np.int64,
        "seen": np.int64,
        "topic": np.int16,
        "offset": np.int64,
    }
    due: np.ndarray
    reference: np.ndarray
    prior: np.ndarray
    number: np.ndarray
    bytes: np.ndarray
    prior_bytes: np.ndarray
    prior_hash: np.ndarray
    old: np.ndarray
    headers: np.ndarray
    seen: np.ndarray
    topic: np.ndarray
    offset: np.ndarray

    def entries(self) -> tuple[np.ndarray, ...]:
        """What kernels take as ``entries``; right until the next ``reserve``."""
        return self.due, self.reference, self.prior, self.number, self.bytes, self.prior_bytes, self.prior_hash


@dataclass(frozen=True, slots=True)
class EvictedEntries:
    """Latest changes of what left. ``context``: as in Batch. ``seen_ms``: stream time when each came."""

    value: pa.Array
    old: pa.Array | None
    headers: pa.Array | None
    context: tuple[np.ndarray, np.ndarray]
    seen_ms: np.ndarray


class BufferEntries:
    """``value``: serde of the table's values. ``keeps_tombstones``: deletions are forwarded, so they need a reference.
    ``counts_bytes``: sizes are Kafka's; else 0. ``memory``: (values, bytes) that may stay in memory, None: all.
    """

    def __init__(
        self,
        context: OperatorContext,
        value: Serde,
        *,
        keeps_tombstones: bool,
        counts_bytes: bool,
        memory: tuple[int, int] | None,
    ) -> None:
        self.context, self.value = context, value
        self.keeps_tombstones, self.counts_bytes = keeps_tombstones, counts_bytes
        self.slots = BufferSlots()
        kinds = {"reference": value.arrow_type, "prior": value.arrow_type, "old": value.arrow_type, "headers": HEADERS}
        self.heaps = {name: _heap(kind, memory, len(kinds)) for name, kind in kinds.items()}
        """By the name of the slots' column that refers to it."""
        self._topics: dict[str, int] = {}
        self._has_headers = False

    @property
    def is_windowed(self) -> bool:
        return self.context.shape.window is not None

    def sizes(self, batch: Batch, chunk: Chunk) -> tuple[np.ndarray, ...]:
        """Bytes that Kafka counts for each change: (key, context and time; new; old or -1; hash of old)."""
        if not self.counts_bytes:
            return (np.zeros(0, np.int64),) * 4
        assert batch.old is not None
        assert batch.old_valid is not None
        keys = self.context.keys
        window_bytes = {None: 0, "session": 16}.get(self.context.shape.window, 8)
        topic_bytes = np.array([*(_chars(topic) for topic in chunk.context_topics), 0], np.int64)
        fixed = 8 + np.diff(keys.offsets)[batch.key] + window_bytes + CONTEXT_BYTES
        fixed = fixed + topic_bytes[batch.coordinates(chunk)[0]] + header_bytes(batch)
        return fixed.astype(np.int64), self.value.sizes(batch.value.all()), *self._weighed(batch.old.all())

    def _weighed(self, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Serialized size of each value, -1 for null, and a hash of its bytes, 0 for null."""
        valid, encoded = is_valid(values), binary_view(self.value.encode(values))
        with np.errstate(over="ignore"):  # the hash wraps; NumPy would say so when JIT is off
            value_hashes = hashes(encoded.data, encoded.offsets)
        return np.where(valid, self.value.sizes(values), -1), np.where(valid, value_hashes, 0)

    def settle(
        self, batch: Batch, chunk: Chunk, seen_ms: np.ndarray, slot: np.ndarray, reference: np.ndarray
    ) -> EvictedEntries:
        """Latest changes of what left from ``slot``, with ``reference``; those of what stays are kept.

        ``seen_ms``: stream time after every row of the batch.
        """
        slots = self.slots
        stays = np.flatnonzero(slots.reference < NO_VALUE)
        is_fresh = reference < NO_VALUE
        rows = np.concatenate([-reference[is_fresh] - 2, -slots.reference[stays] - 2])
        move = _Move(slot, is_fresh, stays, rows)
        source, offset = batch.coordinates(chunk, rows)
        codes = np.array([*(self._topic(name) for name in chunk.context_topics), -1], np.int16)
        number_of = {topic: number for number, topic in enumerate(chunk.context_topics)}
        topic_numbers = np.array([*(number_of.get(topic, -1) for topic in self._topics), -1], np.int16)
        left = EvictedEntries(
            value=self._moved("reference", batch.value, move, reference),
            old=self._moved("old", batch.old, move, slots.old[slot]) if self.context.wants_old else None,
            headers=self._headers(batch, move),
            context=(topic_numbers[move.numbers(slots.topic, codes[source])], move.numbers(slots.offset, offset)),
            seen_ms=move.numbers(slots.seen, seen_ms[rows]),
        )
        if batch.old is not None:
            begun = np.flatnonzero(slots.prior < NO_VALUE)
            base = self.heaps["prior"].append(batch.old.take(-slots.prior[begun] - 2))
            slots.prior[begun] = base + np.arange(len(begun))
            self.heaps["prior"].keep_only(slots.prior)
        return left

    def _moved(self, name: str, column: Column | None, move: "_Move", references: np.ndarray) -> pa.Array:
        """Values of what left, by their references or from the batch; those of what stays go to the heap."""
        heap, kept, n = self.heaps[name], getattr(self.slots, name), move.n_fresh
        fresh = pa.nulls(len(move.rows), heap.kind) if column is None else column.take(move.rows)
        old = None if n == len(references) else heap.take(references[~move.is_fresh])
        # The kernel takes ``reference`` and ``prior`` from what leaves, and does not see the other columns: their heaps
        # would keep the values for ever.
        if name != "reference":
            kept[self.slots.reference == NO_VALUE] = NO_VALUE
        kept[move.stays] = heap.append(fresh.slice(n)) + np.arange(len(move.stays))
        heap.keep_only(kept)
        if old is None:
            return fresh.slice(0, n)
        indices = np.empty(len(references), np.int64)
        indices[~move.is_fresh] = np.arange(len(old))
        indices[move.is_fresh] = len(old) + np.arange(n)
        return pa.concat_arrays([old, fresh.slice(0, n)]).take(pa.array(indices))

    def _headers(self, batch: Batch, move: "_Move") -> pa.Array | None:
        if batch.headers is None and not self._has_headers:
            self.slots.headers[move.stays] = NO_VALUE
            return None
        self._has_headers = True
        column = None if batch.headers is None else Values(batch.headers)
        headers = self._moved("headers", column, move, self.slots.headers[move.slot])
        return None if headers.null_count == len(headers) else headers

    def _topic(self, name: str) -> int:
        return self._topics.setdefault(name, len(self._topics))

    # --- state -----------------------------------------------------------------------------------------------

    def load(self, rows: pa.Table) -> np.ndarray:
        """Take back durable rows; their slots."""
        rows, slots = rows.combine_chunks(), self.slots
        key = self.context.keys.intern(self.context.shape.key.encode(only_chunk(rows, "key")))
        bounds = [rows[name].to_numpy() if self.is_windowed else np.zeros(len(rows), np.int64) for name in WINDOW]
        at = slots.add(key, bounds[0], bounds[1], rows["record_time_ms"].to_numpy())
        slots.due[at], slots.bytes[at] = rows["buffer_time_ms"].to_numpy(), rows["bytes"].to_numpy()
        topics = [-1 if topic is None else self._topic(topic) for topic in rows["context_topic"].to_pylist()]
        slots.topic[at], slots.offset[at] = topics, rows["context_offset"].fill_null(-1).to_numpy()
        slots.seen[at] = rows["stream_time_ms"].fill_null(-1).to_numpy()
        for name, column in _COLUMNS.items():
            values = only_chunk(rows, column)
            has = is_valid(values) | (name == "reference" and self.keeps_tombstones)
            getattr(slots, name)[at] = np.where(has, self.heaps[name].append(values) + np.arange(len(at)), NO_VALUE)
        self._has_headers = rows["headers"].null_count < len(rows)
        if self.counts_bytes:
            slots.prior_bytes[at], slots.prior_hash[at] = self._weighed(only_chunk(rows, "prior"))
        return at

    def schema(self) -> pa.Schema:
        return suppressed_schema(self.context.shape)

    def table(self, at: np.ndarray) -> pa.Table:
        """Rows of the slots ``at``; only the key and the window are there where no entry is any more. Of a change that
        leaves in silence nothing is kept, so that its slot has what another change left there.
        """
        slots = self.slots
        is_live = (slots.flags[at] & LIVE) > 0
        is_silent = ~is_live | (slots.reference[at] == NO_VALUE)
        topics = pa.array(list(self._topics), pa.string())
        topic = slots.topic[at].astype(np.int64)
        columns = {
            "key": self.context.keys.typed(slots.key[at]),
            "window_start_ms": pa.array(slots.start[at]),
            "window_end_ms": pa.array(slots.end[at]),
            "context_topic": topics.take(pa.array(topic, mask=is_silent | (topic < 0))),
            "context_offset": pa.array(slots.offset[at], mask=is_silent),
            "record_time_ms": pa.array(slots.time[at]),
            "buffer_time_ms": pa.array(slots.due[at]),
            "stream_time_ms": pa.array(slots.seen[at], mask=is_silent),
            "bytes": pa.array(slots.bytes[at]),
        }
        for name, column in _COLUMNS.items():
            is_gone = ~is_live if name == "prior" else is_silent
            columns[column] = self.heaps[name].take(np.where(is_gone, NO_VALUE, getattr(slots, name)[at]))
        schema = self.schema()
        return pa.table([columns[name] for name in schema.names], schema=schema)


@dataclass(frozen=True, slots=True)
class _Move:
    """Entries that a batch moves. ``slot``: of each entry that left; ``is_fresh``: which of these came in this batch.
    ``stays``: slots of the entries that came and stay. ``rows``: the rows of the batch from which the entries that came
    are, those that left first.
    """

    slot: np.ndarray
    is_fresh: np.ndarray
    stays: np.ndarray
    rows: np.ndarray

    @property
    def n_fresh(self) -> int:
        """How many of ``rows`` are of what left."""
        return len(self.rows) - len(self.stays)

    def numbers(self, kept: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        """Of what left, from the slots or, ``fresh``, of ``rows``; those of what stays are written to the slots."""
        left = kept[self.slot]
        left[self.is_fresh] = fresh[: self.n_fresh]
        kept[self.stays] = fresh[self.n_fresh :]
        return left


def _heap(kind: pa.DataType, memory: tuple[int, int] | None, heaps: int) -> ValueHeap:
    if memory is None:
        return ValueHeap(kind)
    return SpillingHeap(kind, records_max=memory[0], bytes_max=memory[1] // heaps)


_COLUMNS = {"reference": "value", "prior": "prior", "old": "old", "headers": "headers"}
"""Durable column of what each of the slots' columns refers to."""


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
