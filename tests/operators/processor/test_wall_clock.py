"""Schedules by the wall clock: which ticks call them, what a processor sees of the clock, and what is kept of it."""

import pytest

from kstreams_replay import (
    Consumed,
    KeyValues,
    LocalRunner,
    Processor,
    PunctuationType,
    Serde,
    StreamsBuilder,
    TopologyTestDriver,
    record_tick,
    replay,
)
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.state.errors import ConfigError, TaskFailed
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import Landed, plant

TEXT, LONG = Serde.string(), Serde.long()


class Clock(Processor):
    """Says the tick and how many records there were, every 10 ms; "stop" ends that."""

    def init(self, context):
        super().init(context)
        self.seen = context.store("seen")
        self.schedule = context.schedule(10, PunctuationType.WALL_CLOCK_TIME, self.tell)

    def process(self, record):
        if record.value == "stop":
            self.schedule.cancel()
        self.seen.put("n", (self.seen.get("n") or 0) + 1)

    def tell(self, tick_ms):
        assert self.context.current_system_time_ms() == tick_ms
        self.context.forward("tick", self.seen.get("n"))


def ticking():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(TEXT, TEXT))
    stream.process(Clock, [KeyValues("seen", TEXT, LONG)], returns=LONG).to("out")
    return builder.build()


def test_a_tick_calls_what_is_due_and_is_the_time_of_what_it_forwards():
    driver = TopologyTestDriver(ticking(), initial_wall_clock_time=1_000)
    driver.pipe_input("in", "a", "x", 3)
    driver.advance_wall_clock_time(9)
    driver.pipe_input("in", "a", "x", 4)
    driver.advance_wall_clock_time(1)

    assert [(one.key, one.value, one.timestamp_ms) for one in driver.read_outputs("out")] == [("tick", 2, 1_010)]


def test_the_system_time_is_the_latest_tick_and_refused_before_the_first():
    class Asking(Processor):
        def process(self, record):
            self.context.forward(record.key, self.context.current_system_time_ms())

    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).process(Asking, returns=LONG).to("out")
    topology = builder.build()
    driver = TopologyTestDriver(topology)
    driver.advance_wall_clock_time(7)
    driver.pipe_input("in", "a", "x", 100)
    assert [one.value for one in driver.read_outputs("out")] == [7]

    early = TopologyTestDriver(topology)
    early.pipe_input("in", "a", "x", 100)
    with pytest.raises(TaskFailed, match="expected a recorded tick of the wall clock before it is asked for, got none"):
        early.run()


def test_below_a_repartition_a_schedule_by_the_wall_clock_is_refused():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(TEXT, TEXT)).select_key("value").repartition()
    stream.process(Clock, [KeyValues("seen", TEXT, LONG)], returns=LONG).to("out")
    topology = builder.build()

    with pytest.raises(TaskFailed, match="a schedule by wall-clock time below a repartition"):
        TopologyTestDriver(topology)


@pytest.mark.parametrize("max_records", [None, 1])
def test_recorded_ticks_are_repeated_wherever_the_topic_is_cut(tmp_path, max_records):
    warehouse, topology = Warehouse(tmp_path), ticking()

    def land(*values):
        plant(warehouse, "in", [Landed(0, b"a", value.encode(), time_ms) for value, time_ms in values], partitions=1)

    land(("x", 3), ("x", 500))
    assert record_tick(warehouse, "in", 100) == {0: 100}  # starts the clock
    land(("x", 90))
    assert record_tick(warehouse, "in", 90) == {}  # the clock does not go back
    record_tick(warehouse, "in", 127)
    land(("stop", 4))
    record_tick(warehouse, "in", 150)
    options = {} if max_records is None else {"max_records": max_records}
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed", **options))

    rows = read_table(warehouse, "p", "outputs/out").to_pylist()
    assert [(row["value"], row["record_time_ms"], row["cause_offset"]) for row in rows] == [(3, 127, -1)]


def test_a_tick_is_of_0_ms_or_more(tmp_path):
    with pytest.raises(ConfigError, match="expected a time of 0 ms or more, got -1"):
        record_tick(Warehouse(tmp_path), "in", -1)
