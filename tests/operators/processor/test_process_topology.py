"""A Python processor in a topology: what is above and below it, and that its state lasts."""

from functools import partial

import pytest

from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor, PunctuationType, Record
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from tests.operators.tapes import piped, table

TEXT = Consumed(Serde.string(), Serde.long())


class SummingProcessor(Processor):
    """Sums by key; forwards them every 10 ms."""

    def init(self, context):
        super().init(context)
        self.totals = context.store("totals")
        context.schedule("10ms", PunctuationType.STREAM_TIME, self.tell)

    def process(self, record: Record) -> None:
        if record.value is not None:
            self.totals.put(record.key, (self.totals.get(record.key) or 0) + record.value)

    def tell(self, time_ms: int) -> None:
        for key, total in self.totals.all():
            self.context.forward(key, f"{total} until {time_ms}")


def topology() -> Topology:
    """Totals of the positive numbers, in one output with the negative ones as they come."""
    builder = StreamsBuilder()
    stream = builder.stream("in", TEXT)
    totals = stream.filter("value >= 0").process(
        SummingProcessor, [KeyValues("totals", Serde.string(), Serde.long())], returns=Serde.string()
    )
    negative = stream.filter("value < 0").map_values(lambda key, value: str(value), returns=Serde.string())
    totals.merge(negative).to("out")
    return builder.build()


TAPE = """
    key | value | time_ms
    a   | 1     | 1
    b   | 2     | 4
    a   | -3    | 12    # filtered out above the processor: the schedule is due all the same
    a   | 4     | 15
    c   | -5    | 40
    b   | 6     | 41
"""
WANT = """
    step | key | value     | time_ms
    1    | a   | 1 until 1 | 1
    3    | a   | -3        | 12    # before what the punctuation forwards
    3    | a   | 1 until 12 | 12
    3    | b   | 2 until 12 | 12
    5    | c   | -5        | 40
    5    | a   | 5 until 40 | 40
    5    | b   | 2 until 40 | 40
"""


def test_a_processor_between_other_steps_punctuates_after_each_record_of_the_task():
    assert piped(TopologyTestDriver(topology()), TAPE).outputs() == table(WANT)


def test_the_size_of_a_chunk_changes_nothing():
    for size in (1, 2, 5):
        assert piped(TopologyTestDriver(topology(), chunk_records=size), TAPE).outputs() == table(WANT)


def test_what_a_processor_did_not_forward_is_not_dropped():
    got = piped(TopologyTestDriver(topology()), TAPE)

    assert got.outputs() == table(WANT)
    assert got.driver.dropped == []


class TwoTicks(Processor):
    """Forwards its name whenever one of its two schedules is called."""

    def __init__(self, name):
        self.name = name

    def init(self, context):
        super().init(context)
        for interval_ms in (5, 10):
            context.schedule(interval_ms, PunctuationType.STREAM_TIME, self.tick)

    def process(self, record: Record) -> None:
        pass

    def tick(self, time_ms: int) -> None:
        self.context.forward(self.name, time_ms)


@pytest.mark.parametrize("stores", [(), ("shared",)], ids=["chunk by chunk", "record by record"])
@pytest.mark.parametrize(
    "names",
    [
        ("longer-name-2", "b", "longer-name-1", "aa"),
        ("b-of-the-same-end", "a-of-the-same-end"),
        ("KSTREAM-PROCESSVALUES-0000000101", "KSTREAM-PROCESSOR-0000000102"),
    ],
)
def test_of_processors_whose_schedules_are_due_at_once_the_one_that_was_added_first_goes_first(names, stores):
    builder = StreamsBuilder().add_state_store(KeyValues("shared", Serde.string(), Serde.long()))
    stream = builder.stream("in", TEXT)
    ticks, *others = (stream.process(partial(TwoTicks, name), [*stores], name=name) for name in names)
    for other in others:
        ticks = ticks.merge(other)
    ticks.to("out")
    driver = TopologyTestDriver(builder.build())
    for time_ms in (0, 5, 10):
        driver.pipe_input("in", "a", 1, time_ms)

    got = [(record.key, record.value) for record in driver.read_outputs("out")]

    assert got == [
        (name, time_ms) for time_ms, calls in ((0, 2), (5, 1), (10, 2)) for name in names for _ in range(calls)
    ]
