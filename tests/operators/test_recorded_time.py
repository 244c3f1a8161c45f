"""What each operator forwards when its stream time is moved on without a record, worked out by hand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kstreams_replay.jobs.functions.processor_api import Processor, PunctuationType
from kstreams_replay.jobs.operators.tables.table_views import build_view
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    KStream,
    Materialized,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from kstreams_replay.state.records.batches import Batch, Values
from kstreams_replay.state.records.keys import Keys

TEXT = Serde.string()
TEXTS = Consumed(TEXT, TEXT)
PAIR = "coalesce(left, '-') || '+' || coalesce(right, '-')"
TUMBLING = TimeWindows.of_size(10, grace=5)


class Driven:
    """A topology of the streams S and T with the output "out", driven by hand."""

    def __init__(self, build: Callable[[KStream, KStream], Any]) -> None:
        builder = StreamsBuilder()
        built = build(builder.stream("S", TEXTS), builder.stream("T", TEXTS))
        built.to("out")
        self.driver = TopologyTestDriver(builder.build())

    def pipe(self, *records: tuple, topic: str = "S") -> list[tuple]:
        """(key, time) or (key, time, value) of every record; what comes."""
        for key, time_ms, *value in records:
            self.driver.pipe_input(topic, key, value[0] if value else f"{key}{time_ms}", time_ms)
        return self.out()

    def advance(self, time_ms: int, topic: str = "S") -> list[tuple]:
        self.driver.advance_stream_time(topic, time_ms)
        return self.out()

    def out(self) -> list[tuple]:
        """(key, window or time, value) of every result that is new."""
        return [
            (out.key, out.timestamp_ms if out.window is None else out.window, out.value)
            for out in self.driver.read_outputs("out")
        ]


def counted(windows, *, emit: str = "on_window_update", **store) -> Callable[[KStream, KStream], Any]:
    def build(stream: KStream, _: KStream) -> Any:
        grouped = stream.group_by_key().windowed_by(windows).emit_strategy(emit)
        return grouped.count(Materialized(**store))

    return build


def suppressed(windows) -> Callable[[KStream, KStream], Any]:
    build = counted(windows)
    return lambda stream, other: build(stream, other).suppress(Suppressed.until_window_closes())


# --- suppress ------------------------------------------------------------------------------------------------


def test_a_suppressed_window_leaves_when_its_end_and_grace_are_reached():
    driven = Driven(suppressed(TUMBLING))
    driven.pipe(("b", 3), ("a", 4), ("a", 12))

    assert driven.advance(14) == []
    assert driven.advance(15) == [("a", (0, 10), 1), ("b", (0, 10), 1)]
    assert driven.advance(24) == []
    assert driven.advance(1_000) == [("a", (10, 20), 1)]
    assert driven.advance(2_000) == []


def test_a_suppressed_session_leaves_when_its_end_gap_and_grace_are_reached():
    driven = Driven(suppressed(SessionWindows.with_inactivity_gap(10, grace=5)))
    driven.pipe(("a", 3), ("a", 8))

    assert driven.advance(22) == []
    assert driven.advance(23) == [("a", (3, 8), 2)]


@pytest.mark.parametrize("limits", [{}, {"max_records": 9}])
def test_a_change_leaves_when_its_time_limit_is_reached(limits):
    driven = Driven(lambda s, _: s.to_table().suppress(Suppressed.until_time_limit(10, **limits)))
    driven.pipe(("a", 3), ("b", 4), ("a", 5))

    assert driven.advance(12) == []
    assert driven.advance(13) == [("a", 5, "a5")]
    assert driven.advance(14) == [("b", 4, "b4")]


def test_what_a_suppress_holds_back_is_not_late_below_it():
    """Windows of 10 (grace 5), then of 20 (none): at 24 the first [10, 20) is still open, so [0, 20) must be too."""

    def build(stream: KStream, _: KStream) -> Any:
        first = suppressed(TUMBLING)(stream, _).to_stream()
        grouped = first.group_by("record_key", returns=TEXT, name="again")
        return grouped.windowed_by(TimeWindows.of_size(20)).count().suppress(Suppressed.until_window_closes())

    driven = Driven(build)
    driven.pipe(("a", 3), ("a", 14))

    assert driven.advance(24) == []  # [0, 10) went into [0, 20)
    assert driven.advance(25) == [("a", (0, 20), 2)]
    assert driven.driver.dropped == []


# --- windows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("windows", "times", "closes"),
    [
        (TUMBLING, [3], {15: [("a", (0, 10), 1)]}),
        (TUMBLING.advance_by(5), [7], {15: [("a", (0, 10), 1)], 20: [("a", (5, 15), 1)]}),
        (SlidingWindows.of_time_difference(10, grace=5), [20], {26: [("a", (10, 20), 1)]}),
        (SessionWindows.with_inactivity_gap(10, grace=5), [3, 8], {24: [("a", (3, 8), 2)]}),
    ],
    ids=["tumbling", "hopping", "sliding", "session"],
)
@pytest.mark.parametrize("store", ["persistent", "in_memory"])
def test_a_window_that_emits_on_close_does_when_its_end_and_grace_are_passed(windows, times, closes, store):
    driven = Driven(counted(windows, emit="on_window_close", store=store))
    driven.pipe(*(("a", time_ms) for time_ms in times))

    got = {time_ms: results for time_ms in range(30) if (results := driven.advance(time_ms))}

    assert got == closes


def test_a_jump_loses_no_window_since_nothing_is_put_into_the_store():
    driven = Driven(counted(TUMBLING, emit="on_window_close", retention=20))
    driven.pipe(("a", 3))

    assert driven.advance(1_000_000) == [("a", (0, 10), 1)]


def test_results_of_one_moment_come_in_the_order_of_windows_and_keys():
    driven = Driven(counted(TUMBLING, emit="on_window_close"))
    driven.pipe(("b", 3), ("a", 14), ("a", 4))

    assert driven.advance(100) == [("a", (0, 10), 1), ("b", (0, 10), 1), ("a", (10, 20), 1)]


def test_a_python_aggregate_emits_on_close_too():
    def build(stream: KStream, _: KStream) -> Any:
        grouped = stream.group_by_key().windowed_by(TUMBLING).emit_strategy("on_window_close")
        return grouped.aggregate(initializer=lambda: "", aggregator=lambda key, value, text: text + value, returns=TEXT)

    driven = Driven(build)
    driven.pipe(("a", 3), ("a", 7))

    assert driven.advance(15) == [("a", (0, 10), "a3a7")]


def test_a_record_is_late_for_windows_that_a_recorded_time_has_closed():
    driven = Driven(counted(TUMBLING))

    assert driven.advance(14) == []
    assert driven.pipe(("a", 9)) == [("a", (0, 10), 1)]
    assert driven.advance(15) == []
    assert driven.pipe(("a", 9)) == []
    (late,) = driven.driver.dropped
    assert (late.reason, late.stream_time_ms, late.limit_ms) == ("expired-window", 15, 10)


def test_stream_time_does_not_go_back():
    driven = Driven(suppressed(TUMBLING))
    driven.pipe(("a", 20))

    driven.advance(3)

    assert driven.pipe(("a", 4)) == []
    assert [late.stream_time_ms for late in driven.driver.dropped] == [20]


# --- joins, order, identities ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [("join", [], []), ("left_join", [("a", 3, "a3+-")], []), ("outer_join", [("a", 3, "a3+-")], [("b", 4, "-+b4")])],
)
def test_records_without_a_match_leave_an_outer_join_when_their_windows_have_closed(kind, left, right):
    windows = JoinWindows.of_time_difference_and_grace(10, 5)
    driven = Driven(lambda s, t: getattr(s, kind)(t, PAIR, windows))
    driven.pipe(("a", 3))
    driven.pipe(("b", 4), topic="T")

    driven.advance(50, "T")  # S has reached 3 only

    assert driven.advance(18) == []
    assert driven.advance(19) == left
    assert driven.advance(20) == right


def test_a_join_waits_for_both_streams_and_what_stands_below_one_does_not():
    windows = JoinWindows.of_time_difference_and_grace(10, 5)
    driven = Driven(lambda s, t: s.left_join(t, PAIR, windows).merge(s.reorder_within(8).map_values("value || '!'")))
    driven.pipe(("a", 3))
    driven.pipe(("b", 4), topic="T")

    assert driven.advance(30) == [("a", 3, "a3!")]
    assert driven.advance(30, "T") == [("a", 3, "a3+-")]


def test_reordered_records_leave_by_time_when_the_grace_has_passed():
    driven = Driven(lambda s, _: s.reorder_within(10))
    driven.pipe(("a", 5), ("b", 3), ("c", 4))

    assert driven.advance(12) == []
    assert driven.advance(14) == [("b", 3, "b3"), ("c", 4, "c4")]
    assert driven.pipe(("d", 3)) == []
    assert [(late.reason, late.limit_ms) for late in driven.driver.dropped] == [("late", 4)]


def test_a_join_with_a_grace_looks_up_what_is_known_when_the_grace_has_passed():
    builder = StreamsBuilder()
    table = builder.table("T", TEXTS, materialized=Materialized.versioned("t", 100))
    builder.stream("S", TEXTS).join(table, PAIR, grace=10).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("S", "a", "s", 5)
    driver.pipe_input("T", "a", "later", 6)
    driver.pipe_input("T", "a", "then", 4)

    for topic, time_ms in (("T", 100), ("S", 14)):
        driver.advance_stream_time(topic, time_ms)
    assert driver.read_outputs("out") == []
    driver.advance_stream_time("S", 15)
    assert [(out.key, out.value, out.timestamp_ms) for out in driver.read_outputs("out")] == [("a", "s+then", 5)]


def test_an_identity_is_forgotten_when_its_interval_has_passed():
    driven = Driven(lambda s, _: s.deduplicate_by_key(10))

    assert driven.pipe(("a", 5), ("a", 6)) == [("a", 5, "a5")]
    driven.advance(15)
    assert driven.pipe(("a", 14)) == []  # 5 is 10 before 15
    driven.advance(16)
    assert driven.pipe(("a", 14)) == [("a", 14, "a14")]


def test_windows_of_distinct_records_close_too():
    driven = Driven(lambda s, _: s.group_by_key().windowed_by(TUMBLING).distinct())

    driven.advance(15)

    assert driven.pipe(("a", 9), ("a", 10)) == [("a", (10, 20), "a10")]


# --- processors ------------------------------------------------------------------------------------------------


class Ticking(Processor):
    """Says at every multiple of 10 what time it is, and where the record is from."""

    def init(self, context) -> None:
        self.context = context
        context.schedule(10, PunctuationType.STREAM_TIME, self.tick)

    def process(self, record) -> None:
        pass

    def tick(self, now_ms: int) -> None:
        self.context.forward("tick", f"{now_ms} {self.context.record_metadata}")


def test_schedules_are_due_once_and_see_no_record():
    driven = Driven(lambda s, _: s.process(Ticking).merge(s.reorder_within(5)))
    driven.pipe(("a", 7))

    assert driven.advance(9) == []
    assert driven.advance(47) == [("a", 7, "a7"), ("tick", 47, "47 None")]  # schedules come last
    assert driven.advance(49) == []
    assert driven.advance(50) == [("tick", 50, "50 None")]


# --- order -----------------------------------------------------------------------------------------------------


def test_what_one_node_forwards_goes_through_all_below_before_the_next_is_advanced():
    """Of two branches that merge again, all of the first comes before all of the second."""

    def build(stream: KStream, other: KStream) -> Any:
        first = stream.reorder_within(5)
        return first.map_values("value || '1'").merge(stream.reorder_within(1).map_values("value || '2'"))

    driven = Driven(build)
    driven.pipe(("a", 3), ("b", 3))

    assert driven.advance(100) == [("a", 3, "a31"), ("b", 3, "b31"), ("a", 3, "a32"), ("b", 3, "b32")]


def test_a_recorded_time_is_no_record():
    driven = Driven(suppressed(TUMBLING))
    driven.pipe(("a", 3))
    driven.driver.advance_stream_time("S", 15)
    driven.pipe(("a", 14))
    driven.driver.advance_stream_time("S", 40)

    arrivals = [out.arrival for out in driven.driver.read_outputs("out")]

    assert arrivals == [3]
    assert driven.driver.metrics()["record-lateness-max"] == 0


# --- views -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reached_ms", "is_held"), [(24, True), (25, False)])
def test_a_view_of_a_suppressed_table_forgets_what_left_in_silence_because_of_a_moment(reached_ms, is_held):
    """The entry of window [10, 20), grace 5, replaced the value 7."""
    builder = StreamsBuilder()
    counts = builder.stream("S", TEXTS).group_by_key().windowed_by(TUMBLING).count(Materialized.as_("counts"))
    counts.suppress(Suppressed.until_window_closes(name="final")).to("out")
    keys = Keys(TEXT)
    view = build_view(builder.build().graph, "final", keys)
    row = {"key": ["a"], "window_start_ms": [10], "window_end_ms": [20], "prior": [7], "record_time_ms": [12]}
    view.resume({"final": pa.table(row)})
    nobody = replace(_asking(keys, 1).take(np.zeros(0, np.int64)), value=Values(pa.array([], pa.int64())))
    nobody = replace(nobody, old=nobody.value, old_valid=nobody.valid)
    seen = dict.fromkeys(view.wants, nobody)

    view.feed(seen)
    view.advance({"final": reached_ms})
    view.settle()
    view.feed(seen)
    found = view.get(_asking(keys, 1), keys.intern(pa.array([b"a"])))

    assert (found.value.to_pylist(), found.valid.tolist()) == (([7], [True]) if is_held else ([None], [False]))


def _asking(keys: Keys, n: int) -> Batch:
    """Rows that ask for the window [10, 20) of "a"."""
    return Batch(
        cause=np.zeros(n, np.int32),
        key=keys.intern(pa.array([b"a"] * n, pa.binary())),
        keys=keys,
        time_ms=np.full(n, 30),
        valid=np.ones(n, np.bool_),
        value=Values(pa.array(["x"] * n)),
        window_start_ms=np.full(n, 10),
        window_end_ms=np.full(n, 20),
    )
