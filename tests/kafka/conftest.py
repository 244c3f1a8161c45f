"""The broker that the Kafka tests share: topics have the names of their tests, so tests do not meet."""

from collections.abc import Iterator

import pytest

from tests.kafka.broker import Broker, running_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Apache Kafka broker, started once a test run."""
    with running_broker(tmp_path_factory.mktemp("broker")) as started:
        yield started
