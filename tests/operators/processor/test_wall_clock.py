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
from tests.planted import LandedRecord, plant

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


class Asking(Processor):
    """Forwards the system time, and when ``init`` asked for it."""

    def init(self, context):
        super().init(context)
        self.begun_ms = context.current_system_time_ms()
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, lambda tick_ms: context.forward("tick", tick_ms))

    def process(self, record):
        self.context.forward(self.begun_ms, self.context.current_system_time_ms())


@pytest.mark.parametrize("advances", [[], [0]])
def test_the_clock_of_a_driver_that_was_given_one_runs_before_init_as_in_kafka(advances):
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(TEXT, TEXT)).repartition()
    stream.process(Asking, returns_key=LONG, returns=LONG).to("out")
    driver = TopologyTestDriver(builder.build(), initial_wall_clock_time=1_000)
    for advance in advances:
        driver.advance_wall_clock_time(advance)
    driver.pipe_input("in", "a", "x", 5)
    driver.advance_wall_clock_time(9)
    driver.pipe_input("in", "a", "x", 5)

    assert [(one.key, one.value) for one in driver.read_outputs("out")] == [(1_000, 1_000), (1_000, 1_009)]


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


class Told(Processor):
    """Forwards its records, and every 10 ms how many of them it has had since."""

    def init(self, context):
        super().init(context)
        self.seen = context.store("seen")
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, self.tell)

    def process(self, record):
        self.seen.put("n", (self.seen.get("n") or 0) + 1)
        self.context.forward(record)

    def tell(self, tick_ms):
        self.context.forward("tick", f"{self.seen.get('n') or 0} by {tick_ms}")
        self.seen.put("n", 0)


def below_a_repartition():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(TEXT, TEXT)).select_key("value").repartition(partitions=1)
    stream.process(Told, [KeyValues("seen", TEXT, LONG)], returns=TEXT).to("out")
    return builder.build()


@pytest.mark.sampled(share=4)
@pytest.mark.parametrize("max_records", [None, 1, 2, 3])
def test_ticks_of_all_partitions_reach_what_is_below_a_repartition_the_same_wherever_they_are_cut(
    tmp_path, max_records
):
    warehouse, topology = Warehouse(tmp_path), below_a_repartition()

    def land(*records):
        plant(
            warehouse,
            "in",
            [LandedRecord(p, b"k", value.encode(), time_ms) for p, value, time_ms in records],
            partitions=2,
        )

    land((0, "early", 1), (1, "early too", 2))
    record_tick(warehouse, "in", 10)
    land((0, "a", 11), (1, "b", 12), (1, "c", 13), (0, "d", 14))
    record_tick(warehouse, "in", 20)
    land((1, "e", 21), (0, "late", 15))
    record_tick(warehouse, "in", 25)
    land((0, "f", 30))
    record_tick(warehouse, "in", 31)
    options = {} if max_records is None else {"max_records": max_records}
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed", **options))
    got = [row["value"] for row in read_table(warehouse, "p", "outputs/out").to_pylist()]

    assert got == ["early", "early too", "a", "b", "c", "d", "6 by 20", "late", "e", "f", "3 by 31"]


@pytest.mark.slow
@pytest.mark.parametrize("max_records", [None, 1])
def test_recorded_ticks_are_repeated_wherever_the_topic_is_cut(tmp_path, max_records):
    warehouse, topology = Warehouse(tmp_path), ticking()

    def land(*values):
        plant(
            warehouse, "in", [LandedRecord(0, b"a", value.encode(), time_ms) for value, time_ms in values], partitions=1
        )

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
