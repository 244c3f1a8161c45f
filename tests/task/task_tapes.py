"""A task in a test: one sub-topology over rows of (offset, timestamp, key, value)."""

from collections.abc import Callable

import pyarrow as pa

from kstreams_replay.jobs.task.task import Task
from kstreams_replay.jobs.topology import Consumed, KStream, Serde, StreamsBuilder, TimeWindows, Topology

SCHEMA = pa.schema([("offset", pa.int64()), ("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])


def topology_of(build: Callable[[KStream], None], *, key: Serde | None = None, value: Serde | None = None) -> Topology:
    """What ``build`` makes of the topic ``in``."""
    builder = StreamsBuilder()
    build(builder.stream("in", Consumed(key or Serde.string(), value or Serde.long())))
    return builder.build()


def long(value: int) -> bytes:
    """As Kafka's LongSerializer."""
    return value.to_bytes(8, "big", signed=True)


def records(*rows: tuple[int, int, bytes | None, bytes | None]) -> pa.Table:
    """Rows of (offset, timestamp, key, value)."""
    columns = zip(*rows, strict=True) if rows else ([], [], [], [])
    return pa.table([pa.array(column, f.type) for column, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def started(topology: Topology, number: int = 0) -> Task:
    """A task of one sub-topology that has taken nothing yet."""
    task = Task(topology, topology.sub_topologies[number])
    task.resume({}, {})
    return task


def books(task: Task) -> tuple[int, int, int, int]:
    """(read, applied, dropped, undecodable), which must balance."""
    counts = task.counts
    assert counts.read == counts.applied + counts.left_out + counts.dropped + counts.undecodable
    return counts.read, counts.applied, counts.dropped, counts.undecodable


def counted(stream: KStream) -> None:
    """Records of each key in windows of 10 ms, to the output counts."""
    stream.group_by_key().windowed_by(TimeWindows.of_size(10)).count().to("counts")
