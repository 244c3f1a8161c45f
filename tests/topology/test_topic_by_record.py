"""A topic chosen by the record, several to() of one topic, a partitioner of one's own: what each gives and refuses."""

import pytest

from kstreams_replay import (
    Consumed,
    LocalRunner,
    LogAndContinueExceptionHandler,
    Serde,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
    replay,
)
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.state.errors import TaskFailed, TopologyError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

TEXT, LONG = Serde.string(), Serde.long()
WORDS = Consumed(TEXT, TEXT)


def chosen(value):
    return "large" if len(value or "") > 1 else "small"


@pytest.mark.parametrize("step", ["CASE WHEN LENGTH(value) > 1 THEN 'large' ELSE 'small' END", chosen])
def test_each_record_goes_to_the_topic_that_it_names(step):
    builder = StreamsBuilder()
    builder.stream("in", WORDS).to(step, topics=["large", "small"])
    driver = TopologyTestDriver(builder.build())
    driver.pipe_key_values("in", [("a", "x"), ("b", "xx"), ("c", "y")])

    assert [record.key for record in driver.read_outputs("large")] == ["b"]
    assert [record.key for record in driver.read_outputs("small")] == ["a", "c"]
    assert driver.produced_topic_names() == {"large", "small"}


def test_kafka_sees_one_sink_with_an_extractor():
    builder = StreamsBuilder()
    builder.stream("in", WORDS).to(chosen, topics=["large", "small"], name="route")

    assert builder.build().describe() == (
        "Topologies:\n   Sub-topology: 0\n    Source: KSTREAM-SOURCE-0000000000 (topics: [in])\n      --> route\n"
        "    Sink: route (extractor class: chosen)\n      <-- KSTREAM-SOURCE-0000000000\n\n"
    )


def test_a_topic_that_is_not_named_ends_the_run_or_is_for_the_handler():
    def made(config):
        builder = StreamsBuilder(config=config)
        builder.stream("in", WORDS).to("value", topics=["large", "small"], name="route")
        driver = TopologyTestDriver(builder.build())
        driver.pipe_key_values("in", [("a", "small"), ("b", "huge"), ("c", "large")])
        return driver

    with pytest.raises(TaskFailed, match=r"route: expected one of the topics \['large', 'small'\], got 'huge'"):
        made(None).run()
    driver = made({"processing.exception.handler": LogAndContinueExceptionHandler})
    assert [record.key for record in driver.read_outputs("large")] == ["c"]
    assert [record.key for record in driver.read_outputs("small")] == ["a"]
    assert [(one.node, one.arrival) for one in driver.dropped] == [("route", 1)]


@pytest.mark.parametrize(
    ("topic", "topics", "message"),
    [
        (chosen, "large", "expected topics= to be the names of the outputs that there are, got 'large'"),
        (chosen, [], "expected topics= to be the names"),
        (chosen, ["a b"], "expected the name of one topic"),
        ("LENGTH(value)", ["large"], "expected a step that gives text, the name of a topic"),
    ],
)
def test_what_chooses_no_topic_is_refused(topic, topics, message):
    stream = StreamsBuilder().stream("in", WORDS)

    with pytest.raises(TopologyError, match=message):
        stream.to(topic, topics=topics)


def test_several_to_of_one_topic_come_in_the_order_in_which_they_were_sent():
    builder = StreamsBuilder()
    stream = builder.stream("in", WORDS)
    stream.map_values(lambda value: f"{value}1", returns=TEXT).to("out")
    stream.map_values(lambda value: f"{value}2", returns=TEXT).to("out")
    stream.to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_key_values("in", [("a", "x"), ("a", "y")])

    assert [record.value for record in driver.read_outputs("out")] == ["x1", "x2", "x", "y1", "y2", "y"]


def written_by_two() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", WORDS).to("out")
    builder.stream("other", WORDS).select_key("value").repartition(name="by-value").to("out")
    return builder.build()


def test_sub_topologies_that_write_one_topic_are_told_apart_by_nobody(tmp_path):
    tape = [("in", "a", "1"), ("other", "b", "2"), ("other", "c", "3"), ("in", "d", "4")]
    warehouse = Warehouse(tmp_path)
    for topic in ("in", "other"):
        records = [
            LandedRecord(0, key.encode(), value.encode(), n) for n, (of, key, value) in enumerate(tape) if of == topic
        ]
        plant(warehouse, topic, records, partitions=1)
    for pipeline, max_records in (("whole", None), ("cut", 1)):
        options = {"pipeline": pipeline, "runner": LocalRunner(), "max_records": max_records, "idle": "proceed"}
        list(replay(warehouse, written_by_two(), **options))
    whole, cut = (read_table(warehouse, one, "outputs/out").sort_by("offset").to_pylist() for one in ("whole", "cut"))
    driver = TopologyTestDriver(written_by_two())
    for time_ms, (topic, key, value) in enumerate(tape):
        driver.pipe_input(topic, key, value, time_ms)
    driven = [(one.key, one.value) for one in driver.read_outputs("out")]

    assert driven == [("a", "1"), ("2", "2"), ("3", "3"), ("d", "4")]
    assert [(row["key"], row["value"]) for row in whole] == driven
    assert [(row["key"], row["value"]) for row in cut] == driven


@pytest.mark.parametrize("other", ["in", "other"], ids=["one sub-topology", "two sub-topologies"])
def test_several_to_of_one_topic_are_of_one_serde(other):
    builder = StreamsBuilder()
    builder.stream("in", WORDS).to("out")
    builder.stream(other, WORDS).map_values("LENGTH(value)").to("out")
    with pytest.raises(
        TopologyError, match="output 'out': expected records of one key and value serde, got of several"
    ):
        builder.build()


def test_a_partitioner_says_where_records_go(tmp_path):
    def partitioner(topic, key, value, partitions):
        assert (topic, partitions) == ("by-value-repartition", 3)
        return None if value == "by key" else int(value)

    builder = StreamsBuilder()
    stream = builder.stream("in", WORDS)
    stream.repartition(name="by-value", partitions=3, partitioner=partitioner).to("out")
    warehouse = Warehouse(tmp_path)
    values = ["0", "2", "1", "2", "by key"]
    plant(warehouse, "in", [LandedRecord(0, b"a", value.encode(), n) for n, value in enumerate(values)], partitions=1)
    list(replay(warehouse, builder.build(), pipeline="p", runner=LocalRunner(), idle="proceed"))

    rows = read_table(warehouse, "p", "outputs/out").to_pylist()
    assert sorted((row["partition"], row["value"]) for row in rows) == [
        (0, "0"),
        (1, "1"),
        (1, "by key"),  # murmur2 of "a" is 1 modulo 3
        (2, "2"),
        (2, "2"),
    ]


@pytest.mark.parametrize(("found", "got"), [(3, "3"), (-1, "-1"), ("0", "'0'"), (True, "True")])
def test_what_is_no_partition_ends_the_run(found, got):
    builder = StreamsBuilder()
    stream = builder.stream("in", WORDS).repartition(name="r", partitioner=lambda topic, key, value, partitions: found)
    stream.to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", "x", 1)

    with pytest.raises(
        TaskFailed, match=f"expected a partition from 0 to 0, a set of them, or None, got {got} for key 'a'"
    ):
        driver.run()


def test_there_is_no_offset_to_reset():
    with pytest.raises(TopologyError, match="expected a topic that is read from its first record on"):
        WORDS.with_offset_reset_policy("latest")
