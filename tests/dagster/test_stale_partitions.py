"""Days that were reported and are not what the pipeline has any more: withdrawn by a restore, or with other rows."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from kstreams_replay.jobs.branches.backfill import backfill
from kstreams_replay.jobs.branches.promotion import promote
from kstreams_replay.jobs.execution.task_run import LocalRunner
from tests.dagster import shop
from tests.dagster.days import CLICKS, DAY, FOUR, JANUARY, ONE, THREE, TWO, Days

pytestmark = pytest.mark.sampled

CURRENT = "Nothing of a partition was withdrawn or replaced after it was reported."


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Days]:
    """Clicks of every user and day: on the third nobody clicks."""
    with dg.DagsterInstance.ephemeral() as instance:
        days = Days(tmp_path, instance)
        days.replays(shop.windows(DAY))
        days.land(CLICKS)
        yield days


def said(result: dg.ExecuteInProcessResult) -> tuple[bool, str, str]:
    """By the check: whether it passed, its sentence, and the stale days."""
    assert result.success
    (found,) = (
        each for each in result.get_asset_check_evaluations() if each.check_name == "reported_partitions_are_current"
    )
    assert found.metadata["partitions_stale"].value == len(str(found.metadata["stale"].value).split())
    return found.passed, str(found.description), str(found.metadata["stale"].value)


def test_a_restore_makes_the_days_after_it_stale_until_they_are_run_again(counted):
    assert said(counted.run(ONE, FOUR)) == (True, CURRENT, "")

    withdrawn = "Withdrawn since they were reported: {}. Run them again, up to the last one, and then what reads them."
    days = f"{THREE}, {FOUR}"
    assert said(counted.run(TWO, restore=True)) == (False, withdrawn.format(days), days)
    assert said(counted.run(FOUR)) == (False, withdrawn.format(THREE), THREE), (
        "it has no record, and another day before it"
    )
    assert said(counted.run(THREE, FOUR)) == (True, CURRENT, "")


def test_a_promoted_backfill_makes_the_days_of_its_range_stale(counted):
    assert said(counted.run(ONE, FOUR)) == (True, CURRENT, "")
    range_ = {"from_ms": JANUARY + DAY, "to_ms": JANUARY + 2 * DAY}
    topology = shop.windows(DAY)
    backfill(counted.warehouse, topology, pipeline="shop", name="again", runner=LocalRunner(), **range_)
    promote(counted.warehouse, "again")

    replaced = (
        f"With rows that a promoted backfill has replaced since: {TWO}. Run just them, without `restore`: they are "
        "reported again, nothing is withdrawn, and then what reads them."
    )
    assert said(counted.run(FOUR)) == (False, replaced, TWO)
    increments = counted.cuts()
    assert said(counted.run(TWO)) == (True, CURRENT, "")
    assert counted.cuts() == increments, "nothing ran, nothing was withdrawn"
    promoted = "increment-2-epoch-0-replaced-in-4"
    assert counted.versions("counts")[TWO] == promoted, "so what was made from the day is out of date"
    assert not counted.run(TWO).success, "reported as it is, it would be run again"
