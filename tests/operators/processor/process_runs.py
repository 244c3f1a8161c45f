"""Processors on their own: a tape of records in, what is forwarded out, and increments in between."""

from collections.abc import Callable

import numpy as np

from kstreams_replay.jobs.functions.expressions import Shape
from kstreams_replay.jobs.functions.processor_api import Processor, PunctuationType, Record
from kstreams_replay.jobs.operators.base.operator import OperatorContext
from kstreams_replay.jobs.operators.processor.process import Process
from kstreams_replay.jobs.operators.processor.process_node import ProcessNode
from kstreams_replay.state.records.batches import Batch
from kstreams_replay.state.records.keys import Keys
from kstreams_replay.state.serdes import Serde
from tests.operators.cut_tapes import Increments, chunk_of
from tests.operators.joins.foreign_key_parts import batch_of, rows_of

STRING, LONG = Serde.string(), Serde.long()
STREAM_TIME = PunctuationType.STREAM_TIME
SHAPE = Shape(STRING, STRING)


class ProcessorRun:
    """One processor over a tape of (key, value, time)."""

    def __init__(self, supplier: Callable[[], Processor], stores=(), *, value=STRING) -> None:
        self.value, self.taken, self.stream_time_ms = value, 0, -1
        self.node = ProcessNode(
            name="KSTREAM-PROCESSOR-0000000001",
            inputs=("in",),
            shape=Shape(STRING, value),
            supplier=supplier,
            store="stores",
            stores=tuple(stores),
        )
        self.increments = Increments(lambda: Process(OperatorContext(self.node.name, SHAPE, Keys(STRING)), self.node))
        self.operator.begin()

    @property
    def operator(self) -> Process:
        return self.increments.running

    @property
    def keys(self) -> Keys:
        return self.operator.context.keys

    def process(self, tape: list[tuple[str | None, str | None, int]], *, reaches=lambda key: True) -> list[tuple]:
        """(number of the record, key, value, time) of what is forwarded. ``reaches``: which records get to the node."""
        return [
            (self.taken - len(tape) + one["cause"], *show(one))
            for one in rows_of(self.batch(tape, reaches), self.value)
        ]

    def batch(self, tape: list[tuple[str | None, str | None, int]], reaches=lambda key: True) -> Batch:
        chunk = chunk_of(len(tape))
        times = np.array([time for _, _, time in tape], np.int64)
        chunk.time_ms = times
        chunk.offset = chunk.context_offset = np.arange(self.taken, self.taken + len(tape))
        chunk.stream_time_ms = np.maximum.accumulate(np.maximum(times, self.stream_time_ms))
        rows = [
            {"cause": cause, "key": key, "value": value, "time": time}
            for cause, (key, value, time) in enumerate(tape)
            if reaches(key)
        ]
        forwarded = self.operator.process(batch_of(self.keys, rows), chunk)
        self.stream_time_ms = max(self.stream_time_ms, *times.tolist(), -1)
        self.taken += len(tape)
        return forwarded

    def begin(self) -> None:
        """Another increment."""
        self.increments.begin()
        self.operator.begin()


def show(row: dict) -> tuple:
    return row["key"], row["value"], row["time"]


def each(function: Callable[[Processor, Record], None]) -> Callable[[], Processor]:
    """A supplier of processors that do ``function`` to every record."""

    class Each(Processor):
        def process(self, record: Record) -> None:
            function(self, record)

    return Each


def scheduled(*schedules: tuple, on_record: Callable | None = None) -> Callable[[], Processor]:
    """A supplier of processors that forward the stream time at every punctuation, under the schedule's name.

    ``schedules``: (name, interval) or (name, interval, start).
    """

    class Scheduled(Processor):
        def init(self, context) -> None:
            super().init(context)
            self.made = {}
            for name, interval, *start in schedules:
                callback = self.callback(name)
                start_ms = start[0] if start else None
                self.made[name] = context.schedule(interval, STREAM_TIME, callback, start_ms=start_ms)

        def callback(self, name: str) -> Callable[[int], None]:
            return lambda time_ms: self.context.forward(name, f"@{time_ms}")

        def process(self, record: Record) -> None:
            if on_record is not None:
                on_record(self, record)

    return Scheduled


def at(*times: int) -> list[tuple]:
    return [("k", "v", time) for time in times]
