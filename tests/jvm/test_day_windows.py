"""Windows of days in a time zone count what a user's own Windows class counts on Kafka Streams itself. Tapes lie around
changes of summer time, days that a zone skipped, and times of day that clocks skip or show twice.
"""

import random
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kstreams_replay import Consumed, Materialized, Serde, StreamsBuilder, Suppressed, TimeWindows, TopologyTestDriver
from tests.jvm.streams import STREAMS, TEST_UTILS, compiled
from tests.sampling import seed

pytestmark = pytest.mark.jvm

HOUR_MS = 3_600_000
TEXT = Serde.string()
CHANGES = [
    ("Europe/Oslo", "2026-03-29"),
    ("Europe/Oslo", "2026-10-25"),
    ("America/New_York", "2025-11-02"),
    ("America/Sao_Paulo", "2018-11-04"),  # clocks skip midnight
    ("America/Sao_Paulo", "2018-02-18"),  # and go back to 23:00
    ("Australia/Lord_Howe", "2026-04-05"),  # by half an hour
    ("Pacific/Apia", "2011-12-30"),  # a day that never was
    ("Africa/Casablanca", "2024-03-10"),
    ("Asia/Kathmandu", "1970-01-01"),
]


def by_kafka(cases):
    asked = "\n".join(";".join(map(str, case)) for case in cases)
    with compiled(Path(__file__).with_name("DayWindows.java"), packages=(STREAMS, TEST_UTILS)) as command:
        said = subprocess.run(command, input=asked, capture_output=True, text=True, encoding="utf-8", check=False)
    assert said.returncode == 0, said.stderr
    answers = [[]]
    for line in said.stdout.splitlines():
        if line == "end":
            answers.append([])
        else:
            answers[-1].append(line)
    return answers[:-1]


def here(windows, store, records):
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key()
    counts = grouped.windowed_by(windows).count(Materialized.as_("counts", store=store))
    counts.to_stream().to("update")
    counts.suppress(Suppressed.until_window_closes()).to_stream().to("final")
    driver, found = TopologyTestDriver(builder.build()), []
    for key, time_ms in records:
        driver.pipe_input("in", key, "v", time_ms)
    for what in ("update", "final"):
        found += [
            f"{what} {one.key} {one.window[0]} {one.window[1]} {one.value} {one.timestamp_ms}"
            for one in driver.read_outputs(what)
        ]
    return [*found, f"dropped {len(driver.dropped)}"]


def compared(lines):
    """Updates, and then results, in the order of each; Kafka's program says them as they come. Of a result no end:
    suppress serializes the start of its window alone, and takes every window to be as long as ``size()``.
    """
    ordered = sorted(lines, key=lambda line: ("update", "final", "dropped").index(line.split()[0]))
    split = [line.split() for line in ordered]
    return [" ".join(words[:3] + words[4:] if words[0] == "final" else words) for words in split]


def case(generator, zone, day):
    around = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)
    half_hours = [around + generator.randrange(-80, 80) * HOUR_MS // 2 for _ in range(60)]
    times = [max(0, half_hour + generator.choice([-1, 0, 0, 1])) for half_hour in half_hours]
    if generator.random() < 0.7:
        times.sort()
        for _ in range(10):
            one, other = generator.randrange(60), generator.randrange(60)
            times[one], times[other] = times[other], times[one]
    records = [(generator.choice("ab"), time_ms) for time_ms in times]
    start_ms = generator.choice([0, 0, 18, 2, 23]) * HOUR_MS + generator.choice([0, HOUR_MS // 2])
    days = generator.choice([1, 1, 1, 2, 7])
    grace_ms = generator.choice([0, HOUR_MS, 30 * HOUR_MS])
    windows = TimeWindows.of_days(days, zone=zone, start=start_ms, grace=grace_ms)
    store = generator.choice(["rocksdb", "in_memory"])
    asked = zone, start_ms, days, grace_ms, windows.size_ms, store, " ".join(f"{key} {time}" for key, time in records)
    return asked, windows, "persistent" if store == "rocksdb" else store, records


def test_days_of_a_zone_are_those_of_a_windows_class_on_kafka_streams():
    generator = random.Random(seed())
    cases = [case(generator, *change) for change in CHANGES for _ in range(6)]
    want = by_kafka([asked for asked, *_ in cases])

    for (asked, *given), answer in zip(cases, want, strict=True):
        got, wanted = compared(here(*given)), compared(answer)

        assert got == wanted, asked
