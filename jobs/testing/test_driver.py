"""TopologyTestDriver: the same task code in process, without Spark, tables or Java (Kafka's TopologyTestDriver).

Rule: piped records are processed in the order in which they were piped, each with all that it causes, through
repartition topics too, before the next. Records are collected and run as one chunk when something is read, so that a
test goes through the compiled, columnar path.
"""

from collections import deque
from typing import Any

import numpy as np
import pyarrow as pa

from ...state.compilation.kernel_tiers import tiers
from ...state.errors import ConfigError, TaskFailed
from ...state.tables.warehouse import HEADERS
from ...state.times import NO_TIMESTAMP_MS
from ..graph.graph import Node
from ..tape.causal_order import is_known_late
from ..task.task import Task, call_kernels
from ..topology.topology import SubTopology, Topology
from .driver_records import (
    NO_OFFSET_GIVEN,
    DeadLetter,
    DroppedRecord,
    Headers,
    OutputRecord,
    Piped,
    header_rows,
)
from .driver_tasks import Batch, DrivenTasks, Played
from .store_view import StoreView, store_view


class TopologyTestDriver:
    """One task a sub-topology, partition 0.

    ``counts_bytes``: measure suppress buffers in bytes too. ``chunk_records``: run that many at a time; it changes
    nothing.
    """

    __test__ = False  # no test class for pytest

    def __init__(self, topology: Topology, *, counts_bytes: bool = False, chunk_records: int | None = None) -> None:
        self.topology = topology
        self._options: dict[str, Any] = {"counts_bytes": counts_bytes, "chunk_records": chunk_records}
        with tiers.running():
            self._driven = DrivenTasks(topology, **self._options)
        self._log: list[Batch] | None = [] if is_known_late(topology) else None
        """All that was played, where it may have to be played again."""
        self._outputs: dict[str, deque[OutputRecord]] = {sink.topic: deque() for sink in topology.sinks()}
        self.dropped: list[DroppedRecord] = []
        self.dead_letters: list[DeadLetter] = []
        self._sources = {
            node.landed_topic: node for node in topology.graph.nodes.values() if node.landed_topic is not None
        }
        self._piped: dict[str, list[Piped]] = {topic: [] for topic in self._sources}
        self._next_offset = dict.fromkeys(self._sources, 0)
        self._taken: list[tuple[np.ndarray, ...]] = []
        self._arrivals = 0
        self._failure: TaskFailed | None = None

    @property
    def _tasks(self) -> list[Task]:
        return self._driven.tasks

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

    def advance_stream_time(self, topic: str, time_ms: int) -> None:
        """Stream time of ``topic`` reaches ``time_ms`` without a record, and what is due because of it comes (recorded
        time, jobs/landing/recorded_time.py; Kafka's driver has no such thing). It takes the number of a piped record.
        """
        self._source(topic)
        if time_ms < 0:
            raise ConfigError("advance_stream_time", "a time of 0 ms or more", str(time_ms), "correct the time")
        self.run()
        arrival, self._arrivals = self._arrivals, self._arrivals + 1
        self._play(Batch({}, (topic, time_ms, arrival)))

    def _source(self, topic: str) -> Node:
        if topic in self.topology.intermediate_topics():
            got, next_step = f"{topic!r}, which the topology writes itself", "pipe what its records come from"
            raise ConfigError("pipe_input", "a topic that others write", got, next_step)
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
                with tiers.running():
                    return store_view(task, name)
        known = list(self.topology.stores())
        raise ConfigError("store", f"one of {known}", repr(name), "name a store of the topology")

    def metrics(self) -> dict[str, Any]:
        """Kafka's metrics of the run: dropped-records-total, record-lateness-avg/-max, each suppress's; and what
        deduplicate counted."""
        self.run()
        lateness = self._lateness()
        numbers = {node: found for task in self._tasks for node, found in task.metrics().items()}
        is_suppress = {node.name for node in self.topology.graph.nodes.values() if node.holds_back}
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
        arrival, sequence, times = (np.concatenate(columns) for columns in zip(*self._taken, strict=True))
        times = times[np.lexsort((sequence, arrival))]
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
        landed = {topic: self._landed(topic) for topic, records in self._piped.items() if records}
        self._play(Batch(landed))

    def _play(self, batch: Batch) -> None:
        records = sum(len(rows) for rows, _ in batch.landed.values())
        tiers.expect(records, lambda: call_kernels(self.topology))
        with tiers.running(), self.topology.graph.naming_calls():
            played = self._driven.play(batch)
            while not played.is_settled:
                batch.causes.refuse_endless()
                played = self._played_again(batch)
        if self._log is not None:
            self._log.append(batch)
        self._keep(batch, played)
        self._failure = played.failure
        if self._failure is not None:
            self._forget_after(self._failure.arrival)
            with self.topology.graph.naming_calls():
                raise self._failure

    def _played_again(self, batch: Batch) -> Played:
        """``batch`` from the beginning, now that it is known what the records cause; so is all that was before it."""
        assert self._log is not None, "two queues settle an order at once"
        self._driven = DrivenTasks(self.topology, **self._options)
        for before in [*self._log, batch]:
            before.causes.again()
            played = self._driven.play(before)
        return played

    def _landed(self, topic: str) -> tuple[pa.Table, np.ndarray]:
        """Rows of what was piped into ``topic``, and their arrivals."""
        rows, self._piped[topic] = self._piped[topic], []
        numbers = self._new_offsets(topic, len(rows))
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
        return table, np.array([row.arrival for row in rows], np.int64)

    def _new_offsets(self, topic: str, count: int) -> range:
        first = self._next_offset[topic]
        self._next_offset[topic] += count
        return range(first, first + count)

    def _keep(self, batch: Batch, played: Played) -> None:
        for sub, arrival, outputs in played.outputs:
            self._collect(sub, arrival, outputs)
        for arrival, dropped, dead_letters in played.refused:
            self._book(arrival, dropped, dead_letters)
        self._taken += [(arrival, batch.causes.sequence(number), times) for arrival, number, times in played.taken]

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
            keys = shape.key.to_python(table["key"].cast(shape.key.arrow_type).combine_chunks())
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
