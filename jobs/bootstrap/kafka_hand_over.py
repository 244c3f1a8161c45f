"""A state of an application written to a broker: changelog topics, and the offsets of the application's group.

Owns that transaction. Rule: the application is a new one: nothing of its id holds a record or an offset. Records and
offsets are in one transaction, so that an application sees all of them or none. What another application has stays as
it is, so that it can be started again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...state.errors import BootstrapError
from ...state.kafka.connection import wait_for_leaders
from ...state.kafka.group_offsets import GroupOffset, send_to_transaction
from ...state.times import NO_TIMESTAMP_MS
from ...state.wall_clock import now_ms
from ..operators.base.changelogs import Changelog
from .application_state import ApplicationState
from .kafka_application import PATIENCE_S, ApplicationClient, KafkaApplication

_TRANSACTION_MS = 900_000
"""As long as a broker lets a transaction be by default (transaction.max.timeout.ms)."""
_OF_ALL = {"message.timestamp.type": "CreateTime"}
_OF_REPARTITIONS = {"cleanup.policy": "delete", "segment.bytes": "52428800", "retention.ms": "-1"}
"""Settings that Kafka Streams gives every topic of its own (InternalTopicConfig), and repartition topics."""
_POLL_S = 0.1
_ROWS_AT_ONCE = 1 << 16
"""That are objects of Python at a time."""


@dataclass(frozen=True)
class HandOverReport:
    """``application_id`` begins with ``records`` of changelogs, by store, at ``offsets``, by topic and partition, those
    of its own repartition topics left out.
    """

    application_id: str
    records: Mapping[str, int]
    offsets: Mapping[str, Mapping[str, int]]


def report_of(state: ApplicationState) -> HandOverReport:
    """What is written of ``state``."""
    records = {store: sum(map(len, partitions)) for store, partitions in state.changelogs.items()}
    read = {topic: each for topic, each in state.positions.items() if topic not in state.unread}
    offsets = {topic: {str(p): at.offset for p, at in each.items()} for topic, each in read.items()}
    return HandOverReport(state.application_id, records, offsets)


def hand_over(
    state: ApplicationState,
    application: KafkaApplication,
    settings: Mapping[str, Mapping[str, str]],
    *,
    dry_run: bool = False,
    say: Callable[[str], None] = lambda step: None,
) -> HandOverReport:
    """Let ``application``, which has never run, begin with ``state``. ``settings``: of the changelog of each store.
    ``dry_run``: look whether it can, and write nothing. ``say``: called with the step.

    Raises BootstrapError for an application that has records or offsets, and for topics that the broker does not have
    as they landed. So it does for times that the client cannot send, and where the broker does not answer.
    """
    for partitions in state.changelogs.values():
        for log in partitions:
            _refuse_times(log)
    work = _HandOver(state, ApplicationClient(application, say), say)
    # before the look at offsets, which waits for the end of what a dead hand-over began
    producer = None if dry_run else work.producer()
    work.refuse_used()
    if producer is not None:
        work.make_topics(settings)
        work.write(producer)
    return report_of(state)


class _HandOver:
    def __init__(self, state: ApplicationState, client: ApplicationClient, say: Callable[[str], None]) -> None:
        self.state, self.client, self.say = state, client, say
        self.topics = {store: f"{state.application_id}-{store}-changelog" for store in state.changelogs}
        self.repartitions = {topic: f"{state.application_id}-{topic}" for topic in state.unread}
        partitions = {self.topics[store]: len(logs) for store, logs in state.changelogs.items()}
        self.wanted = partitions | {self.repartitions[topic]: len(logs) for topic, logs in state.unread.items()}

    def producer(self) -> Any:
        """The one of the transaction. It aborts what a hand-over that died has begun, and shuts out one that lives."""
        own = {
            "transactional.id": f"replay-hand-over-{self.state.application_id}", "acks": "all",
            "transaction.timeout.ms": _TRANSACTION_MS,
        }  # fmt: skip
        with self.client.failing("begin a transaction"):
            producer = self.client.kafka.Producer({**self.client.settings, **own})
            producer.init_transactions(PATIENCE_S)
        return producer

    def refuse_used(self) -> None:
        """What somebody else has written of the application's id is never written over."""
        state, client = self.state, self.client
        client.refuse_running()
        self.there = client.partitions()
        for topic, positions in state.positions.items():
            if topic not in self.repartitions and self.there.get(topic) != len(positions):
                got = f"{self.there.get(topic, 'no')} partitions"
                next_step = "hand over to the broker from which it was landed"
                raise BootstrapError(f"{client.place}, topic {topic!r}", f"{len(positions)} partitions", got, next_step)
        ids = client.topic_ids(state.positions.keys() - self.repartitions.keys())
        state.refuse_other_topics(ids, client.place, "hand over to the broker from which it was landed")
        # One that is there and empty: a hand-over that died made it, with as many partitions as it will have.
        for topic, wanted in self.wanted.items():
            if self.there.get(topic, wanted) != wanted:
                expected, got = f"{wanted} partitions, as the state has, or no topic", f"{self.there[topic]} partitions"
                raise BootstrapError(f"{client.place}, topic {topic!r}", expected, got, "delete the topic")
        own = client.own_topics(self.there).values()
        begins = {(topic, n): client.kafka.OFFSET_BEGINNING for topic in own for n in range(self.there[topic])}
        read = client.read(begins) if begins else {}
        used = [topic for (topic, _), changelog in read.items() if len(changelog)]
        if client.positions_of(self.there):
            used.append("committed offsets")
        if used:
            expected, got = "an application that has nothing yet", ", ".join(dict.fromkeys(used))
            next_step = "give another application.id, and start the application with it; the present one stays as it is"
            raise BootstrapError(client.place, expected, got, next_step)

    def make_topics(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Those that are missing, with as many replicas as the broker's default says."""
        given = {self.topics[store]: self._kept(store, dict(own)) for store, own in settings.items()}
        given |= dict.fromkeys(self.repartitions.values(), _OF_REPARTITIONS)
        asked = [
            self.client.new_topic(topic, num_partitions=count, config={**_OF_ALL, **given[topic]})
            for topic, count in self.wanted.items()
            if topic not in self.there
        ]
        with self.client.failing("create topics"):
            if asked:
                self.client.connection.ask(self.client.admin.create_topics, asked)
            for topic in self.repartitions.values():  # no offset is taken of a topic that the broker does not know yet
                wait_for_leaders(self.client.connection, topic, self.wanted[topic])

    def _kept(self, store: str, settings: dict[str, str]) -> dict[str, str]:
        """With times that keep records of the past as long as the application would: both go by the records' times."""
        oldest = [int(log.time_ms.min()) for log in self.state.changelogs[store] if len(log)]
        age_ms = max(now_ms() - min(oldest), 0) if oldest else 0
        for name in ("retention.ms", "min.compaction.lag.ms"):
            if name in settings:
                settings[name] = str(int(settings[name]) + age_ms)
        return settings

    def write(self, producer: Any) -> None:
        """All records and offsets, in one transaction."""
        client, state = self.client, self.state
        with client.failing("write changelogs"):
            producer.begin_transaction()
            for store, partitions in state.changelogs.items():
                self.say(f"writing {self.topics[store]}")
                for partition, log in enumerate(partitions):
                    _produce(producer, self.topics[store], partition, log)
            offsets = [
                GroupOffset(self.repartitions.get(topic, topic), partition, position.offset, position.metadata)
                for topic, positions in state.positions.items()
                for partition, position in positions.items()
            ]
            send_to_transaction(producer, state.application_id, offsets, PATIENCE_S)
            producer.commit_transaction(PATIENCE_S)


def _produce(producer: Any, topic: str, partition: int, log: Changelog) -> None:
    for begin in range(0, len(log), _ROWS_AT_ONCE):
        columns = [column.slice(begin, _ROWS_AT_ONCE).to_pylist() for column in (log.key, log.value)]
        times = np.maximum(log.time_ms[begin : begin + _ROWS_AT_ONCE], 0).tolist()  # 0: that of the client's clock
        for key, value, time_ms, headers in zip(*columns, times, _headers(log, begin, len(times)), strict=True):
            while True:
                try:
                    producer.produce(topic, value, key, partition, timestamp=time_ms, headers=headers)
                    break
                except BufferError:  # until the broker has taken some
                    producer.poll(_POLL_S)
        producer.poll(0)


def _headers(log: Changelog, begin: int, rows: int) -> list[list[tuple[str, bytes | None]]]:
    """Name and value, of ``rows`` from ``begin`` on."""
    if log.headers is None:
        return [[]] * rows
    listed = log.headers.slice(begin, rows).to_pylist()
    return [[(one["key"], one["value"]) for one in headers or ()] for headers in listed]


def _refuse_times(log: Changelog) -> None:
    """librdkafka sends the wall clock's time in the place of 0."""
    known = log.time_ms[log.time_ms != NO_TIMESTAMP_MS]
    if len(known) and known.min() <= 0:
        got, next_step = f"{known.min()} ms", "leave the record out (replay exclude)"
        raise BootstrapError(f"changelog {log.topic}", "record times from 1 ms on", got, next_step)
