"""What every test may ask for. Rule: one Spark session a test run, started by the first test that needs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from state.tables import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Warm copies of this test run alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPLAY_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of the test run, on two cores; mark the test ``jvm``."""
    from jobs.spark import open_spark  # here, so that tests without a JVM do not import Spark

    session = open_spark("local[2]", app_name="replay-tests")
    yield session
    session.stop()


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """An empty warehouse of this test alone."""
    return Warehouse(str(tmp_path / "warehouse"))


SLOW_FOLDERS = ("laws", "dagster")
"""Their tests run whole pipelines many times, so `.ci/run fast` leaves them out."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs Java stays in one process (``--dist loadgroup``): one Spark session, one broker, one fetch of jars."""
    for item in items:
        if item.get_closest_marker("jvm"):
            item.add_marker(pytest.mark.xdist_group("jvm"))
        if item.path.parent.name in SLOW_FOLDERS:
            item.add_marker(pytest.mark.slow)
