"""What a task reads, queue by queue: slices of landed tables, and what earlier stages of the increment wrote.

Owns the places of rows. Rule: a place is PLACE_COLUMNS: the landed record that a row goes back to, and how far behind
it in the chain of causes.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...state.times import NO_TIMESTAMP_MS
from ..kernels.partition_group import NO_MORE
from ..landing.recorded_time import Recorded
from .exchange_files import read_exchange_file, rows_in
from .landed_slice import Slice
from .recorded_time_order import with_advances
from .stream_time import NO_PROGRESS, SourceProgress, TimeSignal

PLACE_COLUMNS = ("cause_time_ms", "cause_sub", "cause_partition", "cause_offset", "cause_depth", "cause_number")
"""Time of the tape (or arrival), sub-topology, partition and position of the landed record. Then how many repartitions
lie between (or the position among the rows that it caused), and the number of the row in the tree of causes (arrival
only, else LANDED).
"""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Rows that earlier stages of this increment wrote for one source of one task.

    ``numbers``: by path, of every row the number in the tree of causes; ``sequences``: by path, of every row the place
    among what its landed record caused (both for arrivals only).
    """

    paths: tuple[str, ...]
    numbers: tuple[np.ndarray, ...] = ()
    sequences: tuple[np.ndarray, ...] = ()
    senders: tuple[int, ...] = ()
    """By path, number of the task that wrote it (``Topology.writer_number``)."""
    signals: tuple[TimeSignal, ...] = ()
    """Recorded times that the writers forwarded."""
    writers: tuple[int, ...] = ()
    """Numbers of all tasks that write for the source, whether they ran or not; none for the topic of a loop, which
    recorded times do not reach.
    """

    def read(self, order: str, nothing: pa.Table) -> pa.Table:
        """Rows in the order of causes, with PLACE_COLUMNS, what writers forwarded among them. ``nothing``: no rows."""
        tables = [nothing] if self.signals else []
        for index, path in enumerate(self.paths):
            table = read_exchange_file(path)
            if order == "arrival" and self.numbers:
                own = {"cause_number": self.numbers[index], "cause_depth": self.sequences[index]}
                for name, column in own.items():
                    table = table.set_column(table.column_names.index(name), name, pa.array(column))
            tables.append(table)
        rows = pa.concat_tables(tables, promote_options="default").combine_chunks()
        sender = np.repeat(np.array(self.senders, np.int64), [len(table) for table in tables[-len(self.paths) :]])
        if self.signals:
            sender = np.concatenate([sender, [signals.writer for signals in self.signals]])
            places = zip(*(signals.place for signals in self.signals), strict=True)
            given = dict(zip(PLACE_COLUMNS, places, strict=True)) | {"send": [signals.send for signals in self.signals]}
            rows = with_advances(rows, np.full(len(self.signals), len(rows)), given)
        keys = [rows["send"].to_numpy(), *([sender] if order == "time" else [])]
        keys += [rows[name].to_numpy() for name in reversed(PLACE_COLUMNS[:5])]
        return rows.take(pa.array(np.lexsort(keys))).combine_chunks()


@dataclass(frozen=True, slots=True)
class Queue:
    """One partition of one source: a slice of a landed table, or pieces. ``source``: place in the task's sources."""

    source: int
    slice: Slice | None = None
    pieces: Pieces | None = None
    beyond_ms: int = NO_MORE
    """Time of the next landed record after the slice, or of a recorded time plus one."""
    beyond_is_advance: bool = False
    recorded: tuple[Recorded, ...] = ()
    """Recorded times that are taken with the slice, in order."""
    is_global: bool = False
    """Of a global table, which recorded times do not reach."""
    goes_round: bool = False
    """What its task sends may come back in it: it is part of a loop."""
    before: SourceProgress = NO_PROGRESS
    """What was recorded of the partition, and what its tape had reached, in the increments before."""
    ticked_ms: int = NO_TIMESTAMP_MS
    """The latest tick of the wall clock in the increments before."""
    restarts: tuple[int, ...] = ()
    """Offsets of its records before which the task begins again (jobs/tape/restarts.py)."""

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
        return sum(map(rows_in, self.pieces.paths)) if self.pieces is not None else 0

    @property
    def has_rows(self) -> bool:
        """Whether there may be anything to read."""
        if self.slice is not None:
            return bool(self.slice.files or self.recorded)
        return self.pieces is not None and bool(self.pieces.paths or self.pieces.signals)

    @property
    def lowest(self) -> int:
        """Place behind all that was recorded before (jobs/tape/recorded_time_order.py)."""
        return 2 * (self._behind_ms + 1) if self._behind_ms >= 0 else 2 * NO_TIMESTAMP_MS

    @property
    def _behind_ms(self) -> int:
        return max(self.before.recorded_ms, self.ticked_ms)

    @property
    def has_advances(self) -> bool:
        """Whether the order of its rows depends on recorded times."""
        signals = self.pieces is not None and bool(self.pieces.signals)
        return signals or bool(self.recorded) or self.beyond_is_advance or self._behind_ms >= 0
