"""Groups of a broker: nothing begins with the state of one that runs, and nothing is handed over to it. Topics of
another application are not those of this one, though they begin with its name.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer

from examples.broker import Broker
from kstreams_replay.jobs.bootstrap import kafka_application
from kstreams_replay.jobs.bootstrap.application_state import ApplicationState, CommittedPosition
from kstreams_replay.jobs.bootstrap.bootstrapping import bootstrap
from kstreams_replay.jobs.bootstrap.handing_over import state_of_pipeline
from kstreams_replay.jobs.bootstrap.kafka_application import KafkaApplication, read_application
from kstreams_replay.jobs.bootstrap.kafka_hand_over import hand_over
from kstreams_replay.jobs.operators.base.changelogs import Changelog
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import BootstrapError
from tests.bootstrap import kept
from tests.kafka.producing import Producing

pytestmark = [pytest.mark.jvm, pytest.mark.every_run]

WAIT_S = 60.0
RUNS = "expected a group that does not run, got 1 members that are in it; stop the application"


@contextmanager
def running(broker: Broker, group: str, topic: str, *, commits: bool) -> Iterator[None]:
    """In the block the group has a member, which has read the record of ``topic``; behind it the group is empty."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "log_level": 0,
        }
    )  # fmt: skip
    deadline = time.monotonic() + WAIT_S
    try:
        consumer.subscribe([topic])
        while (message := consumer.poll(1)) is None or message.error() is not None:
            assert time.monotonic() < deadline, f"group {group} did not begin"
        if commits:
            consumer.commit(message=message, asynchronous=False)
        yield
    finally:
        consumer.close()
    admin = broker.admin()
    while admin.describe_consumer_groups([group])[group].result(30).members:
        assert time.monotonic() < deadline + WAIT_S, f"group {group} did not end"


@pytest.fixture
def sent(broker, topic) -> str:
    """A topic of one partition and one record."""
    broker.create_topic(topic)
    Producing(broker, topic).send([b"x"], key=b"a")
    return topic


def reading(topic: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream(topic, Consumed(Serde.string(), Serde.string())).to("out")
    return builder.build()


def removed(broker: Broker, topic: str) -> None:
    """Until nobody finds it."""
    admin, deadline = broker.admin(), time.monotonic() + WAIT_S
    admin.delete_topics([topic])[topic].result(30)
    while topic in admin.list_topics(timeout=30).topics:
        assert time.monotonic() < deadline, f"topic {topic} is still there"


def test_a_bootstrap_refuses_a_group_that_runs(broker, sent, warehouse, capsys):
    application = KafkaApplication(broker.bootstrap_servers, "runs-and-was-read")
    place = ["--warehouse", warehouse.root, "--pipeline", "p", "--dry-run"]
    servers = ["--kafka", broker.bootstrap_servers, "--application-id", application.application_id]

    with running(broker, application.application_id, sent, commits=True):
        assert main(["bootstrap", f"{kept.__file__}:totals", *servers, *place]) == 1
        assert RUNS in capsys.readouterr().err

    positions = read_application(application).positions
    assert {topic: {p: at.offset for p, at in found.items()} for topic, found in positions.items()} == {sent: {0: 1}}


def test_a_hand_over_refuses_a_group_that_runs(broker, sent):
    application = KafkaApplication(broker.bootstrap_servers, "runs-and-was-given")
    counts = Changelog("counts", pa.array([b"a"], pa.binary()), pa.array([b"1"], pa.binary()), np.array([5], np.int64))
    state = ApplicationState(application.application_id, {sent: {0: CommittedPosition(1, 5)}}, {"counts": [counts]}, {})

    with running(broker, application.application_id, sent, commits=False):
        for dry_run in (True, False):
            with pytest.raises(BootstrapError) as refused:
                hand_over(state, application, {"counts": {}}, dry_run=dry_run)
            assert RUNS in str(refused.value)

    assert hand_over(state, application, {"counts": {}}).records == {"counts": 1}


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_transaction_that_is_open_in_a_changelog_is_waited_for(broker, sent, monkeypatch, is_committed):
    """What is behind it would be missed, though the offsets of the group are behind it."""
    application_id = f"open-{is_committed}"
    application = KafkaApplication(broker.bootstrap_servers, application_id)
    changelog = broker.create_topic(f"{application_id}-counts-changelog")
    with running(broker, application_id, sent, commits=True):
        pass
    hanging, other = (broker.producer(transactional_id=f"{application_id}-{name}") for name in ("hanging", "other"))
    for producer, key in ((hanging, b"hanging"), (other, b"other")):
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        producer.produce(changelog, b"1", key, 0, timestamp=5)
        producer.flush(WAIT_S)
    other.commit_transaction(WAIT_S)
    monkeypatch.setattr(kafka_application, "OPEN_S", 0.0)

    with pytest.raises(BootstrapError, match=r"'open-.*-changelog': expected no transaction .* got one at offset 0"):
        read_application(application)
    monkeypatch.undo()
    (hanging.commit_transaction if is_committed else hanging.abort_transaction)(WAIT_S)

    (log,) = read_application(application).changelogs["counts"]
    assert log.key.to_pylist() == [b"hanging", b"other"][not is_committed :]


@pytest.mark.parametrize("is_read", [True, False])
def test_a_topic_that_was_made_again_is_another_one(broker, sent, warehouse, is_read):
    """Whether or not the group has read the new one; with a topic its committed offsets go."""
    application = KafkaApplication(broker.bootstrap_servers, f"again-{is_read}")
    with running(broker, application.application_id, sent, commits=True):
        pass
    place = ["--warehouse", warehouse.root]
    assert main(["land", sent, *place, "--kafka", broker.bootstrap_servers]) == 0
    topology = reading(sent)
    assert bootstrap(warehouse, topology, read_application(application), pipeline="p").rows == {}
    given = state_of_pipeline(warehouse, topology, "p", application_id=f"new-{is_read}")
    other = broker.create_topic(f"{sent}-other")
    Producing(broker, other).send([b"x"], key=b"a")
    with running(broker, application.application_id, other, commits=True):
        removed(broker, sent)
    broker.create_topic(sent)
    if is_read:
        Producing(broker, sent).send([b"x"], key=b"a")
        with running(broker, application.application_id, sent, commits=True):
            pass

    for refused in (
        lambda: bootstrap(warehouse, topology, read_application(application), pipeline="again"),
        lambda: hand_over(given, KafkaApplication(broker.bootstrap_servers, f"new-{is_read}"), {}, dry_run=True),
    ):
        with pytest.raises(BootstrapError, match=f"topic '{sent}': expected the topic of id .*, got another one"):
            refused()


def test_topics_of_an_application_whose_id_begins_alike_are_its_own(broker, sent):
    """Orders and orders-2, as after a hand-over from the first to the second."""
    ids = "alike", "alike-2", "alike-2-b"
    applications = {each: KafkaApplication(broker.bootstrap_servers, each) for each in ids}

    def state(application_id: str, key: bytes) -> ApplicationState:
        log = Changelog("counts", pa.array([key], pa.binary()), pa.array([b"1"], pa.binary()), np.array([5], np.int64))
        return ApplicationState(application_id, {sent: {0: CommittedPosition(1, 5)}}, {"counts": [log]}, {})

    for key, each in zip((b"c", b"b", b"a"), reversed(ids), strict=True):  # the last one is not taken for a used one
        hand_over(state(each, key), applications[each], {"counts": {}})

    for key, each in zip((b"a", b"b", b"c"), ids, strict=True):
        found = read_application(applications[each]).changelogs
        assert {store: [log.key.to_pylist() for log in logs] for store, logs in found.items()} == {"counts": [[key]]}
