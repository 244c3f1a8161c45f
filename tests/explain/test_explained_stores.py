"""How an explanation describes rows of Python processors' stores, each of its kind, and a global store."""

from kstreams_replay import (
    Consumed,
    KeyValues,
    Processor,
    Stores,
    StreamsBuilder,
    Topology,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    Windowed,
)
from tests.explain.explained import STRING, by, explained, played, stream

PAIR = STRING, STRING
STORES = [
    KeyValues("plain", *PAIR),
    Stores.timestamped_key_value_store_builder(Stores.in_memory_key_value_store("timed"), *PAIR),
    Stores.timestamped_key_value_store_with_headers_builder(Stores.in_memory_key_value_store("marked"), *PAIR),
    Stores.window_store_builder(Stores.in_memory_window_store("windows", 10, 5), *PAIR),
    Stores.session_store_builder(Stores.in_memory_session_store("visits", 10), *PAIR),
    Stores.versioned_key_value_store_builder(Stores.persistent_versioned_key_value_store("versions", 10), *PAIR),
]


class Keeps(Processor):
    """Puts each record into a store of every kind."""

    def process(self, record):
        key, value, time_ms = record.key, record.value, record.timestamp_ms
        self.context.store("plain").put(key, value)
        self.context.store("timed").put(key, ValueAndTimestamp(value, time_ms))
        self.context.store("marked").put(key, ValueTimestampHeaders(value, time_ms, (("by", value.encode()),)))
        self.context.store("windows").put(key, value, time_ms)
        self.context.store("visits").put(Windowed(key, time_ms - 1, time_ms), value)
        self.context.store("versions").put(key, value, time_ms)


class Last(Processor):
    def process(self, record):
        self.context.store("rates").put(record.key, record.value)


class Look(Processor):
    def process(self, record):
        self.context.forward(record.with_value(self.context.store("rates").get(record.key)))


def kept() -> Topology:
    builder = StreamsBuilder()
    stream(builder).process(Keeps, STORES).to("out")
    return builder.build()


def test_a_row_of_each_store_is_described_as_the_processor_put_it(tmp_path):
    warehouse = played(tmp_path, kept(), {"in": [("a", "x", 3), ("b", "y", 4), ("a", "z", 5)]})

    assert by("ProcessNode", explained(warehouse, kept(), "in:0:0")) == [
        "plain, 'a': begins with 'x'",
        "timed, 'a': begins with 'x' at 3",
        "marked, 'a': begins with 'x' at 3 with headers [{'key': 'by', 'value': b'x'}]",
        "windows, 'a' [3, 8): begins with 'x'",
        "visits, 'a' [2, 3]: begins with 'x'",
        "versions, 'a': begins with 'x' at 3",
    ]
    assert by("ProcessNode", explained(warehouse, kept(), "in:0:2")) == [
        "plain, 'a': 'x' -> 'z'",
        "timed, 'a': 'x' at 3 -> 'z' at 5",
        "marked, 'a': 'x' at 3 with headers [{'key': 'by', 'value': b'x'}] -> "
        "'z' at 5 with headers [{'key': 'by', 'value': b'z'}]",
        "versions, 'a': 'x' at 3 -> 'z' at 5",
        "windows, 'a' [5, 10): begins with 'z'",
        "visits, 'a' [4, 5]: begins with 'z'",
    ]


def test_what_a_store_is_too_late_for_is_described_with_the_number_that_decided(tmp_path):
    warehouse = played(tmp_path, kept(), {"in": [("a", "x", 30), ("a", "late", 20)]})

    refused = [line for line in by("ProcessNode", explained(warehouse, kept(), "in:0:1")) if "refused" in line]
    assert len(refused) == 2
    for line, bounds in zip(sorted(refused), ("from 19 to 20", "from 20 to 25"), strict=True):
        assert line.startswith(f"refused (expired-in-store) by the window {bounds}: the store keeps nothing so old any")


def test_records_of_a_global_store_and_of_its_readers_are_described(tmp_path):
    builder = StreamsBuilder()
    builder.add_global_store(KeyValues("rates", *PAIR), "rates", Consumed(*PAIR), Last)
    stream(builder).process(Look, ["rates"]).to("out")
    topology = builder.build()
    warehouse = played(tmp_path, topology, {"in": [("a", "x", 3)], "rates": [("a", "7", 2)]})

    assert [sentence for _, sentence in explained(warehouse, topology, "rates:0:0")] == [
        "its processor takes 'a': '7' into the store rates, in every task that reads it"
    ]
    assert by("ProcessNode", explained(warehouse, topology, "in:0:0")) == ["forwards 'a' = '7'"]


class Receives(Processor):
    def process(self, record):
        self.context.store("stock").put(record.key, record.value)


class Sells(Processor):
    """Puts into a store that another processor keeps, and into its own."""

    def process(self, record):
        self.context.store("sold").put(record.key, record.value)
        self.context.store("stock").put(record.key, f"less {record.value}")


def shop() -> Topology:
    builder = StreamsBuilder()
    stream(builder, "in").process(Receives, [KeyValues("stock", *PAIR)])
    stream(builder, "sales").process(Sells, ["stock", KeyValues("sold", *PAIR)])
    return builder.build()


def test_what_a_processor_puts_into_a_store_that_another_keeps_is_described(tmp_path):
    warehouse = played(tmp_path, shop(), {"in": [("tea", "10", 0)], "sales": [("tea", "3", 1)]})

    assert by("ProcessNode", explained(warehouse, shop(), "in:0:0")) == ["stock, 'tea': begins with '10'"]
    assert sorted(by("ProcessNode", explained(warehouse, shop(), "sales:0:0"))) == [
        "sold, 'tea': begins with '3'",
        "stock, 'tea': '10' -> 'less 3'",
    ]
