"""What a test driver has written: records of outputs that were not read yet, refusals and dead letters."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ...state.errors import ConfigError
from ..functions.expressions import Shape
from ..graph.nodes import SinkNode
from ..topology.topology import Topology
from .driver_records import TURN, DeadLetter, DroppedRecord, OutputRecord
from .internal_topics import InternalTopics


class DriverOutputs:
    """``dropped`` and ``dead_letters``: all of them so far."""

    def __init__(self, topology: Topology) -> None:
        self._sinks = {sink.topic: sink for sink in topology.sinks()}
        self._shapes = {topic: sink.shape for topic, sink in self._sinks.items()}
        """Of outputs, and of topics that records have named."""
        self._queues: dict[str, deque[OutputRecord]] = {topic: deque() for topic in self._shapes}
        self._internal = InternalTopics(topology, self._sinks)
        self._internal_queues: dict[str, deque[OutputRecord]] = {topic: deque() for topic in self._internal.shapes}
        """Of topics that Kafka Streams makes itself. A record may name a topic that is called as one of them, without
        the application's id: that is another topic, which is then read by the name.
        """
        self._began: dict[str, int] = {}
        """Of every output that was written to, the arrival that caused its first record."""
        self.dropped: list[DroppedRecord] = []
        self.dead_letters: list[DeadLetter] = []

    def check(self, topic: str) -> None:
        """Raises ConfigError for what is no output, and no topic that a record may name."""
        if topic not in self._queues and topic not in self._internal.shapes and not self._naming(topic):
            raise ConfigError("read_output", f"one of {sorted(self._shapes)}", repr(topic), "read an output of to()")

    def _naming(self, topic: str) -> list[SinkNode]:
        """Sinks whose records may name ``topic``."""
        return [sink for sink in self._sinks.values() if sink.may_name(topic)]

    def shape(self, topic: str) -> Shape:
        """Of the output's records. Raises ConfigError for what is no output."""
        self.check(topic)
        known = self._internal.shapes | self._shapes
        return known[topic] if topic in known else self._naming(topic)[0].shape

    def is_changelog(self, topic: str) -> bool:
        """Whether it is that of a store, and no output."""
        return topic not in self._shapes and topic in self._internal.changelogs

    def send(self, arrival: np.ndarray, tables: dict[str, pa.Table]) -> None:
        """Rows that a chunk sent to repartition topics; ``arrival``: of the chunk's rows."""
        self._internal.send(arrival, tables)

    def log(self, records: list[tuple[str, OutputRecord]]) -> None:
        """(changelog, record) of what stores were given."""
        for topic, record in records:
            if topic in self._internal_queues:
                self._internal_queues[topic].append(record)

    def _queues_of(self, topic: str) -> deque[OutputRecord]:
        """The queue of any topic, with what was sent to it."""
        if topic in self._queues:
            return self._queues[topic]
        if topic not in self._internal_queues:
            return deque()
        queue = self._internal_queues[topic]
        queue.extend(self._internal.taken(topic))
        return queue

    def size(self, topic: str) -> int:
        """How many records of the output were not read yet."""
        return len(self._queues_of(topic))

    def next(self, topic: str) -> OutputRecord | None:
        """The next record of the output, or None; it counts as read."""
        queue = self._queues_of(topic)
        return queue.popleft() if queue else None

    def take(self, topic: str) -> list[OutputRecord]:
        """All records of the output that were not read yet, in order; they count as read."""
        queue = self._queues_of(topic)
        records = list(queue)
        queue.clear()
        return records

    def produced(self) -> set[str]:
        """Outputs that a record was written to, read or not."""
        return set(self._began)

    def collect(self, chunks: Iterable[tuple[np.ndarray, dict[str, pa.Table]]]) -> None:
        """What the chunks of a batch wrote: the arrival of a chunk's rows, and tables by output."""
        written: dict[str, list[tuple[int, int, int, OutputRecord]]] = {}
        for chunk, (arrival, outputs) in enumerate(chunks):
            for output, table in outputs.items():
                turns = table[TURN].to_pylist() if TURN in table.column_names else [0] * len(table)
                for turn, (topic, record) in zip(turns, self._records(output, table, arrival), strict=True):
                    self._shapes.setdefault(topic, self._shapes[output])
                    written.setdefault(topic, []).append((record.arrival, chunk, turn, record))
        for topic, placed in written.items():
            # Records of several sinks may name one topic, and sinks write one after the other. In the topic they are by
            # the record that caused them, and of one record by what was forwarded first; the sort is stable.
            placed.sort(key=lambda one: one[:3])
            records = [record for *_, record in placed]
            self._queues.setdefault(topic, deque()).extend(records)
            self._began[topic] = min(self._began.get(topic, records[0].arrival), records[0].arrival)

    def _records(self, output: str, table: pa.Table, arrival: np.ndarray) -> Iterator[tuple[str, OutputRecord]]:
        """(topic, record) of an output's rows."""
        shape = self._shapes[output]
        keys = shape.key.to_python(table["key"].cast(shape.key.arrow_type).combine_chunks())
        values = shape.value.to_python(table["value"].combine_chunks())
        windows: list[tuple[int, int] | None] = [None] * len(keys)
        if shape.window is not None:
            bounds = (table[name].to_pylist() for name in ("window_start_ms", "window_end_ms"))
            windows = list(zip(*bounds, strict=True))
        arrivals = arrival[table["cause"].to_numpy()].tolist()
        times = table["record_time_ms"].to_pylist()
        headers = [
            tuple((header["key"], header["value"]) for header in of_row or ())
            for of_row in table["headers"].to_pylist()
        ]
        records = map(OutputRecord, keys, values, times, windows, arrivals, headers)
        topics = table["topic"].to_pylist() if self._sinks[output].has_topics else [output] * len(keys)
        return zip(topics, records, strict=True)

    def book(
        self,
        arrival: np.ndarray,
        dropped: pa.Table,
        dead_letters: pa.Table,
        given_offsets: Mapping[int, tuple[str, int]],
    ) -> None:
        """Refusals of a chunk; ``arrival``: of the chunk's rows. ``given_offsets``: by arrival, a topic and an offset,
        which its refusals have in place of their own.
        """

        def placed(row: dict[str, Any]) -> dict[str, Any]:
            number = int(arrival[row["cause"]])
            topic, offset = given_offsets.get(number, (None, None))
            return row | {"arrival": number} | ({"offset": offset} if topic == row["topic"] else {})

        for row in map(placed, dropped.to_pylist()):
            window = None if row["window_start_ms"] is None else (row["window_start_ms"], row["window_end_ms"])
            columns = {name: row[name] for name in DroppedRecord._fields if name != "window"}
            self.dropped.append(DroppedRecord(**columns, window=window))
        for row in map(placed, dead_letters.to_pylist()):
            self.dead_letters.append(DeadLetter(**{name: row[name] for name in DeadLetter._fields}))

    def book_global(self, dropped: list[DroppedRecord], dead_letters: list[DeadLetter]) -> None:
        """Refusals of global tables."""
        self.dropped += dropped
        self.dead_letters += dead_letters

    def forget_after(self, arrival: int) -> None:
        """Other branches and the sub-topologies before ran on to the end of the batch; that did not happen."""
        # Rows that were sent and not decoded yet come first into the queues: a later read would append them unfiltered.
        for topic, records in self._internal_queues.items():
            records.extend(self._internal.taken(topic))
        for queues in (self._queues, self._internal_queues):
            for topic, records in queues.items():
                queues[topic] = deque(record for record in records if record.arrival <= arrival)
        self._began = {topic: first for topic, first in self._began.items() if first <= arrival}
        self.dropped = [refusal for refusal in self.dropped if refusal.arrival <= arrival]
        self.dead_letters = [letter for letter in self.dead_letters if letter.arrival <= arrival]
