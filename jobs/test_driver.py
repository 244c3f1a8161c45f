"""TopologyTestDriver: the same task code in process, without Spark, tables or Java (Kafka's TopologyTestDriver).

Rule: piped records are processed in the order in which they were piped, each with all that it causes, through
repartition topics too, before the next. Records are collected and run as one chunk when something is read, so that a
test goes through the compiled, columnar path.
"""

from collections import deque
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from jobs.advances import Moment
from jobs.arrivals import LANDED, MOMENT_SEQUENCES, Causes
from jobs.driven_records import (
    NO_OFFSET_GIVEN,
    DeadLetter,
    DroppedRecord,
    Headers,
    OutputRecord,
    Piped,
    Tape,
    header_rows,
)
from jobs.driven_time import DrivenTime, Waiting
from jobs.store_view import StoreView, store_view
from jobs.task import Result, Task, empty_input, with_sends
from jobs.task_tables import Input
from jobs.topology.nodes import GlobalTableNode, SourceNode, SuppressNode
from jobs.topology.topology import SubTopology, Topology
from state.errors import ConfigError, TaskFailed
from state.tables import HEADERS
from state.times import NO_TIMESTAMP_MS


class TopologyTestDriver:
    """One task a sub-topology, partition 0.

    ``counts_bytes``: measure suppress buffers in bytes too. ``chunk_records``: run that many at a time; it changes
    nothing.
    """

    __test__ = False  # no test class for pytest

    def __init__(self, topology: Topology, *, counts_bytes: bool = False, chunk_records: int | None = None) -> None:
        self.topology = topology
        self._tasks = [Task(topology, sub, counts_bytes=counts_bytes) for sub in topology.sub_topologies]
        self._outputs: dict[str, deque[OutputRecord]] = {sink.topic: deque() for sink in topology.sinks()}
        self.dropped: list[DroppedRecord] = []
        self.dead_letters: list[DeadLetter] = []
        self._sources = {
            node.topic: node for node in topology.graph.nodes.values() if isinstance(node, SourceNode | GlobalTableNode)
        }
        self._piped: dict[str, list[Piped]] = {topic: [] for topic in self._sources}
        self._tapes = {(task.sub_topology.id, source): Tape() for task in self._tasks for source in task.source_names}
        self._causes = Causes()
        self._time = DrivenTime(self._tasks)
        self._taken: list[tuple[np.ndarray, ...]] = []
        self._arrivals = 0
        self._failure: TaskFailed | None = None
        self._failed_sequence = 0
        """Number of the record that failed among what its piped record caused."""
        for task in self._tasks:
            task.resume({}, {})
            task.chunk_records = chunk_records or task.chunk_records

    # --- in --------------------------------------------------------------------------------------------------

    def pipe_input(
        self,
        topic: str,
        key: Any,
        value: Any,
        timestamp_ms: int,
        *,
        headers: Headers = (),
        offset: int | None = NO_OFFSET_GIVEN,
    ) -> None:
        """Pipe one record, key and value as Python values of the topic's serdes.

        ``offset``: what operators see as the record's offset; None for a record that is from no topic.
        """
        shape = self._source(topic).shape
        key_bytes, value_bytes = (
            serde.encode(serde.from_python([given]))[0].as_py()
            for serde, given in ((shape.key, key), (shape.value, value))
        )
        self.pipe_bytes(topic, key_bytes, value_bytes, timestamp_ms, headers=headers, offset=offset)

    def pipe_bytes(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        *,
        headers: Headers = (),
        offset: int | None = NO_OFFSET_GIVEN,
    ) -> None:
        """Pipe one record as a Kafka client would have written it."""
        self._source(topic)
        self._piped[topic].append(Piped(timestamp_ms, key, value, headers, offset, self._arrivals))
        self._arrivals += 1
        self._time.pipe(topic, timestamp_ms)

    def advance_stream_time(self, topic: str, time_ms: int) -> None:
        """Stream time of ``topic`` reaches ``time_ms`` without a record, and what is due because of it comes (recorded
        time, jobs/recorded_time.py; Kafka's driver has no such thing). It takes the number of a piped record.
        """
        self._source(topic)
        if time_ms < 0:
            raise ConfigError("advance_stream_time", "a time of 0 ms or more", str(time_ms), "correct the time")
        self.run()
        self._time.record(topic, time_ms)
        arrival, self._arrivals = self._arrivals, self._arrivals + 1
        for task in self._tasks:
            self._run_task(task, arrival)
        self._end()

    def _source(self, topic: str) -> SourceNode | GlobalTableNode:
        if topic not in self._sources:
            expected = f"a topic of {self.topology.source_topics()}"
            raise ConfigError("pipe_input", expected, repr(topic), "pipe into a source topic")
        return self._sources[topic]

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

    def store(self, name: str) -> StoreView:
        """What the store ``name`` shows now."""
        self.run()
        for task in self._tasks:
            if name in task.stores:
                return store_view(task, name)
        known = list(self.topology.stores())
        raise ConfigError("store", f"one of {known}", repr(name), "name a store of the topology")

    def metrics(self) -> dict[str, Any]:
        """Kafka's metrics of the run: dropped-records-total, record-lateness-avg/-max, each suppress's; and what
        deduplicate counted."""
        self.run()
        lateness = self._lateness()
        numbers = {node: found for task in self._tasks for node, found in task.metrics().items()}
        is_suppress = {node.name for node in self.topology.graph.nodes.values() if isinstance(node, SuppressNode)}
        return {
            "dropped-records-total": len(self.dropped),
            "record-lateness-avg": float(lateness.mean()) if len(lateness) else None,
            "record-lateness-max": int(lateness.max()) if len(lateness) else None,
            "suppress": {node: found for node, found in numbers.items() if node in is_suppress},
            "deduplicate": {node: found for node, found in numbers.items() if node not in is_suppress},
        }

    def _lateness(self) -> np.ndarray:
        """Of every record taken from a topic, in the order in which one thread would have taken them."""
        if not self._taken:
            return np.zeros(0, np.int64)
        arrival, number, times = (np.concatenate(columns) for columns in zip(*self._taken, strict=True))
        times = times[np.lexsort((self._causes.sequence(number), arrival))]
        before = np.maximum.accumulate(np.concatenate([[NO_TIMESTAMP_MS], times]))[:-1]
        behind: np.ndarray = np.maximum(before - times, 0)
        return behind

    # --- run -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Process what was piped.

        Raises the failure of a record that ends the run (BufferFull: it filled a suppress buffer) with ``arrival``, the
        record's number. Outputs and refusals up to that record can be read; the driver takes no more. (Metrics of a
        suppress above the node that failed count the whole batch.)
        """
        if self._failure is not None:
            if any(self._piped.values()):
                raise self._failure
            return
        if not any(self._piped.values()):
            return
        for topic in self._piped:
            self._land(topic)
        for task in self._tasks:
            self._run_task(task)
        self._end()

    def _end(self) -> None:
        if self._failure is not None:
            self._forget_after(self._failure.arrival)
            raise self._failure

    def _land(self, topic: str) -> None:
        rows, self._piped[topic] = self._piped[topic], []
        if not rows:
            return
        node, arrival = self._sources[topic], np.array([row.arrival for row in rows], np.int64)
        for task in self._tasks:
            if node not in (*task.sub_topology.sources, *task.sub_topology.globals):
                continue
            tape = self._tapes[task.sub_topology.id, node.name]
            numbers = range(tape.next_offset, tape.next_offset + len(rows))
            tape.next_offset += len(rows)
            seen = [n if row.offset == NO_OFFSET_GIVEN else row.offset for n, row in zip(numbers, rows, strict=True)]
            table = pa.table(
                {
                    "offset": pa.array(numbers, pa.int64()),
                    "timestamp": pa.array([row.timestamp_ms for row in rows], pa.int64()),
                    "key": pa.array([row.key for row in rows], pa.binary()),
                    "value": pa.array([row.value for row in rows], pa.binary()),
                    "headers": pa.array([header_rows(row.headers) for row in rows], HEADERS),
                    "context_offset": pa.array(seen, pa.int64()),
                }
            )
            tape.add(table, arrival, np.full(len(rows), LANDED))

    def _run_task(self, task: Task, now: int = 0) -> None:
        """Everything that waits for one task, in the order of causes; ``now``: arrival of the moments among it."""
        waiting = [self._tapes[task.sub_topology.id, source].take() for source in task.source_names]
        empty = empty_input(task)
        tables = [empty.tables[n] if table is None else table for n, (table, *_) in enumerate(waiting)]
        arrival, number, send = (np.concatenate([columns[n] for columns in waiting]) for n in (1, 2, 3))
        source = np.repeat(np.arange(len(waiting), dtype=np.int16), [len(columns[1]) for columns in waiting])
        if len(waiting) > 1:
            order = np.lexsort((send, self._causes.sequence(number), arrival))
            arrival, number, send, source = arrival[order], number[order], send[order], source[order]
        if self._failure is not None:
            sequence = self._causes.sequence(number)
            last = self._failure.arrival
            happens = (arrival < last) | ((arrival == last) & (sequence <= self._failed_sequence))
            arrival, number, send, source = (column[happens] for column in (arrival, number, send, source))
            tables = [table.slice(0, int((source == place).sum())) for place, table in enumerate(tables)]
        used = np.zeros(len(tables), np.int64)
        moments = self._time.next_of(task)
        places = np.searchsorted(self._causes.sequence(number), [each.level * MOMENT_SEQUENCES for each in moments])
        for first, after in pairwise([0, *places.tolist(), len(source)]):
            for begin in range(first, after, task.chunk_records):
                part = slice(begin, min(begin + task.chunk_records, after))
                counts = np.bincount(source[part], minlength=len(tables))
                pieces = tuple(
                    table.slice(start, count).combine_chunks()
                    for table, start, count in zip(tables, used.tolist(), counts.tolist(), strict=True)
                )
                used += counts
                if not self._run_chunk(task, Input(source[part], pieces), arrival[part], number[part], send[part]):
                    return
            if moments and not self._advance(task, moments.pop(0), now):
                return

    def _advance(self, task: Task, waiting: Waiting, arrival: int) -> bool:
        """False when that ended the run."""
        place = (np.full(1, number, np.int64) for number in (arrival, LANDED - waiting.level, 0))
        return self._run_chunk(task, self._time.moment(task, waiting), *place)

    def _run_chunk(
        self, task: Task, chunk: Input | Moment, arrival: np.ndarray, number: np.ndarray, send: np.ndarray
    ) -> bool:
        """False when a record ended the run."""
        failed = None
        told: dict[str, int] = {}
        try:
            if isinstance(chunk, Moment):
                result, told = task.advance(chunk)
            else:
                result = task.process(chunk)
        except TaskFailed as error:
            if task.unfinished is None:
                raise
            failed, result = error, task.unfinished
            failed.arrival = int(arrival[failed.cause_row])
            if self._failure is None or failed.arrival < self._failure.arrival:
                self._failure = failed
                self._failed_sequence = int(self._causes.sequence(number)[failed.cause_row])
        self._collect(task.sub_topology, arrival, result.outputs)
        self._exchange(task, arrival, number, with_sends(result, send, task.sub_topology.level))
        self._book(arrival, result.dropped, result.dead_letters)
        if isinstance(chunk, Input):
            kept = result.taken.copy()
            if failed is not None:
                kept[failed.cause_row + 1 :] = False
            self._taken.append((arrival[kept], number[kept], chunk.spread("timestamp", NO_TIMESTAMP_MS)[kept]))
        self._time.tell(told, int(LANDED - number[0]) + 1 if told else 0)
        return failed is None

    def _exchange(self, task: Task, arrival: np.ndarray, number: np.ndarray, result: Result) -> None:
        """Hand on what goes to other tasks."""
        for topic, table in result.repartitions.items():
            cause, send = table["cause"].to_numpy(), table["send"].to_numpy()
            node = next(node for node in task.sub_topology.repartitions if node.topic == topic)
            numbers = number[cause]
            if not node.is_ours:
                numbers = self._causes.add(topic, arrival[cause], numbers, send, table["timestamp"].to_numpy())
            reader = next(other for other in self._tasks if node in other.sources)
            tape = self._tapes[reader.sub_topology.id, node.name]
            offset = pa.array(np.arange(tape.next_offset, tape.next_offset + len(table)))
            tape.next_offset += len(table)
            rows = table.drop_columns(["cause", "target", "send"]).append_column("offset", offset)
            tape.add(rows, arrival[cause], numbers, None if not node.is_ours else send)
        for name, table in result.exports.items():
            cause = table["cause"].to_numpy()
            for reader in self._tasks:
                if name in {imported.name for imported in reader.wiring.imports}:
                    tape = self._tapes[reader.sub_topology.id, name]
                    rows = table.drop_columns(["cause", "send"])
                    tape.add(rows, arrival[cause], number[cause], table["send"].to_numpy())

    def _forget_after(self, arrival: int) -> None:
        """Other branches and the sub-topologies before ran on to the end of the batch; that did not happen."""
        for topic, records in self._outputs.items():
            self._outputs[topic] = deque(record for record in records if record.arrival <= arrival)
        self.dropped = [refusal for refusal in self.dropped if refusal.arrival <= arrival]
        self.dead_letters = [letter for letter in self.dead_letters if letter.arrival <= arrival]
        self._taken = [
            tuple(column[arrivals <= arrival] for column in (arrivals, *columns)) for arrivals, *columns in self._taken
        ]

    def _collect(self, sub: SubTopology, arrival: np.ndarray, outputs: dict[str, pa.Table]) -> None:
        shapes = {sink.topic: sink.shape for sink in sub.sinks}
        for topic, table in outputs.items():
            shape = shapes[topic]
            keys = shape.key.to_python(table["key"].combine_chunks())
            values = shape.value.to_python(table["value"].combine_chunks())
            windows: list[tuple[int, int] | None] = [None] * len(keys)
            if shape.window is not None:
                bounds = (table[name].to_pylist() for name in ("window_start_ms", "window_end_ms"))
                windows = list(zip(*bounds, strict=True))
            arrivals = arrival[table["cause"].to_numpy()].tolist()
            times = table["record_time_ms"].to_pylist()
            headers = [
                tuple((header["key"], header["value"]) for header in found or ())
                for found in table["headers"].to_pylist()
            ]
            self._outputs[topic].extend(map(OutputRecord, keys, values, times, windows, arrivals, headers))

    def _book(self, arrival: np.ndarray, dropped: pa.Table, dead_letters: pa.Table) -> None:
        for row in dropped.to_pylist():
            window = None if row["window_start_ms"] is None else (row["window_start_ms"], row["window_end_ms"])
            found = {name: row[name] for name in DroppedRecord._fields if name not in ("window", "arrival")}
            self.dropped.append(DroppedRecord(**found, window=window, arrival=int(arrival[row["cause"]])))
        for row in dead_letters.to_pylist():
            found = {name: row[name] for name in DeadLetter._fields if name != "arrival"}
            self.dead_letters.append(DeadLetter(**found, arrival=int(arrival[row["cause"]])))
