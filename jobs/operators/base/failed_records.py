"""Records on which a function of the user's failed at one node, and without which the application continues (KIP-1033,
ProcessorNode.process).

Rule: the handler is asked once for each, in the order in which they came. If it continues, nothing of the record goes
beyond the point at which it failed; what continued before that stays, and so do the changes of stores.
"""

import numpy as np

from ....state.errors import TaskFailed
from ....state.records.batches import Batch, Chunk, Drops
from ....state.records.drop_reasons import DropReason
from ...functions.processor_api import Record
from .operator import OperatorContext
from .single_records import records_in


class FailedRecords:
    """Of ``batch`` at the node of ``context``, and the punctuations among them, in order."""

    def __init__(self, context: OperatorContext, batch: Batch, chunk: Chunk) -> None:
        self.context, self.batch, self.chunk = context, batch, chunk
        self.rows: list[int] = []
        self._causes: list[int] = []
        self._are_records: list[bool] = []

    def add(self, row: int, error: TaskFailed) -> None:
        """``row`` of the batch failed. Raises ``error`` when there is no handler, or it says FAIL."""
        handling = self.chunk.handling
        if handling is None:
            raise error
        (record,) = records_of(self.context, self.batch.take(np.array([row])))
        handling.processing_failed(self.context.node, self.batch, row, record, error)
        self.rows.append(row)
        self._note(int(self.batch.cause[row]), is_record=True)

    def add_punctuation(self, cause: int, stream_time_ms: int, error: TaskFailed) -> None:
        """A punctuation failed, after the record ``cause`` of the chunk, which itself is not refused. Raises ``error``
        when there is no handler, or it says FAIL.
        """
        if self.chunk.handling is None:
            raise error
        self.chunk.handling.punctuation_failed(self.context.node, cause, stream_time_ms, error)
        self._note(cause, is_record=False)

    def _note(self, cause: int, *, is_record: bool) -> None:
        self._causes.append(cause)
        self._are_records.append(is_record)

    def book(self) -> None:
        """What was added is refused."""
        if not self._causes:
            return
        cause, is_record = np.array(self._causes, np.int32), np.array(self._are_records)
        self.chunk.refused[cause[is_record]] = True
        self.chunk.turn_away(self.context.node, int(is_record.sum()))
        drops = Drops(DropReason.PROCESSING_EXCEPTION, np.arange(len(cause), dtype=np.int32), is_record)
        self.chunk.drops.append((self.context.node, cause, drops))


def records_of(context: OperatorContext, batch: Batch) -> list[Record]:
    """Records as a processor sees them."""
    return records_in(context.shape, batch)
