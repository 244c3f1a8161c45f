"""A publisher's conversation with the broker: one topic, one transactional id, and the topic of its position.

Owns the client (librdkafka) and what its errors mean. Rule: ``on_call`` gets the name of every request before it is
made, so that a test can end the publisher between any two. Nothing is sent outside of a transaction, and each
one has the position that holds once it is committed.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...state.errors import PublisherFenced, PublishError, PublishInterrupted
from ...state.kafka.connection import Connection, offsets, wait_for_leaders
from .kafka_target import KafkaTarget
from .published_output import OutgoingRows

OnCall = Callable[[str], None]

PATIENCE_S = 60.0
"""How long a question may take, and how long another's open transaction is waited for."""
# Kafka compacts no active segment: small ones keep short what has to be read to find the last position.
POSITION_SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
"""Of the topic of positions, where it is made here: it keeps the last one of every topic for ever."""
COMPACT = "compact"
_COMMIT_TRIES = 10
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class BrokerTopic:
    """``id``: distinguishes a topic from one of the same name created later. ``settings``: those of the topic, by
    Kafka's names, as the broker has them now.
    """

    id: str
    partitions: int
    settings: Mapping[str, str]


class KafkaClient:
    """Errors are PublishInterrupted, with the broker's sentence; PublisherFenced when another publisher of the topic
    began since. PublishError for another client's transaction that does not end; ConfigError for settings that the
    client does not know; MachineError: there is no client.
    """

    def __init__(self, target: KafkaTarget, on_call: OnCall = lambda call: None) -> None:
        self._target, self._on_call = target, on_call
        self._on_call("connect")
        self._connection = Connection(target.bootstrap_servers, target.options, PATIENCE_S)
        self._kafka, self._admin_kafka = self._connection.kafka, self._connection.admin_kafka
        self._admin = self._connection.admin
        self._producer: Any = None

    # --- questions -------------------------------------------------------------------------------------------

    def topic_state(self, topic: str) -> BrokerTopic | None:
        """None where there is no such topic."""
        with self._explained("describe topic"):
            names = self._kafka.TopicCollection([topic])
            try:
                (description,) = self._connection.ask(self._admin.describe_topics, names)
            except self._kafka.KafkaException as error:
                if error.args[0].code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return None
                raise
        with self._explained("describe settings"):
            resource = self._admin_kafka.ConfigResource(self._admin_kafka.ConfigResource.Type.TOPIC, topic)
            (settings,) = self._connection.ask(self._admin.describe_configs, [resource])
            values = {name: str(entry.value) for name, entry in settings.items()}
        return BrokerTopic(str(description.topic_id), len(description.partitions), values)

    def has_ever_held_records(self, partitions: int) -> bool:
        """Whether anything was ever written to the topic, also what is deleted or was aborted."""
        return any(self._ends(self._target.topic, partitions, committed=False))

    def create_position_topic(self) -> None:
        """With one partition, compacted; as many replicas as the broker's default says."""
        topic = self._admin_kafka.NewTopic(self._target.positions, num_partitions=1, config=POSITION_SETTINGS)
        with self._explained("create topic"):
            try:
                self._connection.ask(self._admin.create_topics, [topic])
            except self._kafka.KafkaException as error:
                # Another publisher may have made it since this one looked for it.
                if error.args[0].code() != self._kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def last_position(self) -> bytes | None:
        """The last committed position of the topic. What others have open in the topic of positions is waited for,
        since a later position may be behind it.
        """
        (end,) = self._ends(self._target.positions, 1, committed=False)
        if end == 0:
            return None
        self._wait_until_stable(end)
        settings = {
            **self._connection.settings, "group.id": self._target.transactional_id,
            "enable.auto.commit": False, "isolation.level": "read_committed", "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }  # fmt: skip
        with self._explained("read the position"):
            # librdkafka makes no consumer without a group; this one is assigned its partition, and joins none.
            consumer = self._kafka.Consumer(settings)
            try:
                consumer.assign([self._kafka.TopicPartition(self._target.positions, 0, self._kafka.OFFSET_BEGINNING)])
                return self._last_of(consumer, end)
            finally:
                consumer.close()

    def _last_of(self, consumer: Any, end: int) -> bytes | None:
        # The last offsets may be markers of transactions or aborted records, which no consumer gets. So the partition's
        # end decides that all was read, and not the offset of a record.
        value, name, deadline = None, self._target.topic.encode(), time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                value = message.value() if message.key() == name else value
            elif error.code() != self._kafka.KafkaError._PARTITION_EOF:
                raise self._kafka.KafkaException(error)
            elif message.offset() >= end:
                return value
        raise self._kafka.KafkaException(self._kafka.KafkaError(self._kafka.KafkaError._TIMED_OUT))

    def _wait_until_stable(self, end: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self._ends(self._target.positions, 1, committed=True)[0] < end:
            if time.monotonic() > deadline:
                place = f"Kafka topic {self._target.positions}"
                expected, got = "no transaction that is open", "one of another client, which has not ended"
                raise PublishError(place, expected, got, "publish again once it has ended, or give the topic its own")
            time.sleep(_POLL_S)

    def _ends(self, topic: str, partitions: int, *, committed: bool) -> list[int]:
        """Of every partition the offset behind its last record, or behind the last one that may be read."""
        self._on_call("list offsets")
        latest = self._admin_kafka.OffsetSpec.latest()
        with self._failing("list offsets"):
            wait_for_leaders(self._connection, topic, partitions)
            return offsets(self._connection, topic, range(partitions), latest, committed=committed)

    # --- transactions ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Become the topic's publisher: what an earlier one has open is aborted, and it is fenced from then on."""
        settings = {
            **self._connection.settings, "transactional.id": self._target.transactional_id,
            "enable.idempotence": True, "acks": "all",
        }  # fmt: skip
        with self._explained("init transactions"):
            self._producer = self._kafka.Producer(settings)
            self._patiently(lambda: self._producer.init_transactions(PATIENCE_S))

    def send(self, rows: OutgoingRows | None, position: bytes) -> None:
        """One transaction: all of ``rows``, and the position that holds then. What fails is aborted."""
        try:
            with self._explained("begin transaction"):
                self._producer.begin_transaction()
            if rows is not None:
                self._produce(rows)
            with self._explained("produce position"):
                self._producer.produce(self._target.positions, position, self._target.topic.encode(), 0)
            with self._explained("commit transaction"):
                self._patiently(lambda: self._producer.commit_transaction(PATIENCE_S))
        # A fenced producer can abort nothing, and whoever has fenced it has aborted its transaction.
        except PublisherFenced:
            raise
        except BaseException:
            self._abort()
            raise

    def _produce(self, rows: OutgoingRows) -> None:
        produce, poll, topic, on_call = self._producer.produce, self._producer.poll, self._target.topic, self._on_call
        with self._failing("produce"):
            for partition, key, value, time_ms, headers in rows.records():
                on_call("produce")
                while True:
                    try:
                        produce(topic, value, key, partition, timestamp=time_ms, headers=headers or [])
                        break
                    except BufferError:  # until the broker has taken some
                        poll(_POLL_S)
            poll(0)

    def _abort(self) -> None:
        """What is left open ends by itself, at its timeout or when the next publisher begins."""
        try:
            self._on_call("abort transaction")
            self._producer.abort_transaction(PATIENCE_S)
        except self._kafka.KafkaException:
            pass

    def _patiently(self, ask: Callable[[], Any]) -> None:
        """Ask again where the client says that it may: the request continues from where it was."""
        for _ in range(_COMMIT_TRIES - 1):
            try:
                ask()
            except self._kafka.KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return
        ask()

    # --- errors ----------------------------------------------------------------------------------------------

    @contextmanager
    def _explained(self, call: str) -> Iterator[None]:
        """Of one request."""
        self._on_call(call)
        with self._failing(call):
            yield

    @contextmanager
    def _failing(self, call: str) -> Iterator[None]:
        try:
            yield
        except self._kafka.KafkaException as error:
            raise self._said(call, error.args[0]) from error
        except (TimeoutError, ValueError) as error:
            raise self._error(call, f"{type(error).__name__}: {error}") from error

    def _said(self, call: str, error: Any) -> PublishError:
        codes = self._kafka.KafkaError
        error = self._fatal_error() if error.code() == codes._FATAL else error
        if error.code() in (codes._FENCED, codes.INVALID_PRODUCER_EPOCH, codes.PRODUCER_FENCED):
            return PublisherFenced(
                f"Kafka topic {self._target.topic}", "to be its only publisher",
                "another one that began since, or a transaction longer than transaction.timeout.ms",
                "let the other one finish, then publish again: what it did is not done twice",
            )  # fmt: skip
        return self._error(call, self._connection.said(error))

    def _fatal_error(self) -> Any:
        """Why the producer can do nothing more; it says so when a transaction is to begin."""
        try:
            self._producer.begin_transaction()
        except self._kafka.KafkaException as error:
            return error.args[0]
        return self._kafka.KafkaError(self._kafka.KafkaError._FATAL)

    def _error(self, call: str, got: str) -> PublishError:
        place = f"Kafka at {self._target.bootstrap_servers}, topic {self._target.topic}, {call}"
        next_step = "check that the broker runs, its address, rights, and the client settings; then publish again"
        return PublishInterrupted(place, "an answer", got, next_step)
