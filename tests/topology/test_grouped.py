"""Grouped streams: windows, emit strategies, and one aggregate of several streams."""

import pytest

from kstreams_replay.jobs.topology import (
    Materialized,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    UnlimitedWindows,
)
from kstreams_replay.state.errors import ConfigError
from tests.topology.streams import LONG, STRING, refused, stream


def grouped(builder: StreamsBuilder | None = None, topic: str = "in"):
    return stream(topic, builder).group_by_key()


def keep(key, value, aggregate):
    return aggregate


@pytest.mark.parametrize(
    ("windows", "kind", "retention_ms"),
    [
        (TimeWindows.of_size(10, grace=5), "time", 15),
        (SlidingWindows.of_time_difference(10, grace=5), "sliding", 25),
        (SessionWindows.with_inactivity_gap(10, grace=5), "session", 15),
        (UnlimitedWindows.of(3), "time", 2**63 - 1),
    ],
)
def test_windows_say_how_long_they_are_kept(windows, kind, retention_ms):
    made = grouped().windowed_by(windows).count()

    assert (made.shape.window, made.node.retention_ms, made.node.windows) == (kind, retention_ms, windows)


@pytest.mark.parametrize(("strategy", "emit"), [("on_window_update", "on_update"), ("on_window_close", "on_close")])
def test_results_are_emitted_when_they_change_or_when_they_are_final(strategy, emit):
    windows = grouped().windowed_by(SlidingWindows.of_time_difference(10))

    assert windows.emit_strategy(strategy).count().node.emit == emit
    assert windows.count().node.emit == "on_update"


def test_results_of_unlimited_windows_are_never_final():
    windows = grouped().windowed_by(UnlimitedWindows.of())

    assert refused(lambda: windows.emit_strategy("on_window_close"), ConfigError) == (
        'emit_strategy: expected windows that close, got unlimited windows; use "on_window_update"'
    )
    windows.emit_strategy("on_window_update").count()


def test_an_emit_strategy_is_one_of_two_and_of_windows():
    assert refused(lambda: grouped().emit_strategy("on_window_close")) == (
        "emit_strategy: expected a windowed stream, got no windows; use windowed_by() first"
    )
    windows = grouped().windowed_by(TimeWindows.of_size(10))
    assert refused(lambda: windows.emit_strategy("on_close"), ConfigError) == (
        "emit_strategy: expected 'on_window_update' or 'on_window_close', got 'on_close'; choose one"
    )


def test_a_stream_has_windows_of_one_kind():
    windows = grouped().windowed_by(UnlimitedWindows.of(3))

    assert refused(lambda: windows.windowed_by(TimeWindows.of_size(10))) == (
        "windowed_by: expected a stream without windows, got UnlimitedWindows(start_ms=3); "
        "begin again from the grouped stream"
    )


def test_the_shortest_retention_is_what_windows_live():
    windows = grouped().windowed_by(SlidingWindows.of_time_difference(10, grace=5))
    assert windows.count(Materialized(retention=25)).node.retention_ms == 25

    assert refused(lambda: windows.count(Materialized(retention=24), name="here"), ConfigError) == (
        "here retention: expected at least 25 ms (the windows and their grace), got 24 ms; give a longer retention"
    )


# --- one aggregate of several streams ------------------------------------------------------------------------------


def test_a_cogroup_has_an_aggregator_for_every_stream():
    builder = StreamsBuilder()

    def forget(key, value, aggregate):
        return None

    both = grouped(builder, "a").cogroup(keep).cogroup(grouped(builder, "b"), forget)
    made = both.windowed_by(TimeWindows.of_size(10, grace=5)).aggregate(str, returns=STRING)

    assert (made.shape.key, made.shape.value, made.shape.window) == (STRING, STRING, "time")
    assert made.node.aggregators == (keep, forget)
    assert made.node.inputs == ("KSTREAM-SOURCE-0000000000", "KSTREAM-SOURCE-0000000001")
    assert (made.node.retention_ms, made.node.is_persistent) == (15, True)


def test_a_cogroup_has_one_fingerprint_in_every_process():
    """
    Functions lie at other addresses in another process, which must continue with an increment that this one planned.
    """

    def fingerprint() -> str:
        def longer(key, value, total):
            return total + len(value)

        builder = StreamsBuilder()
        both = grouped(builder, "a").cogroup(longer).cogroup(grouped(builder, "b"), longer)
        both.aggregate(int, returns=Serde.long()).to("sums")
        alive.append(longer)
        return builder.build().fingerprint

    alive: list[object] = []
    assert fingerprint() == fingerprint()


def test_a_cogroup_of_sessions_merges():
    sessions = grouped().cogroup(keep).windowed_by(SessionWindows.with_inactivity_gap(10))

    assert sessions.aggregate(int, returns=LONG, merger=keep).node.merger is keep
    assert refused(lambda: sessions.aggregate(int, returns=LONG, name="here")) == (
        "here: expected a merger, since sessions merge, got none; give merger=(key, one, other) -> aggregate"
    )


def by_number(builder: StreamsBuilder):
    return stream("b", builder).group_by("value")


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (
            lambda g, b: g.cogroup(5),
            "cogroup: expected a callable of (key, value, aggregate), got 5; give a Python function",
        ),
        (
            lambda g, b: g.cogroup(keep).cogroup(grouped(b, "b").windowed_by(TimeWindows.of_size(5)), keep),
            "cogroup: expected a stream without windows, got a windowed one; use windowed_by() after it",
        ),
        (
            lambda g, b: g.cogroup(keep).cogroup(by_number(b), keep),
            "cogroup: expected keys of Serde.string() on both sides, got Serde.long(); select keys of one type",
        ),
        (
            lambda g, b: g.cogroup(keep).aggregate(lambda key: 0, returns=LONG, name="here"),
            "here: expected a callable of no parameters, got a lambda of (key); correct its parameters",
        ),
        (
            lambda g, b: g.cogroup(keep).windowed_by(5),
            "windowed_by: expected TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows, got 5; "
            'use for example TimeWindows.of_size("1h")',
        ),
        (
            lambda g, b: g.reduce(5, name="here"),
            "here: expected a callable of (aggregate, value), got 5; give a Python function",
        ),
        (
            lambda g, b: g.aggregate(initializer=int, aggregator=5, returns=Serde.long(), name="here"),
            "here: expected a callable of (key, value, aggregate), got 5; give a Python function",
        ),
    ],
)
def test_an_aggregate_that_cannot_work_is_refused(call, want):
    builder = StreamsBuilder()

    assert refused(lambda: call(grouped(builder, "a"), builder)) == want
