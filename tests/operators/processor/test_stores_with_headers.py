"""Stores of processors that keep headers (KIP-1271): cuts change nothing, bytes are Kafka's, wrong calls are named.

What they hold, give and forget Kafka Streams judges in tests/scenarios/process/headers-of-*. How values, times and
headers are written is read from its serializers.
"""

import random
from functools import partial

import pytest

from kstreams_replay import (
    AggregationWithHeaders,
    Consumed,
    Materialized,
    Processor,
    Serde,
    Stores,
    StreamsBuilder,
    TopologyTestDriver,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    Windowed,
)
from kstreams_replay.state.errors import ConfigError, TaskFailed
from tests.conformance.processors import NamedProcessor
from tests.operators.processor.process_runs import STRING, ProcessorRun, at, each

KEYS, WINDOWS, SESSIONS = (
    Stores.timestamped_key_value_store_with_headers_builder,
    Stores.timestamped_window_store_with_headers_builder,
    Stores.session_store_with_headers_builder,
)
VALUES = KEYS(Stores.persistent_timestamped_key_value_store_with_headers("s"), STRING, STRING)
ON_DISK = WINDOWS(Stores.persistent_timestamped_window_store_with_headers("s", 30, 10), STRING, STRING)
IN_MEMORY = WINDOWS(Stores.in_memory_window_store("s", 30, 10), STRING, STRING)
VISITS = SESSIONS(Stores.persistent_session_store_with_headers("s", 30), STRING, STRING)
BY_ANN = (("by", b"ann"), ("none", None))


class Both(Processor):
    """Puts, and looks at everything."""

    def __init__(self, puts: str, looks: str) -> None:
        self.parts = NamedProcessor(puts, ["s"]), NamedProcessor(looks, ["s"])

    def init(self, context):
        for part in self.parts:
            part.init(context)

    def process(self, record):
        for part in self.parts:
            part.process(record)


@pytest.mark.parametrize(
    ("store", "processor", "values", "said"),
    [
        (VALUES, partial(Both, "tput:headers", "list"), ["x", "bare", None], 3),
        (ON_DISK, partial(Both, "wput:headers", "wlook:20"), ["x", "bare", None], 2),
        (IN_MEMORY, partial(Both, "wput:headers", "wlook:20"), ["x", "bare", None], 2),
        (VISITS, partial(Both, "sput:headers", "slook:20"), ["0 x", "5 bare", "9 z", "5 remove", "5"], 2),
    ],
    ids=["keys", "windows on disk", "windows in memory", "sessions"],
)
def test_where_the_tape_is_cut_changes_nothing(store, processor, values, said):
    dice = random.Random(1)
    records = [(dice.choice("ab"), dice.choice(values), dice.randint(0, 20 + 4 * n)) for n in range(40)]
    whole = ProcessorRun(processor, [store]).process(records)
    run, found = ProcessorRun(processor, [store]), []
    for record in records:
        found += run.process([record])
        run.begin()

    assert len(whole) == 40 * said
    assert any("{by:a,none:null}" in value for _, _, value, _ in whole)
    assert found == whole


class Putting(Processor):
    """Puts values with the headers of their records."""

    def process(self, record):
        at_ms, headers = record.timestamp_ms, record.headers
        timed = ValueTimestampHeaders(record.value, at_ms + 1, headers)
        self.context.store("values").put(record.key, timed)
        self.context.store("hours").put(record.key, timed, at_ms)
        self.context.store("visits").put(
            Windowed(record.key, at_ms, at_ms), AggregationWithHeaders(record.value, headers)
        )


def driver() -> TopologyTestDriver:
    builder = StreamsBuilder()
    stores = [
        KEYS(Stores.in_memory_key_value_store("values"), STRING, STRING),
        WINDOWS(Stores.in_memory_window_store("hours", 100, 10), STRING, STRING),
        SESSIONS(Stores.in_memory_session_store("visits", 100), STRING, STRING),
    ]
    builder.stream("in", Consumed(STRING, STRING)).process(Putting, stores).to("out")
    builder.table("items", Consumed(STRING, STRING), materialized=Materialized.as_("items")).to_stream().to("items-out")
    found = TopologyTestDriver(builder.build())
    found.pipe_input("in", "a", "x", 20, headers=BY_ANN)
    found.pipe_input("in", "b", "y", 30)
    return found


def test_a_driver_shows_values_with_their_headers_and_without():
    found = driver()
    window, session = Windowed("a", 20, 30), Windowed("a", 20, 20)
    values = found.get_timestamped_key_value_store_with_headers("values")

    assert values.all() == [("a", ValueTimestampHeaders("x", 21, BY_ANN)), ("b", ValueTimestampHeaders("y", 31))]
    assert found.get_timestamped_key_value_store("values").get("a") == ValueAndTimestamp("x", 21)
    assert found.get_key_value_store("values").get("a") == "x"
    hours = found.get_timestamped_window_store_with_headers("hours")
    assert hours.fetch_all(0, 25) == [(window, ValueTimestampHeaders("x", 21, BY_ANN))]
    assert found.get_timestamped_window_store("hours").fetch("a", 20) == ValueAndTimestamp("x", 21)
    assert found.get_window_store("hours").fetch("a", 20) == "x"
    visits = found.get_session_store_with_headers("visits")
    assert visits.fetch("a") == [(session, AggregationWithHeaders("x", BY_ANN))]
    assert found.get_session_store("visits").fetch("a") == [(session, "x")]
    every = found.get_all_state_stores()
    assert every["values"].get("a") == ValueTimestampHeaders("x", 21, BY_ANN)
    assert every["visits"].fetch("b") == [(Windowed("b", 30, 30), AggregationWithHeaders("y"))]


def test_a_store_that_keeps_no_headers_is_not_read_with_them():
    with pytest.raises(ConfigError) as caught:
        driver().get_timestamped_key_value_store_with_headers("items")

    assert str(caught.value) == (
        "get_timestamped_key_value_store_with_headers: expected a timestamped key-value store with headers, "
        "got 'items', a key-value store; read it by get_key_value_store('items')"
    )


@pytest.mark.parametrize(
    ("store", "put", "want"),
    [
        (
            VALUES,
            lambda store: store.put("a", ValueTimestampHeaders("x", 258, BY_ANN)),
            b"\x1c\x04\x04by\x06ann\x08none\x01" + bytes([0, 0, 0, 0, 0, 0, 1, 2]) + b"x",
        ),
        (
            VALUES,
            lambda store: store.put("a", ValueTimestampHeaders("x", 258)),
            b"\x00" + bytes([0, 0, 0, 0, 0, 0, 1, 2]) + b"x",
        ),
        (
            VISITS,
            lambda store: store.put(Windowed("a", 1, 1), AggregationWithHeaders("x", (("k" * 80, b""),))),
            b"\xa8\x01\x02\xa0\x01" + b"k" * 80 + b"\x00" + b"x",
        ),
    ],
    ids=["two headers", "none", "long ones"],
)
def test_headers_stand_before_the_value_as_kafkas_serializers_write_them(store, put, want):
    """
    HeadersSerializer: lengths and counts are zigzag numbers of seven bits a byte, 28 / 2 = 14 bytes of headers.
    """
    run = ProcessorRun(each(lambda self, record: put(self.context.store("s"))), [store])
    run.process(at(1))

    assert run.operator.rows()["value"].to_pylist() == [want]


@pytest.mark.parametrize(
    ("store", "put", "why"),
    [
        (VALUES, lambda store: store.put("a", "x"), "a ValueTimestampHeaders, as its store keeps headers, got 'x'"),
        (VISITS, lambda store: store.put(Windowed("a", 1, 1), "x"), "an AggregationWithHeaders, as its store keeps"),
        (
            VALUES,
            lambda store: store.put("a", ValueTimestampHeaders("x", 1, {"by": b"ann"})),
            r"headers as \(name, bytes or None\) pairs, got {'by': b'ann'}",
        ),
        (
            VALUES,
            lambda store: store.put("a", ValueTimestampHeaders("x", 1, (("by", "ann"),))),
            r"headers as \(name, bytes or None\) pairs, got \(\('by', 'ann'\),\)",
        ),
    ],
    ids=["a plain value", "a plain aggregate", "a dict", "text"],
)
def test_what_such_a_store_does_not_take_is_named(store, put, why):
    with pytest.raises(TaskFailed, match=why):
        ProcessorRun(each(lambda self, record: put(self.context.store("s"))), [store]).process(at(1))


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (
            lambda: KEYS(Stores.persistent_timestamped_key_value_store("s"), STRING, STRING),
            "use Stores.persistent_timestamped_key_value_store_with_headers(...)",
        ),
        (
            lambda: WINDOWS(Stores.persistent_timestamped_window_store("s", 20, 10), STRING, STRING),
            "use Stores.persistent_timestamped_window_store_with_headers(...)",
        ),
        (
            lambda: SESSIONS(Stores.persistent_session_store("s", 20), STRING, STRING),
            "use Stores.persistent_session_store_with_headers(...)",
        ),
        (
            lambda: Stores.timestamped_key_value_store_builder(
                Stores.persistent_timestamped_key_value_store_with_headers("s"), STRING, Serde.long()
            ),
            "use Stores.persistent_timestamped_key_value_store(...)",
        ),
    ],
    ids=["keys", "windows", "sessions", "times of one with headers"],
)
def test_a_supplier_that_would_lose_something_is_refused(make, advice):
    with pytest.raises(ConfigError) as caught:
        make()

    assert str(caught.value).endswith(advice)
