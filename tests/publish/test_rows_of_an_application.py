"""What only a live application wrote is in no table: a pipeline that has left its state corrects none of it."""

import struct

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.jobs.bootstrap.application_state import ApplicationState, CommittedPosition
from kstreams_replay.jobs.bootstrap.bootstrapping import bootstrap
from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import done_row
from kstreams_replay.jobs.operators.base.changelogs import Changelog
from kstreams_replay.jobs.publish.committed_rows import CommittedOutput
from kstreams_replay.jobs.publish.position import Position
from kstreams_replay.jobs.publish.published_output import PublishedOutput
from kstreams_replay.jobs.publish.publishing import PublishSettings, _steps
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, Topology
from kstreams_replay.state.errors import PublishError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

LOG = Changelog("app-counts-changelog", pa.array([b"a"], pa.binary()), pa.array([struct.pack(">q", 9)], pa.binary()),
                np.array([2], np.int64))  # fmt: skip
STATE = ApplicationState("app", {"in": {0: CommittedPosition(2, 2)}}, {"counts": [LOG]}, {})


def counts() -> Topology:
    builder = StreamsBuilder()
    records = builder.stream("in", Consumed(Serde.string(), Serde.string()))
    records.group_by_key().count(Materialized("counts")).to_stream().to("out")
    return builder.build()


@pytest.fixture
def begun(warehouse) -> Warehouse:
    """The application has read two records of three."""
    plant(
        warehouse, "in", [LandedRecord(0, key, b"v", ms) for key, ms in ((b"b", 1), (b"a", 2), (b"a", 3))], partitions=1
    )
    bootstrap(warehouse, counts(), STATE, pipeline="p")
    list(replay(warehouse, counts(), pipeline="p", runner=LocalRunner()))
    return warehouse


def restated(warehouse: Warehouse, *, at: int) -> None:
    fork(warehouse, "p", at, "fixed")
    list(replay(warehouse, counts(), pipeline="fixed", runner=LocalRunner()))
    promote(warehouse, "fixed")


def published(warehouse: Warehouse, as_of: int) -> list[tuple[bytes, int]]:
    """Keys and values that are to come, as corrections."""
    output = PublishedOutput(counts(), "out")
    committed = CommittedOutput(warehouse, "p", output, done_row(warehouse, "p", None, of=[output.table]))
    position = Position("p", "out", "ledger", "topic", 1, as_of=as_of, through=as_of)
    steps = [step.rows for step in _steps(committed, position, PublishSettings(on_restated="corrections"))]
    return [
        (key, struct.unpack(">q", value)[0])
        for rows in steps
        if rows is not None
        for key, value in zip(rows.key.to_pylist(), rows.value.to_pylist(), strict=True)
    ]


@pytest.mark.parametrize("as_of", [1, 2])
def test_a_pipeline_that_has_left_the_state_publishes_no_corrections(as_of, begun):
    restated(begun, at=0)

    with pytest.raises(PublishError, match=r"what only the application wrote is in no table.*fork behind.*--at 1"):
        published(begun, as_of)


def test_one_that_continues_the_state_does(begun):
    restated(begun, at=1)

    assert published(begun, 1) == [(b"a", 10)]
    assert published(begun, 2) == []


def test_readers_who_have_nothing_of_the_output_get_all_of_it(begun):
    restated(begun, at=0)

    assert published(begun, 0) == [(b"b", 1), (b"a", 1), (b"a", 2)]
