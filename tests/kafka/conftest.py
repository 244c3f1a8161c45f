"""The broker that the Kafka tests share: topics have the names of their tests, so no two tests share one."""

import re
from collections.abc import Iterator

import pytest

from examples.broker import Broker, running_broker
from kstreams_replay.jobs.landing.landing import KafkaSource


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Apache Kafka broker, started once a test run."""
    with running_broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture
def source(broker: Broker) -> KafkaSource:
    return KafkaSource(broker.bootstrap_servers)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic's name that no other test has."""
    return re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name.removeprefix("test_"))[:200]
