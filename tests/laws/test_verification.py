"""`verify`: a range that is run again in other increments leaves the same tables, and what does not is found."""

import itertools
import shutil
from pathlib import Path

import pytest

from kstreams_replay.jobs.branches.branches import branches
from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.branches.verification import verifiable, verify
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.recorded_time import record_time
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import (
    Consumed,
    LogAndSkipOnInvalidTimestamp,
    Materialized,
    Serde,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop
from tests.laws.changed import land, run
from tests.laws.joined import PARTITIONS as JOINED_PARTITIONS
from tests.laws.joined import joined, tapes
from tests.laws.test_migrations import COARSER, windows
from tests.laws.topologies import PARTITIONS, everything, tape
from tests.planted import plant

pytestmark = pytest.mark.sampled

RUNNER = LocalRunner()


def ran(warehouse: Warehouse, topology: Topology, sizes: list[int], **settings: object) -> None:
    for size in sizes:
        list(replay(warehouse, topology, pipeline="p", runner=RUNNER, max_records=size, increments=1, **settings))


@pytest.fixture
def clicks(tmp_path: Path) -> Warehouse:
    warehouse = Warehouse(str(tmp_path))
    plant(warehouse, "clicks", tape(21, 60), partitions=PARTITIONS)
    return warehouse


def test_every_operator_leaves_the_same_tables_in_other_increments(clicks):
    ran(clicks, everything(), [11, 20, 9])

    found = verify(
        clicks, everything(), pipeline="p", runner=RUNNER, since=2, until=3, increments=(1, "random"), seed=5
    )

    assert [(cutting.name, cutting.difference) for cutting in found.cuttings] == [
        ("in 1", None), ("cut at random, seed 5", None),
    ]  # fmt: skip
    assert [sum(cutting.sizes) for cutting in found.cuttings] == [found.records] * 2
    assert len(found.cuttings[0].sizes) == 1
    assert len(found.cuttings[1].sizes) > 2
    assert branches(clicks) == {}
    assert sorted(path.name for path in Path(clicks.root).iterdir()) == ["branches", "landed", "landing", "p"]


def counted(answers: "itertools.count[int]") -> Topology:
    """A step that answers otherwise whenever it is asked."""
    builder = StreamsBuilder()
    numbered = builder.stream("clicks", Consumed(Serde.string(), Serde.json("page string, ms long"))).map_values(
        lambda value: {"n": next(answers)}, returns=Serde.json("n long"), name="numbers"
    )
    numbered.to("numbered")
    return builder.build()


def test_a_function_that_is_not_pure_is_found_and_named(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    plant(warehouse, "clicks", tape(21, 20), partitions=1)
    ran(warehouse, counted(itertools.count()), [8, 12])

    found = verify(warehouse, counted(itertools.count(1000)), pipeline="p", runner=RUNNER, increments=(1,))

    assert not found.holds
    (cutting,) = found.cuttings
    assert cutting.difference is not None
    assert cutting.difference.table == "outputs/numbered"
    assert cutting.difference.place == {"partition": 0, "offset": 0}
    assert cutting.difference.want is not None
    assert cutting.difference.want["value"]["n"] < 1000
    assert list(cutting.impure) == ["numbers"]


def test_a_function_that_is_not_pure_is_named_in_the_middle_of_a_pipeline_too(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    plant(warehouse, "clicks", tape(21, 90), partitions=1)
    ran(warehouse, counted(itertools.count()), [8, 12, 10])

    found = verify(
        warehouse,
        counted(itertools.count(1000)),
        pipeline="p",
        runner=RUNNER,
        since=2,
        increments=(1, "random"),
        seed=1,
    )

    assert [list(cutting.impure) for cutting in found.cuttings] == [["numbers"]] * 2
    assert "value {'n': 1000}, and then key" in found.cuttings[0].impure["numbers"]


def test_a_store_that_differs_is_found_though_no_output_does(tmp_path):
    def kept(answers: "itertools.count[int]") -> Topology:
        builder = StreamsBuilder()
        clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.json("page string, ms long")))
        numbered = clicks.map_values(lambda value: {"n": next(answers)}, returns=Serde.json("n long"), name="numbers")
        numbered.to_table(materialized=Materialized.as_("newest"))
        return builder.build()

    warehouse = Warehouse(str(tmp_path))
    plant(warehouse, "clicks", tape(21, 90), partitions=1)
    ran(warehouse, kept(itertools.count()), [8, 12, 10])

    found = verify(warehouse, kept(itertools.count(1000)), pipeline="p", runner=RUNNER, since=2, increments=(1, 7))

    assert [cutting.difference and cutting.difference.table for cutting in found.cuttings] == ["state/newest"] * 2


def test_topics_that_meet_are_verified_with_every_join(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    for topic, records in tapes(5, 30).items():
        plant(warehouse, topic, records, partitions=JOINED_PARTITIONS)
    ran(warehouse, joined(), [10, 8, 1000], idle="proceed")

    found = verify(warehouse, joined(), pipeline="p", runner=RUNNER, since=2, increments=(1, "random"), seed=3)

    assert [cutting.difference for cutting in found.cuttings] == [None, None]
    assert found.rows["outputs/paid"] > 0


def test_times_of_an_extractor_are_verified(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    plant(warehouse, "clicks", tape(4, 120), partitions=1)
    ran(warehouse, extracted(), [15, 25])

    found = verify(warehouse, extracted(), pipeline="p", runner=RUNNER, since=2, increments=(1, 7))

    assert [cutting.difference for cutting in found.cuttings] == [None, None]
    assert found.rows["outputs/counts"] > 0


def extracted() -> Topology:
    """Times out of the values."""
    builder = StreamsBuilder()
    consumed = Consumed(
        Serde.string(), Serde.json("page string, ms long"), timestamp_extractor=LogAndSkipOnInvalidTimestamp("ms")
    )
    windows = TimeWindows.of_size(10, grace=5)
    builder.stream("clicks", consumed).group_by_key().windowed_by(windows).count().to("counts")
    return builder.build()


def test_what_was_replayed_after_a_migration_is_verified_from_the_migrated_state(tmp_path):
    warehouse = Warehouse(tmp_path)
    land(warehouse, 1, 50)
    run(warehouse, windows(10), "p", max_records=20, increments=2)
    run(warehouse, windows(20), "p", max_records=20, wanted=COARSER)
    rows = Ledger(warehouse.pipeline("p").ledger).done_rows()
    last = rows[-1].increment
    assert last > 3  # the third is the migration

    found = verify(warehouse, windows(20), pipeline="p", runner=RUNNER, since=4, increments=(1, 7))

    assert [cutting.difference for cutting in found.cuttings] == [None, None]
    assert found.rows["outputs/windows"] > 0
    assert verifiable(warehouse, windows(20), "p") == [range(3, last + 1)]


def test_what_was_replayed_since_is_no_part_of_the_range(replayed_shop):
    found = verify(replayed_shop, shop.topology(), pipeline="shop", runner=RUNNER, until=1, increments=(3,))

    assert found.holds
    assert found.records == 6
    assert found.cuttings[0].sizes == [2, 2, 2]
    assert found.rows["outputs/sessions"] == 2


def test_a_range_that_was_withdrawn_or_that_other_code_ran_is_refused(clicks):
    ran(clicks, everything(), [15, 15])
    with pytest.raises(ConfigError, match="expected the topology that is given, got another one"):
        verify(clicks, joined(), pipeline="p", runner=RUNNER, until=1)
    with pytest.raises(ConfigError, match="increments are 1 to 2"):
        verify(clicks, everything(), pipeline="p", runner=RUNNER, since=2, until=9)
    restore(clicks, "p", 1)
    with pytest.raises(ConfigError, match="a restore is no part of a range"):
        verify(clicks, everything(), pipeline="p", runner=RUNNER, since=1, until=2)


def test_the_same_rows_have_the_same_digest_however_they_were_cut(clicks):
    for name, sizes in (("one", [40]), ("three", [11, 20, 9])):
        for size in sizes:
            list(replay(clicks, everything(), pipeline=name, runner=RUNNER, max_records=size, increments=1))

    one, three = (
        verify(clicks, everything(), pipeline=name, runner=RUNNER, increments=()) for name in ("one", "three")
    )

    assert one.digests == three.digests
    assert one.rows == three.rows
    assert len({digest for name, digest in one.digests.items() if one.rows[name] > 1}) > 10


def test_the_command_prints_digests_and_what_held(replayed_shop, capsys):
    arguments = ["--warehouse", replayed_shop.root, "--pipeline", "shop", "--increments", "1,2"]

    assert main(["verify", "tests/dagster/shop.py:topology", *arguments]) == 0

    out = capsys.readouterr().out
    assert "increments 1 to 2, 8 records" in out
    assert "outputs/sessions" in out
    assert "in 2 (2 increments): the same tables" in out


IMPURE = """
import time

from kstreams_replay import Consumed, Serde, StreamsBuilder

builder = StreamsBuilder()
clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.json("page string, ms long")))
clicks.map_values(lambda value: {"at": time.time_ns()}, returns=Serde.json("at long")).to("stamped")
topology = builder.build()
"""


def test_the_command_ends_with_4_and_names_the_row_when_tables_differ(replayed_shop, tmp_path, capsys):
    (tmp_path / "stamped.py").write_text(IMPURE)
    arguments = [f"{tmp_path}/stamped.py:topology", "--warehouse", replayed_shop.root, "--pipeline", "stamped"]
    assert main(["run", *arguments, "--local"]) == 0
    capsys.readouterr()

    assert main(["verify", *arguments, "--increments", "1"]) == 4

    out = capsys.readouterr().out
    assert "in 1 (1 increment): OTHER TABLES" in out
    assert "outputs/stamped, partition 0, offset 0: expected value" in out
    assert "functions must be pure" in out


def test_a_range_without_records_is_verified_too(replayed_shop):
    record_time(replayed_shop, "clicks", 10_000)
    list(replay(replayed_shop, shop.topology(), pipeline="shop", runner=RUNNER))

    found = verify(replayed_shop, shop.topology(), pipeline="shop", runner=RUNNER, since=3, increments=(1, 7))

    assert found.holds
    assert found.rows["outputs/sessions"] == 1


def test_a_list_of_increments_that_is_none_is_a_usage_error(replayed_shop, capsys):
    arguments = ["--warehouse", replayed_shop.root, "--pipeline", "shop", "--increments", "1,often"]

    assert main(["verify", "tests/dagster/shop.py:topology", *arguments]) == 2
    assert "expected numbers from 1 on, and random, with commas, got 'often'" in capsys.readouterr().err


@pytest.fixture
def replayed_shop(tmp_path: Path) -> Warehouse:
    from kstreams_replay.jobs.landing.landing import land_files

    warehouse = Warehouse(str(tmp_path / "warehouse"))
    for name, rows in (("1-morning", shop.MORNING), ("2-evening", shop.EVENING)):
        shop.drop_files(tmp_path / "clicks", name, rows)
        land_files(None, warehouse, "clicks", shop.source(tmp_path / "clicks"))
        list(replay(warehouse, shop.topology(), pipeline="shop", runner=RUNNER))
    shutil.rmtree(tmp_path / "clicks")
    return warehouse
