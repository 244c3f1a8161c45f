"""One chunk on its way through a task's nodes, record by record, as Kafka Streams runs it.

Only for tasks in which a processor uses the store of another node: what it finds there depends on how far the others
have got with the same record. Rule: a record goes depth first through all nodes below a node before the node's next
record. Its puts are seen at once, by processors and by all views. Then the schedules that are due by its time are
called. What leaves the task has the turn in which it left, so the task's output equals that of jobs/task/chunk_run.py.

A record stays Python values while it passes processors and tables that they look into, which take it as it is
(``Operator.take_single``); for every other operator it is a batch of one row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...state.errors import TaskFailed
from ...state.records.batches import Batch, Chunk
from ..graph.graph import Node
from ..operators.base.operator import Links, Operator, SharingOperator, TableView
from ..operators.base.single_records import OfSource, RowsOfSource, Single, batch_of, one_after_the_other, singles
from ..operators.dead_letters import ForwardDeadLetters
from .chunk_run import ChunkRun
from .dataflow import Dataflow, Edge

BY_RECORD = 4_096
"""So many records are a chunk: what is made of each one may stay until the chunk is done."""

Look = tuple[str, str]
"""Node, and what of it a view sees (``TableView.wants``)."""
_Lookers = Sequence[tuple[TableView, dict[Look, Batch]]]
"""Views, each with what it is fed of a chunk without records."""
_INPUT = TableView.INPUT


def empty_batches_of(
    dataflow: Dataflow, operators: Mapping[str, Operator], nothing: Chunk, batches: dict[str, Batch]
) -> dict[str, Batch]:
    """An empty batch of every node, by name, with the columns and types of the batches that the node forwards.

    They come from a run of ``nothing``, a chunk without records.
    """
    forms = _Forms()
    run = _FormsRun(dataflow, operators, nothing, {}, forms)
    run.run(batches)
    run.feed_rest(forms.empty_batches)
    for operator in operators.values():
        for view in operator.context.views:
            view.settle()
    return forms.empty_batches


class _Forms:
    """Looks on."""

    def __init__(self) -> None:
        self.empty_batches: dict[str, Batch] = {}

    def saw(self, node: Node, inputs: Sequence[Batch], forwarded: Batch, chunk: Chunk) -> None:
        self.empty_batches[node.name] = forwarded


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

    def feed_rest(self, empty_batches: dict[str, Batch]) -> None:
        """Views of tables that were made later."""
        for view in self._rest:
            view.feed({(name, when): empty_batches[_shown_by(self.dataflow, name, when)] for name, when in view.wants})


def _shown_by(dataflow: Dataflow, name: str, when: str) -> str:
    """The node whose batch a view of ``name`` sees."""
    return dataflow.graph.nodes[name].inputs[0] if when == TableView.INPUT else name


class _Ahead:
    """What a step forwards of all records of the chunk. ``rows_of``: rows by cause."""

    def __init__(self, rows: RowsOfSource) -> None:
        self.rows = rows
        self.rows_of: dict[int, list[int]] = {}
        for row, cause in enumerate(rows.causes):
            self.rows_of.setdefault(cause, []).append(row)


@dataclass(frozen=True)
class _Step:
    """An edge to a node of this task: its operator, if it has one, and who looks into its input."""

    edge: Edge
    child: Node
    operator: Operator | None
    is_handed: bool
    """It leaves the task there."""
    takes_singles: bool
    ahead: _Ahead | None
    lookers: _Lookers


@dataclass(frozen=True)
class _Routes:
    """Where records of a node go: to those who look into its table, to its children, and to those who look later."""

    put: _Lookers
    steps: tuple[_Step, ...]
    after: _Lookers
    ends: bool
    """Nobody takes them."""


class RecordRun(ChunkRun):
    """``empty_batches``: a batch of no records of every node."""

    def __init__(self, *running: Any, empty_batches: dict[str, Batch]) -> None:
        super().__init__(*running)
        self.empty_batches = empty_batches
        self._seen_by: dict[Look, list[tuple[TableView, dict[Look, Batch]]]] = {}
        for operator in self.operators.values():
            for view in operator.context.views:
                nothing = {look: self._seen(*look) for look in view.wants}
                for look in view.wants:
                    self._seen_by.setdefault(look, []).append((view, nothing))
        self._letters = next((one for one in self.operators.values() if isinstance(one, ForwardDeadLetters)), None)
        self._sharing = {name: one for name, one in self.operators.items() if isinstance(one, SharingOperator)}
        self._routes: dict[str, _Routes] = {}
        self._ahead: dict[str, _Ahead] = {}
        """Of steps that ran ahead."""
        self._behind: list[Node] = []
        """Steps that run when all records are done, in order."""
        self._ran_behind: dict[str, Batch] = {}
        """What those forwarded."""
        self._handed: dict[Edge, list[tuple[int, Single]]] = {}
        """What went down to sinks and repartition tables, with its turn."""
        self._took: dict[str, list[tuple[list[Batch], Batch]]] = {}
        """What nodes took and forwarded, for who looks on."""
        self._turns = 0

    def run(self, batches: dict[str, Batch]) -> None:
        for name, operator in self._sharing.items():
            operator.link(self.chunk, Links(partial(self._pass_on, name), self.show))
        try:
            self._run(batches)
        finally:
            for operator in self._sharing.values():
                operator.link(self.chunk, None)

    def _run(self, batches: dict[str, Batch]) -> None:
        names = list(batches)
        source_of = np.full(len(self.chunk.offset), -1)
        row_of = np.zeros(len(self.chunk.offset), np.int64)
        for number, batch in enumerate(batches.values()):
            source_of[batch.cause], row_of[batch.cause] = number, np.arange(len(batch))
        for operator in self._sharing.values():
            for batch in batches.values():
                operator.expect(batch)
        graph = self.dataflow.graph
        rows = [RowsOfSource(batch, graph.nodes[self.dataflow.node_of(name)].shape) for name, batch in batches.items()]
        # Observers see a record at all nodes before the next, and a handler is asked in the order of records: with
        # either no step may run ahead of its turn, or behind.
        if self.observer is None and self.chunk.handling is None:
            self._run_ahead(batches)
            self._behind = self._steps_to_outputs()
        times = self.chunk.stream_time_ms.tolist()
        try:
            for cause, (source, row) in enumerate(zip(source_of.tolist(), row_of.tolist(), strict=True)):
                if source >= 0:
                    self._pass_on(names[source], OfSource(rows[source], row))
                self._punctuate(cause, times[cause])
                if self._letters is not None:
                    self._post(cause)
                if self.chunk.failure is not None:
                    break  # a processor caught it
        except TaskFailed as error:
            if error is not self.chunk.failure:  # which the task raises when the chunk is done
                self._run_behind()  # what fails there came before
                raise
        self.settle()
        self._run_behind()
        self._hand_on()
        if self.observer is not None:
            self._report(batches)

    def _post(self, cause: int) -> None:
        """Dead letters of all up to ``cause``."""
        assert self._letters is not None
        node, letters = self._letters.context.node, self._letters.forward(self.chunk, cause)
        if len(letters) and self.observer is not None:
            self._took.setdefault(node, []).append(([], letters))
        for letter in singles(letters):
            self._pass_on(node, letter)

    def settle(self) -> None:
        """What was put is in the stores."""
        for operator in self.operators.values():
            operator.settle_singles(self.chunk)

    def _run_ahead(self, batches: dict[str, Batch]) -> None:
        """Steps right below sources run over all records of the chunk at once: each computes a record from that record
        alone. Of one that fails nothing counts; it fails again when the record has its turn.
        """
        above = dict(batches)
        for node in self.dataflow.sub_topology.nodes:
            if not node.is_step or node.inputs[0] not in above or node.name in self.dataflow.graph.dead_lettering:
                continue
            booked = self.chunk.booked()
            try:
                forwarded = self._process(node, [above[node.inputs[0]]])
            except TaskFailed:
                self.chunk.take_back(booked)
                continue
            self._ahead[node.name] = _Ahead(RowsOfSource(forwarded, node.shape))
            # Below a step that makes several of one, rows could not be matched to them: ``rows_of`` has causes alone.
            if node.forwards_one or node.forwards_at_most_one:
                above[node.name] = forwarded

    def _steps_to_outputs(self) -> list[Node]:
        """Steps whose records nobody takes but such steps, outputs and other tasks, and at which nobody looks: they run
        over all that came at once.
        """
        graph, steps = self.dataflow.graph, dict[str, Node]()
        looked_at = {name for name, _ in self._seen_by} | self.dataflow.readers.keys() | graph.dead_lettering
        for node in reversed(self.dataflow.sub_topology.nodes):
            below = (graph.nodes[edge.child] for edge in self.dataflow.edges_from(node.name))
            is_free = node.is_step and node.name not in looked_at and node.name not in self._ahead
            if is_free and all(child.name in steps or _leaves(child) for child in below):
                steps[node.name] = node
        return [*steps.values()][::-1]

    def _run_behind(self) -> None:
        try:
            for node in self._behind:
                came = self._all(self._edge_to(node))
                self._come(node, len(came))
                forwarded = self._process(node, [came])
                self._ran_behind[node.name] = forwarded
                if not self.dataflow.edges_from(node.name):
                    self._end(node.name, forwarded.cause)
        except TaskFailed as error:
            self._ask_one_by_one()
            raise error

    def _ask_one_by_one(self) -> None:
        """Of several records on which steps behind fail, the first ends the run."""
        handed = {node.name: self._handed.get(self._edge_to(node), []) for node in self._behind}
        for _, name, one in sorted((turn, name, one) for name, every in handed.items() for turn, one in every):
            self._ask(name, one.batch())

    def _ask(self, name: str, batch: Batch) -> None:
        """A step, and those below it."""
        forwarded = self._process(self.dataflow.graph.nodes[name], [batch])
        for row in range(len(forwarded)):
            for edge in self.dataflow.edges_from(name):
                if self.dataflow.graph.nodes[edge.child] in self._behind:
                    self._ask(edge.child, forwarded.take(np.array([row])))

    def _edge_to(self, node: Node) -> Edge:
        return Edge(node.inputs[0], node.name, 0)

    # --- one record ------------------------------------------------------------------------------------------

    def _pass_on(self, name: str, one: Single, child: str | None = None, *, is_put: bool = False) -> None:
        """A record through all below the node that forwards it, or through ``child`` alone. ``is_put``: views saw what
        was put.
        """
        routes = self._routes.get(name) or self._routes_of(name)
        if self.observer is not None and name in self._sharing:
            self._took.setdefault(name, []).append(([], one.batch()))
        if routes.put and not is_put:
            self._show(routes.put, (name, TableView.PUT), one)
        if routes.ends:
            self._end(name, one.cause)
        for step in routes.steps:
            if child is None or child == step.edge.child:
                self._enter(step, one)
        if routes.after:
            self._show(routes.after, (name, TableView.AFTER), one)

    def _end(self, name: str, cause: Any) -> None:
        """Records with that cause, or those causes, end at the node."""
        keeps = self.dataflow.graph.nodes[self.dataflow.node_of(name)].keeps_records
        (self.chunk.applied if keeps else self.chunk.left_out)[cause] = True

    def _routes_of(self, name: str) -> _Routes:
        steps = []
        for edge in self.dataflow.edges_from(name):
            child = self.dataflow.graph.nodes[edge.child]
            operator = self.operators.get(child.name)
            leaves = _leaves(child) or child in self._behind
            takes = self.observer is None or child.name in self._sharing
            lookers = self._seen_by.get((child.name, _INPUT), [])
            steps.append(_Step(edge, child, operator, leaves, takes, self._ahead.get(child.name), lookers))
        put, after = (self._seen_by.get((name, when), []) for when in (TableView.PUT, TableView.AFTER))
        routes = _Routes(put, tuple(steps), after, not steps and not self.dataflow.readers.get(name))
        self._routes[name] = routes
        return routes

    def _enter(self, step: _Step, one: Single) -> None:
        if step.is_handed:
            self._handed.setdefault(step.edge, []).append((self._next_turn(), one))
            return
        self._come(step.child, 1)
        for view, _ in step.lookers:
            view.begin_input()
        if step.lookers:
            self._show(step.lookers, (step.child.name, _INPUT), one)
        forwarded: Sequence[Single] | None = None
        if step.ahead is not None:
            rows = step.ahead.rows
            forwarded = [OfSource(rows, row) for row in step.ahead.rows_of.get(one.cause, ())]
        elif step.operator is None and step.takes_singles:
            forwarded = (one,)
        elif step.operator is not None and step.takes_singles:
            if self.observer is not None:
                self._note(step, self._inputs_of(step, one))
            forwarded = step.operator.take_single(one, self.chunk)
        if forwarded is None:
            self._enter_batch(step, one)
        else:
            for made in forwarded:
                self._pass_on(step.child.name, made)
        for view, _ in step.lookers:
            view.end_input()
        if self.chunk.failure is not None:
            raise self.chunk.failure  # no record comes after the one that filled a buffer

    def _enter_batch(self, step: _Step, one: Single) -> None:
        """A record as a batch of one row."""
        child, operator, inputs = step.child, step.operator, self._inputs_of(step, one)
        if self.observer is not None:
            self._note(step, inputs)
        forwarded = self._process(child, inputs)
        puts = None if operator is None else operator.puts
        if operator is not None:
            for view in operator.context.views:
                view.settle()
        if puts is not None:
            for put in singles(puts):
                self.show(child.name, put)
        if self.observer is not None:
            self._took[child.name].append(([], forwarded))
        addressed = None if operator is None else operator.addressed
        for row, made in enumerate(singles(forwarded)):
            self._pass_on(child.name, made, None if addressed is None else addressed[row], is_put=puts is not None)

    def _inputs_of(self, step: _Step, one: Single) -> list[Batch]:
        inputs = [self.empty_batches[above] for above in step.child.inputs]
        inputs[step.edge.slot] = replace(one.batch(), path=(np.array([self._next_turn()]),))
        return inputs

    def _note(self, step: _Step, inputs: list[Batch]) -> None:
        """What a node takes, for who looks on."""
        self._took.setdefault(step.child.name, []).append((inputs, self.empty_batches[step.child.name]))

    def _next_turn(self) -> int:
        self._turns += 1
        return self._turns

    def _seen(self, name: str, when: str) -> Batch:
        """What a view is fed when its node runs: it has seen everything already."""
        return self.empty_batches[_shown_by(self.dataflow, name, when)]

    def show(self, name: str, one: Single) -> None:
        """A row that was put into the table of the node ``name``, and is not forwarded: to all who look into it."""
        look = name, TableView.PUT
        self._show(self._seen_by.get(look, ()), look, one)

    def _show(self, lookers: _Lookers, look: Look, one: Single) -> None:
        for view, nothing in lookers:
            if not view.take_single(one):
                view.feed(nothing | {look: one.batch()})
                view.settle()

    def _punctuate(self, cause: int, now_ms: int) -> None:
        """What is due by the stream time at that row."""
        is_due = False
        for operator in self._sharing.values():
            operator.reach(now_ms)
            due_ms = operator.next_due_ms(is_tick=False)
            is_due = is_due or (due_ms is not None and due_ms <= now_ms)
        if is_due:
            self._call_due(cause, now_ms, self._sharing)
        if self.chunk.tick_ms is not None:
            tick_ms = self.chunk.tick_ms
            started = {name: operator for name, operator in self._sharing.items() if operator.tick(tick_ms)}
            self._call_due(cause, tick_ms, started, is_tick=True)

    def _call_due(
        self, cause: int, now_ms: int, sharing: Mapping[str, SharingOperator], *, is_tick: bool = False
    ) -> None:
        # Asked after each call: what a schedule forwards may make another processor schedule something that is due.
        while due := self._due(now_ms, sharing, is_tick=is_tick):
            name = min(due, key=due.__getitem__)  # of several the first: processors are in the topology's order
            empty_batch = self.empty_batches[self.dataflow.graph.nodes[name].inputs[0]]
            sharing[name].punctuate(self.chunk, cause, empty_batch, is_tick=is_tick)

    def _due(self, now_ms: int, sharing: Mapping[str, SharingOperator], *, is_tick: bool) -> dict[str, int]:
        times = {name: operator.next_due_ms(is_tick=is_tick) for name, operator in sharing.items()}
        return {name: due for name, due in times.items() if due is not None and due <= now_ms}

    # --- all of them -----------------------------------------------------------------------------------------

    def _hand_on(self) -> None:
        """What goes to outputs and to other tasks."""
        for sink in self.dataflow.sub_topology.sinks:
            came = self._all(Edge(sink.inputs[0], sink.name, 0))
            self._come(sink, len(came))
            self._write(sink, self._process(sink, [came]))
        for node in self.dataflow.sub_topology.repartitions:
            for slot, above in enumerate(node.inputs):
                if above in self.empty_batches:
                    self._send(node, self._all(Edge(above, node.name, slot)))

    def _all(self, edge: Edge) -> Batch:
        if edge.parent in self._ran_behind:
            return self.dataflow.below(self._ran_behind[edge.parent], edge)
        handed = self._handed.get(edge)
        if not handed:
            return self.empty_batches[edge.parent]
        return replace(batch_of([one for _, one in handed]), path=(np.array([turn for turn, _ in handed]),))

    def _report(self, batches: dict[str, Batch]) -> None:
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
                    _joined(
                        [inputs[slot] for inputs, _ in took if inputs and len(inputs[slot])], self.empty_batches[above]
                    )
                    for slot, above in enumerate(node.inputs)
                ]
                forwarded = [batch for _, batch in took if len(batch)]
                self.observer.saw(node, slots, _joined(forwarded, self.empty_batches[node.name]), self.chunk)


def _leaves(node: Node) -> bool:
    """Whether what comes to the node leaves the task."""
    return node.is_source or node.written_topic is not None


def _joined(pieces: Sequence[Batch], empty_batch: Batch) -> Batch:
    """Batches one after the other."""
    return one_after_the_other(pieces) if pieces else empty_batch
