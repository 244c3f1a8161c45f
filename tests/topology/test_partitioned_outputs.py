"""An output whose to() says a partitioner or a number of partitions: where its records are, and what is refused."""

import pytest

from kstreams_replay import (
    Consumed,
    LocalRunner,
    Produced,
    Serde,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Windowed,
    replay,
)
from kstreams_replay.expectations.verdicts import check_increment
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.errors import TopologyError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

TEXT = Serde.string()
WORDS = Consumed(TEXT, TEXT)


def as_value_says(topic, key, value, partitions):
    """ "key" is None, digits are partitions; of no digits there are none."""
    return None if value == "key" else {int(digit) for digit in value}


def to_three(builder):
    builder.stream("in", WORDS).to("out", partitioner=as_value_says, partitions=3)


def written(path, topology, values, *, max_records=None, columns=("partition", "offset", "key", "value")):
    """Rows of ``out``, of records of key "a" that lie in two partitions in turn."""
    warehouse = Warehouse(path)
    landed = [LandedRecord(number % 2, b"a", value.encode(), number) for number, value in enumerate(values)]
    plant(warehouse, "in", landed, partitions=2)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed", max_records=max_records))
    rows = read_table(warehouse, "p", "outputs/out").to_pylist()
    return sorted(tuple(row[name] for name in columns) for row in rows), warehouse


@pytest.mark.slow
@pytest.mark.parametrize("max_records", [None, 1])
def test_records_are_where_the_partitioner_says_in_one_several_or_none(tmp_path, max_records):
    builder = StreamsBuilder()
    to_three(builder)

    got, warehouse = written(tmp_path, builder.build(), ["2", "02", "", "key", "0"], max_records=max_records)

    assert got == [
        (0, 0, "a", "02"),
        (0, 1, "a", "0"),
        (1, 0, "a", "key"),  # murmur2 of "a" is 1 modulo 3
        (2, 0, "a", "2"),
        (2, 1, "a", "02"),
    ]
    dropped = read_table(warehouse, "p", "dropped").to_pylist()
    assert [(row["reason"], row["topic"], row["partition"], row["offset"], row["is_record"]) for row in dropped] == [
        ("no-partition", "in", 0, 1, True)
    ]
    verdicts = check_increment(warehouse, "p", replay_facts(builder.build()), engine="plain")
    assert [verdict.answer for verdict in verdicts if verdict.guarantee == "G10"] == ["true"]


def test_the_guarantee_of_partitions_by_key_is_not_asked_where_a_partitioner_chooses(tmp_path):
    builder = StreamsBuilder()
    stream = builder.stream("in", WORDS).repartition(name="r", partitions=3, partitioner=as_value_says)
    stream.to("out")
    topology = builder.build()

    _, warehouse = written(tmp_path, topology, ["2", "0"])

    verdicts = check_increment(warehouse, "p", replay_facts(topology), engine="plain")
    assert [verdict.answer for verdict in verdicts if verdict.guarantee == "G10"] == ["true"]


def test_without_a_partitioner_records_are_in_the_partition_of_their_key(tmp_path):
    builder = StreamsBuilder()
    builder.stream("in", WORDS).to("out", partitions=3)

    got, _ = written(tmp_path, builder.build(), ["x", "y"])

    assert got == [(1, 0, "a", "x"), (1, 1, "a", "y")]


def test_a_topic_that_is_read_again_has_its_partitioner(tmp_path):
    builder = StreamsBuilder()
    builder.stream("in", WORDS).to("mid", Produced.as_("write").with_stream_partitioner(as_value_says), partitions=4)
    builder.stream("mid", WORDS).to("out")

    got, _ = written(tmp_path, builder.build(), ["3", "13"], columns=("partition", "value"))

    assert got == [(1, "13"), (3, "13"), (3, "3")]


def test_topics_chosen_by_the_record_have_the_partitioner(tmp_path):
    builder = StreamsBuilder()
    builder.stream("in", WORDS).to(
        lambda value: "out" if value else "rest", topics=["out", "rest"], partitioner=as_value_says, partitions=3
    )

    got, _ = written(tmp_path, builder.build(), ["2", "01"], columns=("partition", "value"))

    assert got == [(0, "01"), (1, "01"), (2, "2")]


def test_a_sink_of_the_processor_api_has_a_partitioner(tmp_path):
    topology = Topology().add_source("words", WORDS, "in")
    topology.add_sink("write", "out", "words", partitioner=as_value_says, partitions=3)

    got, _ = written(tmp_path, topology, ["2", "01"], columns=("partition", "value"))

    assert got == [(0, "01"), (1, "01"), (2, "2")]


def test_kafka_sees_a_sink_and_nothing_else():
    builder, plain = StreamsBuilder(), StreamsBuilder()
    to_three(builder)
    plain.stream("in", WORDS).to("out")

    assert builder.build().describe() == plain.build().describe()
    assert builder.build().fingerprint != plain.build().fingerprint


def test_the_test_driver_has_one_partition():
    builder = StreamsBuilder()
    builder.stream("in", WORDS).to("out", partitioner=lambda topic, key, value, partitions: len(value) % partitions)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_key_values("in", [("a", "x"), ("b", "xx")])

    assert [record.value for record in driver.read_outputs("out")] == ["x", "xx"]


# --- windowed keys -----------------------------------------------------------------------------------------------

ROW = ("partition", "offset", "key", "window_start_ms", "window_end_ms", "value")


def newest(windows, **options):
    """The newest value of every window, in ``out``."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", WORDS).group_by_key().windowed_by(windows)
    grouped.reduce(lambda one, other: other).to_stream().to("out", **options)
    return builder.build()


@pytest.mark.parametrize("max_records", [None, 1])
def test_a_windowed_key_is_in_the_partition_of_its_key_alone(tmp_path, max_records):
    topology = newest(TimeWindows.of_size(2), partitions=3)

    got, warehouse = written(tmp_path, topology, ["x", "y", "z"], max_records=max_records, columns=ROW)

    # murmur2 of "a" is 1 modulo 3; times are 0, 1 and 2, and two tasks have a window each at first
    assert got == [(1, 0, "a", 0, 2, "x"), (1, 1, "a", 0, 2, "y"), (1, 2, "a", 2, 4, "z")]
    verdicts = check_increment(warehouse, "p", replay_facts(topology), engine="plain")
    assert [verdict for verdict in verdicts if verdict.answer == "false"] == []


@pytest.mark.parametrize("max_records", [None, 1])
def test_a_partitioner_gets_the_windowed_key(tmp_path, max_records):
    asked = []

    def by_window(topic, key, value, partitions):
        asked.append(key)
        return key.window_start_ms // 2 % partitions

    topology = newest(TimeWindows.of_size(2), partitioner=by_window, partitions=3)

    got, _ = written(tmp_path, topology, ["x", "y", "z"], max_records=max_records, columns=ROW)

    assert got == [(0, 0, "a", 0, 2, "x"), (0, 1, "a", 0, 2, "y"), (1, 0, "a", 2, 4, "z")]
    assert set(asked) == {Windowed("a", 0, 2), Windowed("a", 2, 4)}


def test_tombstones_of_sessions_keep_their_window(tmp_path):
    topology = newest(SessionWindows.with_inactivity_gap(5), partitions=3)

    got, _ = written(tmp_path, topology, ["x", "", "z"], columns=ROW)

    # key "a" of two tasks: x, then the other task's, then what replaces x
    assert got == [
        (1, 0, "a", 0, 0, "x"),
        (1, 1, "a", 1, 1, ""),
        (1, 2, "a", 0, 0, None),
        (1, 3, "a", 0, 2, "z"),
    ]


@pytest.mark.parametrize("number", [b"", b"\0\0\0\5"])
@pytest.mark.parametrize(
    ("partitioner", "want"),
    [
        (None, [1, 1, 1]),  # murmur2 of "a" modulo 3
        (lambda topic, key, value, partitions: None, [2, 1, 0]),  # of "a" and the start, by Kafka
    ],
)
def test_keys_of_a_windowed_serde_are_where_kafkas_serde_puts_them(tmp_path, partitioner, want, number):
    """Kafka's serde of a changelog writes to an output what the other one writes."""
    serde = Serde.time_windowed(TEXT, 10, changelog=bool(number))
    builder = StreamsBuilder()
    builder.stream("in", Consumed(serde, TEXT)).to("out", partitions=3, partitioner=partitioner)
    warehouse = Warehouse(tmp_path)
    keys = [b"a" + start.to_bytes(8, "big") + number for start in (0, 10, 20)]
    plant(warehouse, "in", [LandedRecord(0, key, b"x", n) for n, key in enumerate(keys)], partitions=1)

    list(replay(warehouse, builder.build(), pipeline="p", runner=LocalRunner(), idle="proceed"))

    rows = sorted(read_table(warehouse, "p", "outputs/out").to_pylist(), key=lambda row: row["record_time_ms"])
    assert [row["partition"] for row in rows] == want
    assert [row["key"]["window_start_ms"] for row in rows] == [0, 10, 20]


# --- refused -----------------------------------------------------------------------------------------------------


def refused(call, match):
    def built():
        builder = StreamsBuilder()
        call(builder.stream("in", WORDS))
        builder.build()

    with pytest.raises(TopologyError, match=match):
        built()


def test_what_is_no_partitioner_and_no_number_is_refused():
    refused(lambda stream: stream.to("out", partitioner=lambda key: 0), r"topic, key, value, partitions")
    refused(lambda stream: stream.to("out", partitions=0), r"to\(\): expected 1 partition or more, got 0")


def test_two_partitioners_of_one_topic_are_refused():
    def twice(stream):
        stream.to("out", partitioner=as_value_says)
        stream.to("out")

    refused(twice, r"topic 'out': expected every to\(\) to say the same partitioner and number of partitions")


def test_windowed_keys_are_refused_where_the_topic_is_read():
    def windowed(stream):
        counts = stream.group_by_key().windowed_by(TimeWindows.of_size(5)).count()
        counts.to_stream().to("out", partitions=2)
        counts.to_stream().map_values("CAST(value AS string)").to("mid")

    builder = StreamsBuilder()
    windowed(builder.stream("in", WORDS))
    builder.stream("mid", WORDS)
    with pytest.raises(TopologyError, match="expected plain keys in a topic that the topology reads"):
        builder.build()
