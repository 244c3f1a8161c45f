"""``to`` of topics that only the data names, and what an extractor is given of each record (TopicNameExtractor)."""

import re
from pathlib import Path

import polars as pl
import pytest

from kstreams_replay import (
    Consumed,
    KeyValues,
    LocalRunner,
    LogAndContinueExceptionHandler,
    Materialized,
    Processor,
    PunctuationType,
    Serde,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Warehouse,
    replay,
    replay_definitions,
)
from kstreams_replay.jobs.history.committed_tables import read_changelog, read_newest, read_table
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError, TaskFailed, TopologyError
from tests.planted import LandedRecord, plant, tables_of

STRING, LONG = Serde.string(), Serde.long()
WORDS = Consumed(STRING, STRING)


def routed(step=lambda key, value: f"{value}-{key}", topics=None, config=None) -> Topology:
    builder = StreamsBuilder(config=config)
    builder.stream("in", WORDS).to(step, topics=topics, name="routes")
    return builder.build()


@pytest.mark.parametrize(
    ("step", "topics"),
    [
        (lambda key, value: f"{value}-{key}", None),
        (lambda key, value, context: f"{value}-{key}", None),
        (pl.col("value") + "-" + pl.col("record_key"), None),
        ("value || '-' || record_key", re.compile("[ab]-[kj]")),
    ],
)
def test_topics_are_those_that_the_records_name(step, topics):
    driver = TopologyTestDriver(routed(step, topics))
    driver.pipe_key_values("in", [("k", "a"), ("j", "b"), ("k", "b"), ("k", "a")], start_timestamp=5, advance=1)

    assert [(record.key, record.value, record.timestamp_ms) for record in driver.read_outputs("a-k")] == [
        ("k", "a", 5),
        ("k", "a", 8),
    ]
    assert [record.key for record in driver.read_outputs("b-j")] == ["j"]
    assert driver.read_outputs("a-j") == []
    assert driver.produced_topic_names() == {"a-k", "b-j", "b-k"}
    assert driver.create_output_topic("b-k").read_value() == "b"


def test_kafka_sees_one_sink_with_an_extractor():
    assert routed(lambda value: value).describe() == (
        "Topologies:\n   Sub-topology: 0\n    Source: KSTREAM-SOURCE-0000000000 (topics: [in])\n      --> routes\n"
        "    Sink: routes (extractor class: <lambda>)\n      <-- KSTREAM-SOURCE-0000000000\n\n"
    )


@pytest.mark.parametrize(
    ("name", "topics", "want"),
    [
        (
            "a b",
            None,
            "routes: expected the name of a topic (ASCII letters, digits, dots, underscores and hyphens), got",
        ),
        ("", None, "got ''; correct the extractor"),
        (None, None, "got None; correct the extractor"),
        ("dropped", None, "got 'dropped'"),
        (
            "huge",
            re.compile("large|small"),
            "expected the name of a topic that 'large|small' matches, got 'huge'; corr",
        ),
        ("largest", re.compile("large|small"), "got 'largest'"),
        ("in", None, "expected a topic that is not the topology's own, got 'in', which it reads or writes by its name"),
    ],
)
def test_a_name_that_is_no_topics_ends_the_run_or_is_for_the_handler(name, topics, want):
    def step(key, value):
        return name if value == "bad" else "large"

    records = [("a", "good"), ("b", "bad"), ("c", "good")]
    driver = TopologyTestDriver(routed(step, topics))
    driver.pipe_key_values("in", records)
    with pytest.raises(TaskFailed, match=re.escape(want)):
        driver.run()

    driver = TopologyTestDriver(routed(step, topics, {"processing.exception.handler": LogAndContinueExceptionHandler}))
    driver.pipe_key_values("in", records)
    assert [record.key for record in driver.read_outputs("large")] == ["a", "c"]
    assert [(one.node, one.arrival) for one in driver.dropped] == [("routes", 1)]


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (
            lambda stream: stream.to(lambda value: value, partitions=2, name="here"),
            "here: expected partitions of topics that are known, got topics that the records name; name the topics",
        ),
        (
            lambda stream: stream.to(pl.lit(5), name="here"),
            "here: expected a step that gives text, the name of a topic",
        ),
        (
            lambda stream: stream.to(lambda value: value, name="dropped"),
            "output 'dropped': expected a name that no table of the pipeline has",
        ),
    ],
)
def test_what_cannot_name_topics_is_refused(call, want):
    with pytest.raises(TopologyError, match=want):
        call(StreamsBuilder().stream("in", WORDS))


def test_its_output_is_called_as_no_topic_of_the_topology():
    builder = StreamsBuilder()
    builder.stream("in", WORDS).to(lambda value: value, name="routes")
    builder.stream("routes", WORDS).to("out")

    with pytest.raises(TopologyError, match="routes: expected an output that no topic of the topology is called as"):
        builder.build()


def test_a_name_that_a_pattern_of_a_source_matches_is_the_topologys_own():
    builder = StreamsBuilder()
    builder.stream(re.compile("shop-.*"), WORDS).to(lambda value: value, name="routes")
    driver = TopologyTestDriver(builder.build().reading(["shop-a"]))
    driver.pipe_input("shop-a", "k", "shop-b")

    with pytest.raises(TaskFailed, match="expected a topic that is not the topology's own, got 'shop-b'"):
        driver.run()
    with pytest.raises(ConfigError, match="read_output: expected one of"):
        driver.read_outputs("shop-b")


# --- what an extractor is given ------------------------------------------------------------------------------


def said(key, value, context):
    headers = "".join(name for name, _ in context.headers)
    return f"{context.topic}.{context.partition}.{context.offset}.{context.timestamp_ms}.{headers}"


@pytest.mark.parametrize("topics", [None, ["in.0.0.7.ab", "in.0.1.3."]])
def test_an_extractor_is_given_the_place_the_time_and_the_headers(topics):
    driver = TopologyTestDriver(routed(said, topics))
    driver.pipe_input("in", "k", "x", 7, headers=(("a", b""), ("b", None)))
    driver.pipe_input("in", "k", "y", 3)

    assert driver.produced_topic_names() == {"in.0.0.7.ab", "in.0.1.3."}


class TickingProcessor(Processor):
    """Forwards what comes one millisecond later, and a record of its own each second of stream time."""

    def init(self, context):
        super().init(context)
        context.schedule("1s", PunctuationType.STREAM_TIME, lambda time: context.forward("tick", "t", time))

    def process(self, record):
        self.context.forward(record.with_timestamp(record.timestamp_ms + 1))


def test_a_record_of_a_punctuation_has_no_place_and_a_repartitioned_one_that_of_its_topic():
    """
    Kafka's context of a punctuation has no topic, and -1 for partition and offset; a record has its own time.
    """
    builder = StreamsBuilder()
    builder.stream("in", WORDS).process(TickingProcessor).to(said, name="one")
    builder.stream("again", WORDS).repartition(name="again").to(said, name="two")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "x", 500)
    driver.pipe_input("again", "k", "x", 7)

    assert driver.produced_topic_names() == {"None.-1.-1.500.", "in.0.0.501.", "again-repartition.0.0.7."}


# --- in a warehouse ------------------------------------------------------------------------------------------

TAPE = [LandedRecord(0, key.encode(), value.encode(), at) for at, (key, value) in enumerate(
    [("k", "a"), ("j", "a"), ("k", "b"), ("k", "a"), ("j", "b"), ("k", "c")]
)]  # fmt: skip


def played(path: Path, topology: Topology, **options) -> Warehouse:
    warehouse = Warehouse(path)
    plant(warehouse, "in", TAPE, partitions=1)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), **options))
    return warehouse


def test_rows_are_the_same_wherever_the_tape_is_cut(tmp_path):
    topology = routed(lambda key, value: f"of-{value}")
    whole = tables_of(played(tmp_path / "whole", topology), "p", topology)
    cut = tables_of(played(tmp_path / "cut", topology, max_records=1), "p", topology)

    rows = sorted(whole["outputs/routes"], key=lambda row: row["offset"])
    assert [(row["topic"], row["key"], row["value"]) for row in rows] == [
        ("of-a", "k", "a"), ("of-a", "j", "a"), ("of-b", "k", "b"), ("of-a", "k", "a"), ("of-b", "j", "b"),
        ("of-c", "k", "c"),
    ]  # fmt: skip
    assert whole == cut


def test_a_topic_is_read_by_its_name_and_all_of_them_by_that_of_the_output(tmp_path, capsys):
    warehouse = played(tmp_path, routed(lambda value: f"of-{value}"), max_records=4)

    assert read_changelog(warehouse, "p", "of-a")["offset"].to_pylist() == [0, 1, 3]
    assert read_changelog(warehouse, "p", "of-b", increment=1)["key"].to_pylist() == ["k"]
    assert read_table(warehouse, "p", "outputs/of-a", last=1)["offset"].to_pylist() == [3]
    newest = read_newest(warehouse, "p", "routes").select(["topic", "key", "offset"]).to_pylist()
    assert [tuple(row.values()) for row in newest] == [
        ("of-a", "j", 1), ("of-a", "k", 3), ("of-b", "j", 4), ("of-b", "k", 2), ("of-c", "k", 5),
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="or a topic that records of outputs/routes name, got 'outputs/of-d'"):
        read_changelog(warehouse, "p", "of-d")

    assert main(["show", "of-b", "--warehouse", str(tmp_path), "--pipeline", "p"]) == 0
    assert main(["show", "of-b", "--changelog", "--warehouse", str(tmp_path), "--pipeline", "p"]) == 0
    assert capsys.readouterr().out.count("of-b  ") == 4


def test_dagster_has_an_asset_of_all_topics(tmp_path):
    definitions = replay_definitions(routed(), pipeline="p", warehouse=str(tmp_path))

    graph = definitions.resolve_asset_graph()
    (output,) = (key for key in graph.get_all_asset_keys() if "outputs" in key.path)
    assert output.path == ["p", "outputs", "routes"]
    assert "Each record names its topic, in the column `topic`." in graph.get(output).description


# --- elsewhere in a topology ---------------------------------------------------------------------------------


def test_windows_and_tombstones_go_where_they_are_sent():
    builder = StreamsBuilder()
    counts = builder.stream("in", WORDS).group_by_key().windowed_by(TimeWindows.of_size(10)).count()
    counts.to_stream().to(lambda key, value: f"{key.key}-{key.window_start_ms}", name="windows")
    builder.table("t", Consumed(STRING, STRING)).to_stream().to(lambda key, value: f"{key}-{value}", name="rows")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "x", 12)
    driver.pipe_input("t", "k", "v", 0)
    driver.pipe_input("t", "k", None, 1)

    assert [(record.window, record.value) for record in driver.read_outputs("k-10")] == [((10, 20), 1)]
    assert [record.value for record in driver.read_outputs("k-None")] == [None]


class Shares(Processor):
    def process(self, record):
        self.context.store("seen").put(record.key, record.value)
        self.context.forward(record)


def test_records_that_run_one_by_one_are_sent_in_their_order():
    """
    Two processors share a store, so that the task goes record by record.
    """
    builder = StreamsBuilder()
    seen = KeyValues("seen", STRING, STRING)
    stream = builder.stream("in", WORDS)
    stream.process(Shares, [seen]).to(lambda value: f"one-{value}", name="one")
    stream.process(Shares, [seen]).to(lambda value: f"two-{value}", name="two")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_key_values("in", [("k", "a"), ("j", "b"), ("i", "a")])

    assert [record.key for record in driver.read_outputs("one-a")] == ["k", "i"]
    assert [record.key for record in driver.read_outputs("two-b")] == ["j"]


@pytest.mark.parametrize("topics", [None, re.compile("large|small"), ["large", "small"]])
def test_a_sink_of_the_processor_api_takes_an_extractor_too(topics):
    topology = Topology().add_source("read it", WORDS, "in")
    topology.add_sink("write it", lambda key, value, context: value, "read it", topics=topics)
    driver = TopologyTestDriver(topology)
    driver.pipe_key_values("in", [("k", "large"), ("j", "small")])

    assert [record.key for record in driver.read_outputs("small")] == ["j"]
    assert "Sink: write it (extractor class: <lambda>)" in topology.describe()


def test_a_table_beside_it_keeps_its_store():
    builder = StreamsBuilder()
    stream = builder.stream("in", WORDS)
    stream.group_by_key().count(Materialized.as_("counts")).to("counts")
    stream.to(lambda value: f"of-{value}", name="routes")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_key_values("in", [("k", "a"), ("k", "b")])

    assert driver.get_key_value_store("counts").all() == [("k", 2)]
    assert driver.read_output("of-b").key == "k"
