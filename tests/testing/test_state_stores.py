"""Stores of the test driver, each by its own name and by the methods of its kind."""

import pytest

from kstreams_replay import (
    Consumed,
    KeyValues,
    Materialized,
    Processor,
    Record,
    Serde,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Windowed,
)
from kstreams_replay.jobs.testing.state_stores import ValueAndTimestamp, VersionedRecord
from kstreams_replay.state.errors import ConfigError
from tests.every_store import every_store

STRING, LONG = Serde.string(), Serde.long()
TAGS = Serde.json("tags array<string>")
LONGS = Consumed(STRING, LONG)


class Counted(Processor):
    """Keeps how many records each key had, and the newest value."""

    def process(self, record: Record) -> None:
        counts, newest = self.context.store("seen"), self.context.store("newest")
        counts.put(record.key, 1 + (counts.get(record.key) or 0))
        newest.put(record.key, record.value)


def stored() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", LONGS)
    grouped = stream.group_by_key()
    grouped.count(Materialized.as_("counts")).to("counts")
    windows = TimeWindows.of_size(10, grace=0)
    grouped.windowed_by(windows).count(Materialized.as_("hourly", retention=20)).to("hourly")
    sessions = SessionWindows.with_inactivity_gap(5, grace=100)
    grouped.windowed_by(sessions).count(Materialized.as_("visits")).to("visits")
    stream.process(Counted, [KeyValues("seen", STRING, LONG), KeyValues("newest", STRING, LONG)]).to("processed")
    builder.table("prices", LONGS, materialized=Materialized.versioned("prices", 50)).to_stream().to("prices-out")
    builder.table("items", LONGS, materialized=Materialized.as_("items")).to_stream().to("items-out")
    everything = builder.global_table("everything", LONGS, materialized=Materialized.as_("everything"))
    stream.join(everything, lambda left, right: right, returns=LONG, selector="record_key").to("joined")
    builder.global_table("alone", LONGS, materialized=Materialized.as_("nobody-joins"))
    return builder.build()


def piped(topic: str, *records: tuple[str | None, int | None, int]) -> TopologyTestDriver:
    driver = TopologyTestDriver(stored())
    for key, value, time_ms in records:
        driver.pipe_input(topic, key, value, time_ms)
    return driver


# --- key-value stores ----------------------------------------------------------------------------------------


def test_a_tables_store_has_values_and_their_times():
    driver = piped("items", ("b", 1, 5), ("a", 2, 7), ("b", 3, 6), ("c", 4, 8), ("c", None, 9))
    items, timed = driver.get_key_value_store("items"), driver.get_timestamped_key_value_store("items")

    assert (items.get("b"), items.get("c"), items.approximate_num_entries()) == (3, None, 2)
    assert timed.get("b") == ValueAndTimestamp(3, 6)
    assert timed.all() == [("a", (2, 7)), ("b", (3, 6))]


def test_a_store_shows_what_was_piped_after_it_was_asked_for():
    driver = TopologyTestDriver(stored())
    counts = driver.get_key_value_store("counts")
    assert counts.get("a") is None

    driver.pipe_key_values("in", [("a", 1), ("a", 1)])
    assert counts.get("a") == 2


def test_ranges_go_by_the_bytes_of_the_keys():
    driver = piped("items", *((key, n, 0) for n, key in enumerate(["é", "b", "ab", "z", "a"])))
    items = driver.get_key_value_store("items")

    assert [key for key, _ in items.all()] == ["a", "ab", "b", "z", "é"]
    assert [key for key, _ in items.range("ab", "z")] == ["ab", "b", "z"]
    assert [key for key, _ in items.range(None, "ab")] == ["a", "ab"]
    assert [key for key, _ in items.reverse_range("b")] == ["é", "z", "b"]
    assert items.reverse_all() == items.all()[::-1]
    assert items.prefix_scan("a", STRING) == [("a", 4), ("ab", 2)]


def test_a_processors_stores_are_read_by_their_own_names():
    driver = piped("in", ("a", 7, 0), ("b", 8, 1), ("a", 9, 2))

    assert driver.get_key_value_store("seen").all() == [("a", 2), ("b", 1)]
    assert driver.get_key_value_store("newest").get("a") == 9
    assert driver.store("seen").get("a") == 2


class Reads(Processor):
    """Writes to a store that another processor keeps, too, and looks into that of a table."""

    def process(self, record: Record) -> None:
        shared = self.context.store("shared")
        shared.put(record.key, (shared.get(record.key) or 0) + 1)
        self.context.store("items").get(record.key)


def test_a_store_that_processors_share_is_one_and_a_tables_stays_the_tables():
    builder = StreamsBuilder()
    builder.table("items", LONGS, materialized=Materialized.as_("items"))
    shared = KeyValues("shared", STRING, LONG)
    stream = builder.stream("in", LONGS)
    stream.process(Reads, [shared, "items"]).to("one")
    stream.process(Reads, [shared, "items"]).to("other")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("items", "a", 7, 3)
    driver.pipe_key_values("in", [("a", 1), ("b", 1), ("a", 1)])

    assert {*driver.get_all_state_stores()} == {"shared", "items"}
    assert driver.get_key_value_store("shared").all() == [("a", 4), ("b", 2)]
    assert driver.get_timestamped_key_value_store("items").all() == [("a", (7, 3))]


def test_a_processors_store_may_be_empty():
    driver = TopologyTestDriver(stored())

    assert driver.get_key_value_store("seen").all() == []
    assert driver.store("seen").all() == []


def test_a_global_table_has_its_topic_whether_somebody_joins_it_or_not():
    driver = TopologyTestDriver(stored())
    assert driver.get_key_value_store("everything").all() == []
    for topic in ("everything", "alone"):
        for key, value, time_ms in [("a", 1, 9), (None, 2, 9), ("b", 3, 9), ("a", 4, 5), ("b", None, 10), ("c", 5, -1)]:
            driver.pipe_input(topic, key, value, time_ms)
        driver.pipe_bytes(topic, b"a", b"short", 11)

    for name in ("everything", "nobody-joins"):
        assert driver.get_key_value_store(name).all() == [("a", 4)]
        assert driver.get_timestamped_key_value_store(name).get("a") == ValueAndTimestamp(4, 5)
        assert driver.store(name).get("a") == 4
    driver.pipe_input("alone", "z", 6, 12)
    assert driver.get_key_value_store("nobody-joins").get("z") == 6


# --- windows -------------------------------------------------------------------------------------------------


def test_windows_are_fetched_by_key_and_by_range_of_starts():
    driver = piped("in", ("a", 0, 1), ("b", 0, 2), ("a", 0, 9), ("a", 0, 10), ("b", 0, 19))
    store, timed = driver.get_window_store("hourly"), driver.get_timestamped_window_store("hourly")

    assert (store.fetch("a", 0), store.fetch("a", 10), store.fetch("a", 5)) == (2, 1, None)
    assert store.fetch("a", 0, 10) == [(0, 2), (10, 1)]
    assert (store.fetch("a", 0, 9), store.fetch("a", 1, 10)) == ([(0, 2)], [(10, 1)])
    assert store.backward_fetch("a", 0, 10) == [(10, 1), (0, 2)]
    assert timed.fetch("a", 0, 10) == [(0, (2, 9)), (10, (1, 10))]
    assert store.fetch("b", "b", 0, 10) == [(Windowed("b", 0, 10), 1), (Windowed("b", 10, 20), 1)]
    assert store.all() == [
        *((Windowed("a", 0, 10), 2), (Windowed("b", 0, 10), 1)),
        *((Windowed("a", 10, 20), 1), (Windowed("b", 10, 20), 1)),
    ]
    assert store.backward_all() == store.all()[::-1]
    assert store.fetch_all(10, 99) == store.fetch(None, None, 10, 99) == store.all()[2:]
    assert store.backward_fetch_all(10, 99) == store.all()[:1:-1]


def test_sliding_windows_are_a_window_store():
    builder = StreamsBuilder()
    windows = SlidingWindows.of_time_difference_and_grace(10, 0)
    grouped = builder.stream("in", LONGS).group_by_key()
    grouped.windowed_by(windows).count(Materialized.as_("recent")).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1, 12)
    driver.pipe_input("in", "a", 1, 15)

    got = driver.get_window_store("recent").fetch("a", 0, 100)

    assert got == [(2, 1), (5, 2), (13, 1)]
    assert list(driver.get_all_state_stores()) == ["recent"]


def test_what_the_retention_has_passed_is_not_shown():
    """
    A window is there while its start is above stream time - retention: that of 0 goes when 20 comes.
    """
    driver = piped("in", ("a", 0, 1), ("b", 0, 19))
    assert driver.get_window_store("hourly").fetch("a", 0) == 1

    driver.pipe_input("in", "b", 0, 20)
    assert driver.get_window_store("hourly").fetch("a", 0) is None


def test_sessions_are_found_by_when_they_end_and_begin():
    driver = piped("in", ("a", 0, 10), ("a", 0, 15), ("a", 0, 30), ("b", 0, 12), ("a", 0, 50))
    store = driver.get_session_store("visits")
    first, second, third = (
        (Windowed("a", 10, 15), 2),
        (Windowed("a", 30, 30), 1),
        (Windowed("a", 50, 50), 1),
    )
    other = (Windowed("b", 12, 12), 1)

    assert store.fetch("a") == [first, second, third]
    assert store.backward_fetch("a") == [third, second, first]
    assert store.fetch("a", "b") == [other, first, second, third]
    assert store.find_sessions("a", 15, 30) == [first, second]
    assert (store.find_sessions("a", 16, 29), store.find_sessions("a", 16, 30)) == ([], [second])
    assert store.find_sessions("a", "b", 0, 12) == [other, first]
    assert store.find_sessions(12, 15) == [other, first]
    assert store.backward_find_sessions("a", 15, 30) == [second, first]
    assert (store.fetch_session("a", 10, 15), store.fetch_session("a", 10, 14)) == (2, None)


# --- versions ------------------------------------------------------------------------------------------------


class Overlapping(Processor):
    """Puts sessions of equal ends and other starts, and forwards their starts in the order of the store."""

    def process(self, record: Record) -> None:
        store = self.context.store("own")
        for start_ms, end_ms in [(0, 10), (5, 10), (5, 12), (2, 10)]:
            store.put(Windowed(record.key, start_ms, end_ms), record.value)
        starts = [windowed.window_start_ms for windowed, _ in store.find_sessions(record.key, 0, 100)]
        self.context.forward(record.with_value(starts))


def test_sessions_of_equal_ends_have_the_order_of_kafkas_store_in_memory():
    """InMemorySessionStore keeps them by end and key, and reads the starts of one end backwards."""
    builder = StreamsBuilder()
    sessions = Stores.session_store_builder(Stores.in_memory_session_store("own", "1d"), STRING, LONG)
    builder.stream("in", LONGS).process(Overlapping, [sessions], returns=Serde.json("array<long>")).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", 1)

    assert driver.read_output("out").value == [5, 2, 0, 5]
    seen = driver.get_session_store("own")
    assert [windowed.window_start_ms for windowed, _ in seen.find_sessions("a", 0, 100)] == [5, 2, 0, 5]
    assert [windowed.window_start_ms for windowed, _ in seen.backward_fetch("a")] == [5, 0, 2, 5]


def test_a_versioned_store_tells_from_when_to_when_a_value_was_valid():
    driver = piped("prices", ("a", 1, 40), ("a", 4, 100), ("a", None, 60), ("a", 3, 80), ("b", 5, 90), ("b", None, 95))
    prices = driver.get_versioned_key_value_store("prices")

    assert prices.get("a") == VersionedRecord(4, 100, None)
    assert prices.get("a", 99) == VersionedRecord(3, 80, 100)
    assert prices.get("a", 59) == VersionedRecord(1, 40, 60)
    assert (prices.get("a", 60), prices.get("a", 49), prices.get("b"), prices.get("c")) == (None, None, None, None)
    assert prices.get("b", 94) == VersionedRecord(5, 90, 95)


def test_a_versioned_store_has_keys_of_fields_too():
    builder, keys = StreamsBuilder(), Serde.json("a string, n long")
    builder.table("prices", Consumed(keys, LONG), materialized=Materialized.versioned("prices", 50))
    driver = TopologyTestDriver(builder.build())
    for n, value, time_ms in [(1, 5, 40), (2, 6, 41), (1, 7, 60)]:
        driver.pipe_input("prices", {"a": "x", "n": n}, value, time_ms)

    prices = driver.get_versioned_key_value_store("prices")

    assert prices.get({"a": "x", "n": 1}, 59) == VersionedRecord(5, 40, 60)
    assert prices.get({"a": "x", "n": 2}) == VersionedRecord(6, 41, None)
    view = driver.store("prices")
    assert [version.value for version in view.versions({"a": "x", "n": 1})] == [5, 7]
    assert view.versions({"a": "y", "n": 1}) == []


# --- names ---------------------------------------------------------------------------------------------------


def test_all_state_stores_are_those_that_can_be_read_by_key():
    found = TopologyTestDriver(stored()).get_all_state_stores()

    assert {name: type(store).__name__ for name, store in found.items()} == {
        "counts": "DriverKeyValueStore",
        "hourly": "DriverWindowStore",
        "visits": "DriverSessionStore",
        "prices": "DriverVersionedStore",
        "items": "DriverKeyValueStore",
        "seen": "DriverKeyValueStore",
        "newest": "DriverKeyValueStore",
        "everything": "DriverKeyValueStore",
        "nobody-joins": "DriverKeyValueStore",
    }


def test_every_store_of_every_kind_can_be_looked_at_or_says_why_not():
    driver = TopologyTestDriver(every_store())
    for topic, key, value in [("orders", "a", "x"), ("payments", "a", "y"), ("items", "i", "z"), ("prices", "x", 1)]:
        driver.pipe_input(topic, key, value, 1_000)

    for store in driver.get_all_state_stores().values():
        assert repr(store)
    assert driver.get_key_value_store("plain-count").all() == [("a", 1)]
    assert driver.get_window_store("longest").fetch("a", 1_000) == "y"
    with pytest.raises(ConfigError, match=r"store 'KSTREAM-OUTERTHIS-\d+-store': expected a store of values by key"):
        driver.store("KSTREAM-OUTERTHIS-0000000010-store")


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda driver: driver.get_window_store("counts"),
            "get_window_store: expected a window store, got 'counts', a key-value store; "
            "read it by get_key_value_store('counts')",
        ),
        (
            lambda driver: driver.get_key_value_store("visits"),
            "get_key_value_store: expected a key-value store, got 'visits', a session store; "
            "read it by get_session_store('visits')",
        ),
        (
            lambda driver: driver.get_timestamped_key_value_store("seen"),
            "get_timestamped_key_value_store: expected a timestamped key-value store, got 'seen', a key-value store; "
            "read it by get_key_value_store('seen')",
        ),
        (
            lambda driver: driver.get_session_store("prices"),
            "get_session_store: expected a session store, got 'prices', a versioned key-value store; "
            "read it by get_versioned_key_value_store('prices')",
        ),
        (
            lambda driver: driver.get_key_value_store("counts").get(None),
            "store 'counts': expected a key, got None; ask for a key, or for a range of keys",
        ),
    ],
)
def test_a_store_of_another_kind_says_which_method_reads_it(use, message):
    with pytest.raises(ConfigError) as caught:
        use(TopologyTestDriver(stored()))

    assert str(caught.value) == message


def test_an_unknown_store_is_refused_with_those_that_there_are():
    with pytest.raises(ConfigError, match=r"get_key_value_store: expected one of \['counts', .*'nobody-joins'\]"):
        TopologyTestDriver(stored()).get_key_value_store("count")


KINDS_OF_STORES = ["table", "processor's", "global store", "global table"]


def store_with(kind: str, records: int) -> TopologyTestDriver:
    """A driver whose store "s" has ``records`` rows, of the keys 0, 1, …"""

    class Keep(Processor):
        def init(self, context):
            self.store = context.store("s")

        def process(self, record):
            self.store.put(record.key, record.value)

    builder, of = StreamsBuilder(), Consumed(STRING, TAGS)
    if kind == "table":
        builder.table("in", of, materialized=Materialized.as_("s"))
    elif kind == "global table":
        builder.global_table("in", of, materialized=Materialized.as_("s"))
    elif kind == "global store":
        builder.add_global_store(KeyValues("s", STRING, TAGS), "in", of, Keep)
    else:
        builder.stream("in", of).process(Keep, [KeyValues("s", STRING, TAGS)])
    if "global" in kind:
        builder.stream("other", of).to("out")
    driver = TopologyTestDriver(builder.build())
    for number in range(records):
        driver.pipe_input("in", str(number), {"tags": [f"t{number}"]}, timestamp_ms=number)
    return driver


@pytest.mark.parametrize("kind", KINDS_OF_STORES)
def test_get_shows_what_was_piped_last_and_what_a_test_changes_in_it_stays_out_of_the_store(kind):
    driver = store_with(kind, 3)
    store = driver.get_key_value_store("s")

    store.get("1")["tags"].append("mine")
    assert store.get("1") == {"tags": ["t1"]}
    assert store.get("7") is None
    driver.pipe_input("in", "1", {"tags": []}, timestamp_ms=9)
    assert store.get("1") == {"tags": []}
    driver.pipe_input("in", "1", None, timestamp_ms=9)
    assert store.get("1") is None
    assert [key for key, _ in store.all()] == ["0", "2"]


@pytest.mark.parametrize("kind", KINDS_OF_STORES)
def test_get_decodes_the_value_of_one_key(kind, monkeypatch):
    driver = store_with(kind, 50)
    store = driver.get_key_value_store("s")
    store.get("3")
    decoded = []
    to_python = Serde.to_python
    monkeypatch.setattr(
        type(TAGS), "to_python", lambda serde, values: decoded.append(len(values)) or to_python(serde, values)
    )

    for number in range(50):
        assert store.get(str(number)) == {"tags": [f"t{number}"]}

    assert max(decoded) == 1
