"""Replays of topics that lie in somebody else's table do what those of a copy do, whatever its owner does between."""

import random
import re
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from kstreams_replay.expectations.verdicts import check_increment
from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.branches.verification import verifiable, verify
from kstreams_replay.jobs.execution.spark_runner import SparkRunner
from kstreams_replay.jobs.execution.task_description import Runner
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.history.committed_tables import done_row, read_changelog, read_table
from kstreams_replay.jobs.history.fsck import fsck
from kstreams_replay.jobs.landing.landing import LakeSource, land_lake
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Suppressed, TimeWindows, Topology
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.errors import LandingError, LedgerError
from kstreams_replay.state.tables import offset_order
from kstreams_replay.state.tables.out_of_play import exclusions
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.explain.explained import explained, stream
from tests.landing.lake_tables import Row, bronze, land, redpanda_rows, spark_rows
from tests.landing.landed_rows import KilledError
from tests.sampling import sampled

STRING = Serde.string()
SEEDS = range(30)
WINDOW_MS, GRACE_MS = 10_000, 2_000
PARTITIONS, BATCHES, RECORDS = 3, 4, 60


def windows() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(STRING, STRING))
    ten_seconds = TimeWindows.of_size_and_grace(timedelta(milliseconds=WINDOW_MS), timedelta(milliseconds=GRACE_MS))
    counts = clicks.group_by_key().windowed_by(ten_seconds).count()
    counts.suppress(Suppressed.until_window_closes()).to_stream().to("finals")
    return builder.build()


def batch(rng: random.Random, ends: list[int], now_ms: int) -> list[Row]:
    """The next records, some of them late, with gaps between their offsets."""
    found = []
    for _ in range(RECORDS):
        partition = rng.randrange(PARTITIONS)
        ends[partition] += rng.choice((1, 1, 1, 2))
        ms = now_ms + rng.randrange(-15_000, 20_000)
        found.append(
            Row(
                partition,
                ends[partition],
                ms,
                b"k%d" % (PARTITIONS * rng.randrange(3) + partition),
                b"v",
                [("h", b"1")],
            )
        )
    return found


def disturb(rng: random.Random, path: Path) -> None:
    """What the owner of a table does with it."""
    table = DeltaTable(str(path))
    deed = rng.choice(("nothing", "compaction", "clustering", "clustering and vacuum"))
    if deed == "compaction":
        table.optimize.compact()
    elif deed != "nothing":
        table.optimize.z_order([rng.choice(table.schema().to_arrow().names[:1])])
    if deed.endswith("vacuum"):
        table.vacuum(0, dry_run=False, enforce_retention_duration=False)


def tables(warehouse: Warehouse) -> list[list[tuple[object, ...]]]:
    """All rows of the pipeline but those that say when and where they were written."""
    found = []
    for name in sorted(done_row(warehouse, "p").content.versions):
        rows = read_table(warehouse, "p", name).to_pylist()
        found.append(sorted(tuple(map(repr, row.values())) for row in rows))
    return found


@pytest.mark.every_run
@pytest.mark.parametrize("seed", sampled(SEEDS, share=30))
@pytest.mark.parametrize("layout", ["spark", "redpanda"])
def test_results_are_those_of_a_copy(tmp_path, monkeypatch, seed, layout):
    monkeypatch.setattr(offset_order, "_SORTED_ROWS", 50)
    ours, theirs = Warehouse(str(tmp_path / "ours")), Warehouse(str(tmp_path / "theirs"))
    _lives(tmp_path, seed, layout, LocalRunner(), ours, theirs)

    assert tables(theirs) == tables(ours)
    assert fsck(theirs).findings == []
    mine, yours = (
        [
            (each.guarantee, each.table, each.holds)
            for each in check_increment(of, "p", replay_facts(windows()), engine="plain")
        ]
        for of in (ours, theirs)
    )
    assert mine == yours


def _lives(folder: Path, seed: int, layout: str, runner: Runner, ours: Warehouse, theirs: Warehouse) -> None:
    """The topic is landed by copy in one warehouse and in place in the other, and replayed after every landing."""
    rng, path = random.Random(f"{seed} {layout}"), folder / "bronze"
    write = spark_rows if layout == "spark" else redpanda_rows
    ends, now_ms = [-1] * PARTITIONS, 1_767_258_000_000
    for _ in range(BATCHES):
        records = batch(rng, ends, now_ms)
        rng.shuffle(records)
        write_deltalake(str(path), write(records), mode="append")
        now_ms += 20_000
        disturb(rng, path)
        for warehouse, in_place in ((ours, False), (theirs, True)):
            land_lake(None, warehouse, "clicks", LakeSource(delta=str(path), partitions=PARTITIONS, in_place=in_place))
            list(replay(warehouse, windows(), pipeline="p", runner=runner))


@pytest.mark.jvm
def test_workers_of_spark_read_what_lies_in_place(spark, tmp_path):
    ours, theirs = Warehouse(str(tmp_path / "ours")), Warehouse(str(tmp_path / "theirs"))
    _lives(tmp_path, 1, "spark", SparkRunner(spark), ours, theirs)

    assert tables(theirs) == tables(ours)


def short_windows() -> Topology:
    """Final counts of windows of 10 ms, which close 5 ms later."""
    builder = StreamsBuilder()
    windowed = stream(builder, "clicks").group_by_key().windowed_by(TimeWindows.of_size(10, grace=5))
    windowed.count().suppress(Suppressed.until_window_closes(name="final")).to("finals")
    return builder.build()


FIRST = [(b"a", 3), (b"a", 9), (b"b", 14), (b"c", 15)]
"""Keys and times. The last one closes [0, 10)."""
SECOND = [(b"a", 8), (b"z", 40)]
"""One that comes too late, and one that closes [10, 20)."""


def records(first: int, given: list[tuple[bytes, int]]) -> list[Row]:
    """Of one partition, from the offset ``first`` on."""
    return [Row(0, first + n, ms, key, b"x") for n, (key, ms) in enumerate(given)]


def finals(warehouse: Warehouse, pipeline: str) -> list[tuple[int, str, int, int]]:
    """Increment, key, start of the window and count of each row."""
    rows = read_changelog(warehouse, pipeline, "finals").to_pylist()
    return sorted((row["increment"], row["key"], row["window_start_ms"], row["value"]) for row in rows)


@pytest.mark.every_run
def test_past_increments_are_run_again_forked_and_explained_also_when_their_files_were_vacuumed(warehouse, tmp_path):
    path = tmp_path / "bronze"
    counted = [(1, "a", 0, 2), (2, "b", 10, 1), (2, "c", 10, 1)]
    for number, (first, given) in enumerate(((0, FIRST), (4, SECOND)), start=1):
        table = bronze(path, records(first, given))
        if number == 2:
            table.optimize.z_order(["key"])
            DeltaTable(str(path)).vacuum(0, dry_run=False, enforce_retention_duration=False)
        land(warehouse, path, in_place=True, partitions=1)
        list(replay(warehouse, short_windows(), pipeline="p", runner=LocalRunner()))
        fork(warehouse, "p", number - 1, f"b{number}")
        list(replay(warehouse, short_windows(), pipeline=f"b{number}", runner=LocalRunner()))

        verified = verify(warehouse, short_windows(), pipeline="p", runner=LocalRunner(), increments=(1, 3))
        assert (verified.records, verified.holds) == (first + len(given), True)
        want = counted[: 2 * number - 1]
        assert (finals(warehouse, "p"), finals(warehouse, f"b{number}")) == (want, want)
        assert explained(warehouse, short_windows(), "clicks:0:1") == [
            ("SourceNode", "read: 'a' = 'x', time 9"),
            ("AggregateNode", "'a' [0, 10): 1 -> 2"),
            (
                "SuppressNode",
                "'a' [0, 10) = 2 waits until stream time 15 (now 9), in place of 1; "
                "left because of clicks:0:3 at stream time 15: 'a' [0, 10) = 2, as outputs/finals 0:0",
            ),
        ]
    assert explained(warehouse, short_windows(), "clicks:0:4")[0] == (
        "SourceNode",
        "read: 'a' = 'x', time 8, 7 ms behind stream time 15",
    )


@pytest.mark.every_run
@pytest.mark.parametrize("in_place", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_what_its_owner_deletes_is_erased_for_later_replays_and_for_who_asks_for_the_past(
    warehouse, tmp_path, in_place
):
    """The first increment has read `a` at 9; it is deleted with `b` at 14, which is read by the second one."""
    path, runner = tmp_path / "bronze", LocalRunner()

    def run(pipeline: str) -> None:
        list(replay(warehouse, short_windows(), pipeline=pipeline, runner=runner))

    bronze(path, records(0, FIRST[:2]))
    land(warehouse, path, in_place=in_place, partitions=1)
    run("p")
    bronze(path, records(2, FIRST[2:]))
    land(warehouse, path, in_place=in_place, partitions=1)
    bronze(path, records(4, SECOND)).delete("offset IN (1, 2)")
    land(warehouse, path, in_place=in_place, partitions=1, rules={"on_change": "erase"})
    run("p")
    run("later")

    assert finals(warehouse, "p") == [(2, "a", 0, 2), (2, "c", 10, 1)]
    assert finals(warehouse, "later") == [(1, "a", 0, 1), (1, "c", 10, 1)]
    why = re.escape(f"(erased: gone from Delta table {path} as of version 3)")
    for offset in (1, 2):
        with pytest.raises(LedgerError, match=f"took out of play {why}; .* nothing of it is left"):
            explain(warehouse, "p", short_windows(), ("clicks", 0, offset))
    has_read = f"increment 1 of 'p': expected the records that it read, got record clicks:0:1, which .* took out {why}"
    with pytest.raises(LedgerError, match=has_read):
        explain(warehouse, "p", short_windows(), ("clicks", 0, 0))
    with pytest.raises(LedgerError, match=has_read):
        verify(warehouse, short_windows(), pipeline="p", runner=runner)
    assert explained(warehouse, short_windows(), "clicks:0:3")[0] == ("SourceNode", "read: 'c' = 'x', time 15")
    assert verify(warehouse, short_windows(), pipeline="p", runner=runner, since=2).holds
    assert verifiable(warehouse, short_windows(), "p") == [range(2, 3)]
    assert verify(warehouse, short_windows(), pipeline="later", runner=runner).holds
    verdicts = check_increment(warehouse, "p", replay_facts(short_windows()), engine="plain")
    assert [each.guarantee for each in verdicts if not each.holds] == ["G12"], "one of three records comes too late"
    verdicts = check_increment(warehouse, "p", replay_facts(short_windows()), engine="plain", increment=1)
    assert [each for each in verdicts if not each.holds] == []
    assert fsck(warehouse).findings == []


@pytest.mark.every_run
def test_nothing_is_erased_while_an_increment_that_reads_it_is_unfinished(warehouse, tmp_path):
    path, runner = tmp_path / "bronze", LocalRunner()

    def dies(*_: object) -> None:
        raise KilledError

    bronze(path, records(0, FIRST))
    land(warehouse, path, partitions=1)
    with pytest.raises(KilledError):
        list(replay(warehouse, short_windows(), pipeline="p", runner=runner, on_step=dies))
    DeltaTable(str(path)).delete("offset = 1")

    with pytest.raises(LandingError, match=r"got clicks:0:1, which increment 1 of 'p' reads; run the pipeline"):
        land(warehouse, path, partitions=1, rules={"on_change": "erase"})
    assert exclusions(warehouse, "clicks") == []
    list(replay(warehouse, short_windows(), pipeline="p", runner=runner))
    land(warehouse, path, partitions=1, rules={"on_change": "erase"})

    assert finals(warehouse, "p") == [(1, "a", 0, 2)]
    assert [each.offset for each in exclusions(warehouse, "clicks")] == [1]
