"""One chunk on its way through a task's nodes, record by record, as Kafka Streams runs it.

Only for tasks in which a processor uses the store of another node: what it finds there depends on how far the others
have got with the same record. Rule: a record goes depth first through all nodes below a node before the node's next
record. Its puts are seen at once, by processors and by all views. Then the schedules that are due by its time are
called. The place of a row is the order in which it was made, so the task's output equals that of
jobs/task/chunk_run.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...state.errors import TaskFailed
from ...state.records.batches import Batch, Chunk
from ..graph.graph import Node
from ..operators.base.forward_order import MergedRows, joined_batch
from ..operators.base.operator import Links, Operator, SharingOperator, TableView
from ..operators.dead_letters import ForwardDeadLetters
from .chunk_run import ChunkRun
from .dataflow import Dataflow, Edge

BY_RECORD = 4_096
"""So many records are a chunk: each record is several batches of one row, which stay until the chunk is done."""

Look = tuple[str, str]
"""Node, and what of it a view sees (``TableView.wants``)."""


def batches_of_nobody(
    dataflow: Dataflow, operators: Mapping[str, Operator], nothing: Chunk, batches: dict[str, Batch]
) -> dict[str, Batch]:
    """What each node forwards of ``nothing``, a chunk without records: it has the form of all that it forwards."""
    forms = _Forms()
    run = _FormsRun(dataflow, operators, nothing, {}, forms)
    run.run(batches)
    run.feed_rest(forms.nobody)
    for operator in operators.values():
        for view in operator.context.views:
            view.settle()
    return forms.nobody


class _Forms:
    """Looks on."""

    def __init__(self) -> None:
        self.nobody: dict[str, Batch] = {}

    def saw(self, node: Node, inputs: Sequence[Batch], forwarded: Batch, chunk: Chunk) -> None:
        self.nobody[node.name] = forwarded


class _FormsRun(ChunkRun):
    """A run of no records. A processor may look into a table that was made after it: its view is fed at the end."""

    def __init__(self, *running: Any) -> None:
        super().__init__(*running)
        self._rest: list[TableView] = []

    def _feed(self, view: TableView) -> None:
        if all(_shown_by(self.dataflow, *look) in self._forwarded for look in view.wants):
            super()._feed(view)
        else:
            self._rest.append(view)

    def feed_rest(self, nobody: dict[str, Batch]) -> None:
        """Views of tables that were made later."""
        for view in self._rest:
            view.feed({(name, when): nobody[_shown_by(self.dataflow, name, when)] for name, when in view.wants})


def _shown_by(dataflow: Dataflow, name: str, when: str) -> str:
    """The node whose batch a view of ``name`` sees."""
    return dataflow.graph.nodes[name].inputs[0] if when == TableView.INPUT else name


class RecordRun(ChunkRun):
    """``nobody``: a batch of no records of every node."""

    def __init__(self, *running: Any, nobody: dict[str, Batch]) -> None:
        super().__init__(*running)
        self.nobody = nobody
        self._seen_by: dict[Look, list[tuple[TableView, dict[Look, Batch]]]] = {}
        for operator in self.operators.values():
            for view in operator.context.views:
                nothing = {look: self._seen(*look) for look in view.wants}
                for look in view.wants:
                    self._seen_by.setdefault(look, []).append((view, nothing))
        self._letters = next((one for one in self.operators.values() if isinstance(one, ForwardDeadLetters)), None)
        self._sharing = {name: one for name, one in self.operators.items() if isinstance(one, SharingOperator)}
        self._handed: dict[Edge, list[Batch]] = {}
        """What went down to sinks and repartition tables."""
        self._took: dict[str, list[tuple[list[Batch], Batch]]] = {}
        """What nodes took and forwarded, for who looks on."""
        self._rows = 0

    def run(self, batches: dict[str, Batch]) -> None:
        for name, operator in self._sharing.items():
            operator.links = Links(partial(self._pass_on, name), partial(self._show, when=TableView.PUT))
        try:
            self._run(batches)
        finally:
            for operator in self._sharing.values():
                operator.links = None

    def _run(self, batches: dict[str, Batch]) -> None:
        names = list(batches)
        source_of = np.full(len(self.chunk.offset), -1)
        row_of = np.zeros(len(self.chunk.offset), np.int64)
        for number, batch in enumerate(batches.values()):
            source_of[batch.cause], row_of[batch.cause] = number, np.arange(len(batch))
        for operator in self._sharing.values():
            for batch in batches.values():
                operator.expect(batch)
        try:
            for cause, (source, row) in enumerate(zip(source_of.tolist(), row_of.tolist(), strict=True)):
                if source >= 0:
                    self._pass_on(names[source], batches[names[source]].take(np.array([row])))
                self._punctuate(cause)
                if self._letters is not None:
                    self._post(cause)
                if self.chunk.failure is not None:
                    break  # a processor caught it
        except TaskFailed as error:
            if error is not self.chunk.failure:  # which the task raises when the chunk is done
                raise
        self._hand_on()
        if self.observer is not None:
            self._tell(batches)

    def _post(self, cause: int) -> None:
        """Dead letters of all up to ``cause``."""
        assert self._letters is not None
        letters = self._letters.forward(self.chunk, cause)
        if len(letters) and self.observer is not None:
            self._took.setdefault(self._letters.context.node, []).append(([], letters))
        self._pass_on(self._letters.context.node, letters)

    # --- one record ------------------------------------------------------------------------------------------

    def _pass_on(self, name: str, batch: Batch, child: str | None = None, *, is_put: bool = False) -> None:
        """Each record of ``batch`` through all below the node, or through ``child`` alone, before the next. ``is_put``:
        views saw what was put.
        """
        edges = [edge for edge in self.dataflow.edges_from(name) if child in (None, edge.child)]
        if self.observer is not None and name in self._sharing and len(batch):
            self._took.setdefault(name, []).append(([], batch))
        for row in range(len(batch)):
            one = batch.take(np.array([row])) if len(batch) > 1 else batch
            one = replace(one, path=(np.array([self._rows]),))
            self._rows += 1
            if not is_put:
                self._show(name, one, TableView.PUT)
            if not edges and not self.dataflow.readers.get(name):
                keeps = self.dataflow.graph.nodes[self.dataflow.node_of(name)].keeps_records
                (self.chunk.applied if keeps else self.chunk.left_out)[one.cause] = True
            for edge in edges:
                self._enter(edge, one)
            self._show(name, one, TableView.AFTER)

    def _enter(self, edge: Edge, one: Batch) -> None:
        child = self.dataflow.graph.nodes[edge.child]
        if child.is_source or child.written_topic is not None:
            self._handed.setdefault(edge, []).append(one)
            return
        self._show(child.name, one, TableView.INPUT)
        inputs = [self.nobody[above] for above in child.inputs]
        inputs[edge.slot] = one
        if self.observer is not None:
            self._took.setdefault(child.name, []).append((inputs, self.nobody[child.name]))
        forwarded = self._process(child, inputs)
        operator = self.operators.get(child.name)
        puts = None if operator is None else operator.puts
        if operator is not None:
            for view in operator.context.views:
                view.settle()
        if puts is not None:
            self._show(child.name, puts, TableView.PUT)
        if self.observer is not None:
            self._took.setdefault(child.name, []).append(([], forwarded))
        addressed = None if operator is None or child.name in self._sharing else operator.addressed
        if addressed is None:
            self._pass_on(child.name, forwarded, is_put=puts is not None)
        else:
            for row, name in enumerate(addressed):
                self._pass_on(child.name, forwarded.take(np.array([row])), name)
        if self.chunk.failure is not None:
            raise self.chunk.failure  # no record comes after the one that filled a buffer

    def _seen(self, name: str, when: str) -> Batch:
        """What a view is fed when its node runs: it has seen everything already."""
        return self.nobody[_shown_by(self.dataflow, name, when)]

    def show(self, name: str, batch: Batch) -> None:
        """Of the table of the node ``name``, what was put by nobody's record: to all who look into it."""
        self._show(name, batch, TableView.PUT)

    def _show(self, name: str, batch: Batch, when: str) -> None:
        for view, nothing in self._seen_by.get((name, when), ()):
            view.feed(nothing | {(name, when): batch})
            view.settle()

    def _punctuate(self, cause: int) -> None:
        """What is due by the stream time at that row; of two processors the one with the lower number first."""
        now_ms = int(self.chunk.stream_time_ms[cause])
        for operator in self._sharing.values():
            operator.reach(now_ms)
        self._call_due(cause, now_ms, self._sharing)
        if self.chunk.tick_ms is not None:
            tick_ms = self.chunk.tick_ms
            started = {name: operator for name, operator in self._sharing.items() if operator.tick(tick_ms)}
            self._call_due(cause, tick_ms, started, is_tick=True)

    def _call_due(
        self, cause: int, now_ms: int, sharing: Mapping[str, SharingOperator], *, is_tick: bool = False
    ) -> None:
        while due := self._due(now_ms, sharing, is_tick=is_tick):
            (_, name) = min(due)
            nobody = self.nobody[self.dataflow.graph.nodes[name].inputs[0]]
            sharing[name].punctuate(self.chunk, cause, nobody, is_tick=is_tick)

    def _due(
        self, now_ms: int, sharing: Mapping[str, SharingOperator], *, is_tick: bool
    ) -> list[tuple[tuple[int, str], str]]:
        times = {name: operator.next_due_ms(is_tick=is_tick) for name, operator in sharing.items()}
        return [((due, name[-7:]), name) for name, due in times.items() if due is not None and due <= now_ms]

    # --- all of them -----------------------------------------------------------------------------------------

    def _hand_on(self) -> None:
        """What goes to outputs and to other tasks."""
        for sink in self.dataflow.sub_topology.sinks:
            self._write(sink, self._process(sink, [self._all(Edge(sink.inputs[0], sink.name, 0))]))
        for node in self.dataflow.sub_topology.repartitions:
            for slot, above in enumerate(node.inputs):
                if above in self.nobody:
                    self._send(node, self._all(Edge(above, node.name, slot)))

    def _all(self, edge: Edge) -> Batch:
        return _joined(self._handed.get(edge, []), self.nobody[edge.parent])

    def _tell(self, batches: dict[str, Batch]) -> None:
        """Report to observers what every node took and forwarded."""
        assert self.observer is not None
        for source, batch in batches.items():
            self.observer.saw(self.dataflow.graph.nodes[self.dataflow.node_of(source)], (), batch, self.chunk)
        for node in self.dataflow.sub_topology.nodes:
            if node.written_topic is not None:
                written = self._all(Edge(node.inputs[0], node.name, 0))
                self.observer.saw(node, [written], written, self.chunk)
            elif not node.is_source:
                took = self._took.get(node.name, [])
                slots = [
                    _joined([inputs[slot] for inputs, _ in took if inputs and len(inputs[slot])], self.nobody[above])
                    for slot, above in enumerate(node.inputs)
                ]
                forwarded = [batch for _, batch in took if len(batch)]
                self.observer.saw(node, slots, _joined(forwarded, self.nobody[node.name]), self.chunk)


def _joined(pieces: Sequence[Batch], nobody: Batch) -> Batch:
    """Batches one after the other."""
    if not pieces:
        return nobody
    lengths = [len(piece) for piece in pieces]
    which = np.repeat(np.arange(len(pieces)), lengths)
    row = np.concatenate([np.arange(length) for length in lengths])
    return joined_batch(pieces, MergedRows(which, row))
