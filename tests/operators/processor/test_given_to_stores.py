"""What a processor gives a store that is no time, no pair or no value of its serde, of every kind of store; and what a
serde of the user's own does not read back.
"""

from datetime import UTC, datetime

import numpy as np
import pytest

from kstreams_replay import (
    Consumed,
    KeyValues,
    Materialized,
    Processor,
    Serde,
    Stores,
    StreamsBuilder,
    TopologyTestDriver,
    ValueAndTimestamp,
    Windowed,
)
from kstreams_replay.state.errors import ConfigError, TaskFailed

STRING, LONG = Serde.string(), Serde.long()
TAGS = Serde.json("tags array<string>")
SPECS = {
    "key-value": KeyValues("kept", STRING, TAGS),
    "timestamped": Stores.timestamped_key_value_store_builder(Stores.in_memory_key_value_store("kept"), STRING, TAGS),
    "window": Stores.window_store_builder(Stores.in_memory_window_store("kept", "1h", "1m"), STRING, TAGS),
    "session": Stores.session_store_builder(Stores.in_memory_session_store("kept", "1h"), STRING, TAGS),
    "versioned": Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store("kept", "1h"), STRING, TAGS
    ),
    "table": None,
}
NONE = {"tags": []}


def asked(kind, ask, spec=None):
    """What a processor answers that asks its store of that kind."""
    answers = []

    class Asking(Processor):
        def process(self, record):
            answers.append(ask(self.context.store("kept")))

    builder = StreamsBuilder()
    if kind == "table":
        builder.table("table", Consumed(STRING, TAGS), materialized=Materialized.as_("kept"))
    stores = ["kept"] if kind == "table" else [spec or SPECS[kind]]
    builder.stream("in", Consumed(STRING, STRING)).process(Asking, stores)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "k", "v", timestamp_ms=0)
    driver.run()
    return answers[0]


def refusal(kind, ask, spec=None):
    with pytest.raises(TaskFailed) as raised:
        asked(kind, ask, spec)
    return raised.value


# --- times ------------------------------------------------------------------------------------------------------

GIVEN = {
    "timestamped put": ("timestamped", lambda store, time: store.put("k", ValueAndTimestamp(NONE, time))),
    "table's put": ("table", lambda store, time: store.put("k", ValueAndTimestamp(NONE, time))),
    "window put": ("window", lambda store, time: store.put("k", NONE, time)),
    "window fetch": ("window", lambda store, time: store.fetch("k", time)),
    "window fetch from": ("window", lambda store, time: list(store.fetch("k", time, 9))),
    "window fetch to": ("window", lambda store, time: list(store.fetch("k", 0, time))),
    "window fetch_keys": ("window", lambda store, time: list(store.fetch_keys("a", "z", 0, time))),
    "window fetch_all": ("window", lambda store, time: list(store.fetch_all(time, 9))),
    "session put, start": ("session", lambda store, time: store.put(Windowed("k", time, 9), NONE)),
    "session put, end": ("session", lambda store, time: store.put(Windowed("k", 0, time), NONE)),
    "session remove": ("session", lambda store, time: store.remove(Windowed("k", 0, time))),
    "fetch_session": ("session", lambda store, time: store.fetch_session("k", 0, time)),
    "find_sessions": ("session", lambda store, time: list(store.find_sessions("k", 0, time))),
    "versioned put": ("versioned", lambda store, time: store.put("k", NONE, time)),
    "versioned get": ("versioned", lambda store, time: store.get("k", time)),
    "versioned delete": ("versioned", lambda store, time: store.delete("k", time)),
}
PUTS = [call for call in GIVEN if " put" in call and call not in ("timestamped put", "table's put")]


@pytest.mark.parametrize("call", GIVEN)
@pytest.mark.parametrize("time", [1.5, "5", True, datetime(2026, 1, 1, tzinfo=UTC)], ids=repr)
def test_a_time_that_is_no_int_is_refused_with_the_store(call, time):
    kind, give = GIVEN[call]

    error = refusal(kind, lambda store: give(store, time))

    assert ", store 'kept'" in error.place
    assert error.expected.endswith("in ms as an int")
    assert error.got == f"{time!r}, on key 'k'"


@pytest.mark.parametrize("call", GIVEN)
def test_a_time_of_numpy_is_one(call):
    kind, give = GIVEN[call]

    asked(kind, lambda store: give(store, np.int64(5)))


@pytest.mark.parametrize("call", PUTS)
def test_a_time_that_nothing_can_be_added_to_is_not_put(call):
    kind, give = GIVEN[call]

    assert "at most 2 ** 53 - 1 ms" in refusal(kind, lambda store: give(store, 2**53)).expected


def test_numpy_times_are_found_as_ints_again():
    def ask(store):
        store.put("k", {"tags": ["a"]}, np.int64(60_000))
        return list(store.fetch("k", 0, 2**63 - 1)), store.fetch("k", 60_000), store.fetch("k", 2**63)

    assert asked("window", ask) == ([(60_000, {"tags": ["a"]})], {"tags": ["a"]}, None)


# --- values and pairs -------------------------------------------------------------------------------------------


def put_of(kind, value):
    return {
        "key-value": lambda store: store.put("k", value),
        "timestamped": lambda store: store.put("k", ValueAndTimestamp(value, 5)),
        "table": lambda store: store.put("k", ValueAndTimestamp(value, 5)),
        "window": lambda store: store.put("k", value, 5),
        "session": lambda store: store.put(Windowed("k", 5, 6), value),
        "versioned": lambda store: store.put("k", value, 5),
    }[kind]


@pytest.mark.parametrize("kind", SPECS)
def test_a_value_of_another_type_is_refused_with_store_and_field(kind):
    error = refusal(kind, put_of(kind, {"tags": ["a", 5]}))

    number = 3 if kind == "table" else 1
    assert error.place == f"KSTREAM-PROCESSOR-000000000{number}, store 'kept', Serde.json, field tags[1]"
    assert (error.expected, error.got) == ("a str", "5 (int), on key 'k'")


@pytest.mark.parametrize(
    ("entries", "got"),
    [({"a": NONE}, "a dict"), (["ab"], "'ab'"), ([("a", NONE, 5)], "('a', {'tags': []}, 5)"), ("ab", "'ab'"), (5, "5")],
    ids=repr,
)
def test_put_all_takes_pairs_alone(entries, got):
    error = refusal("key-value", lambda store: store.put_all(entries))

    assert error.place == "KSTREAM-PROCESSOR-0000000001, put_all"
    assert (error.expected, error.got) == ("pairs (key, value)", f"{got}, on key 'k'")

    builder = StreamsBuilder()
    builder.table("in", Consumed(STRING, TAGS), materialized=Materialized.as_("kept"))
    with pytest.raises(ConfigError, match="put_all: expected pairs \\(key, value\\), got"):
        TopologyTestDriver(builder.build()).get_key_value_store("kept").put_all(entries)


# --- a serde of one's own that does not read what it wrote --------------------------------------------------------


def fail(data):
    raise ValueError("no such version")


@pytest.mark.parametrize(
    ("decode", "reason"),
    [(fail, "ValueError: no such version"), (lambda data: 5, "expected a str, got 5 (int)")],
    ids=["fails", "another type"],
)
def test_a_stored_value_that_its_serde_does_not_read_ends_the_run(decode, reason):
    serde = Serde.of(str.encode, decode, type="string")

    def ask(store):
        store.put("k", "v")
        return store.get("k")

    error = refusal("key-value", ask, KeyValues("kept", STRING, serde))

    assert error.place == "KSTREAM-PROCESSOR-0000000001, store 'kept'"
    assert error.got == f"some that it does not ({reason}), on key 'k'"
