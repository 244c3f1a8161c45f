"""Processors that keep keys (KIP-820), records for one child, and what a processor's context refuses."""

import pytest

from kstreams_replay.jobs.functions.expressions import Windowed
from kstreams_replay.jobs.functions.processor_api import (
    FixedKeyProcessor,
    FixedKeyRecord,
    Processor,
    PunctuationType,
    Record,
)
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import KStream, Serde, StreamsBuilder, TimeWindows
from kstreams_replay.state.errors import TaskFailed
from tests.topology.streams import LONG, LONGS, STRING


def keeping(function):
    class Keeping(FixedKeyProcessor):
        def process(self, record: FixedKeyRecord) -> None:
            function(self.context, record)

    return Keeping


def changing(function):
    class Changing(Processor):
        def process(self, record: Record) -> None:
            function(self.context, record)

    return Changing


def driver_of(call) -> TopologyTestDriver:
    """``call`` adds to the stream of longs "in"; what comes of it is written to "out"."""
    builder = StreamsBuilder()
    call(builder.stream("in", LONGS)).to("out")
    return TopologyTestDriver(builder.build())


@pytest.mark.parametrize("kind", ["process", "process_values"])
def test_headers_come_in_and_go_out_and_may_be_others(kind):
    def turn(context, record) -> None:
        context.forward(record)
        context.forward(record.with_headers((*record.headers, ("more", None))).with_value(0))

    make = changing if kind == "process" else keeping
    driver = driver_of(lambda stream: getattr(stream, kind)(make(turn)))
    driver.pipe_input("in", "a", 7, 5, headers=(("from", b"me"),))

    assert [(one.key, one.value, one.timestamp_ms, one.headers) for one in driver.read_outputs("out")] == [
        ("a", 7, 5, (("from", b"me"),)),
        ("a", 0, 5, (("from", b"me"), ("more", None))),
    ]


def test_the_value_may_have_another_type_and_the_record_another_time():
    def tell(context, record) -> None:
        context.forward(record.with_value(f"{record.value}!").with_timestamp(9))

    driver = driver_of(lambda stream: stream.process_values(keeping(tell), returns=STRING))
    driver.pipe_input("in", "a", 7, 5)

    assert [(one.value, one.timestamp_ms) for one in driver.read_outputs("out")] == [("7!", 9)]


@pytest.mark.parametrize(
    ("returns_key", "end_ms", "said"),
    [
        (STRING, 10, r"a window of 10 ms; write process_values, .* returns_key=Serde.time_windowed\(.*, 10\); of sess"),
        (Serde.time_windowed(STRING, 10), 7, r"got Windowed\(.*\), a window of 7 ms; correct the processor"),
    ],
)
def test_a_windowed_key_that_the_serde_cannot_carry_is_said_with_its_size(returns_key, end_ms, said):
    def send(context, record) -> None:
        context.forward(record.with_key(Windowed(record.key.key, 0, end_ms)))

    driver = driver_of(
        lambda stream: (
            stream.group_by_key()
            .windowed_by(TimeWindows.of_size(10))
            .count()
            .to_stream()
            .process(changing(send), returns_key=returns_key)
        )
    )
    driver.pipe_input("in", "a", 7, 5)

    with pytest.raises(TaskFailed, match=said):
        driver.run()


def test_a_windowed_key_is_seen_whole_and_stays():
    seen = []

    def look(context, record) -> None:
        seen.append(record.key)
        context.forward(record)

    def windows(stream: KStream) -> KStream:
        counts = stream.group_by_key().windowed_by(TimeWindows.of_size(10, grace=0)).count()
        return counts.to_stream().process_values(keeping(look))

    driver = driver_of(windows)
    driver.pipe_input("in", "a", 7, 15)

    assert [(one.key, one.window) for one in driver.read_outputs("out")] == [("a", (10, 20))]
    assert seen == [Windowed("a", 10, 20)]


def test_an_earlier_record_may_be_forwarded_by_a_schedule():
    class Last(FixedKeyProcessor):
        def init(self, context) -> None:
            super().init(context)
            self.last = None
            context.schedule(10, PunctuationType.STREAM_TIME, lambda time_ms: self.last and context.forward(self.last))

        def process(self, record: FixedKeyRecord) -> None:
            self.last = record

    driver = driver_of(lambda stream: stream.process_values(Last))
    driver.pipe_input("in", "a", 7, 15)

    assert [(one.key, one.value, one.timestamp_ms) for one in driver.read_outputs("out")] == [("a", 7, 15)]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda context, record: FixedKeyRecord("b", 1, 1), "expected a record that process() was given, got one that"),
        (
            lambda context, record: context.forward(Record("b", 1, 1)),
            "a FixedKeyRecord to forward, got Record(",
        ),
        (lambda context, record: record.with_key("b"), "FixedKeyRecord has no 'with_key'; write process("),
        (lambda context, record: context.forward(record.with_timestamp(-1)), "expected a timestamp of 0 ms or more"),
        (
            lambda context, record: context.current_system_time_ms(),
            "expected a recorded tick of the wall clock before it is asked for, got",
        ),
    ],
    ids=["made by hand", "a plain record", "another key", "a time below 0", "a clock"],
)
def test_what_a_processor_that_keeps_keys_cannot_do_ends_the_run(function, why):
    driver = driver_of(lambda stream: stream.process_values(keeping(function), name="here"))
    driver.pipe_input("in", "a", 7, 5)

    with pytest.raises(TaskFailed, match=r"^here(, FixedKeyRecord)?: .* on key 'a'") as caught:
        driver.run()

    assert why in str(caught.value)


def test_a_child_that_is_not_there_ends_the_run_and_those_that_are_are_named():
    def to_nobody(context, record) -> None:
        context.forward(record, child="nobody")

    driver = driver_of(lambda stream: stream.process(changing(to_nobody)).filter("value > 0", name="positive"))
    driver.pipe_input("in", "a", 7, 5)

    with pytest.raises(
        TaskFailed, match=r"expected a child of \['positive'\], got 'nobody', on key 'a'; name the operator"
    ):
        driver.run()


def test_a_record_for_a_repartition_or_an_output_goes_there_alone():
    def choose(context, record) -> None:
        context.forward(record.key, record.value, child="here" if record.value > 0 else "there")

    builder = StreamsBuilder()
    chosen = builder.stream("in", LONGS).process(changing(choose))
    chosen.to("out", name="here")
    chosen.filter("true", name="there").group_by_key().count().to_stream().to("counts")
    driver = TopologyTestDriver(builder.build())
    for value in (1, -1, 2, -2):
        driver.pipe_input("in", "a", value, 5)

    assert [one.value for one in driver.read_outputs("out")] == [1, 2]
    assert [one.value for one in driver.read_outputs("counts")] == [1, 2]


def test_a_stream_s_transformers_are_told_what_replaced_them():
    stream = StreamsBuilder().stream("in", LONGS)

    for name in ("transform_values", "flat_transform_values"):
        with pytest.raises(AttributeError, match=r"process_values\(supplier, stores\)"):
            getattr(stream, name)
    with pytest.raises(AttributeError, match=r"process\(supplier, stores\)"):
        stream.flat_transform  # noqa: B018 (asking is the test)


def test_what_is_grouped_below_is_not_repartitioned():
    builder = StreamsBuilder()
    nothing = keeping(lambda context, record: None)
    builder.stream("in", LONGS).process_values(nothing, returns=LONG).group_by_key().count().to_stream().to("out")

    topology = builder.build()

    assert len(topology.sub_topologies) == 1
    assert "Processor: KSTREAM-PROCESSVALUES-0000000001 (stores: [])" in topology.describe()
