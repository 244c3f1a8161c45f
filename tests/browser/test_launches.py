"""Runs that a person launches in Dagster's pages: with settings, a backfill of seven days, above a broken guarantee."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.browser import week
from tests.browser.conftest import dagster_dev, finished_runs, make_home
from tests.browser.pages import RUN_SECONDS, launch_backfill, press, save, shown, text, write_settings
from tests.dagster import shop
from tests.planted import tables_of

pytestmark = [pytest.mark.browser, pytest.mark.nightly, pytest.mark.slow]

LOCATION = "tests.browser.week"
ONCE = "one_final_result_per_key_and_window"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three pipelines' files, the week's landed, and Dagster's home."""
    folder = tmp_path_factory.mktemp("week")
    home = make_home(folder)
    week.drop_clicks(folder)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert week.definitions(folder).resolve_job_def("week_land").execute_in_process(instance=instance).success
    return folder


@pytest.fixture(scope="module")
def jobs(folder: Path) -> Iterator[str]:
    """Where the pages of the jobs are."""
    with dagster_dev(folder, LOCATION) as address:
        yield f"{address}/locations/{LOCATION}/jobs"


def records_read(folder: Path, pipeline: str) -> list[int]:
    """Of every increment."""
    ledger = Ledger(Warehouse(folder / pipeline / "warehouse").pipeline(pipeline).ledger)
    return [row.content.books["read"] for row in ledger.done_rows()]


def test_a_run_takes_the_settings_of_the_launchpad(browser, jobs, folder, artifacts):
    browser.get(f"{jobs}/launched_replay/playground")
    write_settings(browser, "ops:\n  launched_increments:\n    config:\n      max_records: 4\n")
    save(browser, artifacts / "dagster-launchpad.png")
    press(browser, "Launch Run")

    shown(browser, text("Success"), seconds=RUN_SECONDS)

    assert records_read(folder, "launched") == [4, 2]


def test_a_backfill_of_seven_days_is_one_run_and_its_tables_are_those_of_one_big_increment(
    browser, jobs, folder, artifacts
):
    launch_backfill(browser, f"{jobs}/week_replay")
    (run,) = finished_runs(folder, "week_replay")
    save(browser, artifacts / "dagster-backfill.png")

    with dg.DagsterInstance.from_config(str(folder / "home")) as instance:
        written = dg.AssetKey(["week", "outputs", "counts"]), dg.AssetKey(["week", "state", "windows"])
        assert [len(instance.get_materialized_partitions(key)) for key in written] == [7, 7]
    assert records_read(folder, "week") == [2, 2, 2, 2, 2, 2, 2]
    assert run.is_success
    days = run.tags["dagster/asset_partition_range_start"], run.tags["dagster/asset_partition_range_end"]
    assert days == ("2026-01-01", "2026-01-07")
    warehouse, topology = Warehouse(folder / "week" / "warehouse"), shop.windows(week.DAY, grace=week.DAY)
    until = week.JANUARY + 7 * week.DAY
    list(replay(warehouse, topology, pipeline="whole", runner=LocalRunner(), until_ms=until))
    assert tables_of(warehouse, "week", topology) == tables_of(warehouse, "whole", topology)


def test_a_broken_guarantee_is_shown_and_who_reads_the_output_does_not_run(browser, jobs, folder, artifacts):
    address = jobs.partition("/locations/")[0]
    browser.get(f"{jobs.removesuffix('jobs')}asset-groups/shop")
    press(browser, "Materialize all")
    (run,) = finished_runs(folder, "__ASSET_JOB")
    assert not run.is_success

    browser.get(f"{address}/assets/shop/outputs/sessions?view=checks&checkDetail={ONCE}")
    shown(
        browser, text("One final result per key and window. Broken in increment 1: expect_one_final_row_per_key_window")
    )
    shown(browser, text("This is a blocking asset check."))
    shown(browser, text("Failed"))
    save(browser, artifacts / "dagster-broken-guarantee.png")

    browser.get(f"{address}/assets/newsletter?view=events")
    shown(browser, f"//*[normalize-space()='Run {run.run_id[:8]} failed, and did not materialize this asset.']")
    shown(browser, text("No events found"))
    save(browser, artifacts / "dagster-blocked.png")
    assert not (folder / "newsletter").exists()
