"""A publisher that died within an increment is not continued by counting rows of which some were erased since."""

from dataclasses import replace

import pytest

from kstreams_replay.jobs.branches.erasure import erase
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import done_row
from kstreams_replay.jobs.publish.committed_rows import CommittedOutput
from kstreams_replay.jobs.publish.position import Position
from kstreams_replay.jobs.publish.published_output import PublishedOutput
from kstreams_replay.jobs.publish.publishing import PublishSettings, _steps
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.state.errors import PublishError
from kstreams_replay.state.tables.sought import Sought
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

KEYS = ("ann.lee/4711", "bob.lee/4712", "eve.lee/4713")


def forwarded() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.string())).to("out")
    return builder.build()


@pytest.fixture
def begun(warehouse) -> tuple[Warehouse, Position]:
    """One increment of three rows, of which one was published."""
    plant(warehouse, "in", [LandedRecord(0, key.encode(), b"v", 1) for key in KEYS], partitions=1)
    list(replay(warehouse, forwarded(), pipeline="p", runner=LocalRunner()))
    return warehouse, Position("p", "out", "ledger", "topic", 1, as_of=1, through=0, increment=1, rows=1)


def published(warehouse: Warehouse, position: Position) -> list[bytes]:
    """Keys that are to come."""
    output = PublishedOutput(forwarded(), "out")
    committed = CommittedOutput(warehouse, "p", output, done_row(warehouse, "p", None, of=[output.table]))
    steps = _steps(committed, position, PublishSettings())
    return [key for step in steps if step.rows is not None for key in step.rows.key.to_pylist()]


def test_the_rows_that_follow_are_published(begun):
    assert published(*begun) == [key.encode() for key in KEYS[1:]]


@pytest.mark.parametrize("key", KEYS)
def test_after_an_erasure_it_is_refused(begun, key):
    warehouse, position = begun
    erase(warehouse, ["in"], Sought((key.encode(),)), "request 4711", by="tests", delete=True)

    with pytest.raises(PublishError, match=r"rows of the output that increment 2 erased since.*new topic"):
        published(warehouse, position)


def test_whole_increments_are_published_on_after_an_erasure(begun):
    warehouse, position = begun
    erase(warehouse, ["in"], Sought((KEYS[0].encode(),)), "request 4711", by="tests", delete=True)
    plant(warehouse, "in", [LandedRecord(0, b"new", b"v", 2)], partitions=1)
    list(replay(warehouse, forwarded(), pipeline="p", runner=LocalRunner()))

    assert published(warehouse, replace(position, through=1, increment=0, rows=0)) == [b"new"]
