"""All tasks of a test driver: one a sub-topology, partition 0, and what goes from one to another.

Owns the order in which one thread would take what was piped. Rule: a batch is played by every task in turn; whether
each took its records in the order of causes is known when the last has run (``Played.is_settled``). A topology with a
loop has no such turns: one record is taken after the other, of whichever task it is, as Kafka's driver does it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ...state.compilation.kernel_tiers import tiers
from ...state.errors import TaskFailed
from ...state.times import NO_TIMESTAMP_MS, known_times
from ..operators.base.operator import Counters
from ..operators.processor.punctuation import WALL_CLOCK
from ..tape.causal_order import ADVANCE_SEQUENCES, LANDED, CausalOrder, are_in_order
from ..tape.loop_rounds import LoopRounds
from ..tape.stream_time import StreamTimeAdvance
from ..tape.task_input import TapeChunk
from ..task.task import Result, Task, empty_input
from ..topology.topology import SubTopology, Topology
from .changelogs import ChangeLog
from .driver_records import TURN, OutputRecord, Tape, without_time
from .driver_time import DrivenTime, WaitingAdvance
from .store_edits import StoreEdit, make

Landed = Mapping[str, tuple[pa.Table, np.ndarray]]
"""By topic: rows of records, and the arrival of each."""


@dataclass(frozen=True)
class DriverStep:
    """What is played at once: ``landed`` records, one recorded time, or one edit of a store.

    ``recorded``: topic (None: a tick of the wall clock), time in ms and arrival. ``causes``: kept from run to run.
    """

    landed: Landed
    recorded: tuple[str | None, int, int] | None = None
    causes: CausalOrder = field(default_factory=CausalOrder)
    edit: StoreEdit | None = None
    """What a test puts into a store, with no record."""


@dataclass
class Played:
    """What a batch caused, task by task.

    ``outputs``: (sub-topology, arrival of a chunk's rows, tables by topic); ``refused``: (arrival of a chunk's rows,
    dropped, dead letters); ``taken``: (arrival, place in the order of causes, time in ms) of records taken from topics.
    """

    outputs: list[tuple[SubTopology, np.ndarray, dict[str, pa.Table]]] = field(default_factory=list)
    refused: list[tuple[np.ndarray, pa.Table, pa.Table]] = field(default_factory=list)
    taken: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    repartitions: list[tuple[np.ndarray, dict[str, pa.Table]]] = field(default_factory=list)
    """(arrival of a chunk's rows, records by topic)."""
    logged: list[tuple[str, OutputRecord]] = field(default_factory=list)
    """(changelog, record) of what stores were given, if that is noted."""
    failure: TaskFailed | None = None
    """Of the record that ended the run, with its ``arrival``."""
    is_settled: bool = True
    """Whether every task took its records in the order of causes; else the batch is to be played again."""


class DrivenTasks:
    """``counts_bytes``, ``chunk_records``: as of TopologyTestDriver. ``wall_clock_ms``: at which the wall clock starts
    before any record; None: it starts with the first tick. ``notes_puts``: what stores are given is noted.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        counts_bytes: bool,
        chunk_records: int | None,
        wall_clock_ms: int | None,
        notes_puts: bool = False,
    ) -> None:
        self.topology = topology
        self.tasks = [Task(topology, sub, counts_bytes=counts_bytes) for sub in topology.sub_topologies]
        self._tapes = {(task.sub_topology.id, source): Tape() for task in self.tasks for source in task.source_names}
        self._time = DrivenTime(topology, self.tasks)
        self._batch, self._played, self._causes = DriverStep({}), Played(), CausalOrder()
        self._rounds = LoopRounds(topology.loop_topics)
        self._orders: list[tuple[np.ndarray, np.ndarray]] = []
        """(arrival, number) of every task's records, as it took them."""
        self._sent = 0
        """Rows sent in this batch."""
        self._failed = LANDED
        """Number of the row on which a task failed."""
        self._logs = {task.sub_topology.id: ChangeLog(task) for task in self.tasks} if notes_puts else {}
        for task in self.tasks:
            # A processor reads the clock as a counter of the increment before. So it has a time in
            # ``init`` already, before any tick, as in Kafka's driver.
            started: Counters = {} if wall_clock_ms is None else {WALL_CLOCK: wall_clock_ms}
            task.resume({}, {store: started for store, node in task.sub_topology.stores.items() if node.has_clock})
            task.chunk_records = chunk_records or task.chunk_records

    def play(self, batch: DriverStep) -> Played:
        """Every task in turn. To play the batch again the tasks must be as they were before it.

        Raises TaskFailed for a record that goes round a loop without end.
        """
        self._batch, self._played, self._orders, self._sent = batch, Played(), [], 0
        if batch.edit is not None:
            make(batch.edit, self.tasks, self._logs)
            for log in self._logs.values():
                self._played.logged += log.take(np.zeros(0, np.int64))
            return self._played
        if self.topology.loop_topics:
            self._play_one_by_one()
            return self._played
        self._causes = batch.causes
        for topic, (rows, arrival) in batch.landed.items():
            self._land(topic, rows, arrival)
        self._record_time()
        for task in self.tasks:
            self._run_task(task)
            # While a topic is open, rows of the previous run fill in for those that its later writers have not
            # sent yet. So only the last of its writers ends it.
            written, sub = task.dataflow.written, task.sub_topology
            self._causes.end(name for name in written if self.topology.is_last_writer(name, sub))
        self._played.is_settled = all(self._is_settled(*order) for order in self._orders)
        self._number_taken(0)
        return self._played

    def _record_time(self) -> None:
        if self._batch.recorded is not None:
            recorded_of, time_ms, _ = self._batch.recorded
            if recorded_of is None:
                self._time.tick(time_ms)
            else:
                self._time.record(recorded_of, time_ms)

    def _number_taken(self, first: int) -> None:
        """From the entry ``first`` on: numbers of rows become their places."""
        taken = self._played.taken
        taken[first:] = [(arrival, self._causes.sequence(number), times) for arrival, number, times in taken[first:]]

    # --- loops -----------------------------------------------------------------------------------------------

    def _play_one_by_one(self) -> None:
        """Each landed record, and what it causes in whichever task, one record after the other."""
        landed = [
            (int(arrival[row]), topic, rows.slice(row, 1), arrival[row : row + 1])
            for topic, (rows, arrival) in self._batch.landed.items()
            for row in range(len(rows))
        ]
        for _, topic, rows, arrival in sorted(landed, key=lambda each: each[0]):
            self._land(topic, rows, arrival)
            self._take_all()
            if self._played.failure is not None:
                return
        self._record_time()
        self._take_all()

    def _take_all(self) -> None:
        """Until nothing waits any more; what is sent meanwhile, too."""
        # A tree for each landed record: loops are taken in order at once, so no record's place depends on the next
        # one's. The numbers of ``taken`` are of this tree, and become places before the next one replaces it.
        self._causes, before = CausalOrder(), len(self._played.taken)
        self._rounds.begin()
        while self._played.failure is None and (turn := self._next_turn()) is not None:
            task, source = turn
            if source is None:
                self._advance(task, self._time.take_first(task))
                continue
            row, arrival, number = self._tapes[task.sub_topology.id, task.source_names[source]].take_first()
            tables = list(empty_input(task).tables)
            tables[source] = row
            tiers.take(1)
            self._run_chunk(task, TapeChunk(np.full(1, source, np.int16), tuple(tables)), arrival, number)
        self._number_taken(before)

    def _next_turn(self) -> tuple[Task, int | None] | None:
        """The task that is next, and the number of the source whose first row it takes; None: a recorded time."""
        turns: list[tuple[int, int, int]] = []
        for number, task in enumerate(self.tasks):
            if (level := self._time.first_level(task)) is not None:
                turns.append((level * ADVANCE_SEQUENCES, -1, number))
            for source, name in enumerate(task.source_names):
                if (first := self._tapes[task.sub_topology.id, name].first) is not None:
                    turns.append((int(self._causes.sequence(np.array([first]))[0]), source, number))
        if not turns:
            return None
        # At one place a recorded time (-1) goes before rows, then the task that was built first, then its sources.
        _, source, number = min(turns, key=lambda turn: (turn[0], turn[1] >= 0, turn[2], turn[1]))
        return self.tasks[number], source if source >= 0 else None

    # --- task after task -------------------------------------------------------------------------------------

    def _is_settled(self, arrival: np.ndarray, number: np.ndarray) -> bool:
        if self._played.failure is not None:  # what it would have caused is not known
            before = arrival < self._played.failure.arrival
            arrival, number = arrival[before], number[before]
        return are_in_order(arrival, self._causes.sequence(number))

    def _land(self, topic: str, rows: pa.Table, arrival: np.ndarray) -> None:
        self._time.pipe(topic, int(known_times(rows["timestamp"].to_numpy()).max(initial=NO_TIMESTAMP_MS)))
        for task in self.tasks:
            for node in (*task.sub_topology.sources, *task.sub_topology.globals):
                if node.landed_topic == topic:
                    tape = self._tapes[task.sub_topology.id, node.name]
                    tape.add(rows, arrival, np.full(len(rows), LANDED))

    def _run_task(self, task: Task) -> None:
        """Everything that waits for one task, in the order of causes."""
        causes, failure = self._causes, self._played.failure
        waiting = [self._waiting(task, *source) for source in zip(task.source_names, task.written_names, strict=True)]
        empty = empty_input(task)
        tables = [empty.tables[n] if table is None else table for n, (table, *_) in enumerate(waiting)]
        arrival, number = (np.concatenate([columns[n] for columns in waiting]) for n in (1, 2))
        source = np.repeat(np.arange(len(waiting), dtype=np.int16), [len(columns[1]) for columns in waiting])
        # One queue is first in, first out, whatever other tasks send; only several have an order
        # that may be known late.
        if len(waiting) > 1:
            order = np.lexsort((causes.sequence(number), arrival))
            arrival, number, source = arrival[order], number[order], source[order]
            self._orders.append((arrival, number))
        if failure is not None:
            # A record failed in an earlier task. What was sent before it is still taken, and what is
            # inlined in it, which Kafka has processed depth first by then. Each source's rows are in
            # order, so those are its first ones.
            last, end = failure.arrival, causes.end_of(failure.arrival, self._failed)
            happens = (arrival < last) | ((arrival == last) & (causes.sequence(number) <= end))
            arrival, number, source = (column[happens] for column in (arrival, number, source))
            tables = [table.slice(0, int((source == index).sum())) for index, table in enumerate(tables)]
        used = np.zeros(len(tables), np.int64)
        advances = self._time.next_of(task)
        # Sequences rise only within an arrival. A recorded time is a step of its own with one
        # arrival, so they rise here.
        places = np.searchsorted(causes.sequence(number), [each.level * ADVANCE_SEQUENCES for each in advances])
        for first, after in pairwise([0, *places.tolist(), len(source)]):
            for begin, end in tiers.chunks(after - first, task.chunk_records) if after > first else ():
                part = slice(first + begin, first + end)
                counts = np.bincount(source[part], minlength=len(tables))
                pieces = tuple(
                    table.slice(start, count).combine_chunks()
                    for table, start, count in zip(tables, used.tolist(), counts.tolist(), strict=True)
                )
                used += counts
                if not self._run_chunk(task, TapeChunk(source[part], pieces), arrival[part], number[part]):
                    return
            if advances and not self._advance(task, advances.pop(0)):
                return

    def _waiting(self, task: Task, source: str, written_name: str) -> tuple[pa.Table | None, np.ndarray, np.ndarray]:
        """What waits for one source, in order: several sub-topologies may have written it, one after the other."""
        tape = self._tapes[task.sub_topology.id, source]
        table, arrival, number = tape.take()
        if table is None or len(self.topology.writers_of(written_name)) < 2:
            return table, arrival, number
        # Writers ran one after the other, but Kafka's one partition has their records in the order of causes. So the
        # rows are sorted, and get the offsets that they have there.
        order = np.lexsort((self._causes.sequence(number), arrival))
        offset = pa.array(tape.next_offset - len(table) + np.arange(len(table)))
        table = table.take(pa.array(order))
        return table.set_column(table.column_names.index("offset"), "offset", offset), arrival[order], number[order]

    def _advance(self, task: Task, waiting: WaitingAdvance) -> bool:
        """False when that ended the run."""
        assert self._batch.recorded is not None, "advances come of a recorded time"
        columns = (np.full(1, number, np.int64) for number in (self._batch.recorded[2], LANDED - waiting.level))
        return self._run_chunk(task, self._time.step(task, waiting), *columns)

    def _run_chunk(
        self, task: Task, chunk: TapeChunk | StreamTimeAdvance, arrival: np.ndarray, number: np.ndarray
    ) -> bool:
        """False when a record ended the run."""
        failed = None
        signals: dict[str, int] = {}
        played = self._played
        try:
            if isinstance(chunk, StreamTimeAdvance):
                result, signals = task.advance(chunk)
            else:
                result = task.process(chunk)
        except TaskFailed as error:
            # A callable's failure names no row, and the driver runs parts of the batch to find it (driver_failures). A
            # kernel's, of a full buffer, leaves the results of the rows before it.
            if task.unfinished is None:
                raise
            failed, result = error, task.unfinished
            failed.arrival = int(arrival[failed.cause_row])
            if played.failure is None or failed.arrival < played.failure.arrival:
                played.failure = failed
                self._failed = int(number[failed.cause_row])
        turns = {name: pa.array(turn) for name, turn in result.output_turns.items()}
        outputs = {
            name: table.append_column(TURN, turns[name]) if name in turns else table
            for name, table in result.outputs.items()
        }
        played.outputs.append((task.sub_topology, arrival, outputs))
        played.repartitions.append((arrival, result.repartitions))
        if (log := self._logs.get(task.sub_topology.id)) is not None:
            played.logged += log.take(arrival)
        self._exchange(task, arrival, number, result)
        played.refused.append((arrival, result.dropped, result.dead_letters))
        if isinstance(chunk, TapeChunk):
            kept, skipped = result.taken.copy(), without_time(result.dropped)
            kept[skipped] = True  # Kafka's driver takes each of them as a record at -1
            if failed is not None:
                kept[failed.cause_row + 1 :] = False
            times = chunk.spread("timestamp", NO_TIMESTAMP_MS)
            times[skipped] = NO_TIMESTAMP_MS
            played.taken.append((arrival[kept], number[kept], times[kept]))
        if isinstance(chunk, StreamTimeAdvance) and chunk.tick_ms is not None:
            self._time.pass_tick(signals)
        else:
            self._time.signal(task, signals, int(LANDED - number[0]) + 1 if signals else 0)
        return failed is None

    def _exchange(self, task: Task, arrival: np.ndarray, number: np.ndarray, result: Result) -> None:
        """Hand on what goes to other tasks."""
        for name, table in (result.repartitions | result.exports).items():
            # A chunk numbers what it sends from 0; numbers have to rise over all chunks and tasks of the batch.
            cause, send = table["cause"].to_numpy(), table["send"].to_numpy() + self._sent
            time_ms = None if task.dataflow.written[name] else table["timestamp"].to_numpy()
            numbers = self._causes.add(name, arrival[cause], number[cause], send, time_ms)
            self._rounds.add(name, number[cause], numbers, table)
            for tape in self._readers(name):
                rows = table.drop_columns(["cause", "send"])
                if name in result.repartitions:
                    offset = pa.array(tape.next_offset + np.arange(len(table)))
                    rows = rows.drop_columns(["target"]).append_column("offset", offset)
                    tape.next_offset += len(table)
                tape.add(rows, arrival[cause], numbers)
        self._sent += sum(map(len, [*result.repartitions.values(), *result.exports.values()]))

    def _readers(self, name: str) -> list[Tape]:
        """Tapes of the tasks that read what is written as ``name``."""
        return [
            self._tapes[task.sub_topology.id, source]
            for task in self.tasks
            for source, written_name in zip(task.source_names, task.written_names, strict=True)
            if written_name == name
        ]
