"""A topic of which somebody says up to which increment readers have all: what was restated since is not forgotten."""

from typing import Any

import pytest

from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import done_row
from kstreams_replay.jobs.publish.committed_rows import CommittedOutput
from kstreams_replay.jobs.publish.kafka_client import BrokerTopic
from kstreams_replay.jobs.publish.kafka_target import KafkaTarget
from kstreams_replay.jobs.publish.position import Corrections, Position
from kstreams_replay.jobs.publish.published_output import PublishedOutput
from kstreams_replay.jobs.publish.publishing import PublishSettings, _position_of, _steps
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.state.errors import PublishError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant


class NoPosition:
    """A client of a broker where no position is."""

    def topic_state(self, topic: str) -> BrokerTopic:
        return BrokerTopic(topic, 1, {"cleanup.policy": "compact"})

    def last_position(self) -> None:
        return None


def forwarded() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.string())).to("out")
    return builder.build()


def run(warehouse: Warehouse, *keys: bytes) -> None:
    """One increment with a row of each key."""
    plant(warehouse, "in", [LandedRecord(0, key, b"v", 1) for key in keys], partitions=1)
    list(replay(warehouse, forwarded(), pipeline="p", runner=LocalRunner()))


@pytest.fixture
def restored(warehouse) -> Warehouse:
    """Readers have a's and b's row, of increments 1 and 2; the third goes back to the first."""
    for key in (b"a", b"b"):
        run(warehouse, key)
    restore(warehouse, "p", 1)
    return warehouse


def steps(warehouse: Warehouse, **settings: Any) -> list[tuple[list[bytes], list[bytes | None]]]:
    """Keys and values of the transactions that have rows."""
    asked, output = PublishSettings(dry_run=True, **settings), PublishedOutput(forwarded(), "out")
    committed = CommittedOutput(warehouse, "p", output, done_row(warehouse, "p", None, of=[output.table]))
    to, topic, client = KafkaTarget("broker:9092", "out"), BrokerTopic("id", 1, {}), NoPosition()
    position = _position_of(client, to, committed, topic, asked)  # type: ignore[arg-type]
    rows = [step.rows for step in _steps(committed, position, asked) if step.rows is not None]
    return [(each.key.to_pylist(), each.value.to_pylist()) for each in rows]


def test_rows_that_were_taken_back_since_are_refused_or_corrected(restored):
    with pytest.raises(PublishError, match="1 row that was taken back since by a restatement"):
        steps(restored, after=2)

    assert steps(restored, after=2, on_restated="corrections") == [([b"b"], [None])]


@pytest.mark.parametrize(("after", "keys"), [(0, [b"a"]), (1, []), (3, [])])
def test_readers_who_never_had_them_get_what_is_new(restored, after, keys):
    assert [key for sent, _ in steps(restored, after=after) for key in sent] == keys


@pytest.mark.parametrize(
    ("died", "increment", "keys"),
    [
        # Increment 4 has the rows of b, c and d, and takes back what increment 2 had of b.
        (Position("p", "out", "l", "t", 1, as_of=4, through=1, increment=4, rows=1), 1, []),
        (Position("p", "out", "l", "t", 1, as_of=4, through=1, increment=4, rows=1), 2, None),
        (Position("p", "out", "l", "t", 1, as_of=4, through=1, increment=4, rows=1), 3, None),
        (Position("p", "out", "l", "t", 1, as_of=4, through=1, increment=4, rows=1), 4, [b"c", b"d"]),
        (Position("p", "out", "l", "t", 1, as_of=4, through=1), 2, None),
        (Position("p", "out", "l", "t", 1, as_of=4, through=4), 2, []),
        (Position("p", "out", "l", "t", 1, as_of=2, through=2, corrections=Corrections(4, 1, True)), 2, None),
    ],
)
def test_an_increment_before_the_one_that_was_begun_is_refused_or_is_published_already(restored, died, increment, keys):
    run(restored, b"c", b"d")
    output = PublishedOutput(forwarded(), "out")
    committed = CommittedOutput(restored, "p", output, done_row(restored, "p", increment, of=[output.table]))
    step = _steps(committed, died, PublishSettings(increment=increment))

    if keys is None:
        with pytest.raises(PublishError, match=f"expected increment 4 or a later one, .*got increment {increment}"):
            next(step)
    else:
        assert [key for each in step if each.rows is not None for key in each.rows.key.to_pylist()] == keys
