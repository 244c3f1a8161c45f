"""Runs one task of one increment: reads its slice and its state, writes files that no commit names yet, and reports.

Owns the border between the pure task and files. Rule: everything is a function of the description, so a task that died
is simply run again; nothing here commits. The same function runs in process and in Spark's workers.
"""

import resource
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import numpy as np
import pyarrow as pa

from ...state.compilation.kernel_tiers import KernelTiers, OnCompiled, tiers
from ...state.errors import MachineError, ReplayError, StorageError, TaskFailed
from ...state.failures import failure_of
from ...state.private_folders import private_folder
from ...state.runs.local_copies import CACHE_VARIABLE
from ...state.tables.data_files import DataFile
from ...state.tables.names import DEAD_LETTER, DROPPED, TableName
from ...state.tables.shared_groups import sharing_groups
from ...state.tables.task_entry import TaskEntry
from ..graph.nodes import GlobalTableNode
from ..tape.causal_order import ADVANCE_SEQUENCES, LANDED
from ..tape.exchange_files import ExchangeFile
from ..tape.input_queues import PLACE_COLUMNS
from ..tape.restarts import TaskRestart
from ..tape.stream_time import StreamTimeAdvance, TimeSignal
from ..tape.task_input import TapeChunk
from ..tape.task_tape import CausalColumns, TaskTape
from ..task.dataflow import dataflows
from ..task.exception_handling import TrialHandling
from ..task.kernel_calls import call_kernels, call_ordering_kernels
from ..task.pure_functions import asked_twice, difference
from ..task.task import Result, Task, empty_input
from ..task.time_extraction import extractions
from ..topology.topology import SubTopology, Topology
from .progress_notes import NoteWriter
from .run_observer import NO_OBSERVER, RunObserver
from .sinks import Sink, sink_of
from .store_files import global_contents
from .task_description import TaskDescription, TaskReport
from .task_stores import TaskState

CUTS = 16
"""Into so many parts rows are cut to find the one that failed."""


class LocalRunner:
    """One task after the other, in this process, without Java. ``cache``: directory of the state's warm copies, this
    user's alone; None: state is read from Delta every time.
    """

    def __init__(self, cache: str | None = None) -> None:
        self.cache = cache

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        """Run tasks of ``topology``; reports in order of ``descriptions``. Raises the first ReplayError of a task, and
        StorageError for a cache that others may write.
        """
        if self.cache is not None:
            private_folder(self.cache, CACHE_VARIABLE)
        with sharing_groups(len(descriptions)):
            return [run_task(topology, description, self.cache) for description in descriptions]


def run_task(topology: Topology, description: TaskDescription, cache: str | None = None) -> TaskReport:
    """Run one task. Raises TaskFailed (or another ReplayError) that names the task; never anything else."""
    try:
        return TaskRun(topology, description, cache, sink_of(topology, description)).run()
    except ReplayError as error:
        error.add_note(f"in task {description.id} of increment {description.increment}")
        raise
    except Exception as error:
        failure = failure_of(error, f"task {description.id} of increment {description.increment}")
        if failure is not None:  # a full disk, say
            failure.add_note(f"in task {description.id} of increment {description.increment}")
            raise failure from error
        failed = TaskFailed(
            f"task {description.id} of increment {description.increment}",
            "to run to its end",
            f"{type(error).__name__}: {error}",
            "this is a bug unless a callable of the topology raised it; the traceback follows",
        )
        failed.add_note(traceback.format_exc())
        raise failed from error


class _Stopwatch:
    """Seconds by part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.perf_counter()

    def lap(self, part: str) -> None:
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._since
        self._since = now


def _is_of_machine(error: Exception) -> bool:
    """Whether it says nothing about records."""
    if isinstance(error, ReplayError):
        return isinstance(error, (MachineError, StorageError))
    return failure_of(error, "") is not None


class _Failed(Exception):
    """Something failed in a trial, among so many ``rows`` after the first ``before``."""

    def __init__(self, before: int, rows: int) -> None:
        self.before, self.rows = before, rows


@dataclass
class TaskRun:
    """One run of one task; ``run`` once. Its rows go to ``sink``; ``observer`` looks on.

    In a trial (``TaskDescription.is_trial``) a record on which something fails where an exception handler could
    continue is left out. Elsewhere the run ends in front of it, and what came before is whole. No error names the row
    of the chunk, so the task runs again with smaller and smaller parts of it.
    """

    topology: Topology
    description: TaskDescription
    cache: str | None
    sink: Sink
    observer: RunObserver = NO_OBSERVER
    pieces: dict[tuple[str, int], ExchangeFile] = field(default_factory=dict)
    piece_paths: dict[str, dict[str, str]] = field(default_factory=dict)
    signals: list[tuple[str, TimeSignal]] = field(default_factory=list)
    is_over: bool = False
    """Nobody wants to know what comes after the records so far."""
    has_failed: bool = False
    """In a trial; what the run would leave in tables is then of no use, and is not written."""
    given: np.ndarray | None = None
    """As of TaskTape."""

    def __post_init__(self) -> None:
        d = self.description
        self.sub: SubTopology = self.topology.sub_topology(d.sub_topology)
        self._sure, self._piece_rows = 0, 0
        """In a trial in which something failed: rows before it, and how many are taken at once behind them."""
        self._start()
        self.watch, self.notes = _Stopwatch(), NoteWriter(d.notes, d.id)

    def _start(self) -> None:
        """Nothing was read or sent yet."""
        for piece in self.pieces.values():
            piece.close()
        before = self.description.before
        self.pieces, self.piece_paths, self.signals, self.sent, self._taken = {}, {}, [], 0, 0
        self.next_offsets: dict[str, int] = dict(before.next_offsets)
        self.extractions = extractions(self.sub, self.description.partition, before)

    def run(self) -> TaskReport:
        self.notes.rows = sum(queue.length for queue in self.description.queues)
        tiers.expect(self.notes.rows, lambda: call_kernels(self.topology))
        with tiers.running():
            while True:
                try:
                    return self._run()
                except _Failed as failed:
                    self.has_failed = True
                    self._start()
                    self._sure = failed.before
                    # Rows before the failing part are taken at once, and the part in pieces of a sixteenth: each
                    # further run costs few calls, and the number of runs is the logarithm of its rows.
                    self._piece_rows = max(1, min(failed.rows, self._piece_rows or failed.rows) // CUTS)

    def _run(self) -> TaskReport:
        d = self.description
        task = self._new_task()
        self.observer.begins(task, self.next_offsets)
        task.checks_purity = d.checks_purity
        tape = self._tape(task)
        begun = self._resume(task, tape)
        self.observer.resumed(task)
        if not d.checks_purity or self.observer is not NO_OBSERVER or not asked_twice(self.sub):
            begun = None  # it holds the rows of all stores
        self.watch.lap("resume")
        for chunk, places in tape.chunks(task.chunk_records):
            if self.is_over:
                break
            self.watch.lap("read")
            if isinstance(chunk, TaskRestart):
                task.restart()
                continue
            if isinstance(chunk, StreamTimeAdvance):
                with self._trial(1):
                    self._advance(task, chunk, places)
                continue
            if begun is not None:
                impure, begun = difference(self.sub, begun, chunk), None
                task.impure |= dict([] if impure is None else [impure])
            for begin, end in self._cuts(len(chunk)):
                with self._trial(end - begin):
                    self._take(task, chunk.part(begin, end), places.part(begin, end))
                if self.is_over:
                    break
                self.notes.take(end - begin, task.stream_time_ms)
        self._write_repartitions(tape)
        self.has_failed |= task.trial is not None and task.trial.has_failed
        state: dict[str, DataFile] = {}
        removed: dict[str, list[DataFile]] = {}
        if not self.has_failed:
            with self._trial(1):
                self.observer.ended(task)
                state, removed = self.sink.write_state(self.state)
        report = self._report(task, tape, state, removed)
        self.notes.end()
        return report

    def _new_task(self) -> Task:
        """In a trial one that asks no exception handler of the application."""
        d = self.description
        task = Task(
            self.topology, self.sub, d.partition, repartition_counts=d.repartitions,
            counts_bytes=self.observer.counts_bytes, is_observed=self.observer.looks_into_stores,
        )  # fmt: skip
        task.trial = TrialHandling() if d.is_trial else None
        return task

    def _cuts(self, rows: int) -> Iterator[tuple[int, int]]:
        """Parts of a chunk of ``rows``; small ones behind those that are known not to fail."""
        for begin, end in tiers.chunks(rows):
            if not self._piece_rows or begin == end:
                yield begin, end
            while self._piece_rows and begin < end:
                sure = self._sure - self._taken
                part_end = min(end, begin + (sure if sure > 0 else self._piece_rows))
                yield begin, part_end
                begin = part_end

    @contextmanager
    def _trial(self, rows: int) -> Iterator[None]:
        """Around so many rows that are taken. In a trial, raises _Failed where something among them fails; of a single
        one, the run is over.
        """
        try:
            yield
        except Exception as error:
            if not self.description.is_trial or _is_of_machine(error):
                raise
            if rows > 1:
                raise _Failed(self._taken, rows) from error
            self.has_failed = self.is_over = True
        self._taken += rows

    def _advance(self, task: Task, step: StreamTimeAdvance, places: CausalColumns) -> None:
        result, signals = task.advance(step)
        self.observer.advanced(task, result)
        self.watch.lap("compute")
        if step.tick_ms is not None:
            self._signal(signals, places, is_tick=True)
            signals = {}
        self._write(result, places)
        self._signal(signals, places)
        self.watch.lap("write")

    def _take(self, task: Task, chunk: TapeChunk, places: CausalColumns) -> None:
        for part, part_places in self.observer.parts(task, chunk, places):
            result = task.process(part)
            self.watch.lap("compute")
            self.observer.took(task, part, result)
            self._write(result, part_places)
            self.observer.wrote(part)
            self.watch.lap("write")
        self.is_over |= self.observer.is_over

    # --- in --------------------------------------------------------------------------------------------------

    def _resume(self, task: Task, tape: TaskTape) -> Callable[[], Task] | None:
        """Let the task continue where the increment before ended; returns what makes another one that does."""
        d = self.description
        self.state = TaskState(task, self.topology, d.state, d.warehouse.pipeline(d.pipeline), self.cache)
        rows, imported = self.state.load(tape, self.notes.rows, d.before, d.imported)
        contents = {
            table.name: global_contents(table, d.globals[table.name], d.order)
            for table in self.sub.globals
            if not self._is_known(table)
        }
        tables = [*rows.values(), *imported.values(), *contents.values()]
        tiers.take(sum(len(table) for table in tables if isinstance(table, pa.Table)))

        def resumed(begun: Task) -> Task:
            begun.resume(
                rows,
                d.before.counters,
                imported=imported | contents,
                stream_time_ms=d.before.stream_time_ms,
                tape_time_ms=d.before.tape_time_ms,
            )
            return begun

        resumed(task)
        return lambda: resumed(self._new_task())

    def _is_known(self, table: GlobalTableNode) -> bool:
        """Whether all who read it have kept their replicas of it."""
        readers = [node for node in self.sub.nodes if table.name in node.reads]
        counters = self.description.before.counters
        return all(table.replica_counter in counters.get(node.store or "", {}) for node in readers)

    def _tape(self, task: Task) -> TaskTape:
        d = self.description
        return TaskTape(
            d.queues,
            task.source_names,
            d.order,
            self.sub.id,
            d.partition,
            d.before.tape_position,
            d.before.tape_time_ms,
            d.before.heap,
            empty_input(task).tables,
            {
                number: self.next_offsets.get(TableName.repartition(source.topic), 0)
                for number, source in enumerate(self.sub.sources)
                if source.landed_topic is None
            },
            signals={name: dict(times) for name, times in d.before.recorded_times.items()},
            is_placed=self._asks_for_places(),
            reads_written=self.topology.reads_written(self.sub),
            extractions=self.extractions,
            given=self.given,
        )

    def _asks_for_places(self) -> bool:
        """Whether rows continue to other tasks, or carry their arrival."""
        exports = dataflows(self.topology)[self.sub.id].exports
        needed = self.observer.needs_places or bool(self.sub.repartitions or exports)
        return needed or self.description.order == "arrival"

    # --- out -------------------------------------------------------------------------------------------------

    def _write(self, result: Result, places: CausalColumns) -> None:
        for name, rows in result.outputs.items():
            table = TableName.output(name)
            first = self.next_offsets.get(table, 0)
            self.next_offsets[table] = first + len(rows)
            offsets = pa.array(np.arange(first, first + len(rows)))
            self._keep(table, self._with_arrival(rows, places).append_column("offset", offsets))
        for name, rows in [*result.repartitions.items(), *result.exports.items()]:
            self._write_pieces(name, rows, places)
        # A chunk numbers what it sends over all names from 0, so the count rises once behind all of them.
        self.sent += sum(len(rows) for rows in [*result.repartitions.values(), *result.exports.values()])
        for table, rows in ((DROPPED, result.dropped), (DEAD_LETTER, result.dead_letters)):
            sub = pa.array(np.full(len(rows), self.sub.id, np.int32))
            self._keep(table, self._with_arrival(rows, places).append_column("sub_topology", sub))

    def _with_arrival(self, rows: pa.Table, places: CausalColumns) -> pa.Table:
        """Rows with the arrival of the landed record that caused them, null where the order is by time."""
        arrival = pa.nulls(len(rows), pa.int64())
        if self.description.order == "arrival":
            arrival = pa.array(places.columns["cause_time_ms"][rows["cause"].to_numpy()])
        return rows.append_column("arrival", arrival)

    def _keep(self, table: str, rows: pa.Table) -> None:
        if not self.has_failed:
            self.sink.write(table, rows)

    def _write_repartitions(self, tape: TaskTape) -> None:
        """Fix the order of this task's repartition records for ever, by writing them with their offsets."""
        for number, rows in tape.fixed.items():
            source = self.sub.sources[number]
            table = TableName.repartition(source.topic)
            self.next_offsets[table] = tape.next_offset[number]
            if "old" not in rows.column_names:
                rows = rows.append_column("old", pa.nulls(len(rows), pa.binary()))
            self._keep(table, rows)

    def _write_pieces(self, name: str, rows: pa.Table, places: CausalColumns) -> None:
        """One file for every target partition, for the later stages of this increment alone."""
        d = self.description
        # What comes through a topic of Kafka's is taken after the record that sent it; what is
        # inlined, in the middle of it.
        is_topic = name in [node.topic for node in self.sub.repartitions if not node.is_replay_only]
        columns = places.of(rows["cause"].to_numpy(), deeper=int(is_topic))
        targets = rows["target"].to_numpy() if "target" in rows.column_names else np.full(len(rows), d.partition)
        sent = pa.array(rows["send"].to_numpy() + self.sent)  # in the order of the task's chunks
        rows = rows.set_column(rows.column_names.index("send"), "send", sent)
        for column, numbers in columns.items():
            rows = rows.append_column(column, pa.array(numbers))
        for target in np.unique(targets).tolist():
            if (name, target) not in self.pieces:
                # Topic names may be too long for a file name; the number keeps cut ones apart. The time keeps two
                # attempts of one task apart, which may write side by side.
                short = f"{name[:100]}-{target}-from-{d.id}-{len(self.pieces)}-{time.time_ns()}"
                file = ExchangeFile(d.exchange, short, rows.schema)
                self.pieces[name, target] = file
                self.piece_paths.setdefault(name, {})[str(target)] = file.path
            self.pieces[name, target].write(rows.filter(pa.array(targets == target)))

    def _signal(self, signals: dict[str, int], places: CausalColumns, *, is_tick: bool = False) -> None:
        """Pass a recorded time on, behind all that it caused here; a tick before that, since it reaches all at once."""
        own = [node.topic for node in self.sub.repartitions if not node.is_replay_only]
        for name, time_ms in signals.items():
            columns = places.of(np.zeros(1, np.int64), deeper=int(name in own))
            if self.description.order == "arrival" and not is_tick:
                # Handed on by one task more: the place behind all that the time has caused so far
                # (CausalOrder.sequence).
                columns["cause_number"] = columns["cause_number"] - 1
                columns["cause_depth"] = (LANDED - columns["cause_number"]) * ADVANCE_SEQUENCES
            place = tuple(int(columns[column][0]) for column in PLACE_COLUMNS)
            writer = self.topology.writer_number(name, self.sub, self.description.partition)
            self.signals.append((name, TimeSignal(writer, time_ms, place, self.sent, is_tick)))
        self.sent += 1

    def _report(
        self, task: Task, tape: TaskTape, state: dict[str, DataFile], removed: dict[str, list[DataFile]]
    ) -> TaskReport:
        for piece in self.pieces.values():
            piece.close()
        closed = state | self.sink.close()
        self.watch.lap("write")
        after = TaskEntry(
            counters=task.counters(),
            row_keys={store: list(operator.row_key) for store, operator in task.stores.items()},
            stream_time_ms=task.stream_time_ms,
            tape_time_ms=task.tape_time_ms,
            tape_position=tape.position,
            next_offsets=self.next_offsets,
            heap=tape.heap,
            recorded_times=tape.signals,
            partition_times={
                self.sub.sources[number].topic: extraction.partition_time_ms
                for number, extraction in self.extractions.items()
            },
        )
        return TaskReport(
            sub_topology=self.sub.id,
            partition=self.description.partition,
            after=after.to_json(),
            counts=asdict(task.counts),
            landed=asdict(task.landed),
            lateness=task.lateness.report(),
            operators=task.metrics(),
            files={table: [file.to_dict()] for table, file in closed.items()},
            removed={table: [file.to_dict() for file in files] for table, files in removed.items()},
            pieces=self.piece_paths,
            signals=self.signals,
            advances=task.advances,
            impure=task.impure,
            unused=task.unused.report(task.graph, task.counts.by_operator),
            has_failed=self.has_failed,
            seconds=self.watch.seconds,
            # Linux counts in KiB.
            rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )


def compile_kernels(topology: Topology, on_compiled: OnCompiled) -> tuple[int, int]:
    """Compile what tasks of ``topology`` call into Numba's cache on disk, and wait for it; ``on_compiled`` gets the
    progress.

    Returns how many versions of kernels are cached now, and how many of them are new.

    Raises MachineError when the compiler ends and some are not cached.
    """

    def call_all() -> None:
        call_kernels(topology)
        call_ordering_kernels()

    return KernelTiers().warm_up(call_all, on_compiled)
