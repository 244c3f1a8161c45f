"""``StreamsBuilder(semantics="kip")``: final results once and complete, where a KIP promises more than Kafka keeps."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    KStream,
    Materialized,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.state.errors import ConfigError
from tests.sampling import examples

TEXT = Consumed(Serde.string(), Serde.string())
LATER = 1_000_000
WINDOWS = {
    "session": lambda grace: SessionWindows.with_inactivity_gap(3, grace=grace),
    "sliding": lambda grace: SlidingWindows.of_time_difference(3, grace=grace),
    "tumbling": lambda grace: TimeWindows.of_size(4, grace=grace),
    "hopping": lambda grace: TimeWindows.of_size(4, grace=grace).advance_by(2),
}


def counts(windows: Any, how: str, store: Materialized, semantics: str = "kip") -> Topology:
    """Final counts by "suppress" or "on_close", or all "updates"."""
    builder = StreamsBuilder(semantics=semantics)
    grouped = builder.stream("in", TEXT).group_by_key().windowed_by(windows)
    if how == "on_close":
        grouped = grouped.emit_strategy("on_window_close")
    table = grouped.count(materialized=store)
    if how == "suppress":
        table = table.suppress(Suppressed.until_window_closes())
    table.to("out")
    return builder.build()


def played(topology: Topology, tape: list[tuple[str, int]]) -> list[tuple[str, tuple[int, int], int | None]]:
    driver = TopologyTestDriver(topology)
    for key, time in [*tape, ("end", LATER)]:
        driver.pipe_input("in", key, "v", timestamp_ms=time)
    return [(record.key, record.window, record.value) for record in driver.read_outputs("out") if record.key != "end"]


TAPES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=14)
STORES = st.builds(
    lambda kind, retention: Materialized(store=kind, retention=retention),
    st.sampled_from(["persistent", "in_memory"]),
    st.sampled_from([None, 50, 500]),
)


@settings(max_examples=examples(40), deadline=None)
@given(tape=TAPES, grace=st.integers(0, 4), store=STORES)
@pytest.mark.parametrize("kind", WINDOWS)
def test_a_final_result_comes_once_and_is_the_last_update_whoever_emits_it(kind, tape, grace, store):
    """
    Two operators that have nothing in common, suppress and emit on close, give the same final results; and these are
    what the updates leave behind.
    """
    windows = WINDOWS[kind](grace)
    left_behind = {(key, window): value for key, window, value in played(counts(windows, "updates", store), tape)}
    want = sorted((key, window, value) for (key, window), value in left_behind.items() if value is not None)

    for how in ("suppress", "on_close"):
        got = played(counts(windows, how, store), tape)

        assert sorted(got) == want, how


@settings(max_examples=examples(40), deadline=None)
@given(tape=TAPES, grace=st.integers(0, 4), stores=st.tuples(STORES, STORES))
@pytest.mark.parametrize("how", ["suppress", "on_close", "updates"])
def test_what_sessions_there_are_does_not_depend_on_the_store(how, tape, grace, stores):
    got, want = (played(counts(WINDOWS["session"](grace), how, store), tape) for store in stores)

    assert Counter(got) == Counter(want)


def test_no_record_is_in_two_final_results_of_sessions():
    """
    A store that remembers closed sessions does not let an open one take them in.
    """
    tape = [("a", 0), ("a", 5), ("a", 3), ("a", 2)]  # 3 is between [0, 0], closed, and [5, 5]; 2 is near enough to 0
    store = Materialized(retention=500)

    assert played(counts(WINDOWS["session"](0), "suppress", store), tape) == [("a", (0, 0), 1), ("a", (2, 5), 3)]
    assert played(counts(WINDOWS["session"](0), "suppress", store, "kafka"), tape) == [
        ("a", (0, 0), 1),
        ("a", (0, 5), 4),
    ]


# --- cogroup -------------------------------------------------------------------------------------------------


def cogrouped(semantics: str) -> list[Any]:
    """What a window counts when one of its two inputs is behind."""
    builder = StreamsBuilder(semantics=semantics)
    one, other = (builder.stream(topic, TEXT).group_by_key() for topic in ("one", "other"))
    both = one.cogroup(lambda key, value, so_far: so_far + 1).cogroup(other, lambda key, value, so_far: so_far + 1)
    table = both.windowed_by(TimeWindows.of_size(10)).aggregate(
        lambda: 0, returns=Serde.long(), materialized=Materialized(retention=100)
    )
    table.suppress(Suppressed.until_window_closes()).to("out")
    driver = TopologyTestDriver(builder.build())
    for topic, time in [("one", 1), ("one", 10), ("other", 2), ("other", 11), ("one", 20)]:
        driver.pipe_input(topic, "k", "v", timestamp_ms=time)
    return [(record.window, record.value) for record in driver.read_outputs("out")]


def test_an_input_of_a_cogroup_that_is_behind_does_not_open_closed_windows():
    assert cogrouped("kafka") == [((0, 10), 1), ((0, 10), 2), ((10, 20), 2)]
    assert cogrouped("kip") == [((0, 10), 1), ((10, 20), 2)]


# --- deduplicate ---------------------------------------------------------------------------------------------

DEDUPLICATIONS = {
    "by key": lambda stream: stream.deduplicate_by_key(10),
    "by a new key": lambda stream: stream.select_key("value").deduplicate_by_key(10),
    "by key and value": lambda stream: stream.deduplicate_by_key_value("value", 10),
    "by id": lambda stream: stream.deduplicate("value", 10),
}


def unique(deduplicate: Any, semantics: str) -> list[Any]:
    builder = StreamsBuilder(semantics=semantics)
    twice: KStream = builder.stream("in", TEXT).flat_map_values(lambda key, value: [value] * 2, returns=Serde.string())
    deduplicate(twice).to("out")
    driver = TopologyTestDriver(builder.build())
    for time in (0, 1, 12):
        driver.pipe_input("in", "k", "x", timestamp_ms=time)
    return [(record.value, record.timestamp_ms) for record in driver.read_outputs("out")]


@pytest.mark.parametrize("how", DEDUPLICATIONS)
def test_what_one_record_causes_twice_is_forwarded_once(how):
    assert unique(DEDUPLICATIONS[how], "kafka") == [("x", 0), ("x", 0), ("x", 12), ("x", 12)]
    assert unique(DEDUPLICATIONS[how], "kip") == [("x", 0), ("x", 12)]


# --- the switch ----------------------------------------------------------------------------------------------


def test_the_semantics_are_kafkas_unless_asked_for_and_checked():
    with pytest.raises(ConfigError, match="StreamsBuilder semantics: expected 'kafka' or 'kip', got 'jvm'"):
        StreamsBuilder(semantics="jvm")

    store = Materialized()
    windows = WINDOWS["tumbling"](0)
    default = StreamsBuilder()
    default.stream("in", TEXT).group_by_key().windowed_by(windows).count(materialized=store).to("out")

    assert default.build().fingerprint == counts(windows, "updates", store, "kafka").fingerprint


def test_they_are_part_of_the_fingerprint_even_where_nothing_differs():
    fingerprints = set()
    for semantics in ("kafka", "kip"):
        builder = StreamsBuilder(semantics=semantics)
        builder.stream("in", TEXT).to("out")
        fingerprints.add(builder.build().fingerprint)

    assert len(fingerprints) == 2
