"""What is said to names and calls that older applications and Kafka's own words suggest: a phrase that says what to
write.
"""

import importlib

import pytest

from kstreams_replay import (
    Consumed,
    FixedKeyProcessor,
    JoinWindows,
    KeyValues,
    Materialized,
    Processor,
    Serde,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Windowed,
    fold,
)
from kstreams_replay.jobs.history.committed_tables import done_row
from kstreams_replay.orchestration.cli.main import _in_options
from kstreams_replay.state.errors import ConfigError, LedgerError
from kstreams_replay.state.tables.warehouse import Warehouse

S, L = Serde.string(), Serde.long()
NEAR = JoinWindows.of_time_difference_with_no_grace(5)


class Used:
    """Streams and tables of one builder."""

    def __init__(self):
        self.builder = StreamsBuilder()
        self.stream = self.builder.stream("i", Consumed(S, S))
        self.other = self.builder.stream("o", Consumed(S, S))
        self.table = self.builder.table("t", Consumed(S, S), materialized=Materialized.as_("rows"))
        self.grouped = self.stream.group_by_key()

    def driver(self):
        self.stream.to("out")
        return TopologyTestDriver(self.builder.build())


@pytest.mark.parametrize(
    ("call", "phrase"),
    [
        (lambda u: SessionWindows.with_("5m"), "write SessionWindows.with_inactivity_gap(gap, grace=…)"),
        (
            lambda u: TimeWindows.of("5m"),
            "write TimeWindows.of_size(size, grace=…): the grace of the old call was 24 h",
        ),
        (lambda u: SlidingWindows.of_size("5m"), "write SlidingWindows.of_time_difference(difference, grace=…)"),
        (lambda u: Suppressed.BufferConfig, "write BufferConfig, a name of its own"),
        (lambda u: u.stream.join(u.other, NEAR, lambda one, other: one), "join(other, joiner, windows)"),
        (lambda u: u.stream.join(u.other, NEAR, x="left"), "join(other, windows=…, item='left.item')"),
        (lambda u: u.table.group_by("value", {"a": "value"}), "table.map_values(fields={…}).group_by(selector)"),
        (lambda u: u.grouped.aggregate(fold.count), "call it: fold.count(…)"),
        (lambda u: u.grouped.aggregate(fold.sum), "call it: fold.sum(…)"),
        (lambda u: u.table.select_key("value"), "write group_by(selector) and an aggregate, or to_stream().select_key"),
        (lambda u: u.table.print(1), "write to_stream().print(Printed.to_sys_out())"),
        (lambda u: u.table.queryable_store_name(), "write the name that Materialized.as_(name) gives the store"),
        (lambda u: u.grouped.to("x"), "write an aggregate first, such as count()"),
        (lambda u: Consumed.as_("x"), "write Consumed(key serde, value serde, name=…)"),
        (lambda u: KeyValues("x", S, S).with_logging_disabled(), "write nothing: a store's files are its changelog"),
        (lambda u: TopologyTestDriver(u.builder), "expected a Topology, got <"),
        (lambda u: TopologyTestDriver(u.builder), "give builder.build()"),
        (lambda u: TopologyTestDriver(u.driver().topology, {}), "properties configure a live application: leave them"),
        (lambda u: Serde.json("$type string"), "write a name with other marks in backticks: `$type`"),
        (lambda u: Serde.json("n long, @class string"), "in backticks: `@class`"),
        (
            lambda u: u.table.transform_values(object, "a", "b"),
            "to_stream().process_values(supplier, ['first', 'second'])",
        ),
        (lambda u: Topology().add_source("r", Consumed(S, S), "i").add_sink("w", "o", S, S, "r"), "leave serdes out"),
        (lambda u: u.driver().store("row"), "got 'row'; did you mean 'rows'?"),
        (lambda u: u.driver().get_window_store("rows"), "read it by get_key_value_store('rows')"),
        (lambda u: u.driver().get_key_value_store("rowz"), "did you mean 'rows'?"),
    ],
)
def test_a_call_of_an_older_application_is_answered_with_what_to_write(call, phrase):
    with pytest.raises((AttributeError, ConfigError)) as error:
        call(Used())

    assert phrase in str(error.value)


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("Transformer", "Processor, whose init(context) and process(record) are called"),
        ("ContextualProcessor", "Processor, whose init(context) and process(record) are called"),
        ("AbstractProcessor", "Processor, whose init(context) and process(record) are called"),
        ("ValueTransformer", "ValueTransformerWithKey"),
        ("KafkaStreams", "TopologyTestDriver(topology) in a test"),
        ("KeyValue", "a tuple (key, value)"),
        ("StoreBuilder", "KeyValues(name, key serde, value serde)"),
        ("WindowedSerdes", "Serde.time_windowed(inner, size_ms)"),
    ],
)
def test_a_class_of_kafkas_is_answered_with_what_it_is_here(name, phrase):
    with pytest.raises(ImportError, match=f"kstreams_replay has no '{name}'; write ") as error:
        getattr(importlib.import_module("kstreams_replay"), name)

    assert phrase in str(error.value)


STORES = {
    "keys": KeyValues("keys", S, S),
    "windows": Stores.window_store_builder(Stores.in_memory_window_store("windows", "1d", "1h"), S, S),
    "sessions": Stores.session_store_builder(Stores.in_memory_session_store("sessions", "1d"), S, S),
}


@pytest.mark.parametrize("kind", [Processor, FixedKeyProcessor])
@pytest.mark.parametrize(
    ("ask", "phrase"),
    [
        (lambda c, r: c.getStateStore("keys"), "ProcessorContext has no 'getStateStore'; write context.store(name)"),
        (lambda c, r: c.get_state_store("keys"), "write context.store(name)"),
        (lambda c, r: c.timestamp(), "write record.timestamp_ms of the record that process() was given"),
        (lambda c, r: r.timestamp, "write record.timestamp_ms"),
        (lambda c, r: c.store("keys").fetch("k", 0, 5), "KeyValueStore has no 'fetch'; write get(key)"),
        (lambda c, r: c.store("windows").get("k"), "WindowStore has no 'get'; write fetch(key, window_start_ms)"),
        (lambda c, r: c.store("sessions").get("k"), "SessionStore has no 'get'; write fetch(key)"),
        (lambda c, r: c.store("kays"), "got 'kays'"),
    ],
)
def test_a_running_processor_is_answered_with_the_name_here(kind, ask, phrase):
    class Asking(kind):
        def process(self, record):
            ask(self.context, record)

    builder = StreamsBuilder()
    stream = builder.stream("i", Consumed(S, S))
    (stream.process if kind is Processor else stream.process_values)(Asking, list(STORES.values()))
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("i", "k", "v", timestamp_ms=0)
    with pytest.raises(Exception, match="process") as error:
        driver.run()

    assert phrase in str(error.value)
    assert "_PlainContext" not in str(error.value)
    assert "_ProcessorContext" not in str(error.value)


def test_a_processor_whose_init_forgets_its_base_is_told_to_call_it():
    class Forgetting(Processor):
        def init(self, context):
            self.count = 0

        def process(self, record):
            self.context.forward(record)

    builder = StreamsBuilder()
    builder.stream("i", Consumed(S, S)).process(Forgetting)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("i", "k", "v", timestamp_ms=0)
    with pytest.raises(Exception, match=r"Forgetting has no context yet; call super\(\).init\(context\) in its init"):
        driver.run()


def test_a_windowed_key_is_printed_as_kafka_prints_it():
    assert str(Windowed("1", 0, 60_000)) == "[1@0/60000]"


def test_a_type_may_be_written_as_spark_and_arrow_write_it():
    written = Serde.json("struct<name: string, at struct<lat: double>>")

    assert written.arrow_type == Serde.json("name string, at struct<lat double>").arrow_type


def test_the_command_names_its_own_options():
    said = "say renamed={'old': 'new'} to take its rows along, or renamed={'old': None} to let them go"

    assert _in_options(said) == "say --renamed old=new to take its rows along, or --renamed old= to let them go"


def test_a_wrong_pipeline_is_answered_with_those_that_are_there(tmp_path):
    with pytest.raises(LedgerError, match=r"or correct the name: the pipelines in .* are none"):
        done_row(Warehouse(str(tmp_path)), "shop")
