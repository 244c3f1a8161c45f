"""Replays of topics that lie in somebody else's table do what those of a copy do, whatever its owner does between."""

import random
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from kstreams_replay.expectations.verdicts import check_increment
from kstreams_replay.jobs.execution.spark_runner import SparkRunner
from kstreams_replay.jobs.execution.task_description import Runner
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import done_row, read_table
from kstreams_replay.jobs.history.fsck import fsck
from kstreams_replay.jobs.landing.landing import LakeSource, land_lake
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Suppressed, TimeWindows, Topology
from kstreams_replay.orchestration.facts import replay_facts
from kstreams_replay.state.tables import offset_order
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.lake_tables import Row, redpanda_rows, spark_rows
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
@pytest.mark.parametrize("seed", sampled(SEEDS))
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
