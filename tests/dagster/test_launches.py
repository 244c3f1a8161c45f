"""Backfills as a person launches them, of assets and of a job: one run, in order, each day reported once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop
from tests.dagster.days import DAY, JANUARY, RESTORE
from tests.dagster.launching import Workspace, asset, workspace

DEFINITIONS = """
from pathlib import Path

from tests.dagster import shop
from tests.dagster.days import DAYS

root = Path({root!r})
topology = shop.final_counts_by_page()
defs = shop.definitions(root, topology=topology, check_engine="plain", partitions=DAYS)
"""
TABLES = [
    asset("shop", *path)
    for path in (
        ("repartition", "hours-repartition"),
        ("state", "hours"),
        ("state", "final-store"),
        ("outputs", "counts"),
        ("dropped",),
        ("dead_letter",),
    )
]
TOPIC = asset("shop", "landed", "clicks")
ONE, TWO, THREE, FOUR, FIVE = ALL = [f"2026-01-0{day}" for day in range(1, 6)]
NINE = 9 * 3_600_000


def drop_days(root: Path, *days: int) -> None:
    """Two clicks on each of these days of January, at nine and at ten."""
    for day in days:
        times = [JANUARY + (day - 1) * DAY + hours * 3_600_000 for hours in (9, 10)]
        shop.drop_files(root / "clicks", f"{day:02d}", [("ann", "home", time_ms) for time_ms in times])


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[Workspace]:
    """Four days and the begin of the fifth have come, and nothing has landed."""
    drop_days(tmp_path, *range(1, 6))
    with workspace(tmp_path, DEFINITIONS.format(root=str(tmp_path))) as made:
        yield made


def land(launched: Workspace, root: Path) -> None:
    definitions = shop.definitions(
        root, topology=shop.final_counts_by_page(), check_engine="plain", partitions=dg.DailyPartitionsDefinition(ONE)
    )
    assert definitions.resolve_job_def("shop_land").execute_in_process(instance=launched.instance).success


def increments(root: Path) -> list[int]:
    """Each by what it goes back to; 0: it is none that does."""
    rows = Ledger(Warehouse(root / "warehouse").pipeline("shop").ledger).done_rows()
    return [row.content.restates or 0 for row in rows]


def reported(launched: Workspace, key: dict[str, list[str]]) -> list[tuple[str | None, str]]:
    """Partition and data version of every materialization, in order."""
    records = launched.instance.fetch_materializations(dg.AssetKey(key["path"]), limit=100).records
    told = [record.asset_materialization for record in reversed(records)]
    return [(each.partition, (each.tags or {})["dagster/data_version"]) for each in told if each is not None]


def said(run: dg.DagsterRun, launched: Workspace) -> str:
    """The sentences of a run's failures."""
    events = launched.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    return "\n".join(str(event.dagster_event.step_failure_data.error) for event in events if event.dagster_event)


@pytest.mark.slow
def test_a_backfill_of_assets_is_one_run_and_so_is_one_that_restores(launched, tmp_path):
    land(launched, tmp_path)

    (run,) = launched.backfill(partitionNames=[ONE, TWO, THREE], assetSelection=TABLES)

    assert run.status is dg.DagsterRunStatus.SUCCESS
    assert increments(tmp_path) == [0, 0, 0]
    days = [(day, f"increment-{number}-epoch-0") for number, day in enumerate((ONE, TWO, THREE), 1)]
    assert [reported(launched, key) for key in TABLES] == [days] * len(TABLES)
    assert [launched.stale_statuses(key, [ONE, TWO, THREE]) for key in TABLES] == [["FRESH"] * 3] * len(TABLES)

    (again,) = launched.backfill(partitionNames=[TWO, THREE], assetSelection=TABLES, runConfigData=RESTORE)
    assert again.status is dg.DagsterRunStatus.SUCCESS
    assert increments(tmp_path) == [0, 0, 0, 1, 0, 0]
    days += [(day, f"increment-{number}-epoch-1") for number, day in enumerate((TWO, THREE), 5)]
    assert [reported(launched, key) for key in TABLES] == [days] * len(TABLES)
    assert [launched.stale_statuses(key, [ONE, TWO, THREE]) for key in TABLES] == [["FRESH"] * 3] * len(TABLES)


@pytest.mark.slow
def test_materialize_all_lands_and_then_runs_all_days_in_one_run(launched, tmp_path):
    landing, run = launched.backfill(partitionNames=[ONE, TWO], assetSelection=[TOPIC, *TABLES])

    assert [each.status for each in (landing, run)] == [dg.DagsterRunStatus.SUCCESS] * 2
    assert landing.asset_selection == {dg.AssetKey(TOPIC["path"])}
    assert increments(tmp_path) == [0, 0]

    (quiet, later) = launched.backfill(partitionNames=[THREE, FOUR], assetSelection=[TOPIC, *TABLES])
    assert [each.status for each in (quiet, later)] == [dg.DagsterRunStatus.SUCCESS] * 2
    assert increments(tmp_path) == [0, 0, 0, 0]


@pytest.mark.slow
def test_a_backfill_of_the_job_is_one_run(launched, tmp_path):
    land(launched, tmp_path)
    place = {"repositoryName": "__repository__", "repositoryLocationName": location(launched)}
    selector = {"repositorySelector": place, "partitionSetName": "shop_replay_partition_set"}

    (run,) = launched.backfill(selector=selector, partitionNames=[ONE, TWO, THREE])

    assert run.status is dg.DagsterRunStatus.SUCCESS
    assert increments(tmp_path) == [0, 0, 0]


def location(launched: Workspace) -> str:
    (name,) = launched.process.create_request_context().code_location_names
    return name


@pytest.mark.slow
def test_days_out_of_order_are_refused_and_nothing_is_lost(launched, tmp_path):
    land(launched, tmp_path)

    (early,) = launched.backfill(partitionNames=[THREE], assetSelection=TABLES)
    assert early.status is dg.DagsterRunStatus.FAILURE
    assert "run 2026-01-01, 2026-01-02 first" in said(early, launched)

    first, gap = sorted(launched.backfill(partitionNames=[ONE, THREE], assetSelection=TABLES), key=first_day)
    assert first.status is dg.DagsterRunStatus.SUCCESS
    assert gap.status is dg.DagsterRunStatus.FAILURE
    assert "run 2026-01-02 first" in said(gap, launched)
    (rest,) = launched.backfill(partitionNames=[TWO, THREE], assetSelection=TABLES)
    assert rest.status is dg.DagsterRunStatus.SUCCESS
    assert increments(tmp_path) == [0, 0, 0]

    restored = launched.backfill(partitionNames=[TWO, FOUR], assetSelection=TABLES, runConfigData=RESTORE)
    assert [run.status for run in sorted(restored, key=first_day)] == [
        dg.DagsterRunStatus.SUCCESS,
        dg.DagsterRunStatus.FAILURE,
    ]
    assert increments(tmp_path) == [0, 0, 0, 1, 0], "the day was withdrawn once, by the first run of the two"


def first_day(run: dg.DagsterRun) -> str:
    return run.tags.get("dagster/partition") or run.tags["dagster/asset_partition_range_start"]


@pytest.mark.slow
def test_of_a_backfill_that_fails_at_its_last_day_dagster_has_the_days_before(launched, tmp_path):
    """The fifth day has not landed whole. What was committed is reported, and checked."""
    land(launched, tmp_path)

    (run,) = launched.backfill(partitionNames=ALL, assetSelection=TABLES)

    assert run.status is dg.DagsterRunStatus.FAILURE
    assert "partition 2026-01-05" in said(run, launched)
    output = TABLES[3]
    assert [day for day, _ in reported(launched, output)] == ALL[:4]
    assert launched.stale_statuses(output, ALL) == ["FRESH"] * 4 + ["MISSING"]
    events = launched.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    told: list[Any] = [event.dagster_event.event_specific_data for event in events if event.dagster_event]
    assert "one_final_result_per_key_and_window" in {each.check_name for each in told}
    assert {each.passed for each in told} == {True}


@pytest.mark.slow
def test_a_landing_makes_no_day_out_of_date(launched, tmp_path):
    land(launched, tmp_path)
    (run,) = launched.backfill(partitionNames=[ONE, TWO], assetSelection=TABLES)
    assert run.status is dg.DagsterRunStatus.SUCCESS

    drop_days(tmp_path, 6)
    land(launched, tmp_path)

    assert [launched.stale_statuses(key, [ONE, TWO]) for key in TABLES] == [["FRESH"] * 2] * len(TABLES)
