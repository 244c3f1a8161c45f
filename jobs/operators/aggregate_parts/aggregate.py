"""Aggregates of streams: the frame that all of them share.

Rule: ``_decide`` runs the kernel and folds carry its program out. The updates are forwarded in the order of the kernel.
When results are emitted at the close of their windows only, they are forwarded in the order in which Kafka's stores
show them.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ....state.buffers import is_valid, only_chunk
from ....state.records.batches import Batch, Chunk, Column, Drops, Values
from ....state.records.drop_reasons import DropReason
from ....state.records.keys import Keys
from ....state.stores.slots import LIVE, LIVE_COUNT, OBSERVED_MS, Slots
from ....state.times import NO_TIMESTAMP_MS
from ...functions.folds.aggregation import Aggregation
from ...functions.folds.fold_program import ADD, EMIT, FoldProgram
from ...functions.folds.python import PythonState
from ...graph.store_rows import aggregate_schema
from ...kernels.slot_lifecycle import enter_slot, find_slot, remove
from ..base.changelogs import Changelog, KeptStore, LeftState, refuse_hidden_state, session_key, window_key
from ..base.operator import Counters, Due, OperatorContext, ShownWindows, StatefulOperator, WindowedStore, with_deleted
from ..base.single_records import Single
from ..base.store_segments import first_kept_ms, is_put_expired
from .emit_on_close import FinalResults
from .kernel_decisions import Decisions, Updates, joined
from .speculative_batches import DecidingAhead, keeper

_KEPT_SLOTS = 65_536
"""Below this many rows a store is not swept."""


def _largest(times_ms: np.ndarray) -> int:
    return int(times_ms.max(initial=NO_TIMESTAMP_MS))


def _bounds_of(batch: Batch) -> tuple[int, int]:
    """Start and end of the window of the one row, in ms; 0 where it has none."""
    if batch.window_start_ms is None or batch.window_end_ms is None:
        return 0, 0
    return int(batch.window_start_ms[0]), int(batch.window_end_ms[0])


class Aggregate(StatefulOperator, WindowedStore):
    """What aggregates with and without windows share. ``final``: None when every update is forwarded.

    ``inputs``: streams that share the store, each with a stream time of its own (cogroup).
    """

    has_headers = True
    """Updates carry the headers of the record that caused them."""
    _position_column = "window_start_ms"
    """Of the durable rows: what decides when a window closes (``_position``)."""
    _knows_new_rows = False
    """Whether a window that takes a new slot is a new row of the result table. Then a suppress below that waits for the
    window's close needs no lookup for it; one that waits for a time may still buffer an earlier row of that name.
    """
    _shows_again = False
    """After a restart its store shows windows again that were over; how, is known for such aggregates alone."""
    _looks_at_every_row = False
    """``_remove_nulls`` has to be called after every record."""

    def __init__(
        self,
        context: OperatorContext,
        aggregation: Aggregation,
        slots: Slots,
        *,
        final: FinalResults | None = None,
        inputs: int = 1,
    ) -> None:
        super().__init__(context)
        self.aggregation, self.slots, self.final = aggregation, slots, final
        self.folds = aggregation.start()
        self.stream_times_ms = [NO_TIMESTAMP_MS] * inputs
        self.input = 0
        """Number of the stream whose record is being taken."""
        self.input_of: np.ndarray | None = None
        """Number of the stream of each row of the batch, when there are several."""
        self._updates: Updates | None = None
        self._kept = 0
        state = self.folds.only
        self._ahead = None
        if isinstance(state, PythonState):
            calls = self._decide, self._keep, self._remove_nulls
            self._ahead = DecidingAhead(state, *calls, every_row=self._looks_at_every_row)
        if final is not None:
            self.due = Due(self._position_column, final.wait_ms + final.lag_ms)

    @property
    def observed_stream_time_ms(self) -> int:
        return self.stream_times_ms[self.input]

    @observed_stream_time_ms.setter
    def observed_stream_time_ms(self, time_ms: int) -> None:
        self.stream_times_ms[self.input] = time_ms

    @property
    def _asked(self) -> tuple[bool, bool, bool]:
        """What kernels are asked for: updates, their old values, and final results."""
        is_final = self.final is not None
        return not is_final or self.context.is_viewed, not is_final and self.context.wants_old, is_final

    @abstractmethod
    def _decide(self, batch: Batch, begin: int, end: int) -> Decisions:
        """Run the kernel over rows ``begin`` up to ``end``."""

    @abstractmethod
    def _reserve(self, records: int) -> None:
        """Make room for what ``records`` rows may create."""

    def _is_over(self, start_ms: np.ndarray, end_ms: np.ndarray, store_time_ms: int, emitted_ms: int) -> np.ndarray:
        """Which windows no lookup will ever see again when the store's time is ``store_time_ms`` and results up to the
        position ``emitted_ms`` have gone on.
        """
        return np.zeros(len(start_ms), np.bool_)

    def _is_gone(self, start_ms: np.ndarray, end_ms: np.ndarray, store_time_ms: int, emitted_ms: int) -> np.ndarray:
        """Which of them the store has lost, so that no restart shows them again."""
        retention_ms, segment_ms = self._put_limits
        if segment_ms == 0 or not self._can_restart:
            return self._is_over(start_ms, end_ms, store_time_ms, emitted_ms)
        position = end_ms if self._position_column == "window_end_ms" else start_ms
        return position < first_kept_ms(np.array(store_time_ms), retention_ms, segment_ms)

    @property
    def _can_restart(self) -> bool:
        return self._shows_again and (self.final is None or self.store_segment_ms > 0)

    def _expired(self) -> np.ndarray:
        """Live slots whose window is gone."""
        live = self.slots.live()
        return live[self._gone(live)]

    def _over(self, slots: np.ndarray) -> np.ndarray:
        """Which of ``slots`` have a window that is over."""
        return self._is_over(*self._ages(slots))

    def _gone(self, slots: np.ndarray) -> np.ndarray:
        """Which of ``slots`` have a window that is gone."""
        return self._is_gone(*self._ages(slots))

    def _ages(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, int]:
        emitted = NO_TIMESTAMP_MS if self.final is None else self.final.emitted
        return self.slots.start[slots], self.slots.end[slots], self.slots.observed_stream_time_ms, emitted

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        self._settle()
        self._reserve(len(batch))
        self.folds.grow(self.slots.capacity)
        if self.final is not None:
            times = np.where(self._moves_time(batch), batch.time_ms, NO_TIMESTAMP_MS)
            self.final.begin(times, self.observed_stream_time_ms)
        is_slow = self.aggregation.only.is_record_by_record
        decided, value, old = self._record_by_record(batch) if is_slow else self._fold(batch)
        self._book(decided, batch, chunk)
        if self.final is not None:
            decided, value, old = self._closed(batch, decided, value, old)
        return self._forward(batch, decided, value, old)

    def restart(self) -> None:
        """What a persistent store has lost is gone for good; it shows all else again, until its time rises. A store in
        memory comes back from its changelog, with its time.
        """
        if not self._can_restart:
            super().restart()
        self._settle()
        gone = self._expired()
        self.slots.bury(gone)
        self._forget(gone)
        self._released()
        self.stream_times_ms = [NO_TIMESTAMP_MS] * len(self.stream_times_ms)
        if self.store_segment_ms > 0:
            self.slots.counts[OBSERVED_MS] = NO_TIMESTAMP_MS

    def advance(self, advance_row: Batch, chunk: Chunk) -> Batch | None:
        before_ms, puts = self.observed_stream_time_ms, self.puts
        self.stream_times_ms = [max(seen_ms, int(advance_row.time_ms[0])) for seen_ms in self.stream_times_ms]
        if self.final is None:
            return None
        self.final.begin(advance_row.time_ms, before_ms)
        finals = self._finals(self._visible_at(np.array([self.slots.observed_stream_time_ms])))
        due = self._forward(advance_row, *self._closed(advance_row, *self._values(advance_row, finals)))
        self.puts = puts  # an advance puts nothing; what came to the node because of it did
        return due

    def propagated_time_ms(self, time_ms: int) -> int:
        if self.final is None:
            return time_ms
        live = self.slots.live()
        waiting = live[self._position(live) > self.final.emitted]
        return int(min(time_ms - self.final.wait_ms, self.slots.time[waiting].min(initial=time_ms)))

    def _forward(self, batch: Batch, decided: Decisions, value: Column, old: Values | None) -> Batch:
        has_headers = self.has_headers or self.final is not None
        return decided.forward(batch, value, old, wants_old=self.context.wants_old, has_headers=has_headers)

    def _book(self, decided: Decisions, batch: Batch, chunk: Chunk) -> None:
        took_effect = np.ones(len(batch), np.bool_)
        for drops in decided.drops:
            took_effect[drops.row[drops.is_record]] = False
            chunk.drop(self.context.node, batch, drops)
        chunk.applied[batch.cause[took_effect]] = True

    def _fold(self, batch: Batch) -> tuple[Decisions, Updates | Values, Values | None]:
        knows_new_rows, wants_old = self._knows_new_rows, self.context.wants_old  # before the batch moves its times
        decided = self._decide(batch, 0, len(batch))
        if self.final is not None:
            decided = joined([decided, self._finals(self._visible_from())])
        updates = Updates(self.folds, batch, decided)
        if knows_new_rows and self.context.is_lazy and len(self.stream_times_ms) == 1:
            decided = decided.chained(self.slots.capacity)
        if self.context.is_lazy and self.final is None and not wants_old and not self.aggregation.may_be_null:
            self._updates = updates
            return decided, updates, None
        new, old = updates.run(np.arange(len(decided.row)), with_old=wants_old)
        if self.aggregation.may_be_null:
            old_valid = is_valid(old) if wants_old else decided.old_valid
            decided = replace(decided, valid=is_valid(new), old_valid=old_valid)
        return decided, Values(new), Values(old) if wants_old else None

    def _record_by_record(self, batch: Batch) -> tuple[Decisions, Values, Values | None]:
        """A Python function may answer None, which the next record must find done."""
        ahead, state = self._ahead, self.folds.only
        assert ahead is not None
        assert isinstance(state, PythonState)
        pieces: list[Decisions] = []
        for begin, end in self._runs(len(batch)):
            pieces += ahead.run(batch, begin, end, self.slots.capacity)
        if self.final is not None:
            finals = self._finals(self._visible_from())
            state.carry_out(finals.program, batch)
            pieces.append(finals)
        decided = joined(pieces) if pieces else self._decide(batch, 0, 0)
        new, old = state.emitted()
        self._forget(decided.program.slots)
        new_values = state.typed(new, decided.valid)
        if not self.context.wants_old:
            return replace(decided, valid=is_valid(new_values)), Values(new_values), None
        before = state.typed(old, decided.old_valid)
        return (
            replace(decided, valid=is_valid(new_values), old_valid=is_valid(before)),
            Values(new_values),
            Values(before),
        )

    def _runs(self, rows: int) -> Iterator[tuple[int, int]]:
        """From where to where rows are of one stream with a time of its own."""
        if self.input_of is None or self._window is None:
            yield 0, rows
            return
        cuts = [0, *(np.flatnonzero(np.diff(self.input_of)) + 1).tolist(), rows] if rows else []
        for begin, end in pairwise(cuts):
            self.input = int(self.input_of[begin])
            yield begin, end

    def _arrays(self) -> list[np.ndarray]:
        """What kernels change."""
        return list(self.slots.columns())

    def _keep(self) -> Callable[[], None]:
        """What puts the store, and the time, back to how they are now."""
        put_back, time_ms = keeper(self._arrays()), self.observed_stream_time_ms

        def everything() -> None:
            put_back()
            self.observed_stream_time_ms = time_ms

        return everything

    def _forget(self, slots: np.ndarray) -> None:
        """Let values go which the store had in ``slots`` and has no more."""
        self.folds.forget(slots[self.slots.flags[slots] == 0])

    def _remove_nulls(self, program: FoldProgram, state: PythonState) -> None:
        """Take aggregates that became None out of the store."""
        for slot in program.slots[program.flags & ADD > 0].tolist():
            if state.state[slot] is None:
                self._remove(slot)

    def _remove(self, slot: int) -> None:
        if self.slots.flags[slot] & LIVE:
            remove(self.slots.columns(), slot)

    # --- puts of processors ------------------------------------------------------------------------------------

    @property
    def store_keys(self) -> Keys:
        keys: Keys = self.context.keys
        return keys

    @property
    def window_size_ms(self) -> int:
        return 0

    @property
    def store_segment_ms(self) -> int:
        return self._put_limits[1]

    def put_by_processor(self, one: Single, chunk: Chunk) -> None:
        batch = one.batch()
        self._settle()
        is_value = bool(batch.valid[0])
        aggregate = self.folds.saved_of(batch.value.all()) if is_value else None
        if self._window is None or self._admits(batch, chunk):
            self._put(batch, aggregate)

    def remove_by_processor(self, one: Single, chunk: Chunk) -> None:
        batch = one.batch()
        self._settle()
        if self._removes_by_time:
            self._reach(batch)
        self._put(batch, None)

    _removes_by_time = True
    """A removal moves the store's time."""
    _put_limits = 0, 0
    """Of puts into windows: the retention, and the length of a segment or 0."""

    def _reach(self, batch: Batch) -> int:
        """The store's time is that of the window in ``batch`` or later; what decides whether that has expired."""
        start, end = _bounds_of(batch)
        position = end if self._position_column == "window_end_ms" else start
        self.slots.counts[OBSERVED_MS] = max(self.slots.observed_stream_time_ms, position)
        return position

    def _admits(self, batch: Batch, chunk: Chunk) -> bool:
        """Whether the store shows what is put; booked when it counts as expired."""
        position, (retention_ms, segment_ms) = self._reach(batch), self._put_limits
        newest_ms = self.slots.observed_stream_time_ms
        limit_ms = newest_ms - retention_ms
        if is_put_expired(position, limit_ms, segment_ms):
            numbers = (np.full(1, number, np.int64) for number in (newest_ms, limit_ms, *_bounds_of(batch)))
            row, is_record = np.zeros(1, np.int32), np.zeros(1, np.bool_)
            chunk.drop(self.context.node, batch, Drops(DropReason.EXPIRED_IN_STORE, row, is_record, *numbers))
        return position > limit_ms

    def _put(self, batch: Batch, aggregate: pa.Array | None) -> None:
        """Put the ``aggregate``, or delete it."""
        self.slots.reserve(1)
        self.folds.grow(self.slots.capacity)
        with np.errstate(over="ignore"):  # the hash wraps; NumPy would say so when JIT is off
            slot = self._slot_of(int(batch.key[0]), *_bounds_of(batch), enters=aggregate is not None)
        if aggregate is not None:
            self.slots.time[slot] = int(batch.time_ms[0])
            self.folds.load(np.array([slot]), aggregate)
        elif slot >= 0:
            with np.errstate(over="ignore"):
                self._remove(slot)
            self._forget(np.array([slot]))

    def _slot_of(self, key: int, start_ms: int, end_ms: int, *, enters: bool) -> int:
        """Of a key and its window; ``enters``: a new one if there is none, else -1."""
        slot: int = (enter_slot if enters else find_slot)(self.slots.columns(), key, start_ms, end_ms)
        return slot

    def shown_windows(self, key: int | None = None) -> np.ndarray:
        self._settle()
        is_there = self.slots.flags & LIVE > 0
        slots = np.flatnonzero(is_there if key is None else is_there & (self.slots.key == key))
        return slots[~self._over(slots)]

    def window_at(self, key: int, start_ms: int, end_ms: int) -> int:
        self._settle()
        with np.errstate(over="ignore"):
            slot = self._slot_of(key, start_ms, end_ms, enters=False)
        return -1 if slot < 0 or self._over(np.array([slot]))[0] else slot

    def windows_in(self, slots: np.ndarray) -> ShownWindows:
        value = self.folds.result(self.folds.save(slots))
        columns = (self.slots.start[slots], self.slots.end[slots], self.slots.time[slots])
        return ShownWindows(self.slots.key[slots].astype(np.int32), *columns, value)

    # --- results at the close of windows -----------------------------------------------------------------------

    def _moves_time(self, batch: Batch) -> np.ndarray:
        """Rows whose record moves the operator's stream time."""
        return batch.key >= 0

    def _position(self, slots: np.ndarray) -> np.ndarray:
        """What decides when the windows in ``slots`` close."""
        return self.slots.start[slots]

    def _visible_from(self) -> np.ndarray:
        """The first position that the store shows after each row of the batch: any, unless it forgets."""
        assert self.final is not None
        return self._visible_at(self.final.closed)

    def _visible_at(self, store_time_ms: np.ndarray) -> np.ndarray:
        """The same at times of the store."""
        return np.zeros(len(store_time_ms), np.int64)

    def _order(self, decided: Decisions) -> np.ndarray:
        """Final results in the order in which the store shows them, by the row they leave at."""
        return np.argsort(decided.row, kind="stable")

    def _finals(self, visible_from: np.ndarray) -> Decisions:
        """Results of windows in the store that leave in this batch."""
        assert self.final is not None
        live = self.slots.live()
        indices, row = self.final.due(self._position(live), visible_from)
        slots, n = live[indices], len(indices)
        program = np.full(n, EMIT, np.uint8), slots.astype(np.int32), np.full(n, -1, np.int32)
        return Decisions(
            row=row.astype(np.int32),
            key=self.slots.key[slots].astype(np.int32),
            time_ms=self.slots.time[slots],
            valid=np.ones(n, np.bool_),
            old_valid=np.zeros(n, np.bool_),
            program=FoldProgram(*program),
            window_start_ms=self.slots.start[slots],
            window_end_ms=self.slots.end[slots],
            stream_time_ms=self.final.stream_time_ms[row],
            is_final=np.ones(n, np.bool_),
        )

    def _values(self, advance_row: Batch, finals: Decisions) -> tuple[Decisions, Values, Values | None]:
        """Values of windows that an advance of stream time closes."""
        empty_batch = advance_row.take(np.zeros(0, np.int64))
        if self.aggregation.only.is_record_by_record:
            state = self.folds.only
            assert isinstance(state, PythonState)
            values = state.typed(state.step(finals.program, empty_batch)[0])
        else:
            values, _ = Updates(self.folds, empty_batch, finals).run(np.arange(len(finals.row)))
        old = Values(pa.nulls(len(finals.row), values.type)) if self.context.wants_old else None
        return replace(finals, valid=is_valid(values)), Values(values), old

    def _closed(
        self, batch: Batch, decided: Decisions, value: Column, old: Values | None
    ) -> tuple[Decisions, Values, Values | None]:
        """Final results by the row they leave at, one that is null in silence; the other updates were but put."""
        assert self.final is not None
        assert decided.is_final is not None
        self.final.finish()
        if self.context.is_viewed:
            puts = np.flatnonzero(~decided.is_final)
            self.puts = self._forward(batch, decided.take(puts), Values(value.take(puts)), None)
        finals = np.flatnonzero(decided.is_final & decided.valid)
        finals = finals[self._order(decided.take(finals))]
        return decided.take(finals), Values(value.take(finals)), None if old is None else Values(old.take(finals))

    def _settle(self) -> None:
        """Finish the chunk before: run a program nobody asked for, and forget rows whose time is over."""
        if self._updates is not None:
            self._updates.finish()
            self._updates = None
        if int(self.slots.counts[LIVE_COUNT]) > 2 * self._kept + _KEPT_SLOTS:
            expired = self._expired()
            self.slots.bury(expired)
            self._forget(expired)
            self._kept = int(self.slots.counts[LIVE_COUNT])
            self._released()

    def _released(self) -> None:
        """Called after slots were released."""

    # --- state -----------------------------------------------------------------------------------------------

    def restored(self, left: LeftState) -> tuple[pa.Table, Counters]:
        refuse_hidden_state(left.store, shows_all=self.folds.shows_all)
        last = left.log.last()
        kept, position = self._keys_of(left, last), self._keys_of(left, left.log).get(self._position_column)
        value = last.decoded(left.shape.value, last.value)
        columns = kept | {
            "key": last.decoded(self.context.shape.key, kept["key"]),
            "aggregate": self.folds.saved_of(value),
            "record_time_ms": kept["window_end_ms"] if self._window == "session" else pa.array(last.time_ms),
        }
        counters = dict.fromkeys(self._clock_names(), left.stream_time_ms)
        counters["store_time_ms"] = NO_TIMESTAMP_MS if position is None else _largest(position.to_numpy())
        if self.final is not None:
            self.final.last_close_ms = left.metadata.get(left.store, NO_TIMESTAMP_MS)
            counters |= {"last_close_ms": self.final.last_close_ms, "left_ms": self.final.emitted}
        schema = self.rows_schema()
        return pa.table([columns[name] for name in schema.names], schema=schema), counters

    def logged(self, rows: pa.Table, kept: KeptStore) -> tuple[Changelog, ...]:
        refuse_hidden_state(kept.store, shows_all=self.folds.shows_all)
        shown = self.folds.result(only_chunk(rows, "aggregate"))
        rows, shown = rows.filter(shown.is_valid()), shown.drop_null()
        key = self.context.shape.key.encode(only_chunk(rows, "key"))
        if self._window is not None:
            start, end = (rows[name].to_numpy() for name in ("window_start_ms", "window_end_ms"))
            key = session_key(key, start, end) if self._window == "session" else window_key(key, start)
        return (Changelog(kept.topic, key, kept.shape.value.encode(shown), rows["record_time_ms"].to_numpy()),)

    def _keys_of(self, left: LeftState, log: Changelog) -> dict[str, pa.Array]:
        """Serialized keys of the records, and the windows' bounds."""
        if self._window is None:
            return {"key": log.key}
        if self._window == "session":
            key, start, end = log.session_keys
        else:
            key, start, _ = log.window_keys
            end = left.ends(start)
        return {"key": key, "window_start_ms": pa.array(start), "window_end_ms": pa.array(end)}

    def resume(self, rows: pa.Table, counters: Counters) -> None:
        self.stream_times_ms = [counters.get(name, NO_TIMESTAMP_MS) for name in self._clock_names()]
        self.slots.counts[OBSERVED_MS] = counters.get("store_time_ms", NO_TIMESTAMP_MS)
        if self.final is not None:
            self.final.last_close_ms = counters.get("last_close_ms", NO_TIMESTAMP_MS)
        rows = rows.combine_chunks()
        key = self.context.keys.intern(self.context.shape.key.encode(rows["key"].combine_chunks()))
        start, end = (
            rows[name].to_numpy() if name in rows.column_names else np.zeros(len(key), np.int64)
            for name in ("window_start_ms", "window_end_ms")
        )
        slots = self.slots.add(key, start, end, rows["record_time_ms"].to_numpy())
        self.folds.grow(self.slots.capacity)
        self.folds.load(slots, rows["aggregate"].combine_chunks())
        self.slots.bury(self._expired())
        self._released()

    def counters(self) -> Counters:
        counters = dict(zip(self._clock_names(), self.stream_times_ms, strict=True))
        counters["store_time_ms"] = self.slots.observed_stream_time_ms
        if self.final is not None:
            counters |= {"last_close_ms": self.final.last_close_ms, "left_ms": self.final.emitted}
        return counters

    def forgets(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        if self._window is None:
            return np.zeros(len(rows), np.bool_)
        start, end = (rows[name].to_numpy() for name in ("window_start_ms", "window_end_ms"))
        store_time, emitted = (counters.get(name, NO_TIMESTAMP_MS) for name in ("store_time_ms", "left_ms"))
        return self._is_over(start, end, store_time, emitted)

    def loses(self, rows: pa.Table, counters: Counters) -> np.ndarray:
        if not self._shows_again:
            return self.forgets(rows, counters)
        start, end = (rows[name].to_numpy() for name in ("window_start_ms", "window_end_ms"))
        store_time, emitted = (counters.get(name, NO_TIMESTAMP_MS) for name in ("store_time_ms", "left_ms"))
        return self._is_gone(start, end, store_time, emitted)

    def _clock_names(self) -> list[str]:
        several = len(self.stream_times_ms) > 1
        return [f"stream_time_{n}_ms" if several else "stream_time_ms" for n in range(len(self.stream_times_ms))]

    def changes(self) -> pa.Table:
        self._settle()
        changed = self.slots.changed()
        return with_deleted(self._table(changed[~self._gone(changed)]), self._table(self.slots.graves()))

    def rows(self) -> pa.Table:
        self._settle()
        live = self.slots.live()
        return self._table(live[~self._over(live)])

    def contents(self) -> pa.Table:
        rows = self.rows()
        value = self.folds.result(rows["aggregate"].combine_chunks())
        shown = rows.set_column(rows.column_names.index("aggregate"), "value", value)
        return shown.filter(value.is_valid()) if self.aggregation.may_be_null else shown

    def rows_schema(self) -> pa.Schema:
        key, saved = self.context.shape.key.arrow_type, self.folds.saved_type
        return aggregate_schema(key, saved, is_windowed=self._window is not None)

    _window: str | None = None

    def _table(self, slots: np.ndarray) -> pa.Table:
        columns: dict[str, pa.Array] = {
            "key": self.context.keys.typed(self.slots.key[slots]),
            "window_start_ms": pa.array(self.slots.start[slots]),
            "window_end_ms": pa.array(self.slots.end[slots]),
            "aggregate": self.folds.save(slots),
            "record_time_ms": pa.array(self.slots.time[slots]),
        }
        schema = self.rows_schema()
        return pa.table([columns[name] for name in schema.names], schema=schema)
