"""Stream time moves on in a task without a record (recorded time): what that does to its nodes.

Rule: it is a chunk of its own. Nodes run in the order of the graph; each takes the rows that the nodes above forwarded
because of it, and then its own stream time is advanced. Rows that are due then go through all nodes below before the
next node's time is advanced. So a row's place begins with the number of the advanced node. A node receives the time
that has been recorded above it, but no more than every source above it has reached. A node that buffers records
propagates less (``Operator.propagated_time_ms``), so that the rows that it forwards later are not late below.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...state.records.batches import NO_OFFSET, Batch, Chunk, Values
from ...state.records.keys import NULL_CODE
from ...state.times import NO_TIMESTAMP_MS
from ..graph.graph import Node
from ..operators.base.forward_order import joined_batch, merge_in_forward_order
from ..operators.base.operator import Operator, OperatorContext
from ..tape.stream_time import SourceProgress, StreamTimeAdvance, combine
from .chunk_run import ChunkRun


class StreamTimeRun(ChunkRun):
    """One advance of stream time on its way through a task's nodes. ``sources``: by name."""

    def __init__(self, *running: Any, sources: Mapping[str, SourceProgress]) -> None:
        super().__init__(*running)
        self.reached: dict[str, SourceProgress] = dict(sources)
        self.advanced: dict[str, int] = {}
        """Nodes whose stream time was moved on, each with that time."""

    def _process(self, node: Node, inputs: Sequence[Batch]) -> Batch:
        forwarded, operator = super()._process(node, inputs), self.operators.get(node.name)
        reached = self._above(node)
        if operator is not None:
            if reached.recorded_ms >= 0:
                forwarded = self._advance(node, operator, reached.recorded_ms, forwarded)
            reached = SourceProgress(
                *(max(operator.propagated_time_ms(time_ms), NO_TIMESTAMP_MS) for time_ms in reached)
            )
        self.reached[node.name] = reached
        return forwarded

    def _above(self, node: Node) -> SourceProgress:
        """Of what the node takes records from and looks into; who is not of this task holds nobody back."""
        above = [*node.inputs, *node.reads]
        return combine(self.reached[name] for name in dict.fromkeys(above) if name in self.reached)

    def _advance(self, node: Node, operator: Operator, time_ms: int, forwarded: Batch) -> Batch:
        self.advanced[node.name] = time_ms
        due = operator.advance(_advance_row(operator.context, time_ms, self._number(node)), self.chunk)
        if due is None or not len(due):
            return forwarded
        return joined_batch([forwarded, due], merge_in_forward_order([forwarded, due])) if len(forwarded) else due

    def _number(self, node: Node) -> int:
        return self.dataflow.sub_topology.nodes.index(node)

    @property
    def signals(self) -> dict[str, int]:
        """The time to forward, by repartition topic that the task writes and by export."""
        written = self.dataflow.sub_topology.repartitions
        above = {node.topic: self.reached[name] for node in written for name in node.inputs if name in self.reached}
        above |= {export.name: self.reached[export.node] for export in self.dataflow.exports if not export.when}
        return {name: reached.recorded_ms for name, reached in above.items() if reached.recorded_ms >= 0}


def _advance_row(context: OperatorContext, time_ms: int, number: int) -> Batch:
    """The one row by which an operator's stream time is advanced, and in front of which place it forwards."""
    value = pa.nulls(1, context.shape.value.arrow_type)
    bounds = None if context.shape.window is None else np.full(1, NO_TIMESTAMP_MS, np.int64)
    return Batch(
        cause=np.zeros(1, np.int32),
        key=np.full(1, NULL_CODE, np.int32),
        keys=context.keys,
        time_ms=np.full(1, time_ms, np.int64),
        valid=np.zeros(1, np.bool_),
        value=Values(value),
        window_start_ms=bounds,
        window_end_ms=bounds,
        path=(np.full(1, number, np.int64),),
    )


def advance_chunk(topics: tuple[str, ...], partition: int, step: StreamTimeAdvance, stream_time_ms: int) -> Chunk:
    """A chunk whose one row is no record: it has no offset, and the topic that it is from."""
    source, no_offset = np.full(1, step.source, np.int16), np.full(1, NO_OFFSET, np.int64)
    return Chunk(
        topics,
        partition,
        source,
        source,
        no_offset,
        no_offset,
        topics,
        source,
        np.full(1, step.sources[step.source].recorded_ms, np.int64),
        np.full(1, stream_time_ms, np.int64),
        np.full(1, step.tape_time_ms, np.int64),
        *(np.zeros(1, np.bool_), np.zeros(1, np.bool_)),
        is_record=np.zeros(1, np.bool_),
        tick_ms=step.tick_ms,
    )
