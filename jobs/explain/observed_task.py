"""Runs a task again and watches what becomes of one landed record.

Owns the watching. Rule: chunks may be cut anywhere without a difference in the results. So every row of the tape that
the record caused (its position says so, jobs/tape/task_tape.py) is a chunk of its own here. All that a node gets,
forwards and changes in its store meanwhile is caused by it alone. Nothing of the pipeline is written.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.buffers import only_chunk
from ...state.distinct_numbers import distinct
from ...state.records.batches import Batch, Chunk
from ...state.tables.names import TableName
from ..execution.run_observer import RunObserver
from ..execution.sinks import MemorySink
from ..execution.task_description import TaskDescription, TaskReport
from ..execution.task_run import TaskRun
from ..graph.graph import Node
from ..graph.nodes import RepartitionNode, SinkNode
from ..graph.observations import Wait
from ..operators.base.operator import StatefulOperator
from ..tape.task_input import LANDED_TIME, TapeChunk
from ..tape.task_tape import CausalColumns
from ..task.dataflow import dataflows
from ..task.task import Result, Task
from ..topology.topology import Topology
from .observations import ROW_OF_A_PROCESSOR, NodeObservation, ReleasedRow, Rows, Sent, Taken, is_in, rows_of, shown_by

Find = Callable[[Task, TapeChunk, CausalColumns], np.ndarray]
"""Which rows of a chunk go back to the record (bool)."""


class ObservedTask(RunObserver):
    """A task that runs again, and what the record did in it. What waits in a node after a row of the record, and leaves
    because of a later row of the same task and increment, is among ``left``. ``stops``: the run ends with the chunk in
    which the record is, so nothing is known of what comes later.
    """

    looks_into_stores = needs_places = True

    def __init__(self, topology: Topology, description: TaskDescription, find: Find, *, stops: bool = False) -> None:
        self.topology, self.description = topology, description
        self.sub = topology.sub_topology(description.sub_topology)
        self._find, self._stops = find, stops
        self._sink = _SinkOfTheRecord(topology, self)
        self.task: Task | None = None

    def run(self) -> TaskReport:
        """Run the task; nothing of the pipeline is written."""
        return TaskRun(self.topology, self.description, None, self._sink, self).run()

    def begins(self, task: Task, next_offsets: Mapping[str, int]) -> None:
        """As RunObserver."""
        # In a trial in which something failed, the task begins from the start again (TaskRun): what was seen before
        # counts no more.
        self.task, self.next_offsets = None, next_offsets
        self.taken: list[Taken] = []
        self.left: list[ReleasedRow] = []
        self.is_record = False
        """The part at hand is a row of the record."""
        self._before: dict[str, tuple[pa.Table, Rows]] = {}
        self._observations: list[NodeObservation] | None = None
        self._watched: dict[str, list[Wait]] = {}
        self._leaving: list[tuple[int, ReleasedRow]] = []
        self._sink.written.clear()

    @property
    def written(self) -> dict[str, list[pa.Table]]:
        """By table: rows that the record caused, and those that it waited for; as they would be stored."""
        return self._sink.written

    def left_for(self, table: str) -> list[int]:
        """Offsets in an output of what waited for the part at hand."""
        rows = [row for _, left in self._leaving for row in left.written]
        return [offset for topic, offset in rows if TableName.output(topic) == table]

    @property
    def is_alone(self) -> bool:
        """Whether its sub-topology takes nothing from other parts of itself."""
        return not dataflows(self.topology)[self.sub.id].imports

    def parts(self, task: Task, chunk: TapeChunk, places: CausalColumns) -> Iterator[tuple[TapeChunk, CausalColumns]]:
        """Each row of the record by itself, and what lies between them."""
        self.task = task
        mask = self._find(task, chunk, places)
        self.is_over = self._stops and bool(mask.any())
        last = int(np.flatnonzero(mask)[-1]) if mask.any() else len(mask)
        for begin, end, self.is_record in _runs(mask):
            if self._stops and begin > last:
                return
            # An observer makes every node report each batch. Elsewhere nobody asks, and the task runs as fast as in a
            # replay.
            task.observer = self if self.is_record or any(self._watched.values()) else None
            if self.is_record:
                self._before = {name: (each.contents(), shown_by(each)) for name, each in task.stores.items()}
                self._observations = []
            yield _cut(chunk, places, begin, end)

    def wrote(self, part: TapeChunk) -> None:
        """As RunObserver."""
        if self.is_record:
            self.taken[-1].next_offsets, self.is_record = dict(self.next_offsets), False
        else:
            self._leaving.clear()

    # --- rows of the record ----------------------------------------------------------------------------------

    def took(self, task: Task, part: TapeChunk, result: Result) -> None:
        """As RunObserver."""
        observations, self._observations = self._observations, None
        if observations is None:
            return
        for store, operator in task.stores.items():
            self._compare(observations, store, *self._before[store], operator)
        dropped = result.dropped.to_pylist()
        for observation in observations:
            observation.refusals = [row for row in dropped if row["node"] == observation.node.name]
        source = task.sources[int(part.source[0])]
        self.taken.append(
            Taken(
                self.description.id,
                (source.topic_of_records, self.description.partition, int(part.spread("offset", -1)[0])),
                task.stream_time_ms,
                observations,
                result.dead_letters.to_pylist(),
                [row for row in dropped if row["node"] not in {observation.node.name for observation in observations}],
                self._sent(result),
                _landed_ms(part),
            )
        )
        for observation in observations:
            self._watched[observation.node.name] = [
                *self._watched.get(observation.node.name, ()),
                *(
                    wait
                    for wait in observation.node.waits(observation)
                    if wait not in self._watched.get(observation.node.name, ())
                ),
            ]

    def _compare(
        self, observations: list[NodeObservation], store: str, before: pa.Table, shown: Rows, operator: StatefulOperator
    ) -> None:
        """Explain a store for the node that keeps it and for those that read it. ``shown``: of a processor's stores."""
        owner, after = self.sub.stores[store], operator.contents()
        if owner.inner_stores:
            self._compare_shared(observations, owner, shown, shown_by(operator))
        for observation in observations:
            if observation.node is owner and not owner.inner_stores:
                observation.compare(before, after, operator.row_key)
            if observation.node is owner:
                observation.counters = operator.counters()
            elif owner.name in observation.node.reads:
                observation.looked[store] = observation.mine(after, owner)

    def _compare_shared(self, observations: list[NodeObservation], owner: Node, before: Rows, after: Rows) -> None:
        """Explain a processor's stores where it took the record, else at the first that shares them."""
        mine = [one for one in observations if one.node is owner]
        sharing = [one for one in observations if owner.name in one.node.shares]
        for observation in (mine or sharing)[:1]:
            observation.compare_rows(before, after, ROW_OF_A_PROCESSOR)

    def _sent(self, result: Result) -> list[Sent]:
        """What continued to other tasks. Rows that only a later part of the same sub-topology gets have no
        partition.
        """
        sent = [Sent(name, None, None) for name, rows in result.exports.items() if len(rows)]
        nodes = {node.topic: node for node in self.sub.repartitions}
        for topic, rows in result.repartitions.items():
            keys = _keys(nodes[topic], rows)
            sent += [Sent(topic, target, key) for target, key in zip(rows["target"].to_pylist(), keys, strict=True)]
        return sent

    # --- every row -------------------------------------------------------------------------------------------

    def saw(self, node: Node, inputs: Sequence[Batch], forwarded: Batch, chunk: Chunk) -> None:
        """As jobs/task/chunk_run.py has it."""
        if self._observations is None:
            if self._watched:
                self._look_out(node, forwarded, chunk)
            return
        received = [rows_of(batch, chunk) for batch in inputs]
        if not any(received) and len(forwarded) == 0:
            return
        observation = NodeObservation(received, rows_of(forwarded, chunk), node=node)
        observation.key_bytes = [
            key for batch in (*inputs, forwarded) for key in batch.keys.take(batch.key).to_pylist()
        ]
        if node.identity is not None:
            observation.ids = node.identity.evaluate(inputs[0]).to_pylist()
        if isinstance(node, SinkNode):
            observation.first_offset = self.next_offsets.get(TableName.output(node.topic), 0)
        self._observations.append(observation)

    def still(self) -> list[Wait]:
        """What of the record waits at the end of the task."""
        if self.task is None:
            return []
        waits = []
        for store, node in self.sub.stores.items():
            if self._watched.get(node.name):
                held = self.task.stores[store].contents()
                waits += [wait for wait in self._watched[node.name] if is_in(wait, held, node)]
        return waits

    def _below(self, name: str) -> set[str]:
        """Nodes below ``name``."""
        children = [node.name for node in self.topology.graph.children(name)]
        return {*children}.union(*map(self._below, children))

    def _look_out(self, node: Node, forwarded: Batch, chunk: Chunk) -> None:
        """Whether something that waits has left now, and which outputs it reaches."""
        if isinstance(node, SinkNode):
            first = self.next_offsets.get(TableName.output(node.topic), 0)
            for cause, left in [pair for pair in self._leaving if node.name in self._below(pair[1].wait.node)]:
                matching = np.flatnonzero((forwarded.cause == cause) & left.wait.matches(forwarded, None))
                left.written.extend((node.topic, first + int(row)) for row in matching[:1])
            return
        for wait in list(self._watched.get(node.name, ())):
            matching = np.flatnonzero(wait.matches(forwarded, chunk))
            if len(matching):
                batch = forwarded.take(matching[:1])
                cause = int(batch.cause[0])
                because_of = chunk.topics[chunk.origin[cause]], chunk.partition, int(chunk.offset[cause])
                times = chunk.stream_time_ms[batch.cause] if batch.stream_time_ms is None else batch.stream_time_ms
                left = ReleasedRow(wait, rows_of(batch, chunk)[0], because_of, int(times[0]), [])
                self.left.append(left)
                self._leaving.append((cause, left))
                self._watched[node.name].remove(wait)


class _SinkOfTheRecord(MemorySink):
    """Keeps what goes back to the record."""

    def __init__(self, topology: Topology, observed: ObservedTask) -> None:
        super().__init__(topology)
        self._observed = observed

    def write(self, table: str, rows: pa.Table) -> None:
        """As Sink."""
        if not self._observed.is_record:
            left = self._observed.left_for(table)
            if not left:
                return
            rows = rows.filter(pc.is_in(rows["offset"], value_set=pa.array(left, pa.int64())))
        super().write(table, rows)


def _landed_ms(part: TapeChunk) -> int | None:
    """Of the one row, where its topic has an extractor."""
    times = [table[LANDED_TIME][0].as_py() for table in part.tables if LANDED_TIME in table.column_names and len(table)]
    return next(iter(times), None)


def _keys(node: RepartitionNode, rows: pa.Table) -> list[Any]:
    keys: list[Any] = node.shape.key.to_python(node.shape.key.decode(only_chunk(rows, "key")).values)
    return keys


def _runs(mask: np.ndarray) -> Iterator[tuple[int, int, bool]]:
    """(begin, end, whether set): stretches of rows that are not set, and every row that is."""
    set_rows = np.flatnonzero(mask)
    edges = distinct(np.concatenate([[0, len(mask)], set_rows, set_rows + 1]))
    for begin, end in pairwise(edges.tolist()):
        yield begin, end, bool(mask[begin])


def _cut(chunk: TapeChunk, places: CausalColumns, begin: int, end: int) -> tuple[TapeChunk, CausalColumns]:
    """Rows ``[begin, end)`` of a chunk."""
    if (begin, end) == (0, len(chunk)):
        return chunk, places
    tables = []
    for number, table in enumerate(chunk.tables):
        first, after = np.searchsorted(chunk.rows(number), [begin, end])
        tables.append(table.slice(first, after - first).combine_chunks())
    columns = {name: column[begin:end] for name, column in places.columns.items()}
    return TapeChunk(chunk.source[begin:end], tuple(tables)), CausalColumns(columns)
