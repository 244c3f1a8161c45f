"""The tape of one task in one increment: rows of all its sources in the order in which the task takes them.

Owns the order between a task's inputs and the places of records. Rule: inside a partition offset order, always. A place
is PLACE_COLUMNS: the landed record that caused a row, and how far behind it the row is in the chain of causes. With
order="time" landed queues are merged as in Kafka's PartitionGroup, by the time of their heads. Repartition rows come by
the tape time of their cause, and among landed ones of the same time by the tasks that took the causes: smaller
sub-topologies first, then smaller partitions. So one thread could have run all tasks, as replay judge does. With
order="arrival" rows come by the arrival of the landed record, then as one thread would process what it caused. What
goes round a loop comes behind all that has its time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from ...state.buffers import only_chunk
from ...state.errors import LandingError
from ...state.tables.key_dictionaries import concatenated
from ...state.times import known_times
from ..kernels.partition_group import NO_MORE, QueueOrder, merge_queues
from .causal_order import LANDED
from .extracted_slice import Extraction, extracted
from .input_queues import PLACE_COLUMNS, Queue
from .landed_reader import LandedRows
from .landed_slice import Slice
from .recorded_time_order import ADVANCE, BEFORE_ALL, advance_numbers, doubled, in_heap, parts, with_advances
from .restarts import TaskRestart, WaitingRestarts
from .source_progress import SourceClock
from .stream_time import StreamTimeAdvance
from .task_input import TapeChunk, integers


@dataclass
class CausalColumns:
    """PLACE_COLUMNS of a chunk's rows; empty where nobody asks for them."""

    columns: dict[str, np.ndarray]

    def of(self, cause: np.ndarray, *, deeper: int) -> dict[str, np.ndarray]:
        """Places of rows that the task sends on because of rows ``cause``; cause_number is the sender's.

        ``deeper`` 1: they are taken after the record that sent them, 0: as part of it.
        """
        of_cause = {name: column[cause] for name, column in self.columns.items()}
        return of_cause | {"cause_depth": of_cause["cause_depth"] + deeper}

    def part(self, begin: int, end: int) -> "CausalColumns":
        """Of the chunk's rows ``begin`` to ``end``."""
        return CausalColumns({name: column[begin:end] for name, column in self.columns.items()})


NO_ORDER = CausalColumns({})
"""Where nobody asks for them."""


@dataclass
class _Lane:
    """What is merged by time: a ``queue`` of the tape, its ``number`` there, and its rows. Where it is made of several
    queues, these are of the first. ``which`` and ``row`` say for each of its rows the queue and the row there.
    """

    number: int
    queue: Queue
    table: pa.Table
    which: np.ndarray
    row: np.ndarray


@dataclass
class TaskTape:
    """``heap``: queue numbers as the increment before left them, or None; written when all chunks were taken."""

    queues: Sequence[Queue]
    names: Sequence[str]
    """Of the task's sources."""
    order: str
    sub_topology: int
    partition: int
    position: int
    tape_time_ms: int
    """Of the rows before; kept up where places are asked for."""
    heap: list[int] | None = None
    empty: tuple[pa.Table, ...] = ()
    """No rows, by source."""
    next_offset: dict[int, int] = field(default_factory=dict)
    """By source that is a repartition table: the offset of its next row."""
    fixed: dict[int, pa.Table] = field(default_factory=dict)
    """Rows of repartition tables with their offsets, by source: an order written down once, for ever."""
    signals: dict[str, dict[str, int]] = field(default_factory=dict)
    """By source that other tasks write, and partition of the task: the time that it forwarded last."""
    is_placed: bool = True
    """Whether anybody asks for places."""
    reads_written: bool = False
    """Whether another part of Kafka's task reads what tasks write (SubTopology.kafka_id)."""
    extractions: Mapping[int, Extraction] = field(default_factory=dict)
    """Of landed sources whose records get other times, by number."""
    given: np.ndarray | None = None
    """The queue of each row, in another order than by time: of landed records alone."""

    def __post_init__(self) -> None:
        if self.extractions:
            self.queues = [self._extracted(queue) for queue in self.queues]
        self._clock = SourceClock(self.queues, self.names, self.order, self.signals)

    def _extracted(self, queue: Queue) -> Queue:
        if queue.slice is None or queue.source not in self.extractions:
            return queue
        return replace(queue, slice=extracted(queue.slice, self.extractions[queue.source]))

    def chunks(self, records: int) -> Iterator[tuple[TapeChunk | StreamTimeAdvance | TaskRestart, CausalColumns]]:
        """Chunks of about ``records`` rows, recorded times at which stream time moves on, each with one place, and
        restarts, which have none.
        """
        waiting = WaitingRestarts({queue.source: queue.restarts for queue in self.queues})
        for chunk, places in self._chunks(records):
            if not self.has_restarts or isinstance(chunk, StreamTimeAdvance):
                yield chunk, places
                continue
            for begin, end, restart in waiting.parts(chunk):
                if restart is not None:
                    yield restart, NO_ORDER
                yield chunk.part(begin, end), places.part(begin, end)

    def _chunks(self, records: int) -> Iterator[tuple[TapeChunk | StreamTimeAdvance, CausalColumns]]:
        if self._only is not None:
            yield from self._single(self.queues[0], self._only, records)
        elif self._is_landed_by_time:
            yield from self._landed_chunks(records)
        else:
            yield from self._merged(records)

    def keys_and_times(self) -> Iterator[tuple[int, pa.Array, np.ndarray]]:
        """Source, keys and timestamps of all rows, in any order."""
        for number, queue in enumerate(self.queues):
            if queue.slice is not None:
                for keys, times in queue.slice.keys_and_times():
                    yield queue.source, keys, times
            else:
                yield (
                    queue.source,
                    only_chunk(self._tables[number], "key"),
                    known_times(integers(self._tables[number], "timestamp", -1)),
                )

    @property
    def has_advances(self) -> bool:
        """Whether stream time moves on without a record anywhere on it."""
        return any(queue.recorded or (queue.pieces is not None and queue.pieces.signals) for queue in self.queues)

    @property
    def has_restarts(self) -> bool:
        """Whether the task begins again before some record on it."""
        return any(queue.restarts for queue in self.queues)

    @property
    def is_mixed(self) -> bool:
        """Whether Kafka's task reads repartition tables. Their next record is not known at the end of an increment, so
        if the shape of a heap decided ties, these would depend on the cuts.
        """
        return self.reads_written or any(queue.slice is None for queue in self.queues)

    @property
    def _is_landed_by_time(self) -> bool:
        is_landed = all(queue.slice is not None and not queue.has_advances for queue in self.queues)
        return is_landed and self.order == "time" and self.given is None

    @property
    def _only(self) -> Slice | None:
        """The one slice of a tape that goes chunk by chunk."""
        (first, *more) = self.queues
        is_single = not more and self.order == "time" and len(self.names) == 1
        return first.slice if is_single else None

    @cached_property
    def _tables(self) -> list[pa.Table]:
        """Of every queue what its order depends on, recorded times among it: all of what other tasks wrote, and of
        landed records their offsets and times (or arrivals).
        """
        return [self._table(queue) for queue in self.queues]

    def _single(
        self, queue: Queue, slice_: Slice, records: int
    ) -> Iterator[tuple[TapeChunk | StreamTimeAdvance, CausalColumns]]:
        for number, recorded in enumerate(queue.recorded):
            yield from self._records(slice_.part(slice_.begin, recorded.before_offset), records)
            # A recorded time T comes before the records of T + 1: the tape's time is T + 1 there, and BEFORE_ALL puts
            # the row in front of those records. If the tape had reached T + 1 already, the row has an ordinary place.
            before_ms, self.tape_time_ms = self.tape_time_ms, max(self.tape_time_ms, recorded.time_ms + 1)
            positions = NO_ORDER
            if self.is_placed:
                positions = self._landed(np.array([self.tape_time_ms]), np.array([recorded.before_offset]))
                if self.tape_time_ms > before_ms:
                    positions.columns["cause_sub"] = np.full(1, BEFORE_ALL, np.int64)
            yield self._clock.move(0, number, np.zeros(0, np.int64), ()), positions
            slice_ = slice_.part(recorded.before_offset, slice_.end)
        yield from self._records(slice_, records)

    def _records(self, slice_: Slice, records: int) -> Iterator[tuple[TapeChunk, CausalColumns]]:
        for table in slice_.chunks(records, dictionary_keys=True):
            chunk, positions = TapeChunk.of(table.combine_chunks()), NO_ORDER
            if self.is_placed:
                positions = self._landed(self._times_up_to(chunk), chunk.spread("offset", -1))
            yield chunk, positions

    def _times_up_to(self, chunk: TapeChunk) -> np.ndarray:
        """Time of the tape at every row of its next chunk of landed records; its own moves on."""
        times = np.maximum.accumulate(np.append(self.tape_time_ms, known_times(chunk.spread("timestamp", -1))))
        self.tape_time_ms = int(times[-1])
        return times[1:]

    def _landed(self, times: np.ndarray, offset: np.ndarray) -> CausalColumns:
        n = len(times)
        constant = {
            "cause_sub": self.sub_topology,
            "cause_partition": self.partition,
            "cause_depth": 0,
            "cause_number": LANDED,
        }
        columns = {"cause_time_ms": times, "cause_offset": offset}
        return CausalColumns(
            {name: columns[name] if name in columns else np.full(n, constant[name], np.int64) for name in PLACE_COLUMNS}
        )

    def _landed_chunks(self, records: int) -> Iterator[tuple[TapeChunk, CausalColumns]]:
        """Landed records alone, which are read as they are taken."""
        readers = [reader for reader in self._readers() if reader is not None]
        beyond = np.array([queue.beyond_ms for queue in self.queues], np.int64)
        times = [reader.times() for reader in readers]
        if self.is_mixed:
            ties = np.arange(len(times))
            beyond = _with_ties(beyond, ties, len(ties))
            times = [_all_with_ties(pieces, tie, len(ties)) for tie, pieces in enumerate(times)]
        # Else ties depend on the heap that the increment before left, so the same records come in the same order
        # wherever it ended.
        order = QueueOrder(times, beyond, self.heap or [])
        while len(which := order.take(records)):
            counts = np.bincount(which, minlength=len(readers)).tolist()
            tables = [reader.take(count) for reader, count in zip(readers, counts, strict=True)]
            chunk, positions = self._input(which, tables), NO_ORDER
            if self.is_placed:
                positions = self._landed(self._times_up_to(chunk), self.position + np.arange(len(which)))
            self.position += len(which)
            yield chunk, positions
        self.heap = order.heap

    def _merged(self, records: int) -> Iterator[tuple[TapeChunk | StreamTimeAdvance, CausalColumns]]:
        tables = self._tables
        which, row = self._by_arrival(tables) if self.order == "arrival" else self._by_time(tables)
        positions, advance = self._places(tables, which, row), advances_of(tables, which, row)
        readers = self._readers()
        for begin, end in parts(advance >= 0, records):
            part = slice(begin, end)
            queue, here = which[part], CausalColumns({name: column[part] for name, column in positions.items()})
            # A recorded time is a part of its own: the task handles it between two chunks.
            if advance[begin] >= 0:
                yield self._clock.move(int(which[begin]), int(advance[begin]), which[:begin], tables), here
                continue
            taken = []
            for number, (reader, table) in enumerate(zip(readers, tables, strict=True)):
                rows = row[part][queue == number]
                taken.append(_rows(table, rows) if reader is None else reader.take(len(rows)))
            yield self._input(queue, taken), here

    def _readers(self) -> list[LandedRows | None]:
        """Of every queue that is landed."""
        return [
            None if queue.slice is None else LandedRows(queue.slice, self.empty[queue.source]) for queue in self.queues
        ]

    def _input(self, which: np.ndarray, taken: list[pa.Table]) -> TapeChunk:
        """Rows of queues ``which``, which of every queue are ``taken``."""
        source_of = np.array([queue.source for queue in self.queues], np.int16)
        tables = []
        for number in range(len(self.names)):
            numbers = [each for each, queue in enumerate(self.queues) if queue.source == number]
            table = taken[numbers[0]] if numbers else self.empty[number]
            if len(numbers) > 1:
                # Several partitions of one source are one table for the task. Its rows go in the tape's order, which
                # the places of each queue's rows on the tape give.
                order = np.argsort(np.concatenate([np.flatnonzero(which == each) for each in numbers]))
                table = concatenated([taken[each] for each in numbers]).take(pa.array(order)).combine_chunks()
            tables.append(table)
        return TapeChunk(source_of[which], tuple(tables))

    def _table(self, queue: Queue) -> pa.Table:
        """What the order of a queue depends on, recorded times among it."""
        if not queue.has_rows:
            return self._nothing(queue)
        if queue.pieces is not None:
            nothing = self._nothing(queue)
            # Offsets are given once the rows are in order, and are not in the pieces.
            nothing = nothing.drop_columns(["offset"]) if queue.source in self.next_offset else nothing
            return self._offset(queue, queue.pieces.read(self.order, nothing))
        assert queue.slice is not None
        table = queue.slice.times(arrival=self.order == "arrival")
        if self.order == "arrival":
            table = _with_rising_arrivals(queue, table)
        if not queue.recorded:
            return table
        at = np.searchsorted(table["offset"].to_numpy(), [recorded.before_offset for recorded in queue.recorded])
        times, arrivals = zip(*((each.time_ms + 1, each.arrival) for each in queue.recorded), strict=True)
        return with_advances(table, at, {"timestamp": times, "arrival": arrivals})

    def _offset(self, queue: Queue, rows: pa.Table) -> pa.Table:
        """Rows of a repartition table with their offsets; what is forwarded has none."""
        if queue.source not in self.next_offset:
            return rows
        is_record = advance_numbers(rows) < 0
        first = self.next_offset[queue.source]
        self.next_offset[queue.source] = first + int(is_record.sum())
        # A recorded time takes no offset: it has that of the record before it.
        rows = rows.append_column("offset", pa.array(first + np.cumsum(is_record) - 1))
        if is_record.any():
            self.fixed[queue.source] = rows.filter(pa.array(is_record))
        return rows

    def _nothing(self, queue: Queue) -> pa.Table:
        none = pa.array([], pa.int64())
        missing = ["arrival"] if queue.slice is not None else [*PLACE_COLUMNS, "send"]
        table = self.empty[queue.source]
        for name in missing:
            table = table.append_column(name, none)
        return table

    def _by_arrival(self, tables: list[pa.Table]) -> tuple[np.ndarray, np.ndarray]:
        which, row = rows_of(tables)
        arrival = np.concatenate(
            [
                integers(table, "arrival" if queue.slice is not None else "cause_time_ms", -1)
                for queue, table in zip(self.queues, tables, strict=True)
            ]
        )
        depth = np.concatenate(
            [
                np.zeros(len(table), np.int64) if queue.slice is not None else integers(table, "cause_depth", 0)
                for queue, table in zip(self.queues, tables, strict=True)
            ]
        )
        # By the arrival of the landed record, then by the number of tasks between, so that what a record causes comes
        # behind it; then by queue.
        order = np.lexsort((row, which, depth, arrival))
        return which[order], row[order]

    def _by_time(self, tables: list[pa.Table]) -> tuple[np.ndarray, np.ndarray]:
        if self.given is not None:
            row = np.empty(len(self.given), np.int64)
            for number, table in enumerate(tables):
                row[self.given == number] = np.arange(len(table))
            return self.given, row
        if all(queue.pieces is not None for queue in self.queues):
            return self._by_cause(tables)
        lanes = self._lanes(tables)
        times = [
            known_times(integers(lane.table, "timestamp" if lane.queue.slice is not None else "cause_time_ms", -1))
            for lane in lanes
        ]
        # The next record of a queue, which a later increment takes, is in the heap as well: ties depend on the heap's
        # shape, so without it they would depend on where the increment ends.
        beyond = np.array([lane.queue.beyond_ms for lane in lanes], np.int64)
        # On a mixed tape the heap compares times first and then the numbers of the tasks' order, so that its shape
        # decides no tie. ``beyond`` is such a head, too.
        ties, count = self._ties(lanes) if self.is_mixed else ([np.zeros(1, np.int64)] * len(lanes), len(lanes))
        if any(queue.has_advances for queue in self.queues):
            heads = [self._heads(n, times[n], lane, ties[n], count) for n, lane in enumerate(lanes)]
            times, beyond = [head[:-1] for head in heads], np.array([head[-1] for head in heads])
        elif self.is_mixed:
            beyond = _with_ties(beyond, np.array([tie.max(initial=0) for tie in ties]), count)
            times = [_with_ties(column, tie, count) for column, tie in zip(times, ties, strict=True)]
        lane_of, at, heap = merge_queues(times, beyond, [] if self.is_mixed else self.heap or [])
        self.heap = [lanes[number].number for number in heap]
        which, row = np.empty(len(at), np.int16), np.empty(len(at), np.int64)
        for number, lane in enumerate(lanes):
            rows = np.flatnonzero(lane_of == number)
            which[rows], row[rows] = lane.which[at[rows]], lane.row[at[rows]]
        return which, row

    def _lanes(self, tables: list[pa.Table]) -> list["_Lane"]:
        """The queues that are merged by time. What other tasks wrote is one of them, in the order of causes. So are all
        queues of a loop, the last: among records of one time a record that goes round the loop comes after the record
        that caused it, whichever queue that was in.
        """
        numbers = range(len(tables))
        landed = [number for number in numbers if self.queues[number].slice is not None]
        written = [number for number in numbers if number not in landed]
        round_ = [number for number in written if self.queues[number].goes_round]
        lanes = [
            _Lane(n, self.queues[n], tables[n], np.full(len(tables[n]), n, np.int16), np.arange(len(tables[n])))
            for n in landed
        ]
        for merged in ([number for number in written if number not in round_], round_):
            if not merged:
                continue
            several = [tables[number] for number in merged]
            which, row = self._by_cause(several)
            rows = pa.concat_tables([table.select(PLACE_COLUMNS[:3]) for table in several])
            rows = rows.take(pa.array(starts_of(several)[which] + row)).combine_chunks()
            lanes.append(_Lane(merged[0], self.queues[merged[0]], rows, np.array(merged, np.int16)[which], row))
        return lanes

    def _ties(self, lanes: list["_Lane"]) -> tuple[list[np.ndarray], int]:
        """Numbers by which records of one time come: by the sub-topology and partition of their causes, landed ones of
        this task by their queues, and at last what goes round a loop. Of each of ``lanes`` those of its rows, or one
        for all; all are below the count.
        """
        causes = [
            np.zeros(0, np.int64) if lane.queue.slice is not None or lane.queue.goes_round
            else (integers(lane.table, "cause_sub", 0) - BEFORE_ALL << 32) + integers(lane.table, "cause_partition", 0)
            for lane in lanes
        ]  # fmt: skip
        known = np.unique(np.concatenate(causes))
        own = int(np.searchsorted(known, (self.sub_topology - BEFORE_ALL << 32) + self.partition))
        ties = []
        for number, (lane, cause) in enumerate(zip(lanes, causes, strict=True)):
            if lane.queue.slice is not None:
                ties.append(np.array([own + number]))
            elif lane.queue.goes_round:
                ties.append(np.array([len(known) + len(lanes)]))
            else:
                rank = np.searchsorted(known, cause)
                ties.append(rank + len(lanes) * (rank >= own))
        return ties, len(known) + len(lanes) + 1

    def _heads(self, number: int, times: np.ndarray, lane: "_Lane", tie: np.ndarray, count: int) -> np.ndarray:
        """Of a queue's rows, and of the one behind them, the numbers by which heads are compared."""
        queue, table = lane.queue, lane.table
        # Doubled, as recorded_time_order says: BEFORE_ALL marks a recorded time T, whose cause has the time T + 1, and
        # 2 (T + 1) - 1 is its place. Nothing is known of what comes after.
        if queue.slice is None:
            positions = 2 * times - (integers(table, "cause_sub", 0) == BEFORE_ALL)
            return np.append(in_heap(positions, 2 * times, number, tie, count), NO_MORE)
        # One row more, the next one of a later increment: a recorded time before it holds it back as any other.
        has_beyond = queue.beyond_ms != NO_MORE
        times = np.append(times, queue.beyond_ms if has_beyond else 0)
        positions = doubled(times, np.append(advance_numbers(table) >= 0, queue.beyond_is_advance), queue.lowest)
        heads = in_heap(positions, 2 * times, number, tie, count)
        heads[-1] = heads[-1] if has_beyond else NO_MORE
        return heads

    def _by_cause(self, tables: list[pa.Table]) -> tuple[np.ndarray, np.ndarray]:
        which, row = rows_of(tables)
        # By PLACE_COLUMNS up to cause_depth. np.lexsort takes the most important key last.
        keys = [np.concatenate([integers(table, name, -1) for table in tables]) for name in PLACE_COLUMNS[:5]]
        order = np.lexsort((row, which, *keys[::-1]))
        return which[order], row[order]

    def _places(self, tables: list[pa.Table], which: np.ndarray, row: np.ndarray) -> dict[str, np.ndarray]:
        """Landed rows have their own place on this tape, others that of what caused them."""
        n, first = len(which), self.position
        self.position += n
        if not self.is_placed:
            return {}
        positions = {name: np.full(n, -1, np.int64) for name in PLACE_COLUMNS}
        # Rows of repartition tables have the place of their cause. A landed record is a cause itself: its own place is
        # made here.
        landed, doubled_ms = np.zeros(n, np.bool_), np.zeros(n, np.int64)
        for number, (queue, table) in enumerate(zip(self.queues, tables, strict=True)):
            rows = np.flatnonzero(which == number)
            if queue.slice is not None:
                landed[rows] = True
                name = "arrival" if self.order == "arrival" else "timestamp"
                placed = integers(table, name, -1)[row[rows]]
                positions["cause_time_ms"][rows] = placed if name == "arrival" else known_times(placed)
            else:
                for name in PLACE_COLUMNS:
                    positions[name][rows] = integers(table, name, -1)[row[rows]]
            if self.order == "time":
                doubled_ms[rows] = self._doubled(queue, table)[row[rows]]
        if self.order == "arrival":
            for name in PLACE_COLUMNS[1:]:
                positions[name][landed] = {"cause_number": LANDED}.get(name, 0)
            return positions
        # The tape's time in doubled milliseconds. Even, 2 t, is the time t. Odd, 2 T + 1, is a recorded time T: halved
        # and rounded up it is T + 1, and BEFORE_ALL puts the row in front of the records of T + 1.
        running = np.maximum.accumulate(np.concatenate([[2 * self.tape_time_ms], doubled_ms]))[1:]
        times = (running + 1) // 2
        self.tape_time_ms = int(times[-1]) if n else self.tape_time_ms
        own = {"cause_time_ms": times, "cause_offset": np.arange(first, first + n), "cause_number": np.full(n, LANDED),
               "cause_sub": np.where(running % 2, BEFORE_ALL, self.sub_topology),
               "cause_partition": np.full(n, self.partition), "cause_depth": np.zeros(n, np.int64)}  # fmt: skip
        for name in PLACE_COLUMNS:
            positions[name][landed] = own[name][landed]
        return positions

    def _doubled(self, queue: Queue, table: pa.Table) -> np.ndarray:
        """Places by time, twice what they are, of the rows of a queue in its order
        (jobs/tape/recorded_time_order.py).
        """
        if queue.slice is not None:
            return doubled(known_times(integers(table, "timestamp", -1)), advance_numbers(table) >= 0, queue.lowest)
        is_before_all = integers(table, "cause_sub", -1) == BEFORE_ALL
        doubled_ms: np.ndarray = 2 * integers(table, "cause_time_ms", -1) - is_before_all
        return doubled_ms


def _with_ties(times: np.ndarray, ties: np.ndarray | int, count: int) -> np.ndarray:
    """Numbers that are in order of the times, and for equal times in order of ``ties``, which are below ``count``.
    NO_MORE stays the largest of them.
    """
    numbers: np.ndarray = np.where(times == NO_MORE, NO_MORE, count * times + ties)
    return numbers


def _all_with_ties(pieces: Iterator[np.ndarray], tie: int, count: int) -> Iterator[np.ndarray]:
    for times in pieces:
        yield _with_ties(times, tie, count)


def _rows(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """``rows`` of ``table``; those that lie side by side need no copy."""
    is_run = len(rows) > 0 and bool((np.diff(rows) == 1).all())
    return table.slice(int(rows[0]), len(rows)) if is_run else table.take(pa.array(rows))


def _with_rising_arrivals(queue: Queue, table: pa.Table) -> pa.Table:
    """A queue's rows with arrivals that never fall, as the planner cuts them. Raises LandingError without arrivals."""
    assert queue.slice is not None
    arrival = only_chunk(table, "arrival")
    if arrival.null_count or any(recorded.arrival is None for recorded in queue.recorded):
        raise LandingError(
            queue.slice.path, 'a column "arrival" with a number for every record', "none",
            'land the records with their arrival, or replay with order="time"',
        )  # fmt: skip
    rising = np.maximum.accumulate(arrival.to_numpy())
    return table.set_column(table.column_names.index("arrival"), "arrival", pa.array(rising))


def advances_of(tables: list[pa.Table], which: np.ndarray, row: np.ndarray) -> np.ndarray:
    """``advance_numbers`` of rows of several tables."""
    if not any(ADVANCE in table.column_names for table in tables):
        return np.broadcast_to(np.int64(-1), len(which))
    numbers: np.ndarray = np.concatenate([advance_numbers(table) for table in tables])[starts_of(tables)[which] + row]
    return numbers


def rows_of(tables: list[pa.Table]) -> tuple[np.ndarray, np.ndarray]:
    """(table, row) of all rows, table after table."""
    which = np.repeat(np.arange(len(tables), dtype=np.int16), [len(table) for table in tables])
    return which, np.concatenate([np.arange(len(table)) for table in tables])


def starts_of(tables: list[pa.Table]) -> np.ndarray:
    """Where the rows of each table begin, table after table."""
    return np.cumsum([0, *(len(table) for table in tables[:-1])])
