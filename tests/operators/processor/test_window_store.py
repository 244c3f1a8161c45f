"""Window and timestamped stores of processors beyond what scenarios say: increments, refusals, what a driver shows."""

import pytest

from kstreams_replay.jobs.functions.expressions import Windowed
from kstreams_replay.jobs.functions.processor_api import Processor, ValueAndTimestamp
from kstreams_replay.jobs.functions.state_stores import Stores
from kstreams_replay.jobs.operators.processor.window_store import WindowStoreRows
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import StreamsBuilder
from kstreams_replay.state.errors import ConfigError, TaskFailed
from tests.operators.processor.stored import stored_rows
from tests.topology.streams import LONG, LONGS, STRING

IN_MEMORY, PERSISTENT = Stores.in_memory_window_store, Stores.persistent_window_store


def windows(open_store=IN_MEMORY, **options) -> WindowStoreRows:
    return WindowStoreRows(Stores.window_store_builder(open_store("w", 100, 10, **options), STRING, LONG), "here")


def saved(store: WindowStoreRows) -> WindowStoreRows:
    """The same in a new increment."""
    again = WindowStoreRows(store.spec, "here")
    again.load(stored_rows("w", store.alive(only_changed=False)), store.counters())
    return again


@pytest.mark.parametrize("open_store", [IN_MEMORY, PERSISTENT])
@pytest.mark.parametrize("keeps", [False, True], ids=["one a window", "duplicates"])
def test_a_store_goes_on_in_the_next_increment_where_it_was(open_store, keeps):
    """
    Its time, too: what had expired is refused though no row says so any more.
    """
    store = windows(open_store, retain_duplicates=keeps)
    for key, value, start_ms in [
        ("b", 1, 20),
        ("a", 2, 20),
        ("b", 3, 20),
        ("a", 4, 30),
        ("z", 5, 110),
        ("z", None, 110),
    ]:
        store.put(key, value, start_ms)

    again = saved(store)

    for one in (store, again):
        one.put("b", 6, 20)
        one.put("old", 7, 10)
    assert list(again.all()) == list(store.all())
    assert list(again.fetch_range("b", 0, 100)) == list(store.fetch_range("b", 0, 100))
    assert again.refused == store.refused
    assert (Windowed("old", 10, 20), 7) not in list(again.all())


EMPTY = r"expected a window that ends after its start, got 7 ms for both; give the store a window_size of 1 ms or more"


@pytest.mark.parametrize("open_store", [IN_MEMORY, PERSISTENT])
@pytest.mark.parametrize(
    "reads",
    [
        lambda store: store.all(), lambda store: store.backward_all(), lambda store: store.fetch_all(0, 9),
        lambda store: store.backward_fetch_all(0, 9), lambda store: store.fetch_keys("a", "b", 0, 9),
        lambda store: store.backward_fetch_keys("a", "b", 0, 9),
    ],
)  # fmt: skip
def test_a_window_of_no_length_is_no_key_of_an_iterator(open_store, reads):
    """Kafka's TimeWindow refuses it when the iterator comes to it. Iterators over one key give starts alone."""
    store = WindowStoreRows(Stores.window_store_builder(open_store("w", 100, 0), STRING, LONG), "here")
    assert list(reads(store)) == []

    store.put("a", 1, 7)

    assert list(store.fetch_range("a", 0, 9)) == [(7, 1)]
    assert store.fetch("a", 7) == 1
    with pytest.raises(ConfigError, match=EMPTY):
        list(reads(store))


def test_the_drivers_view_shows_no_window_of_no_length():
    class Puts(Processor):
        def init(self, context):
            self.store = context.store("w")

        def process(self, record):
            self.store.put(record.key, record.value, 7)

    builder = StreamsBuilder()
    windows = Stores.window_store_builder(IN_MEMORY("w", 100, 0), STRING, LONG)
    builder.stream("in", LONGS).process(Puts, [windows])
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1, timestamp_ms=0)

    store = driver.get_window_store("w")
    assert store.fetch("a", 0, 9) == [(7, 1)]
    with pytest.raises(ConfigError, match=EMPTY):
        store.all()


def test_only_what_changed_is_saved_and_what_expired_goes():
    saved_from = windows()
    for start_ms in (0, 50):
        saved_from.put("a", start_ms, start_ms)
    again = saved(saved_from)

    again.put("a", 7, 120)

    assert [value for _, value in again.fetch_all(0, 200)] == [50, 7]
    assert len(again.alive(only_changed=True)) == 1
    assert [name[:1] for name in again.gone()] == [b"a"]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda store: store.put("a", 1, -1), "expected a window's start of 0 ms or more, got -1 ms"),
        (lambda store: store.put(None, 1, 1), "expected a key, got None"),
        (lambda store: store.put("a", "x", 1), "expected a long"),
        (lambda store: store.fetch(None, 1), "expected a key, got None"),
    ],
)
def test_what_cannot_be_put_or_asked_is_refused(call, why):
    with pytest.raises(ConfigError) as caught:
        call(windows())

    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda: IN_MEMORY("w", 5, 10),
            "expected a retention that is no smaller than its window size, got 5 ms",
        ),
        (lambda: PERSISTENT("w", -1, 0), "window store 'w': expected a retention and a window size of 0 ms or more"),
        (
            lambda: Stores.window_store_builder(Stores.in_memory_key_value_store("w"), STRING, LONG),
            "Stores.window_store_builder: expected the supplier of a window store",
        ),
        (
            lambda: Stores.timestamped_window_store_builder(PERSISTENT("w", 10, 5), STRING, LONG),
            "use Stores.persistent_timestamped_window_store(...)",
        ),
        (
            lambda: Stores.timestamped_key_value_store_builder(Stores.persistent_key_value_store("w"), STRING, LONG),
            "Kafka gives every value the time -1",
        ),
        (lambda: Stores.window_store_builder(IN_MEMORY("w", 10, 5), STRING, "long"), "expected a serde"),
    ],
)
def test_a_store_that_cannot_be_is_refused_when_it_is_asked_for(make, why):
    with pytest.raises(ConfigError) as caught:
        make()

    assert why in str(caught.value)


class PuttingProcessor(Processor):
    def process(self, record):
        self.context.store("w").put(record.key, record.value, record.timestamp_ms)
        self.context.store("t").put(record.key, ValueAndTimestamp(record.value, 7))
        self.context.store("t").put("gone", ValueAndTimestamp(None, 7))


def driver(processor=PuttingProcessor) -> TopologyTestDriver:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.window_store_builder(IN_MEMORY("w", 100, 10), STRING, LONG))
    timed = Stores.in_memory_key_value_store("t")
    builder.add_state_store(Stores.timestamped_key_value_store_builder(timed, STRING, LONG))
    builder.stream("in", LONGS).process(processor, ["w", "t"], name="here").to("out")
    return TopologyTestDriver(builder.build())


def test_a_refused_put_has_a_row_and_the_record_goes_on():
    found = driver()
    for time_ms in (200, 90):
        found.pipe_input("in", "a", 1, time_ms)

    found.run()

    (row,) = found.dropped
    assert (row.node, row.reason, row.window, row.limit_ms) == ("here", "expired-in-store", (90, 100), 100)


def test_a_driver_reads_them_by_their_names():
    found = driver()
    found.pipe_input("in", "a", 1, 20)

    assert found.get_window_store("w").all() == [(Windowed("a", 20, 30), 1)]
    assert found.get_timestamped_key_value_store("t").all() == [("a", ValueAndTimestamp(1, 7))]


def test_a_timestamped_store_takes_no_plain_value():
    class Plain(Processor):
        def process(self, record):
            self.context.store("t").put(record.key, record.value)

    found = driver(Plain)
    found.pipe_input("in", "a", 1, 20)

    with pytest.raises(TaskFailed, match="expected a ValueAndTimestamp, as it is a timestamped store, got 1"):
        found.run()
