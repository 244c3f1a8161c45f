"""Runs an increment a second time, for what nodes got and forwarded in it, where no table has that.

Owns the choice of tasks, and the rows that are kept. Rule: all tasks run where the increment read no more records than
the bound. Where it read more, tasks of sub-topologies that read landed topics alone are chosen by a seed, as many as
stay below the bound. Nothing is committed, and functions that only look on (peek, foreach) are not called. A topology
with processors is not run again: they may act on the world.
"""

import random
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.errors import ReplayError
from ...state.node_rows import ROWS_MAX, Chosen, NodeRows
from ...state.records.batches import Batch, Chunk
from ...state.tables.ledger import Ledger
from ...state.tables.ledger_rows import PlanRow
from ...state.tables.names import OUTPUTS, REPARTITION, TableName, TaskId
from ...state.tables.warehouse import Warehouse
from ...state.times import NO_TIMESTAMP_MS
from ..code_changes.code_of_increment import other_code
from ..execution.run_observer import RunObserver, leave_out_lookers
from ..execution.sinks import MemorySink
from ..execution.task_description import TaskDescription, TaskReport
from ..execution.task_run import TaskRun
from ..graph.graph import Graph, Node
from ..operators.base.operator import StatefulOperator
from ..replay.plan import Plan
from ..replay.rerun import Rerun
from ..tape.task_input import TapeChunk
from ..task.output_tables import output_table
from ..task.task import Result, Task
from ..topology.topology import SubTopology, Topology

_PLACES = pa.schema([("partition", pa.int32()), ("offset", pa.int64())]).empty_table()
_RECORDS = pa.schema(
    [*_PLACES.schema, ("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary())]
).empty_table()
_FORWARDED = ("key", "window_start_ms", "window_end_ms", "record_time_ms", "stream_time_ms")
STATE_SHARE = 16
"""A second run loads at most so many times as many rows of stores as it may take records."""

_OF_STORE = ["timestamp", "key", "value"]
_ADVANCED = "recorded times, or a clock, made it forward what a second run does not show"


class SecondRun:
    """A RunAgain (state/node_rows.py) of a pipeline; each increment runs once, however many of ``nodes`` are asked
    for. ``rows_max``: the bound on records of an increment.
    """

    def __init__(
        self, warehouse: Warehouse, pipeline: str, topology: Topology, nodes: Collection[str], rows_max: int = ROWS_MAX
    ) -> None:
        self.warehouse, self.pipeline, self.topology = warehouse, pipeline, topology
        self.nodes, self.rows_max = frozenset(nodes), rows_max
        self._known: tuple[int, dict[str, NodeRows] | str] | None = None

    def __call__(self, increment: int, node: str) -> NodeRows | str:
        if self._known is None or self._known[0] != increment:
            try:
                self._known = increment, self._run(increment)
            except (ReplayError, OSError) as error:
                self._known = increment, f"it could not be run again: {error}"
        rows = self._known[1]
        return rows if isinstance(rows, str) else rows.get(node, self._too_many)

    @property
    def _too_many(self) -> str:
        return f"the increment has more than {self.rows_max:,} records, which is the most that is run again"

    def _run(self, increment: int) -> dict[str, NodeRows] | str:
        ledger = Ledger(self.warehouse.pipeline(self.pipeline).ledger)
        planned, done = ledger.rows_of(increment)
        if self.rows_max <= 0:
            return "nothing is to be run again"
        if planned is None or done is None or done.content.kind is not None or planned.content.migrate is not None:
            return "the increment has no plan that can be run again"
        topology = self.topology.reading(planned.content.cut_to)
        if any(node.reach(topology.graph).gives_times for node in topology.graph.nodes.values()):
            return "processors may act on the world, and are not run again"
        if other := other_code(done.content, topology):
            return f"other code ran the increment ({other})"
        chosen = _Tasks(topology, planned.content, self.nodes, self.rows_max, f"{self.pipeline}/{increment}")
        if not any(map(chosen.has, self.nodes)):
            return self._too_many
        order = "arrival" if planned.content.by_arrival else "time"
        plan = Plan(increment, planned.content, is_rerun=True)
        with TemporaryDirectory() as folder:
            runner = _Watching(topology, chosen, self.nodes, STATE_SHARE * self.rows_max)
            before = ledger.done_before(increment)
            again = Rerun(self.warehouse, topology, self.pipeline, runner, before=before, order=order, exchange=folder)
            try:
                again.run(plan)
            except _TooMuchState:
                return f"its tasks would load more than {STATE_SHARE * self.rows_max:,} rows of stores"
        return {name: runner.rows_of(name) for name in self.nodes if chosen.has(name)}


class _Tasks:
    """Those that run; all where the increment has no more than ``rows_max`` records."""

    def __init__(self, topology: Topology, plan: PlanRow, nodes: Collection[str], rows_max: int, seed: str) -> None:
        self.topology, self._plan, self._rows_max = topology, plan, rows_max
        self.runs_all = plan.records <= rows_max
        # No hash(): Python salts that of text, so every process would choose other tasks.
        self.seed = 0 if self.runs_all else zlib.crc32(seed.encode())
        self._of_sub: dict[int, list[int]] = {}
        for sub in topology.sub_topologies if not self.runs_all else ():
            if sub.reads_landed_alone and any(node.name in nodes for node in sub.nodes):
                self._of_sub[sub.id] = self._some(sub)

    def _some(self, sub: SubTopology) -> list[int]:
        """Partitions that stay below the bound."""
        left, chosen = self._rows_max, []
        partitions = list(range(self._plan.partitions[str(sub.id)]))
        random.Random(self.seed).shuffle(partitions)
        for partition in partitions:
            records = self._records(sub, partition)
            if 0 < records <= left:
                left -= records
                chosen.append(partition)
        return chosen

    def _records(self, sub: SubTopology, partition: int) -> int:
        topics, p = [source.topic for source in sub.sources], str(partition)
        begins, ends = self._plan.cut_from, self._plan.cut_to
        return sum(ends.get(topic, {}).get(p, 0) - begins.get(topic, {}).get(p, 0) for topic in topics)

    def runs(self, description: TaskDescription) -> bool:
        return self.runs_all or description.partition in self._of_sub.get(description.sub_topology, ())

    def has(self, node: str) -> bool:
        """Whether some task of the node runs."""
        sub = _sub_of(self.topology, node)
        return sub is not None and (self.runs_all or bool(self._of_sub.get(sub.id)))

    def of(self, sub: SubTopology) -> Chosen:
        every = list(range(self._plan.partitions[str(sub.id)]))
        mine = every if self.runs_all else sorted(self._of_sub[sub.id])
        records = self._plan.records if self.runs_all else sum(self._records(sub, partition) for partition in mine)
        return Chosen(tuple(str(TaskId(sub.id, each)) for each in mine), len(every) - len(mine), self.seed, records)


class _Watching:
    """A Runner in this process. By arrival stages may run more than once, and each task's last run counts."""

    def __init__(self, topology: Topology, chosen: _Tasks, nodes: Collection[str], state_max: int) -> None:
        self._topology, self._chosen, self._nodes = topology, chosen, nodes
        self._tasks: dict[str, _WatchedTask] = {}
        self._state_left = state_max
        """So many rows of stores may still be loaded."""

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        """As a Runner, one stage."""
        reports = []
        for description in descriptions:
            if self._chosen.runs(description):
                self._state_left -= 0 if description.id in self._tasks else _rows_before(description)
                if self._state_left < 0:
                    raise _TooMuchState
                watched = _WatchedTask(topology, description, self._nodes)
                reports.append(watched.run())
                self._tasks[description.id] = watched
        return reports

    def rows_of(self, name: str) -> NodeRows:
        """Of all tasks that ran."""
        sub = _sub_of(self._topology, name)
        assert sub is not None, f"no sub-topology has {name}"
        graph, chosen = self._topology.graph, self._chosen.of(sub)
        watched = [task.nodes[name] for task in self._tasks.values() if name in task.nodes]
        slots = range(len(graph.nodes[name].inputs))
        below = _tables_below(graph, name, None if self._chosen.runs_all else sub)
        return NodeRows(
            inputs=tuple(_together([_RECORDS, *(each.inputs[slot] for each in watched)]) for slot in slots),
            earlier=tuple(_together([_RECORDS, *(each.earlier[slot] for each in watched)]) for slot in slots),
            forwarded=_together([each.forwarded for each in watched]),
            dropped=_together([_PLACES, *(each.dropped for each in watched)]),
            written={
                table: _together([rows for task in self._tasks.values() for rows in task.written(table)])
                for table in below
            },
            partitions=frozenset(TaskId.of(task).partition for task in chosen.tasks),
            chosen=chosen,
            unseen=next((each.unseen for each in watched if each.unseen), ""),
            several_of_one=any(each.several_of_one for each in watched),
            same_coordinates=any(each.same_coordinates for each in watched),
        )


class _WatchedTask(RunObserver):
    """``nodes``: by name, what each got and forwarded; ``written``: by table, rows as they would be stored."""

    looks_into_stores = True

    def __init__(self, topology: Topology, description: TaskDescription, nodes: Collection[str]) -> None:
        self._topology, self._description = topology, description
        self._sub = topology.sub_topology(description.sub_topology)
        self._names, self._sink = nodes, MemorySink(topology, (OUTPUTS, REPARTITION))

    def run(self) -> TaskReport:
        """Run the task; nothing is written."""
        return TaskRun(self._topology, self._description, None, self._sink, self).run()

    def written(self, table: str) -> list[pa.Table]:
        """Rows of an output or repartition table, with their partition."""
        partition, tables = self._description.partition, self._sink.written.get(table, ())
        return [each.append_column("partition", _numbers(partition, len(each))) for each in tables]

    def begins(self, task: Task, next_offsets: Mapping[str, int]) -> None:
        """As RunObserver."""
        graph = self._topology.graph
        self.nodes = {
            node.name: _WatchedNode(node, graph, self._description)
            for node in self._sub.nodes
            if node.name in self._names
        }
        self._begin = 0
        self._sink.written.clear()
        leave_out_lookers(task)
        task.observer = self

    def resumed(self, task: Task) -> None:
        """As RunObserver."""
        for store, node in self._sub.stores.items():
            if node.name in self.nodes:
                self.nodes[node.name].remember(task.stores[store])

    def saw(self, node: Node, inputs: Sequence[Batch], forwarded: Batch, chunk: Chunk) -> None:
        """As RunObserver."""
        if node.name in self.nodes:
            self.nodes[node.name].take(inputs, forwarded, chunk, self._begin)

    def took(self, task: Task, part: TapeChunk, result: Result) -> None:
        """As RunObserver."""
        for name, watched in self.nodes.items():
            watched.drop(result.dropped, name, self._begin)

    def wrote(self, part: TapeChunk) -> None:
        """As RunObserver."""
        self._begin += len(part)

    def advanced(self, task: Task, result: Result) -> None:
        """As RunObserver."""
        for name, watched in self.nodes.items():
            watched.drop(result.dropped, name, self._begin)
            watched.unseen = _ADVANCED


class _WatchedNode:
    """Rows of one node in one task."""

    def __init__(self, node: Node, graph: Graph, description: TaskDescription) -> None:
        self.node, self._partition = node, description.partition
        self._shapes = [graph.nodes[name].shape for name in node.inputs]
        self.inputs: list[pa.Table] = [_RECORDS] * len(node.inputs)
        self.earlier: list[pa.Table] = [_RECORDS] * len(node.inputs)
        self.forwarded: pa.Table = pa.table({})
        self.dropped: pa.Table = _PLACES
        self.unseen, self.several_of_one, self.same_coordinates = "", False, False
        self._coordinates: set[tuple[str | None, int]] = set()

    def remember(self, store: StatefulOperator) -> None:
        """What its store has before the increment; the last record has the stream time that it had reached."""
        counters = store.counters()
        reached = counters.get("stream_time_ms", counters.get("store_time_ms", NO_TIMESTAMP_MS))
        nothing = pa.nulls(1, pa.binary())
        advance = pa.table({"timestamp": pa.array([reached]), "key": nothing, "value": nothing})
        for slot, kept in enumerate(self.node.records_kept(store.contents())):
            if "value" not in kept.column_names:
                kept = kept.append_column("value", pa.nulls(len(kept), pa.binary()))
            records = pa.concat_tables([kept.select(_OF_STORE).cast(advance.schema), advance])
            # Below 0, since rows of the increment are numbered from 0 on.
            offset = pa.array(np.arange(-len(records), 0))
            places = {"partition": self._places(len(records)), "offset": offset}
            self.earlier[slot] = pa.table({**places, **dict(zip(_OF_STORE, records.columns, strict=True))})
            if "context_offset" in kept.column_names:
                topics, offsets = (kept[name].to_pylist() for name in ("context_topic", "context_offset"))
                self._note(zip(topics, offsets, strict=True))

    def _note(self, coordinates: Iterable[tuple[str | None, int]]) -> None:
        """Two records of the same topic and offset cannot be distinguished."""
        for each in coordinates:
            self.same_coordinates |= each in self._coordinates
            self._coordinates.add(each)

    def take(self, inputs: Sequence[Batch], forwarded: Batch, chunk: Chunk, begin: int) -> None:
        """One chunk, whose first row has the number ``begin``."""
        for slot, batch in enumerate(inputs):
            columns = (
                self._places(len(batch)), pa.array(batch.cause.astype(np.int64) + begin), pa.array(batch.time_ms),
                self.node.record_keys(batch).cast(pa.binary()), self._values(slot, batch),
            )  # fmt: skip
            self.inputs[slot] = pa.concat_tables([self.inputs[slot], pa.table(columns, schema=_RECORDS.schema)])
            self.several_of_one |= len(np.unique(batch.cause)) < len(batch)
            topic, offset = batch.coordinates(chunk)
            names = [*chunk.context_topics, None]
            self._note(zip([names[number] for number in topic.tolist()], offset.tolist(), strict=True))
        rows = output_table(forwarded, chunk) if len(forwarded) else None
        if rows is not None:
            wanted = (*_FORWARDED, "value") if self.node.judged_by_values else _FORWARDED
            kept = rows.select([name for name in rows.column_names if name in wanted])
            key = pa.chunked_array([forwarded.keys.typed(forwarded.key)])
            kept = kept.set_column(kept.column_names.index("key"), "key", key)
            kept = kept.append_column("cause_offset", pa.array(forwarded.cause.astype(np.int64) + begin))
            kept = kept.append_column("offset", pa.array(np.arange(len(rows)) + len(self.forwarded)))
            kept = kept.append_column("partition", self._places(len(rows)))
            self.forwarded = _together([self.forwarded, kept])

    def _values(self, slot: int, batch: Batch) -> pa.Array:
        if not self.node.judged_by_values:
            return pa.nulls(len(batch), pa.binary())
        return self._shapes[slot].value.encode(batch.value.all()).cast(pa.binary())

    def drop(self, dropped: pa.Table, name: str, begin: int) -> None:
        """Refusals of a chunk."""
        of_node = dropped.filter(pc.equal(dropped["node"], name))
        columns = self._places(len(of_node)), pc.add(of_node["cause"].cast(pa.int64()), begin)
        self.dropped = pa.concat_tables([self.dropped, pa.table(columns, schema=_PLACES.schema)])

    def _places(self, rows: int) -> pa.Array:
        return _numbers(self._partition, rows)


def _numbers(number: int, rows: int) -> pa.Array:
    return pa.array(np.full(rows, number, np.int32))


class _TooMuchState(Exception):
    """Tasks would load more rows of stores than they may."""


def _rows_before(description: TaskDescription) -> int:
    """Rows of stores and of global tables' topics that the task loads before it takes a record."""
    stores = [*description.state.values(), *(each.files for each in description.imported.values())]
    rows = sum(each.file.records for files in stores for each in files)
    return rows + sum(each.end - each.begin for slices in description.globals.values() for each in slices)


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    with_columns = [table for table in tables if table.num_columns]
    return pa.concat_tables(with_columns) if with_columns else pa.table({})


def _sub_of(topology: Topology, name: str) -> SubTopology | None:
    return next((sub for sub in topology.sub_topologies if name in {node.name for node in sub.nodes}), None)


def _tables_below(graph: Graph, name: str, sub: SubTopology | None) -> list[str]:
    """Outputs and repartition tables that a node's records reach; of outputs that ``sub`` alone writes, if given."""
    tables, begun, seen = dict[str, None](), [name], {name}
    of_sub = None if sub is None else {node.name for node in sub.nodes}
    while begun:
        for child in graph.children(begun.pop()):
            if child.name in seen or (of_sub is not None and child.name not in of_sub):
                continue
            seen.add(child.name)
            begun.append(child.name)
            table = child.table(graph)
            is_rows = table is not None and TableName(table).kind in (OUTPUTS, REPARTITION)
            if table is not None and is_rows and (of_sub is None or _writers_are(graph, child, of_sub)):
                tables[table] = None
    return list(tables)


def _writers_are(graph: Graph, sink: Node, of_sub: Collection[str]) -> bool:
    topic = sink.written_topic
    return topic is not None and all(
        each.name in of_sub for each in graph.nodes.values() if each.written_topic == topic
    )
