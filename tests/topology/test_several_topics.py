"""Streams of several topics: one source, records in the order of all, and what is refused."""

import re

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, TimeWindows, Topology
from kstreams_replay.state.errors import TopologyError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant, tables_of

STRING = Consumed(Serde.string(), Serde.string())


def counted() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(["one", "two"], STRING)
    windows = stream.group_by_key().windowed_by(TimeWindows.of_size(10, grace=3))
    windows.count(Materialized.as_("counts")).to_stream().to("counts")
    stream.to("all")
    return builder.build()


def test_records_of_all_topics_are_taken_as_they_come():
    driver = TopologyTestDriver(counted())
    for topic, value, time_ms in (("two", "a", 5), ("one", "b", 14), ("two", "late", 0), ("one", "c", 6)):
        driver.pipe_input(topic, "k", value, time_ms)

    assert [record.value for record in driver.read_outputs("all")] == ["a", "b", "late", "c"]
    assert [(one.window, one.value) for one in driver.read_outputs("counts")] == [((0, 10), 1), ((10, 20), 1)]
    assert [(drop.topic, drop.offset) for drop in driver.dropped] == [("two", 1), ("one", 1)]


@pytest.mark.slow
def test_through_tables_they_meet_by_time_wherever_they_are_cut(tmp_path):
    warehouse, topology = Warehouse(tmp_path), counted()
    for topic, times in (("one", (1, 5, 12, 30)), ("two", (3, 4, 29))):
        plant(warehouse, topic, [LandedRecord(0, b"k", b"v", time_ms) for time_ms in times], partitions=1)

    for pipeline, most in (("whole", None), ("cut", 2)):
        list(replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner(), idle="proceed", max_records=most))

    whole = tables_of(warehouse, "whole", topology)
    assert [row["record_time_ms"] for row in whole["outputs/all"]] == [1, 3, 4, 5, 12, 29, 30]
    assert tables_of(warehouse, "cut", topology) == whole


def test_a_topic_of_the_topologys_own_may_be_one_of_them():
    builder = StreamsBuilder()
    builder.stream("in", STRING).map_values("value || '!'").to("mid")
    builder.stream(["mid", "other"], STRING).to("out")
    driver = TopologyTestDriver(builder.build())
    for topic, value in (("in", "a"), ("other", "b"), ("in", "c")):
        driver.pipe_input(topic, "k", value, 0)

    assert [record.value for record in driver.read_outputs("out")] == ["a!", "b", "c!"]


def read(*topics: object) -> None:
    builder = StreamsBuilder()
    for topic in topics:
        builder.stream(topic, STRING)


def test_equal_topics_are_one_source_and_a_list_of_one_is_that_topic():
    read(["a", "b"], ("b", "a"), ["c"], "c")


@pytest.mark.parametrize(
    ("topics", "why"),
    [
        ((["a", "b"], "a"), "topic 'a': expected one source, got two"),
        ((["a", "b"], ["b", "c"]), "topic 'b': expected one source, got two"),
        (([],), "stream() topic: expected the names of one topic or more, got none"),
    ],
)
def test_topics_that_overlap_and_what_names_no_topic_are_refused(topics, why):
    with pytest.raises(TopologyError, match=re.escape(why)):
        read(*topics)


def test_a_source_of_the_processor_api_asks_the_extractor_of_its_consumed():
    topology = Topology()
    topology.add_source("read", STRING.with_timestamp_extractor("record_time_ms + 5"), "in")
    topology.add_sink("write", "out", "read")
    driver = TopologyTestDriver(topology)
    driver.pipe_input("in", "k", "v", 2)

    assert [record.timestamp_ms for record in driver.read_outputs("out")] == [7]
