"""A global store: what its processor may do, who reads it, and what of the topic they find there."""

import pytest

from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.functions.processor_api import KeyValues, Processor, PunctuationType, ValueAndTimestamp
from kstreams_replay.jobs.functions.state_stores import Stores
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.state.errors import ConfigError, ReplayError, TaskFailed, TopologyError
from tests.explain.explained import played

STRING, LONG = Serde.string(), Serde.long()
TEXTS = Consumed(STRING, STRING)
KEPT = KeyValues("kept", STRING, STRING)


class Keep(Processor):
    """Under each value, the keys that had it, and the names of headers."""

    def process(self, record):
        kept = self.context.store("kept")
        names = "".join(name for name, _ in record.headers)
        kept.put(record.value, f"{kept.get(record.value) or ''}{record.key}{names}@{record.timestamp_ms} ")


class Look(Processor):
    def process(self, record):
        self.context.forward(record.with_value(self.context.store("kept").get(record.value)))


def topology_of(updater=Keep, reader=Look, store=KEPT) -> Topology:
    builder = StreamsBuilder()
    builder.add_global_store(store, "G", TEXTS, updater, name="keep")
    builder.stream("in", TEXTS).process(reader, ["kept"], returns=STRING, name="look").to("out")
    return builder.build()


def refused(call) -> str:
    with pytest.raises(ReplayError) as caught:
        call()
    return str(caught.value)


def test_its_processor_takes_null_keys_headers_and_times():
    driver = TopologyTestDriver(topology_of())
    driver.pipe_input("G", "a", "x", timestamp_ms=3, headers=(("h", b""),))
    driver.pipe_input("G", None, "x", timestamp_ms=2)
    driver.pipe_input("in", "k", "x", timestamp_ms=5)

    assert driver.read_output("out").value == "ah@3 None@2 "


def test_the_driver_reads_it_whether_anybody_else_does_or_not():
    builder = StreamsBuilder()
    timed = Stores.timestamped_key_value_store_builder(Stores.in_memory_key_value_store("timed"), STRING, STRING)

    class KeepTimed(Processor):
        def process(self, record):
            self.context.store("timed").put(record.key, ValueAndTimestamp(record.value, record.timestamp_ms + 1))

    builder.add_global_store(KEPT, "G", TEXTS, Keep).add_global_store(timed, "H", TEXTS, KeepTimed)
    builder.stream("in", TEXTS).to("out")
    driver = TopologyTestDriver(builder.build())

    assert driver.get_key_value_store("kept").get("x") is None

    driver.pipe_input("G", "a", "x", timestamp_ms=3)
    driver.pipe_input("H", "b", "y", timestamp_ms=4)

    assert driver.get_key_value_store("kept").get("x") == "a@3 "
    assert driver.get_timestamped_key_value_store("timed").get("b") == ValueAndTimestamp("y", 5)
    assert "a timestamped key-value store" in refused(lambda: driver.get_timestamped_key_value_store("kept"))


WRONG_USES = {
    "forward": (lambda context: context.forward("k", "v"), "puts into its store"),
    "schedule": (lambda context: context.schedule(1, PunctuationType.STREAM_TIME, print), "work for each record"),
    "stream time": (lambda context: context.current_stream_time_ms(), "take record.timestamp_ms"),
    "wall clock": (lambda context: context.current_system_time_ms(), "take record.timestamp_ms"),
    "place": (lambda context: context.record_metadata, "land it as a header"),
    "task": (lambda context: context.task_id(), "leave it out"),
    "another store": (lambda context: context.store("other"), "expected the store 'kept', which it keeps"),
}


@pytest.mark.parametrize("use", WRONG_USES)
def test_what_its_processor_cannot_mean_is_refused(use):
    call, want = WRONG_USES[use]

    class Wrong(Keep):
        def process(self, record):
            call(self.context)

    driver = TopologyTestDriver(topology_of(Wrong))
    driver.pipe_input("G", "a", "x", timestamp_ms=1)

    got = refused(lambda: driver.read_output("out"))

    assert got.startswith("keep: ")
    assert want in got


@pytest.mark.parametrize("call", [lambda store: store.put("k", "v"), lambda store: store.delete("k")])
def test_who_reads_it_only_reads(call):
    class Write(Processor):
        def process(self, record):
            call(self.context.store("kept"))

    driver = TopologyTestDriver(topology_of(reader=Write))
    driver.pipe_input("in", "k", "x", timestamp_ms=1)

    assert "expected a global store to be read" in refused(lambda: driver.read_output("out"))


def test_a_processor_that_fails_ends_the_run_with_its_record():
    class Fails(Processor):
        def process(self, record):
            raise ValueError("no")

    driver = TopologyTestDriver(topology_of(Fails))
    driver.pipe_input("G", "a", "x", timestamp_ms=1)

    with pytest.raises(TaskFailed, match="got ValueError: no on key 'a'"):
        driver.read_output("out")


WRONG_CALLS = {
    "windows": (
        lambda builder: builder.add_global_store(
            Stores.window_store_builder(Stores.in_memory_window_store("w", "1d", "1h"), STRING, STRING),
            "G",
            TEXTS,
            Keep,
        ),
        "a key-value store, plain or timestamped",
    ),
    "no store": (lambda builder: builder.add_global_store("kept", "G", TEXTS, Keep), "a key-value store"),
    "a name twice": (
        lambda builder: builder.add_global_store(KEPT, "G", TEXTS, Keep).add_global_store(KEPT, "H", TEXTS, Keep),
        "a state store with the name kept that is already added",
    ),
    "a name that was added": (
        lambda builder: builder.add_state_store(KEPT).add_global_store(KEPT, "G", TEXTS, Keep),
        "by add_state_store()",
    ),
    "added afterwards": (
        lambda builder: builder.add_global_store(KEPT, "G", TEXTS, Keep).add_state_store(KEPT),
        "a state store with the name kept that is already added",
    ),
    "a topic that is read": (
        lambda builder: (builder.stream("G", TEXTS), builder.add_global_store(KEPT, "G", TEXTS, Keep)),
        "expected one source, got two",
    ),
    "an extractor": (
        lambda builder: builder.add_global_store(KEPT, "G", TEXTS.with_timestamp_extractor("1"), Keep),
        "an extractor, which Kafka Streams never asks there",
    ),
    "its types again": (
        lambda builder: builder.add_global_store(KEPT, "G", TEXTS, Keep).stream("in", TEXTS).process(Look, [KEPT]),
        "write 'kept' alone: add_global_store() says what is in its store",
    ),
}


@pytest.mark.parametrize("wrong", WRONG_CALLS)
def test_a_call_that_kafka_refuses_is_refused(wrong):
    call, want = WRONG_CALLS[wrong]

    assert want in refused(lambda: call(StreamsBuilder()))


# --- by the Processor API ------------------------------------------------------------------------------------


def by_name() -> Topology:
    topology = Topology().add_global_store(KEPT, "every", TEXTS, "G", "keep", Keep).add_source("read", TEXTS, "in")
    topology.add_processor("look", Look, "read").connect_processor_and_state_stores("look", "kept")
    return topology.add_sink("write", "out", "look")


def test_a_topology_by_the_processor_api_has_one():
    driver = TopologyTestDriver(by_name())
    driver.pipe_input("G", "a", "x", timestamp_ms=3)
    driver.pipe_input("in", "k", "x", timestamp_ms=5)

    assert driver.read_output("out").value == "a@3 "


def test_its_names_are_new_and_its_readers_come_after_it():
    def early() -> None:
        topology = Topology().add_source("read", TEXTS, "in").add_processor("look", Look, "read")
        topology.add_global_store(KEPT, "every", TEXTS, "G", "keep", Keep)
        topology.connect_processor_and_state_stores("look", "kept")

    with pytest.raises(TopologyError, match="add the global store first"):
        early()
    other = KeyValues("other", STRING, STRING)
    for source, name in (("read", "new"), ("new", "look"), ("same", "same")):
        with pytest.raises(TopologyError, match="names"):
            by_name().add_global_store(other, source, TEXTS, "H", name, Keep)
    with pytest.raises(ConfigError, match="a processor, got keep, which is none"):
        by_name().connect_processor_and_state_stores("keep", "kept")


# --- explained -----------------------------------------------------------------------------------------------


def test_a_record_of_its_topic_is_taken_in_every_task(tmp_path):
    topology = topology_of()
    warehouse = played(tmp_path, topology, {"G": [("a", "x", 1)], "in": [("k", "x", 5)]})

    assert [step.sentences for step in explain(warehouse, "p", topology, "G:0:0").steps] == [
        ["its processor takes 'a': 'x' into the store kept, in every task that reads it"]
    ]
