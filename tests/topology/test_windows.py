"""Windows, suppress and stores check themselves when they are made, and name the bound that was crossed."""

from datetime import timedelta

import pytest

from kstreams_replay.jobs.topology import (
    BufferConfig,
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
)
from kstreams_replay.state.errors import ConfigError


def test_durations_are_milliseconds_or_text_or_a_timedelta():
    assert TimeWindows.of_size("1h 30m", grace="500ms") == TimeWindows(5_400_000, 5_400_000, 500)
    assert TimeWindows.of_size(timedelta(seconds=2)).advance_by("1s") == TimeWindows(2_000, 1_000, 0)
    assert SessionWindows.with_inactivity_gap("2d", grace=1) == SessionWindows(172_800_000, 1)


def test_a_window_waits_for_its_grace_and_a_session_for_its_gap_too():
    assert TimeWindows.of_size(10, grace=5).wait_ms == 5
    assert SessionWindows.with_inactivity_gap(10, grace=5).wait_ms == 15


def test_default_retention_is_size_or_gap_and_grace():
    assert Materialized().retention_ms(TimeWindows.of_size(10, grace=5), "count") == 15
    assert Materialized().retention_ms(SessionWindows.with_inactivity_gap(10, grace=5), "count") == 15


def test_the_smallest_values_are_taken():
    TimeWindows.of_size(1).advance_by(1)
    SessionWindows.with_inactivity_gap(0)
    Suppressed.until_window_closes(max_records=0, max_bytes=0)
    Materialized(retention=15).retention_ms(TimeWindows.of_size(10, grace=5), "count")
    SlidingWindows.of_time_difference(0)
    JoinWindows.of_time_difference_with_no_grace(5).before(-5)
    Materialized.versioned("store", 0, segment_interval=1)


def test_a_join_window_may_be_on_one_side():
    assert JoinWindows.of_time_difference_and_grace("5s", 1).before(-2_000) == JoinWindows(-2_000, 5_000, 1)
    assert JoinWindows.of_time_difference_with_no_grace(5).after(0) == JoinWindows(5, 0, 0)


def test_buffers_say_what_they_do_when_they_are_full():
    strict = BufferConfig(5, 7, "shut-down")

    assert BufferConfig.max_records(5).with_max_bytes(7) == BufferConfig(5, 7, "emit-early")
    assert BufferConfig.max_bytes(7).with_max_records(5).shut_down_when_full() == strict
    assert strict.emit_early_when_full() == BufferConfig(5, 7, "emit-early")
    assert strict.spill_to_disk_when_full() == BufferConfig(5, 7, "spill")
    assert strict.with_no_bound() == BufferConfig.unbounded() == BufferConfig(None, None, "shut-down")
    assert Suppressed.until_window_closes(max_records=5, max_bytes=7).buffer == strict
    assert Suppressed.until_time_limit(1, max_records=5).buffer == BufferConfig(5, None, "emit-early")
    assert Suppressed.until_time_limit(1, strict).buffer is strict
    assert Suppressed.until_window_closes().buffer == BufferConfig.unbounded()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TimeWindows.of_size(0), "TimeWindows size: expected more than 0 ms, got 0 ms; give a longer size"),
        (lambda: TimeWindows.of_size(-1), "TimeWindows size: expected more than 0 ms, got -1 ms; give a longer size"),
        (
            lambda: TimeWindows.of_size(10).advance_by(0),
            "TimeWindows advance: expected more than 0 ms and at most the size, 10 ms, got 0 ms; correct the advance",
        ),
        (
            lambda: TimeWindows.of_size(10).advance_by(11),
            "TimeWindows advance: expected more than 0 ms and at most the size, 10 ms, got 11 ms; correct the advance",
        ),
        (
            lambda: TimeWindows.of_size(10, grace=-1),
            "TimeWindows grace: expected 0 ms or more, got -1 ms; correct the duration",
        ),
        (
            lambda: SessionWindows.with_inactivity_gap(-1),
            "SessionWindows inactivity gap: expected 0 ms or more, got -1 ms; correct the duration",
        ),
        (
            lambda: SessionWindows.with_inactivity_gap(1, grace=-1),
            "SessionWindows grace: expected 0 ms or more, got -1 ms; correct the duration",
        ),
        (
            lambda: Suppressed.until_window_closes(max_records=-1),
            "Suppressed max_records: expected 0 or more, got -1; correct the limit",
        ),
        (
            lambda: Suppressed.until_window_closes(max_bytes=-1),
            "Suppressed max_bytes: expected 0 or more, got -1; correct the limit",
        ),
        (
            lambda: Suppressed.until_window_closes(BufferConfig.max_records(5)),
            "until_window_closes buffer: expected a strict buffer, got one that emits early; "
            "add shut_down_when_full() or spill_to_disk_when_full()",
        ),
        (
            lambda: Suppressed.until_time_limit(-1),
            "until_time_limit wait: expected 0 ms or more, got -1 ms; correct the duration",
        ),
        (
            lambda: Suppressed.until_time_limit(1, BufferConfig.unbounded(), max_bytes=5),
            "Suppressed: expected a buffer or its limits, got both; give one of them",
        ),
        (
            lambda: SlidingWindows.of_time_difference(-1),
            "SlidingWindows time difference: expected 0 ms or more, got -1 ms; correct the duration",
        ),
        (
            lambda: SlidingWindows.of_time_difference(1, grace=-1),
            "SlidingWindows grace: expected 0 ms or more, got -1 ms; correct the duration",
        ),
        (
            lambda: UnlimitedWindows.of(-1),
            "UnlimitedWindows start: expected 0 ms or more, got -1 ms; correct the duration",
        ),
        (
            lambda: JoinWindows.of_time_difference_with_no_grace(-1),
            "JoinWindows before + after: expected 0 ms or more, got -1 ms and -1 ms; correct one of them",
        ),
        (
            lambda: JoinWindows.of_time_difference_with_no_grace(5).before(-6),
            "JoinWindows before + after: expected 0 ms or more, got -6 ms and 5 ms; correct one of them",
        ),
        (
            lambda: JoinWindows.of_time_difference_with_no_grace(5).after(-6),
            "JoinWindows before + after: expected 0 ms or more, got 5 ms and -6 ms; correct one of them",
        ),
        (
            lambda: JoinWindows.of_time_difference_and_grace(5, -1),
            "JoinWindows grace: expected 0 ms or more, got -1 ms; correct the duration",
        ),
        (
            lambda: Materialized.versioned("store", -1),
            "Materialized history_retention: expected 0 ms or more, got -1 ms; correct it",
        ),
        (
            lambda: Materialized.versioned("store", 5, segment_interval=0),
            "Materialized segment_interval: expected 1 ms or more, got 0 ms; correct it",
        ),
        (
            lambda: Materialized(store="rocksdb"),
            'Materialized store: expected "persistent" or "in_memory", got \'rocksdb\'; choose one',
        ),
        (
            lambda: Materialized(retention=14).retention_ms(TimeWindows.of_size(10, grace=5), "count"),
            "count retention: expected at least 15 ms (the windows and their grace), got 14 ms; "
            "give a longer retention",
        ),
        (
            lambda: TimeWindows.of_size("soon"),
            'size: expected a duration such as "30s", "1h 30m" or "500ms", got \'soon\'; correct the text',
        ),
        (
            lambda: TimeWindows.of_size(""),
            "size: expected a duration such as \"30s\", got ''; give a number and a unit",
        ),
        (
            lambda: SessionWindows.with_inactivity_gap(1.5),  # type: ignore[arg-type]
            'gap: expected a duration, got 1.5; give milliseconds or text such as "30s"',
        ),
        (
            lambda: TimeWindows.of_size(10).advance_by(True),
            'advance: expected a duration, got True; give milliseconds or text such as "30s"',
        ),
        (
            lambda: TimeWindows.of_size(10, grace=timedelta(microseconds=5)),
            "grace: expected whole milliseconds, got datetime.timedelta(microseconds=5); round the timedelta",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_bound_and_the_next_step(make, message):
    with pytest.raises(ConfigError) as caught:
        make()

    assert str(caught.value) == message
