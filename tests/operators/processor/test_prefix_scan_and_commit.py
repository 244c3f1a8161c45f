"""``prefix_scan``, ``approximate_num_entries`` and ``commit`` of processors, in every kind of key-value store."""

import pytest

from kstreams_replay import (
    Consumed,
    KeyValues,
    Materialized,
    Processor,
    PunctuationType,
    Serde,
    Stores,
    StreamsBuilder,
    TopologyTestDriver,
    ValueAndTimestamp,
)
from kstreams_replay.state.errors import TaskFailed

STRING, LONG = Serde.string(), Serde.long()
LONGS = Consumed(STRING, LONG)
SUPPLIER = Stores.in_memory_key_value_store("seen")


class Scans(Processor):
    """Forwards the keys that begin as the record's, with their values, and how many keys there are."""

    def process(self, record):
        store = self.context.store("seen")
        found = "".join(
            f"{key}={getattr(value, 'value', value)} " for key, value in store.prefix_scan(record.key, STRING)
        )
        self.context.forward(record.key, f"{found}of {store.approximate_num_entries()}")
        self.context.commit()


class Fills(Processor):
    def process(self, record):
        self.context.store("seen").put(record.key, record.value)
        self.context.commit()


class FillsTimed(Processor):
    def process(self, record):
        self.context.store("seen").put(record.key, ValueAndTimestamp(record.value, record.timestamp_ms))


def of_a_processor(builder):
    builder.add_state_store(KeyValues("seen", STRING, LONG))
    builder.stream("filled", LONGS).process(Fills, ["seen"])


def timestamped(builder):
    builder.add_state_store(Stores.timestamped_key_value_store_builder(SUPPLIER, STRING, LONG))
    builder.stream("filled", LONGS).process(FillsTimed, ["seen"])


def of_a_table(builder):
    builder.table("filled", LONGS, materialized=Materialized.as_(SUPPLIER))


def of_a_global_table(builder):
    builder.global_table("filled", LONGS, materialized=Materialized.as_(SUPPLIER))


def global_store(builder):
    builder.add_global_store(KeyValues("seen", STRING, LONG), "filled", LONGS, Fills, name="fills")


def of_an_aggregate(builder):
    grouped = builder.stream("filled", LONGS).group_by_key()
    grouped.reduce(lambda one, other: other, materialized=Materialized.as_(SUPPLIER))


@pytest.mark.parametrize(
    "filled", [of_a_processor, timestamped, of_a_table, of_a_global_table, global_store, of_an_aggregate]
)
def test_keys_are_found_by_the_bytes_that_they_begin_with(filled):
    builder = StreamsBuilder()
    filled(builder)
    builder.stream("asked", LONGS).process(Scans, ["seen"], returns=STRING).to("out")
    driver = TopologyTestDriver(builder.build())
    for number, key in enumerate(["b", "ab", "a", "é", "abc", "c"]):
        driver.pipe_input("filled", key, number)

    for key in ("ab", "a", "", "d", "é"):
        driver.pipe_input("asked", key, 0)

    assert [record.value for record in driver.read_outputs("out")] == [
        "ab=1 abc=4 of 6",
        "a=2 ab=1 abc=4 of 6",
        "a=2 ab=1 abc=4 b=0 c=5 é=3 of 6",
        "of 6",
        "é=3 of 6",
    ]
    assert driver.get_key_value_store("seen").prefix_scan("ab", STRING) == [("ab", 1), ("abc", 4)]


@pytest.mark.parametrize(
    ("prefix", "serde", "want"),
    [
        (None, STRING, "store 'seen': expected a key, got None"),
        (
            "a",
            None,
            r"store 'seen': expected the serde of the prefix, got None, on key 'a'; write prefix_scan\(",
        ),
        (5, STRING, "expected"),
    ],
)
def test_a_prefix_that_is_none_is_refused(prefix, serde, want):
    class Asks(Processor):
        def process(self, record):
            self.context.store("seen").prefix_scan(prefix, serde)

    builder = StreamsBuilder()
    builder.stream("in", LONGS).process(Asks, [KeyValues("seen", STRING, LONG)])
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1)

    with pytest.raises(TaskFailed, match=want):
        driver.run()


def test_a_commit_changes_no_row_and_may_be_asked_for_in_init_and_in_a_punctuation():
    class Commits(Processor):
        def init(self, context):
            super().init(context)
            context.commit()
            context.schedule("1s", PunctuationType.STREAM_TIME, lambda time: context.commit())

        def process(self, record):
            self.context.commit()
            self.context.forward(record)

    builder = StreamsBuilder()
    builder.stream("in", LONGS).process(Commits).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_key_values("in", [("a", 1), ("b", 2)], start_timestamp=0, advance="5s")

    assert [(record.key, record.value) for record in driver.read_outputs("out")] == [("a", 1), ("b", 2)]
