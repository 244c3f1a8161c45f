"""A task: one sub-topology × one partition, run over its tape chunk by chunk (Kafka's StreamTask, PartitionGroup's
clock).

Owns the running operators, the task's stream time and the verdict on every record. Rule: a record is undecodable (dead
letter), dropped (every operator that got it refused it) or applied; stream time is the largest time of the decodable
records taken so far. Pure: chunks of Arrow columns in, Arrow tables out; where they come from and go to is the caller's
affair.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from ...state.compilation.kernel_compilation import interpreted
from ...state.records.batches import Batch, Chunk
from ...state.runs.stored_rows import StoredRows
from ...state.times import NO_TIMESTAMP_MS, known_times
from ..functions.exception_handlers import ErrorHandlerContext, writes_letters
from ..graph.graph import Node, TableTraits
from ..graph.nodes import RepartitionNode
from ..kernels import stream_time as task_counters
from ..operators.base.operator import (
    Counters,
    Operator,
    OperatorContext,
    StatefulOperator,
    TableView,
    no_restart,
)
from ..operators.tables.table_views import build_view
from ..tape.stream_time import SourceProgress, StreamTimeAdvance, combine
from ..tape.task_input import INPUT_COLUMNS, TapeChunk
from ..topology.topology import SubTopology, Topology
from .advance_stream_time import StreamTimeRun, advance_chunk
from .chunk_run import ChunkRun, Observer
from .dataflow import dataflows
from .dead_letters import DeadLetters
from .decoding import Decoder, contexts, import_batch, origins
from .exception_handling import ChunkHandling, TrialHandling, decoded_or_failed, raw_record, with_raw
from .exits import refusing_exits
from .failure_places import FailurePlaces, Raw
from .output_tables import dead_letter_table, dropped_table, failed_step_table
from .record_counts import Counts, LatenessTotals
from .record_run import BY_RECORD, RecordRun, empty_batches_of
from .shared_stores import connect_stores, let_views_put
from .time_extraction import refuse_invalid_times
from .unused_input import UnusedInput

CHUNK_RECORDS = 131_072
"""Measured: a chunk's rows and slots then fit the cache; twice or half as many cost 5 to 8 % more."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one chunk caused. Tables in order; ``cause``: row of the chunk (jobs/tape/task_input.py has their columns).

    ``outputs`` by sink topic; ``repartitions`` by topic and ``exports`` by name, all with ``send`` int64: which of them
    was sent first; ``tape_time_ms``: the largest time of the tape up to each row of the chunk.
    """

    outputs: dict[str, pa.Table]
    repartitions: dict[str, pa.Table]
    exports: dict[str, pa.Table]
    dropped: pa.Table
    dead_letters: pa.Table
    tape_time_ms: np.ndarray
    taken: np.ndarray
    """Rows of the chunk that are records which the task took: not imported, decodable, with a time."""
    output_turns: dict[str, np.ndarray]
    """Of outputs whose records may name one topic, int64 a row: which of all of their rows was written first."""


class Task:
    """``counts_bytes``: suppress buffers measure their bytes even without a byte limit (slower). ``is_observed``: an
    observer will look at stores while a chunk runs.
    """

    def __init__(
        self,
        topology: Topology,
        sub_topology: SubTopology,
        partition: int = 0,
        *,
        repartition_counts: dict[str, int] | None = None,
        counts_bytes: bool = False,
        is_observed: bool = False,
    ) -> None:
        self.graph, self.sub_topology, self.partition = topology.graph, sub_topology, partition
        self.repartition_counts = repartition_counts or {}
        self.counts_bytes = counts_bytes
        self.stream_time_ms = NO_TIMESTAMP_MS
        self.tape_time_ms = NO_TIMESTAMP_MS
        self.lateness, self.counts = LatenessTotals(), Counts()
        self.landed = Counts()
        """Verdicts on the records of landed topics alone."""
        self.observer: Observer | None = None
        self.checks_purity = False
        """Whether each step is called twice with the first records of the next chunk. ``impure`` says, by node, what
        differed between its two answers.
        """
        self.impure: dict[str, str] = {}
        self.unused = UnusedInput(sub_topology.sources)
        self.trial: TrialHandling | None = None
        """In a trial run, where failures are noted: the records that caused them may not be there in the final run."""
        self.advances = 0
        """Recorded times taken; they are no records."""
        self._ticked_ms = NO_TIMESTAMP_MS
        """The latest tick that was forwarded."""
        self.unfinished: Result | None = None
        """If a record failed the task, as one does that fills a buffer: the chunk's results up to that record."""
        self.dataflow = dataflows(topology)[sub_topology.id]
        self.sources: tuple[Node, ...] = (
            *sub_topology.sources,
            *(self.graph.nodes[imported.node] for imported in self.dataflow.imports),
            *sub_topology.globals,
        )
        """What a chunk's rows may be from: topics, then imports, then global tables."""
        self.source_names: tuple[str, ...] = (
            *(source.name for source in sub_topology.sources),
            *(imported.name for imported in self.dataflow.imports),
            *(table.name for table in sub_topology.globals),
        )
        self.written_names: tuple[str, ...] = (
            *(source.topic if isinstance(source, RepartitionNode) else "" for source in sub_topology.sources),
            *(imported.name for imported in self.dataflow.imports),
            *("" for _ in sub_topology.globals),
        )
        """Name under which other tasks write what a source reads (``Dataflow.written``); empty where none does."""
        self.operators: dict[str, Operator] = {}
        self.views: list[TableView] = []
        written = [(node.topic, node.name) for node in sub_topology.repartitions]
        written += [(export.name, export.node) for export in self.dataflow.exports if not export.when]
        self._clocked = tuple(dict.fromkeys(name for name, node in written if self.graph.reaches_clock(node)))
        """What is written for tasks with a processor, to which ticks of the wall clock are forwarded."""
        answers = self.graph.dead_letter_topic, self.graph.handlers.processing
        self._hands_raw = bool(self.dataflow.exports) and any(answer is not None for answer in answers)
        self._decoder = Decoder()
        self._keys = {source.name: self._decoder.keys_of(source.shape.key) for source in self.sources}
        with interpreted():  # stores are empty; who wants to know what rows look like loads no kernels for it
            for node in sub_topology.nodes:
                if not node.is_source:
                    self._build(node)
        self.is_by_record = any(node.is_by_record for node in sub_topology.nodes)
        self._empty_batches: dict[str, Batch] = {}
        self._undecodable: list[tuple[int, ErrorHandlerContext, str]] = []
        """Of the chunk that was taken last, what cannot be read: its row, where it is, and why."""
        connect_stores(self.graph, self.operators)
        # An observer looks at the table's store while a chunk runs, and so may a processor in a run by record: there
        # the table's own operator has to put.
        if not is_observed and not self.is_by_record:
            let_views_put(self.dataflow, self.operators)
        # What has to fit is updates, and an operator of overlapping windows makes several of each record.
        most = BY_RECORD if self.is_by_record else CHUNK_RECORDS
        self.chunk_records = max(1, most // self._amplification())

    def _build(self, node: Node) -> None:
        above = [self.graph.nodes[name] for name in node.inputs]
        self._keys[node.name] = self._keys[above[0].name]
        operator: Operator | None = node.build(self._context(node, above))
        if operator is None:
            return
        self._keys[node.name] = getattr(operator, "keys", self._keys[node.name])
        self.operators[node.name] = operator

    def _context(self, node: Node, above: list[Node]) -> OperatorContext:
        children = [self.graph.nodes[edge.child] for edge in self.dataflow.children.get(node.name, ())]
        is_lazy = len(children) == 1 and children[0].reads_values_late and not self.dataflow.readers.get(node.name)
        keys = self._keys[above[0].name]
        views = tuple(build_view(self.graph, name, keys) for name in node.reads)
        self.views += views
        return OperatorContext(
            node.name,
            above[0].shape,
            keys,
            wants_old=self.dataflow.needs_old(node.name, counts_bytes=self.counts_bytes),
            is_lazy=is_lazy,
            counts_bytes=self.counts_bytes,
            is_viewed=bool(self.dataflow.readers.get(node.name)),
            table=self.graph.tables.get(node.name, TableTraits()),
            above=tuple(self.graph.tables[name] for name in node.inputs if name in self.graph.tables),
            shapes=tuple(input_.shape for input_ in above),
            views=views,
            children=tuple(child.name for child in self.graph.children(node.name)),
            shapes_read=tuple(self.graph.nodes[name].shape for name in node.reads),
            task_id=self.task_id,
            number=[*self.graph.nodes].index(node.name),
        )

    def _amplification(self) -> int:
        return max([1, *(getattr(operator, "updates_per_record", 1) for operator in self.operators.values())])

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def task_id(self) -> str:
        """Kafka's: sub-topology and partition."""
        return f"{self.sub_topology.kafka_id}_{self.partition}"

    @property
    def stores(self) -> dict[str, StatefulOperator]:
        """Stateful operators by the name of their store."""
        stores = {}
        for store, node in self.sub_topology.stores.items():
            operator = self.operators[node.name]
            assert isinstance(operator, StatefulOperator), f"{node.name} has a store and no state"
            stores[store] = operator
        return stores

    @refusing_exits()
    def resume(
        self,
        rows: Mapping[str, pa.Table | StoredRows],
        counters: dict[str, Counters],
        *,
        imported: dict[str, pa.Table] | None = None,
        stream_time_ms: int = NO_TIMESTAMP_MS,
        tape_time_ms: int = NO_TIMESTAMP_MS,
    ) -> None:
        """Continue where the increment before ended: live rows and counters by store. Call once, before ``process``.

        ``imported``: ``contents`` of stores that belong to an earlier part of this sub-topology, by node.
        """
        self.stream_time_ms, self.tape_time_ms = stream_time_ms, tape_time_ms
        shown = dict(imported or {})
        wanted = {name for view in self.views if view.is_replica for name, _ in view.wants}
        for store, operator in self.stores.items():
            stored = rows.get(store)
            if isinstance(stored, StoredRows):
                operator.resume_with(stored, counters.get(store, {}))
            else:
                nothing = operator.rows_schema().empty_table()
                operator.resume(nothing if stored is None else stored, counters.get(store, {}))
            node = self.sub_topology.stores[store].name
            if node in wanted:
                shown[node] = operator.contents()
        for view in self.views:
            view.resume({name: shown[name] for name, _ in view.wants if name in shown})
        for operator in self.stores.values():
            operator.begin()

    def counters(self) -> dict[str, Counters]:
        return {store: operator.counters() for store, operator in self.stores.items()}

    def metrics(self) -> dict[str, dict[str, int]]:
        """Numbers of the operators that have any, by node."""
        return {
            operator.context.node: numbers for operator in self.operators.values() if (numbers := operator.metrics())
        }

    # --- records ---------------------------------------------------------------------------------------------

    @refusing_exits()
    def process(self, records: pa.Table | TapeChunk) -> Result:
        """Run one chunk, in order: a table of INPUT_COLUMNS, or rows of several sources.

        Raises the failure of the first record that ended the run (BufferFull: a strict suppress buffer is full);
        ``unfinished`` then has what came before.
        """
        input_ = records if isinstance(records, TapeChunk) else TapeChunk.of(records.combine_chunks())
        batches, chunk, takes, reasons = self.take(input_)
        self._handle(chunk, partial(raw_record, input_))
        chunk_run = self._chunk_run(chunk)
        if self.checks_purity:
            chunk_run.impure, self.checks_purity = self.impure, False
        chunk_run.run(batches)
        for view in self.views:
            view.settle()
        unread = np.zeros(len(input_), np.bool_)
        for number, by_row in reasons.items():
            unread[input_.rows(number)[list(by_row)]] = True
        # A record that became a dead letter at a step counts as that alone, even where another branch applied it.
        unread[list(chunk.failures)] = True
        self._count(chunk, unread)
        self.unused.count(input_, chunk, unread)
        return self._result(chunk_run, chunk, input_, takes, reasons)

    def _chunk_run(self, chunk: Chunk) -> ChunkRun:
        running = self.dataflow, self.operators, chunk, self.repartition_counts, self.observer
        if not self.is_by_record:
            return ChunkRun(*running)
        if not self._empty_batches:
            batches, nothing, _, _ = self.take(empty_input(self))
            self._empty_batches = empty_batches_of(self.dataflow, self.operators, nothing, batches)
        return RecordRun(*running, empty_batches=self._empty_batches)

    @refusing_exits()
    def advance(self, step: StreamTimeAdvance) -> tuple[Result, dict[str, int]]:
        """Stream time, or the wall clock, moves on without a record: a chunk of one row that is none. Also the time (or
        tick) to forward, by repartition topic and export. Raises as ``process``.
        """
        nothing = empty_input(self)
        batches, _, _, reasons = self.take(nothing)
        self.tape_time_ms = max(self.tape_time_ms, step.tape_time_ms)
        if step.tick_ms is None:
            self.stream_time_ms = max(self.stream_time_ms, step.time_ms)
        self.advances += 1
        chunk = advance_chunk(self._topics(), self.partition, step, self.stream_time_ms)
        self._handle(chunk, None)
        if step.tick_ms is not None:
            ticked = self._chunk_run(chunk)
            ticked.run(batches)
            for view in self.views:
                view.settle()
            # A task below several inputs gets the same tick from each of them, and forwards it once.
            signals = dict.fromkeys(self._clocked if step.tick_ms > self._ticked_ms else (), step.tick_ms)
            self._ticked_ms = max(self._ticked_ms, step.tick_ms)
            return self._result(ticked, chunk, nothing, np.zeros(1, np.bool_), reasons), signals
        sources: dict[str, SourceProgress] = {}
        for number, reached in step.sources.items():
            # One node may be imported several times, once for each run of adjacent edges. The least of them holds it
            # back.
            name = self.dataflow.node_of(self.source_names[number])
            sources[name] = combine([reached, sources.get(name, reached)])
        chunk_run = StreamTimeRun(self.dataflow, self.operators, chunk, self.repartition_counts, sources=sources)
        chunk_run.run(batches)
        for view in self.views:
            view.advance(chunk_run.advanced)
            view.settle()
        return self._result(chunk_run, chunk, nothing, np.zeros(1, np.bool_), reasons), chunk_run.signals

    def restart(self) -> None:
        """Production restarted here: stream times of operators begin at -1 again, and stores keep their rows. That of
        the task stays (StreamTask commits it with the offsets). Raises ConfigError for operators that cannot do that.
        """
        for node in self.sub_topology.nodes:
            if any(self.graph.nodes[name].windowed_by is not None for name in node.reads):
                raise no_restart(node.name, "one that looks into a table of windows")
        for operator in self.operators.values():
            operator.restart()

    def _handle(self, chunk: Chunk, raw: Callable[[int], Raw] | None) -> None:
        """Ask the application's handler about what fails in ``chunk``; in a trial nobody."""
        if self.trial is not None:
            chunk.handling = self.trial
            chunk.letters = None if self.graph.dead_letter_topic is None else self.trial
            return
        places = FailurePlaces(self.task_id, chunk, raw)
        letters = None if self.graph.dead_letter_topic is None else DeadLetters(places)
        if letters is not None:
            letters.add_undecodable(self._undecodable)
        chunk.letters = letters
        if (handler := self.graph.handlers.processing) is not None:
            chunk.handling = ChunkHandling(handler, places, letters)

    def _result(
        self,
        chunk_run: ChunkRun,
        chunk: Chunk,
        input_: TapeChunk,
        takes: np.ndarray,
        reasons: dict[int, dict[int, str]],
    ) -> Result:
        letters = [
            dead_letter_table(input_.tables[number], input_.rows(number), self.sub_topology.sources[number], by_row)
            for number, by_row in reasons.items()
        ]
        if chunk.failures:
            letters += [
                failed_step_table(input_.tables[n], input_.rows(n), self.sub_topology.sources[n], chunk)
                for n in reasons
            ]
            letters = [pa.concat_tables(letters).sort_by("cause")]
        self.counts.add_refusals(chunk)
        repartitions, exports = chunk_run.exchanged()
        if self._hands_raw:
            raw = partial(raw_record, input_)
            exports = {name: with_raw(rows, raw) for name, rows in exports.items()}
        result = Result(
            chunk_run.outputs,
            repartitions,
            exports,
            dropped_table(chunk),
            pa.concat_tables(letters),
            chunk.tape_time_ms,
            takes,
            chunk_run.output_turns(),
        )
        if chunk.failure is not None:
            self.unfinished = result
            raise chunk.failure
        return result

    def take(self, input_: TapeChunk) -> tuple[dict[str, Batch], Chunk, np.ndarray, dict[int, dict[int, str]]]:
        """Decoded records by source, the chunk, which rows are records taken, and why others cannot be read."""
        n, topics = len(input_), len(self.sub_topology.sources)
        time_ms = known_times(input_.spread("timestamp", NO_TIMESTAMP_MS))
        is_record = np.ones(n, np.bool_) if len(self.sources) == topics else input_.source < topics
        readable = np.ones(n, np.bool_)
        reasons: dict[int, dict[int, str]] = {}
        batches: dict[str, Batch] = {}
        self._undecodable = []
        for number, (name, source) in enumerate(zip(self.source_names, self.sources, strict=True)):
            rows = input_.rows(number)
            if number < topics or source.is_global:
                batch, bad, why = self._decoder.decode(source, input_.tables[number], rows)
                readable[rows] = ~bad
                self.unused.look(number, input_.tables[number], batch.value.all())
                batches[name] = batch.where(~bad & (batch.time_ms >= 0))
                # Every task reads all of a global table: with letters of it each task would write the same ones.
                if number < topics:
                    reasons[number] = why
                if why:
                    self._ask(source, input_.tables[number], rows, why)
            else:
                batches[name] = import_batch(input_.tables[number], rows, self._keys[source.name])
        takes = readable & (time_ms >= 0) & is_record & self._is_topic(input_)
        offset = input_.spread("offset", -1)
        names = self._topics()
        topic_names, origin, origin_time_ms = origins(input_, names, time_ms)
        chunk = Chunk(
            topic_names,
            self.partition,
            input_.source,
            origin,
            offset,
            *contexts(input_, names, offset),
            origin_time_ms,
            *self._advance(time_ms, takes, is_record),
            *(np.zeros(n, np.bool_), np.zeros(n, np.bool_)),
            is_record=is_record,
        )
        refuse_invalid_times(chunk, self.sub_topology, readable & is_record)
        return batches, chunk, takes, reasons

    def _ask(self, source: Node, records: pa.Table, rows: np.ndarray, reasons: dict[int, str]) -> None:
        """About those of ``records`` that cannot be read; ``rows``: their rows of the chunk."""
        handler = self.graph.handlers.deserialization
        writes = self.graph.dead_letter_topic is not None and writes_letters(handler) and not source.is_global
        if handler is None and not writes:
            return
        if self.trial is not None:
            self.trial.has_failed = True
            return
        contexts = decoded_or_failed(handler, source, self.task_id, self.partition, records, reasons)
        if writes:
            self._undecodable += [(int(rows[row]), context, reasons[row]) for row, context in contexts.items()]

    def _topics(self) -> tuple[str, ...]:
        return tuple(source.topic_of_records for source in self.sources)

    def _is_topic(self, input_: TapeChunk) -> np.ndarray:
        """Rows that Kafka would have taken from a topic."""
        inlined = [
            n for n, source in enumerate(self.sources) if isinstance(source, RepartitionNode) and source.is_replay_only
        ]
        return np.isin(input_.source, inlined, invert=True) if inlined else np.ones(len(input_), np.bool_)

    def _advance(self, time_ms: np.ndarray, takes: np.ndarray, is_record: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Stream time and tape time after every row; the task's own move on."""
        counters = np.array([self.stream_time_ms, self.tape_time_ms, 0, 0, 0], np.int64)
        stream_time, tape_time = np.empty(len(time_ms), np.int64), np.empty(len(time_ms), np.int64)
        task_counters.advance_counters(
            time_ms, takes, is_record, counters, self.lateness.classes, stream_time, tape_time
        )
        self.stream_time_ms, self.tape_time_ms, late_ms, latest_ms, taken = counters.tolist()
        self.lateness.add(late_ms, latest_ms, taken)
        return stream_time, tape_time

    def _count(self, chunk: Chunk, unread: np.ndarray) -> None:
        self.counts.add(chunk, unread, chunk.is_record)
        is_landed = np.array(
            [source in self.sub_topology.sources and source.landed_topic is not None for source in self.sources]
        )
        if is_landed.all():
            self.landed = self.counts
        else:
            self.landed.add(chunk, unread, is_landed[chunk.source])


def empty_input(task: Task) -> TapeChunk:
    """A chunk of no records."""
    nothing = pa.table({name: pa.array([], kind) for name, kind in INPUT_COLUMNS.items()})
    tables = [nothing for _ in task.sources]
    for number, source in enumerate(task.sources):
        if isinstance(source, RepartitionNode) and source.carries_change:
            tables[number] = nothing.append_column("old", pa.array([], pa.binary()))
        if task.source_names[number] in {imported.name for imported in task.dataflow.imports}:
            # What an earlier part hands over is decoded already, and may have old values (export_table).
            none = pa.array([], source.shape.value.arrow_type)
            tables[number] = nothing.set_column(3, "value", none).append_column("old", none)
            for name in () if source.shape.window is None else ("window_start_ms", "window_end_ms"):
                tables[number] = tables[number].append_column(name, pa.array([], pa.int64()))
    return TapeChunk(np.zeros(0, np.int16), tuple(tables))
