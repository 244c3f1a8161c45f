"""What is said to names and calls that older applications and Kafka's own words suggest: a phrase that says what to
write.
"""

import importlib
from datetime import datetime

import pyarrow as pa
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
    TestRecord,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    ValueTransformerWithKey,
    Windowed,
    fold,
)
from kstreams_replay.jobs.history.committed_tables import done_row
from kstreams_replay.orchestration.cli.main import _in_options
from kstreams_replay.state.errors import ConfigError, LedgerError, TaskFailed
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
        (lambda u: u.stream.transform(object), "KStream has no 'transform'; write process(supplier, stores)"),
        (lambda u: u.stream.through("x"), "KStream has no 'through'; write repartition(), or to() and another stream"),
        (lambda u: u.stream.branch(lambda k, v: True), "KStream has no 'branch'; write split().branch(step)"),
        (lambda u: u.stream.to_topic("x"), "KStream has no 'to_topic'; write to(topic)"),
        (
            lambda u: TimeWindows.of_size("1m").until("1d"),
            "TimeWindows has no 'until'; write Materialized.as_(name, retention=…) in the aggregate",
        ),
        (
            lambda u: SessionWindows.with_inactivity_gap("1m").until("1d"),
            "SessionWindows has no 'until'; write Materialized.as_(name, retention=…) in the aggregate",
        ),
        (
            lambda u: NEAR.until("1d"),
            "JoinWindows has no 'until'; write nothing: a join keeps what its windows and grace need",
        ),
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
        ("Serialized", "Grouped, or nothing: serdes are those of the stream"),
        ("WindowedSerdes", "Serde.time_windowed(inner, size_ms)"),
    ],
)
def test_a_class_of_kafkas_is_answered_with_what_it_is_here(name, phrase):
    with pytest.raises(ImportError, match=f"kstreams_replay has no '{name}'; write ") as error:
        getattr(importlib.import_module("kstreams_replay"), name)

    assert phrase in str(error.value)


class Limited(Processor):
    """Its ``__init__`` has an argument."""

    def __init__(self, limit):
        self.limit = limit

    def process(self, record):
        pass


class LimitedValues(FixedKeyProcessor):
    """The same."""

    def __init__(self, limit):
        self.limit = limit

    def process(self, record):
        pass


class LimitedTransformer(ValueTransformerWithKey):
    """The same."""

    def __init__(self, limit):
        self.limit = limit

    def transform(self, key, value):
        return value


NAIVE = datetime(2026, 1, 31, 10)
OSLO = 'name the zone: of_days(zone="Europe/Oslo"), of_days(7, zone="Europe/Oslo")'
OF_A_DATETIME = "give milliseconds since 1970: int(time.timestamp() * 1000) of a datetime with its zone"


@pytest.mark.parametrize(
    ("call", "phrase"),
    [
        (lambda u: u.stream.process(Limited), "got Limited(limit); give its arguments: lambda: Limited(…)"),
        (lambda u: u.stream.process_values(LimitedValues), "give its arguments: lambda: LimitedValues(…)"),
        (lambda u: u.table.transform_values(LimitedTransformer), "give its arguments: lambda: LimitedTransformer(…)"),
        (
            lambda u: Topology().add_source("r", Consumed(S, S), "i").add_processor("p", Limited, "r"),
            "lambda: Limited(…)",
        ),
        (lambda u: TimeWindows.of_days("Europe/Oslo"), OSLO),
        (lambda u: TimeWindows.of_days(1, "Europe/Oslo"), OSLO),
        (lambda u: TimeWindows.of_days(), OSLO),
        (lambda u: TimeWindows.of_days("1d", zone="Europe/Oslo"), "a whole number of days, got '1d'; give 1 for days"),
        (lambda u: u.builder.build({"application.id": "a"}), "settings are given to StreamsBuilder(config={…})"),
        (lambda u: StreamsBuilder({"application.id": "a"}), "give settings as config="),
        (lambda u: Topology({"application.id": "a"}), "settings are given to StreamsBuilder(config={…})"),
        (lambda u: u.driver().pipe_input("i", "k", "v", NAIVE), "expected a datetime with its zone, got datetime"),
        (lambda u: u.driver().create_input_topic("i", start_timestamp=NAIVE), "give it tzinfo, for example UTC"),
        (lambda u: TestRecord("k", "v", NAIVE), "give it tzinfo, for example UTC"),
    ],
)
def test_an_argument_that_another_call_takes_is_answered_with_what_to_write(call, phrase):
    with pytest.raises(ConfigError) as error:
        call(Used())

    assert phrase in str(error.value)


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (Serde.json("a long"), {"a": 1, "extra": 2}),
        (Serde.avro({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}), {"a": 1, "extra": 2}),
    ],
)
def test_a_field_that_the_serde_does_not_have_is_named(serde, value):
    class Forwarding(Processor):
        def process(self, record):
            self.context.forward(record.with_value(value))

    for build in (
        lambda stream: stream.map_values(lambda text: value, returns=serde),
        lambda stream: stream.process(Forwarding, returns=serde),
    ):
        used = Used()
        build(used.stream).to("out")
        driver = TopologyTestDriver(used.builder.build())
        driver.pipe_input("i", "k", "v", timestamp_ms=0)
        with pytest.raises(TaskFailed, match="got the field 'extra', which is not declared"):
            driver.run()


def test_a_datetime_of_an_extractor_is_answered_with_what_to_give():
    builder = StreamsBuilder()
    builder.stream("i", Consumed(S, S, timestamp_extractor=lambda record: NAIVE)).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("i", "k", "v", timestamp_ms=0)

    with pytest.raises(TaskFailed) as error:
        driver.run()
    assert OF_A_DATETIME in str(error.value)


IN_A_STORE = [
    (lambda keys: keys.put_all({"k": "v"}), "expected pairs (key, value), got a dict", "put_all(entries.items())"),
    (lambda keys: keys.put_all(["k"]), "expected pairs (key, value), got 'k'", "write put_all([(key, value), …])"),
    (lambda keys: keys.name(), "has no 'name'", "write the name that context.store(name) was given"),
    (lambda keys: "k" in keys, "KeyValueStore has no 'key in store'", "write get(key), which gives None"),
    (lambda keys: keys["k"], "KeyValueStore has no 'store[key]'", "write get(key), which gives None"),
    (lambda keys: keys.__setitem__("k", "v"), "has no 'store[key] = value'", "write put(key, value)"),
    (lambda keys: keys.__delitem__("k"), "has no 'del store[key]'", "write delete(key)"),
    (lambda keys: list(keys), "has no 'for … in store'", "write all()"),
    (lambda keys: keys.all().has_next(), "StoreIterator has no 'has_next'", "write if rows: …"),
    (lambda keys: keys.all().hasNext(), "StoreIterator has no 'hasNext'", "write if rows: …"),
    (lambda keys: keys.all().next(), "StoreIterator has no 'next'", "write next(rows)"),
    (lambda keys: keys.all().peek_next_key(), "has no 'peek_next_key'", "write next(rows), and keep what it gives"),
]


def with_stores(body):
    """A driver whose processor runs ``body`` of its context and record."""

    class Running(Processor):
        def process(self, record):
            body(self.context, record)

    builder = StreamsBuilder()
    builder.stream("i", Consumed(S, S)).process(Running, list(STORES.values()))
    return TopologyTestDriver(builder.build())


@pytest.mark.parametrize(("ask", "refused", "phrase"), IN_A_STORE)
def test_a_store_that_is_asked_as_a_dict_or_in_kafkas_words_says_what_to_write(ask, refused, phrase):
    driver = with_stores(lambda context, record: ask(context.store("keys")))
    driver.pipe_input("i", "k", "v", timestamp_ms=0)
    with pytest.raises(TaskFailed) as error:
        driver.run()
    assert refused in str(error.value)
    assert phrase in str(error.value)

    with pytest.raises((ConfigError, AttributeError, TypeError)) as error:
        ask(with_stores(lambda context, record: None).get_key_value_store("keys"))
    assert refused in str(error.value)
    assert phrase in str(error.value)


@pytest.mark.parametrize(
    ("store", "phrase"),
    [
        ("windows", "WindowStore has no 'store[key]'; write fetch(key, window_start_ms)"),
        ("sessions", "SessionStore has no 'store[key]'; write fetch(key), or fetch_session(key"),
        ("versions", "VersionedKeyValueStore has no 'store[key]'; write get(key)"),
    ],
)
def test_a_store_of_another_kind_names_its_own_calls(store, phrase):
    driver = with_stores(lambda context, record: context.store(store)["k"])
    driver.pipe_input("i", "k", "v", timestamp_ms=0)
    with pytest.raises(TaskFailed) as error:
        driver.run()
    assert phrase in str(error.value)

    with pytest.raises(TypeError) as error:
        with_stores(lambda context, record: None).get_all_state_stores()[store]["k"]
    assert phrase in str(error.value)


STORES = {
    "keys": KeyValues("keys", S, S),
    "windows": Stores.window_store_builder(Stores.in_memory_window_store("windows", "1d", "1h"), S, S),
    "sessions": Stores.session_store_builder(Stores.in_memory_session_store("sessions", "1d"), S, S),
    "versions": Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store("versions", "1d"), S, S
    ),
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
        (
            lambda c, r: c.store("windows").delete("k", 5),
            "WindowStore has no 'delete'; write put(key, None, window_start_ms)",
        ),
        (lambda c, r: c.store("sessions").get("k"), "SessionStore has no 'get'; write fetch(key)"),
        (lambda c, r: c.store("kays"), "got 'kays'"),
        (
            lambda c, r: c.forward(None),
            "got None, on key 'k'; to forward nothing do not call it; record.with_value(None)",
        ),
        (lambda c, r: c.forward(), "got nothing, on key 'k'; to forward nothing do not call it"),
        (lambda c, r: c.forward(r.with_timestamp(NAIVE)), OF_A_DATETIME),
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
    with pytest.raises(TaskFailed, match="KSTREAM-PROCESS") as error:
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


def test_the_type_of_a_serde_of_ones_own_may_be_written_so_too():
    own = Serde.of(lambda value: b"", lambda data: {}, type="struct<name: string, at struct<lat: double>>")

    assert own.arrow_type == pa.struct([("name", pa.string()), ("at", pa.struct([("lat", pa.float64())]))])
    assert own.is_struct


def test_the_command_names_its_own_options():
    said = "say renamed={'old': 'new'} to take its rows along, or renamed={'old': None} to let them go"

    assert _in_options(said) == "say --renamed old=new to take its rows along, or --renamed old= to let them go"


def test_a_wrong_pipeline_is_answered_with_those_that_are_there(tmp_path):
    with pytest.raises(LedgerError, match=r"or correct the name: the pipelines in .* are none"):
        done_row(Warehouse(str(tmp_path)), "shop")
