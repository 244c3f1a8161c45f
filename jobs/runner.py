"""Runs one task of one increment: reads its slice and its state, writes files nobody sees yet, reports.

Owns the border between the pure task and files. Rule: everything is a function of the description, so a task that died
is simply run again; nothing here commits. The same function runs in process and in Spark's workers.
"""

import resource
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.operators import StatefulOperator
from jobs.tape import CAUSE_COLUMNS, Slice, merge_causes
from jobs.task import Result, Task
from jobs.topology.nodes import RepartitionNode
from jobs.topology.topology import SubTopology, Topology
from state.errors import ReplayError, TaskFailed
from state.files import DataFile, TaskFile, read_rows
from state.tables import DEAD_LETTER_SCHEMA, DROPPED_SCHEMA, PipelineTables, Warehouse, open_filesystem, output_schema
from state.times import NO_TIMESTAMP_MS


@dataclass(frozen=True, slots=True)
class TaskDescription:
    """What a task needs to run anywhere. ``before``: the task's entry of the last done row, or {}.

    ``slice``: of a landed topic; ``pieces``: files of a repartition's rows, in order of the tasks that wrote them.
    ``state``: store → committed files of the task's partition. ``repartitions``: topic → number of partitions.
    """

    warehouse: Warehouse
    pipeline: str
    increment: int
    sub_topology: int
    partition: int
    slice: Slice | None
    pieces: tuple[str, ...]
    state: dict[str, tuple[DataFile, ...]]
    repartitions: dict[str, int]
    before: dict[str, Any]

    @property
    def id(self) -> str:
        """As Kafka's TaskId prints."""
        return f"{self.sub_topology}_{self.partition}"

    @property
    def size(self) -> int:
        """Offsets or files to read: how long the task will take, compared with others of its stage."""
        return len(self.pieces) if self.slice is None else self.slice.end - self.slice.begin


@dataclass(slots=True)
class TaskReport:
    """What a task did. ``after``: its entry for the done row; ``files`` by table ("outputs/x", "dropped", ...); JSON
    throughout.

    ``pieces``: repartition topic → target partition (as text) → path. ``rss_bytes``: the most memory its process ever
    held.
    """

    sub_topology: int
    partition: int
    after: dict[str, Any]
    counts: dict[str, Any]
    lateness: dict[str, int]
    suppress: dict[str, dict[str, int]]
    files: dict[str, list[dict[str, Any]]]
    pieces: dict[str, dict[str, str]]
    seconds: dict[str, float]
    rss_bytes: int = 0


class Runner(Protocol):
    """Runs tasks somewhere and returns their reports in the order of the descriptions."""

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]: ...


class LocalRunner:
    """One task after the other, in this process, without Java."""

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        return [run_task(topology, description) for description in descriptions]


def run_task(topology: Topology, description: TaskDescription) -> TaskReport:
    """Run one task. Raises TaskFailed (or another ReplayError) that names the task; never anything else."""
    try:
        return _TaskRun(topology, description).run()
    except ReplayError as error:
        error.add_note(f"in task {description.id} of increment {description.increment}")
        raise
    except Exception as error:
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


@dataclass
class _TaskRun:
    topology: Topology
    description: TaskDescription
    files: dict[str, TaskFile] = field(default_factory=dict)
    pieces: dict[tuple[str, int], pq.ParquetWriter] = field(default_factory=dict)
    piece_paths: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        d = self.description
        self.sub: SubTopology = self.topology.sub_topologies[d.sub_topology]
        self.tables: PipelineTables = d.warehouse.pipeline(d.pipeline)
        self.next_offsets: dict[str, int] = dict(d.before.get("next_offsets", {}))
        self.causes: pa.Table | None = None
        self.watch = _Stopwatch()

    def run(self) -> TaskReport:
        task = Task(
            self.topology, self.sub, self.description.partition, repartition_counts=self.description.repartitions
        )
        before = self.description.before
        task.resume(
            {
                store: load_rows(self.tables.state(store), self.description.state.get(store, ()), operator)
                for store, operator in task.stores.items()
            },
            before.get("clocks", {}),
            stream_time_ms=before.get("stream_time_ms", NO_TIMESTAMP_MS),
            tape_time_ms=before.get("tape_time_ms", NO_TIMESTAMP_MS),
        )
        self.watch.lap("resume")
        for chunk in self._chunks(task.chunk_records):
            self.watch.lap("read")
            result = task.process(chunk)
            self.watch.lap("compute")
            self._write(result)
            self.watch.lap("write")
        for store, operator in task.stores.items():
            self._write_rows(f"state/{store}", self.tables.state(store), operator.changes())
        return self._report(task)

    # --- in --------------------------------------------------------------------------------------------------

    def _chunks(self, records: int) -> Iterator[pa.Table]:
        if self.description.slice is not None:
            yield from self.description.slice.chunks(records)
            return
        rows = self._repartitioned()
        for first in range(0, len(rows), records):
            yield rows.slice(first, records)

    def _repartitioned(self) -> pa.Table:
        """Fix the order of this task's repartition records for ever, by writing them with their offsets."""
        source = self.sub.source
        assert isinstance(source, RepartitionNode)
        table = f"repartition/{source.topic}"
        first = self.next_offsets.get(table, 0)
        rows = merge_causes([_read_piece(path) for path in self.description.pieces], first)
        self.causes = rows.select(["offset", *CAUSE_COLUMNS])
        self.next_offsets[table] = first + len(rows)
        self._write_rows(table, self.tables.repartition(source.topic), rows)
        return rows

    # --- out -------------------------------------------------------------------------------------------------

    def _write(self, result: Result) -> None:
        for name, rows in result.outputs.items():
            table = f"outputs/{name}"
            first = self.next_offsets.get(table, 0)
            self.next_offsets[table] = first + len(rows)
            offsets = pa.array(np.arange(first, first + len(rows)))
            self._write_rows(table, self.tables.output(name), rows.append_column("offset", offsets))
        for topic, rows in result.repartitions.items():
            self._write_pieces(topic, rows)
        sub = pa.array(np.full(len(result.dropped), self.sub.id, np.int32))
        self._write_rows("dropped", self.tables.dropped, result.dropped.append_column("sub_topology", sub))
        sub = pa.array(np.full(len(result.dead_letters), self.sub.id, np.int32))
        self._write_rows("dead_letter", self.tables.dead_letter, result.dead_letters.append_column("sub_topology", sub))

    def _write_rows(self, table: str, path: str, rows: pa.Table) -> None:
        """Add ``increment`` and the columns' order, and write to the task's one file of ``table``."""
        d = self.description
        schema = table_schema(self.topology, table)
        stored = pa.schema([column for column in schema if column.name != "partition"])
        rows = rows.append_column("increment", pa.array(np.full(len(rows), d.increment)))
        if table not in self.files:
            self.files[table] = TaskFile(path, partition=d.partition, name=f"{d.increment:08d}-{d.id}")
        self.files[table].write(rows.select(stored.names).cast(stored))

    def _write_pieces(self, topic: str, rows: pa.Table) -> None:
        """One file for every target partition, for the next stage of this increment alone."""
        d = self.description
        rows = self._with_causes(rows)
        targets = rows["target"].to_numpy()
        for target in np.unique(targets).tolist():
            if (topic, target) not in self.pieces:
                folder = exchange_folder(self.tables, d.increment)
                filesystem, root = open_filesystem(folder)
                filesystem.create_dir(root, recursive=True)
                path = f"{folder}/{topic}-{target}-from-{d.id}-{time.time_ns()}.parquet"
                writer = pq.ParquetWriter(open_filesystem(path)[1], rows.schema, filesystem=filesystem)
                self.pieces[topic, target] = writer
                self.piece_paths.setdefault(topic, {})[str(target)] = path
            self.pieces[topic, target].write_table(rows.filter(pa.array(targets == target)))

    def _with_causes(self, rows: pa.Table) -> pa.Table:
        """Rows keep the cause that the first sub-topology gave them, through any number of repartitions."""
        if self.causes is None:
            return rows.append_column("cause_partition", pa.array(np.full(len(rows), self.description.partition)))
        places = np.searchsorted(self.causes["offset"].to_numpy(), rows["cause_offset"].to_numpy())
        causes = self.causes.take(pa.array(places))
        for name in CAUSE_COLUMNS:
            if name in rows.column_names:
                rows = rows.drop_columns([name])
            rows = rows.append_column(name, causes[name])
        return rows

    def _report(self, task: Task) -> TaskReport:
        for writer in self.pieces.values():
            writer.close()
        closed = {table: file.close() for table, file in self.files.items()}
        self.watch.lap("write")
        return TaskReport(
            sub_topology=self.sub.id,
            partition=self.description.partition,
            after={
                "clocks": task.clocks(),
                "stream_time_ms": task.stream_time_ms,
                "tape_time_ms": task.tape_time_ms,
                "next_offsets": self.next_offsets,
            },
            counts=asdict(task.counts),
            lateness=asdict(task.lateness),
            suppress=task.metrics(),
            files={table: [file.to_dict()] for table, file in closed.items() if file is not None},
            pieces=self.piece_paths,
            seconds=self.watch.seconds,
            rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )


def load_rows(path: str, files: Sequence[DataFile], operator: StatefulOperator) -> pa.Table:
    """Live rows of one partition of a store: the newest of every key, unless it is deleted."""
    schema = operator.rows_schema().append(pa.field("increment", pa.int64())).append(pa.field("deleted", pa.bool_()))
    rows = read_rows(path, files, schema)
    if len(files) > 1:
        rows = newest_rows(rows)
    return rows.filter(pc.invert(rows["deleted"])).drop_columns(["increment", "deleted"])


def newest_rows(rows: pa.Table) -> pa.Table:
    """The newest row of every key and window (in each partition), deleted marks included. Files stand in order of their
    increments.
    """
    keys = [name for name in ("partition", "key", "window_start_ms", "window_end_ms") if name in rows.column_names]
    frame = pl.from_arrow(rows.select(keys).append_column("row", pa.array(np.arange(len(rows)))))
    assert isinstance(frame, pl.DataFrame)
    frame = frame.with_columns(increment=pl.Series(rows["increment"].to_numpy())).sort("increment", maintain_order=True)
    newest = frame.unique(subset=keys, keep="last", maintain_order=True)["row"].to_numpy()
    return rows.take(pa.array(np.sort(newest)))


def _read_piece(path: str) -> pa.Table:
    filesystem, root = open_filesystem(path)
    return pq.read_table(root, filesystem=filesystem)


def exchange_folder(tables: PipelineTables, increment: int) -> str:
    """Where the rows of an increment wait between two stages; gone when it is done."""
    return f"{tables.root}/_exchange/{increment:08d}"


def table_schema(topology: Topology, table: str) -> pa.Schema:
    """Schema of a table of the pipeline, by the name it has in reports: "outputs/x", "state/y", "repartition/z", ..."""
    kind, _, name = table.partition("/")
    if kind == "dropped":
        return DROPPED_SCHEMA
    if kind == "dead_letter":
        return DEAD_LETTER_SCHEMA
    if kind == "outputs":
        sink = next(node for node in topology.sinks() if node.topic == name)
        return output_schema(
            sink.shape.key.arrow_type, sink.shape.value.arrow_type, windowed=sink.shape.window is not None
        )
    if kind == "state":
        return state_schema(topology, name)
    return REPARTITION_SCHEMA


REPARTITION_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        *[(name, pa.int64()) for name in CAUSE_COLUMNS],
        ("increment", pa.int64()),
    ]
)
"""A landed table of our own, and the cause of every record."""


def state_schema(topology: Topology, store: str) -> pa.Schema:
    """partition, increment, deleted, then the store's own columns."""
    sub = topology.sub_topology_of(store)
    assert sub is not None, f"no store {store} in the topology"
    head = [("partition", pa.int32()), ("increment", pa.int64()), ("deleted", pa.bool_())]
    return pa.schema([*(pa.field(*column) for column in head), *Task(topology, sub).stores[store].rows_schema()])
