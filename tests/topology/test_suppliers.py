"""``Materialized.as_`` of a supplier of ``Stores``: its name, kind and retention (three of Kafka's overloads)."""

import re

import pytest

from kstreams_replay import (
    Consumed,
    Materialized,
    Serde,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyTestDriver,
)
from kstreams_replay.state.errors import ReplayError

STRING, LONG = Serde.string(), Serde.long()
MINUTE = 60_000


@pytest.mark.parametrize(
    ("supplier", "want"),
    [
        (Stores.in_memory_key_value_store("s"), Materialized.as_("s", store="in_memory")),
        (Stores.persistent_timestamped_key_value_store("s"), Materialized.as_("s")),
        (Stores.in_memory_window_store("s", "1d", "1h"), Materialized.as_("s", store="in_memory", retention="1d")),
        (Stores.persistent_timestamped_window_store("s", "1d", "1h"), Materialized.as_("s", retention="1d")),
        (Stores.in_memory_session_store("s", "1d"), Materialized.as_("s", store="in_memory", retention="1d")),
        (Stores.persistent_session_store("s", "1d"), Materialized.as_("s", retention="1d")),
        (Stores.persistent_versioned_key_value_store("s", "1d"), Materialized.versioned("s", "1d")),
    ],
)
def test_a_supplier_is_the_same_as_what_it_says(supplier, want):
    def described(materialized):
        retention = materialized.retention
        return (
            materialized.name,
            materialized.store or "persistent",
            None if retention is None else Materialized("x", retention=retention).retention_ms(WINDOWS, "x"),
            materialized.history_retention_ms,
        )

    assert described(Materialized.as_(supplier)) == described(want)


WINDOWS = TimeWindows.of_size("1h")


def test_aggregates_keep_their_rows_in_the_store_of_a_supplier():
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(STRING, LONG)).group_by_key()
    grouped.count(Materialized.as_(Stores.in_memory_key_value_store("counts")))
    windowed = grouped.windowed_by(TimeWindows.of_size("1m"))
    windowed.count(Materialized.as_(Stores.in_memory_window_store("minutes", "2m", "1m")))
    sessions = grouped.windowed_by(SessionWindows.with_inactivity_gap("1m"))
    sessions.count(Materialized.as_(Stores.in_memory_session_store("visits", "3m")))
    driver = TopologyTestDriver(builder.build())

    for minute in (0, 0, 1, 5):
        driver.pipe_input("in", "a", 1, timestamp_ms=minute * MINUTE)

    assert driver.get_key_value_store("counts").all() == [("a", 4)]
    assert driver.get_window_store("minutes").all() == [(("a", 5 * MINUTE, 6 * MINUTE), 1)]
    assert [key[1:] for key, _ in driver.get_session_store("visits").fetch("a")] == [(5 * MINUTE, 5 * MINUTE)]


KEY_VALUES = Stores.in_memory_key_value_store("s")
SESSIONS = Stores.in_memory_session_store("s", "1d")


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (
            lambda grouped: grouped.count(Materialized.as_(SESSIONS), name="here"),
            "here: expected the supplier of a key-value store, got that of a session store; "
            'name the store alone: Materialized.as_("store")',
        ),
        (
            lambda grouped: grouped.windowed_by(WINDOWS).count(Materialized.as_(KEY_VALUES), name="here"),
            "here: expected the supplier of a window store, got that of a key-value store; "
            'name the store alone: Materialized.as_("store")',
        ),
        (
            lambda grouped: grouped.windowed_by(WINDOWS).count(Materialized.as_(SESSIONS), name="here"),
            "here: expected the supplier of a window store, got that of a session store; "
            'name the store alone: Materialized.as_("store")',
        ),
        (
            lambda grouped: Materialized.as_(Stores.persistent_key_value_store("s")),
            "Materialized.as_: expected a supplier of a store that keeps times, got a persistent one that does not: "
            "Kafka gives every value the time -1; use Stores.persistent_timestamped_key_value_store(...)",
        ),
        (
            lambda grouped: Materialized.as_(Stores.persistent_window_store("s", "1d", "1h")),
            "Materialized.as_: expected a supplier of a store that keeps times, got a persistent one that does not: "
            "Kafka gives every value the time -1; use Stores.persistent_timestamped_window_store(...)",
        ),
        (
            lambda grouped: Materialized.as_(Stores.in_memory_window_store("s", "1d", "1h", retain_duplicates=True)),
            "Materialized.as_: expected one value of a key and window, got retained duplicates; "
            "leave retain_duplicates out",
        ),
        (
            lambda grouped: Materialized.as_(KEY_VALUES, retention="1d"),
            "Materialized.as_: expected a supplier alone, which says both, got store=None, retention='1d' "
            "beside it; leave them out",
        ),
    ],
)
def test_a_supplier_that_does_not_fit_is_refused(call, want):
    grouped = StreamsBuilder().stream("in", Consumed(STRING, LONG)).group_by_key()
    with pytest.raises(ReplayError, match=re.escape(want)):
        call(grouped)


def test_a_suppress_has_the_name_that_with_name_gives_it():
    builder = StreamsBuilder()
    table = builder.stream("in", Consumed(STRING, LONG)).group_by_key().windowed_by(WINDOWS).count()
    table.suppress(Suppressed.until_window_closes().with_name("final")).to_stream()

    assert "Processor: final (stores: [final-store])" in builder.build().describe()
