"""Stream-stream joins: inner, left and outer (KStreamKStreamJoin, KStreamJoinWindow, JoinWindows).

Owns the records of both sides, each for ``before + after + grace`` of its own side's time, and for left and outer joins
those that wait for a match. The rule stands in jobs/kernels/stream_join.py. The emit interval of unmatched records,
one second of wall-clock time in Kafka, is 0. A pair's time is the larger of the two, its headers those of the record
that came later; a record that leaves without a match keeps its time and has the headers of the one that let it go.
Every input of ``before`` and ``after`` below 0 is allowed as long as their sum is not.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from jobs.joiners import Joiner
from jobs.kernels import stream_join as kernel
from jobs.kernels.stream_join_unmatched import LEFT, NONE, RIGHT, leaves, mark_all, ranked
from jobs.meeting import joined_batch, meet
from jobs.operators.operator import Clocks, MultiOperator, Place, StatefulOperator, marked
from jobs.operators.segments import SEGMENT_MS_MIN
from jobs.topology.nodes import StreamJoinNode
from state.records import Batch, Chunk, Drops, Values
from state.stores.slots import Slots
from state.stores.timed_records import OBSERVED_MS, PENDING, REFERENCE, SEQUENCE, TIME, TimedRecords
from state.stores.value_heap import ValueHeap

_KINDS = ("left", "right", "unmatched-left", "unmatched-right")
_REASONS = ("null-key", "null-value", "expired-in-store")
_PAIRS_MIN = 65_536


class WaitingSlots(Slots):
    """Unmatched records: ``start`` the record's number, ``end`` its side, and its value and rank."""

    beside = ("reference", "rank")
    is_indexed = False
    reference: np.ndarray
    rank: np.ndarray


class _Rows(NamedTuple):
    """Durable rows of some kinds: ``kind`` is a place in _KINDS, even for left ones."""

    kind: np.ndarray
    key: np.ndarray
    time_ms: np.ndarray
    sequence: np.ndarray
    reference: np.ndarray

    def of(self, rows: np.ndarray) -> "_Rows":
        return _Rows(*(column[rows] for column in self))

    @property
    def identity(self) -> np.ndarray:
        return self.sequence * len(_KINDS) + self.kind


def build(node: StreamJoinNode, place: Place) -> "StreamJoin":
    """The operator of a node."""
    return StreamJoin(
        place,
        node.joiner,
        kind=node.kind,
        before_ms=node.before_ms,
        after_ms=node.after_ms,
        grace_ms=node.grace_ms,
        is_persistent=node.is_persistent,
    )


class StreamJoin(MultiOperator, StatefulOperator):
    """``kind``: "inner", "left" or "outer". ``before_ms`` + ``after_ms`` >= 0, ``grace_ms`` >= 0."""

    row_key = ("kind", "key", "record_time_ms", "sequence")

    def __init__(
        self,
        place: Place,
        joiner: Joiner,
        *,
        kind: str,
        before_ms: int,
        after_ms: int,
        grace_ms: int,
        is_persistent: bool,
    ) -> None:
        super().__init__(place)
        self.joiner = joiner
        self.is_outer = np.array([kind != "inner", kind == "outer"])
        self.look_back = np.array([before_ms, after_ms], np.int64)
        self.look_ahead = np.array([after_ms, before_ms], np.int64)
        self.waits = self.look_ahead + grace_ms
        self.retention_ms = before_ms + after_ms + grace_ms
        self.segment_ms = max(self.retention_ms // 2, SEGMENT_MS_MIN) if is_persistent else 0
        self.stores = TimedRecords(), TimedRecords()
        self.heaps = tuple(ValueHeap(shape.value.arrow_type) for shape in place.shapes)
        self.waiting = WaitingSlots()
        self.order = np.empty(0, np.int32)
        """Slots of ``waiting`` in the order of its rule."""
        self.totals = kernel.fresh_totals()
        self.sequence = 0
        """Number of the next record with key and value."""
        self._stored = _Rows(*(np.zeros(0, np.int64) for _ in _Rows._fields))
        self._first_new = 0

    def process_all(self, batches: tuple[Batch, ...], chunk: Chunk) -> Batch:
        meeting = meet(batches)
        met = joined_batch(batches, meeting, with_values=False)
        side = meeting.which
        bases = np.array([heap.append(b.value.all()) for heap, b in zip(self.heaps, batches, strict=True)], np.int64)
        before = self.totals[kernel.STREAM_TIME]
        stream_time = np.maximum.accumulate(np.append(before, met.time_ms))[1:]
        is_whole = met.valid & (met.key >= 0)
        sequence = self.sequence + np.cumsum(is_whole) - 1
        self.sequence += int(is_whole.sum())
        reference = bases[side] + meeting.row
        may_wait = is_whole & self.is_outer[side]
        may_wait &= np.maximum(0, met.time_ms + self.look_ahead[side]) >= stream_time
        rank, unmatched = self._rank(side, met, may_wait)
        rows = side, met.key, met.time_ms, met.valid, reference, sequence, rank
        pairs, refusals = self._run(rows, unmatched)
        self._settle(unmatched)
        row, key, time_ms, left, right = pairs
        self._book(chunk, met, is_whole, row, refusals)
        out = met.forward(
            row,
            key=key,
            time_ms=time_ms,
            valid=np.ones(len(row), np.bool_),
            value=Values(pa.nulls(len(row))),
            stream_time_ms=stream_time[row],
        )
        values = [heap.take(of_side) for heap, of_side in zip(self.heaps, (left, right), strict=True)]
        self._forget_values()
        return out.with_value(self.joiner.evaluate(out, *values))

    def _rank(self, side: np.ndarray, met: Batch, may_wait: np.ndarray) -> tuple[np.ndarray, tuple]:
        """Rank of every row that may have to wait, and what kernels take as ``unmatched``."""
        slots, fresh = self.waiting, np.flatnonzero(may_wait)
        slots.reserve(len(fresh))
        time_ms = np.concatenate([slots.time[self.order], met.time_ms[fresh]])
        sides = np.concatenate([slots.end[self.order].astype(np.int8), side[fresh]])
        key = np.concatenate([slots.key[self.order].astype(np.int32), met.key[fresh]])
        order = self._ranked(time_ms, sides, key)
        rank_of = np.empty(len(order), np.int32)
        rank_of[order] = np.arange(len(order), dtype=np.int32)
        rank = np.full(len(side), NONE, np.int32)
        rank[fresh] = rank_of[len(self.order) :]
        trees = np.zeros((2, 2 * leaves(len(order))), np.bool_)
        slot_of = np.full(len(order), NONE, np.int32)
        slot_of[rank_of[: len(self.order)]] = self.order
        slots.rank[self.order] = rank_of[: len(self.order)]
        mark_all(trees, slots.end, slots.rank, self.order)
        return rank, (trees, time_ms[order], slot_of, slots.columns(), slots.reference, slots.rank)

    def _run(self, rows: tuple, unmatched: tuple) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """All pairs and refusals; the kernel is called until there was room for everything."""
        windows = self.look_back, self.look_ahead, self.waits, self.is_outer, self.retention_ms, self.segment_ms
        for store in self.stores:
            store.reserve_keys(len(self.place.keys))
        n = len(rows[0])
        self.totals[kernel.ROW], self.totals[kernel.PHASE] = 0, kernel.FRESH
        written: list[tuple[np.ndarray, ...]] = []
        refused: list[tuple[np.ndarray, ...]] = []
        answer = None
        while answer != kernel.DONE:
            if answer == kernel.STORE_IS_FULL:
                at = int(self.totals[kernel.ROW])
                self.stores[rows[0][at]].sweep(self._oldest(rows[0][at]), n - at)
            pairs, refusals = kernel.rooms(max(2 * n, _PAIRS_MIN), n)
            stores = tuple(store.columns() for store in self.stores)
            answer = kernel.join_streams(rows, windows, stores, unmatched, pairs, refusals, self.totals)
            written.append(tuple(column[: self.totals[kernel.WRITTEN]] for column in pairs))
            refused.append(tuple(column[: self.totals[kernel.REFUSED]] for column in refusals))
        return _joined(written), _joined(refused)

    def _settle(self, unmatched: tuple) -> None:
        """Who waits now, in order."""
        trees, _, slot_of = unmatched[:3]
        self.order = slot_of[np.flatnonzero(trees[:, trees.shape[1] // 2 :].any(axis=0))]

    def _book(self, chunk: Chunk, met: Batch, is_whole: np.ndarray, row: np.ndarray, refusals: list) -> None:
        refused, kind, stream_time, limit, is_record = refusals
        for number, reason in enumerate(_REASONS):
            of = kind == number
            chunk.drop(self.place.node, met, Drops(reason, refused[of], is_record[of], stream_time[of], limit[of]))
        is_applied = is_whole.copy()
        is_applied[refused[is_record]] = False
        is_applied[row] = True
        chunk.applied[met.cause[is_applied]] = True

    # --- room ------------------------------------------------------------------------------------------------

    def _oldest(self, side: int) -> int:
        """Earliest time that the store of ``side`` shows."""
        return self.stores[side].observed_stream_time_ms - self.retention_ms + 1

    def _forget_values(self) -> None:
        """Drop the values that nobody refers to any more, once they outweigh the rest."""
        for side, (store, heap) in enumerate(zip(self.stores, self.heaps, strict=True)):
            if not heap.is_wasteful:
                continue
            _, records = store.alive(self._oldest(side))
            slots = self.order[self.waiting.end[self.order] == side]
            references = np.concatenate([store.pool[records, REFERENCE], self.waiting.reference[slots]])
            heap.keep_only(references)
            store.pool[records, REFERENCE] = references[: len(records)]
            self.waiting.reference[slots] = references[len(records) :]

    # --- state -----------------------------------------------------------------------------------------------

    def resume(self, rows: pa.Table, clocks: Clocks) -> None:
        self.totals = kernel.fresh_totals()
        if clocks:
            self.totals[kernel.STREAM_TIME] = clocks["stream_time_ms"]
            self.totals[kernel.TRACKED_TIME] = clocks["tracked_time_ms"]
            self.sequence = self._first_new = clocks["sequence"]
            for store, name in zip(self.stores, ("left_store_time_ms", "right_store_time_ms"), strict=True):
                store.counts[OBSERVED_MS] = clocks[name]
        rows = rows.combine_chunks()
        kind = np.array([_KINDS.index(name) for name in rows["kind"].to_pylist()], np.int8)
        key = self.place.keys.intern(self.place.shape.key.encode(rows["key"].combine_chunks()))
        time_ms, sequence = rows["record_time_ms"].to_numpy(), rows["sequence"].to_numpy()
        reference = np.empty(len(kind), np.int64)
        for side, heap in enumerate(self.heaps):
            of_side = np.flatnonzero(kind % 2 == side)
            values = rows[_KINDS[side]].combine_chunks().take(pa.array(of_side))
            reference[of_side] = heap.append(values) + np.arange(len(of_side))
        self._stored = _Rows(kind, key, time_ms, sequence, reference)
        self._load()

    def _load(self) -> None:
        """Take in what was stored."""
        slots, stored = self.waiting, self._stored
        _, key, time_ms, sequence, reference = waiting = stored.of(np.flatnonzero(stored.kind >= 2))
        at = slots.add(key, sequence, waiting.kind - 2, time_ms)
        slots.reference[at] = reference
        by_arrival = np.argsort(sequence)
        order = self._ranked(time_ms[by_arrival], waiting.kind[by_arrival] - 2, key[by_arrival])
        self.order = at[by_arrival[order]].astype(np.int32)
        for side, store in enumerate(self.stores):
            store.reserve_keys(len(self.place.keys))
            _, key, time_ms, sequence, reference = stored.of(np.flatnonzero(stored.kind == side))
            store.load(key, time_ms, reference, sequence)
            _, records = store.alive(self._oldest(side))
            of_side = np.flatnonzero(waiting.kind == side + 2)
            numbers = store.pool[records, SEQUENCE], waiting.sequence[of_side]
            _, these, those = np.intersect1d(*numbers, assume_unique=True, return_indices=True)
            store.pool[records[these], PENDING] = at[of_side[those]]

    def _ranked(self, time_ms: np.ndarray, side: np.ndarray, key: np.ndarray) -> np.ndarray:
        return ranked(time_ms, side, key, (self.place.keys.data, self.place.keys.offsets))

    def clocks(self) -> Clocks:
        return {
            "stream_time_ms": int(self.totals[kernel.STREAM_TIME]),
            "tracked_time_ms": int(self.totals[kernel.TRACKED_TIME]),
            "left_store_time_ms": self.stores[LEFT].observed_stream_time_ms,
            "right_store_time_ms": self.stores[RIGHT].observed_stream_time_ms,
            "sequence": self.sequence,
        }

    def changes(self) -> pa.Table:
        alive = self._alive()
        gone = np.flatnonzero(~np.isin(self._stored.identity, alive.identity))
        fresh = alive.of(np.flatnonzero(alive.sequence >= self._first_new))
        return marked(self._table(fresh), self._table(self._stored.of(gone), with_values=False))

    def rows(self) -> pa.Table:
        return self._table(self._alive())

    def rows_schema(self) -> pa.Schema:
        left, right = (shape.value.arrow_type for shape in self.place.shapes)
        return pa.schema(
            [
                pa.field("kind", pa.string()),
                pa.field("key", self.place.shape.key.arrow_type),
                pa.field("record_time_ms", pa.int64()),
                pa.field("sequence", pa.int64()),
                pa.field("left", left),
                pa.field("right", right),
            ]
        )

    def _alive(self) -> _Rows:
        """Every record that a later one may meet, and every one that waits."""
        pieces = []
        for side, store in enumerate(self.stores):
            key, records = store.alive(self._oldest(side))
            pool = store.pool[records]
            pieces.append((np.full(len(key), side), key, pool[:, TIME], pool[:, SEQUENCE], pool[:, REFERENCE]))
        slots, at = self.waiting, self.order
        pieces.append((slots.end[at] + 2, slots.key[at], slots.time[at], slots.start[at], slots.reference[at]))
        return _Rows(*_joined(pieces))

    def _table(self, rows: _Rows, *, with_values: bool = True) -> pa.Table:
        columns = [
            pa.array(_KINDS).take(pa.array(rows.kind)),
            self.place.keys.typed(rows.key),
            pa.array(rows.time_ms),
            pa.array(rows.sequence),
            *(
                heap.take(np.where((rows.kind % 2 == side) & with_values, rows.reference, NONE))
                for side, heap in enumerate(self.heaps)
            ),
        ]
        return pa.table(columns, schema=self.rows_schema())


def _joined(pieces: Sequence[tuple[np.ndarray, ...]]) -> list[np.ndarray]:
    return [np.concatenate(columns) for columns in zip(*pieces, strict=True)]
