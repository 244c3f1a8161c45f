"""The tape of one task in one increment: rows of all its sources in the order in which the task takes them.

Owns the order between a task's inputs and the places of records. Rule: inside a partition offset order, always. A place
is PLACE_COLUMNS: the landed record that a row goes back to, and how far behind it in the chain of causes. order="time":
landed queues meet as in Kafka's PartitionGroup, by the time of their heads; repartition rows come by the tape time of
their cause. order="arrival": by the arrival of the landed record, then as one thread would have taken what it caused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.arrivals import LANDED
from jobs.kernels.queues import NO_MORE, merge_queues
from jobs.tape import Slice
from jobs.task_tables import Input, integers
from state.buffers import only_chunk
from state.errors import LandingError
from state.tables import open_filesystem

PLACE_COLUMNS = ("cause_time_ms", "cause_sub", "cause_partition", "cause_offset", "cause_depth", "cause_number")
"""Time of the tape (or arrival), sub-topology, partition and position of the landed record; how many repartitions lie
between (or the number among what it caused); number of the row in the tree of causes (arrival only, else LANDED)."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Rows that earlier stages of this increment wrote for one source of one task.

    ``numbers``: by path, the number of its first row in the tree of causes; ``sequences``: by path, where the numbers
    among what one landed record caused stand (both for arrivals only).
    """

    paths: tuple[str, ...]
    numbers: tuple[int, ...] = ()
    sequences: tuple[np.ndarray, ...] = ()

    def read(self, order: str) -> pa.Table:
        """Rows in the order of causes, with PLACE_COLUMNS."""
        tables = []
        for place, path in enumerate(self.paths):
            filesystem, root = open_filesystem(path)
            table = pq.read_table(root, filesystem=filesystem)
            if order == "arrival" and self.numbers:
                numbers = np.arange(len(table)) + self.numbers[place]
                table = table.set_column(
                    table.column_names.index("cause_number"), "cause_number", pa.array(numbers)
                ).set_column(table.column_names.index("cause_depth"), "cause_depth", pa.array(self.sequences[place]))
            tables.append(table)
        rows = pa.concat_tables(tables).combine_chunks()
        keys = [rows[name].to_numpy() for name in PLACE_COLUMNS[:5]]
        return rows.take(pa.array(np.lexsort((rows["send"].to_numpy(), *keys[::-1]))))


@dataclass(frozen=True, slots=True)
class Queue:
    """One partition of one source: a slice of a landed table, or pieces. ``source``: place in the task's sources."""

    source: int
    slice: Slice | None = None
    pieces: Pieces | None = None
    inlined: bool = False
    """Pieces that are taken as part of the record that sent them."""
    beyond_ms: int = NO_MORE
    """Time of the next landed record after the slice."""

    @property
    def size(self) -> int:
        """Offsets or files to read."""
        if self.slice is not None:
            return self.slice.end - self.slice.begin
        return 0 if self.pieces is None else len(self.pieces.paths)

    @property
    def length(self) -> int:
        """Rows to read, at most."""
        if self.slice is not None:
            return min(self.slice.end - self.slice.begin, sum(file.records for file in self.slice.files))
        return sum(map(_rows_in, self.pieces.paths)) if self.pieces is not None else 0

    @property
    def has_rows(self) -> bool:
        """Whether there may be anything to read."""
        return bool(self.slice.files) if self.slice is not None else self.pieces is not None and bool(self.pieces.paths)


@dataclass
class Places:
    """PLACE_COLUMNS of a chunk's rows; ``send``: which of the rows of one place was handed on first."""

    columns: dict[str, np.ndarray]
    send: np.ndarray

    def of(self, cause: np.ndarray, *, deeper: int) -> dict[str, np.ndarray]:
        """Places of rows that the task sends on because of rows ``cause``; cause_number is the sender's.

        ``deeper`` 1: they are taken after the record that sent them, 0: as part of it.
        """
        found = {name: column[cause] for name, column in self.columns.items()}
        return found | {"cause_depth": found["cause_depth"] + deeper}


@dataclass
class TaskTape:
    """``heap``: queue numbers as the increment before left them, or None; written when all chunks were taken."""

    queues: Sequence[Queue]
    sources: int
    order: str
    sub_topology: int
    partition: int
    position: int
    tape_time_ms: int
    heap: list[int] | None = None
    empty: tuple[pa.Table, ...] = ()
    """No rows, by source."""
    next_offset: dict[int, int] = field(default_factory=dict)
    """By source that is a repartition table: the offset of its next row."""
    fixed: dict[int, pa.Table] = field(default_factory=dict)
    """Rows of repartition tables with their offsets, by source: an order written down once, for ever."""

    def chunks(self, records: int) -> Iterator[tuple[Input, Places]]:
        """Chunks of about ``records`` rows."""
        if self._only is not None:
            yield from self._single(self._only, records)
        else:
            yield from self._merged(records)

    def keys_and_times(self) -> Iterator[tuple[pa.Array, np.ndarray]]:
        """Keys and timestamps of all rows, in any order."""
        if self._only is not None:
            yield from self._only.keys_and_times()
        else:
            for table in self._tables:
                yield only_chunk(table, "key"), integers(table, "timestamp", -1)

    @property
    def _only(self) -> Slice | None:
        """The one slice of a tape that goes chunk by chunk."""
        (first, *more) = self.queues
        is_single = not more and self.order == "time" and self.sources == 1
        return first.slice if is_single else None

    @cached_property
    def _tables(self) -> list[pa.Table]:
        """Rows of every queue of a tape that is held as a whole."""
        return [self._table(queue) for queue in self.queues]

    def _single(self, slice_: Slice, records: int) -> Iterator[tuple[Input, Places]]:
        for table in slice_.chunks(records):
            n = len(table)
            times = np.maximum.accumulate(np.concatenate([[self.tape_time_ms], integers(table, "timestamp", -1)]))[1:]
            self.tape_time_ms = int(times[-1]) if n else self.tape_time_ms
            places = self._landed(times, integers(table, "offset", -1))
            yield Input(np.zeros(n, np.int16), (table.combine_chunks(),)), places

    def _landed(self, times: np.ndarray, offset: np.ndarray) -> Places:
        n = len(times)
        constant = {
            "cause_sub": self.sub_topology,
            "cause_partition": self.partition,
            "cause_depth": 0,
            "cause_number": LANDED,
        }
        columns = {"cause_time_ms": times, "cause_offset": offset}
        return Places(
            {
                name: columns[name] if name in columns else np.full(n, constant[name], np.int64)
                for name in PLACE_COLUMNS
            },
            np.zeros(n, np.int64),
        )

    def _merged(self, records: int) -> Iterator[tuple[Input, Places]]:
        tables = self._tables
        which, row = self._by_arrival(tables) if self.order == "arrival" else self._by_time(tables)
        source_of = np.array([queue.source for queue in self.queues], np.int16)
        source = source_of[which] if len(which) else np.zeros(0, np.int16)
        wholes, starts = [], np.zeros(len(self.queues), np.int64)
        for number in range(self.sources):
            mine = [place for place, queue in enumerate(self.queues) if queue.source == number]
            for place, start in zip(mine, np.cumsum([0, *(len(tables[place]) for place in mine)])[:-1], strict=True):
                starts[place] = start
            whole = [tables[place] for place in mine]
            wholes.append(pa.concat_tables(whole, promote_options="default").combine_chunks() if whole else None)
        rows = starts[which] + row if len(which) else row
        places, send = self._places(tables, which, row), self._sends(tables)[starts_of(tables)[which] + row]
        for begin in range(0, len(source), records):
            part = slice(begin, begin + records)
            pieces = tuple(
                self.empty[number] if whole is None else whole.take(pa.array(rows[part][source[part] == number]))
                for number, whole in enumerate(wholes)
            )
            yield (
                Input(source[part], pieces),
                Places({name: column[part] for name, column in places.items()}, send[part]),
            )

    def _table(self, queue: Queue) -> pa.Table:
        if not queue.has_rows:
            return self._nothing(queue)
        if queue.pieces is not None:
            rows = queue.pieces.read(self.order)
            if queue.source in self.next_offset:
                first = self.next_offset[queue.source]
                rows = rows.append_column("offset", pa.array(np.arange(first, first + len(rows))))
                self.next_offset[queue.source], self.fixed[queue.source] = first + len(rows), rows
            return rows
        assert queue.slice is not None
        found = list(queue.slice.chunks(1 << 20))
        table = pa.concat_tables(found, promote_options="default").combine_chunks() if found else self._nothing(queue)
        if self.order == "arrival" and ("arrival" not in table.column_names or table["arrival"].null_count):
            raise LandingError(
                queue.slice.path, 'a column "arrival" with a number for every record', "none",
                'land the records with their arrival, or replay with order="time"',
            )  # fmt: skip
        return table

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
        order = np.lexsort((row, which, self._sends(tables), depth, arrival))
        return which[order], row[order]

    def _sends(self, tables: list[pa.Table]) -> np.ndarray:
        """Of all rows, queue after queue: which was handed on first, where several are of one place."""
        return np.concatenate(
            [
                integers(table, "send", 0) if queue.inlined else np.zeros(len(table), np.int64)
                for queue, table in zip(self.queues, tables, strict=True)
            ]
        )

    def _by_time(self, tables: list[pa.Table]) -> tuple[np.ndarray, np.ndarray]:
        if all(queue.pieces is not None for queue in self.queues):
            return self._by_cause(tables)
        times = [
            integers(table, "timestamp" if queue.slice is not None else "cause_time_ms", -1)
            for queue, table in zip(self.queues, tables, strict=True)
        ]
        heap = np.array(self.heap or [], np.int64)
        beyond = np.array([queue.beyond_ms for queue in self.queues], np.int64)
        which, row, after = merge_queues(times, beyond, heap)
        self.heap = after.tolist()
        return which, row

    def _by_cause(self, tables: list[pa.Table]) -> tuple[np.ndarray, np.ndarray]:
        which, row = rows_of(tables)
        keys = [np.concatenate([integers(table, name, -1) for table in tables]) for name in PLACE_COLUMNS[:5]]
        order = np.lexsort((row, which, *keys[::-1]))
        return which[order], row[order]

    def _places(self, tables: list[pa.Table], which: np.ndarray, row: np.ndarray) -> dict[str, np.ndarray]:
        """Landed rows have their own place on this tape, others that of what caused them."""
        n = len(which)
        position = np.arange(self.position, self.position + n)
        self.position += n
        places = {name: np.full(n, -1, np.int64) for name in PLACE_COLUMNS}
        landed = np.zeros(n, np.bool_)
        for place, (queue, table) in enumerate(zip(self.queues, tables, strict=True)):
            rows = np.flatnonzero(which == place)
            if queue.slice is not None:
                landed[rows] = True
                name = "arrival" if self.order == "arrival" else "timestamp"
                places["cause_time_ms"][rows] = integers(table, name, -1)[row[rows]]
            else:
                for name in PLACE_COLUMNS:
                    places[name][rows] = integers(table, name, -1)[row[rows]]
        if self.order == "arrival":
            for name in PLACE_COLUMNS[1:]:
                places[name][landed] = {"cause_number": LANDED}.get(name, 0)
            return places
        running = np.maximum.accumulate(np.concatenate([[self.tape_time_ms], places["cause_time_ms"]]))[1:]
        self.tape_time_ms = int(running[-1]) if n else self.tape_time_ms
        own = {"cause_time_ms": running, "cause_offset": position, "cause_number": np.full(n, LANDED),
               "cause_sub": np.full(n, self.sub_topology), "cause_partition": np.full(n, self.partition),
               "cause_depth": np.zeros(n, np.int64)}  # fmt: skip
        for name in PLACE_COLUMNS:
            places[name][landed] = own[name][landed]
        return places


def _rows_in(path: str) -> int:
    filesystem, root = open_filesystem(path)
    with filesystem.open_input_file(root) as source:
        rows: int = pq.ParquetFile(source).metadata.num_rows
    return rows


def rows_of(tables: list[pa.Table]) -> tuple[np.ndarray, np.ndarray]:
    """(table, row) of all rows, table after table."""
    which = np.repeat(np.arange(len(tables), dtype=np.int16), [len(table) for table in tables])
    return which, np.concatenate([np.arange(len(table)) for table in tables])


def starts_of(tables: list[pa.Table]) -> np.ndarray:
    """Where the rows of each table begin, table after table."""
    return np.cumsum([0, *(len(table) for table in tables[:-1])])
