"""Days that were cut on the way: by `max_records`, or by a command that read up to a time in the middle of one."""

import dagster as dg
import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.orchestration.metadata import Metadata
from tests.dagster import shop
from tests.dagster.days import CLICKS, DAY, JANUARY, ONE, TWO, Days, failure

pytestmark = pytest.mark.sampled

NOON = JANUARY + 20
"""Between the two clicks of the first day."""


@pytest.fixture
def landed(tmp_path):
    with dg.DagsterInstance.ephemeral() as instance:
        made = Days(tmp_path, instance)
        made.land(CLICKS)
        yield made


def replay_until(days: Days, time_ms: int) -> None:
    """As the command does."""
    asked = {"pipeline": "shop", "runner": LocalRunner(), "until_ms": time_ms}
    list(replay(days.warehouse, shop.topology(), **asked))


def offsets(said: Metadata) -> list[dict[str, object]]:
    return [dict(row.data) for row in said["cut"].records]


WHOLE_DAY = [{"topic": "clicks", "partition": 0, "from": 0, "to": 2}]


@pytest.mark.parametrize("cut", ["by the command", "by max_records"])
def test_a_day_of_two_increments_is_reported_with_the_numbers_of_both(landed, cut):
    """
    Two clicks, each with an increment of its own.
    """
    if cut == "by the command":
        replay_until(landed, NOON)
    assert landed.run(ONE, **({} if cut == "by the command" else {"max_records": 1})).success

    said = landed.materialized()[ONE]
    assert (said["increment"], said["records_read"], said["records_applied"]) == (2, 2, 2)
    assert offsets(said) == WHOLE_DAY
    assert said["dagster/partition_row_count"] == 1
    assert landed.materialized("pages")[ONE]["records_read"] == 2


def test_a_day_that_a_command_has_cut_is_withdrawn_whole(landed):
    replay_until(landed, NOON)
    assert landed.run(ONE).success

    assert landed.run(ONE, restore=True).success

    assert landed.cuts() == [1, 2, 0, 2]
    said = landed.materialized()[ONE]
    assert (said["records_read"], offsets(said)) == (2, WHOLE_DAY)


def test_withdrawn_are_days_and_not_ends_of_increments(landed):
    """
    The second day, too, has two increments.
    """
    for time_ms in (NOON, JANUARY + DAY, JANUARY + DAY + 6, JANUARY + 2 * DAY):
        replay_until(landed, time_ms)

    refused = failure(landed.run(ONE))
    assert "to run it again withdraws it and 1 later partitions" in refused
    dry = landed.run(ONE, restore=True, dry_run=True)
    told = [event.asset_observation_data.asset_observation for event in dry.get_asset_observation_events()]
    assert "2 partitions are withdrawn" in str(told[0].metadata["dry_run"].value)


def test_a_day_whose_end_an_increment_read_over_is_not_reported_as_one_with_nothing_new(landed):
    """
    The command reads both clicks of the first day and none of the second, up to a time in the second; then the one of
    that time.
    """
    replay_until(landed, JANUARY + DAY + 6)

    refused = failure(landed.run(ONE, TWO))

    assert "partition 2026-01-01: expected an increment that ends at 2026-01-02 00:00:00, got increment 1" in refused
    assert "which read over it up to 2026-01-02 00:00:00.006" in refused
    assert landed.materialized() == {}


def test_a_day_without_records_that_was_read_over_is_reported(landed):
    replay_until(landed, JANUARY + DAY)
    replay_until(landed, JANUARY + 2 * DAY)
    replay_until(landed, JANUARY + 4 * DAY)

    assert landed.run("2026-01-03", "2026-01-04").success

    said = landed.materialized()
    assert said["2026-01-03"]["nothing_new"] is True
    assert said["2026-01-04"]["records_read"] == 1
