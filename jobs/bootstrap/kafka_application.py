"""An application's state at a broker: what its group has committed, its changelogs, and its repartition topics.

Owns the conversation with the broker (librdkafka), which writes nothing. Rule: a group that runs is refused, since its
changelogs are ahead of its commits then. Of transactions only what is committed is read, once none is open.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...state.argument_types import checked_types
from ...state.errors import BootstrapError
from ...state.hidden_values import hide
from ...state.kafka.committed_records import CommittedRecords, ReadFailedError, Records
from ...state.kafka.connection import Connection, as_java_says, offsets, topic_state, wait_for_leaders
from ...state.kafka.group_offsets import committed
from ...state.tables.warehouse import HEADERS
from ..operators.base.changelogs import Changelog
from .application_state import ApplicationState, CommittedPosition

PATIENCE_S = 60.0
"""How long an answer may take."""
OPEN_S = 60.0
"""How long another's open transaction is waited for: the broker ends those of Kafka Streams after some 10 s."""
BYTES_MAX = 2**31 - 1
"""Of the keys, and of the values, of a changelog's partition."""
_POLL_S = 0.1
_CHANGELOG = "-changelog"
_BETWEEN = re.compile(r"-repartition$|subscription-(registration|response)(-[0-9]{10})?-topic$", re.IGNORECASE)
"""Topics between an application's tasks: of repartitions, and of joins by foreign key."""


@dataclass(frozen=True)
class KafkaApplication:
    """An application of a broker. ``bootstrap_servers``: "host:port", several with commas. ``application_id``: its
    ``application.id``, which is its group's name. ``options``: settings of the client, as librdkafka or Java's
    clients name them; they are never written down, and what is a credential among them is not shown.
    """

    bootstrap_servers: str
    application_id: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        hide(self.options)


@checked_types
def read_application(application: KafkaApplication, say: Callable[[str], None] = lambda step: None) -> ApplicationState:
    """What a task of ``application`` would begin with now. ``say``: called with the step.

    Raises BootstrapError for a group that runs, or is not there, and where the broker does not answer; MachineError
    without Kafka's client, ConfigError for a setting that it does not know.
    """
    return ApplicationClient(application, say).state()


class ApplicationClient:
    """Of one application. Errors are BootstrapError, with the broker's sentence. ``say``: called with the step."""

    def __init__(self, application: KafkaApplication, say: Callable[[str], None]) -> None:
        self.application, self.say = application, say
        self.connection = Connection(application.bootstrap_servers, application.options, PATIENCE_S)
        self.kafka, self.admin = self.connection.kafka, self.connection.admin
        self.settings, self.new_topic = self.connection.settings, self.connection.admin_kafka.NewTopic
        self.place = f"Kafka at {application.bootstrap_servers}, application {application.application_id!r}"

    def state(self) -> ApplicationState:
        """As of ``read_application``."""
        self.refuse_running()
        counts = self.partitions()
        positions = self.positions_of(counts)
        if not positions:
            next_step = "check the id (application.id); what has committed nothing is replayed from the first record"
            raise BootstrapError(self.place, "a group that has committed offsets", "none", next_step)
        own = self.own_topics(counts)
        logs = {name: topic for name, topic in own.items() if name.endswith(_CHANGELOG)}
        between = {name: topic for name, topic in own.items() if _BETWEEN.search(name)}
        begins = {(topic, n): self.kafka.OFFSET_BEGINNING for topic in logs.values() for n in range(counts[topic])}
        for topic in between.values():
            known = positions.get(topic, {})
            begins |= {(topic, n): known.get(n, CommittedPosition(0)).offset for n in range(counts[topic])}
        self._wait_until_decided({topic: counts[topic] for topic in (*logs.values(), *between.values())})
        read = self.read(begins)
        shown = {topic: name for name, topic in between.items()}
        return ApplicationState(
            self.application.application_id,
            {shown.get(topic, topic): of_topic for topic, of_topic in positions.items()},
            {
                name.removesuffix(_CHANGELOG): [read[topic, n] for n in range(counts[topic])]
                for name, topic in logs.items()
            },
            {name: [read[topic, n] for n in range(counts[topic])] for name, topic in between.items()},
            self.topic_ids(set(counts) - set(own.values())),  # also without positions: they go with a topic
        )

    def own_topics(self, topics: Iterable[str]) -> dict[str, str]:
        """Those of ``topics`` that are of the application, by their names without its id, in order of names.

        Not those of another group of the broker whose name begins with this id and a hyphen: ``orders-2`` beside
        ``orders``. Kafka names a topic by the id, a hyphen and the store, so the names alone do not say whose they are.
        """
        prefix = f"{self.application.application_id}-"
        with self.failing("list groups"):
            (listed,) = self.connection.ask(self.admin.list_consumer_groups)
        others = tuple(f"{group.group_id}-" for group in listed.valid if group.group_id.startswith(prefix))
        own = (name for name in sorted(topics) if name.startswith(prefix) and not name.startswith(others))
        return {name.removeprefix(prefix): name for name in own}

    def refuse_running(self) -> None:
        """Raises BootstrapError while the application's group has members."""
        group = self.application.application_id
        with self.failing("describe group"):
            (described,) = self.connection.ask(self.admin.describe_consumer_groups, [group])
        if described.members:
            got, next_step = f"{len(described.members)} members that are in it", "stop the application"
            raise BootstrapError(self.place, "a group that does not run", got, next_step)

    def positions_of(self, counts: Mapping[str, int]) -> dict[str, dict[int, CommittedPosition]]:
        """By topic and partition, as far as something was committed. ``counts``: partitions of every topic there is."""
        asked = [(topic, n) for topic, count in counts.items() for n in range(count)]
        with self.failing("read committed offsets"), self.consumer() as consumer:
            answers = self.connection.again_while_passing(lambda: committed(consumer, asked, PATIENCE_S))
        positions: dict[str, dict[int, CommittedPosition]] = {}
        for one in answers:
            if one.offset >= 0:
                positions.setdefault(one.topic, {})[one.partition] = CommittedPosition.of(one.offset, one.metadata)
        return positions

    def partitions(self) -> dict[str, int]:
        """How many each topic has."""
        with self.failing("list topics"):
            return {
                name: len(topic.partitions) for name, topic in self.admin.list_topics(timeout=PATIENCE_S).topics.items()
            }

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Of topics that are there, Kafka's own left out."""
        asked = sorted(topic for topic in topics if not topic.startswith("__"))
        if not asked:
            return {}
        with self.failing("describe topics"):
            described = self.connection.ask(self.admin.describe_topics, self.kafka.TopicCollection(asked))
        return {topic.name: as_java_says(str(topic.topic_id)) for topic in described}

    def read(self, begins: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], Changelog]:
        """Committed records by topic and partition, from the offsets ``begins`` (-2: the first) up to their ends."""
        changelogs: dict[tuple[str, int], Changelog] = {}
        for topic in dict.fromkeys(topic for topic, _ in begins):
            pieces: dict[int, list[Records]] = {n: [] for name, n in begins if name == topic}
            ranges = self._ranges(topic, {n: begins[topic, n] for n in pieces})
            try:
                with CommittedRecords(self.connection.plain, topic, ranges, PATIENCE_S) as records:
                    for each in records:
                        pieces[each.partition].append(each)
            except ReadFailedError as error:
                raise self._no_answer(f"read {topic}", str(error)) from error
            for partition, read in pieces.items():
                self._refuse_large(topic, partition, read)
                changelogs[topic, partition] = _changelog(topic, read)
            self.say(f"read {sum(map(len, changelogs.values())):,} records of changelogs")
        return changelogs

    def _refuse_large(self, topic: str, partition: int, read: Sequence[Records]) -> None:
        for name in ("key", "value"):
            got = sum(pc.sum(pc.binary_length(getattr(each, name))).as_py() or 0 for each in read)
            if got > BYTES_MAX:
                raise BootstrapError(
                    f"{self.place}, topic {topic!r}, partition {partition}",
                    f"{BYTES_MAX:,} bytes of {name}s at most, as many as a column of Arrow takes",
                    f"{got:,}", "let the broker compact the topic, and give the command again",
                )  # fmt: skip

    def _wait_until_decided(self, counts: Mapping[str, int]) -> None:
        """Until no transaction is open in topics of so many partitions: nobody reads what is behind one, and offsets
        that were committed with it may be there before its records. Raises BootstrapError for one that does not end.
        """
        deadline = time.monotonic() + OPEN_S
        for topic, count in counts.items():
            while (open_at := self._open_transaction(topic, count)) is not None:
                if time.monotonic() > deadline:
                    next_step = "find it (kafka-transactions.sh find-hanging), abort it, and give the command again"
                    raise BootstrapError(
                        f"{self.place}, topic {topic!r}", "no transaction that is open",
                        f"one at offset {open_at[1]} of partition {open_at[0]}, which has not ended", next_step,
                    )  # fmt: skip
                time.sleep(_POLL_S)

    def _open_transaction(self, topic: str, count: int) -> tuple[int, int] | None:
        """A partition, and the offset from which on its records are not decided."""
        latest = self.connection.admin_kafka.OffsetSpec.latest()
        with self.failing(f"ask for offsets of {topic}"):
            wait_for_leaders(self.connection, topic, count)
            stable = offsets(self.connection, topic, range(count), latest)
            ends = offsets(self.connection, topic, range(count), latest, committed=False)
        return next(((n, stable[n]) for n in range(count) if stable[n] < ends[n]), None)

    def _ranges(self, topic: str, begins: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """Of each partition its first offset that is there, ``begins`` at least, and that behind its last one."""
        with self.failing(f"ask for offsets of {topic}"):
            state = topic_state(self.connection, topic)
        # Up to the last stable offset: no record of an open transaction is before it, so what is there is all decided.
        return {n: (max(begin, state.earliest[n]), state.stable[n]) for n, begin in begins.items()}

    @contextmanager
    def consumer(self) -> Iterator[Any]:
        """One that is in the application's group by name, and joins it never."""
        own = {"group.id": self.application.application_id, "enable.auto.commit": False}
        consumer = self.kafka.Consumer({**self.settings, **own})
        try:
            yield consumer
        finally:
            consumer.close()

    @contextmanager
    def failing(self, call: str) -> Iterator[None]:
        """Around requests that ``call`` names."""
        try:
            yield
        except self.kafka.KafkaException as error:
            raise self._no_answer(call, self.connection.said(error.args[0])) from error

    def _no_answer(self, call: str, said: str) -> BootstrapError:
        next_step = "check that the broker runs, its address, rights, and the client settings"
        return BootstrapError(f"{self.place}, {call}", "an answer", said, next_step)


def _changelog(topic: str, read: Sequence[Records]) -> Changelog:
    """All of a partition."""
    if not read:
        return Changelog.empty(topic)
    names = ("key", "value", "headers")
    key, value, headers = (pa.concat_arrays([getattr(each, name) for each in read]) for name in names)
    has_headers = len(headers.flatten()) > 0
    time_ms = np.concatenate([each.time_ms for each in read])
    return Changelog(topic, key, value, time_ms, headers.cast(HEADERS) if has_headers else None)
