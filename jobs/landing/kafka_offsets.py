"""Which offsets a topic has, asked of the broker; reads no record."""

from typing import Any

from ...state.errors import LandingError
from ...state.kafka.connection import Connection, TopicState
from ...state.kafka.connection import topic_state as ask
from .kafka_source import KafkaSource

__all__ = ["TopicState", "connect", "topic_state"]

PATIENCE_S = 30.0
"""How long the broker may say nothing, unless ``default.api.timeout.ms`` says otherwise."""


def connect(source: KafkaSource) -> Connection:
    """To its broker. Raises as Connection."""
    return Connection(source.bootstrap_servers, source.options, PATIENCE_S)


def topic_state(topic: str, source: KafkaSource) -> TopicState:
    """Ask the broker. Raises LandingError when it does not answer or has no such topic."""
    connection = connect(source)
    try:
        return ask(connection, topic)
    except connection.kafka.KafkaException as error:
        raise _explained(connection, error.args[0], topic) from error


def _explained(connection: Connection, error: Any, topic: str) -> LandingError:
    if error.code() == connection.kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
        place, expected = f"Kafka at {connection.servers}", f"a topic {topic}"
        return LandingError(place, expected, "no such topic", "correct the topic's name")
    next_step = "check that the broker runs, its address, and the client settings of the source"
    return LandingError(f"Kafka at {connection.servers}, topic {topic}", "an answer", connection.said(error), next_step)
