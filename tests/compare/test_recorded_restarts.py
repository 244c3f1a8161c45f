"""With recorded restarts a replay does what production did, restarts included, wherever it is cut.

Expected rows are those of Kafka Streams 4.3.0 on a real broker, or of a live application in plain Python.
"""

import random
import struct
from typing import Any

import pytest

from kstreams_replay.jobs.compare.comparison import Comparison, compare
from kstreams_replay.jobs.execution.spark_runner import SparkRunner
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.exclusions import book_exclusion
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.landing.recorded_restarts import record_restarts
from kstreams_replay.jobs.operators.aggregate_parts import aggregate
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    Materialized,
    Serde,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.compare.live_application import Input, Life, SessionCounts, WindowCounts, live, random_inputs
from tests.landing.landed_records import records
from tests.planted import LandedRecord, plant, tables_of
from tests.sampling import is_nightly, seed

pytestmark = pytest.mark.every_run

SIZE_MS, GRACE_MS, RECORDS = 10_000, 2_000, 120
LIVES = 40 if is_nightly() else 8
CODE = (
    "from kstreams_replay import Consumed, Serde, StreamsBuilder, TimeWindows\n"
    "builder = StreamsBuilder()\n"
    "records = builder.stream('in', Consumed(Serde.string(), Serde.string()))\n"
    "records.group_by_key().windowed_by(TimeWindows.of_size('10s')).count().to_stream().to('out')\n"
    "topology = builder.build()\n"
)


TEN_SECONDS = TimeWindows.of_size("10s")

LandedRow = tuple[bytes, bytes | None, int]
"""Key, value and time."""


def long(number: int) -> bytes:
    return struct.pack(">q", number)


def windowed(windows: TimeWindows | SessionWindows = TEN_SECONDS, *, is_final: bool = False) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serde.string(), Serde.string()))
    table = stream.group_by_key().windowed_by(windows).count()
    if is_final:
        table = table.suppress(Suppressed.until_window_closes())
    table.to_stream().to("out")
    return builder.build()


def one_window(warehouse: Warehouse, far_ms: int, let_in: int) -> None:
    """The example of docs/compare.md, as it was on a real broker; ``far_ms``: time of the record before the restart."""
    times = (1_000, 1_001, 1_002, far_ms, 2_000)
    plant(warehouse, "in", [LandedRecord(0, b"a", b"x", time_ms) for time_ms in times], partitions=1)
    counts = [(0, 1, 1_000), (0, 2, 1_001), (0, 3, 1_002), (far_ms, 1, far_ms), (0, let_in, 2_000)]
    rows = [LandedRecord(0, b"a" + long(start), long(count), time_ms) for start, count, time_ms in counts]
    plant(warehouse, "live", rows, partitions=1)


def compared(warehouse: Warehouse, topology: Topology, pipeline: str, **how: Any) -> Comparison:
    list(replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner(), **how))
    return compare(warehouse, topology, "out", with_topic="live", pipeline=pipeline, form="events")


@pytest.mark.sampled
@pytest.mark.parametrize("increment", [None, 1, 4])
@pytest.mark.parametrize(("far_ms", "let_in"), [(100_000, 1), (30_000, 4)], ids=["segment-gone", "segment-there"])
def test_a_replay_with_the_restart_equals_what_a_real_application_wrote(warehouse, far_ms, let_in, increment):
    one_window(warehouse, far_ms, let_in)

    assert record_restarts(warehouse, "in", [(0, 4)]) == [(0, 4)]

    assert compared(warehouse, windowed(), "p", max_records=increment).is_equal
    assert record_restarts(warehouse, "in", [(0, 4)]) == []


def test_what_lands_later_keeps_the_restarts_that_were_recorded_before(warehouse):
    times = (1_000, 1_001, 1_002, 100_000, 2_000)
    land_records(warehouse, "in", records(*((0, time_ms, b"a", b"x") for time_ms in times)), partitions=1)
    record_restarts(warehouse, "in", [(0, 4)])
    land_records(warehouse, "in", records((0, 100_001, b"a", b"x")), partitions=1)
    counts = [(0, 1, 1_000), (0, 2, 1_001), (0, 3, 1_002), (100_000, 1, 100_000), (0, 1, 2_000), (100_000, 2, 100_001)]
    rows = [LandedRecord(0, b"a" + long(start), long(count), time_ms) for start, count, time_ms in counts]
    plant(warehouse, "live", rows, partitions=1)

    assert compared(warehouse, windowed(), "p", max_records=3).is_equal


@pytest.mark.jvm
@pytest.mark.nightly
def test_a_replay_on_spark_restarts_as_well(warehouse, spark):
    one_window(warehouse, 100_000, 1)
    record_restarts(warehouse, "in", [(0, 4)])

    list(replay(warehouse, windowed(), pipeline="p", runner=SparkRunner(spark)))

    assert compare(warehouse, windowed(), "out", with_topic="live", pipeline="p", form="events").is_equal


WINDOWS = TimeWindows.of_size(SIZE_MS, grace=GRACE_MS)
SESSIONS = SessionWindows.with_inactivity_gap(SIZE_MS, grace=GRACE_MS)


def of_windows(taken: list[Input], life: Life, *, is_final: bool) -> list[LandedRow]:
    task = live(taken, WindowCounts(SIZE_MS, GRACE_MS, is_final=is_final), life)
    return [(row.key.encode() + long(row.window_ms), long(row.value), row.time_ms) for row in task.published]


def of_sessions(taken: list[Input], life: Life, *, is_final: bool) -> list[LandedRow]:
    task = live(taken, SessionCounts(SIZE_MS, GRACE_MS, is_final=is_final), life)
    return [
        (key.encode() + long(end) + long(start), None if count is None else long(count), time_ms)
        for key, start, end, count, time_ms in task.published
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("is_final", [False, True], ids=["updates", "finals"])
@pytest.mark.parametrize(("windows", "play"), [(WINDOWS, of_windows), (SESSIONS, of_sessions)], ids=["time", "session"])
def test_lives_of_restarts_are_replayed_row_by_row_at_every_cut(warehouse, windows, play, is_final):
    rng = random.Random(f"recorded {windows} {is_final} {seed()}")
    inputs, rows, restarts, let_in = [], [], [], 0
    for partition in range(LIVES):
        keys = [f"{key}{partition}" for key in "abc"]
        taken = random_inputs(rng, RECORDS, keys, span_ms=rng.choice([100_000, 400_000]), late_share=0.3)
        life = Life(restarts=frozenset(rng.sample(range(5, RECORDS), 20)))
        published = play(taken, life, is_final=is_final)
        let_in += published != play(taken, Life(), is_final=is_final)
        inputs += [LandedRecord(partition, one.key.encode(), b"x", one.time_ms) for one in taken]
        rows += [LandedRecord(partition, *row) for row in published]
        restarts += [(partition, place) for place in life.restarts]
    plant(warehouse, "in", inputs, partitions=LIVES)
    plant(warehouse, "live", rows, partitions=LIVES)
    record_restarts(warehouse, "in", restarts)
    topology = windowed(windows, is_final=is_final)

    found = compared(warehouse, topology, "whole")
    assert let_in > LIVES / 2
    assert found.verdicts == {"equal": len(rows)}
    assert compared(warehouse, topology, "cut", max_records=LIVES * 17).is_equal
    assert tables_of(warehouse, "whole", topology) == tables_of(warehouse, "cut", topology)


@pytest.mark.sampled("kept_slots")
@pytest.mark.parametrize("kept_slots", [-100, 65_536], ids=["swept", "kept"])
@pytest.mark.parametrize("increment", [None, 1, 2])
def test_what_a_store_has_lost_is_not_there_again_behind_a_restart(warehouse, monkeypatch, increment, kept_slots):
    """The record at 200 s ends the segment of the first window. After the restart two records are in that window again:
    the first one has the store's time at 0, and the second one finds no count of its key. A store of many rows is swept
    before the restart, in the same increment or in the one before.
    """
    monkeypatch.setattr(aggregate, "_KEPT_SLOTS", kept_slots)
    keys = [b"%02d" % number for number in range(20)]
    records = [(key, 1_000 + place) for place, key in enumerate(keys)]
    records += [(b"x", 200_000), (b"b", 2_000), (keys[0], 3_000)]
    plant(warehouse, "in", [LandedRecord(0, key, b"x", time_ms) for key, time_ms in records], partitions=1)
    counted = [(key + long(time_ms // 10_000 * 10_000), long(1), time_ms) for key, time_ms in records]
    plant(warehouse, "live", [LandedRecord(0, *row) for row in counted], partitions=1)
    record_restarts(warehouse, "in", [(0, len(keys) + 1)])
    if increment is not None:  # at the record that ends the segment, and behind every one or two from there on
        list(replay(warehouse, windowed(), pipeline="p", runner=LocalRunner(), max_records=len(keys), increments=1))

    assert compared(warehouse, windowed(), "p", max_records=increment).is_equal


OVERLAPS = {
    "hidden": (
        [("c", 1), ("c", 8_990), ("d", 20_000), ("d", 24_000), ("d", 12_000), ("c", 11), ("c", 12)], (4, 6), False,
    ),
    "within": (
        [
            ("a", 38_559), ("c", 13_601), ("a", 50_473), ("b", 53_033), ("a", 41_823), ("a", 34_092), ("a", 59_944),
            ("a", 66_236), ("a", 48_220), ("a", 73_073), ("b", 81_901),
        ],
        (8, 9), True,
    ),
}  # fmt: skip
"""Records, before which of them production restarted, and whether results are final. The store shows a session again
that it hid while another one was made within its gap; so a record merges sessions that overlap."""


@pytest.mark.sampled("name")
@pytest.mark.parametrize("max_records", [None, 1, 2])
@pytest.mark.parametrize("name", OVERLAPS)
def test_sessions_that_overlap_after_a_restart_are_merged_as_in_production(warehouse, name, max_records):
    records, restarts, is_final = OVERLAPS[name]
    taken = [Input(*each) for each in records]
    published = of_sessions(taken, Life(restarts=frozenset(restarts)), is_final=is_final)
    plant(warehouse, "in", [LandedRecord(0, key.encode(), b"x", time_ms) for key, time_ms, _ in taken], partitions=1)
    plant(warehouse, "live", [LandedRecord(0, *row) for row in published], partitions=1)
    record_restarts(warehouse, "in", [(0, place) for place in restarts])

    found = compared(warehouse, windowed(SESSIONS, is_final=is_final), "p", max_records=max_records)

    assert found.verdicts == {"equal": len(published)}


def test_commands_record_a_restart_and_judge_what_was_replayed_with_it(warehouse, tmp_path, capsys):
    one_window(warehouse, 100_000, 1)
    code = tmp_path / "windows.py"
    code.write_text(CODE)
    topology, place = f"{code}:topology", ["--warehouse", warehouse.root]
    words = ["compare", "out", "--with-topic", "live", "--topology", topology, *place]
    list(replay(warehouse, windowed(), pipeline="rules", runner=LocalRunner()))

    assert main([*words, "--pipeline", "rules", "--infer-restarts"]) == 4
    printed = capsys.readouterr().out
    assert printed.endswith(f"  replay land in --warehouse {warehouse.root} --restart 0:4\nthey leave nothing\n")
    assert main(["land", "in", *place, "--restart", "0:4"]) == 0
    assert capsys.readouterr().out == (
        "in: 1 restart recorded before 0:4; what is planned from now on takes it\n"
        "rules was beyond it already and stays as it is: replay under another pipeline name, or on a fork\n"
    )
    assert main(["run", topology, *place, "--pipeline", "live", "--local", "--max-records", "2"]) == 0
    assert main([*words, "--pipeline", "live", "--as", "events"]) == 0
    assert main([*words, "--pipeline", "rules", "--as", "events"]) == 4
    capsys.readouterr()
    assert main(["verify", topology, *place, "--pipeline", "live", "--increments", "1,5"]) == 0
    assert main(["verify", topology, *place, "--pipeline", "rules", "--increments", "5"]) == 0
    assert main(["check", topology, *place, "--pipeline", "live", "--engine", "plain"]) == 0
    capsys.readouterr()
    assert main(["explain", "--record", "in:0:4", "--topology", topology, *place, "--pipeline", "live", "--raw"]) == 0
    assert "2000" in capsys.readouterr().out


def test_a_restart_is_before_a_landed_record_that_stays_in_play(warehouse):
    one_window(warehouse, 100_000, 1)
    book_exclusion(warehouse, "in", [(0, 1)], "a test")

    with pytest.raises(ConfigError, match=r"record in:0:5: expected an offset of 0 or more, below 5"):
        record_restarts(warehouse, "in", [(0, 5)])
    with pytest.raises(ConfigError, match=r"record in:0:1: expected a record that is in play, got one that was taken"):
        record_restarts(warehouse, "in", [(0, 1)])
    record_restarts(warehouse, "in", [(0, 4), (0, 2)])
    with pytest.raises(ConfigError, match=r"record in:0:4: expected a record without a restart before it"):
        book_exclusion(warehouse, "in", [(0, 4)], "a test")


def versioned() -> Topology:
    builder = StreamsBuilder()
    store = Materialized.versioned("history", "1h")
    builder.table("in", Consumed(Serde.string(), Serde.string()), materialized=store).to_stream().to("out")
    return builder.build()


def test_an_operator_of_which_is_not_known_what_a_restart_leaves_is_refused_by_name(warehouse):
    one_window(warehouse, 100_000, 1)
    record_restarts(warehouse, "in", [(0, 4)])

    with pytest.raises(ConfigError, match=r"recorded restart: expected an operator that can .*a versioned table"):
        list(replay(warehouse, versioned(), pipeline="p", runner=LocalRunner()))
