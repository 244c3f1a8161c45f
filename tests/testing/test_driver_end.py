"""How a test driver ends: closed, by a record that fails, and what it says of a clock that it does not have."""

import traceback

import pytest

from kstreams_replay import (
    BufferConfig,
    Consumed,
    KeyValues,
    Materialized,
    Processor,
    PunctuationType,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyTestDriver,
)
from kstreams_replay.jobs.testing.driver_records import PipedRecord
from kstreams_replay.state.errors import BufferFull, ConfigError, TaskFailed

NOTE = "it came with the record in-0 at offset 1: key 'b', value 0, time 3 ms (number 2 of all that were piped, from 0)"
CLOSED = "test driver: expected a driver that is open, got a closed one; make another one"


def divided() -> Topology:
    """60 divided by every value; and a count of the other topic, which has a repartition of its own."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    stream.map_values(lambda value: 60 // value, returns=Serde.long(), name="divide").to("out")
    other = builder.stream("other", Consumed(Serde.string(), Serde.long()))
    other.group_by("value").count(Materialized.as_("counts")).to("counts")
    return builder.build()


# --- a record that fails -------------------------------------------------------------------------------------


def test_a_failure_has_the_place_and_the_content_of_its_record():
    driver = TopologyTestDriver(divided())
    driver.pipe_input("other", "x", 1, 1)
    driver.pipe_input("in", "a", 5, 2)
    driver.pipe_input("in", "b", 0, 3, headers=[("trace", b"t")])
    driver.pipe_input("in", "c", 4, 4)

    with pytest.raises(TaskFailed) as caught:
        driver.run()

    assert caught.value.record == PipedRecord("in", 0, 1, "b", 0, 3, (("trace", b"t"),), arrival=2)
    assert "".join(traceback.format_exception(caught.value)).strip().endswith(NOTE)
    assert [record.value for record in driver.read_outputs("out")] == [12]


def test_the_failure_of_an_extractor_has_its_record_too():
    builder = StreamsBuilder()
    extracted = Consumed(Serde.string(), Serde.string(), timestamp_extractor=lambda record: int(record.value))
    builder.stream("in", extracted).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", "5", 1)
    driver.pipe_input("in", "b", "no number", 2, offset=70)
    driver.pipe_input("in", "c", "7", 3)

    with pytest.raises(TaskFailed) as caught:
        driver.run()

    assert caught.value.record == PipedRecord("in", 0, 70, "b", "no number", 2, (), arrival=1)
    assert "in-0, offset 70" in str(caught.value)
    assert caught.value.__notes__ == [caught.value.record.note()]
    assert [record.timestamp_ms for record in driver.read_outputs("out")] == [5]


def test_a_record_has_the_offset_that_the_test_gave_wherever_it_fails_or_is_refused():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    stream.map_values(lambda value: 60 // value, returns=Serde.long(), name="divide").to("out")
    stream.group_by_key().count().to("counts")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_bytes("in", b"a", b"short", 1, offset=70)
    driver.pipe_input("in", None, 1, 1, offset=71)
    driver.pipe_input("in", None, 1, 1)
    driver.pipe_input("in", "a", 0, 1, offset=73)

    with pytest.raises(TaskFailed) as caught:
        driver.run()

    assert [letter.offset for letter in driver.dead_letters] == [70]
    assert [refusal.offset for refusal in driver.dropped] == [71, 2]
    assert caught.value.record is not None
    assert caught.value.record.offset == 73
    assert "of the record in-0, offset 73" in str(caught.value)


def test_a_failure_is_raised_again_with_one_note():
    driver = TopologyTestDriver(divided())
    for _ in range(2):
        driver.pipe_input("in", "b", 0)
        with pytest.raises(TaskFailed) as caught:
            driver.run()

    assert len(caught.value.__notes__) == 1


def test_what_a_full_buffer_ends_leaves_no_output_of_later_records():
    builder = StreamsBuilder()
    builder.stream("other", Consumed(Serde.string(), Serde.long())).to("later")  # its task runs first
    stream = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    none = Suppressed.until_window_closes(max_records=0)
    stream.group_by_key().windowed_by(TimeWindows.of_size(10)).count().suppress(none).to("final")
    stream.to("copies")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 7, 5)
    driver.pipe_input("other", "b", 8, 6)

    with pytest.raises(BufferFull) as caught:
        driver.run()

    assert (caught.value.record.key, caught.value.record.value, caught.value.arrival) == ("a", 7, 0)
    assert driver.produced_topic_names() <= {"copies"}
    assert driver.read_outputs("later") == []


@pytest.mark.parametrize("is_read_each", [True, False])
def test_a_full_buffer_leaves_stores_as_they_were_at_its_record(is_read_each):
    builder = StreamsBuilder()
    counted = builder.stream("in", Consumed(Serde.string(), Serde.long())).group_by_key().count(Materialized.as_("c"))
    two = Suppressed.until_time_limit("1h", BufferConfig.max_records(2).shut_down_when_full())
    counted.suppress(two).to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    for key in "ab" if is_read_each else "":
        driver.pipe_input("in", key, 1)
        driver.run()
    driver.pipe_key_values("in", [(key, 1) for key in ("c" if is_read_each else "abcddd")])
    with pytest.raises(BufferFull) as caught:
        driver.run()

    assert caught.value.arrival == 2
    assert driver.get_key_value_store("c").all() == [("a", 1), ("b", 1), ("c", 1)]
    assert [(one.key, one.arrival) for one in driver.read_outputs("c-changelog")] == [("a", 0), ("b", 1), ("c", 2)]


class CountsTicks(Processor):
    """Puts the number of ticks, and fails at the second one after it."""

    def init(self, context):
        super().init(context)
        self.ticks = context.store("ticks")
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, self.tick)

    def process(self, record):
        self.context.forward(record.key, self.ticks.get("n"))

    def tick(self, time):
        self.ticks.put("n", (self.ticks.get("n") or 0) + 1)
        self.context.forward("tick", self.ticks.get("n"))
        if time >= 20:
            raise ValueError("twenty")


def test_a_tick_that_fails_ends_the_driver_as_it_was_before_the_tick():
    longs = Serde.long()
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), longs)).process(
        CountsTicks, [KeyValues("ticks", Serde.string(), longs)], returns=longs
    ).to("out")
    driver = TopologyTestDriver(builder.build(), initial_wall_clock_time=0)
    driver.advance_wall_clock_time(10)
    driver.pipe_input("in", "a", 1)
    with pytest.raises(TaskFailed, match="twenty") as caught:
        driver.advance_wall_clock_time(10)

    assert (caught.value.arrival, caught.value.record) == (2, None)
    for _ in range(2):
        assert driver.get_key_value_store("ticks").get("n") == 1
        driver.read_outputs("ticks-changelog")  # what was before is run again for it
    assert [one.value for one in driver.read_outputs("out")] == [1, 1]
    driver.pipe_input("in", "a", 1)
    for again in (driver.run, lambda: driver.advance_wall_clock_time(1)):
        with pytest.raises(TaskFailed, match="twenty"):
            again()


def test_a_driver_that_has_ended_takes_neither_times_nor_puts():
    driver = TopologyTestDriver(divided())
    driver.pipe_input("in", "b", 0)
    with pytest.raises(TaskFailed):
        driver.run()

    for more in (
        lambda: driver.advance_wall_clock_time(1),
        lambda: driver.advance_stream_time("in", 50),
        lambda: driver.get_key_value_store("counts").put("a", 5),
    ):
        with pytest.raises(TaskFailed, match="ZeroDivisionError"):
            more()


@pytest.mark.parametrize("records", [0, -1, True, 1.5, "3"])
def test_chunks_of_no_records_are_refused(records):
    with pytest.raises(ConfigError, match=r"chunk_records: expected a whole number of 1 or more, or None, got"):
        TopologyTestDriver(divided(), chunk_records=records)


def test_the_first_record_that_fails_is_told_wherever_it_fails_and_what_was_before_it_has_come_out():
    """
    A reducer fails on the third record, a step above it on the fifth: the third is the first.
    """

    def reduced(left, right):
        if right == 13:
            raise ValueError("thirteen")
        return left + right

    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    halves = stream.map_values(lambda value: 26 // value, returns=Serde.long())
    halves.group_by("value").reduce(reduced).to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1)
    driver.read_outputs("out")
    driver.pipe_values("in", [1, 2, 2, 3, 0])

    with pytest.raises(TaskFailed, match="thirteen") as caught:
        driver.read_outputs("out")

    assert (caught.value.record.offset, caught.value.record.value) == (3, 2)
    assert [(one.value, one.arrival) for one in driver.read_outputs("out")] == [(52, 1), (13, 2)]


# --- closing -------------------------------------------------------------------------------------------------


def test_a_closed_driver_has_run_what_was_piped_and_takes_no_more():
    driver = TopologyTestDriver(divided())
    topic = driver.create_input_topic("in")
    counts = driver.get_key_value_store("counts")
    topic.pipe_input("a", 5)
    driver.close()
    driver.close()

    assert [record.value for record in driver.read_outputs("out")] == [12]
    for use in (
        lambda: topic.pipe_input("a", 5),
        lambda: driver.pipe_input("in", "a", 5),
        lambda: driver.pipe_values("in", [5]),
        lambda: driver.create_input_topic("in"),
        lambda: driver.advance_stream_time("in", 5),
        lambda: counts.get(1),
        lambda: driver.store("counts"),
    ):
        with pytest.raises(ConfigError) as caught:
            use()
        assert str(caught.value) == CLOSED


def test_a_with_closes_the_driver_and_finds_the_record_that_nobody_read():
    with pytest.raises(TaskFailed), TopologyTestDriver(divided()) as driver:
        driver.pipe_input("in", "a", 0)

    with pytest.raises(ConfigError, match="a closed one"):
        driver.pipe_input("in", "a", 1)


def test_a_with_that_fails_by_itself_keeps_its_own_error():
    driver = TopologyTestDriver(divided())
    driver.pipe_input("in", "a", 0)
    with pytest.raises(ZeroDivisionError), driver:
        raise ZeroDivisionError

    with pytest.raises(ConfigError, match="a closed one"):
        driver.pipe_input("in", "a", 1)


# --- the wall clock ------------------------------------------------------------------------------------------


def test_the_wall_clock_goes_on_and_not_back():
    driver = TopologyTestDriver(divided())

    driver.advance_wall_clock_time("1m")

    with pytest.raises(ConfigError, match="expected a duration of 0 ms or more, got -1 ms"):
        driver.advance_wall_clock_time(-1)
