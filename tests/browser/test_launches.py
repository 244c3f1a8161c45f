"""Runs that a person launches in Dagster's pages, with settings typed in the launchpad."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.browser import week
from tests.browser.conftest import dagster_dev, make_home
from tests.browser.pages import RUN_SECONDS, press, save, shown, text, write_settings

pytestmark = [pytest.mark.browser, pytest.mark.nightly, pytest.mark.slow]

LOCATION = "tests.browser.week"


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
