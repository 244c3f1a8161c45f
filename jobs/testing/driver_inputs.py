"""Input records of a test driver, waiting to be run: as bytes, by topic and in order of arrival."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from ...state.errors import ConfigError, TaskFailed, shown
from ...state.serdes import Serde
from ...state.tables.warehouse import HEADERS
from ...state.times import is_int
from ..functions.record_headers import own_headers
from ..graph.graph import Node
from ..task.time_extraction import TimeExtraction
from ..topology.topology import Topology
from .driver_failures import note_on
from .driver_records import LONGS, NO_OFFSET_GIVEN, Headers, Piped, header_rows, long_time

Taken = dict[str, tuple[pa.Table, np.ndarray]]
"""By topic: rows of records, and the arrival of each."""


def encoded(serde: Serde, values: Iterable[Any]) -> list[bytes | None]:
    """Python values as a client with that serializer writes them. Raises ConfigError for one of another type."""
    encoded_values: list[bytes | None] = serde.encode(serde.from_python(list(values))).to_pylist()
    return encoded_values


def _own_bytes(data: Any, place: str) -> bytes | None:
    """``data`` as it is now: anything that has bytes, or None."""
    if data is None or type(data) is bytes:
        return data
    try:
        return bytes(memoryview(data))
    except TypeError:
        next_step = "write bytes, or pipe_input with a value of the serde"
        raise ConfigError(place, "bytes or None", shown(data), next_step) from None


class DriverInputs:
    """``arrivals``: records (and recorded times) that came in so far, of all topics."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._sources = {
            node.landed_topic: node for node in topology.graph.nodes.values() if node.landed_topic is not None
        }
        self._extractions = {
            topic: TimeExtraction(node, 0) for topic, node in self._sources.items() if node.time_step is not None
        }
        self._piped: dict[str, list[Piped]] = {topic: [] for topic in self._sources}
        self._next_offset = dict.fromkeys(self._sources, 0)
        self.arrivals = 0
        self.given_offsets: dict[int, tuple[str, int]] = {}
        """By arrival, the topic of a record and the offset that the test gave it."""

    def source(self, topic: str) -> Node:
        """What reads ``topic``. Raises ConfigError for a topic that the topology does not read, or writes itself."""
        if topic in self.topology.intermediate_topics():
            got, next_step = f"{topic!r}, which the topology writes itself", "pipe what its records come from"
            raise ConfigError("pipe_input", "a topic that others write", got, next_step)
        if not self._sources:
            got = "one that reads no topic, so that there is nothing to do"
            raise ConfigError("pipe_input", f"a topology that reads {topic!r}", got, "read it in the topology")
        if topic not in self._sources:
            expected = f"a topic of {self.topology.source_topics()}"
            raise ConfigError("pipe_input", expected, repr(topic), "pipe into a source topic")
        return self._sources[topic]

    def pipe(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
        offset: int | None = NO_OFFSET_GIVEN,
    ) -> None:
        """One record more, of a known topic. Raises ConfigError for what no record can have: nothing is piped then."""
        place = f"topic {topic!r}"
        key, value = _own_bytes(key, f"{place}, key"), _own_bytes(value, f"{place}, value")
        own = own_headers(headers, place)
        if offset is not None and not (is_int(offset) and offset in LONGS):
            expected = "a whole number of 64 bits, or None"
            raise ConfigError(f"{place}, offset", expected, shown(offset), "correct the offset")
        long_time(timestamp_ms, f"{place}, timestamp_ms")
        arrival = self.next_arrival()
        if offset is not None and offset != NO_OFFSET_GIVEN:
            self.given_offsets[arrival] = topic, offset
        self._piped[topic].append(Piped(timestamp_ms, key, value, own, offset, arrival))

    def next_arrival(self) -> int:
        """The number of what comes now."""
        self.arrivals += 1
        return self.arrivals - 1

    def is_waiting(self) -> bool:
        """Whether a record has not been run."""
        return any(self._piped.values())

    def take(self) -> tuple[Taken, TaskFailed | None]:
        """Rows of what waits, by topic, and the arrival of each; nothing waits then.

        They have the times that extractors give. Where one gives a record no time, these are the rows before it, and
        the failure with its ``arrival`` and its record.
        """
        waiting = {topic: self._rows(topic) for topic, records in self._piped.items() if records}
        taken, failure = self._at_their_times(waiting)  # if that raises, all of them still wait
        if failure is not None:
            note_on(failure, self.topology, waiting)
        for topic, (rows, _) in waiting.items():
            self._piped[topic] = []
            self._next_offset[topic] += len(rows)
        return taken, failure

    def _at_their_times(self, piped: Taken) -> tuple[Taken, TaskFailed | None]:
        timed, failure = dict(piped), None
        # An extractor keeps its partition time (UsePartitionTimeOnInvalidTimestamp). Forks are kept when no topic
        # fails; else the shortened rows are extracted again from the times that the batch began with.
        after = {topic: one.fork() for topic, one in self._extractions.items()}
        for topic in [topic for topic in piped if topic in after]:
            rows, arrival = piped[topic]
            try:
                timed[topic] = after[topic](rows), arrival
            except TaskFailed as error:
                if error.cause_row < 0:
                    raise
                error.arrival = int(arrival[error.cause_row])
                failure = error if failure is None or error.arrival < failure.arrival else failure
        if failure is None:
            self._extractions = after
            return timed, None
        # The first failing arrival ends all topics: a later record of another one was piped after the run had ended.
        ends = {topic: int(np.searchsorted(arrival, failure.arrival)) for topic, (_, arrival) in piped.items()}
        timed = {
            topic: (rows.slice(0, ends[topic]), arrival[: ends[topic]]) for topic, (rows, arrival) in piped.items()
        }
        return self._at_their_times(timed)[0], failure

    def _rows(self, topic: str) -> tuple[pa.Table, np.ndarray]:
        rows, first = self._piped[topic], self._next_offset[topic]
        numbers = range(first, first + len(rows))
        # Offsets of the tape count from 0. What a test gives may be any number or none, and only operators see it.
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
