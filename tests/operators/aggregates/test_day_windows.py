"""Windows of days in a time zone over its changes of summer time, and windows of a user's own class."""

from datetime import UTC, datetime, time

import numpy as np
import pytest

from kstreams_replay import (
    Consumed,
    LocalRunner,
    Materialized,
    Serde,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyTestDriver,
    replay,
)
from kstreams_replay.expectations.verdicts import check_increment
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.errors import ConfigError, TaskFailed, TopologyError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

TEXT = Serde.string()
OSLO = TimeWindows.of_days(zone="Europe/Oslo", start="18:00", grace="1h")


def counted(windows, *, final=False):
    builder = StreamsBuilder()
    counts = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key().windowed_by(windows).count()
    (counts.suppress(Suppressed.until_window_closes()) if final else counts).to_stream().to("out")
    return builder.build()


def utc(time_ms):
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%m-%dT%H:%M")


def played(windows, *times, final=False):
    driver = TopologyTestDriver(counted(windows, final=final))
    for at in times:
        driver.pipe_input("in", "k", "v", at)
    outputs = driver.read_outputs("out")
    return [(utc(one.window[0]), utc(one.window[1]), one.value) for one in outputs], len(driver.dropped)


def test_the_day_on_which_clocks_are_put_forward_has_23_hours():
    got = played(
        OSLO,
        "2026-03-28T16:59:59.999Z",  # 17:59:59.999 in Oslo
        "2026-03-28T17:00:00Z",  # 18:00
        "2026-03-29T15:59:59.999Z",  # 17:59:59.999 of summer time
        "2026-03-29T16:00:00Z",
    )

    day = ("03-28T17:00", "03-29T16:00")
    assert got == (
        [("03-27T17:00", "03-28T17:00", 1), (*day, 1), (*day, 2), ("03-29T16:00", "03-30T16:00", 1)],
        0,
    )


def test_the_day_on_which_clocks_are_put_back_has_25_hours():
    got = played(OSLO, "2026-10-24T16:00:00Z", "2026-10-25T16:59:59.999Z", "2026-10-25T17:00:00Z")

    day = ("10-24T16:00", "10-25T17:00")
    assert got == ([(*day, 1), (*day, 2), ("10-25T17:00", "10-26T17:00", 1)], 0)


def test_a_day_takes_records_and_is_held_back_until_its_end_and_grace_have_passed():
    late = "2026-10-24T20:00:00Z"  # of the day that ends at 17:00Z
    before, after = "2026-10-25T17:59:59.999Z", "2026-10-25T18:00:00Z"

    assert played(OSLO, late, before, late, final=True) == ([], 0)
    assert played(OSLO, late, before, late, after, late, final=True) == ([("10-24T16:00", "10-25T17:00", 2)], 1)


def test_a_store_keeps_the_longest_day_and_the_grace():
    assert (OSLO.size_ms, OSLO.retention_ms) == (25 * 3_600_000, 26 * 3_600_000)
    assert TimeWindows.of_days(zone="Asia/Tokyo").size_ms == 24 * 3_600_000
    assert TimeWindows.of_days(zone="Antarctica/Troll").size_ms == 26 * 3_600_000


def test_weeks_begin_on_monday_and_the_first_window_at_0():
    weeks = TimeWindows.of_days(7, zone="Europe/Oslo")

    assert played(weeks, "2026-03-29T21:59:59Z", "2026-03-29T22:00:00Z", 0)[0] == [
        ("03-22T23:00", "03-29T22:00", 1),
        ("03-29T22:00", "04-05T22:00", 1),
    ]
    starts, ends = weeks.listing().bounds_at(np.array([0]))
    assert (starts.tolist(), ends.tolist()) == ([0], [342_000_000])  # 1970-01-04T23:00Z, a Sunday


def test_after_the_year_9000_days_are_as_400_years_before():
    cycle_ms = 146_097 * 86_400_000
    now = np.array([1_774_742_400_000 + hours * 3_600_000 for hours in range(48)])
    starts, ends = OSLO.listing().bounds_at(now)
    later_starts, later_ends = OSLO.listing().bounds_at(now + 50 * cycle_ms)

    assert (later_starts - 50 * cycle_ms).tolist() == starts.tolist()
    assert (later_ends - 50 * cycle_ms).tolist() == ends.tolist()


@pytest.mark.parametrize(("start", "shown"), [("06:30", 23_400_000), (time(6, 30), 23_400_000), ("6h 30m", 23_400_000)])
def test_a_start_is_a_time_of_day(start, shown):
    assert TimeWindows.of_days(zone="UTC", start=start).start_ms == shown


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"zone": "Europe/Osl"},
            "of the tz database, such as 'Europe/Oslo', got 'Europe/Osl'; did you mean",
        ),
        ({"zone": "UTC", "start": "25:00"}, "expected a time of day, got '25:00'"),
        ({"zone": "UTC", "start": "24h"}, "expected a time of day, 00:00 to 23:59:59.999, got 86400000 ms"),
        ({"zone": "UTC", "grace": -1}, "expected 0 ms or more, got -1 ms"),
        ({"zone": "UTC", "days": 0}, "expected 1 or more, got 0"),
    ],
)
def test_what_are_no_days_is_refused(options, why):
    with pytest.raises(ConfigError) as caught:
        TimeWindows.of_days(**options)

    assert why in str(caught.value)


def test_days_are_not_emitted_on_window_close_by_one_length():
    stream = StreamsBuilder().stream("in", Consumed(TEXT, TEXT)).group_by_key().windowed_by(OSLO)

    with pytest.raises(ConfigError, match=r"use suppress\(.*\), which goes by their ends"):
        stream.emit_strategy("on_window_close")


class Sevens:
    """A window of 10 ms from every 7 ms on, and one of all up to 1000, as Kafka's Windows has them."""

    def windows_for(self, timestamp_ms):
        start = timestamp_ms // 7 * 7
        return {start: start + 10, 1: 1000}

    def size(self):
        return 1000

    def grace_period_ms(self):
        return 5


HERE = [("a", 8), ("a", 16), (None, 9), ("b", 30), ("a", 12), ("a", 25), ("b", 3), ("a", 2_000), ("a", 21)]


@pytest.mark.parametrize("max_records", [None, 1])
@pytest.mark.parametrize("store", ["persistent", "in_memory"])
def test_windows_of_ones_own_class_take_records_until_they_close(tmp_path, max_records, store):
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key().windowed_by(Sevens())
    grouped.count(Materialized.as_("n", store=store)).to_stream().to("out")
    rows, dropped = replayed(tmp_path, builder.build(), HERE, max_records)

    assert rows == [
        ("a", 7, 17, 1), ("a", 1, 1000, 1),
        ("a", 14, 24, 1), ("a", 1, 1000, 2),
        ("b", 28, 38, 1), ("b", 1, 1000, 1),
        ("a", 1, 1000, 3),  # [7, 17) closed at 22
        ("a", 21, 31, 1), ("a", 1, 1000, 4),
        ("b", 1, 1000, 2),
        ("a", 1995, 2005, 1),
    ]  # fmt: skip
    assert sorted(dropped) == [
        ("expired-window", 0, 10), ("expired-window", 1, 1000), ("expired-window", 1, 1000),
        ("expired-window", 7, 17), ("expired-window", 21, 31), ("null-key", None, None),
    ]  # fmt: skip


def replayed(folder, topology, records, max_records=None):
    """Rows of the output, and what was dropped with its window; every guarantee holds."""
    warehouse, options = Warehouse(folder), {} if max_records is None else {"max_records": max_records}
    planted = [LandedRecord(0, key and key.encode(), b"v", time_ms) for key, time_ms in records]
    plant(warehouse, "in", planted, partitions=1)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed", **options))
    verdicts = check_increment(warehouse, "p", replay_facts(topology), engine="plain")
    assert [each for each in verdicts if each.answer == "false" and each.severity != "warning"] == []
    assert [each.answer for each in verdicts if each.guarantee == "G4"]
    rows = read_table(warehouse, "p", "outputs/out").to_pylist()
    dropped = read_table(warehouse, "p", "dropped").to_pylist()
    return (
        [(row["key"], row["window_start_ms"], row["window_end_ms"], row["value"]) for row in rows],
        [(row["reason"], row["window_start_ms"], row["window_end_ms"]) for row in dropped],
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda time_ms: [(0, 10)], r"expected a mapping of starts to ends in ms, got \[\(0, 10\)\] on time 8"),
        (
            lambda time_ms: {5: 5},
            "expected a start of 0 ms or more before its end, as ints of 64 bits, got 5 and 5 on time 8",
        ),
        (lambda time_ms: {0: time_ms + 1}, "expected one end for every start, got 9 and 17 of 0"),
        (lambda time_ms: 1 // 0, "expected the windows of a time, got ZeroDivisionError"),
    ],
)
def test_windows_that_are_none_end_the_run(answer, why):
    windows = Sevens()
    windows.windows_for = answer

    with pytest.raises(TaskFailed, match=f"Sevens.windows_for: {why}"):
        played(windows, 8, 16)


async def awaited(self, timestamp_ms=0):
    return {}


def yielding(self, timestamp_ms=0):
    yield 0, 10


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("call", ["windows_for", "size", "grace_period_ms"])
@pytest.mark.parametrize(
    ("method", "why"),
    [
        (awaited, "expected a function that runs when it is called, got async def awaited; nobody awaits it here"),
        (yielding, "expected a function that runs when it is called, got yielding, which yields; .*: return (a )?m"),
        (lambda self, one, other: {}, "expected a callable of "),
    ],
    ids=["async", "yields", "parameters"],
)
def test_methods_of_windows_that_cannot_be_called_are_refused_when_the_topology_is_built(call, method, why):
    given = type("Eights", (Sevens,), {call: method})()

    with pytest.raises(TopologyError, match=f"^Eights.{call}: {why}"):
        StreamsBuilder().stream("in", Consumed(TEXT, TEXT)).group_by_key().windowed_by(given)


def test_what_are_no_windows_is_told_what_to_write():
    with pytest.raises(TopologyError, match="of days in a time zone, or an object with windows_for"):
        StreamsBuilder().stream("in", Consumed(TEXT, TEXT)).group_by_key().windowed_by(object())


@pytest.mark.parametrize("max_records", [None, 1])
def test_days_cut_anywhere_are_the_same_and_hold_the_guarantees(tmp_path, max_records):
    hour, midnight = 3_600_000, 1_774_656_000_000  # 2026-03-28T00:00Z
    records = [("k", midnight + at * hour) for at in (16, 17, 39, 40, 20)]
    rows, dropped = replayed(tmp_path, counted(OSLO), records, max_records)
    days = [midnight - 7 * hour, midnight + 17 * hour, midnight + 40 * hour, midnight + 64 * hour]

    assert rows == [
        ("k", days[0], days[1], 1),
        ("k", days[1], days[2], 1),
        ("k", days[1], days[2], 2),
        ("k", days[2], days[3], 1),
        ("k", days[1], days[2], 3),
    ]
    assert dropped == []


def test_the_first_record_of_each_day_is_distinct():
    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).group_by_key().windowed_by(OSLO).distinct().to("out")
    driver = TopologyTestDriver(builder.build())
    for at in ("2026-03-28T17:00:00Z", "2026-03-29T15:59:59Z", "2026-03-29T16:00:00Z"):
        driver.pipe_input("in", "k", at, at)

    assert [one.value for one in driver.read_outputs("out")] == ["2026-03-28T17:00:00Z", "2026-03-29T16:00:00Z"]
