"""What the stages of one increment hand to each other: files nobody else sees, and the tree of causes."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import fs

from ...state.tables.kept_below import below
from ...state.tables.ledger_rows import DoneRow
from ...state.tables.names import TaskId
from ...state.tables.object_stores import open_filesystem
from ...state.tables.warehouse import PipelineTables, Warehouse
from ..execution.task_description import TaskReport, exchange_folder
from ..tape.causal_order import CausalOrder, are_in_order, is_known_late
from ..tape.exchange_files import read_exchange_file
from ..tape.input_queues import Pieces, Queue
from ..tape.loop_rounds import ROUNDS_MAX, endless
from ..tape.stream_time import TimeSignal
from ..task.dataflow import dataflows
from ..topology.topology import SubTopology, Topology

_UNREAD = -1
"""In place of a stage and a task."""


class _RowFile(NamedTuple):
    """A file of rows. ``sub``: the stage that wrote it; ``sender``: the task (``Topology.writer_number``)."""

    sub: int
    sender: int
    path: str


class Exchange:
    """``order`` "arrival": every piece's rows are numbered in the tree of causes. ``partitions``: of the plan.

    Of the topic of a loop, a stage that runs before those that write it reads what these wrote in the run before; in
    the first run, nothing. The runs end when one has written the rows that it read.
    """

    def __init__(self, order: str, topology: Topology, partitions: dict[str, int]) -> None:
        self.order, self.topology, self.partitions = order, topology, partitions
        self._pieces: dict[tuple[str, int], list[_RowFile]] = {}
        self._signals: dict[str, list[TimeSignal]] = {}
        self._causes = CausalOrder()
        self._numbers: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        """Arrivals and numbers of a piece's rows, by path."""
        self._taken: dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
        """Arrivals, numbers and sequences of the rows that a task reads, by its id, where these may turn out wrong."""
        self._loops = topology.loop_topics
        self._may_be_wrong = order == "arrival" and (bool(self._loops) or is_known_late(topology))
        self._before: dict[tuple[str, int], list[_RowFile]] = {}
        """What the run before wrote to topics of loops."""
        self._read: dict[tuple[str, int], list[_RowFile]] = {}
        """What was read of topics of loops."""
        self._ticks_before: dict[str, list[TimeSignal]] = {}
        """Ticks of the wall clock that the run before sent to topics of loops."""
        self._ticks_read: dict[str, list[TimeSignal]] = {}
        """Ticks that were read of topics of loops."""
        self._unread: dict[tuple[str, int], list[_RowFile]] = {}
        """What no stage has written: an application's tasks have."""
        self._ran: set[int] = set()
        """Stages that have run."""
        self._runs = 1

    def take_unread(self, warehouse: Warehouse, previous: DoneRow) -> None:
        """Before all that stages write are the records that ``previous`` has unread."""
        for topic, files in (previous.unread or {}).items():
            for partition, path in files.items():
                row_file = _RowFile(_UNREAD, _UNREAD, below(warehouse.root, path))
                self._unread.setdefault((topic, int(partition)), []).append(row_file)

    @property
    def may_run_again(self) -> bool:
        """Whether a stage may read, in the first run, what is not written in the end."""
        return bool(self._loops) or self._may_be_wrong

    def add(self, sub: SubTopology, reports: list[TaskReport]) -> None:
        """Enter the pieces that a stage wrote."""
        written = dataflows(self.topology)[sub.id].written
        for report in reports:
            for name, by_target in report.pieces.items():
                for target, path in by_target.items():
                    sender = self.topology.writer_number(name, sub, report.partition)
                    self._pieces.setdefault((name, int(target)), []).append(_RowFile(sub.id, sender, path))
                if self.order == "arrival":
                    self._number(name, list(by_target.values()), is_inlined=written[name])
            for name, signals in report.signals:
                self._signals.setdefault(name, []).append(TimeSignal(*signals))
        self._ran.add(sub.id)
        # Several sub-topologies may write one repartition topic: it ends with the last of them.
        self._causes.end(name for name in written if self.topology.is_last_writer(name, sub))

    def _number(self, name: str, paths: list[str], *, is_inlined: bool) -> None:
        """Number what one task wrote: all that a row sends to a topic is in these files."""
        tables = [read_exchange_file(path, ["cause_time_ms", "cause_number", "send", "timestamp"]) for path in paths]
        rows = pa.concat_tables(tables)
        arrival, parent, send, time_ms = (rows[name].to_numpy() for name in rows.column_names)
        numbers = self._causes.add(name, arrival, parent, send, None if is_inlined else time_ms)
        cuts = np.cumsum([len(table) for table in tables])[:-1]
        for path, of_piece, its_numbers in zip(paths, np.split(arrival, cuts), np.split(numbers, cuts), strict=True):
            self._numbers[path] = of_piece, its_numbers

    def queue(self, source: int, name: str, partition: int, sub: SubTopology) -> Queue:
        """What was written for one source of a task of ``sub``."""
        written, task = self._written(name, partition), str(TaskId(sub.id, partition))
        # The reader of a loop's topic waits for the times of no writer: the writers run after it, so it would wait for
        # itself.
        writers = () if name in self._loops else self._writers(name, partition)
        paths = tuple(piece.path for piece in written)
        numbered = [self._numbers[path] for path in paths if path in self._numbers]
        sequences = [self._causes.sequence(numbers) for _, numbers in numbered]
        if self._may_be_wrong:
            taken = ((*columns, sequence) for columns, sequence in zip(numbered, sequences, strict=True))
            self._taken.setdefault(task, []).extend(taken)
        pieces = Pieces(
            paths,
            tuple(numbers for _, numbers in numbered),
            tuple(sequences),
            tuple(piece.sender for piece in written),
            tuple(self._passed(name, writers)),
            writers,
        )
        return Queue(source, None, pieces, goes_round=self.topology.goes_round(name, sub))

    def _passed(self, name: str, writers: tuple[int, ...]) -> list[TimeSignal]:
        """Times that ``writers`` have forwarded; of the topic of a loop ticks alone, of this run and the one before."""
        passed = self._signals.get(name, [])
        if name not in self._loops:
            return [one for one in passed if one.writer in writers]
        ticks = [one for one in passed if one.is_tick]
        ticks += [one for one in self._ticks_before.get(name, ()) if one not in ticks]
        self._ticks_read[name] = ticks
        return ticks

    def _written(self, name: str, partition: int) -> list[_RowFile]:
        """By this run, and by the run before of stages that have not run yet."""
        queue = name, partition
        written = [*self._unread.get(queue, ()), *self._pieces.get(queue, ())]
        if name in self._loops:
            written = [*written, *(piece for piece in self._before.get(queue, ()) if piece.sub not in self._ran)]
            self._read[queue] = written
        return written

    @property
    def is_settled(self) -> bool:
        """Whether every task took its rows in the order of causes, now that all are known, and read of loops all that
        was written.
        """
        for taken in self._taken.values():
            if taken:
                arrival, number, sequence = (np.concatenate(columns) for columns in zip(*taken, strict=True))
                order = np.lexsort((sequence, arrival))
                if not are_in_order(arrival[order], self._causes.sequence(number[order])):
                    return False
        return self._changed() is None and not self._has_other_ticks

    @property
    def _has_other_ticks(self) -> bool:
        """Whether this run sent other ticks to the topic of a loop than it read there."""
        return any(set(read) != set(self._ticks_sent(name)) for name, read in self._ticks_read.items())

    def _ticks_sent(self, name: str) -> list[TimeSignal]:
        return [one for one in self._signals.get(name, ()) if one.is_tick]

    def _changed(self) -> tuple[str, int] | None:
        """A loop's topic and partition of which this run wrote other rows than it read; None when there is none."""
        for queue, read in self._read.items():
            written = self._pieces.get(queue, [])
            if read != written and _rows_by_sender(read) != _rows_by_sender(written):
                return queue
        return None

    def again(self, *, is_settled: bool) -> None:
        """Begin with the first stage once more. The next run uses the records that this one sent in place of those that
        are not sent yet. ``is_settled``: those are the same.

        Raises TaskFailed when that is endless.
        """
        if not is_settled:
            self._refuse_endless()
        kept = {queue: pieces for queue, pieces in self._pieces.items() if queue[0] in self._loops}
        paths = {piece.path for pieces in kept.values() for piece in pieces}
        self._ticks_before = {name: self._ticks_sent(name) for name in self._loops}
        self._before, self._pieces, self._signals, self._taken, self._read = kept, {}, {}, {}, {}
        self._ticks_read = {}
        self._numbers = {path: numbers for path, numbers in self._numbers.items() if path in paths}
        self._ran, self._runs = set(), self._runs + 1
        self._causes.again()

    def _refuse_endless(self) -> None:
        if not self._loops:
            self._causes.refuse_endless()
        elif self._runs > ROUNDS_MAX * len(self._loops):
            self._refuse_endless_loop()

    def _refuse_endless_loop(self) -> None:
        """Raises TaskFailed: after as many runs as rounds may take, other records are still written to a loop."""
        if (changed := self._changed()) is None:  # only their order is not settled
            self._causes.refuse_endless()
            return
        topic, partition = changed
        rows = [
            row
            for piece in (*self._pieces.get((topic, partition), ()), *self._read[topic, partition])
            for row in read_exchange_file(piece.path, ["key", "cause_depth", "cause_time_ms"]).to_pylist()
        ]
        last = max(rows, key=lambda row: (row["cause_depth"], row["cause_time_ms"]))
        after = f"{self._runs} runs of the same records"
        otherwise = ". If it has an end, take fewer records an increment (max_records), which changes no result"
        raise endless(topic, self._loops[topic], after, last["key"], otherwise)

    def _writers(self, name: str, partition: int) -> tuple[int, ...]:
        """Numbers of the tasks whose rows a task of ``partition`` reads as ``name``: all tasks for a topic, one for an
        earlier part of the same task.
        """
        writers = [(sub, p) for sub in self.topology.writers_of(name) for p in range(self.partitions[str(sub.id)])]
        return tuple(self.topology.writer_number(name, *writer) for writer in writers) or (partition,)


def _rows_by_sender(pieces: Sequence[_RowFile]) -> dict[tuple[int, int], pa.Table]:
    """What each task wrote, in the order in which it did."""
    tables_by_sender: dict[tuple[int, int], list[pa.Table]] = {}
    for piece in pieces:
        tables_by_sender.setdefault((piece.sub, piece.sender), []).append(read_exchange_file(piece.path))
    return {sender: pa.concat_tables(tables).combine_chunks() for sender, tables in tables_by_sender.items()}


def clear_exchange(tables: PipelineTables, increment: int) -> None:
    """Delete what this increment, and any killed one before it, handed from stage to stage. Where a runner that has
    lost still writes, the rest goes with the next increment. Raises StorageError for a symbolic link in its place.
    """
    folder, _, newest = exchange_folder(tables, increment).removeprefix(f"{tables.root}/").rpartition("/")
    filesystem, above = open_filesystem(below(tables.root, folder))
    for entry in filesystem.get_file_info(fs.FileSelector(above, allow_not_found=True)):
        # Names have eight digits (exchange_folder), so their order as text is that of the numbers.
        if entry.base_name.isdecimal() and entry.base_name <= newest:
            with suppress(OSError):
                filesystem.delete_dir(entry.path)


def discard(tables: Mapping[str, str], reports: Sequence[TaskReport]) -> None:
    """Delete what tasks wrote that run again; what cannot be deleted is left to vacuum. ``tables``: paths by name."""
    for table, path in tables.items():
        delete_files(path, [file for report in reports for file in report.files.get(table, ())])


def delete_files(path: str, files: Sequence[Mapping[str, Any]]) -> None:
    """Delete files of the table at ``path`` that nobody has seen; what cannot be deleted is left to vacuum."""
    for file in files:
        filesystem, file_path = open_filesystem(below(path, file["path"]))
        with suppress(OSError):
            filesystem.delete_file(file_path)
