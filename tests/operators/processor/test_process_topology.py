"""A Python processor in a topology: what is above and below it, and that its state lasts."""

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
