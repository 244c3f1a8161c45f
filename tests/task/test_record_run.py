"""Record by record a task does what it does chunk by chunk; and what processors cannot put where others look."""

from collections.abc import Callable
from typing import Any

import pytest

from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor, Record, ValueAndTimestamp
from kstreams_replay.jobs.graph.graph import Node
from kstreams_replay.jobs.task.task import Task
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Materialized, StreamsBuilder
from kstreams_replay.state.errors import TaskFailed
from tests.conformance.__main__ import report
from tests.conformance.test_goldens import SLICE
from tests.rotation import is_nightly
from tests.topology.streams import LONG, LONGS, STRING, stream

MINE = SLICE if is_nightly() else SLICE[::2]


@pytest.mark.every_run
def test_every_operator_does_record_by_record_what_kafka_streams_did(monkeypatch):
    """
    Each record goes depth first through all nodes, in batches of one row: nothing but the speed may differ.
    """
    monkeypatch.setattr(Node, "is_by_record", True)
    monkeypatch.setattr("kstreams_replay.jobs.topology.topology._check_whole", lambda parts: None)
    run_by_record, ran = Task._chunk_run, []

    def chunk_run(self: Task, chunk: Any) -> Any:
        self.is_by_record = not (self.dataflow.imports or self.dataflow.exports)
        ran.append(self.is_by_record)
        return run_by_record(self, chunk)

    monkeypatch.setattr(Task, "_chunk_run", chunk_run)

    assert {scenario.name: why for scenario in MINE if (why := report(scenario)) is not None} == {}
    assert any(ran)


def each(function: Callable[[Any, Record], None]) -> Callable[[], Processor]:
    class Each(Processor):
        def process(self, record: Record) -> None:
            function(self.context.store("s"), record)

    return Each


def put(value: Any) -> Callable[[], Processor]:
    return each(lambda store, record: store.put(record.key, value))


@pytest.mark.parametrize(
    ("made", "value", "why"),
    [
        (
            lambda b: b.global_table("t", LONGS, materialized=Materialized.as_("s")),
            ValueAndTimestamp(1, 1),
            "expected the store of a global table to be read, got a put; write to the topic of the global table",
        ),
        (
            lambda b: stream("t", b).group_by_key().count(Materialized.as_("s")),
            ValueAndTimestamp(1, 1),
            "expected the store of an aggregate to be read, got a put; put into a store of the processor's own",
        ),
        (
            lambda b: b.table("t", LONGS, materialized=Materialized.as_("s")),
            7,
            "expected a ValueAndTimestamp, as it is the store of a table, got 7; write ValueAndTimestamp(value",
        ),
    ],
    ids=["global table", "aggregate", "a value without its time"],
)
def test_what_cannot_be_put_ends_the_run(made, value, why):
    builder = StreamsBuilder()
    made(builder)
    stream(builder=builder).process(put(value), ["s"], name="here")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1, 1)

    with pytest.raises(TaskFailed, match=r"here.* on key 'a'") as caught:
        driver.run()

    assert f"here, store 's': {why}" in str(caught.value)


def test_a_failure_below_names_the_processor_that_failed():
    def fail(store: Any, record: Record) -> None:
        raise ValueError("no")

    builder = StreamsBuilder().add_state_store(KeyValues("s", STRING, LONG))

    class On(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record)

    stream(builder=builder).process(On, ["s"], name="above").process(each(fail), ["s"], name="below")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1, 1)

    with pytest.raises(TaskFailed, match=r"^below: expected a processor that does not fail, got ValueError: no on key"):
        driver.run()
