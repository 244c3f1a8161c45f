"""Record by record a task does what it does chunk by chunk; and what processors cannot put where others look."""

from collections.abc import Callable
from typing import Any

import pytest

from kstreams_replay import fold
from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor, Record, ValueAndTimestamp
from kstreams_replay.jobs.graph.graph import Node
from kstreams_replay.jobs.task.task import Task
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Materialized, StreamsBuilder
from kstreams_replay.state.errors import TaskFailed
from tests.conformance.__main__ import report
from tests.conformance.test_goldens import SAMPLE
from tests.sampling import is_nightly
from tests.topology.streams import LONG, LONGS, STRING, stream

MINE = SAMPLE if is_nightly() else SAMPLE[::2]


@pytest.mark.slow
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
            "the store of a global table to be read, got a put, on key 'a'; write to the topic of the global table",
        ),
        (
            lambda b: stream("t", b).group_by_key().aggregate(fold.mean("value"), Materialized.as_("s")),
            ValueAndTimestamp(1.0, 1),
            "a put into an aggregate whose folds show all that they keep, got one into that of the fold, "
            "which keeps more than it shows, on key 'a'; delete the key, or give aggregate() an initializer= and an "
            "aggregator=",
        ),
        (
            lambda b: b.table("t", LONGS, materialized=Materialized.as_("s")),
            7,
            "a ValueAndTimestamp, as it is the store of a table, got 7, on key 'a'; write ValueAndTimestamp(value",
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

    assert f"here, store 's': expected {why}" in str(caught.value)


FOLDS = {
    "count": (lambda g: g.count(Materialized.as_("s")), 10, [1, 2, 11, 12, 1]),
    "named folds": (
        lambda g: g.aggregate(Materialized.as_("s"), n=fold.count(), most=fold.max("value")),
        {"n": 10, "most": 100},
        [{"n": 1, "most": 1}, {"n": 2, "most": 2}, {"n": 11, "most": 100}, {"n": 12, "most": 100}, {"n": 1, "most": 5}],
    ),
    "an aggregator": (
        lambda g: g.aggregate(lambda: 0, lambda k, v, a: a + v, Materialized.as_("s"), returns=LONG),
        10,
        [1, 3, 13, 17, 5],
    ),
    "an expression": (
        lambda g: g.aggregate(fold.of(0, "aggregate + value"), Materialized.as_("s")),
        10,
        [1, 3, 13, 17, 5],
    ),
    "a grouped table": (
        lambda g: g.aggregate(Materialized.as_("s"), n=fold.count(), all=fold.sum("value")),
        {"n": 10, "all": 100},
        [{"n": 1, "all": 1}, {"n": 1, "all": 2}, {"n": 10, "all": 101}, {"n": 10, "all": 102}, {"n": 1, "all": 5}],
    ),
}


@pytest.mark.parametrize("name", FOLDS)
def test_an_aggregate_goes_on_from_what_a_processor_put_and_begins_again_after_a_delete(name):
    aggregate, given, want = FOLDS[name]
    builder = StreamsBuilder()
    if name == "a grouped table":
        table = builder.table("t", LONGS)
        grouped = table.group_by("record_key")
    else:
        grouped = stream("t", builder).group_by_key()
    aggregate(grouped).to_stream().to("out")
    stream("put", builder).process(put(ValueAndTimestamp(given, 7)), ["s"])
    stream("delete", builder).process(each(lambda store, record: store.delete(record.key)), ["s"])
    driver = TopologyTestDriver(builder.build())
    for topic, value in [("t", 1), ("t", 2), ("put", 0), ("t", 3), ("t", 4), ("delete", 0), ("t", 5)]:
        driver.pipe_input(topic, "a", value, 1)
    got = [record.value for record in driver.read_outputs("out")]

    assert got == want


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
