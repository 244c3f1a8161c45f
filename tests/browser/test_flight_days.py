"""Thirty days of the flights are one backfill, which a person launches in Dagster's pages, and one run."""

from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from examples.flights.definitions import flights
from examples.flights.topics import write_topics
from examples.flights.topology import topology
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.orchestration.resources import LocalEngine
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.browser.conftest import dagster_dev, finished_runs, make_home
from tests.browser.flight_days import THIRTY_DAYS
from tests.browser.pages import launch_backfill, save
from tests.planted import tables_of

pytestmark = [pytest.mark.browser, pytest.mark.nightly, pytest.mark.slow]

LOCATION = "tests.browser.flight_days"
TABLES = ("outputs/departures_per_hour", "outputs/aircraft_sessions", "dropped")
STORES = ("hours", "open-hours-store", "duties", "open-duties-store")
WRITTEN = (*TABLES, "dead_letter", *(f"state/{name}" for name in STORES))
THE_31ST = 1_359_590_400_000  # 2013-01-31T00:00:00Z


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """January's flights, landed, and Dagster's home."""
    home = make_home(tmp_path)
    write_topics(tmp_path / "all")
    for file in (tmp_path / "all").rglob("2013-01*"):
        arrived = tmp_path / "incoming" / file.relative_to(tmp_path / "all")
        arrived.parent.mkdir(parents=True, exist_ok=True)
        file.rename(arrived)
    landing = flights(tmp_path, engine=LocalEngine(), partitions=THIRTY_DAYS).resolve_job_def("flights_land")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert landing.execute_in_process(instance=instance).success
    return tmp_path


def days_of_assets(folder: Path) -> dict[str, int]:
    """How many days Dagster has of each asset that a day writes; the page draws those nodes alone that fit into it."""
    with dg.DagsterInstance.from_config(str(folder / "home")) as instance:
        return {
            name: len(instance.get_materialized_partitions(dg.AssetKey(["flights", *name.split("/")])))
            for name in WRITTEN
        }


def rows_of(folder: Path, pipeline: str, table: str) -> pl.DataFrame:
    """What polars alone reads of a table, but for the increment, which a cut changes; no two rows have one place."""
    rows = pl.read_delta(str(folder / "tables" / pipeline / table)).drop("increment")
    assert len(rows) > 1_000
    assert not rows.select("partition", "offset").is_duplicated().any()
    return rows.sort("partition", "offset")


def test_thirty_days_of_flights_are_one_run_and_its_tables_are_those_of_one_big_increment(browser, folder, artifacts):
    with dagster_dev(folder, LOCATION) as address:
        launch_backfill(browser, f"{address}/locations/{LOCATION}/jobs/flights_replay")
        save(browser, artifacts / "dagster-thirty-days.png")
        (run,) = finished_runs(folder, "flights_replay")
        assert days_of_assets(folder) == dict.fromkeys(WRITTEN, 30)

    assert run.is_success
    days = run.tags["dagster/asset_partition_range_start"], run.tags["dagster/asset_partition_range_end"]
    assert days == ("2013-01-01", "2013-01-30")
    warehouse = Warehouse(folder / "tables")
    assert len(Ledger(warehouse.pipeline("flights").ledger).done_rows()) == 30
    list(replay(warehouse, topology, pipeline="whole", runner=LocalRunner(), until_ms=THE_31ST))
    assert len(Ledger(warehouse.pipeline("whole").ledger).done_rows()) == 1
    for table in TABLES:
        assert_frame_equal(rows_of(folder, "flights", table), rows_of(folder, "whole", table))
    assert tables_of(warehouse, "flights", topology) == tables_of(warehouse, "whole", topology)
