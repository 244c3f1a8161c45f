"""The exception handlers of a topology at work in one task (KIP-161, KIP-1033).

Owns the arguments of handlers. Rule: what a handler raises, and an answer that is none, ends the run, as in Kafka.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ...state.buffers import only_chunk
from ...state.errors import TaskFailed, said, shown
from ...state.records.batches import Batch, Letter
from ..functions.exception_handlers import (
    CONTINUE,
    DESERIALIZATION,
    ErrorHandlerContext,
    ExceptionHandlerResponse,
    Handler,
    writes_letters,
)
from ..functions.processor_api import Record
from ..graph.graph import Node
from ..tape.task_input import LANDED_TIME, TapeChunk
from .dead_letters import DeadLetters
from .decoding import headers_of
from .failure_places import FailurePlaces, Raw

RAW = "raw_key", "raw_value"
"""Columns of what an earlier part of the sub-topology hands over: the record as the task took it."""


def raw_record(input_: TapeChunk, cause: int) -> Raw:
    """The record at row ``cause`` of the chunk; nulls in one that has no records."""
    if not len(input_):
        return None, None
    number = int(input_.source[cause])
    # Rows of one source ascend on the tape, so the position among them is the row of the source's table.
    row = int(np.searchsorted(input_.rows(number), cause))
    table = input_.tables[number]
    columns = RAW if RAW[0] in table.column_names else ("key", "value")
    key, value = (only_chunk(table, name)[row].as_py() for name in columns)
    return _bytes(key), _bytes(value)


def with_raw(export: pa.Table, raw: Callable[[int], Raw]) -> pa.Table:
    """What a later part gets, and of each row the record of this part that caused it, as the task took it."""
    records = [raw(cause) for cause in export["cause"].to_pylist()]
    for name, column in zip(RAW, zip(*records, strict=True) if records else ((), ()), strict=True):
        export = export.append_column(name, pa.array(column, pa.binary()))
    return export


def _bytes(value: Any) -> bytes | None:
    """None of a row that no record caused, and of a part whose topology has nobody who asks for bytes."""
    return value if isinstance(value, bytes) else None


class ChunkHandling:
    """Of one chunk. ``letters``: what the handler writes of records without which it continues; None: nothing."""

    def __init__(self, handler: Handler, places: FailurePlaces, letters: DeadLetters | None) -> None:
        self.handler, self.places = handler, places
        self.letters = letters if writes_letters(handler) else None

    def processing_failed(self, node: str, batch: Batch, row: int, record: Any, error: TaskFailed) -> None:
        """Raises ``error`` when the handler says FAIL."""
        context = self.places.of_record(node, batch, row, record.headers)
        if not goes_on(self.handler, context, record, error):
            raise error
        if self.letters is not None:
            self.letters.add(context, batch, row, error)

    def punctuation_failed(self, node: str, cause: int, time_ms: int, error: TaskFailed) -> None:
        """Raises ``error`` when the handler says FAIL."""
        context = self.places.of_punctuation(node, time_ms)
        if not goes_on(self.handler, context, None, error):
            raise error
        if self.letters is not None:
            self.letters.add_punctuation(context, cause, error)


class TrialHandling:
    """Of a trial run: what fails may be a record that there is not in the end, so the application is not asked, and the
    run continues as after CONTINUE. There are no dead letters for the application's topic.
    """

    def __init__(self) -> None:
        self.has_failed = False

    def processing_failed(self, node: str, batch: Batch, row: int, record: Any, error: TaskFailed) -> None:
        self.has_failed = True

    def punctuation_failed(self, node: str, cause: int, time_ms: int, error: TaskFailed) -> None:
        self.has_failed = True

    def step_failed(self, node: str, batch: Batch, row: int, error: TaskFailed) -> None:
        self.has_failed = True

    def take(self, until: int | None = None) -> list[Letter]:
        return []


def goes_on(handler: Handler, context: ErrorHandlerContext, record: Record | None, error: TaskFailed) -> bool:
    """Whether the handler continues. Raises TaskFailed when it fails itself, or answers something else."""
    cause = error.__cause__
    place, next_step = context.processor_node_id, "correct the handler"
    try:
        response = handler(context, record, cause if isinstance(cause, Exception) else error)
    except Exception as fatal:
        got = f"{said(fatal)}, asked about {error.got}"
        failed = TaskFailed(place, "an exception handler that does not fail", got, next_step)
        failed.is_decided = True
        raise failed from fatal
    if not isinstance(response, ExceptionHandlerResponse):
        failed = TaskFailed(place, "CONTINUE or FAIL of the exception handler", shown(response), next_step)
        failed.is_decided = True
        raise failed
    error.is_decided = response is not CONTINUE
    return response is CONTINUE


def decoded_or_failed(
    handler: Handler | None,
    source: Node,
    task_id: str,
    partition: int,
    records: pa.Table,
    reasons: Mapping[int, str],
) -> dict[int, ErrorHandlerContext]:
    """Ask the handler about the rows of ``records``, all of ``source``, that cannot be read; gives their contexts, by
    row. Raises TaskFailed for the first on which it fails; without a handler none does.
    """
    headers, contexts = headers_of(records), dict[int, ErrorHandlerContext]()
    of_record = LANDED_TIME if LANDED_TIME in records.column_names else "timestamp"
    for row, reason in sorted(reasons.items()):
        row_headers = () if headers is None else headers[row].as_py() or ()
        key, value, time_ms, offset = (
            only_chunk(records, n)[row].as_py() for n in ("key", "value", of_record, "offset")
        )
        record = Record(key, value, time_ms, tuple((one["key"], one["value"]) for one in row_headers))
        topic = source.topic_of_records
        context = ErrorHandlerContext(
            topic, partition, offset, record.headers, source.name, task_id, time_ms, key, value
        )
        contexts[row] = context
        if handler is None:
            continue
        next_step = f"correct the serdes, or continue: {DESERIALIZATION}"
        got = f"{reason}, of the record {topic}-{partition}, offset {offset}"
        error = TaskFailed(source.name, "a record that its serdes can read", got, next_step)
        error.__cause__ = ValueError(reason)
        if not goes_on(handler, context, record, error):
            raise error
    return contexts
