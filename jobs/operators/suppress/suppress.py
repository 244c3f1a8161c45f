"""Suppress: hold a table's changes back until their window closes, or for a time (KIP-328;
KTableSuppressProcessorSupplier).

Owns the buffer of what waits, one entry a key (and window). Rule: a change is put first; then every entry leaves, once,
whose buffer time is ``<= stream time - wait``, the oldest first, equal ones by serialized key. Until a window closes
the buffer time is the window's end and the wait its grace (for sessions grace plus gap), and a deletion leaves the
buffer without an emission. Until a time limit the buffer time is the time of the key's first change that waits, and a
deletion is forwarded like any change. What leaves is the latest change, with its own time, headers and context. Stream
time is the largest time of any change that came here. A buffer that is over a limit ends the run, emits the oldest
entries early, or spills to a file.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ....state.buffers import is_valid
from ....state.errors import BufferFull
from ....state.records.batches import Batch, Chunk, Values
from ....state.serdes import Serde
from ....state.stores.slots import LIVE_COUNT
from ....state.stores.spilling_heap import SpillingHeap
from ....state.times import UNBOUNDED
from ...kernels.earlier_changes import earlier_by_key
from ..base.changelogs import Changelog, KeptStore, LeftState, unknown_changelog
from ..base.operator import Counters, Due, OperatorContext, StatefulOperator, with_deleted
from . import suppress_early_kernel, suppress_kernel
from .buffer_entries import BufferEntries
from .changelog_entries import logged_entries, restored_entries
from .suppress_node import SuppressNode


class Suppress(StatefulOperator):
    """``until``: "window-closes" or "time-limit". ``wait_ms`` is at least 0. Limits are ``max_records`` and
    ``max_bytes``: what the buffer may hold (exactly that much is allowed), UNBOUNDED for any.

    ``when_full``: with "shut-down" the run ends with BufferFull at the record. With "emit-early" (of a time limit only)
    the oldest entries are emitted. With "spill" at most so many values and bytes of values are in memory and the others
    in a temporary file; the results are those of an unbounded buffer. Keys and times stay in memory, about 100 bytes an
    entry.
    """

    def __init__(
        self,
        context: OperatorContext,
        value: Serde,
        *,
        until: str,
        wait_ms: int,
        max_records: int = UNBOUNDED,
        max_bytes: int = UNBOUNDED,
        when_full: str = "shut-down",
    ) -> None:
        super().__init__(context)
        self.wait_ms, self.is_final, self.when_full = wait_ms, until == "window-closes", when_full
        assert when_full != "emit-early" or not self.is_final, "final results are never emitted early"
        spills = when_full == "spill"
        self.limits = (UNBOUNDED, UNBOUNDED) if spills else (max_records, max_bytes)
        self.entries = BufferEntries(
            context,
            value,
            keeps_tombstones=not self.is_final,
            counts_bytes=context.counts_bytes or self.limits[1] != UNBOUNDED,
            memory=(max_records, max_bytes) if spills else None,
        )
        self.totals = np.zeros(11, np.int64)
        self.totals[[suppress_kernel.STREAM_TIME, suppress_kernel.FULL_ROW]] = -1
        self.emitted, self.overtime = 0, _Overtime()
        self.needs_all = self.limits != (UNBOUNDED, UNBOUNDED)
        self.due = Due("buffer_time_ms", None if self.needs_all else wait_ms)
        self._elsewhere = 0
        """Entries that were not loaded."""
        self._queue = np.empty(0, np.int64), np.empty(0, np.int32)

    @property
    def is_session(self) -> bool:
        return self.context.shape.window == "session"

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        chunk.applied[batch.cause] = True
        return self._emit(batch, chunk, self.entries.sizes(batch, chunk))

    def advance(self, advance_row: Batch, chunk: Chunk) -> Batch:
        size = np.zeros(int(self.entries.counts_bytes), np.int64)
        return self._emit(replace(advance_row, key=np.array([suppress_kernel.ONLY_TIME], np.int32)), chunk, (size,) * 4)

    def restart(self) -> None:
        self.totals[suppress_kernel.STREAM_TIME] = -1  # the buffer comes back whole, from its changelog

    def propagated_time_ms(self, time_ms: int) -> int:
        slots = self.entries.slots
        return int(min(time_ms - self.wait_ms, slots.time[slots.live()].min(initial=time_ms)))

    def _emit(self, batch: Batch, chunk: Chunk, sizes: tuple[np.ndarray, ...]) -> Batch:
        """Put every change and forward what leaves. ``sizes``: as the kernels take them."""
        entries = self.entries
        seen_ms = np.maximum.accumulate(np.maximum(batch.time_ms, self.totals[suppress_kernel.STREAM_TIME]))
        emitted = self._decide(batch, seen_ms, sizes)
        if self.totals[suppress_kernel.FULL_ROW] >= 0:
            chunk.fail(self._full(batch))
        row, slot, key, start, end, due_ms, time_ms, reference, stream_time = emitted
        left = entries.settle(batch, chunk, seen_ms, slot, reference)
        self.emitted += len(row)
        self.overtime.add(self.wait_ms - (left.seen_ms - due_ms))
        forwarded = batch.forward(
            row,
            key=key,
            time_ms=time_ms,
            valid=is_valid(left.value),
            value=Values(left.value),
            window_start_ms=start if entries.is_windowed else None,
            window_end_ms=end if entries.is_windowed else None,
            old=None if left.old is None else Values(left.old),
            old_valid=None if left.old is None else is_valid(left.old),
            stream_time_ms=stream_time,
            has_headers=False,
        )
        return replace(forwarded, headers=left.headers, context=left.context)

    def _decide(self, batch: Batch, seen_ms: np.ndarray, sizes: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """Run the kernel; what left, as ``suppress_strictly`` gives it. ``seen_ms``: stream time after every row."""
        slots, keys = self.entries.slots, self.context.keys
        nothing = np.zeros(len(batch), np.int64)
        start = nothing if batch.window_start_ms is None else batch.window_start_ms
        end = nothing if batch.window_end_ms is None else batch.window_end_ms
        rows = (batch.key, start, end, end if self.is_final else batch.time_ms, batch.time_ms, batch.valid)
        data = (sizes, (keys.data, keys.offsets), self.wait_ms, self.is_session)
        with_prior = batch.old is not None
        if self.when_full == "emit-early":
            slots.reserve(len(batch))
            self._queue = suppress_early_kernel.grown(self._queue, slots.capacity)
            out = suppress_early_kernel.room(len(batch), int(slots.counts[LIVE_COUNT]))
            stores = (self.limits, slots.columns(), slots.entries())
            suppress_early_kernel.suppress_eagerly(
                rows, *data, with_prior, *stores, self._queue, tuple(out), self.totals
            )
            return tuple(column[: self.totals[suppress_kernel.EMITTED]] for column in out)
        # what waits for a time may outlive its window in the store above, which then begins it anew
        has_earlier = self.is_final and batch.earlier is not None
        earlier = batch.earlier if has_earlier else earlier_by_key(*rows[:3])
        keeps = (not self.is_final, with_prior)
        stores = (self.limits, slots.columns(), slots.entries())
        left, stays = suppress_kernel.suppress_strictly(rows, earlier, seen_ms, *data, keeps, *stores, self.totals)
        slots.reserve(len(stays[0]))
        suppress_kernel.stay(stays, rows, keeps, slots.columns(), slots.entries())
        return left

    def _full(self, batch: Batch) -> BufferFull:
        row = int(self.totals[suppress_kernel.FULL_ROW])
        key = self.context.shape.key.to_python(self.context.keys.typed(batch.key[row : row + 1]))[0]
        place = f"{self.context.node}, key {key!r}"
        if batch.window_start_ms is not None and batch.window_end_ms is not None:
            place += f", window {batch.window_start_ms[row]} to {batch.window_end_ms[row]}"
        count, size = int(self.totals[suppress_kernel.FULL_COUNT]), int(self.totals[suppress_kernel.FULL_BYTES])
        limits = list(zip(self.limits, (count, size), ("records", "bytes"), strict=True))
        most = " and ".join(f"{limit} {unit}" for limit, _, unit in limits if limit != UNBOUNDED)
        enough = " and ".join(f"{held} {unit}" for limit, held, unit in limits if limit != UNBOUNDED)
        got = f"{count} records" + (f" of {size} bytes" if self.entries.counts_bytes else "")
        next_step = f"allow {enough} at least, spill to disk, or use no bound"
        error = BufferFull(place, f"at most {most} in the buffer", got, next_step)
        error.cause_row = int(batch.cause[row])
        return error

    # --- state -----------------------------------------------------------------------------------------------

    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]:
        if self.entries.counts_bytes:
            raise unknown_changelog(left.store, "a buffer with a limit in bytes, which a changelog does not count")
        rows = restored_entries(left, self.rows_schema())
        stream_time = left.stream_time_ms
        left_ms = max(stream_time - self.wait_ms, -1)
        return rows, {"stream_time_ms": stream_time, "left_ms": left_ms, "count": len(rows), "bytes": 0}

    def logged(self, rows: pa.Table, kept: KeptStore) -> tuple[Changelog, ...]:
        return (logged_entries(rows, kept),)

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        self.totals[suppress_kernel.STREAM_TIME] = counters.get("stream_time_ms", -1)
        at, slots, keys = self.entries.load(rows), self.entries.slots, self.context.keys
        self.totals[suppress_kernel.BYTES] = counters.get("bytes", slots.bytes[at].sum())
        self._elsewhere = counters.get("count", len(at)) - len(at)
        self._queue = suppress_early_kernel.grown(self._queue, slots.capacity)
        order = (slots.key, slots.start, slots.end, slots.due)
        suppress_early_kernel.refill(self._queue, slots.live(), (keys.data, keys.offsets), self.is_session, *order)

    def counters(self) -> Counters:
        stream_time = int(self.totals[suppress_kernel.STREAM_TIME])
        return {
            "stream_time_ms": stream_time,
            "left_ms": max(stream_time - self.wait_ms, -1),
            "count": int(self.entries.slots.counts[LIVE_COUNT]) + self._elsewhere,
            "bytes": int(self.totals[suppress_kernel.BYTES]),
        }

    def changes(self) -> pa.Table:
        slots = self.entries.slots
        return with_deleted(self.entries.table(slots.changed()), self.entries.table(slots.graves()))

    def rows(self) -> pa.Table:
        return self.entries.table(self.entries.slots.live())

    def rows_schema(self) -> pa.Schema:
        return self.entries.schema()

    def metrics(self) -> dict[str, Any]:
        """Of this increment: changes emitted; entries and bytes in the buffer now, at most and on average. They are
        measured, as in Kafka, after every put and every round of evictions. ``overtime_ms`` min and avg (KIP-328): how
        much of the wait an emitted change did not need, ``wait - (stream time when it came - its buffer time)``. None:
        no emission.
        """
        totals = self.totals
        is_full = totals[suppress_kernel.FULL_ROW] >= 0
        count = totals[suppress_kernel.FULL_COUNT] if is_full else self.entries.slots.counts[LIVE_COUNT]
        measured = max(1, int(totals[suppress_kernel.MEASURED]))
        elsewhere = self._elsewhere if totals[suppress_kernel.MEASURED] else 0
        numbers = {
            "emitted": self.emitted,
            "count_current": int(count) + self._elsewhere,
            "count_max": int(totals[suppress_kernel.COUNT_MAX]) + elsewhere,
            "count_avg": int(totals[suppress_kernel.COUNT_SUM]) / measured + elsewhere,
            "bytes_current": int(totals[suppress_kernel.BYTES]),
            "bytes_max": int(totals[suppress_kernel.BYTES_MAX]),
            "bytes_avg": int(totals[suppress_kernel.BYTES_SUM]) / measured,
            "overtime_min_ms": self.overtime.min_ms,
            "overtime_avg_ms": self.overtime.avg_ms,
        }
        heaps = [heap for heap in self.entries.heaps.values() if isinstance(heap, SpillingHeap)]
        return numbers | ({"bytes_in_file": sum(heap.bytes_in_file for heap in heaps)} if heaps else {})


class _Overtime:
    """Least and average of what was added."""

    def __init__(self) -> None:
        self.min_ms: int | None = None
        self._sum, self._number = 0, 0

    def add(self, numbers: np.ndarray) -> None:
        if len(numbers):
            least = int(numbers.min())
            self.min_ms = least if self.min_ms is None else min(self.min_ms, least)
            self._sum, self._number = self._sum + int(numbers.sum()), self._number + len(numbers)

    @property
    def avg_ms(self) -> float | None:
        return self._sum / self._number if self._number else None


def build(node: SuppressNode, context: OperatorContext) -> Suppress:
    """The operator of a SuppressNode; without limits nothing can be full."""
    return Suppress(
        context,
        node.shape.value,
        until=node.until,
        wait_ms=node.wait_ms,
        max_records=UNBOUNDED if node.max_records is None else node.max_records,
        max_bytes=UNBOUNDED if node.max_bytes is None else node.max_bytes,
        when_full="shut-down" if node.max_records is None and node.max_bytes is None else node.when_full,
    )
