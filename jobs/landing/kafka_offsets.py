"""Which offsets a topic has, asked of the broker through the Kafka client that Spark's connector brings along.

Owns the conversation with the broker's administration; reads no record and needs no Kafka client for Python.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from ...state.errors import LandingError

_PATIENCE = {"default.api.timeout.ms": "30000", "request.timeout.ms": "10000"}


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as the broker sees it now, by partition.

    ``topic_id``: distinguishes a topic from one of the same name created later. ``earliest``: the first offset not
    deleted. ``stable``: one after the last offset that a ``read_committed`` consumer may read (the last stable offset).
    """

    topic_id: str
    earliest: Mapping[int, int]
    stable: Mapping[int, int]


def topic_state(spark: SparkSession, topic: str, settings: Mapping[str, str]) -> TopicState:
    """Ask the broker. Raises LandingError when it does not answer or has no such topic."""
    jvm: Any = spark._jvm
    properties = jvm.java.util.Properties()
    for name, value in {**_PATIENCE, **settings}.items():
        properties.setProperty(name, value)
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        try:
            return _ask(jvm, admin, topic)
        finally:
            admin.close()
    except Py4JJavaError as error:
        raise _explained(error, topic, settings) from error
    except Py4JError as error:
        raise LandingError(
            "Spark session",
            "the Kafka connector",
            str(error),
            "open the session with kstreams_replay.jobs.execution.spark_session.open_spark",
        ) from error


def _ask(jvm: Any, admin: Any, topic: str) -> TopicState:
    topics = jvm.java.util.ArrayList()
    topics.add(topic)
    description = admin.describeTopics(topics).allTopicNames().get()[topic]
    partitions = sorted(info.partition() for info in description.partitions())
    offsets = jvm.org.apache.kafka.clients.admin.OffsetSpec
    return TopicState(
        topic_id=description.topicId().toString(),
        earliest=_offsets(jvm, admin, topic, partitions, offsets.earliest()),
        stable=_offsets(jvm, admin, topic, partitions, offsets.latest()),
    )


def _offsets(jvm: Any, admin: Any, topic: str, partitions: list[int], spec: Any) -> dict[int, int]:
    committed = jvm.org.apache.kafka.common.IsolationLevel.READ_COMMITTED
    options = jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(committed)
    asked = jvm.java.util.HashMap()
    for partition in partitions:
        asked.put(jvm.org.apache.kafka.common.TopicPartition(topic, partition), spec)
    answer = admin.listOffsets(asked, options)
    return {at.partition(): answer.partitionResult(at).get().offset() for at in asked}


def _explained(error: Py4JJavaError, topic: str, settings: Mapping[str, str]) -> LandingError:
    servers = settings.get("bootstrap.servers", "")
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    name, message = cause.getClass().getSimpleName(), cause.getMessage()
    if name == "UnknownTopicOrPartitionException":
        return LandingError(f"Kafka at {servers}", f"a topic {topic}", "no such topic", "correct the topic's name")
    next_step = "check that the broker runs, its address, and the client settings of the source"
    return LandingError(f"Kafka at {servers}, topic {topic}", "an answer", f"{name}: {message}", next_step)
