"""One operator in a test: changes in, what it forwards out, wherever the tape is cut."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.operators.base.operator import OperatorContext, StatefulOperator
from kstreams_replay.state.errors import BufferFull
from kstreams_replay.state.records.batches import Batch, Chunk, Values
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.tables.warehouse import HEADERS
from tests.operators.cut_tapes import Increments
from tests.operators.suppress.suppress_model import Emitted, ForwardedChange

TOPICS = ("in", "other")
STRING = Serde.string()


def place_of(window: str | None = None, **options: Any) -> OperatorContext:
    options = {"wants_old": True, "counts_bytes": True} | options
    return OperatorContext("node", Shape(STRING, STRING, window), Keys(STRING), **options)


def chunk_of(rows: list[ForwardedChange]) -> Chunk:
    n = len(rows)
    times = np.array([row.time for row in rows], np.int64)
    offsets = np.array([row.offset for row in rows], np.int64)
    source = np.array([TOPICS.index(row.topic or "in") for row in rows], np.int16)
    seen = np.maximum.accumulate(times) if n else times
    verdicts = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    return Chunk(TOPICS, 0, source, source, offsets.copy(), offsets, TOPICS, source, times, seen, seen, *verdicts)


def batch_of(rows: list[ForwardedChange], keys: Keys) -> Batch:
    windows = np.array([row.window or (0, 0) for row in rows], np.int64).reshape(-1, 2)
    is_windowed = any(row.window for row in rows)
    new, old = (pa.array([getattr(row, name) for row in rows], pa.string()) for name in ("new", "old"))
    headers = [[{"key": key, "value": value} for key, value in row.headers] or None for row in rows]
    return Batch(
        cause=np.arange(len(rows), dtype=np.int32),
        key=keys.intern(STRING.encode(pa.array([row.key for row in rows], pa.string()))),
        keys=keys,
        time_ms=np.array([row.time for row in rows], np.int64),
        valid=np.array([row.new is not None for row in rows], np.bool_),
        value=Values(new),
        window_start_ms=windows[:, 0].copy() if is_windowed else None,
        window_end_ms=windows[:, 1].copy() if is_windowed else None,
        old=Values(old),
        old_valid=np.array([row.old is not None for row in rows], np.bool_),
        headers=pa.array(headers, HEADERS) if any(row.headers for row in rows) else None,
    )


def emitted_of(out: Batch, chunk: Chunk, first: int) -> list[Emitted]:
    """What was forwarded, as the models say it; ``first``: number of the chunk's first change."""
    source, offset = out.coordinates(chunk)
    headers = out.headers.to_pylist() if out.headers is not None else [None] * len(out)
    stream_time_ms = chunk.stream_time_ms[out.cause] if out.stream_time_ms is None else out.stream_time_ms
    found = []
    for row in range(len(out)):
        window = None
        if out.window_start_ms is not None and out.window_end_ms is not None:
            window = int(out.window_start_ms[row]), int(out.window_end_ms[row])
        change = ForwardedChange(
            key=out.keys.typed(out.key[row : row + 1])[0].as_py(),
            window=window,
            time=int(out.time_ms[row]),
            new=out.value.all()[row].as_py(),
            old=None if out.old is None else out.old.all()[row].as_py(),
            headers=tuple((h["key"], h["value"]) for h in headers[row] or ()),
            topic=(*TOPICS, "")[source[row]],
            offset=int(offset[row]),
        )
        assert bool(out.valid[row]) == (change.new is not None)
        found.append(Emitted(first + int(out.cause[row]), change, int(stream_time_ms[row])))
    return found


def run_chunks(
    operator: StatefulOperator, tape: list[ForwardedChange], cuts: list[int], causes: list[int] | None = None
) -> list[Emitted]:
    """The tape in chunks. Raises BufferFull as a task does; what left before is its ``emitted``. ``causes``: which
    record caused each change; default: each its own.
    """
    found: list[Emitted] = []
    for begin, end in zip([0, *cuts], [*cuts, len(tape)], strict=True):
        chunk = chunk_of(tape[begin:end])
        batch = batch_of(tape[begin:end], operator.context.keys)
        if causes is not None:
            batch = replace(batch, cause=np.array(causes[begin:end], np.int32))
        found += emitted_of(operator.process(batch, chunk), chunk, begin)
        if chunk.failure is not None:
            assert isinstance(chunk.failure, BufferFull)
            chunk.failure.emitted = found  # type: ignore[attr-defined]
            chunk.failure.step = begin + chunk.failure.cause_row  # type: ignore[attr-defined]
            raise chunk.failure
    return found


def run_increments(new: Any, tape: list[ForwardedChange], cuts: list[int]) -> tuple[list[Emitted], StatefulOperator]:
    """Each part of the tape as an increment; and an operator that was resumed after the last."""
    increments, found = Increments(new), list[Emitted]()
    for operator, begin, end in increments.chunks(len(tape), cuts=cuts):
        chunk = chunk_of(tape[begin:end])
        found += emitted_of(operator.process(batch_of(tape[begin:end], operator.context.keys), chunk), chunk, begin)
    increments.begin()
    return found, increments.running


def rows_of(operator: StatefulOperator) -> list[str]:
    return sorted(map(repr, operator.rows().to_pylist()))
