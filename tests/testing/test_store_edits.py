"""Stores that a test writes through the driver, as apache/kafka's DeveloperGuideTesting does."""

import pytest

from kstreams_replay import (
    Consumed,
    KeyValues,
    Materialized,
    Processor,
    PunctuationType,
    Serde,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    ValueAndTimestamp,
)
from kstreams_replay.jobs.functions.expressions import Windowed
from kstreams_replay.jobs.functions.processor_api import AggregationWithHeaders
from kstreams_replay.jobs.testing.output_assertion import assert_outputs
from kstreams_replay.state.errors import ConfigError

STRING, LONG = Serde.string(), Serde.long()
LONGS = Consumed(STRING, LONG)


class Largest(Processor):
    """DeveloperGuideTesting's: the largest value of each key, which punctuations forward."""

    def init(self, context):
        super().init(context)
        self.store = context.store("aggStore")
        for kind in PunctuationType:
            context.schedule("1m" if kind is PunctuationType.WALL_CLOCK_TIME else "10s", kind, self.flush)

    def process(self, record):
        before = self.store.get(record.key)
        if before is None or record.value > before:
            self.store.put(record.key, record.value)

    def flush(self, time):
        for key, value in self.store.all():
            self.context.forward(key, value)


def guide() -> TopologyTestDriver:
    topology = Topology().add_source("sourceProcessor", LONGS, "input-topic")
    topology.add_processor("aggregator", Largest, "sourceProcessor")
    topology.add_state_store(KeyValues("aggStore", STRING, LONG), "aggregator")
    topology.add_sink("sinkProcessor", "result-topic", "aggregator")
    driver = TopologyTestDriver(topology)
    driver.get_key_value_store("aggStore").put("a", 21)
    return driver


def test_a_store_is_filled_before_the_first_record_as_in_the_developer_guide():
    driver = guide()
    driver.pipe_input("input-topic", "a", 1, timestamp_ms=0)
    assert driver.read_output("result-topic").value == 21
    assert driver.read_output("result-topic") is None

    driver.pipe_input("input-topic", "a", 42, timestamp_ms=0)
    assert driver.get_key_value_store("aggStore").get("a") == 42
    driver.pipe_input("input-topic", "b", 21, timestamp_ms=10_000)
    assert [(one.key, one.value) for one in driver.read_outputs("result-topic")] == [("a", 42), ("b", 21)]


def test_a_put_comes_between_the_records_before_and_after_it():
    driver = guide()
    store = driver.get_key_value_store("aggStore")
    driver.pipe_input("input-topic", "a", 30, timestamp_ms=0)
    store.put("a", 5)
    assert store.get("a") == 5
    assert (store.put_if_absent("a", 9), store.put_if_absent("c", 9)) == (5, None)
    store.put_all([("d", 1), ("e", 2)])
    assert store.delete("d") == 1
    driver.pipe_input("input-topic", "a", 7, timestamp_ms=0)

    assert store.all() == [("a", 7), ("c", 9), ("e", 2)]


class Reads(Processor):
    """What the store that it names has for the record's key."""

    def process(self, record):
        self.context.forward(record.key, repr(self.context.store("s").get(record.key)))


def test_the_store_of_a_table_is_seen_by_joins_steps_and_processors_at_the_next_record():
    builder = StreamsBuilder()
    table = builder.table("t", LONGS, materialized=Materialized.as_("s"))
    stream = builder.stream("in", LONGS)
    stream.left_join(table, "right").to("joined")
    stream.left_join(table.map_values("value + 1"), "right").to("mapped")
    stream.process(Reads, ["s"], returns=STRING).to("read")
    table.to_stream().to("changes")
    driver = TopologyTestDriver(builder.build())
    store = driver.get_key_value_store("s")
    driver.pipe_input("in", "a", 0)
    store.put("a", 4)
    driver.pipe_input("in", "a", 0)
    driver.get_timestamped_key_value_store("s").put("a", ValueAndTimestamp(5, 70))
    driver.pipe_input("in", "a", 0)
    store.delete("a")
    driver.pipe_input("in", "a", 0)
    driver.pipe_input("t", "a", 6, timestamp_ms=1)

    assert [one.value for one in driver.read_outputs("joined")] == [None, 4, 5, None]
    assert [one.value for one in driver.read_outputs("mapped")] == [None, 5, 6, None]
    assert [one.value for one in driver.read_outputs("read")] == [
        "None",
        "ValueAndTimestamp(value=4, timestamp_ms=-1)",
        "ValueAndTimestamp(value=5, timestamp_ms=70)",
        "None",
    ]
    assert [one.value for one in driver.read_outputs("changes")] == [6]


KINDS = [
    (
        Stores.timestamped_key_value_store_builder(Stores.in_memory_key_value_store("s"), STRING, LONG),
        lambda driver: driver.get_key_value_store("s").put("a", 4),
        "ValueAndTimestamp(value=4, timestamp_ms=-1)",
    ),
    (
        Stores.timestamped_key_value_store_with_headers_builder(Stores.in_memory_key_value_store("s"), STRING, LONG),
        lambda driver: driver.get_timestamped_key_value_store("s").put("a", ValueAndTimestamp(4, 9)),
        "ValueTimestampHeaders(value=4, timestamp_ms=9, headers=())",
    ),
    (
        Stores.versioned_key_value_store_builder(Stores.persistent_versioned_key_value_store("s", "1d"), STRING, LONG),
        lambda driver: driver.get_versioned_key_value_store("s").put("a", 4, 7),
        "VersionedRecord(value=4, timestamp_ms=7, valid_to_ms=None)",
    ),
]


@pytest.mark.parametrize(("store", "put", "want"), KINDS)
def test_every_kind_of_a_processors_key_value_store_is_put(store, put, want):
    builder = StreamsBuilder()
    builder.stream("in", LONGS).process(Reads, [store], returns=STRING).to("out")
    driver = TopologyTestDriver(builder.build())
    put(driver)
    driver.pipe_input("in", "a", 0)

    assert driver.read_output("out").value == want


class ReadsWindows(Processor):
    def process(self, record):
        windows, sessions = self.context.store("w"), self.context.store("v")
        found = [list(windows.fetch_range(record.key, 0, 100)), [one[1] for one in sessions.fetch(record.key)]]
        self.context.forward(record.key, repr(found))


def test_windows_and_sessions_of_a_processor_are_put_and_removed():
    windows = Stores.window_store_builder(Stores.in_memory_window_store("w", "1h", 10), STRING, LONG)
    sessions = Stores.session_store_with_headers_builder(
        Stores.persistent_session_store_with_headers("v", "1h"), STRING, LONG
    )
    builder = StreamsBuilder()
    builder.stream("in", LONGS).process(ReadsWindows, [windows, sessions], returns=STRING).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.get_window_store("w").put("a", 4, 20)
    driver.get_session_store("v").put(Windowed("a", 5, 9), 7)
    driver.pipe_input("in", "a", 0)
    driver.get_window_store("w").put("a", None, 20)
    driver.get_session_store("v").remove(Windowed("a", 5, 9))
    driver.pipe_input("in", "a", 0)

    assert [one.value for one in driver.read_outputs("out")] == [
        f"[[(20, 4)], [{AggregationWithHeaders(7)!r}]]",
        "[[], []]",
    ]


def test_windows_and_sessions_of_aggregates_are_put_and_removed():
    builder = StreamsBuilder()
    grouped = builder.stream("in", LONGS).group_by_key()
    grouped.windowed_by(TimeWindows.of_size(10)).count(Materialized.as_("w")).to_stream().to("windows")
    grouped.windowed_by(SessionWindows.with_inactivity_gap(5)).count(Materialized.as_("v")).to_stream().to("sessions")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1, timestamp_ms=20)
    driver.get_window_store("w").put("a", 4, 20)
    driver.get_session_store("v").put(Windowed("a", 20, 20), 7)
    driver.pipe_input("in", "a", 1, timestamp_ms=22)
    driver.get_window_store("w").put("a", None, 20)
    driver.get_session_store("v").remove(Windowed("a", 20, 22))
    driver.pipe_input("in", "a", 1, timestamp_ms=23)

    assert [one.value for one in driver.read_outputs("windows")] == [1, 5, 1]
    assert [one.value for one in driver.read_outputs("sessions")] == [1, None, 8, 1]


def aggregated() -> TopologyTestDriver:
    builder = StreamsBuilder()
    grouped = builder.stream("in", LONGS).group_by_key()
    grouped.windowed_by(SlidingWindows.of_time_difference(10, grace=0)).count(Materialized.as_("windows"))
    builder.table("versions", LONGS, materialized=Materialized.versioned("v", "1d"))
    builder.global_table("g", LONGS, materialized=Materialized.as_("global"))
    return TopologyTestDriver(builder.build())


@pytest.mark.parametrize(
    ("put", "want"),
    [
        (
            lambda driver: driver.get_window_store("windows").put("a", 1, 0),
            "store 'windows': expected a store of a processor, or one of a table or an aggregate that forwards",
        ),
        (
            lambda driver: driver.get_versioned_key_value_store("v").put("a", 1, 0),
            "test driver, store 'v': expected a store of a processor",
        ),
        (
            lambda driver: driver.get_key_value_store("global").put("a", 1),
            "store 'global': expected a store that is no global one, got a put; pipe records into its topic",
        ),
    ],
)
def test_what_no_test_may_write_is_refused(put, want):
    with pytest.raises(ConfigError, match=want):
        put(aggregated())


def test_a_value_of_another_type_is_refused():
    with pytest.raises(ConfigError, match=r"expected a long, got 'x' \(str\)"):
        guide().get_key_value_store("aggStore").put("a", "x")


def test_a_closed_driver_is_not_written():
    driver = guide()
    store = driver.get_key_value_store("aggStore")
    driver.close()
    with pytest.raises(ConfigError, match="expected a driver that is open, got a closed one"):
        store.put("a", 1)


def test_what_comes_of_a_put_is_not_explained_by_records():
    driver = guide()
    driver.pipe_input("input-topic", "a", 1, timestamp_ms=0)
    with pytest.raises(AssertionError, match="a put of the store 'aggStore'; let records write the store"):
        assert_outputs(driver, "result-topic", [("a", 1, 0)])


COUNTS = Serde.json("n long")


def test_a_value_is_what_it_was_when_a_test_put_it_also_when_records_run_again():
    builder = StreamsBuilder()
    builder.stream("in", LONGS).process(Reads, [KeyValues("s", STRING, COUNTS)], returns=STRING).to("out")
    builder.table("t", Consumed(STRING, COUNTS), materialized=Materialized.as_("rows"))
    driver = TopologyTestDriver(builder.build())
    value = {"n": 1}
    driver.get_key_value_store("s").put("a", value)
    driver.get_key_value_store("rows").put("a", value)
    value["n"] = 7
    driver.read_outputs("s-changelog")
    driver.pipe_input("in", "a", 0)

    assert driver.read_output("out").value == "{'n': 1}"
    assert driver.get_key_value_store("rows").get("a") == {"n": 1}
