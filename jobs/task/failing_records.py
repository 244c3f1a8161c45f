"""Records on which a step of the user's fails: found, named, and left out where the step says so (of a whole
application it is Kafka's ProcessingExceptionHandler, KIP-1033, with KIP-1034's dead letters).

Rule: such a step computes each record from that record alone, so a batch that fails is halved until the records that
fail are known; all others go on as if these had not been there. Where a batch is cut decides nothing.
"""

import numpy as np

from ...state.errors import BufferFull, NullKey, TaskFailed
from ...state.records.batches import Batch, Chunk
from ..operators.operator import Operator


def process_step(operator: Operator, batch: Batch, chunk: Chunk, *, to_dead_letters: bool) -> Batch:
    """What the step forwards. A record on which it fails is booked in ``chunk.failures`` and goes no further; if not
    ``to_dead_letters``, it ends the run with TaskFailed, which names the first one.
    """
    try:
        return operator.process(batch, chunk)
    except (BufferFull, NullKey):
        raise
    except TaskFailed as error:
        if not to_dead_letters:
            raise _named(operator, batch, chunk, error) from error.__cause__
    failed = np.zeros(len(batch), np.bool_)
    _find(operator, batch, chunk, np.arange(len(batch)), failed)
    return operator.process(batch.where(~failed), chunk)


def _find(operator: Operator, batch: Batch, chunk: Chunk, rows: np.ndarray, failed: np.ndarray) -> None:
    """Mark those of ``rows`` that fail."""
    error = _error_of(operator, batch, chunk, rows)
    if error is None:
        return
    if len(rows) > 1:
        for half in np.array_split(rows, 2):
            _find(operator, batch, chunk, half, failed)
        return
    failed[rows] = True
    cause = int(batch.cause[rows[0]])
    chunk.failures.setdefault(cause, (operator.context.node, f"step: {error.got}"))


def _named(operator: Operator, batch: Batch, chunk: Chunk, error: TaskFailed) -> TaskFailed:
    """The error of the first record that fails, with its place."""
    rows, first = np.arange(len(batch)), error
    while len(rows) > 1:
        left, right = np.array_split(rows, 2)
        found = _error_of(operator, batch, chunk, left)
        rows, first = (left, found) if found is not None else (right, first)
    last = _error_of(operator, batch, chunk, rows)
    if last is None:  # it fails with others beside it only, or not again
        return error
    cause = int(batch.cause[rows[0]])
    offset = int(chunk.offset[cause])
    where = (
        f"{chunk.topics[chunk.source[cause]]}-{chunk.partition}, offset {offset}" if offset >= 0 else "a recorded time"
    )
    cast = (
        "with TRY_CAST a value that cannot be cast is null; " if last.next_step.startswith("correct the step") else ""
    )
    next_step = f'{last.next_step}; {cast}on_error="dead_letter" keeps such records as dead letters'
    named = TaskFailed(last.place, last.expected, f"{last.got}, of the record {where}", next_step)
    named.cause_row, named.arrival = error.cause_row, error.arrival
    return named


def _error_of(operator: Operator, batch: Batch, chunk: Chunk, rows: np.ndarray) -> TaskFailed | None:
    try:
        operator.process(batch.take(rows), chunk)
    except TaskFailed as error:
        return error
    return None
