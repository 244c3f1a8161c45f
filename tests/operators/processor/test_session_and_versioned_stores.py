"""Session and versioned stores of processors: cuts change nothing, what is refused is booked, wrong calls are named.

What they hold in which order is judged by Kafka Streams in tests/scenarios/process/.
"""

import random
from functools import partial

import pytest

from kstreams_replay import (
    Consumed,
    KeyValues,
    Processor,
    Serde,
    Stores,
    StreamsBuilder,
    TopologyTestDriver,
    VersionedRecord,
    Windowed,
)
from kstreams_replay.state.errors import ConfigError, TaskFailed
from tests.conformance.processors import NamedProcessor
from tests.operators.processor.process_runs import STRING, ProcessorRun, at, each

IN_MEMORY = Stores.session_store_builder(Stores.in_memory_session_store("s", 30), STRING, STRING)
ON_DISK = Stores.session_store_builder(Stores.persistent_session_store("s", 30), STRING, STRING)
VERSIONED = Stores.versioned_key_value_store_builder(
    Stores.persistent_versioned_key_value_store("s", 30), STRING, STRING
)


class Both(Processor):
    """Puts, and looks at everything."""

    def __init__(self, puts: str, looks: str) -> None:
        self.parts = NamedProcessor(puts, ["s"]), NamedProcessor(looks, ["s"])

    def init(self, context):
        for part in self.parts:
            part.init(context)

    def process(self, record):
        puts, looks = self.parts
        puts.process(record)
        looks.process(record if looks.name == "slook" else record.with_value("0+10+25+40+60"))


def tape(values: list[str | None], seed: int) -> list[tuple[str, str | None, int]]:
    dice = random.Random(seed)
    return [(dice.choice("ab"), dice.choice(values), dice.randint(0, 20 + 4 * n)) for n in range(40)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "processor", "values"),
    [
        (IN_MEMORY, partial(Both, "sput", "slook:40"), ["0 x", "5 y", "9 z", "5 remove", "5"]),
        (ON_DISK, partial(Both, "sput", "slook:40"), ["0 x", "5 y", "9 z", "5 remove", "5"]),
        (VERSIONED, partial(Both, "vput", "vlook"), ["x", "y", "delete", None]),
    ],
    ids=["sessions in memory", "sessions on disk", "versions"],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_where_the_tape_is_cut_changes_nothing(store, processor, values, seed):
    records = tape(values, seed)
    whole = ProcessorRun(processor, [store]).process(records)
    run, found = ProcessorRun(processor, [store]), []
    for record in records:
        found += run.process([record])
        run.begin()

    assert len(whole) == 80
    assert found == whole


class Putting(Processor):
    def init(self, context):
        super().init(context)
        self.visits, self.prices = context.store("visits"), context.store("prices")

    def process(self, record):
        at_ms = record.timestamp_ms
        self.visits.put(Windowed(record.key, at_ms, at_ms), record.value)
        self.prices.put(record.key, record.value, at_ms)


def test_what_is_too_old_is_refused_and_booked_and_the_driver_shows_the_rest():
    builder = StreamsBuilder()
    stores = [
        Stores.session_store_builder(Stores.in_memory_session_store("visits", 10), STRING, STRING),
        Stores.versioned_key_value_store_builder(
            Stores.persistent_versioned_key_value_store("prices", 10), STRING, STRING
        ),
    ]
    builder.stream("in", Consumed(STRING, STRING)).process(Putting, stores).to("out")
    driver = TopologyTestDriver(builder.build())
    for value, time_ms in (("now", 50), ("edge", 40), ("old", 39)):
        driver.pipe_input("in", "a", value, time_ms)

    assert driver.get_session_store("visits").fetch("a") == [(Windowed("a", 50, 50), "now")]
    prices = driver.get_versioned_key_value_store("prices")
    assert prices.get("a") == VersionedRecord("now", 50, None)
    assert prices.get("a", 49) == prices.get("a", 40) == VersionedRecord("edge", 40, 50)
    assert prices.get("a", 39) is None
    assert type(driver.get_all_state_stores()["prices"]).__name__ == "DriverVersionedStore"
    assert [(one.reason, one.arrival) for one in driver.dropped] == [("expired-in-store", n) for n in (1, 2, 2)]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda store: store.put("a", "x"),
            r"expected a Windowed key, got 'a', on key 'k'; write Windowed\(key, start, end\)",
        ),
        (
            lambda store: store.put(Windowed("a", 5, 4), "x"),
            "expected a session that does not end before it begins, got 5",
        ),
        (lambda store: store.find_sessions("a"), "got 1 arguments"),
        (lambda store: store.find_sessions(0, 5), "sessions of all keys of an in-memory store"),
        (lambda store: store.fetch(None), "expected a key, got None"),
    ],
)
def test_a_wrong_call_of_a_session_store_is_named(act, message):
    def wrong(self, record):
        list(act(self.context.store("s")))

    with pytest.raises(TaskFailed, match=message):
        ProcessorRun(each(wrong), [ON_DISK]).process(at(1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Stores.in_memory_session_store("s", -1), "a retention of 0 ms or more, got -1 ms"),
        (
            lambda: Stores.persistent_versioned_key_value_store("s", 5, 0),
            "a segment interval of 1 ms or more, got 0 ms",
        ),
        (
            lambda: Stores.session_store_builder(Stores.in_memory_window_store("s", 5, 5), STRING, STRING),
            "of a session",
        ),
        (lambda: Stores.versioned_key_value_store_builder("s", STRING, STRING), "the supplier of a versioned"),
        (lambda: Stores.lru_map("s", 5), "got Stores.lru_map; use in_memory_key_value_store"),
    ],
)
def test_what_makes_no_store_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_processor_knows_its_task_and_puts_many_and_no_configuration():
    class Looking(Processor):
        def process(self, record):
            store = self.context.store("s")
            store.put_all([("a", 1), ("b", 2), ("a", None)])
            self.context.forward(record.key, f"{self.context.task_id()} {list(store.all())}")

    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(STRING, STRING))
    stream.process(Looking, [KeyValues("s", STRING, Serde.long())]).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "v", 1)
    assert driver.read_output("out").value == "0_0 [('b', 2)]"


@pytest.mark.parametrize("name", ["application_id", "app_configs", "metrics"])
def test_what_no_replay_would_repeat_is_refused(name):
    run = ProcessorRun(each(lambda self, record: getattr(self.context, name)()))

    with pytest.raises(TaskFailed, match="expected what every replay repeats"):
        run.process(at(1))
