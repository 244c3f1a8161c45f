"""Offsets that a pipeline hands over, and what is in their metadata: times of partitions, and of closed windows."""

from pathlib import Path
from typing import Any

import pytest

from kstreams_replay.jobs.bootstrap.application_state import CommittedPosition
from kstreams_replay.jobs.bootstrap.handing_over import state_of_pipeline
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology, UsePartitionTimeOnInvalidTimestamp
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.bootstrap import kept
from tests.planted import LandedRecord, plant

S = Serde.string()


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "w"))


def positions(warehouse: Warehouse, topology: Topology, **times_ms: list[int]) -> dict[str, dict[int, Any]]:
    """Of an application to which a pipeline hands over that has read records of these times, by topic."""
    for topic, times in times_ms.items():
        plant(warehouse, topic, [LandedRecord(0, b"a", b"x", time_ms) for time_ms in times], partitions=1)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed"))
    state = state_of_pipeline(warehouse, topology, "p", application_id="app")
    assert {topic: [len(log) for log in logs] for topic, logs in state.unread.items()} == {
        topic: [0] for topic in state.positions if topic not in times_ms
    }
    return {topic: dict(of_topic) for topic, of_topic in state.positions.items()}


def test_times_of_closed_windows_are_beside_the_offset_of_the_repartition_topic_above_them(warehouse):
    """Stream time 40,000 without the grace of 10 s."""
    assert positions(warehouse, kept.regrouped(), clicks=[40_000, 39_000]) == {
        "clicks": {0: CommittedPosition(2, 40_000)},
        "again-repartition": {0: CommittedPosition(0, 40_000, {"closed": 30_000})},
    }


def test_a_topic_that_the_topology_writes_itself_is_none_of_kafka_streams_own(warehouse):
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(S, S))
    clicks.to("out", partitioner=lambda topic, key, value, partitions: {0}, partitions=1)

    assert positions(warehouse, builder.build(), clicks=[5]) == {"clicks": {0: CommittedPosition(1, 5)}}


def test_each_partition_of_a_task_has_its_own_time(warehouse):
    builder = StreamsBuilder()
    orders = builder.table("orders", Consumed(S, S))
    builder.stream("clicks", Consumed(S, S)).join(orders, "left", returns=S).to("out")

    assert positions(warehouse, builder.build(), clicks=[5, 3], orders=[9]) == {
        "clicks": {0: CommittedPosition(2, 5)},
        "orders": {0: CommittedPosition(1, 9)},
    }


def test_a_timestamp_extractor_continues_with_the_time_of_its_partition(warehouse):
    builder = StreamsBuilder()
    orders = builder.table("orders", Consumed(S, S))
    clicks = builder.stream("clicks", Consumed(S, S, timestamp_extractor=UsePartitionTimeOnInvalidTimestamp()))
    clicks.join(orders, "left", returns=S).to("out")

    assert positions(warehouse, builder.build(), clicks=[5, 3], orders=[9])["clicks"] == {0: CommittedPosition(2, 5)}
