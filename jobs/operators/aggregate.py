"""Aggregates: the frame that all of them share, and the one without windows (KStreamAggregate, KStreamReduce).

Rule: ``_decide`` runs the kernel, folds carry its program out, and the updates go on in the order of the kernel. Values
are computed when asked for, so that a suppress below pays only for what leaves it.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.folds.aggregation import Aggregation, AggregationState
from jobs.folds.fold import Program, Wanted
from jobs.folds.python import PythonState
from jobs.kernels import records
from jobs.kernels.program import EMIT
from jobs.kernels.time_windows import PROGRAM, REFUSALS, UPDATES, remove
from jobs.operators.operator import Clocks, Place, StatefulOperator, marked
from state.buffers import is_valid
from state.records import Batch, Chunk, Drops, Values
from state.stores.slots import LIVE_COUNT, OBSERVED_MS, Slots

_KEPT_SLOTS = 65_536
"""Below this many rows a store is not swept."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Updates of one kernel call, one element each, and what was refused. Columns as in Batch."""

    row: np.ndarray
    key: np.ndarray
    time_ms: np.ndarray
    valid: np.ndarray
    old_valid: np.ndarray
    program: Program
    window_start_ms: np.ndarray | None = None
    window_end_ms: np.ndarray | None = None
    stream_time_ms: np.ndarray | None = None
    drops: list[Drops] = field(default_factory=list)


class Updates:
    """Values of updates, which exist once the program has been run: on the first ``take``, and on no other."""

    def __init__(self, state: AggregationState, batch: Batch, decisions: Decisions) -> None:
        self._state, self._batch, self._decisions = state, batch, decisions
        self._whole: pa.Array | None = None
        self._has_run = False

    def take(self, rows: np.ndarray) -> pa.Array:
        if self._whole is not None:
            return self._whole.take(pa.array(rows))
        assert not self._has_run, "the values of a lazy batch were asked for twice"
        return self.run(rows)[0]

    def all(self) -> pa.Array:
        if self._whole is None:
            self._whole = self.take(np.arange(len(self._decisions.row)))
        return self._whole

    def run(self, rows: np.ndarray, *, with_old: bool = False) -> tuple[pa.Array, pa.Array]:
        """New values of ``rows``, and old values of all rows if asked; states move on."""
        self._has_run = True
        decided = self._decisions
        wanted = np.full(len(decided.row), -1, np.int64)
        wanted[rows] = np.arange(len(rows))
        wanted[~decided.valid] = -1
        wanted_old = np.full(len(decided.row) if with_old else 0, -1, np.int64)
        if with_old:
            wanted_old[decided.old_valid] = np.flatnonzero(decided.old_valid)
        asked = Wanted(wanted, wanted_old, len(rows), len(decided.row) if with_old else 0)
        new, old = self._state.run(decided.program, self._batch, asked)
        return _masked(new, decided.valid[rows]), _masked(old, decided.old_valid) if with_old else old

    def finish(self) -> None:
        """Run the program if nobody asked for a value."""
        if not self._has_run:
            self.run(np.zeros(0, np.int64))


def _masked(values: pa.Array, valid: np.ndarray) -> pa.Array:
    return values if valid.all() else pc.if_else(pa.array(valid), values, pa.scalar(None, values.type))


class Aggregate(StatefulOperator):
    """What aggregates with and without windows share."""

    def __init__(self, place: Place, aggregation: Aggregation, slots: Slots) -> None:
        super().__init__(place)
        self.aggregation, self.slots = aggregation, slots
        self.folds = aggregation.start()
        self.observed_stream_time_ms = -1
        self._updates: Updates | None = None
        self._kept = 0

    @abstractmethod
    def _decide(self, batch: Batch, begin: int, end: int) -> Decisions:
        """Run the kernel over rows ``begin`` up to ``end``."""

    @abstractmethod
    def _reserve(self, records: int) -> None:
        """Make room for what ``records`` rows may create."""

    def _expired(self) -> np.ndarray:
        """Live slots that no lookup will ever see again."""
        return np.zeros(0, np.int64)

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        self._settle()
        self._reserve(len(batch))
        self.folds.grow(self.slots.capacity)
        is_slow = self.aggregation.only.is_record_by_record
        decided, value, old = self._record_by_record(batch) if is_slow else self._fold(batch)
        for drops in decided.drops:
            chunk.drop(self.place.node, batch, drops)
        chunk.applied[batch.cause[decided.row]] = True
        return Batch(
            cause=batch.cause[decided.row],
            key=decided.key,
            keys=batch.keys,
            time_ms=decided.time_ms,
            valid=decided.valid,
            value=value,
            window_start_ms=decided.window_start_ms,
            window_end_ms=decided.window_end_ms,
            old=old,
            old_valid=decided.old_valid if self.place.wants_old else None,
            stream_time_ms=decided.stream_time_ms,
        )

    def _fold(self, batch: Batch) -> tuple[Decisions, Updates | Values, Values | None]:
        decided, wants_old = self._decide(batch, 0, len(batch)), self.place.wants_old
        updates = Updates(self.folds, batch, decided)
        if self.place.is_lazy and not wants_old and not self.aggregation.may_be_null:
            self._updates = updates
            return decided, updates, None
        new, old = updates.run(np.arange(len(decided.row)), with_old=wants_old)
        if self.aggregation.may_be_null:
            old_valid = is_valid(old) if wants_old else decided.old_valid
            decided = replace(decided, valid=is_valid(new), old_valid=old_valid)
        return decided, Values(new), Values(old) if wants_old else None

    def _record_by_record(self, batch: Batch) -> tuple[Decisions, Values, Values | None]:
        """A Python function may answer None, which the next record must find done."""
        state = self.folds.only
        assert isinstance(state, PythonState)
        pieces, new, old = [], [], []
        for row in range(len(batch)):
            decided = self._decide(batch, row, row + 1)
            values, before = state.step(decided.program, batch)
            pieces.append(self._without_nulls(decided, values))
            new += values
            old += before
        decided = _joined(pieces) if pieces else self._decide(batch, 0, 0)
        old_values = Values(state.typed(old)) if self.place.wants_old else None
        valid = np.array([value is not None for value in new], np.bool_)
        was_valid = np.array([value is not None for value in old], np.bool_)
        return replace(decided, valid=valid, old_valid=was_valid), Values(state.typed(new)), old_values

    def _without_nulls(self, decided: Decisions, values: list[object]) -> Decisions:
        """Take aggregates that became None out of the store."""
        for update in np.flatnonzero(decided.valid).tolist():
            if values[update] is None:
                self._remove(int(decided.program.slots[_entry_of(decided.program, update)]))
        return decided

    def _remove(self, slot: int) -> None:
        remove(self.slots.columns(), slot)

    def _settle(self) -> None:
        """Finish the chunk before: run a program nobody asked for, and forget rows whose time is over."""
        if self._updates is not None:
            self._updates.finish()
            self._updates = None
        if int(self.slots.counts[LIVE_COUNT]) > 2 * self._kept + _KEPT_SLOTS:
            self.slots.release(self._expired())
            self._kept = int(self.slots.counts[LIVE_COUNT])
            self._released()

    def _released(self) -> None:
        """Called after slots were released."""

    # --- state -----------------------------------------------------------------------------------------------

    def resume(self, rows: pa.Table, clocks: Clocks) -> None:
        self.observed_stream_time_ms = clocks.get("stream_time_ms", -1)
        self.slots.counts[OBSERVED_MS] = clocks.get("store_time_ms", -1)
        rows = rows.combine_chunks()
        key = self.place.keys.intern(self.place.shape.key.encode(rows["key"].combine_chunks()))
        start, end = (
            rows[name].to_numpy() if name in rows.column_names else np.zeros(len(key), np.int64)
            for name in ("window_start_ms", "window_end_ms")
        )
        slots = self.slots.add(key, start, end, rows["record_time_ms"].to_numpy())
        self.folds.grow(self.slots.capacity)
        self.folds.load(slots, rows["aggregate"].combine_chunks())
        self.slots.release(self._expired())
        self._released()

    def clocks(self) -> Clocks:
        return {
            "stream_time_ms": self.observed_stream_time_ms,
            "store_time_ms": self.slots.observed_stream_time_ms,
        }

    def changes(self) -> pa.Table:
        self._settle()
        changed, graves = np.setdiff1d(self.slots.changed(), self._expired()), self.slots.graves()
        return marked(self._table(changed), self._table(graves))

    def rows(self) -> pa.Table:
        self._settle()
        return self._table(np.setdiff1d(self.slots.live(), self._expired()))

    def contents(self) -> pa.Table:
        rows = self.rows()
        value = self.folds.result(rows["aggregate"].combine_chunks())
        return rows.set_column(rows.column_names.index("aggregate"), "value", value)

    def rows_schema(self) -> pa.Schema:
        window = [] if self._window is None else ["window_start_ms", "window_end_ms"]
        return pa.schema(
            [
                pa.field("key", self.place.shape.key.arrow_type),
                *[pa.field(name, pa.int64()) for name in window],
                pa.field("aggregate", self.folds.saved_type),
                pa.field("record_time_ms", pa.int64()),
            ]
        )

    _window: str | None = None

    def _table(self, slots: np.ndarray) -> pa.Table:
        columns: dict[str, pa.Array] = {
            "key": self.place.keys.typed(self.slots.key[slots]),
            "window_start_ms": pa.array(self.slots.start[slots]),
            "window_end_ms": pa.array(self.slots.end[slots]),
            "aggregate": self.folds.save(slots),
            "record_time_ms": pa.array(self.slots.time[slots]),
        }
        schema = self.rows_schema()
        return pa.table([columns[name] for name in schema.names], schema=schema)


def _entry_of(program: Program, update: int) -> int:
    """Place of the entry that completes ``update``."""
    return int(np.flatnonzero(program.flags & EMIT)[update])


def _joined(pieces: list[Decisions]) -> Decisions:
    """Decisions of consecutive calls as one; their programs have been carried out already."""

    def join(name: str) -> np.ndarray | None:
        columns = [getattr(piece, name) for piece in pieces]
        return None if columns[0] is None else np.concatenate(columns)

    columns = {f.name: join(f.name) for f in fields(Decisions) if f.name not in ("program", "drops")}
    return Decisions(
        **columns,  # type: ignore[arg-type]
        program=Program(np.zeros(0, np.uint8), np.zeros(0, np.int32), np.zeros(0, np.int32)),
        drops=[drops for piece in pieces for drops in piece.drops],
    )


class RecordAggregate(Aggregate):
    """``group_by_key().count()`` and its like: one aggregate a key, without windows and without a clock."""

    def __init__(self, place: Place, aggregation: Aggregation) -> None:
        super().__init__(place, aggregation, Slots())

    def _reserve(self, records: int) -> None:
        self.slots.reserve(records)

    def _decide(self, batch: Batch, begin: int, end: int) -> Decisions:
        updates, program, (refused,) = records.rooms(end - begin)
        totals = np.zeros(4, np.int64)
        records.aggregate_records(
            (batch.key, batch.time_ms, batch.valid, begin, end),
            self.aggregation.null_after,
            self.aggregation.only.starts_null,
            self.place.wants_old,
            self.slots.columns(),
            updates,
            program,
            refused,
            totals,
        )
        row, key, time_ms, valid, old_valid = (column[: totals[UPDATES]] for column in updates)
        cut = Program(*(column[: totals[PROGRAM]] for column in program))
        rows = refused[: totals[REFUSALS]]
        drops = null_key_drops(batch, rows, "null-key", "null-value")
        return Decisions(row, key, time_ms, valid, old_valid, cut, drops=drops)


def null_key_drops(batch: Batch, rows: np.ndarray, null_key: str, other: str) -> list[Drops]:
    """Whole refusals of ``rows``: reason ``null_key`` where the key is null, else ``other``."""
    has_key = batch.key[rows] >= 0
    return [
        Drops(reason, chosen, np.ones(len(chosen), np.bool_))
        for reason, chosen in ((null_key, rows[~has_key]), (other, rows[has_key]))
        if len(chosen)
    ]
