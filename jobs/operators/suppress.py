"""Suppress until the window closes (KIP-328, untilWindowCloses; KTableSuppressProcessorSupplier).

Owns the buffer of not yet final results, one entry a windowed key. Rule: a result leaves once, when
``window end <= stream time - wait``, oldest window first, equal ones by serialized key; wait is the grace, for sessions
grace plus gap; stream time is the largest time of any change that came here. A strict buffer that is full ends the run.
"""

import hashlib
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.kernels import suppress
from jobs.operators.operator import Clocks, Place, StatefulOperator, marked
from state.errors import BufferFull
from state.records import Batch, Chunk, Values
from state.serdes import Serde
from state.stores.slots import LIVE, LIVE_COUNT, Slots
from state.stores.value_heap import ValueHeap

UNBOUNDED = 2**63 - 1
CONTEXT_BYTES = 20
"""Timestamp, offset and partition of the record context, which Kafka counts in an entry's size beside the topic's
name.
"""


class BufferSlots(Slots):
    """Entries: ``reference`` into the value heap (NO_VALUE: a tombstone), row of the call it leaves at, sizes in
    bytes.
    """

    beside = ("reference", "leaves")
    extra: ClassVar[Mapping[str, type]] = {"bytes": np.int64, "prior_bytes": np.int64, "prior_hash": np.int64}
    reference: np.ndarray
    leaves: np.ndarray
    bytes: np.ndarray
    prior_bytes: np.ndarray
    prior_hash: np.ndarray


class SuppressUntilWindowCloses(StatefulOperator):
    """``wait_ms`` >= 0; ``max_records``/``max_bytes``: limits of a strict buffer (UNBOUNDED: none)."""

    def __init__(
        self,
        place: Place,
        value: Serde,
        *,
        wait_ms: int,
        max_records: int = UNBOUNDED,
        max_bytes: int = UNBOUNDED,
    ) -> None:
        super().__init__(place)
        self.value, self.wait_ms = value, wait_ms
        self.is_session = place.shape.window == "session"
        self.limits = (max_records, max_bytes)
        self.counts_bytes = place.counts_bytes or max_bytes != UNBOUNDED
        self.slots = BufferSlots()
        self.heap = ValueHeap(value.arrow_type)
        self.totals = np.array([0, -1, 0, 0, 0, -1, 0, 0], np.int64)
        self.emitted = 0

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        assert batch.window_start_ms is not None
        assert batch.window_end_ms is not None
        slots = self.slots
        slots.reserve(len(batch))
        out = suppress.room(len(batch), int(slots.counts[LIVE_COUNT]))
        suppress.suppress_until_window_closes(
            (batch.key, batch.window_start_ms, batch.window_end_ms, batch.time_ms, batch.valid),
            self._sizes(batch, chunk),
            (self.place.keys.data, self.place.keys.offsets),
            self.wait_ms,
            self.is_session,
            self.limits,
            slots.columns(),
            (slots.reference, slots.bytes, slots.prior_bytes, slots.prior_hash, slots.leaves),
            out,
            self.totals,
        )
        if self.totals[suppress.FULL_ROW] >= 0:
            chunk.fail(self._full(batch))
        n = int(self.totals[suppress.EMITTED])
        self.emitted += n
        row, key, start, end, time_ms, reference, stream_time = (column[:n] for column in out)
        return Batch(
            cause=batch.cause[row],
            key=key,
            keys=batch.keys,
            time_ms=time_ms,
            valid=np.ones(n, np.bool_),
            value=Values(self._values(batch, reference)),
            window_start_ms=start,
            window_end_ms=end,
            stream_time_ms=stream_time,
        )

    def _values(self, batch: Batch, reference: np.ndarray) -> pa.Array:
        """Values of what leaves; those of what stays go from the batch to the heap."""
        from_heap = self.heap.take(np.where(reference >= 0, reference, -1))
        stays = np.flatnonzero(self.slots.reference < suppress.NO_VALUE)
        leaving = np.flatnonzero(reference < suppress.NO_VALUE)
        rows = np.concatenate([-reference[leaving] - 2, -self.slots.reference[stays] - 2])
        fresh = batch.value.take(rows)
        base = self.heap.append(fresh.slice(len(leaving)))
        self.slots.reference[stays] = base + np.arange(len(stays))
        self.heap.keep_only(self.slots.reference)
        if len(leaving) == len(reference):
            return fresh.slice(0, len(leaving))
        both = pa.concat_arrays([from_heap, fresh.slice(0, len(leaving))])
        places = np.arange(len(reference))
        places[leaving] = len(reference) + np.arange(len(leaving))
        return both.take(pa.array(places))

    def _sizes(self, batch: Batch, chunk: Chunk) -> tuple[np.ndarray, ...]:
        """Bytes that Kafka counts for each change: (key, context and time; new; old or -1; hash of old)."""
        if not self.counts_bytes:
            return (np.zeros(0, np.int64),) * 4
        assert batch.old is not None
        assert batch.old_valid is not None
        keys = self.place.keys
        window_bytes = 16 if self.is_session else 8
        key_bytes = np.diff(keys.offsets[: len(keys) + 1])[batch.key] + window_bytes
        fixed = 8 + key_bytes + CONTEXT_BYTES + len(chunk.topic)
        old = batch.old.all()
        old_bytes = np.where(batch.old_valid, self.value.sizes(old), -1)
        return fixed.astype(np.int64), self.value.sizes(batch.value.all()), old_bytes, _hashes(self.value.encode(old))

    def _full(self, batch: Batch) -> BufferFull:
        row = int(self.totals[suppress.FULL_ROW])
        key = self.place.shape.key.to_python(self.place.keys.typed(batch.key[row : row + 1]))[0]
        count, size = int(self.totals[suppress.FULL_COUNT]), int(self.totals[suppress.FULL_BYTES])
        limits = [f"{limit}" if limit != UNBOUNDED else "any number of" for limit in self.limits]
        error = BufferFull(
            f"{self.place.node}, key {key!r}",
            f"at most {limits[0]} records and {limits[1]} bytes in the buffer",
            f"{count} records and {size} bytes",
            f"raise the limit to at least {count} records and {size} bytes, or use no bound",
        )
        error.cause_row = int(batch.cause[row])
        return error

    # --- state -----------------------------------------------------------------------------------------------

    def resume(self, rows: pa.Table, clocks: Clocks) -> None:
        self.totals[suppress.STREAM_TIME] = clocks.get("stream_time_ms", -1)
        self.totals[suppress.BYTES] = clocks.get("bytes", 0)
        rows = rows.combine_chunks()
        key = self.place.keys.intern(self.place.shape.key.encode(rows["key"].combine_chunks()))
        start, end, time = (rows[name].to_numpy() for name in ("window_start_ms", "window_end_ms", "record_time_ms"))
        at = self.slots.add(key, start, end, time)
        value = rows["value"].combine_chunks()
        valid = ~rows["is_tombstone"].combine_chunks().to_numpy(zero_copy_only=False)
        self.slots.reference[at] = np.where(valid, self.heap.append(value) + np.arange(len(at)), suppress.NO_VALUE)
        for name in ("bytes", "prior_bytes", "prior_hash"):
            getattr(self.slots, name)[at] = rows[name].to_numpy()

    def clocks(self) -> Clocks:
        return {
            "stream_time_ms": int(self.totals[suppress.STREAM_TIME]),
            "bytes": int(self.totals[suppress.BYTES]),
        }

    def changes(self) -> pa.Table:
        changed, graves = self.slots.changed(), self.slots.graves()
        return marked(self._table(changed), self._table(graves))

    def rows(self) -> pa.Table:
        return self._table(self.slots.live())

    def rows_schema(self) -> pa.Schema:
        return pa.schema(
            [
                pa.field("key", self.place.shape.key.arrow_type),
                pa.field("window_start_ms", pa.int64()),
                pa.field("window_end_ms", pa.int64()),
                pa.field("value", self.value.arrow_type),
                pa.field("is_tombstone", pa.bool_()),
                pa.field("record_time_ms", pa.int64()),
                pa.field("bytes", pa.int64()),
                pa.field("prior_bytes", pa.int64()),
                pa.field("prior_hash", pa.int64()),
            ]
        )

    def _table(self, at: np.ndarray) -> pa.Table:
        s = self.slots
        is_live = (s.flags[at] & LIVE) > 0
        columns = [
            self.place.keys.typed(s.key[at]),
            pa.array(s.start[at]),
            pa.array(s.end[at]),
            self.heap.take(np.where(is_live, s.reference[at], -1)),
            pa.array(s.reference[at] == suppress.NO_VALUE),
            pa.array(s.time[at]),
            *(pa.array(getattr(s, name)[at]) for name in ("bytes", "prior_bytes", "prior_hash")),
        ]
        return pa.table(columns, schema=self.rows_schema())

    def metrics(self) -> dict[str, int]:
        """Emitted results of this increment; entries and bytes in the buffer now and at most (before any leaves)."""
        is_full = self.totals[suppress.FULL_ROW] >= 0
        return {
            "emitted": self.emitted,
            "count_current": int(self.totals[suppress.FULL_COUNT] if is_full else self.slots.counts[LIVE_COUNT]),
            "count_max": int(self.totals[suppress.COUNT_MAX]),
            "bytes_current": int(self.totals[suppress.BYTES]),
            "bytes_max": int(self.totals[suppress.BYTES_MAX]),
        }


def _hashes(encoded: pa.Array) -> np.ndarray:
    """A 64-bit hash of every serialized value (0 for null), the same in every process."""
    distinct = pc.dictionary_encode(encoded)
    codes = distinct.indices.fill_null(len(distinct.dictionary)).to_numpy(zero_copy_only=False)
    hashes = [
        int.from_bytes(hashlib.blake2b(value.as_py(), digest_size=8).digest(), "little", signed=True)
        for value in distinct.dictionary
    ]
    return np.array([*hashes, 0], np.int64)[codes]
