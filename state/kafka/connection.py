"""A connection to a broker: clients of librdkafka with one set of settings, and what they say when they fail.

Owns the making of clients, for landing, publishing, bootstrap and hand-over alike. Rule: an error says what librdkafka
said last about the connection (a refused login, an unknown certificate), and not only that time ran out.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import ConfigError, MachineError
from ..extras import how_to_install
from ..hidden_values import without_hidden
from .settings import PATIENCE, librdkafka_settings

T = TypeVar("T")

_QUIET = {"log_level": 0}
_POLL_S, _LOOK_S = 0.1, 0.005


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as the broker sees it now, by partition.

    ``topic_id``: distinguishes a topic from one of the same name created later. ``earliest``: the first offset not
    deleted. ``stable``: one after the last offset that a ``read_committed`` consumer may read (the last stable offset).
    """

    topic_id: str
    earliest: Mapping[int, int]
    stable: Mapping[int, int]


class Connection:
    """``servers``: "host:port", several with commas. ``options``: settings of the client, by Kafka's names or
    librdkafka's; they are never written down, and what is a credential among them is not shown. ``patience_s``: how
    long a question may take, unless ``default.api.timeout.ms`` says otherwise.

    Raises MachineError without Kafka's client, ConfigError for a setting that the client does not know.
    """

    def __init__(self, servers: str, options: Mapping[str, str], patience_s: float) -> None:
        try:
            import confluent_kafka
        except ImportError as error:
            expected = "Kafka's client confluent-kafka"
            raise MachineError("this Python", expected, str(error), how_to_install("confluent_kafka")) from error
        from confluent_kafka import admin

        self.kafka: Any = confluent_kafka
        self.admin_kafka: Any = admin
        self.servers = servers
        self.plain = {**librdkafka_settings(options), "bootstrap.servers": servers}
        """Settings for any client of librdkafka."""
        given = options.get(PATIENCE, "")
        self.patience_s = int(given) / 1000 if given.isdecimal() else patience_s
        self._heard: list[Any] = []
        self.settings: dict[str, Any] = {**self.plain, **_QUIET, "error_cb": self._heard.append}
        """For clients of Python."""
        try:
            self.admin: Any = admin.AdminClient(self.settings)
        except (self.kafka.KafkaException, ValueError, TypeError) as error:
            said = error.args[0].str() if isinstance(error, self.kafka.KafkaException) else str(error)
            raise unknown_setting(said) from error

    def said(self, error: Any) -> str:
        """Of a KafkaError, with the last error of the connection itself; no credentials."""
        heard = next((each for each in reversed(self._heard) if self._is_reason(each)), None)
        why = "" if heard is None else f" ({heard.name()}: {heard.str()})"
        return without_hidden(f"{error.name()}: {error.str()}{why}")

    def _is_reason(self, error: Any) -> bool:
        return error.code() != self.kafka.KafkaError._ALL_BROKERS_DOWN

    def answer(self, future: "Future[Any]") -> Any:
        """The result of a question. One that was refused for its login or certificate is not waited for."""
        codes, deadline = self.kafka.KafkaError, time.monotonic() + self.patience_s + 1
        before = len(self._heard)
        while not future.done() and time.monotonic() < deadline:
            for error in self._heard[before:]:
                if error.code() in (codes._AUTHENTICATION, codes._SSL):
                    raise self.kafka.KafkaException(error)
            self.admin.poll(_LOOK_S)
        if not future.done():
            raise self.kafka.KafkaException(codes(codes._TIMED_OUT))
        return future.result()

    def ask(self, question: Callable[..., Any], *asked: Any, **more: Any) -> list[Any]:
        """Answers of the admin client, in the order of what was ``asked``. It is asked again while the brokers look for
        a group, or load it, and while a partition goes from one leader to another.
        """

        def once() -> list[Any]:
            futures = question(*asked, request_timeout=self.patience_s, **more)
            return [self.answer(each) for each in (futures.values() if isinstance(futures, dict) else [futures])]

        return self.again_while_passing(once)

    def again_while_passing(self, question: Callable[[], T]) -> T:
        """The answer of ``question``, which is asked again while ``is_passing``, for ``patience_s`` at most."""
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                return question()
            except self.kafka.KafkaException as error:
                if not self.is_passing(error.args[0]) or time.monotonic() > deadline:
                    raise
            time.sleep(_POLL_S)

    def is_passing(self, error: Any) -> bool:
        """Whether a KafkaError is over when brokers have found a group or a leader."""
        codes = self.kafka.KafkaError
        return error.code() in (
            codes.COORDINATOR_LOAD_IN_PROGRESS, codes.COORDINATOR_NOT_AVAILABLE, codes.NOT_COORDINATOR,
            codes.LEADER_NOT_AVAILABLE, codes.NOT_LEADER_FOR_PARTITION,
        )  # fmt: skip


def unknown_setting(said: str) -> ConfigError:
    """``said``: librdkafka's words."""
    expected, next_step = "settings that librdkafka or Java's client knows", "correct them (--option, --kafka-config)"
    return ConfigError("Kafka's client settings", expected, said.rstrip("."), next_step)


def topic_state(connection: Connection, topic: str) -> TopicState:
    """Ask the broker. Raises the client's KafkaException when it does not answer or has no such topic."""
    kafka, admin = connection.kafka, connection.admin
    (described,) = connection.ask(admin.describe_topics, kafka.TopicCollection([topic]))
    partitions = sorted(info.id for info in described.partitions)
    wait_for_leaders(connection, topic, len(partitions))
    spec = connection.admin_kafka.OffsetSpec
    earliest, stable = (
        dict(zip(partitions, offsets(connection, topic, partitions, at), strict=True))
        for at in (spec.earliest(), spec.latest())
    )
    return TopicState(as_java_says(str(described.topic_id)), earliest, stable)


def offsets(
    connection: Connection, topic: str, partitions: Iterable[int], at: Any, *, committed: bool = True
) -> list[int]:
    """Of each partition the offset ``at`` an OffsetSpec: the latest is behind the last record that may be read, or
    without ``committed`` behind the last one there is. Raises the client's KafkaException.
    """
    kafka = connection.kafka
    levels = kafka.IsolationLevel
    asked = {kafka.TopicPartition(topic, p): at for p in partitions}
    level = levels.READ_COMMITTED if committed else levels.READ_UNCOMMITTED
    answers = connection.ask(connection.admin.list_offsets, asked, isolation_level=level)
    return [answer.offset for answer in answers]


def wait_for_leaders(connection: Connection, topic: str, partitions: int) -> None:
    """A topic that was created just before has none yet, and librdkafka does not ask again by itself."""
    deadline = time.monotonic() + connection.patience_s
    while time.monotonic() < deadline:
        known = connection.admin.list_topics(topic, timeout=connection.patience_s).topics[topic].partitions
        if len(known) >= partitions and all(each.leader >= 0 for each in known.values()):
            return
        time.sleep(_POLL_S)


def as_java_says(topic_id: str) -> str:
    """In the alphabet that is safe in addresses, which ledgers have."""
    return topic_id.rstrip("=").replace("+", "-").replace("/", "_")
