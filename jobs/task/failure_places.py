"""Where something failed: contexts for exception handlers and dead letters (Kafka's DefaultErrorHandlerContext)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...state.records.batches import NO_OFFSET, Batch, Chunk
from ..functions.exception_handlers import ErrorHandlerContext
from ..functions.processor_api import Headers

Raw = tuple[bytes | None, bytes | None]
"""Key and value of a record as the task took it."""


@dataclass(frozen=True)
class FailurePlaces:
    """Contexts of what fails in one chunk. ``raw``: of a row of the chunk; None where it has no records."""

    task_id: str
    chunk: Chunk
    raw: Callable[[int], Raw] | None

    def of_record(self, node: str, batch: Batch, row: int, headers: Headers) -> ErrorHandlerContext:
        """Of the ``row`` of the ``batch`` that came to ``node``."""
        (source,), (offset,) = batch.coordinates(self.chunk, np.array([row]))
        key, value = (None, None) if self.raw is None else self.raw(int(batch.cause[row]))
        return ErrorHandlerContext(
            topic=None if offset == NO_OFFSET else self.chunk.context_topics[source],
            partition=-1 if offset == NO_OFFSET else self.chunk.partition,
            offset=int(offset),
            headers=headers,
            processor_node_id=node,
            task_id=self.task_id,
            timestamp_ms=int(batch.time_ms[row]),
            source_raw_key=key,
            source_raw_value=value,
        )

    def of_punctuation(self, node: str, time_ms: int) -> ErrorHandlerContext:
        """Of a punctuation at that stream time, which has no record."""
        return ErrorHandlerContext(None, -1, NO_OFFSET, (), node, self.task_id, time_ms, None, None)
