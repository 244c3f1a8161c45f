"""TopologyTestDriver: pipe in, read out, look into stores; records are run when something is read."""

import pytest

from kstreams_replay.jobs.testing.driver_records import DeadLetter, DroppedRecord, OutputRecord
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    KeyValues,
    Materialized,
    Processor,
    Record,
    Serde,
    StreamsBuilder,
    TimeWindows,
    Topology,
    fold,
)
from kstreams_replay.state.errors import ConfigError


def hourly() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("clicks", Consumed(Serde.string(), Serde.long()))
    counted = stream.group_by_key().windowed_by(TimeWindows.of_size(10)).count(Materialized.as_("counts"))
    counted.to("counts")
    stream.to("copies")
    return builder.build()


def test_outputs_are_read_one_by_one_or_all_at_once_and_are_then_gone():
    driver = TopologyTestDriver(hourly())
    for time_ms in (1, 2, 3):
        driver.pipe_input("clicks", "a", 7, time_ms)

    assert driver.read_output("counts") == OutputRecord("a", 1, 1, (0, 10), 0)
    assert driver.read_outputs("counts") == [
        OutputRecord("a", 2, 2, (0, 10), 1),
        OutputRecord("a", 3, 3, (0, 10), 2),
    ]
    assert (driver.read_output("counts"), driver.read_outputs("counts")) == (None, [])
    assert [record.arrival for record in driver.read_outputs("copies")] == [0, 1, 2]


def test_what_was_piped_after_a_reading_goes_on_from_there():
    driver = TopologyTestDriver(hourly())
    driver.pipe_input("clicks", "a", 7, 1)
    driver.read_outputs("counts")
    driver.pipe_input("clicks", "a", 7, 2)

    assert driver.read_outputs("counts") == [OutputRecord("a", 2, 2, (0, 10), 1)]


def test_refusals_and_dead_letters_name_the_record_that_was_piped():
    driver = TopologyTestDriver(hourly())
    driver.pipe_input("clicks", "a", 7, 10)
    driver.pipe_input("clicks", "a", 7, 9)
    driver.pipe_bytes("clicks", b"a", b"short", 11)
    driver.run()

    assert driver.dropped == [
        DroppedRecord(
            "KSTREAM-AGGREGATE-0000000001", "expired-window", "clicks", 1, 9, 10, 10, window=(0, 10), arrival=1
        )
    ]
    assert driver.dead_letters == [
        DeadLetter("clicks", 2, "value: expected 8 bytes of a long, got 5", b"a", b"short", arrival=2)
    ]


class Last(Processor):
    """Keeps the last value, also of a record without a key."""

    def process(self, record: Record) -> None:
        self.context.store("last").put(record.key or "none", record.value)


def test_bad_records_of_a_global_table_are_refused_once_whoever_reads_it():
    """Two tasks read it, and one global store that takes null keys."""
    builder, longs = StreamsBuilder(), Consumed(Serde.string(), Serde.long())
    table = builder.global_table("rates", longs, materialized=Materialized.as_("rates"))
    for topic in ("a", "b"):
        builder.stream(topic, longs).join(table, "right", selector="record_key").to(f"{topic}-out")
    builder.add_global_store(KeyValues("last", Serde.string(), Serde.long()), "all", longs, Last)
    driver = TopologyTestDriver(builder.build())
    for topic in ("rates", "all"):
        driver.pipe_input(topic, "k", 1, 5)
        driver.pipe_bytes(topic, b"k", b"short", 6)
        driver.pipe_input(topic, "k", 1, 2**53)
        driver.pipe_input(topic, None, 1, 7)
        driver.pipe_input(topic, "k", 1, -5)
    driver.pipe_input("a", "k", 1, 9)
    driver.run()

    assert [(one.topic, one.offset, one.reason[:5], one.value, one.arrival) for one in driver.dead_letters] == [
        ("rates", 1, "value", b"short", 1),
        ("rates", 2, "time:", (1).to_bytes(8, "big"), 2),
        ("all", 1, "value", b"short", 6),
        ("all", 2, "time:", (1).to_bytes(8, "big"), 7),
    ]
    assert [(one.topic, one.offset, one.reason, one.record_time_ms, one.arrival) for one in driver.dropped] == [
        ("rates", 3, "null-key", 7, 3),
        ("rates", 4, "negative-timestamp", -5, 4),
        ("all", 4, "negative-timestamp", -5, 9),
    ]
    assert driver.metrics()["dropped-records-total"] == 7


def test_undecodable_records_are_dropped_records_as_in_kafka():
    driver = TopologyTestDriver(hourly())
    driver.pipe_bytes("clicks", b"a", b"short", 11)
    driver.pipe_input("clicks", None, 1, 11)

    assert driver.metrics()["dropped-records-total"] == 2


def test_arrivals_count_over_all_topics_and_through_repartition_tables():
    builder = StreamsBuilder()
    for topic in ("left", "right"):
        stream = builder.stream(topic, Consumed(Serde.string(), Serde.long()))
        stream.group_by("value").count().to(f"{topic}-counts")
    driver = TopologyTestDriver(builder.build())
    for arrival, topic in enumerate(["left", "right", "right", "left"]):
        driver.pipe_input(topic, "k", 7, arrival)

    assert [(r.arrival, r.value) for r in driver.read_outputs("left-counts")] == [(0, 1), (3, 2)]
    assert [(r.arrival, r.value) for r in driver.read_outputs("right-counts")] == [(1, 1), (2, 2)]


def test_lateness_follows_the_one_clock_of_all_topics():
    builder = StreamsBuilder()
    for topic in ("left", "right"):
        builder.stream(topic, Consumed(Serde.string(), Serde.long())).to(f"{topic}-out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("left", "k", 1, 10)
    driver.pipe_input("right", "k", 1, 4)
    driver.pipe_bytes("left", b"k", b"bad", 99)
    driver.pipe_input("left", "k", 1, 9)

    assert driver.metrics() == {
        "dropped-records-total": 1,
        "record-lateness-avg": (0 + 6 + 1) / 3,
        "record-lateness-max": 6,
        "suppress": {},
        "deduplicate": {},
    }


def test_a_topic_of_several_sinks_has_records_in_the_order_of_what_was_piped():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.string()))
    stream.to(lambda key, value: "x")
    stream.map_values("value || '!'").to(lambda key, value: "x")
    stream.map_values("value || '?'").repartition(name="again").to(lambda key, value: "x")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_key_values("in", [("a", "0"), ("a", "1")])

    assert [one.value for one in driver.read_outputs("x")] == ["0", "0!", "0?", "1", "1!", "1?"]


class Words(Processor):
    """Forwards each word; its store may be shared, so that the task runs record by record."""

    def process(self, record: Record) -> None:
        for word in record.value.split():
            self.context.forward(record.with_value(word))


@pytest.mark.parametrize("way", ["flat map", "processor", "record by record"])
@pytest.mark.parametrize("chunk_records", [None, 1])
def test_rows_of_one_record_come_to_a_topic_of_several_sinks_row_by_row(way, chunk_records):
    """Kafka forwards depth first: a row to all sinks before the next row."""
    text = Serde.string()
    builder = StreamsBuilder()
    words = builder.stream("in", Consumed(text, text))
    if way == "flat map":
        words = words.flat_map_values(lambda value: value.split(), returns=text)
    else:
        words = words.process(Words, [KeyValues("kept", text, text)])
    if way == "record by record":
        words = words.process(Words, ["kept"])
    words.to(lambda key, value: "x")
    words.filter("value <> 'b'").map_values("value || '!'").to(lambda key, value: "x")
    words.map_values("value || '?'").to(lambda key, value: "y" if value == "a?" else "x")
    driver = TopologyTestDriver(builder.build(), chunk_records=chunk_records)
    driver.pipe_key_values("in", [("k", "a b"), ("k", "c d")])

    assert [one.value for one in driver.read_outputs("x")] == ["a", "a!", "b", "b?", "c", "c!", "c?", "d", "d!", "d?"]
    assert [one.value for one in driver.read_outputs("y")] == ["a?"]


def test_metrics_of_a_driver_that_took_nothing_are_null():
    metrics = TopologyTestDriver(hourly()).metrics()

    assert (metrics["record-lateness-avg"], metrics["record-lateness-max"]) == (None, None)


def test_a_store_of_json_keys_can_be_listed():
    builder = StreamsBuilder()
    key = Serde.json("origin string, gate int")
    stream = builder.stream("in", Consumed(key, Serde.long()))
    stream.group_by_key().aggregate(fold.sum("value"), materialized=Materialized.as_("sums")).to("out")
    driver = TopologyTestDriver(builder.build())
    for gate in (2, 1, 2):
        driver.pipe_input("in", {"origin": "JFK", "gate": gate}, 5, 0)

    assert driver.store("sums").all() == [
        ({"origin": "JFK", "gate": 1}, None, 5),
        ({"origin": "JFK", "gate": 2}, None, 10),
    ]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda driver: driver.pipe_input("counts", "a", 1, 0),
            "pipe_input: expected a topic of ['clicks'], got 'counts'; pipe into a source topic",
        ),
        (
            lambda driver: driver.read_outputs("clicks"),
            "read_output: expected one of ['copies', 'counts'], got 'clicks'; read an output of to()",
        ),
        (
            lambda driver: driver.read_output("clicks"),
            "read_output: expected one of ['copies', 'counts'], got 'clicks'; read an output of to()",
        ),
        (
            lambda driver: driver.store("count"),
            "store: expected one of ['counts'], got 'count'; did you mean 'counts'?",
        ),
        (
            lambda driver: driver.pipe_input("clicks", 5, 1, 0),
            "Serde.string(), row 0: expected a str, got 5 (int); give a value of that type",
        ),
        (
            lambda driver: driver.pipe_input("clicks", "a", "1", 0),
            "Serde.long(), row 0: expected a long, got '1' (str); give a value of that type",
        ),
    ],
)
def test_a_wrong_name_or_value_is_refused_with_what_would_be_right(use, message):
    with pytest.raises(ConfigError) as caught:
        use(TopologyTestDriver(hourly()))

    assert str(caught.value) == message
