"""Record times at both ends of 64 bits, through every operator: none overflows, and one too late is a dead letter."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kstreams_replay import PunctuationType, TopologyTestDriver
from kstreams_replay.expectations.verdicts import check_increment, is_in_order
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.functions.timestamp_extractors import UsePartitionTimeOnInvalidTimestamp
from kstreams_replay.jobs.history.committed_tables import read_changelog, read_table
from kstreams_replay.jobs.landing.recorded_time import record_time
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    JoinWindows,
    Serde,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    UnlimitedWindows,
)
from kstreams_replay.orchestration.cli.every_operator import topology
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.errors import ConfigError, TaskFailed
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.operators.other_operators import DO_NOT_SHIFT, other_operators, sized
from tests.operators.times_at_both_ends import (
    EARLY,
    ENDS,
    LAST,
    LAST_OFFSET,
    LATE,
    SIZES,
    TOO_LATE,
    in_order,
    played,
    shifted,
    tape,
    within_a_day,
)
from tests.planted import LandedRecord, plant

LONG_MAX = 2**63 - 1
ROOT = Path(__file__).parents[2]
BOUND = "at most 2 ** 53 - 1 ms"


# --- every operator ----------------------------------------------------------------------------------------------


EVERY = pytest.mark.parametrize("made", [topology, other_operators], ids=["every_operator", "other_operators"])


@pytest.mark.parametrize("seed", range(4))
@EVERY
def test_every_operator_says_at_the_end_of_time_what_it_says_before_it(made, seed):
    """The same tape 285,000 years later: all results are as much later, and the same records are refused."""
    times = within_a_day(seed)
    early = played(tape(seed, [EARLY + time for time in times]), made())
    late = played(tape(seed, [LATE + time for time in times]), made(), first_offset=LAST_OFFSET - 60)
    for each in (early, late):
        each["outputs"] = {topic: rows for topic, rows in each["outputs"].items() if topic not in DO_NOT_SHIFT}

    assert late == early | {"outputs": shifted(early["outputs"], LATE - EARLY)}
    assert sum(map(len, early["outputs"].values())) > 100


@pytest.mark.parametrize("seed", range(4))
@EVERY
def test_a_record_that_is_too_late_for_any_window_changes_nothing_and_is_named(made, seed):
    records = tape(seed, (*ENDS, *TOO_LATE))
    without = played([record for record in records if record.time_ms <= LAST], made())

    got = played(records, made())

    named = [record for record in records if record.time_ms > LAST]
    assert (got["outputs"], got["dropped"]) == (without["outputs"], without["dropped"])
    assert (len(got["dead"]), without["dead"]) == (len(named), [])
    assert {reason for _, _, reason in got["dead"]} == {
        f"time: expected {BOUND}, got {record.time_ms} ms" for record in named
    }
    assert_in_bounds(got["outputs"])


@pytest.mark.parametrize("size_ms", SIZES)
def test_sizes_at_both_ends_take_times_at_both_ends(size_ms):
    records = tape(0, ENDS)
    for given in (records, in_order(records)):
        got = played(given, sized(size_ms), first_offset=LAST_OFFSET - 60)

        assert got["dead"] == []
        assert_in_bounds(got["outputs"])
        rows = {name: len(rows) for name, rows in got["outputs"].items()}
        assert all(rows[name] for name in ("times", "hops", "sessions", "slides", "either", "left", "once", "marks"))
    if size_ms == 1:  # what is in order closes, but for the last
        assert all(rows[name] for name in ("times-final", "hops-final", "slides-final", "sessions-final", "ordered"))
    if size_ms == LAST:  # one session of each key has them all
        counts = Counter(record.key for record in records if record.topic == "payments")
        merged = [(key, count) for key, count, *_ in got["outputs"]["sessions"] if count != "None"]  # or taken back
        assert {key: int(count) for key, count in merged} == counts


def assert_in_bounds(outputs):
    rows = [row for rows in outputs.values() for row in rows]
    assert all(0 <= time_ms <= LAST for _, _, time_ms, _ in rows)
    assert all(0 <= window[0] <= window[1] for *_, window in rows if window is not None)


@pytest.mark.nightly
def test_compiled_kernels_say_the_same_as_interpreted_ones():
    """Where interpreted, a sum of 64 bits that overflows is a warning, which is an error here."""
    said = []
    for kernels in ("interpreted", "compiled"):
        environment = os.environ | {"REPLAY_KERNELS": kernels, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "tests.operators.times_at_both_ends"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        said.append(json.loads(done.stdout))

    assert said[0] == said[1]


# --- windows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda ms: TimeWindows.of_size(ms),
        lambda ms: TimeWindows.of_size(5, grace=ms),
        lambda ms: TimeWindows.of_days(zone="Europe/Oslo", grace=ms),
        lambda ms: SessionWindows.with_inactivity_gap(ms),
        lambda ms: SessionWindows.with_inactivity_gap(5, grace=ms),
        lambda ms: SlidingWindows.of_time_difference(ms),
        lambda ms: SlidingWindows.of_time_difference(5, grace=ms),
        lambda ms: UnlimitedWindows.of(ms),
        lambda ms: JoinWindows.of_time_difference_with_no_grace(ms),
        lambda ms: JoinWindows.of_time_difference_with_no_grace(5).before(ms),
        lambda ms: JoinWindows.of_time_difference_with_no_grace(5).after(ms),
        lambda ms: JoinWindows.of_time_difference_and_grace(5, ms),
    ],
)
def test_sizes_graces_and_gaps_are_bounded_as_times_are(make):
    make(LAST)

    for ms in (LAST + 1, LONG_MAX):
        with pytest.raises(ConfigError, match=r"at most 2 \*\* 53 - 1 ms, got"):
            make(ms)


def test_windows_as_long_as_time_take_its_first_and_its_last_record():
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.string()))
    for name, windows in {
        "hops": TimeWindows.of_size(LAST, grace=LAST).advance_by(LAST - 1),
        "sessions": SessionWindows.with_inactivity_gap(LAST, grace=LAST),
        "slides": SlidingWindows.of_time_difference(LAST, grace=LAST),
    }.items():
        stream.group_by_key().windowed_by(windows).count().to(name)
    driver = TopologyTestDriver(builder.build())
    for time_ms in (0, LAST, 0):
        driver.pipe_input("in", "a", "x", timestamp_ms=time_ms)

    got = {name: [(*row.window, row.value) for row in driver.read_outputs(name)] for name in ("hops", "sessions")}

    # [LAST - 1, 2 LAST - 1) has the record at LAST, and [0, LAST) has not
    assert got["hops"] == [(0, LAST, 1), (LAST - 1, 2 * LAST - 1, 1), (0, LAST, 2)]
    assert got["sessions"] == [(0, 0, 1), (0, 0, None), (0, LAST, 2), (0, LAST, None), (0, LAST, 3)]
    assert [(row.window, row.value) for row in driver.read_outputs("slides")][:2] == [((0, LAST), 1), ((0, LAST), 2)]


class Later:
    """Forwards every record at the time of its value."""

    def init(self, context):
        self.context = context

    def process(self, record):
        self.context.forward(record.with_timestamp(record.value))


@pytest.mark.parametrize("time_ms", [LAST, LAST + 1, LONG_MAX])
def test_a_processor_forwards_no_time_that_is_too_late(time_ms):
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.long()))
    stream.process(Later, returns_key=Serde.string(), returns=Serde.long(), name="later").to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", time_ms, timestamp_ms=5)

    if time_ms == LAST:
        assert driver.read_output("out").timestamp_ms == LAST
    else:
        with pytest.raises((ConfigError, TaskFailed), match=r"later.*a timestamp of at most 2 \*\* 53 - 1 ms"):
            driver.run()


class Ticking:
    """Calls itself each so many milliseconds."""

    def __init__(self, interval_ms):
        self.interval_ms = interval_ms

    def init(self, context):
        context.schedule(self.interval_ms, PunctuationType.STREAM_TIME, lambda timestamp_ms: None)

    def process(self, record):
        """Nothing."""


def test_the_interval_of_punctuations_is_bounded():
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.string())).process(lambda: Ticking(LAST + 1), name="ticking")

    def run() -> None:
        driver = TopologyTestDriver(builder.build())
        driver.pipe_input("in", "a", "x", timestamp_ms=5)
        driver.run()

    with pytest.raises((ConfigError, TaskFailed), match=r"ticking.*at most 2 \*\* 53 - 1 ms"):
        run()


def test_recorded_times_are_bounded_too(tmp_path):
    plant(Warehouse(tmp_path), "in", [LandedRecord(0, b"a", b"x", 1)], partitions=1)
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serde.string(), Serde.string())).to("out")
    driver = TopologyTestDriver(builder.build())

    for refused in (
        lambda: record_time(Warehouse(tmp_path), "in", LAST + 1),
        lambda: driver.advance_stream_time("in", LAST + 1),
        lambda: driver.advance_wall_clock_time(LAST + 1),
    ):
        with pytest.raises(ConfigError, match=r"a time of at most 2 \*\* 53 - 1 ms"):
            refused()


# --- replays -----------------------------------------------------------------------------------------------------


def per_minute(**consumed) -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.json("n long"), **consumed))
    views = builder.stream("views", Consumed(Serde.string(), Serde.json("n long")))
    counts = clicks.merge(views).group_by_key().windowed_by(TimeWindows.of_size("1m")).count()
    counts.suppress(Suppressed.until_window_closes()).to("per-minute")
    return builder.build()


def landed(partition: int, time_ms: int, n: int = 0) -> LandedRecord:
    return LandedRecord(partition, b"ann", b'{"n": %d}' % n, time_ms)


CLICKS = [landed(0, 10), landed(0, LONG_MAX), landed(0, 61_000), landed(0, LAST + 1), landed(0, 62_000)]
VIEWS = [landed(0, 5), landed(0, 70_000), landed(0, 130_000)]


@pytest.mark.sampled(share=4)
@pytest.mark.parametrize("most", [None, 1, 2, 3])
def test_a_landed_record_of_the_largest_long_is_a_dead_letter_and_holds_up_nothing(tmp_path, most):
    """[0, 60,000) has the click at 10 and the view at 5, the next minute two clicks and a view, wherever it is cut."""
    warehouse, topology = Warehouse(tmp_path), per_minute()
    plant(warehouse, "clicks", CLICKS, partitions=1)
    plant(warehouse, "views", VIEWS, partitions=1)

    reports = list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=most, idle="proceed"))

    letters = read_table(warehouse, "p", "dead_letter").to_pylist()
    assert sorted((row["topic"], row["offset"], row["reason"], row["record_time_ms"]) for row in letters) == [
        ("clicks", 1, f"time: expected {BOUND}, got {LONG_MAX} ms", LONG_MAX),
        ("clicks", 3, f"time: expected {BOUND}, got {LAST + 1} ms", LAST + 1),
    ]
    finals = read_changelog(warehouse, "p", "per-minute").to_pylist()
    assert [(row["window_start_ms"], row["value"]) for row in finals] == [(0, 2), (60_000, 3)]
    books = [report.books for report in reports]
    assert [sum(getattr(each, name) for each in books) for name in ("read", "applied", "undecodable")] == [8, 6, 2]
    for report in reports:
        verdicts = check_increment(warehouse, "p", replay_facts(topology), report.increment, engine="plain")
        broken = {verdict.guarantee: verdict for verdict in verdicts if not is_in_order(verdict)}
        assert broken.keys() <= {"G12"}  # two of eight are undecodable


def test_a_day_that_ends_goes_past_a_record_that_is_too_late(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "clicks", CLICKS, partitions=1)
    plant(warehouse, "views", VIEWS, partitions=1)

    (report,) = replay(warehouse, per_minute(), pipeline="p", runner=LocalRunner(), until_ms=60_000, idle="proceed")

    assert report.cut_to == {"clicks": {"0": 2}, "views": {"0": 1}}  # up to the click at 61,000


@pytest.mark.parametrize("extractor", ["n", lambda record: record.value["n"]], ids=["expression", "callable"])
def test_an_extractors_time_counts_and_not_the_one_that_landed(tmp_path, extractor):
    """The first record has a good time in its value, the second one that is too late, the third none in its place."""
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "clicks", [landed(0, LONG_MAX, 7), landed(0, 8, LONG_MAX), landed(0, 9, -1)], partitions=1)
    plant(warehouse, "views", [landed(0, 60_000)], partitions=1)
    topology = per_minute(timestamp_extractor=UsePartitionTimeOnInvalidTimestamp(extractor))

    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), idle="proceed"))

    (letter,) = read_table(warehouse, "p", "dead_letter").to_pylist()
    assert (letter["offset"], letter["reason"]) == (1, f"time: expected {BOUND}, got {LONG_MAX} ms")
    (final,) = read_changelog(warehouse, "p", "per-minute").to_pylist()
    assert (final["window_start_ms"], final["value"], final["record_time_ms"]) == (0, 2, 7)  # at 7, and at 7 again
