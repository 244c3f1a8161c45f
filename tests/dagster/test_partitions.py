"""Partitions are cuts: a day is the increment that ends in each Kafka partition before the next day."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterExecutionInterruptedError

from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.code_changes.state_migration import MigrationOptions
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.recorded_time import record_time
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.tape.landed_slice import Slice
from kstreams_replay.orchestration.partitioned import assets as partitioned_assets
from kstreams_replay.state.errors import ConfigError
from tests.dagster import shop
from tests.dagster.conftest import errors, observed
from tests.dagster.days import CLICKS, DAY, DAYS, FOUR, JANUARY, ONE, RESTORE, THREE, TWO, Days, failure
from tests.dagster.duplicates import DuplicatingEngine
from tests.planted import tables_of
from tests.sampling import is_nightly

pytestmark = pytest.mark.sampled


@pytest.fixture
def days(tmp_path: Path) -> Iterator[Days]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Days(tmp_path, instance)


@pytest.fixture
def scheduled(tmp_path: Path) -> Iterator[Days]:
    """Its instance is on disk: a schedule opens it by its reference."""
    with dg.DagsterInstance.local_temp() as instance:
        yield Days(tmp_path, instance)


def test_a_day_ends_before_the_first_record_of_the_next(days):
    days.land(CLICKS)

    assert days.run(ONE).success
    assert days.run(TWO).success

    assert days.cuts() == [2, 4]
    told = days.materialized()
    assert [told[day]["increment"] for day in (ONE, TWO)] == [1, 2]
    assert [told[day]["records_late_for_earlier_partitions"] for day in (ONE, TWO)] == [0, 1]
    assert [told[day]["records_read"] for day in (ONE, TWO)] == [2, 2]


def test_a_backfill_is_one_run_whose_tables_equal_those_of_one_big_increment(days):
    days.land(CLICKS)

    result = days.run(ONE, FOUR)

    assert result.success
    assert days.cuts() == [2, 4, 5]
    told = days.materialized()
    assert {day: numbers["increment"] for day, numbers in told.items()} == {ONE: 1, TWO: 2, THREE: 2, FOUR: 3}
    until = JANUARY + 4 * DAY
    list(replay(days.warehouse, shop.topology(), pipeline="whole", runner=LocalRunner(), until_ms=until))
    assert tables_of(days.warehouse, "shop", shop.topology()) == tables_of(days.warehouse, "whole", shop.topology())


def test_thirty_days_of_one_backfill_are_one_big_increment(days):
    """
    Every day three users click, one a day late and one two; nightly thirty days, else three.
    """
    number = 30 if is_nightly() else 3
    days.replays(shop.windows(DAY, grace=DAY))
    days.land(
        [
            (user, "home", JANUARY + max(day - late, 0) * DAY + 1_000 * day + late)
            for day in range(number + 1)
            for late, user in enumerate(("ann", "bob", "cid"))
        ]
    )
    last = f"2026-01-{number:02d}"

    assert days.run(ONE, last).success

    assert len(days.cuts()) == number
    topology, until_ms = shop.windows(DAY, grace=DAY), JANUARY + number * DAY
    list(replay(days.warehouse, topology, pipeline="whole", runner=LocalRunner(), until_ms=until_ms))
    assert tables_of(days.warehouse, "shop", topology) == tables_of(days.warehouse, "whole", topology)
    assert len(days.materialized("counts")) == number


def test_a_day_runs_once_it_has_landed_whole(days):
    days.land(CLICKS[:3])

    refused = days.run(ONE, TWO)

    assert not refused.success
    assert "expected a record, or a recorded time, of 2026-01-03 00:00:00 or later" in failure(refused)
    assert "clicks, partition 0, has come to 2026-01-02 00:00:00.005" in failure(refused)
    assert "run it after the next landing" in failure(refused)
    assert refused_by(refused).startswith("Nothing is wrong")
    assert days.cuts() == [2]
    assert list(days.materialized()) == [ONE], "what was committed is reported"
    record_time(days.warehouse, "clicks", JANUARY + 2 * DAY)
    assert days.run(TWO).success
    assert days.cuts() == [2, 3]


def refused_by(result: dg.ExecuteInProcessResult) -> str:
    (event,) = [event for event in result.all_node_events if event.is_step_failure]
    return str(event.step_failure_data.user_failure_data.metadata["what to do"].value)


def test_a_gap_is_refused_with_the_days_that_are_missing(days):
    days.land(CLICKS)

    refused = days.run(FOUR)

    assert not refused.success
    assert "4 records; run 2026-01-01, 2026-01-02, 2026-01-03 first" in failure(refused)
    assert days.cuts() == []


def test_a_day_without_records_is_no_gap_and_is_told(days):
    days.land(CLICKS)

    assert days.run(ONE, TWO).success
    assert days.run(FOUR).success

    assert days.cuts() == [2, 4, 5]


def test_a_day_that_is_done_is_told_again_and_runs_nothing(days):
    days.land(CLICKS)
    assert days.run(ONE).success

    assert days.run(ONE).success

    assert days.cuts() == [2]
    assert days.materialized()[ONE]["increment"] == 1


def test_an_old_day_runs_again_only_when_its_config_says_so(days):
    days.land(CLICKS)
    assert days.run(ONE, FOUR).success

    refused = days.run(TWO)
    assert not refused.success
    assert "withdraws it and 1 later partitions" in failure(refused)

    assert days.run(TWO, restore=True).success
    assert days.cuts()[-1] == 4
    assert days.run(FOUR).success
    assert days.cuts()[-1] == 5
    list(replay(days.warehouse, shop.topology(), pipeline="w", runner=LocalRunner(), until_ms=JANUARY + 4 * DAY))
    assert tables_of(days.warehouse, "shop", shop.topology()) == tables_of(days.warehouse, "w", shop.topology())


def run_of_one_table(days: Days, day: str, table: str = "dropped", **more: Any) -> dg.ExecuteInProcessResult:
    """A day, of which one table alone is selected, so that little is checked."""
    job = days.definitions.resolve_job_def("shop_replay")
    alone = [dg.AssetKey(["shop", *table.split("/")])]
    return job.execute_in_process(
        instance=days.instance, raise_on_error=False, partition_key=day, asset_selection=alone, **more
    )


def test_a_restoring_run_that_is_launched_again_withdraws_nothing_a_second_time(days):
    days.land(CLICKS)
    until = {"until_ms": JANUARY + DAY}, {"until_ms": JANUARY + 2 * DAY}
    for each in until:
        list(replay(days.warehouse, shop.topology(), pipeline="shop", runner=LocalRunner(), **each))
    restoring = {"run_config": RESTORE}
    first = run_of_one_table(days, ONE, **restoring)
    assert days.cuts() == [2, 4, 0, 2]  # nothing is read, and the day once more
    launched_again = restoring | {"tags": {"dagster/parent_run_id": first.run_id}}

    assert run_of_one_table(days, ONE, **launched_again).success
    assert days.cuts() == [2, 4, 0, 2]
    list(replay(days.warehouse, shop.topology(), pipeline="shop", runner=LocalRunner(), **until[1]))
    refused = run_of_one_table(days, ONE, **launched_again)
    assert not refused.success
    assert "which has withdrawn the partition already; later ones were run since" in failure(refused)
    assert days.cuts() == [2, 4, 0, 2, 4]


def test_a_restore_that_is_launched_for_each_table_withdraws_once(days):
    """Dagster's own backfill of one level of the graph after the other, each by a run that says `restore`."""
    days.land(CLICKS)
    tables, restoring = ("dropped", "outputs/sessions"), {"run_config": RESTORE}
    assert days.run(ONE).success

    assert all(run_of_one_table(days, ONE, table, **restoring).success for table in tables)
    assert days.cuts() == [2, 0, 2]
    assert days.materialized()[ONE]["increment"] == 3

    assert run_of_one_table(days, ONE, tables[1], **restoring).success
    assert days.cuts() == [2, 0, 2, 0, 2], "what is asked for a second time is withdrawn once more"


def test_a_dry_run_names_what_a_restore_withdraws_and_leaves_it(days):
    days.land(CLICKS)
    assert days.run(ONE, FOUR).success

    result = days.run(TWO, restore=True, dry_run=True)

    told = observed(result)["shop/outputs/sessions"].metadata
    assert told["dry_run"].value.splitlines()[:3] == [
        "- 2 partitions are withdrawn, which must then run again: the pipeline continues after increment 1",
        "- dry run: 2 records would be read, in 1 increments",
        "- clicks, partition 0: offsets 2 to 4",
    ]
    assert days.cuts() == [2, 4, 5]
    whole = observed(days.run(ONE, FOUR, restore=True, dry_run=True))["shop/outputs/sessions"].metadata
    assert (whole["records_to_read"].value, whole["increments_to_run"].value) == (5, 3)
    assert days.run(ONE, FOUR, restore=True).success
    assert days.cuts() == [2, 4, 5, 0, 2, 4, 5]


def test_a_dry_run_of_a_restore_over_an_unfinished_increment_is_refused_as_the_restore_is(days):
    """
    The second day was planned by a run that died.
    """
    days.land(CLICKS)
    assert days.run(ONE).success
    with pytest.raises(RuntimeError, match="killed"):
        list(replay(days.warehouse, shop.topology(), pipeline="shop", runner=Killed(), until_ms=JANUARY + 2 * DAY))

    dry, restored = days.run(ONE, restore=True, dry_run=True), days.run(ONE, restore=True)

    assert "increment 2, planned and not done" in failure(dry)
    assert failure(dry) == failure(restored)


class Killed(LocalRunner):
    def run(self, *arguments: Any, **settings: Any) -> Any:
        raise RuntimeError("killed")


def test_a_backfill_that_died_on_its_way_is_launched_whole_and_goes_on(days):
    days.land(CLICKS)
    assert days.run(ONE, TWO).success

    assert days.run(ONE, FOUR).success

    assert days.cuts() == [2, 4, 5]
    assert list(days.materialized()) == [ONE, TWO, THREE, FOUR]


def test_a_backfill_that_is_cancelled_has_reported_the_days_that_it_committed(days, monkeypatch):
    """It is cancelled while its last day runs, which is committed and not reported."""
    days.land(CLICKS)

    def cancelled(pipeline, window, times):
        if window.key == FOUR:
            raise DagsterExecutionInterruptedError

    monkeypatch.setattr(partitioned_assets, "refuse_half", cancelled)

    with suppress(DagsterExecutionInterruptedError):
        assert not days.run(ONE, FOUR).success

    assert days.cuts() == [2, 4, 5]
    assert list(days.materialized()) == [ONE, TWO, THREE]
    monkeypatch.undo()
    assert days.run(ONE, FOUR).success
    assert days.cuts() == [2, 4, 5]
    assert list(days.materialized()) == [ONE, TWO, THREE, FOUR]


def test_a_day_says_how_many_rows_it_wrote(days):
    days.land(CLICKS)

    assert days.run(ONE, FOUR).success

    told = days.materialized()
    rows = {day: (told[day]["dagster/partition_row_count"], told[day]["dagster/row_count"]) for day in told}
    totals = [total for _, total in rows.values()]
    assert [total - before for total, before in zip(totals, [0, *totals[:-1]], strict=True)] == [
        added for added, _ in rows.values()
    ]
    assert totals[-1] > 0
    assert rows[THREE][0] == 0, "nobody clicks"


def test_a_broken_guarantee_names_the_day_beside_its_increment(days):
    days.land(CLICKS)
    assert days.run(ONE).success
    days.definitions = shop.definitions(days.root, engine=DuplicatingEngine(), check_engine="plain", partitions=DAYS)

    (broken,) = errors(days.run(TWO))

    assert broken.description == (
        "One final result per key and window. Broken in increment 2, partition 2026-01-02: "
        "expect_one_final_row_per_key_window"
    )


def test_restore_of_what_was_never_run_is_refused(days):
    days.land(CLICKS)

    refused = days.run(ONE, restore=True)

    assert not refused.success
    assert "expected one that was run before" in failure(refused)


def test_restore_of_what_was_never_run_is_refused_behind_a_restatement_too(days):
    days.land(CLICKS)
    assert run_of_one_table(days, ONE).success
    restore(days.warehouse, "shop", 1)

    refused = run_of_one_table(days, TWO, run_config=RESTORE)

    assert not refused.success
    assert "partition 2026-01-02: expected one that was run before, got one that was not; launch it without" in failure(
        refused
    )
    assert days.cuts() == [2, 2]


def test_a_restoring_run_that_died_before_it_could_say_so_continues_from_there(days):
    days.land(CLICKS)
    assert run_of_one_table(days, ONE).success
    restore(days.warehouse, "shop", 0)

    assert run_of_one_table(days, ONE, run_config=RESTORE).success

    assert days.cuts() == [2, 0, 2]


def test_an_increment_of_no_partition_is_named(days):
    days.land(CLICKS)
    list(replay(days.warehouse, shop.topology(), pipeline="shop", runner=LocalRunner(), max_records=1, increments=1))

    refused = days.run(ONE)

    assert not refused.success
    assert "increment 1, which was run without --until" in failure(refused)


def test_a_tick_runs_the_next_day_once_it_has_landed_whole(scheduled):
    schedule = scheduled.definitions.resolve_schedule_def("shop_schedule")
    scheduled.land(CLICKS[:2])
    context = dg.build_schedule_context(
        instance=scheduled.instance, repository_def=scheduled.definitions.get_repository_def()
    )
    skipped = schedule.evaluate_tick(context)
    assert skipped.run_requests == []
    assert "partition 2026-01-01 has not landed whole: clicks, partition 0" in str(skipped.skip_message)

    scheduled.land(CLICKS[2:], "2")
    assert [request.partition_key for request in schedule.evaluate_tick(context).run_requests] == [ONE]
    assert scheduled.run(ONE).success
    assert [request.partition_key for request in schedule.evaluate_tick(context).run_requests] == [TWO]


def next_day(days) -> list[str | None]:
    """Of the next tick."""
    repository = days.definitions.get_repository_def()
    context = dg.build_schedule_context(instance=days.instance, repository_def=repository)
    schedule = days.definitions.resolve_schedule_def("shop_schedule")
    return [request.partition_key for request in schedule.evaluate_tick(context).run_requests]


def test_a_tick_passes_over_a_day_without_records(scheduled):
    scheduled.land(CLICKS)
    assert scheduled.run(ONE, TWO).success

    assert next_day(scheduled) == [FOUR]


def test_a_day_of_which_a_run_died_is_not_done(scheduled):
    scheduled.land(CLICKS)
    died = {"max_records": 1, "increments": 1, "until_ms": JANUARY + DAY}
    list(replay(scheduled.warehouse, shop.topology(), pipeline="shop", runner=LocalRunner(), **died))

    assert next_day(scheduled) == [ONE]
    assert "run 2026-01-01 first" in failure(scheduled.run(TWO))
    assert scheduled.run(ONE).success
    assert scheduled.cuts() == [1, 2]
    assert scheduled.materialized()[ONE]["records_read"] == 2


def test_late_is_what_the_extractor_says(days):
    """
    Landed with the times of its files; the extractor puts every click a day later, so that ann's second one is late
    for the third day and in time for the second.
    """
    days.replays(shop.windows(DAY, timestamp_extractor=f"record_time_ms + {DAY}"))
    days.land(CLICKS)

    assert days.run(ONE, THREE).success

    told = days.materialized("counts")
    assert [told[day]["records_late_for_earlier_partitions"] for day in (ONE, TWO, THREE)] == [0, 0, 1]
    assert [told[day]["records_read"] for day in (TWO, THREE)] == [2, 2]


def test_a_migration_stands_between_partitions(scheduled):
    scheduled.replays(shop.windows(DAY))
    scheduled.land(CLICKS)
    assert scheduled.run(ONE).success
    coarser = shop.windows(2 * DAY)
    wanted = MigrationOptions(migrate={"windows": lambda rows: rows})
    migration = {"runner": LocalRunner(), "wanted": wanted, "until_ms": JANUARY + DAY}
    list(replay(scheduled.warehouse, coarser, pipeline="shop", **migration))
    scheduled.replays(coarser)

    assert next_day(scheduled) == [TWO]
    assert scheduled.run(TWO).success
    assert scheduled.cuts() == [2, 2, 4]
    assert scheduled.run(TWO, restore=True).success
    assert scheduled.cuts() == [2, 2, 4, 2, 4], "the migration stays"


def test_after_a_flush_ticks_pass_and_say_why(scheduled):
    scheduled.land(CLICKS[:3])
    record_time(scheduled.warehouse, "clicks", JANUARY + 2 * DAY)
    assert scheduled.run(ONE, TWO).success
    list(replay(scheduled.warehouse, shop.topology(), pipeline="shop", runner=LocalRunner(), flush_at_end=True))

    scheduled.land(CLICKS[4:], "2")

    repository = scheduled.definitions.get_repository_def()
    context = dg.build_schedule_context(instance=scheduled.instance, repository_def=repository)
    skipped = scheduled.definitions.resolve_schedule_def("shop_schedule").evaluate_tick(context)
    assert "history was flushed after increment 4" in str(skipped.skip_message)


def test_a_backfill_reads_the_times_of_landed_records_once(days, monkeypatch):
    days.land([("ann", "home", JANUARY + day * DAY + 1) for day in range(4)])
    rows, offsets_and = [], Slice.offsets_and

    def counted(self, name):
        found = offsets_and(self, name)
        rows.append(len(found[0]))
        return found

    monkeypatch.setattr(Slice, "offsets_and", counted)

    assert days.run(ONE, THREE).success

    assert days.cuts() == [1, 2, 3]
    assert sum(rows) == 4


def test_a_number_of_increments_beside_partitions_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected none beside partitions"):
        shop.definitions(tmp_path, partitions=DAYS, increments=1)


def test_topics_are_landed_by_a_job_of_their_own(days):
    names = {job.name for job in days.definitions.resolve_all_job_defs()}
    schedules = {schedule.name: schedule.job_name for schedule in days.definitions.schedules or ()}

    assert {"shop_land", "shop_replay"} <= names
    assert schedules == {"shop_schedule": "shop_replay", "shop_land_schedule": "shop_land"}
