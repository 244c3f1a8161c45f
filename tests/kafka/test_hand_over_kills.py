"""A hand-over that is killed between any two requests to a real broker: all of the state is there in the end, or none,
and the same command finishes it.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource

from examples.broker import Broker
from kstreams_replay.jobs.bootstrap import kafka_application, kafka_hand_over
from kstreams_replay.jobs.bootstrap.application_state import ApplicationState, CommittedPosition
from kstreams_replay.jobs.bootstrap.kafka_application import KafkaApplication, read_application
from kstreams_replay.jobs.bootstrap.kafka_hand_over import hand_over
from kstreams_replay.jobs.operators.base.changelogs import Changelog
from kstreams_replay.state.errors import BootstrapError
from kstreams_replay.state.kafka.connection import Connection

pytestmark = [pytest.mark.jvm, pytest.mark.sampled]

TOPIC = "handed-over-clicks"
PARTITIONS = 2
REQUESTS = ("init_transactions", "create topics", "begin_transaction", *["produce"] * 4, "send_offsets_to_transaction",
            "commit_transaction")  # fmt: skip


class Killed(BaseException):
    """The process died here."""


def state_of(application_id: str) -> ApplicationState:
    """Two records of each partition of a changelog, and how far each partition of a topic was read."""
    topic = f"{application_id}-counts-changelog"
    logs = [
        Changelog(
            topic, pa.array([b"a%d" % n, b"b%d" % n], pa.binary()), pa.array([b"1", b"2"], pa.binary()),
            np.array([5, 6], np.int64),
        )
        for n in range(PARTITIONS)
    ]  # fmt: skip
    positions = {n: CommittedPosition(10 + n, 100 + n) for n in range(PARTITIONS)}
    return ApplicationState(application_id, {TOPIC: positions}, {"counts": logs}, {})


@pytest.fixture
def dying(monkeypatch) -> Callable[[int, bool], list[str]]:
    """Called with a number: the process dies before, or right behind, the request of that number. Gives what was
    requested so far.
    """

    def die_at(number: int, behind: bool) -> list[str]:
        made: list[str] = []

        def request(name: str, call: Callable[[], Any]) -> Any:
            if len(made) == number and not behind:
                raise Killed(name)
            made.append(name)
            answer = call()
            if len(made) > number and behind:
                raise Killed(name)
            return answer

        class Producer(confluent_kafka.Producer):
            def init_transactions(self, *given: Any) -> None:
                request("init_transactions", lambda: super(Producer, self).init_transactions(*given))

            def begin_transaction(self) -> None:
                request("begin_transaction", lambda: super(Producer, self).begin_transaction())

            def produce(self, *given: Any, **more: Any) -> None:
                request("produce", lambda: super(Producer, self).produce(*given, **more))
                if number < len(REQUESTS):
                    self.flush(30)  # so that the broker has it when the process dies

            def commit_transaction(self, *given: Any) -> None:
                request("commit_transaction", lambda: super(Producer, self).commit_transaction(*given))

        ask, send = Connection.ask, kafka_hand_over.send_to_transaction

        def sending(*given: Any) -> None:
            request("send_offsets_to_transaction", lambda: send(*given))

        def asking(self: Connection, method: Any, *given: Any, **more: Any) -> Any:
            if method.__name__ != "create_topics":
                return ask(self, method, *given, **more)
            return request("create topics", lambda: ask(self, method, *given, **more))

        monkeypatch.setattr(confluent_kafka, "Producer", Producer)
        monkeypatch.setattr(Connection, "ask", asking)
        monkeypatch.setattr(kafka_hand_over, "send_to_transaction", sending)
        return made

    return die_at


def shown(state: ApplicationState) -> tuple[Any, Any]:
    """Offsets, and records of changelogs."""
    logs = {
        name: [(log.key.to_pylist(), log.value.to_pylist(), log.time_ms.tolist()) for log in partitions]
        for name, partitions in state.changelogs.items()
    }
    return state.positions, logs


@pytest.fixture
def clicks(broker) -> None:
    if TOPIC not in broker.admin().list_topics(timeout=30).topics:
        broker.create_topic(TOPIC, PARTITIONS)


def test_a_hand_over_that_lives_makes_these_requests(broker, dying, clicks):
    made = dying(len(REQUESTS), False)

    hand_over(state_of("lives"), KafkaApplication(broker.bootstrap_servers, "lives"), {"counts": {}})

    assert made == list(REQUESTS)


@pytest.fixture
def stamping(broker) -> Iterator[None]:
    """The broker gives records of topics that say nothing else its own time."""
    admin, name = broker.admin(), "log.message.timestamp.type"
    (number,) = admin.list_topics(timeout=30).brokers

    def change(value: str | None, operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ConfigResource.Type.BROKER, str(number), incremental_configs=[entry])
        (changed,) = admin.incremental_alter_configs([resource]).values()
        changed.result(30)

    change("LogAppendTime", AlterConfigOpType.SET)
    yield
    change(None, AlterConfigOpType.DELETE)


def test_topics_have_the_settings_of_kafka_streams_and_keep_the_records_times(broker, clicks, stamping):
    """Those of InternalTopicConfig and RepartitionTopicConfig."""
    state = state_of("kept-times")
    between = {n: CommittedPosition(0, 7, {"closed": 5}) for n in range(PARTITIONS)}
    state = replace(
        state,
        positions={**state.positions, "again-repartition": between},
        unread={"again-repartition": [Changelog.empty("again-repartition")] * PARTITIONS},
    )
    application = KafkaApplication(broker.bootstrap_servers, "kept-times")

    report = hand_over(state, application, {"counts": {"cleanup.policy": "compact"}})

    kept = read_application(application)
    assert shown(kept) == shown(state)
    assert [len(log) for log in kept.unread["again-repartition"]] == [0] * PARTITIONS
    assert report.offsets == {TOPIC: {"0": 10, "1": 11}}
    assert settings_of(broker, "kept-times-counts-changelog") == {
        "cleanup.policy": "compact", "message.timestamp.type": "CreateTime",
    }  # fmt: skip
    assert settings_of(broker, "kept-times-again-repartition") == {
        "cleanup.policy": "delete", "message.timestamp.type": "CreateTime", "retention.ms": "-1",
        "segment.bytes": "52428800",
    }  # fmt: skip


def settings_of(broker: Broker, topic: str) -> dict[str, str]:
    """Those that the topic itself has."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = broker.admin()  # lives until the answer is there
    (described,) = admin.describe_configs([resource]).values()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: entry.value for name, entry in described.result(30).items() if entry.source == own}


def test_a_changelog_topic_that_has_other_partitions_is_refused_by_name(broker, clicks):
    topic = "narrow-counts-changelog"
    broker.create_topic(topic, 1)
    application = KafkaApplication(broker.bootstrap_servers, "narrow")

    with pytest.raises(BootstrapError, match=f"topic '{topic}': expected 2 partitions, .*, got 1 partitions; delete"):
        hand_over(state_of("narrow"), application, {"counts": {}}, dry_run=True)


@pytest.mark.parametrize(("least", "says"), [(1, "keys at most, .*, got 4"), (3, "keys at most"), (4, None)])
def test_a_changelog_of_more_bytes_than_a_column_takes_is_refused_by_its_partition(
    broker, clicks, monkeypatch, least, says
):
    """Two keys of two bytes in each partition, and two values of one; the limit is 2 GiB."""
    application_id = f"large-{least}"
    application = KafkaApplication(broker.bootstrap_servers, application_id)
    hand_over(state_of(application_id), application, {"counts": {}})
    monkeypatch.setattr(kafka_application, "BYTES_MAX", least)

    if says is None:
        assert shown(read_application(application)) == shown(state_of(application_id))
    else:
        with pytest.raises(BootstrapError, match=f"topic '{application_id}-counts-changelog', partition 0: .*{says}"):
            read_application(application)


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_whenever_it_dies_the_application_has_all_or_nothing_and_the_same_command_finishes_it(
    broker, dying, clicks, monkeypatch, number, behind
):
    application_id = f"dies-{number}-{behind}"
    state, application = state_of(application_id), KafkaApplication(broker.bootstrap_servers, application_id)
    is_committed = behind and REQUESTS[number] == "commit_transaction"

    dying(number, behind)
    with pytest.raises(Killed) as death:  # the dead client lives on as long as this is kept
        hand_over(state, application, {"counts": {}})
    monkeypatch.undo()

    if is_committed:
        with pytest.raises(BootstrapError, match="expected an application that has nothing yet"):
            hand_over(state, application, {"counts": {}})
    else:
        hand_over(state, application, {"counts": {}})
    assert shown(read_application(application)) == shown(state)
    assert death.value
