"""Input and output topics of the test driver: their times, serdes, headers, and what is read in which form."""

from datetime import UTC, datetime, timedelta

import pytest

from kstreams_replay import (
    Consumed,
    Materialized,
    Serde,
    StreamsBuilder,
    TestRecord,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Windowed,
)
from kstreams_replay.jobs.testing.driver_records import OutputRecord
from kstreams_replay.state.errors import ConfigError


def copied() -> Topology:
    """What comes from "in" goes to "out", and every key's number of records in 10 ms to "counts"."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    stream.to("out")
    windowed = stream.group_by_key().windowed_by(TimeWindows.of_size(10))
    windowed.count(Materialized.as_("counts")).to("counts")
    return builder.build()


def read(driver: TopologyTestDriver) -> list[tuple[object, object, int]]:
    return [(one.key, one.value, one.timestamp_ms) for one in driver.read_outputs("out")]


# --- times ---------------------------------------------------------------------------------------------------


def test_a_record_without_a_time_gets_the_topics_which_then_goes_on():
    driver = TopologyTestDriver(copied())
    topic = driver.create_input_topic("in", start_timestamp=100, auto_advance="1s")
    topic.pipe_input("a", 1)
    topic.pipe_input("b", 2, timestamp_ms=7)  # its own: the topic's time stays
    topic.pipe_input(3)
    topic.advance_time(timedelta(milliseconds=50))
    topic.pipe_input(value=4)

    assert read(driver) == [("a", 1, 100), ("b", 2, 7), (None, 3, 1_100), (None, 4, 2_150)]


def test_a_topics_time_stands_still_without_auto_advance_and_begins_at_0():
    driver = TopologyTestDriver(copied())
    topic = driver.create_input_topic("in")
    topic.pipe_value_list([1, 2])

    assert read(driver) == [(None, 1, 0), (None, 2, 0)]


def test_lists_have_times_of_their_own_or_those_of_the_topic():
    driver = TopologyTestDriver(copied())
    topic = driver.create_input_topic("in", start_timestamp=100, auto_advance=10)
    topic.pipe_key_value_list([("a", 1), ("b", 2)], start_timestamp=7, advance="1s")
    topic.pipe_value_list([3, 4], datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    topic.pipe_key_value_list([("a", 5), ("b", 6)])
    topic.pipe_record_list([TestRecord("a", 7), TestRecord("b", 8, 9)])

    assert read(driver) == [
        *(("a", 1, 7), ("b", 2, 1_007)),
        *((None, 3, 1_000), (None, 4, 1_000)),
        *(("a", 5, 100), ("b", 6, 110)),
        *(("a", 7, 120), ("b", 8, 9)),
    ]


def test_the_short_form_has_a_time_of_its_own_over_all_topics():
    builder = StreamsBuilder()
    for name in ("left", "right"):
        builder.stream(name, Consumed(Serde.string(), Serde.long())).to(f"{name}-out")
    driver = TopologyTestDriver(builder.build(), start_timestamp="1970-01-01T00:00:05Z", auto_advance=10)
    driver.pipe_input("left", "a", 1)
    driver.pipe_values("right", [2, 3])
    driver.advance_time("1s")
    driver.pipe_key_values("left", [("b", 4), ("c", 5)])
    driver.pipe_key_values("left", [("d", 6), ("e", 7)], 3, 2)
    driver.pipe_bytes("left", b"f", None)

    assert [(one.key, one.timestamp_ms) for one in driver.read_outputs("left-out")] == [
        *(("a", 5_000), ("b", 6_030), ("c", 6_040), ("d", 3), ("e", 5), ("f", 6_050)),
    ]
    assert [(one.key, one.timestamp_ms) for one in driver.read_outputs("right-out")] == [(None, 5_010), (None, 5_020)]


# --- serdes, headers, windows --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pipe",
    [
        lambda driver, given: driver.pipe_values("in", (value for _, value, _ in given)),
        lambda driver, given: driver.pipe_key_values("in", ((key, value) for key, value, _ in given)),
        lambda driver, given: driver.create_input_topic("in").pipe_values(value for _, value, _ in given),
        lambda driver, given: driver.create_input_topic("in").pipe_key_value_list(
            (key, value) for key, value, _ in given
        ),
        lambda driver, given: driver.create_input_topic("in").pipe_record_list(
            TestRecord(key, value, headers=headers) for key, value, headers in given
        ),
    ],
)
def test_what_a_generator_gives_is_what_it_was_then(pipe):
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.json("n long"), Serde.json("items array<long>"))).to("out")
    driver = TopologyTestDriver(builder.build())
    keys, values, trace = [], [], []

    def refilled():
        key, value, content = {"n": 0}, {"items": [0]}, bytearray(b"0")
        for number in range(3):
            key["n"] = value["items"][0] = number
            content[:] = b"%d" % number
            yield key, value, [("trace", content)]

    pipe(driver, refilled())
    for record in driver.read_outputs("out"):
        keys += [record.key and record.key["n"]]
        values += record.value["items"]
        trace += [content for _, content in record.headers]

    assert values == [0, 1, 2]
    assert keys in ([0, 1, 2], [None] * 3)
    assert trace in ([b"0", b"1", b"2"], [])


def test_headers_go_in_with_a_record_and_come_out_with_it():
    driver = TopologyTestDriver(copied())
    into, out = driver.create_input_topic("in"), driver.create_output_topic("out")
    into.pipe_input("a", 1, 5, [("trace", b"x"), ("empty", None)])
    into.pipe_input(TestRecord("b", None, 6, [("trace", b"y")]))

    assert out.read_records_to_list() == [
        TestRecord("a", 1, 5, (("trace", b"x"), ("empty", None))),
        TestRecord("b", None, 6, [("trace", b"y")]),
    ]


def test_serdes_of_ones_own_write_and_read_the_bytes():
    driver = TopologyTestDriver(copied())
    as_bytes = driver.create_input_topic("in", Serde.bytes(), Serde.bytes())
    as_bytes.pipe_input(b"a", (258).to_bytes(8, "big"))

    assert driver.create_output_topic("out", value_serde=Serde.bytes()).read_key_value() == (
        "a",
        b"\0\0\0\0\0\0\1\2",
    )


def test_bytes_that_the_serde_given_cannot_read_are_refused():
    driver = TopologyTestDriver(copied())
    driver.pipe_input("in", "a", 1)

    with pytest.raises(ConfigError) as caught:
        driver.create_output_topic("out", value_serde=Serde.int()).read_value()

    assert str(caught.value) == (
        "output 'out' value: expected bytes that Serde.int() reads, got bytes of Serde.long(): expected 4 bytes of an "
        "int, got 8; read it with Serde.long()"
    )


def test_a_windowed_key_is_read_with_its_window():
    driver = TopologyTestDriver(copied())
    driver.pipe_input("in", "a", 1, 25)
    driver.pipe_input("in", "a", 1, 27)
    counts = driver.create_output_topic("counts", key_serde=Serde.bytes())

    assert counts.read_key_value() == (Windowed(b"a", 20, 30), 1)
    assert driver.read_outputs("counts") == [OutputRecord("a", 2, 27, (20, 30), 1)]


# --- reading -------------------------------------------------------------------------------------------------


def test_every_form_of_reading_takes_the_records_out():
    driver = TopologyTestDriver(copied())
    into, out = driver.create_input_topic("in", auto_advance=1), driver.create_output_topic("out")
    assert (out.is_empty(), out.get_queue_size(), driver.produced_topic_names()) == (True, 0, set())

    into.pipe_key_value_list([("a", 1), ("b", 2), ("a", 3)])
    assert (out.is_empty(), out.get_queue_size(), driver.produced_topic_names()) == (False, 3, {"out", "counts"})
    assert (out.read_value(), out.read_key_value(), out.read_record()) == (1, ("b", 2), TestRecord("a", 3, 2))

    into.pipe_key_value_list([("a", 4), ("b", 5), ("a", None)])
    assert out.read_key_values_to_map() == {"a": None, "b": 5}
    into.pipe_value_list([6, 7])
    assert out.read_values_to_list() == [6, 7]
    into.pipe_input("a", 8)
    assert out.read_key_values_to_list() == [("a", 8)]
    assert (out.read_records_to_list(), out.is_empty()) == ([], True)


def test_two_readers_of_one_output_share_its_records():
    driver = TopologyTestDriver(copied())
    one, other = driver.create_output_topic("out"), driver.create_output_topic("out")
    driver.pipe_key_values("in", [("a", 1), ("b", 2), ("c", 3)])

    assert (one.read_value(), other.read_value(), driver.read_output("out").value) == (1, 2, 3)


def test_a_record_that_is_not_there_is_an_error_that_says_whether_there_was_one():
    driver = TopologyTestDriver(copied())
    out = driver.create_output_topic("out")
    said = []
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            out.read_value()
        said.append(str(caught.value))
        driver.pipe_input("in", "a", 1)
        driver.read_outputs("out")

    place = "output 'out': expected a record to read, got none:"
    assert said == [
        f"{place} nothing was written to it; ask is_empty() before",
        f"{place} all of its records were read; ask is_empty() before",
    ]


# --- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda driver: driver.create_input_topic("out"),
            "pipe_input: expected a topic of ['in'], got 'out'; pipe into a source topic",
        ),
        (
            lambda driver: driver.create_output_topic("in"),
            "read_output: expected one of ['counts', 'out'], got 'in'; read an output of to()",
        ),
        (
            lambda driver: driver.create_input_topic("in", auto_advance=-1),
            "auto_advance: expected a duration of 0 ms or more, got -1 ms; time only rises: correct the duration",
        ),
        (
            lambda driver: driver.create_input_topic("in").advance_time(timedelta(seconds=-1)),
            "advance_time: expected a duration of 0 ms or more, got -1000 ms; time only rises: correct the duration",
        ),
        (
            lambda driver: driver.create_input_topic("in").pipe_value_list([1], 0, -1),
            "advance: expected a duration of 0 ms or more, got -1 ms; time only rises: correct the duration",
        ),
        (
            lambda driver: driver.create_input_topic("in", start_timestamp=-1),
            "start_timestamp: expected a time of 0 ms or more, got -1 ms; correct the time",
        ),
        (
            lambda driver: driver.create_input_topic("in").pipe_input("a", 1, -5),
            "TestRecord timestamp_ms: expected a time of 0 ms or more, got -5 ms; correct the time",
        ),
        (
            lambda driver: driver.create_input_topic("in").pipe_input("a", 1, True),
            "TestRecord timestamp_ms: expected a time, got True; give milliseconds since 1970 or a datetime with its "
            "zone",
        ),
        (
            lambda driver: driver.pipe_input("in", "a", 1, datetime(2026, 1, 1)),
            "timestamp_ms: expected a datetime with its zone, got datetime.datetime(2026, 1, 1, 0, 0); give it tzinfo, "
            "for example UTC",
        ),
        (
            lambda driver: driver.create_input_topic("in").pipe_input(TestRecord("a", 1), timestamp_ms=5),
            "pipe_input: expected a TestRecord alone, got a TestRecord and more; give it its time and headers itself",
        ),
        (
            lambda driver: driver.create_input_topic("in").pipe_input(timestamp_ms=5),
            "pipe_input: expected a record, a value, or a key and a value, got nothing; give a value",
        ),
        (
            lambda driver: driver.create_input_topic("in").pipe_input("a", "b"),
            "Serde.long(), row 0: expected a long, got 'b' (str); give a value of that type",
        ),
    ],
)
def test_a_wrong_use_is_refused_with_what_would_be_right(use, message):
    with pytest.raises(ConfigError) as caught:
        use(TopologyTestDriver(copied()))

    assert str(caught.value) == message


def test_null_keys_make_no_map():
    driver = TopologyTestDriver(copied())
    driver.pipe_values("in", [1])

    with pytest.raises(ConfigError, match="expected records with keys, got a null key"):
        driver.create_output_topic("out").read_key_values_to_map()


def test_kafkas_java_names_are_told_what_to_write():
    driver = TopologyTestDriver(copied())

    with pytest.raises(AttributeError, match="Kafka's createInputTopic is create_input_topic here"):
        driver.createInputTopic  # noqa: B018
    with pytest.raises(AttributeError, match="Kafka's readKeyValue is read_key_value here"):
        driver.create_output_topic("out").readKeyValue  # noqa: B018


# --- what cannot be piped ------------------------------------------------------------------------------------


def test_bytes_are_what_they_were_when_they_were_piped():
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.string())).to("out")
    driver = TopologyTestDriver(builder.build())
    key, value = bytearray(b"a"), bytearray(b"one")
    driver.pipe_bytes("in", key, value, 0)
    key[:], value[:] = b"b", b"two"
    driver.pipe_bytes("in", memoryview(key), value, 0)

    assert read(driver) == [("a", "one", 0), ("b", "two", 0)]


@pytest.mark.parametrize(
    ("pipe", "message"),
    [
        (
            lambda driver: driver.pipe_input("in", "b", 2, offset=2**63),
            "offset: expected a whole number of 64 bits, or None, got 9223372036854775808; correct the offset",
        ),
        (
            lambda driver: driver.pipe_input("in", "b", 2, offset="5"),
            "offset: expected a whole number of 64 bits, or None, got '5'; correct the offset",
        ),
        (
            lambda driver: driver.pipe_input("in", "b", 2, timestamp_ms=2**63),
            "topic 'in', timestamp_ms: expected a time of 64 bits, got 9223372036854775808; correct the time",
        ),
        (
            lambda driver: driver.create_input_topic("in").pipe_input("b", 2, timestamp_ms=2**63),
            "timestamp_ms: expected a time of 64 bits, got 9223372036854775808; correct the time",
        ),
        (
            lambda driver: driver.pipe_bytes("in", 5, b"", 0),
            "key: expected bytes or None, got 5; write bytes, or pipe_input with a value of the serde",
        ),
        (
            lambda driver: driver.pipe_bytes("in", b"", "text", 0),
            "value: expected bytes or None, got 'text'; write bytes, or pipe_input with a value of the serde",
        ),
    ],
)
def test_what_cannot_be_piped_is_refused_at_once_and_records_before_it_stay(pipe, message):
    driver = TopologyTestDriver(copied(), auto_advance=10)
    driver.pipe_input("in", "a", 1)
    with pytest.raises(ConfigError) as caught:
        pipe(driver)
    driver.pipe_input("in", "c", 3)

    assert str(caught.value).endswith(message)
    assert read(driver) == [("a", 1, 0), ("c", 3, 10)]


@pytest.mark.parametrize(
    "pipe",
    [
        lambda topic: topic.pipe_key_value_list([("a", 1), ("b", "x")]),
        lambda topic: topic.pipe_value_list([1, "x"]),
        lambda topic: topic.pipe_input("a", "x"),
        lambda topic: topic.pipe_record_list([TestRecord("a", 1), TestRecord("b", 2, headers=[("h", 5)])]),
    ],
)
def test_a_list_that_is_refused_pipes_nothing_and_leaves_the_topics_time(pipe):
    driver = TopologyTestDriver(copied())
    topic = driver.create_input_topic("in", auto_advance=10)
    with pytest.raises(ConfigError):
        pipe(topic)
    topic.pipe_input("c", 3)

    assert read(driver) == [("c", 3, 0)]


def test_a_record_that_is_refused_leaves_the_drivers_time():
    driver = TopologyTestDriver(copied(), auto_advance=10)
    with pytest.raises(ConfigError):
        driver.pipe_input("in", "a", 1, headers=[("h", 5)])
    driver.pipe_input("in", "c", 3)

    assert read(driver) == [("c", 3, 0)]
