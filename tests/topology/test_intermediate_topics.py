"""Topics that a topology writes and reads: what it refuses, in which order they run, and what can be seen of them.

What they do to records is Kafka's own answer: tests/scenarios/intermediate_topic.
"""

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.processor_api import Processor
from kstreams_replay.jobs.graph.nodes import RepartitionNode
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    UsePartitionTimeOnInvalidTimestamp,
    fold,
)
from kstreams_replay.orchestration.lineage import tables_of
from kstreams_replay.state.errors import ConfigError, InvalidTimestamp, TopologyError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant
from tests.topology.streams import LONG, LONGS, STRING, refused, stream


def written_and_read(*, read_first: bool) -> Topology:
    builder = StreamsBuilder()
    if read_first:
        stream("mid", builder).map_values("value * 10").to("out")
    stream("in", builder).filter("value > 1").to("mid")
    if not read_first:
        stream("mid", builder).map_values("value * 10").to("out")
    return builder.build()


@pytest.mark.parametrize("read_first", [False, True], ids=["written first", "read first"])
def test_what_is_written_is_read_wherever_it_stands_in_the_code(read_first):
    driver = TopologyTestDriver(written_and_read(read_first=read_first))

    for key, value in (("a", 1), (None, 2), ("b", None), ("c", 3)):
        driver.pipe_input("in", key, value, 5)

    assert [(one.key, one.value) for one in driver.read_outputs("mid")] == [(None, 2), ("c", 3)]
    assert [(one.key, one.value) for one in driver.read_outputs("out")] == [(None, 20), ("c", 30)]


def test_a_topic_that_is_written_and_read_is_not_landed():
    topology = written_and_read(read_first=False)

    assert topology.source_topics() == ["in"]
    assert topology.intermediate_topics() == ["mid"]
    assert [sink.topic for sink in topology.sinks()] == ["mid", "out"]
    assert [sub.id for sub in written_and_read(read_first=True).sub_topologies] == [1, 0]  # Kafka's numbers


def test_nobody_pipes_into_it():
    driver = TopologyTestDriver(written_and_read(read_first=False))

    assert refused(lambda: driver.pipe_input("mid", "a", 1, 5), ConfigError) == (
        "pipe_input: expected a topic that others write, got 'mid', which the topology writes itself; "
        "pipe what its records come from"
    )


def test_a_struct_goes_through_it():
    builder = StreamsBuilder()
    counts = stream("in", builder).group_by_key().aggregate(n=fold.count(), last=fold.last("value"))
    counts.to("counts")
    read = builder.stream("counts", Consumed(STRING, Serde.json("n long, last long")))
    read.map_values("n * 100 + last").to("out")
    driver = TopologyTestDriver(builder.build())

    for value in (7, 8):
        driver.pipe_input("in", "a", value, 5)

    assert [one.value for one in driver.read_outputs("out")] == [107, 208]


# --- what is refused -------------------------------------------------------------------------------------------


def test_what_runs_beside_it_has_names_that_no_node_of_the_user_has():
    builder = StreamsBuilder()
    source = stream("in", builder)
    source.to("mid", name="w")
    source.map_values("value + 1", name="w-merge").to("mid")
    builder.stream("mid", LONGS, name="read").map_values("value * 10", name="read-output").to("out", name="end")
    driver = TopologyTestDriver(builder.build())

    driver.pipe_input("in", "a", 1, 5)

    assert [one.value for one in driver.read_outputs("mid")] == [1, 2]
    assert [one.value for one in driver.read_outputs("out")] == [10, 20]


def test_it_is_not_called_as_a_repartition_of_the_topology():
    builder = StreamsBuilder()
    stream("in", builder).repartition(name="x").to("out")
    stream("in2", builder).to("x-repartition")
    stream("x-repartition", builder).to("out2")

    assert refused(builder.build) == (
        "topic 'x-repartition': expected a name that no repartition of this topology has, got the topic of a "
        "repartition; call one of the two otherwise"
    )


def test_both_sides_have_the_same_serdes():
    builder = StreamsBuilder()
    stream("in", builder).to("mid", name="write")
    builder.stream("mid", Consumed(STRING, STRING))

    assert refused(builder.build) == (
        "topic 'mid': expected what it is read as, Serde.string() and Serde.string(), to be written by write, "
        "got Serde.string() and Serde.long(); use the same serdes on both sides"
    )


def test_windowed_keys_are_not_read_back():
    builder = StreamsBuilder()
    stream("in", builder).group_by_key().windowed_by(TimeWindows.of_size(5)).count().to("mid")
    stream("mid", builder)

    assert refused(builder.build) == (
        "topic 'mid': expected plain keys in a topic that the topology reads, got windowed ones; "
        'use select_key("record_key") before to()'
    )


@pytest.mark.parametrize("written_first", [True, False])
def test_no_global_table_is_made_of_it(written_first):
    builder = StreamsBuilder()
    if written_first:
        stream("in", builder).to("mid")
    builder.global_table("mid", LONGS)
    if not written_first:
        stream("in", builder).to("mid")

    assert refused(builder.build) == (
        "topic 'mid': expected a global table of a landed topic, got one that the topology writes itself; read it by "
        "table(), and bring the stream to the table's keys by select_key(…) before join(). A record then finds all "
        "that was written before it, which Kafka does not promise for a global table"
    )


def test_a_table_of_it_gives_what_a_global_table_would():
    """Names by their number, as in Kafka's globalTable("names"); the person's key goes along in the value."""
    builder = StreamsBuilder()
    builder.stream("raw", Consumed(STRING, STRING)).map_values("upper(value)").to("names")
    people = builder.stream("people", Consumed(STRING, STRING))
    names = builder.table("names", Consumed(STRING, STRING))
    keyed = people.map_values("value AS number", "record_key AS person").select_key("number")
    joined = keyed.join(names, lambda person, name: f"{person['person']} is {name}", returns=STRING)
    joined.to("named")
    driver = TopologyTestDriver(builder.build())

    driver.pipe_input("raw", "1", "ann", 1)
    driver.pipe_input("people", "p", "1", 2)
    driver.pipe_input("people", "q", "2", 3)

    assert [one.value for one in driver.read_outputs("named")] == ["p is ANN"]


def test_one_that_is_landed_too_is_asked_for(tmp_path):
    warehouse = Warehouse(tmp_path)
    for topic in ("in", "mid"):
        plant(warehouse, topic, [LandedRecord(0, b"a", (5).to_bytes(8, "big"), 5)], partitions=1)

    topology = written_and_read(read_first=False)
    got = refused(lambda: list(replay(warehouse, topology, pipeline="p", runner=LocalRunner())), ConfigError)

    assert got == (
        "topic 'mid': expected a topic that either to() writes or a landing, to be read by the topology, got both; "
        "to continue with what to() writes, replay in a warehouse where it is not landed. Where other producers "
        "write it, too, name their records by Consumed(others=…). To read all that was landed, write to() a topic of "
        "another name"
    )


EXTRACTOR = "default.timestamp.extractor"


def through_mid(extractor, *, others: bool | None = None, reads: str = "stream", **options) -> Topology:
    builder = StreamsBuilder(config={EXTRACTOR: extractor})
    stream("in", builder).to("mid")
    mid = Consumed(STRING, LONG, others=others, **options)
    read = builder.stream("mid", mid) if reads == "stream" else builder.table("mid", mid).to_stream()
    read.map_values("value * 10").to("out")
    return builder.build()


@pytest.mark.parametrize("reads", ["stream", "table"])
@pytest.mark.parametrize("extractor", [FailOnInvalidTimestamp, "UsePartitionTimeOnInvalidTimestamp"])
def test_an_extractor_that_keeps_valid_times_changes_none_that_was_written(extractor, reads):
    driver = TopologyTestDriver(through_mid(extractor, reads=reads))

    for value, time_ms in ((1, 5), (2, 3)):
        driver.pipe_input("in", "a", value, time_ms)

    assert [(one.value, one.timestamp_ms) for one in driver.read_outputs("out")] == [(10, 5), (20, 3)]


def test_such_an_extractor_is_asked_about_what_others_write():
    fails = TopologyTestDriver(through_mid(FailOnInvalidTimestamp, others=True))
    replaces = TopologyTestDriver(through_mid(UsePartitionTimeOnInvalidTimestamp, others=True))
    for driver in (fails, replaces):
        driver.pipe_input("mid", "a", 1, 7)
        driver.pipe_input("mid", "a", 2, -1)

    assert [(one.value, one.timestamp_ms) for one in replaces.read_outputs("out")] == [(10, 7), (20, 7)]
    with pytest.raises(InvalidTimestamp, match="expected a time of 0 ms or later, got -1, of the record mid-0, offset"):
        fails.run()


def test_an_extractor_that_gives_other_times_can_be_left_out_of_what_is_written():
    def later(record):
        return record.timestamp_ms + 1000

    said = refused(lambda: through_mid(later))
    driver = TopologyTestDriver(through_mid(later, timestamp_extractor=LogAndSkipOnInvalidTimestamp))
    driver.pipe_input("in", "a", 1, 5)

    assert said == (
        "topic 'mid': expected records at the times at which they were written, got a timestamp extractor that gives "
        "them others; give records their times before to(): in a processor, or by the extractor of the topic they come "
        "from. If it is the default.timestamp.extractor, it counts for this topic, too: Consumed(…, "
        "timestamp_extractor=LogAndSkipOnInvalidTimestamp) leaves it out"
    )
    assert [(one.value, one.timestamp_ms) for one in driver.read_outputs("out")] == [(10, 1005)]


# --- loops -----------------------------------------------------------------------------------------------------


def around(*, others: bool | str | None = None) -> Topology:
    builder = StreamsBuilder()
    stream("in", builder).to("first")
    first = builder.stream("first", Consumed(STRING, LONG, others=others))
    first.filter("value > 1", name="more").to("second", name="to-second")
    stream("second", builder).map_values("value - 1", name="less").to("first", name="to-first")
    return builder.build()


def test_a_topic_may_be_written_below_where_it_is_read():
    driver = TopologyTestDriver(around())

    driver.pipe_input("in", "a", 3, 5)
    driver.pipe_input("in", "b", 1, 4)

    assert [(one.key, one.value, one.timestamp_ms) for one in driver.read_outputs("first")] == [
        ("a", 3, 5),
        ("a", 2, 5),
        ("a", 1, 5),
        ("b", 1, 4),
    ]


def test_a_loop_is_named_with_its_path():
    path = "topic 'first' → more → to-second → topic 'second' → less → to-first → topic 'first'"

    assert around().loop_topics == {
        "first": path,
        "second": "topic 'second' → less → to-first → topic 'first' → more → to-second → topic 'second'",
    }


def test_it_is_landed_where_others_write_it_and_nowhere_else():
    assert around().source_topics() == ["in"]
    assert around(others=True).source_topics() == ["in", "first"]


def test_any_call_that_reads_a_topic_says_whose_records_are_landed():
    builder = StreamsBuilder()
    builder.stream("orders", Consumed(STRING, LONG)).to("seen")
    builder.stream("orders", Consumed(STRING, LONG, others=True)).filter("value > 2").map_values("value - 1").to(
        "orders"
    )

    assert builder.build().source_topics() == ["orders"]


def test_it_has_as_many_partitions_as_what_goes_round_and_as_landed_where_it_is():
    assert around().partitions_of({"in": 4}) == {"in": 4, "first": 4, "second": 4}
    assert around(others=True).partitions_of({"in": 4, "first": 2}) == {"in": 4, "first": 2, "second": 2}


@pytest.mark.parametrize("others", [None, True])
def test_a_topic_of_a_loop_has_the_partitions_of_what_it_is_joined_with(others):
    builder = StreamsBuilder()
    table = builder.table("t", LONGS)
    back = builder.stream("back", Consumed(STRING, LONG, others=others)).join(table, "left + right")
    back.filter("value < 5").to("back")
    stream("in", builder).to("back")
    topology = builder.build()

    assert topology.partitions_of({"in": 2, "t": 3, **({"back": 3} if others else {})})["back"] == 3
    if others:
        with pytest.raises(TopologyError, match="expected as many partitions on both sides, got t has 3, back has 2; "):
            topology.partitions_of({"in": 2, "t": 3, "back": 2})


def test_what_others_write_is_piped_into_a_loop_and_chosen_by_what_was_said_of_them():
    piped, chosen = TopologyTestDriver(around()), TopologyTestDriver(around(others="value > 2"))
    for driver in (piped, chosen):
        for value in (2, 3):
            driver.pipe_input("first", "a", value, 5)

    assert [one.value for one in piped.read_outputs("second")] == [2, 3, 2]
    assert [one.value for one in chosen.read_outputs("second")] == [3, 2]


def test_landed_records_of_others_are_read_and_those_of_its_own_are_computed(tmp_path):
    """The live application's 1 landed, too: of what others wrote it is none."""
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "in", [], partitions=2)
    plant(warehouse, "first", [LandedRecord(0, b"a", n.to_bytes(8, "big"), 5) for n in (3, 1)], partitions=2)

    (report,) = replay(warehouse, around(others="value > 2"), pipeline="p", runner=LocalRunner())

    rows = read_table(warehouse, "p", "outputs/second").to_pylist()
    assert sorted(row["value"] for row in rows) == [2, 3]
    assert (report.books.read, report.books.left_out) == (2, 1)


def test_a_topic_that_is_no_loop_may_have_other_writers_too():
    builder = StreamsBuilder()
    stream("in", builder).to("mid")
    builder.stream("mid", Consumed(STRING, LONG, others="value > 10")).map_values("value * 10").to("out")
    driver = TopologyTestDriver(builder.build())

    driver.pipe_input("in", "a", 1, 5)
    driver.pipe_input("mid", "b", 2, 6)
    driver.pipe_input("mid", "c", 11, 7)

    assert [one.value for one in driver.read_outputs("mid")] == [1]
    assert [one.value for one in driver.read_outputs("out")] == [10, 110]


@pytest.mark.parametrize(("others", "got"), [(False, "False"), (3, "3")])
def test_who_is_said_to_be_the_others_is_a_condition(others, got):
    assert refused(lambda: around(others=others)) == (
        f"Consumed of 'first': expected others= to be True, an expression, SQL text or a callable of (key, value), got "
        f"{got}; leave it out where nobody else writes the topic"
    )


def test_a_condition_on_others_is_said_of_topics_that_the_topology_writes():
    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, LONG, others="value > 2")).to("out")

    assert refused(builder.build) == (
        "Consumed of 'in': expected no condition in others=, got a topic that only others write; write others=True, or "
        "leave it out: all landed records are read. A filter chooses among them"
    )


def test_all_records_of_a_topic_may_be_those_of_others_where_the_topology_does_not_write_it():
    """Then a part that writes it can be switched off, and the rest stays as it is."""
    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, LONG, others=True)).to("out")
    driver = TopologyTestDriver(builder.build())

    driver.pipe_input("in", "a", 2, 5)

    assert builder.build().source_topics() == ["in"]
    assert driver.read_output("out").value == 2


def test_the_processor_api_says_it_too():
    class Less(Processor):
        def process(self, record):
            if record.value > 0:
                self.context.forward(record.with_value(record.value - 1))

    topology = Topology().add_source("source", Consumed(STRING, LONG, others=True), "t")
    topology.add_processor("less", Less, "source").add_sink("sink", "t", "less")
    driver = TopologyTestDriver(topology)

    driver.pipe_input("t", "a", 2, 5)

    assert topology.source_topics() == ["t"]
    assert [one.value for one in driver.read_outputs("t")] == [1, 0]


# --- recorded time and partitions ------------------------------------------------------------------------------


def test_recorded_time_comes_through_when_all_who_write_have_reached_it():
    builder = StreamsBuilder()
    stream("a", builder).to("mid")
    stream("b", builder).map_values("value").to("mid")
    counts = stream("mid", builder).group_by_key().windowed_by(TimeWindows.of_size(10)).count()
    counts.suppress(Suppressed.until_window_closes()).to("final")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("a", "k", 1, 3)
    driver.pipe_input("b", "k", 1, 4)

    driver.advance_stream_time("a", 50)
    before = driver.read_outputs("final")
    driver.advance_stream_time("b", 60)

    assert before == []
    assert [(one.key, one.value, one.window) for one in driver.read_outputs("final")] == [("k", 2, (0, 10))]


def test_it_has_as_many_partitions_as_what_it_is_joined_with():
    builder = StreamsBuilder()
    stream("in", builder).to("mid")
    stream("mid", builder).join(builder.table("t", LONGS), "left").to("out")
    (node,) = [node for node in builder.build().graph.nodes.values() if isinstance(node, RepartitionNode)]

    assert (node.topic, node.partitions, node.keeps_null_keys) == ("mid", None, True)
    assert node.shape.value == LONG


def test_a_topic_that_two_sub_topologies_write_is_one_table_made_from_all_that_they_wrote():
    """
    An asset of Dagster's must not be there twice.
    """
    builder = StreamsBuilder()
    stream("a", builder).to("mid")
    stream("b", builder).group_by_key().count(Materialized.as_("counts")).to("mid")
    stream("mid", builder).to("out")
    topology = builder.build()

    tables = [table for sub in topology.sub_topologies for table in tables_of(topology, sub)]

    assert {table.name: table.upstream for table in tables} == {
        "state/counts": ("landed/b",),
        "outputs/mid": ("landed/a", "state/counts"),
        "outputs/out": ("outputs/mid",),
    }
    assert len(tables) == 3
