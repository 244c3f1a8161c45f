"""One chunk on its way through a task's nodes.

Rule: nodes run one after the other in the order of the graph, each over all rows that the ones before it forwarded. The
places of rows (jobs/operators/base/forward_order.py) keep the order in which Kafka would have run them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from ...state.errors import TaskFailed
from ...state.records.batches import Batch, Chunk
from ..graph.graph import Node
from ..graph.nodes import RepartitionNode, SinkNode
from ..operators.base.forward_order import merge_in_forward_order
from ..operators.base.operator import MultiOperator, Operator, TableView
from ..operators.dead_letters import ForwardDeadLetters
from .dataflow import Dataflow, Edge, StageInput
from .failing_records import process_step
from .output_tables import export_table, output_table, repartition_table, sent_records
from .pure_steps import difference


class Observer(Protocol):
    """Sees every node of a chunk right after it ran, a source with no inputs; it may look and change nothing."""

    def saw(self, node: Node, inputs: Sequence[Batch], forwarded: Batch, chunk: Chunk) -> None: ...


class ChunkRun:
    """What each node forwarded because of one chunk, and what leaves the task.

    ``partitions``: of repartition topics. ``observer``: who looks on, or None.
    """

    def __init__(
        self,
        dataflow: Dataflow,
        operators: Mapping[str, Operator],
        chunk: Chunk,
        partitions: Mapping[str, int],
        observer: Observer | None = None,
    ) -> None:
        self.dataflow, self.operators, self.chunk = dataflow, operators, chunk
        self.partitions, self.observer = partitions, observer
        self.impure: dict[str, str] | None = None
        """What differs between two answers of a step, by node; None: nobody looks (jobs/task/pure_steps.py)."""
        self.outputs: dict[str, pa.Table] = {}
        self._forwarded: dict[str, Batch] = {}
        self._sent: dict[str, Batch] = {}
        self._named: dict[str, Batch] = {}
        """What went to sinks whose records may name one topic."""
        self._tables: dict[str, pa.Table] = {}
        self._viewed: dict[tuple[str, str], Batch] = {}
        """What an earlier part handed on for views, by node and when."""
        nodes = dataflow.sub_topology.nodes
        self._letters_topic = dataflow.graph.dead_letter_topic if any(node.takes_letters for node in nodes) else None
        """The topic to which this task writes dead letters, which are no more applied for it."""
        self._left = Counter(self.dataflow.origin(edge) for edges in self.dataflow.children.values() for edge in edges)

    def run(self, batches: dict[str, Batch]) -> None:
        """``batches``: records by source."""
        for imported in self.dataflow.imports:
            if imported.when:
                self._viewed[imported.node, imported.when] = batches.pop(imported.name)
        for source, batch in batches.items():
            self._forward(source, batch)
            if self.observer is not None:
                self.observer.saw(self.dataflow.graph.nodes[self.dataflow.node_of(source)], (), batch, self.chunk)
        for node in self.dataflow.sub_topology.nodes:
            if node.is_source:
                continue
            inputs = self._inputs(node)
            self._come(node, sum(len(batch) for batch in inputs))
            batch = self._process(node, inputs)
            if isinstance(node, SinkNode):
                self._write(node, batch)
            else:
                self._forward(node.name, batch)
            if self.observer is not None:
                self.observer.saw(node, inputs, batch, self.chunk)

    def _come(self, node: Node, records: int) -> None:
        """Records came to ``node``. Only an operator can refuse any."""
        if records and node.name in self.operators:
            self.chunk.come(node.name, records)

    def _process(self, node: Node, inputs: Sequence[Batch]) -> Batch:
        operator = self.operators.get(node.name)
        if operator is None:
            return inputs[0]
        if isinstance(operator, ForwardDeadLetters):
            return operator.forward(self.chunk)
        for view in operator.context.views:
            self._feed(view)
        if isinstance(operator, MultiOperator):
            return operator.process_all(tuple(batch.coded_by(operator.context.keys) for batch in inputs), self.chunk)
        if node.is_step:
            if self.impure is not None and (impurity := difference(operator, node, inputs[0], self.chunk)) is not None:
                self.impure[node.name] = impurity
            to_dead_letters = node.name in self.dataflow.graph.dead_lettering
            return process_step(operator, inputs[0], self.chunk, to_dead_letters=to_dead_letters)
        if operator.is_repeatable and self.chunk.handling is not None:
            return process_step(operator, inputs[0], self.chunk, to_dead_letters=False)
        return operator.process(inputs[0], self.chunk)

    def _feed(self, view: TableView) -> None:
        view.feed({(name, when): self._seen(name, when) for name, when in view.wants})

    def _seen(self, name: str, when: str) -> Batch:
        if (name, when) in self._viewed:
            return self._viewed[name, when]
        operator = self.operators.get(name)
        if when == TableView.PUT and operator is not None and operator.puts is not None:
            return self.dataflow.put(operator.puts, name)
        if when == TableView.INPUT:
            (above,) = self.dataflow.graph.nodes[name].inputs
            edge = Edge(above, name, 0)
            return self.dataflow.entering(self._forwarded[self.dataflow.origin(edge)], edge)
        return self.dataflow.seen(self._forwarded[name], name, when)

    def _inputs(self, node: Node) -> list[Batch]:
        batches: list[Batch] = []
        for slot, name in enumerate(() if node.takes_letters else node.inputs):
            edge = Edge(name, node.name, slot)
            above = self.dataflow.origin(edge)
            batches.append(self._below(self._forwarded[above], edge))
            self._left[above] -= 1
            if not self._left[above] and not self.dataflow.readers.get(name):
                del self._forwarded[above]
        return batches

    def _below(self, batch: Batch, edge: Edge) -> Batch:
        """What ``edge`` leads down of the batch: a processor may send a record to one child alone."""
        below = self.dataflow.below(batch, edge)
        operator = self.operators.get(edge.parent)
        if operator is None or operator.addressed is None:
            return below
        names = operator.addressed
        return below.where((names == None) | (names == edge.child))  # noqa: E711 (of every row)

    def _forward(self, name: str, batch: Batch) -> None:
        edges = self.dataflow.edges_from(name)
        if not edges and not self.dataflow.readers.get(name):
            keeps = self.dataflow.graph.nodes[self.dataflow.node_of(name)].keeps_records
            (self.chunk.applied if keeps else self.chunk.left_out)[batch.cause] = True
        for edge in edges:
            child = self.dataflow.graph.nodes[edge.child]
            # It belongs to the sub-topology that reads it, so it never runs here and takes no batch by ``_inputs``.
            if isinstance(child, RepartitionNode):
                self._send(child, self._below(batch, edge))
                self._left[name] -= 1
        if self._left[name] or self.dataflow.readers.get(name) or any(e.node == name for e in self.dataflow.exports):
            self._forwarded[name] = batch
        for export in self.dataflow.exports:
            if export.node == name:
                self._export(export, batch)

    def _export(self, export: StageInput, batch: Batch) -> None:
        operator = self.operators.get(export.node)
        if operator is not None and operator.addressed is not None:
            got = (
                "a child, where some of its children run in a later part (below what comes back of a foreign-key join)"
            )
            raise TaskFailed(export.node, "records for all children", got, "leave child= out, and filter below")
        batch = self._seen(export.node, export.when) if export.when else self.dataflow.exported(batch, export)
        self._sent[export.name] = batch
        self._tables[export.name] = export_table(batch, self.chunk)
        self.chunk.applied[batch.cause] = True

    def _write(self, node: SinkNode, batch: Batch) -> None:
        if node.topic != self._letters_topic:
            self.chunk.applied[batch.cause] = True
        operator = self.operators.get(node.name)
        if node.name in self.dataflow.naming_sinks:
            self._named[node.topic] = batch
        self.outputs[node.topic] = output_table(batch, self.chunk, None if operator is None else operator.topics)

    def _send(self, node: RepartitionNode, batch: Batch) -> None:
        self.chunk.come(node.name, len(batch))
        kept = batch if node.keeps_null_keys else batch.where(batch.key >= 0)
        sent, target = sent_records(node, kept, self.chunk, self.partitions.get(node.topic, 1))
        if node.topic != self._letters_topic:
            # Kafka's filter of null keys counts no drop, so such a record is left out and not refused. Where a record
            # was sent as well, applied outweighs that.
            self.chunk.left_out[batch.cause] = self.chunk.applied[sent.cause] = True
        self._sent[node.topic] = sent
        self._tables[node.topic] = repartition_table(node, sent, self.chunk, target)

    def exchanged(self) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
        """Repartition tables by topic and exports by node, with the order in which their rows were sent."""
        exported = {export.name for export in self.dataflow.exports}
        repartitions: dict[str, pa.Table] = {}
        exports: dict[str, pa.Table] = {}
        for name, send in _turns(self._sent).items():
            table = self._tables[name].append_column("send", pa.array(send))
            (exports if name in exported else repartitions)[name] = table
        return repartitions, exports

    def output_turns(self) -> dict[str, np.ndarray]:
        """Of outputs whose records may name one topic, by name: which of all of their rows was written first."""
        return _turns(self._named)


def _turns(batches: Mapping[str, Batch]) -> dict[str, np.ndarray]:
    """Of every row of each batch, its place among the rows of all of them in the order in which they happened."""
    which, row = merge_in_forward_order([*batches.values()])
    turns: dict[str, np.ndarray] = {}
    for number, (name, batch) in enumerate(batches.items()):
        turns[name] = np.empty(len(batch), np.int64)
        is_of_batch = which == number
        turns[name][row[is_of_batch]] = np.flatnonzero(is_of_batch)
    return turns
