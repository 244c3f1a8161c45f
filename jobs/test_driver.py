"""TopologyTestDriver: the same task code in process, without Spark, tables or Java (Kafka's TopologyTestDriver).

Rule: piped records are processed in the order in which they were piped, each with all that it causes, through
repartition topics too, before the next. Records are collected and run as one chunk when something is read, so that a
test goes through the compiled, columnar path.
"""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from jobs.task import Task
from jobs.topology.nodes import SourceNode
from jobs.topology.topology import SubTopology, Topology
from state.errors import BufferFull, ConfigError
from state.times import NO_TIMESTAMP_MS


class OutputRecord(NamedTuple):
    """``window``: (start, end) in ms of a windowed key, else None. ``arrival``: number of the piped record that caused
    it.
    """

    key: Any
    value: Any
    timestamp_ms: int
    window: tuple[int, int] | None
    arrival: int


class DroppedRecord(NamedTuple):
    """One refusal. ``limit_ms``: the number that decided, or None."""

    node: str
    reason: str
    topic: str
    offset: int
    record_time_ms: int
    stream_time_ms: int
    limit_ms: int | None
    window: tuple[int, int] | None
    arrival: int


class DeadLetter(NamedTuple):
    """An undecodable record, with its bytes."""

    topic: str
    offset: int
    reason: str
    key: bytes | None
    value: bytes | None
    arrival: int


@dataclass(slots=True)
class _Tape:
    """Records of one topic that were not run yet, and the arrival of every one since the beginning."""

    rows: list[tuple[int, bytes | None, bytes | None]]
    arrivals: list[int]
    next_offset: int = 0


class TopologyTestDriver:
    """One task a sub-topology, partition 0.

    ``counts_bytes``: measure suppress buffers in bytes too. ``chunk_records``: run that many at a time; it changes
    nothing.
    """

    __test__ = False  # no test class for pytest

    def __init__(self, topology: Topology, *, counts_bytes: bool = False, chunk_records: int | None = None) -> None:
        self.topology = topology
        self._tasks = [Task(topology, sub, counts_bytes=counts_bytes) for sub in topology.sub_topologies]
        self._tapes = {sub.source.topic: _Tape([], []) for sub in topology.sub_topologies}
        self._outputs: dict[str, deque[OutputRecord]] = {sink.topic: deque() for sink in topology.sinks()}
        self.dropped: list[DroppedRecord] = []
        self.dead_letters: list[DeadLetter] = []
        self._taken: list[tuple[int, int, int]] = []
        self._arrivals = 0
        self._failure: BufferFull | None = None
        for task in self._tasks:
            task.resume({}, {})
            task.chunk_records = chunk_records or task.chunk_records

    # --- in --------------------------------------------------------------------------------------------------

    def pipe_input(self, topic: str, key: Any, value: Any, timestamp_ms: int) -> None:
        """Pipe one record, key and value as Python values of the topic's serdes."""
        shape = self._source(topic).shape
        key_bytes, value_bytes = (
            serde.encode(serde.from_python([given]))[0].as_py()
            for serde, given in ((shape.key, key), (shape.value, value))
        )
        self.pipe_bytes(topic, key_bytes, value_bytes, timestamp_ms)

    def pipe_bytes(self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        """Pipe one record as a Kafka client would have written it."""
        tape = self._tapes[self._source(topic).topic]
        tape.rows.append((timestamp_ms, key, value))
        tape.arrivals.append(self._arrivals)
        self._arrivals += 1

    def _source(self, topic: str) -> SourceNode:
        for node in self.topology.graph.nodes.values():
            if isinstance(node, SourceNode) and node.topic == topic:
                return node
        raise ConfigError(
            "pipe_input", f"a topic of {self.topology.source_topics()}", repr(topic), "pipe into a source topic"
        )

    # --- out -------------------------------------------------------------------------------------------------

    def read_output(self, topic: str) -> OutputRecord | None:
        """Next record of the output, or None."""
        outputs = self._read(topic)
        return outputs.popleft() if outputs else None

    def read_outputs(self, topic: str) -> list[OutputRecord]:
        """All records of the output that were not read yet, in order."""
        outputs = self._read(topic)
        records = list(outputs)
        outputs.clear()
        return records

    def _read(self, topic: str) -> deque[OutputRecord]:
        if topic not in self._outputs:
            raise ConfigError("read_output", f"one of {sorted(self._outputs)}", repr(topic), "read an output of to()")
        self.run()
        return self._outputs[topic]

    def store(self, name: str) -> "StoreView":
        """What the store ``name`` shows now."""
        self.run()
        for task in self._tasks:
            if name in task.stores:
                return StoreView(task, name)
        known = [node.store for node in self.topology.stores()]
        raise ConfigError("store", f"one of {known}", repr(name), "name a store of the topology")

    def metrics(self) -> dict[str, Any]:
        """Kafka's metrics of the run: dropped-records-total, record-lateness-avg/-max, and each suppress's."""
        self.run()
        lateness = self._lateness()
        suppress = {
            name: operator.metrics()
            for task in self._tasks
            for name, operator in task.operators.items()
            if hasattr(operator, "metrics") and operator.metrics()
        }
        return {
            "dropped-records-total": len(self.dropped),
            "record-lateness-avg": float(lateness.mean()) if len(lateness) else None,
            "record-lateness-max": int(lateness.max()) if len(lateness) else None,
            "suppress": suppress,
        }

    def _lateness(self) -> np.ndarray:
        """Of every record taken from a topic, in the order in which one thread would have taken them."""
        times = np.array([time_ms for _, _, time_ms in sorted(self._taken, key=lambda taken: taken[:2])], np.int64)
        before = np.maximum.accumulate(np.concatenate([[NO_TIMESTAMP_MS], times]))[:-1]
        return np.maximum(before - times, 0)

    # --- run -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Process what was piped.

        Raises BufferFull with ``arrival``, the number of the record that filled a suppress buffer. Outputs and refusals
        up to that record can be read; the driver takes no more. (Metrics of a suppress above the full one count the
        whole batch.)
        """
        if self._failure is not None:
            if any(tape.rows for tape in self._tapes.values()):
                raise self._failure
            return
        for task in self._tasks:
            tape = self._tapes[task.sub_topology.source.topic]
            while tape.rows:
                rows, tape.rows = tape.rows[: task.chunk_records], tape.rows[task.chunk_records :]
                self._run_chunk(task, tape, rows)
        if self._failure is not None:
            self._forget_after(self._failure.arrival)
            raise self._failure

    def _fail(self, error: BufferFull, tape: _Tape) -> None:
        """The first record that fills a buffer counts; what was piped after it is not processed any more."""
        tape.rows.clear()
        if self._failure is None or error.arrival < self._failure.arrival:
            self._failure = error
        for other in self._tapes.values():
            waiting = other.arrivals[len(other.arrivals) - len(other.rows) :]
            del other.rows[bisect_right(waiting, self._failure.arrival) :]

    def _forget_after(self, arrival: int) -> None:
        """Other branches and the sub-topologies before ran on to the end of the batch; that did not happen."""
        for topic, records in self._outputs.items():
            self._outputs[topic] = deque(record for record in records if record.arrival <= arrival)
        self.dropped = [refusal for refusal in self.dropped if refusal.arrival <= arrival]
        self.dead_letters = [letter for letter in self.dead_letters if letter.arrival <= arrival]
        self._taken = [taken for taken in self._taken if taken[0] <= arrival]

    def _run_chunk(self, task: Task, tape: _Tape, rows: list[tuple[int, bytes | None, bytes | None]]) -> None:
        base, tape.next_offset = tape.next_offset, tape.next_offset + len(rows)
        records = pa.table(
            {
                "offset": np.arange(base, tape.next_offset),
                "timestamp": np.array([row[0] for row in rows], np.int64),
                "key": pa.array([row[1] for row in rows], pa.binary()),
                "value": pa.array([row[2] for row in rows], pa.binary()),
            }
        )
        try:
            result = task.process(records)
        except BufferFull as error:
            assert task.unfinished is not None
            result, rows = task.unfinished, rows[: error.cause_row + 1]
            error.arrival = tape.arrivals[base + error.cause_row]
            self._fail(error, tape)
        self._collect(task.sub_topology, tape, result.outputs)
        for topic, table in result.repartitions.items():
            self._repartition(self._tapes[topic], tape, table)
        self._book(tape, result.dropped, result.dead_letters)
        unread = {letter.offset for letter in self.dead_letters if letter.topic == task.sub_topology.source.topic}
        self._taken += [
            (tape.arrivals[base + place], task.sub_topology.id, row[0])
            for place, row in enumerate(rows)
            if row[0] >= 0 and base + place not in unread
        ]

    def _collect(self, sub: SubTopology, tape: _Tape, outputs: dict[str, pa.Table]) -> None:
        shapes = {sink.topic: sink.shape for sink in sub.sinks}
        for topic, table in outputs.items():
            shape = shapes[topic]
            keys = shape.key.to_python(table["key"].combine_chunks())
            values = shape.value.to_python(table["value"].combine_chunks())
            windows: list[tuple[int, int] | None] = [None] * len(keys)
            if shape.window is not None:
                bounds = (table[name].to_pylist() for name in ("window_start_ms", "window_end_ms"))
                windows = list(zip(*bounds, strict=True))
            arrivals = [tape.arrivals[offset] for offset in table["cause_offset"].to_pylist()]
            times = table["record_time_ms"].to_pylist()
            self._outputs[topic].extend(map(OutputRecord, keys, values, times, windows, arrivals))

    @staticmethod
    def _repartition(target: _Tape, source: _Tape, table: pa.Table) -> None:
        columns = (table[name].to_pylist() for name in ("timestamp", "key", "value"))
        target.rows += list(zip(*columns, strict=True))
        target.arrivals += [source.arrivals[offset] for offset in table["cause_offset"].to_pylist()]

    def _book(self, tape: _Tape, dropped: pa.Table, dead_letters: pa.Table) -> None:
        for row in dropped.to_pylist():
            window = None if row["window_start_ms"] is None else (row["window_start_ms"], row["window_end_ms"])
            found = {name: row[name] for name in DroppedRecord._fields if name not in ("window", "arrival")}
            self.dropped.append(DroppedRecord(**found, window=window, arrival=tape.arrivals[row["offset"]]))
        for row in dead_letters.to_pylist():
            found = {name: row[name] for name in DeadLetter._fields if name != "arrival"}
            self.dead_letters.append(DeadLetter(**found, arrival=tape.arrivals[row["offset"]]))


class StoreView:
    """Read-only look into a store: ``all``, ``get``, ``fetch``."""

    def __init__(self, task: Task, name: str) -> None:
        node = next(node for node in task.sub_topology.stores if node.store == name)
        table = task.stores[name].contents()
        values = table["value"].combine_chunks()
        keys = node.shape.key.to_python(table["key"].combine_chunks())
        windows: list[tuple[int, int] | None] = [None] * len(keys)
        if node.shape.window is not None:
            bounds = (table[column].to_pylist() for column in ("window_start_ms", "window_end_ms"))
            windows = list(zip(*bounds, strict=True))
        rows = zip(keys, windows, node.shape.value.to_python(values), strict=True)
        self._rows = sorted(rows, key=lambda row: (repr(row[0]) if isinstance(row[0], dict) else row[0], row[1]))

    def all(self) -> list[tuple[Any, tuple[int, int] | None, Any]]:
        """(key, window or None, value) of every row, by key and window."""
        return self._rows

    def get(self, key: Any) -> Any:
        """The value of ``key`` in a store without windows, or None."""
        return next((value for found, window, value in self._rows if found == key and window is None), None)

    def fetch(self, key: Any, from_ms: int = 0, to_ms: int = 2**63 - 1) -> list[tuple[tuple[int, int], Any]]:
        """(window, value) of ``key``'s windows that start in ``[from_ms, to_ms]``, by start."""
        return [
            (window, value)
            for found, window, value in self._rows
            if found == key and window is not None and from_ms <= window[0] <= to_ms
        ]
