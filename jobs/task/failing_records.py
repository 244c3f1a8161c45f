"""Records on which a step of the user's fails: found, named, and left out where the step or the application says so.

Rule: such a step computes each record from that record alone, so a batch that fails is halved until the records that
fail are known; all others continue as if these had not been there. Where a batch is cut decides nothing. What a step
handed over before it failed stays if the application continues (Kafka has forwarded it), and not beside a dead letter
of the step, which has the whole record.
"""

import numpy as np

from ...state.errors import BufferFull, NullKey, TaskFailed
from ...state.records.batches import Batch, Chunk
from ..operators.base.failed_records import FailedRecords
from ..operators.base.operator import Operator
from .pure_steps import place_in


def process_step(operator: Operator, batch: Batch, chunk: Chunk, *, to_dead_letters: bool) -> Batch:
    """What the step forwards. A record on which it fails goes no further: ``to_dead_letters`` it is booked in
    ``chunk.failures``, and nothing of it is forwarded. Else the application's exception handler is asked, and what the
    step had forwarded of it before stays. Without one, or if that says so, it ends the run with TaskFailed, which names
    the first such record.
    """
    # A run that a failure ends needs no copy, which a task that runs by record would make for each of them.
    before = (chunk.booked(), operator.metrics()) if to_dead_letters or chunk.handling is not None else None
    try:
        return operator.process(batch, chunk)
    except (BufferFull, NullKey):
        raise
    except TaskFailed as error:
        if error.is_decided:
            raise
        if before is None:
            raise _named(operator, batch, chunk, error) from error.__cause__
    # The attempt that failed may have refused or looked up other records first. It does so again below, in the run
    # without those that fail.
    booked, metrics = before
    chunk.take_back(booked)
    operator.count_from(metrics)
    errors: dict[int, TaskFailed] = {}
    _find(operator, batch, chunk, np.arange(len(batch)), errors)
    failing = np.zeros(len(batch), np.bool_)
    failing[list(errors)] = True
    if to_dead_letters:
        for row, failure in errors.items():
            # A record may fail in several branches. The table of dead letters has one row of it, of the step that comes
            # first in the graph.
            chunk.failures.setdefault(int(batch.cause[row]), (operator.context.node, f"step: {failure.got}"))
            if chunk.letters is not None:
                chunk.letters.step_failed(operator.context.node, batch, row, failure)
        return operator.process(batch.where(~failing), chunk)
    failed = FailedRecords(operator.context, batch, chunk)
    for row, failure in errors.items():
        failed.add(row, _of_record(operator, batch, chunk, row, failure))
    failed.book()
    return operator.process_up_to_failures(batch, failing, chunk)


def _find(operator: Operator, batch: Batch, chunk: Chunk, rows: np.ndarray, errors: dict[int, TaskFailed]) -> None:
    """Enter those of ``rows`` that fail, in order."""
    error = _error_of(operator, batch, chunk, rows)
    if error is None:
        return
    if len(rows) > 1:
        for half in np.array_split(rows, 2):
            _find(operator, batch, chunk, half, errors)
        return
    errors[int(rows[0])] = error


def _named(operator: Operator, batch: Batch, chunk: Chunk, error: TaskFailed) -> TaskFailed:
    """The error of the first record that fails, with its place."""
    rows = np.arange(len(batch))
    while len(rows) > 1:
        left, right = np.array_split(rows, 2)
        rows = left if _error_of(operator, batch, chunk, left) is not None else right
    last = _error_of(operator, batch, chunk, rows)
    if last is None:  # it fails with others beside it only, or not again
        return error
    return _of_record(operator, batch, chunk, int(rows[0]), last)


def _of_record(operator: Operator, batch: Batch, chunk: Chunk, row: int, error: TaskFailed) -> TaskFailed:
    """``error``, with the place of the record at ``row``."""
    cause = int(batch.cause[row])
    where = place_in(chunk, cause) if chunk.offset[cause] >= 0 else "a recorded time"
    cast = (
        "with TRY_CAST a value that cannot be cast is null; " if error.next_step.startswith("correct the step") else ""
    )
    next_step = f'{error.next_step}; {cast}on_error="dead_letter" keeps such records as dead letters'
    next_step = error.next_step if operator.is_repeatable else next_step
    named = TaskFailed(error.place, error.expected, f"{error.got}, of the record {where}", next_step)
    named.cause_row, named.arrival = error.cause_row, error.arrival
    named.__cause__ = error.__cause__
    return named


def _error_of(operator: Operator, batch: Batch, chunk: Chunk, rows: np.ndarray) -> TaskFailed | None:
    """What fails among ``rows``. Nothing is booked or counted for it, except what was looked up for a record that fails
    alone: no later run has that record.
    """
    booked, metrics, failed = chunk.booked(), operator.metrics(), None
    try:
        operator.process(batch.take(rows), chunk)
    except TaskFailed as error:
        failed = error
    finally:
        chunk.take_back(booked)
    if failed is None or len(rows) > 1:
        operator.count_from(metrics)
    return failed
