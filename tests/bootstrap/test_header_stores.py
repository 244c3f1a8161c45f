"""Stores that keep headers (``dsl.store.format=HEADERS``, KIP-1271) at a real broker: a pipeline begins with what such
an application has left, and such an application begins with the state of a pipeline.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_replay.state.kafka_version import JUDGES
from tests.bootstrap import kept
from tests.bootstrap.test_bootstrap import APPLICATIONS
from tests.bootstrap.test_live import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PROGRAM,
    broker,
    writes_as_the_application,
    writes_as_the_first,
)
from tests.jvm.streams import compiled, streams_of

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.xdist_group("bootstrap")]
__all__ = ["broker"]


@pytest.fixture(scope="module")
def version() -> str:
    return JUDGES[-1]


@pytest.fixture(scope="module")
def command(version: str) -> Iterator[list[str]]:
    with compiled(PROGRAM, APPLICATIONS, packages=(streams_of(version),)) as words:
        yield [*words[:-1], "-Ddsl.store.format=HEADERS", words[-1]]


@pytest.mark.parametrize(
    "twin",
    [kept.totals, kept.closing, kept.versions, kept.streams, kept.tables, kept.processor],
    ids=lambda twin: twin.__name__,
)
def test_a_pipeline_begins_with_stores_that_have_headers(twin, broker, command, tmp_path):
    writes_as_the_application(twin, "killed", EXACTLY_ONCE, broker, command, tmp_path)

    assert keeps_headers(tmp_path / "first") == (twin is not kept.processor)  # whose stores name their own formats


@pytest.mark.parametrize(
    "twin",
    [kept.totals, kept.windows, kept.sessions, kept.closing, kept.streams, kept.processor],
    ids=lambda twin: twin.__name__,
)
def test_an_application_whose_stores_have_headers_begins_with_a_pipeline(twin, broker, command, tmp_path):
    writes_as_the_first(twin, AT_LEAST_ONCE, broker, command, tmp_path)


def keeps_headers(folder: Path) -> bool:
    """Whether a RocksDB of the application has a column family for values with headers. In the changelog they cannot be
    seen: aggregates and tables log none (KStreamAggregate, KTableSource of 4.4.0).
    """
    return any(b"eaders" in manifest.read_bytes() for manifest in folder.rglob("MANIFEST-*"))
