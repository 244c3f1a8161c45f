"""Pipelines whose outputs are published, and what a reader of the topic sees."""

import struct
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from examples.broker import Broker
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.publish.kafka_target import KafkaTarget
from kstreams_replay.jobs.publish.publishing import PublishReport, PublishSettings, publish
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant


class Seen(NamedTuple):
    """A record as a reader sees it."""

    partition: int
    key: bytes | None
    value: bytes | None
    time_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


def seen(
    broker: Broker, topic: str, isolation: str = "read_committed", *, is_over: bool = True, wait_s: float = 30.0
) -> list[Seen]:
    """All that a reader of the topic sees, by partition and offset. ``is_over``: once every transaction is over, since
    a broker answers a commit before readers see it. Otherwise now, though one may be open.
    """
    consumer, deadline, found = _reader(broker, isolation), time.monotonic() + wait_s, list[Seen]()
    everything = _reader(broker, "read_uncommitted")
    for partition in sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions):
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(30)
            assert message is not None, "no answer"
            if message.error() is None:
                headers = tuple(message.headers() or ())
                found.append(Seen(partition, message.key(), message.value(), message.timestamp()[1], headers))
                continue
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            at = message.offset()
            _, end = everything.get_watermark_offsets(TopicPartition(topic, partition), timeout=30, cached=False)
            if at >= end or not is_over:
                break
            assert time.monotonic() < deadline, f"a transaction of {topic}:{partition} is open at {at} of {end}"
            consumer.assign([TopicPartition(topic, partition, at)])
    consumer.close()
    everything.close()
    return found


def _reader(broker: Broker, isolation: str) -> Consumer:
    return Consumer({
        "bootstrap.servers": broker.bootstrap_servers, "group.id": "seen", "isolation.level": isolation,
        "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest",
    })  # fmt: skip


def table_of(records: Sequence[Seen]) -> dict[tuple[int, bytes | None], bytes]:
    """What a reader that keeps the last value of every key of a partition has."""
    last = {(record.partition, record.key): record.value for record in records}
    return {key: value for key, value in last.items() if value is not None}


def forwarded() -> Topology:
    """Out is in."""
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.string())).to("out")
    return builder.build()


def run(
    warehouse: Warehouse, topology: Topology, records: Sequence[LandedRecord], *, pipeline: str = "p",
    partitions: int = 1,
) -> None:  # fmt: skip
    """Land records as one increment, and replay them as the next one."""
    plant(warehouse, "in", records, partitions=partitions)
    again(warehouse, topology, pipeline=pipeline)


def again(warehouse: Warehouse, topology: Topology, *, pipeline: str = "p") -> None:
    """Replay all that has landed, as the next increment."""
    list(replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner()))


def published(
    broker: Broker, warehouse: Warehouse, topology: Topology, topic: str, *, to: KafkaTarget | None = None,
    on_call: Any = lambda call: None, **settings: Any,
) -> PublishReport:  # fmt: skip
    """Publish the output "out" of pipeline p."""
    return publish(
        warehouse, topology, "out", pipeline="p", to=to or KafkaTarget(broker.bootstrap_servers, topic),
        settings=PublishSettings(**settings), on_call=on_call,
    )  # fmt: skip


def long(number: int) -> bytes:
    """As Kafka's LongSerializer."""
    return struct.pack(">q", number)
