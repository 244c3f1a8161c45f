"""Records to topics that they themselves name (KStreamImpl.to with a TopicNameExtractor, SinkNode).

Rule: a name that is no topic's, that the pattern does not allow, or that is the topology's own, ends the run, or the
application's handler decides about the record.
"""

import numpy as np

from ...state.errors import TaskFailed
from ...state.records.batches import Batch, Chunk
from .base.failed_records import FailedRecords
from .base.operator import Operator, OperatorContext
from .base.record_contexts import names_of_topics
from .dynamic_topics_node import DynamicSinkNode


class DynamicTopics(Operator):
    """What the sink ``node`` writes."""

    def __init__(self, context: OperatorContext, node: DynamicSinkNode) -> None:
        super().__init__(context)
        self.node = node

    def process(self, batch: Batch, chunk: Chunk) -> Batch:
        names, failed = names_of_topics(self.node.extractor, batch, chunk), FailedRecords(self.context, batch, chunk)
        for row, name in enumerate(names):
            if (error := self._misnamed(name)) is not None:
                failed.add(row, error)
        failed.book()
        kept = np.delete(np.arange(len(batch)), failed.rows)
        self.topics = [names[row] for row in kept]
        return batch.take(kept) if failed.rows else batch

    def _misnamed(self, name: str | None) -> TaskFailed | None:
        node = self.node
        if not node.is_name(name):
            expected, next_step = "the name of a topic (ASCII letters, digits, dots, underscores and hyphens)", ""
            if node.regex is not None:
                expected, next_step = f"the name of a topic that {node.regex!r} matches", ", or the pattern in topics="
            return TaskFailed(node.name, expected, repr(name), f"correct the extractor{next_step}")
        if name is not None and node.is_own(name):
            got, next_step = f"{name!r}, which it reads or writes by its name", "name the outputs: to(step, topics=[…])"
            return TaskFailed(node.name, "a topic that is not the topology's own", got, next_step)
        return None
