"""Stream-stream joins: inner, left and outer (KStreamKStreamJoin, KStreamJoinWindow, JoinWindows).

Owns the records of both sides, each until its store loses it, and for left and outer joins those that wait for a match.
A store shows ``before + after + grace`` of its own side's time. The rule is in
jobs/operators/joins/stream_join_kernel.py. The emit interval of unmatched records, one second of wall-clock time in
Kafka, is 0. A pair's time is the larger of the two, its headers those of the record that came later. A record that is
emitted without a match keeps its time and has the headers of the one that released it.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....state.buffers import only_chunk
from ....state.records.batches import Batch, Chunk, Drops, Values
from ....state.records.drop_reasons import DropReason
from ....state.stores import waiting_records as waiting
from ....state.stores.timed_records import PENDING, REFERENCE, SEQUENCE, TIME, TimedRecords
from ....state.stores.value_heap import ValueHeap
from ....state.stores.waiting_records import WaitingRecords
from ....state.times import NO_TIMESTAMP_MS, UNBOUNDED
from ...functions.value_joiners import Joiner
from ..base.changelogs import Changelog, KeptStore, LeftState
from ..base.forward_order import MergedRows, joined_batch, merge_in_forward_order
from ..base.operator import Counters, Due, MultiOperator, OperatorContext, StatefulOperator, with_deleted
from ..base.store_segments import first_kept_ms, segment_ms
from . import stream_join_kernel as kernel
from .stream_join_changelogs import logged_records, restored_records
from .stream_join_node import JOINED_KEY, StreamJoinNode, joined_schema
from .stream_join_unmatched_kernel import LEFT, NONE, RIGHT, leaves, leaving_order, mark_all, ranked

_KINDS = ("left", "right", "unmatched-left", "unmatched-right")
_REASONS = (DropReason.NULL_KEY, DropReason.NULL_VALUE, DropReason.EXPIRED_IN_STORE)
_PAIRS_MIN = 65_536


class _StoredRows(NamedTuple):
    """Durable rows of some kinds: ``kind`` is an index into _KINDS, even for left ones."""

    kind: np.ndarray
    key: np.ndarray
    time_ms: np.ndarray
    sequence: np.ndarray
    reference: np.ndarray

    def of(self, rows: np.ndarray) -> "_StoredRows":
        return _StoredRows(*(column[rows] for column in self))

    @property
    def identity(self) -> np.ndarray:
        return self.sequence * len(_KINDS) + self.kind


def build(node: StreamJoinNode, context: OperatorContext) -> "StreamJoin":
    """The operator of a node."""
    return StreamJoin(
        context,
        node.joiner,
        kind=node.kind,
        before_ms=node.before_ms,
        after_ms=node.after_ms,
        grace_ms=node.grace_ms,
        is_persistent=node.is_persistent,
        emits_at_once=node.emits_at_once,
    )


class StreamJoin(MultiOperator, StatefulOperator):
    """``kind``: "inner", "left" or "outer". ``before_ms`` + ``after_ms`` >= 0, ``grace_ms`` >= 0."""

    row_key = JOINED_KEY
    due = Due("record_time_ms", None, ("kind", ("unmatched-left", "unmatched-right")))
    """All that wait: Kafka looks at some that stay, and remembers the time of the last."""

    def __init__(
        self,
        context: OperatorContext,
        joiner: Joiner,
        *,
        kind: str,
        before_ms: int,
        after_ms: int,
        grace_ms: int,
        is_persistent: bool,
        emits_at_once: bool = False,
    ) -> None:
        super().__init__(context)
        self.joiner = joiner
        retention_ms = before_ms + after_ms + grace_ms
        # JoinWindows.of: without an outer join store KStreamKStreamJoin forwards an unmatched record at once.
        outer = kernel.AT_ONCE if emits_at_once else 1
        self.windows = np.array(
            [
                # By side: what the left record looks back, the right one looks ahead.
                *(before_ms, after_ms),
                *(after_ms, before_ms),
                *(after_ms + grace_ms, before_ms + grace_ms),
                *(outer * (kind != "inner"), outer * (kind == "outer")),
                retention_ms,
                segment_ms(retention_ms, is_persistent),
            ],
            np.int64,
        )
        """As jobs/operators/joins/stream_join_kernel.py has them."""
        self.store = TimedRecords()
        self.waiting = WaitingRecords()
        self.heaps = tuple(ValueHeap(shape.value.arrow_type) for shape in context.shapes)
        self.totals = kernel.fresh_totals()
        self.sequence = 0
        """Number of the next record with key and value."""
        self._stored = _StoredRows(*(np.zeros(0, np.int64) for _ in _StoredRows._fields))
        self._first_new = 0
        self._looked_up, self._matched = 0, 0

    def process_all(self, batches: tuple[Batch, ...], chunk: Chunk) -> Batch:
        merged = merge_in_forward_order(batches)
        merged_batch = joined_batch(batches, merged, with_values=False)
        return self._join(merged_batch, self._rows(batches, merged, merged_batch), chunk)

    def advance(self, advance_row: Batch, chunk: Chunk) -> Batch:
        rows = np.full((1, 7), NONE, np.int64)
        rows[:, kernel.SIDE], rows[:, kernel.ROW_TIME], rows[:, kernel.IS_WHOLE] = (
            LEFT,
            advance_row.time_ms,
            kernel.ONLY_TIME,
        )
        return self._join(advance_row, rows, chunk)

    def propagated_time_ms(self, time_ms: int) -> int:
        # What waits will leave with its own time, so the nodes below have reached no later one.
        return int(self.waiting.rows[self.waiting.order, waiting.TIME].min(initial=time_ms))

    def _join(self, merged_batch: Batch, rows: np.ndarray, chunk: Chunk) -> Batch:
        """Results of ``rows``, which are those of ``merged_batch`` as the kernel sees them."""
        stream_time = self._stream_time(merged_batch)
        unmatched = self._rank(rows, stream_time)
        pairs, refusals = self._run(rows, unmatched)
        self.waiting.order = leaving_order(unmatched)
        row, key, time_ms, left, right = pairs.T
        self._looked_up += int((rows[:, kernel.IS_WHOLE] == 1).sum())
        has_match = np.zeros(len(rows), np.bool_)
        has_match[row[(left != NONE) & (right != NONE)]] = True
        self._matched += int(has_match.sum())
        self._book(chunk, merged_batch, rows[:, kernel.IS_WHOLE] > 0, row, refusals)
        out = merged_batch.forward(
            row,
            key=key.astype(np.int32),
            time_ms=time_ms.copy(),
            valid=np.ones(len(row), np.bool_),
            value=Values(pa.nulls(len(row))),
            stream_time_ms=stream_time[row],
        )
        values = [heap.take(of_side) for heap, of_side in zip(self.heaps, (left, right), strict=True)]
        self._forget_values()
        return out.with_value(self.joiner.evaluate(out, *values))

    def _stream_time(self, merged_batch: Batch) -> np.ndarray:
        """After every record."""
        return np.maximum.accumulate(np.append(self.totals[kernel.STREAM_TIME], merged_batch.time_ms))[1:]

    def _rows(self, batches: tuple[Batch, ...], merged: MergedRows, merged_batch: Batch) -> np.ndarray:
        """What the kernel sees of the records, without ranks. All values go to the heaps."""
        bases = np.array([heap.append(b.value.all()) for heap, b in zip(self.heaps, batches, strict=True)], np.int64)
        is_whole = merged_batch.valid & (merged_batch.key >= 0)
        rows = np.empty((len(merged_batch), 7), np.int64)
        rows[:, kernel.SIDE] = merged.which
        rows[:, kernel.ROW_KEY] = merged_batch.key
        rows[:, kernel.ROW_TIME] = merged_batch.time_ms
        rows[:, kernel.IS_WHOLE] = is_whole
        rows[:, kernel.ROW_REFERENCE] = np.where(merged_batch.valid, bases[merged.which] + merged.row, NONE)
        rows[:, kernel.ROW_SEQUENCE] = self.sequence + np.cumsum(is_whole) - 1
        rows[:, kernel.RANK] = NONE
        self.sequence += int(is_whole.sum())
        return rows

    def _rank(self, rows: np.ndarray, stream_time: np.ndarray) -> tuple[np.ndarray, ...]:
        """Write the ranks of what may have to wait into ``rows``; returns fields of Unmatched."""
        side, slots = rows[:, kernel.SIDE], self.waiting.order
        until = np.maximum(0, rows[:, kernel.ROW_TIME] + self.windows[kernel.LOOK_AHEAD + side])
        is_outer = self.windows[kernel.IS_OUTER + side] == 1
        # Only these can be stored by putInOuterJoinStore, so they and those that wait already are all that the order
        # must have.
        may_wait = np.flatnonzero((rows[:, kernel.IS_WHOLE] == 1) & is_outer & (until >= stream_time))
        fresh = rows[may_wait]
        self.waiting.reserve(len(fresh))
        columns = (waiting.TIME, kernel.ROW_TIME), (waiting.SIDE, kernel.SIDE), (waiting.KEY, kernel.ROW_KEY)
        time_ms, sides, key = (
            np.concatenate([self.waiting.rows[slots, column], fresh[:, of_row]]) for column, of_row in columns
        )
        order = self._ranked(time_ms, sides, key)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        rows[may_wait, kernel.RANK] = rank[len(slots) :]
        self.waiting.rows[slots, waiting.RANK] = rank[: len(slots)]
        slot_of = np.full(len(order), NONE, np.int32)
        slot_of[rank[: len(slots)]] = slots
        trees = np.zeros((2, 2 * leaves(len(order))), np.bool_)
        mark_all(trees, self.waiting.rows, slots)
        return trees, time_ms[order], slot_of, *self.waiting.columns()

    def _ranked(self, time_ms: np.ndarray, side: np.ndarray, key: np.ndarray) -> np.ndarray:
        return ranked(time_ms, side, key, (self.context.keys.data, self.context.keys.offsets))

    def _run(self, rows: np.ndarray, unmatched: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
        """All pairs and refusals; the kernel is called until there was room for everything."""
        self.store.reserve_keys(len(self.context.keys))
        self.totals[kernel.ROW], self.totals[kernel.PHASE] = 0, kernel.FRESH
        written, refused, answer = [], [], None
        while answer != kernel.DONE:
            if answer == kernel.STORE_IS_FULL:
                self.store.sweep(self._kept_from_ms, len(rows) - int(self.totals[kernel.ROW]))
            pairs, refusals = kernel.allocate(max(2 * len(rows), _PAIRS_MIN), len(rows))
            answer = kernel.join_streams(
                rows, self.windows, self.store.columns(), unmatched, pairs, refusals, self.totals
            )
            written.append(pairs[: self.totals[kernel.WRITTEN]])
            refused.append(refusals[: self.totals[kernel.REFUSED]])
        return np.concatenate(written), np.concatenate(refused)

    def _book(
        self, chunk: Chunk, merged_batch: Batch, is_applied: np.ndarray, row: np.ndarray, refusals: np.ndarray
    ) -> None:
        refused, kind, stream_time, limit, is_record = refusals.T
        for number, reason in enumerate(_REASONS):
            of = kind == number
            drops = Drops(reason, refused[of].astype(np.int32), is_record[of] > 0, stream_time[of], limit[of])
            chunk.drop(self.context.node, merged_batch, drops)
        is_applied[refused[is_record > 0]] = False
        is_applied[row] = True
        chunk.applied[merged_batch.cause[is_applied]] = True

    def metrics(self) -> dict[str, Any]:
        """Of this increment: records that looked for partners, and those of them for which some had come before."""
        return {"looked_up": self._looked_up, "matched": self._matched}

    def restart(self) -> None:
        """Persistent stores show all that they have, until their times rise again; those in memory come back with their
        times. What waits is there, and the next record looks for what may leave: Kafka's sum with a fresh
        TimeTracker.minTime overflows, unless grace and the window after are 0.
        """
        # Before the times begin again: afterwards nobody could know which segments a persistent store had lost.
        self.store.sweep(self._kept_from_ms, 0)
        self.totals = kernel.fresh_totals()
        if self.windows[kernel.SEGMENT] > 0:
            self.store.observed_ms[:] = NO_TIMESTAMP_MS

    # --- room ------------------------------------------------------------------------------------------------

    @property
    def _shown_from_ms(self) -> np.ndarray:
        """Earliest time that the store of each side shows."""
        return self.store.observed_ms - self.windows[kernel.RETENTION] + 1

    @property
    def _kept_from_ms(self) -> np.ndarray:
        """Earliest time that the store of each side has."""
        return self._first_kept_ms(self.store.observed_ms)

    def _first_kept_ms(self, store_times_ms: np.ndarray) -> np.ndarray:
        retention_ms, segment = self.windows[[kernel.RETENTION, kernel.SEGMENT]].tolist()
        return first_kept_ms(store_times_ms, retention_ms, segment)

    def _forget_values(self) -> None:
        """Drop the values that nobody refers to any more, once they outweigh the rest."""
        if not any(heap.is_wasteful for heap in self.heaps):
            return
        block, records = self.store.alive(self._kept_from_ms)
        for side, heap in enumerate(self.heaps):
            of_side = records[block % 2 == side]
            slots = self.waiting.order[self.waiting.rows[self.waiting.order, waiting.SIDE] == side]
            references = np.concatenate(
                [self.store.pool[of_side, REFERENCE], self.waiting.rows[slots, waiting.REFERENCE]]
            )
            heap.keep_only(references)
            self.store.pool[of_side, REFERENCE] = references[: len(of_side)]
            self.waiting.rows[slots, waiting.REFERENCE] = references[len(of_side) :]

    # --- state -----------------------------------------------------------------------------------------------

    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]:
        restored = restored_records(left, self.context.shapes, self.rows_schema())
        stream_time, first_ms = left.stream_time_ms, int(restored.waiting_ms.min(initial=UNBOUNDED))
        tracked = UNBOUNDED if left.has_restarted else first_ms
        left_ms = first_ms - 1 if len(restored.waiting_ms) else stream_time - int(self.windows[kernel.RETENTION])
        counters = {
            "left_ms": left_ms, "stream_time_ms": stream_time, "tracked_time_ms": tracked,
            "left_store_time_ms": restored.store_times_ms[LEFT], "right_store_time_ms": restored.store_times_ms[RIGHT],
            "sequence": restored.records,
        }  # fmt: skip
        return restored.rows, counters

    def logged(self, rows: pa.Table, kept: KeptStore) -> tuple[Changelog, ...]:
        return logged_records(rows, kept, self.context.shapes)

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        self.totals = kernel.fresh_totals()
        if counters:
            self.totals[kernel.STREAM_TIME] = counters["stream_time_ms"]
            self.totals[kernel.TRACKED_TIME] = counters["tracked_time_ms"]
            self.sequence = self._first_new = counters["sequence"]
            self.store.observed_ms[:] = counters["left_store_time_ms"], counters["right_store_time_ms"]
        rows = rows.combine_chunks()
        kind = pc.index_in(rows["kind"].combine_chunks(), pa.array(_KINDS)).to_numpy(zero_copy_only=False)
        key = self.context.keys.intern(self.context.shape.key.encode(rows["key"].combine_chunks()))
        time_ms, sequence = rows["record_time_ms"].to_numpy(), rows["sequence"].to_numpy()
        reference = np.empty(len(kind), np.int64)
        for side, heap in enumerate(self.heaps):
            of_side = np.flatnonzero(kind % 2 == side)
            values = rows[_KINDS[side]].combine_chunks().take(pa.array(of_side))
            reference[of_side] = heap.append(values) + np.arange(len(of_side))
        self._stored = _StoredRows(kind.astype(np.int64), key.astype(np.int64), time_ms, sequence, reference)
        self._load(self._stored.of(np.argsort(sequence)))

    def _load(self, stored: _StoredRows) -> None:
        """Take in what was stored, given by arrival."""
        joinable, waits = stored.of(np.flatnonzero(stored.kind < 2)), stored.of(np.flatnonzero(stored.kind >= 2))
        self.store.reserve_keys(len(self.context.keys))
        self.store.load(2 * joinable.key + joinable.kind, joinable.time_ms, joinable.reference, joinable.sequence)
        slots = self.waiting.add(waits.key, waits.sequence, waits.kind - 2, waits.time_ms, waits.reference)
        self.waiting.order = slots[self._ranked(waits.time_ms, waits.kind - 2, waits.key)]
        _, records = self.store.alive(self._kept_from_ms)
        # A record that waits is in its store as well. Its row there has to name its slot, else it would leave alone
        # although a later record was paired with it.
        numbers = self.store.pool[records, SEQUENCE], waits.sequence
        _, these, those = np.intersect1d(*numbers, assume_unique=True, return_indices=True)
        self.store.pool[records[these], PENDING] = slots[those]

    def forgets(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        return _is_before(rows, _store_times_ms(counters) - self.windows[kernel.RETENTION] + 1)

    def loses(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        return _is_before(rows, self._first_kept_ms(_store_times_ms(counters)))

    def counters(self) -> Counters:
        return {
            "left_ms": self._oldest_waiting_ms - 1,
            "stream_time_ms": int(self.totals[kernel.STREAM_TIME]),
            "tracked_time_ms": int(self.totals[kernel.TRACKED_TIME]),
            "left_store_time_ms": int(self.store.observed_ms[LEFT]),
            "right_store_time_ms": int(self.store.observed_ms[RIGHT]),
            "sequence": self.sequence,
        }

    @property
    def _oldest_waiting_ms(self) -> int:
        times = self.waiting.rows[self.waiting.order, waiting.TIME]
        stream_time = int(self.totals[kernel.STREAM_TIME])
        return int(times.min()) if len(times) else stream_time - int(self.windows[kernel.RETENTION])

    def changes(self) -> pa.Table:
        alive = self._alive(self._kept_from_ms)
        gone = np.flatnonzero(~np.isin(self._stored.identity, alive.identity))
        fresh = alive.of(np.flatnonzero(alive.sequence >= self._first_new))
        return with_deleted(self._table(fresh), self._table(self._stored.of(gone), with_values=False))

    def rows(self) -> pa.Table:
        return self._table(self._alive(self._shown_from_ms))

    def rows_schema(self) -> pa.Schema:
        return joined_schema(*self.context.shapes)

    def _alive(self, from_ms: np.ndarray) -> _StoredRows:
        """Every stored record that is not earlier, by side, and every one that waits."""
        block, records = self.store.alive(from_ms)
        pool = self.store.pool[records]
        joinable = block % 2, block // 2, pool[:, TIME], pool[:, SEQUENCE], pool[:, REFERENCE]
        rows = self.waiting.rows[self.waiting.order]
        columns = waiting.KEY, waiting.TIME, waiting.SEQUENCE, waiting.REFERENCE
        waits = rows[:, waiting.SIDE] + 2, *(rows[:, column] for column in columns)
        return _StoredRows(*(np.concatenate(pair) for pair in zip(joinable, waits, strict=True)))

    def _table(self, rows: _StoredRows, *, with_values: bool = True) -> pa.Table:
        columns = [
            pa.array(_KINDS).take(pa.array(rows.kind)),
            self.context.keys.typed(rows.key),
            pa.array(rows.time_ms),
            pa.array(rows.sequence),
            *(
                heap.take(np.where((rows.kind % 2 == side) & with_values, rows.reference, NONE))
                for side, heap in enumerate(self.heaps)
            ),
        ]
        return pa.table(columns, schema=self.rows_schema())


def _store_times_ms(counters: Counters) -> np.ndarray:
    """Of the left and the right store."""
    return np.array([counters.get(f"{side}_store_time_ms", NO_TIMESTAMP_MS) for side in ("left", "right")], np.int64)


def _is_before(rows: pa.Table, from_ms: np.ndarray) -> np.ndarray:
    """Which of the durable ``rows`` are earlier, by side. Those that wait never are: it is by leaving that they end."""
    kind = pc.index_in(only_chunk(rows, "kind"), pa.array(_KINDS)).to_numpy(zero_copy_only=False)
    is_before: np.ndarray = rows["record_time_ms"].to_numpy() < np.append(from_ms, [NO_TIMESTAMP_MS] * 2)[kind]
    return is_before
