"""Stream time against the clock: a check that warns, also in a run with nothing new, and a schedule that makes it."""

import datetime as dt

import dagster as dg
import pytest

from kstreams_replay.orchestration import checks
from kstreams_replay.orchestration.quality.freshness import Freshness
from kstreams_replay.state.errors import ConfigError
from tests.dagster import shop


def said(result, output="pages"):
    (found,) = [
        each
        for each in result.get_asset_check_evaluations()
        if each.check_name == "stream_time_is_fresh" and each.asset_key.path[-1] == output
    ]
    return found


def test_an_output_is_fresh_within_its_time_and_warns_behind_it(small_shop, monkeypatch):
    at_ms = [1_210]  # the morning's stream time is 210
    monkeypatch.setattr(checks, "now_ms", lambda: at_ms[0])
    defs = shop.definitions(small_shop.root, check_engine="plain", fresh_within=1_000)

    assert said(small_shop.run(defs)).passed
    at_ms[0] += 1
    quiet = small_shop.run(defs)

    assert quiet.success, "it only warns"
    assert not said(quiet).passed
    assert said(quiet).severity is dg.AssetCheckSeverity.WARN
    assert said(quiet).description == (
        "Stream time is 1970-01-01 00:00:00.210, 0:00:01 behind the clock; at most 0:00:01 is fresh."
    )
    assert said(quiet).metadata["seconds_behind"].value == 1.001


def test_a_task_that_one_record_put_ahead_of_the_clock_is_not_fresh(small_shop, monkeypatch):
    """The clock says 100, the morning's stream time at 210: 110 ahead, of which 109 is fresh, or 110."""
    monkeypatch.setattr(checks, "now_ms", lambda: 100)
    defs = [shop.definitions(small_shop.root, check_engine="plain", fresh_within=within) for within in (109, 110)]

    wrong, fresh = (said(small_shop.run(each)) for each in defs)

    assert (wrong.passed, fresh.passed) == (False, True)
    assert wrong.description == (
        "Tasks 0_0 (1970-01-01 00:00:00.210), 1_0 (1970-01-01 00:00:00.210) are ahead of the clock, as a record with a "
        "wrong time makes them, and no other task says how fresh the output is."
    )
    assert fresh.description == (
        "Stream time is 1970-01-01 00:00:00.210, 0:00:00 ahead of the clock; at most 0:00:00.110000 is fresh."
    )


def test_the_other_tasks_say_how_fresh_an_output_is():
    """Of times 5, 990 and 4,000 at 1,000 with 200 within: 4,000 is not counted, and 990 is 10 behind."""
    found = Freshness.of({"0_0": 5, "0_1": 990, "0_2": 4_000}, at_ms=1_000, within_ms=200)

    assert (found.stream_time_ms, found.behind_ms, found.is_fresh, found.ahead) == (990, 10, True, {"0_2": 4_000})
    assert not Freshness.of({"0_0": 799, "0_2": 4_000}, at_ms=1_000, within_ms=200).is_fresh
    assert str(found).endswith(" Task 0_2 (1970-01-01 00:00:04) is ahead of the clock, as a record with a wrong "
                               "time makes it, and not counted.")  # fmt: skip


def test_a_schedule_makes_the_check_when_nothing_runs(small_shop, monkeypatch):
    monkeypatch.setattr(checks, "now_ms", lambda: 5)
    defs = shop.definitions(small_shop.root, check_engine="plain", fresh_within="1h")
    schedules = {each.name: each.cron_schedule for each in defs.schedules or ()}
    assert schedules == {"shop_freshness_schedule": "*/15 * * * *"}

    job = defs.resolve_job_def("shop_freshness")
    result = job.execute_in_process(instance=small_shop.instance)

    assert result.success
    assert [each.check_name for each in result.get_asset_check_evaluations()] == ["stream_time_is_fresh"] * 2
    assert said(result).description == "Nothing has been replayed yet; at most 1:00:00 behind the clock is fresh."


def test_without_a_time_there_is_no_such_check(small_shop):
    defs = shop.definitions(small_shop.root)

    names = {key.name for check in defs.asset_checks or () for key in check.check_keys}  # type: ignore[union-attr]
    assert "stream_time_is_fresh" not in names


def test_outputs_alone_have_dagsters_policy_of_the_same_time(small_shop):
    """A minute is the shortest time that Dagster takes."""
    defs = shop.definitions(small_shop.root, check_engine="plain", fresh_within="1m", freshness_policy=True)

    policies = {spec.key.to_user_string(): spec.freshness_policy for spec in defs.resolve_all_asset_specs()}
    minute = dg.FreshnessPolicy.time_window(dt.timedelta(minutes=1))
    assert {name for name, policy in policies.items() if policy == minute} == {
        "shop/outputs/sessions", "shop/outputs/pages",
    }  # fmt: skip
    assert [policy for name, policy in policies.items() if "/outputs/" not in name and policy is not None] == []
    assert small_shop.run(defs).success


def test_without_the_option_no_asset_has_a_policy(small_shop):
    specs = shop.definitions(small_shop.root, fresh_within="1m").resolve_all_asset_specs()

    assert [spec.key for spec in specs if spec.freshness_policy is not None] == []


@pytest.mark.parametrize(("within", "got"), [(None, "none"), ("59s", "59000 ms")])
def test_a_policy_without_a_time_that_dagster_takes_is_refused(small_shop, within, got):
    with pytest.raises(ConfigError, match=f"^freshness_policy: expected fresh_within beside it.*, got {got}; set"):
        shop.definitions(small_shop.root, fresh_within=within, freshness_policy=True)


def test_partitions_have_the_policy_too(small_shop):
    days = dg.DailyPartitionsDefinition("1970-01-01")
    defs = shop.definitions(small_shop.root, fresh_within="1d", freshness_policy=True, partitions=days)

    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    assert specs["shop/outputs/pages"].freshness_policy == dg.FreshnessPolicy.time_window(dt.timedelta(days=1))
