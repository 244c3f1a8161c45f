"""The schedule: it starts the job unless a run of it is still at work; what is lost or hangs is not waited for."""

import datetime as dt
import os
import time
from unittest import mock

import dagster as dg
import pytest
import yaml
from dagster._core.instance.ref import InstanceRef
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus

from kstreams_replay.jobs.replay.heartbeats import beating, heartbeat_of
from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.orchestration.pipeline import Pipeline
from kstreams_replay.orchestration.resources import LocalEngine
from kstreams_replay.orchestration.schedules import RunJudgement, judged
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop
from tests.source_tree import ROOT

pytestmark = pytest.mark.sampled


@pytest.fixture
def instance():
    """On disk: a schedule opens the instance by its reference."""
    with dg.DagsterInstance.local_temp() as made:
        yield made


def tick(definitions: dg.Definitions, instance: dg.DagsterInstance):
    schedule = definitions.resolve_schedule_def("shop_schedule")
    context = dg.build_schedule_context(instance=instance, repository_def=definitions.get_repository_def())
    return schedule.evaluate_tick(context)


def test_a_tick_starts_the_job(tmp_path, instance):
    definitions = shop.definitions(tmp_path, cron="0 * * * *")

    (request,) = tick(definitions, instance).run_requests

    assert request.tags["dagster/schedule_name"] == "shop_schedule"
    schedule = definitions.resolve_schedule_def("shop_schedule")
    assert (schedule.job_name, schedule.cron_schedule) == ("shop_replay", "0 * * * *")
    assert schedule.execution_timezone == "UTC"


@pytest.mark.parametrize(
    ("settings", "zone"),
    [
        ({}, "UTC"),
        ({"cron_timezone": "Asia/Tokyo"}, "Asia/Tokyo"),
        ({"partitions": dg.DailyPartitionsDefinition("2026-01-01", timezone="Europe/Berlin")}, "Europe/Berlin"),
        (
            {
                "partitions": dg.DailyPartitionsDefinition("2026-01-01", timezone="Europe/Berlin"),
                "cron_timezone": "Asia/Tokyo",
            },
            "Asia/Tokyo",
        ),
    ],
)
def test_a_schedule_is_in_the_zone_of_its_partitions_unless_another_is_said(tmp_path, settings, zone):
    definitions = shop.definitions(tmp_path, cron="0 4 * * *", **settings)

    assert {schedule.execution_timezone for schedule in definitions.schedules or ()} == {zone}


def begun(definitions: dg.Definitions, instance: dg.DagsterInstance, status=dg.DagsterRunStatus.STARTED) -> str:
    """Id of a run of the job that has not ended."""
    job = definitions.resolve_job_def("shop_replay")
    return instance.create_run_for_job(job, status=status, tags=job.tags).run_id


def tables(root):
    return Warehouse(root / "warehouse").pipeline("shop")


def set_clock(monkeypatch, at_ms: int) -> None:
    monkeypatch.setattr("kstreams_replay.orchestration.schedules.now_ms", lambda: at_ms)


def test_a_tick_leaves_the_work_to_a_run_that_is_still_at_it(tmp_path, instance):
    definitions = shop.definitions(tmp_path, cron="0 * * * *")
    running = begun(definitions, instance)

    result = tick(definitions, instance)

    assert result.run_requests == []
    assert result.skip_message == f"run {running} is still at work"


def test_a_run_in_the_queue_is_waited_for_however_long_it_takes(small_shop):
    queued = mock.Mock(create_timestamp=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    queued.dagster_run.status, queued.dagster_run.run_id = dg.DagsterRunStatus.QUEUED, "x"
    pipeline = Pipeline("shop", shop.topology(), small_shop.warehouse, LocalEngine(), max_runtime_ms=1)

    found = judged(pipeline, small_shop.instance, queued, time.time_ns() // 1_000_000)

    assert found == RunJudgement("run x is still in the queue", is_waited_for=True)


def test_a_tick_says_what_the_run_is_at_that_it_leaves_the_work_to(tmp_path, instance):
    definitions = shop.definitions(tmp_path, cron="0 * * * *")
    running = begun(definitions, instance)

    with beating(tables(tmp_path), running, "increment 3") as heart:
        while heartbeat_of(tables(tmp_path), running) is None:
            heart.beat()
        result = tick(definitions, instance)

    assert result.skip_message.startswith(f"run {running} is still at work: increment 3 (heartbeat of ")
    assert heartbeat_of(tables(tmp_path), running) is None


def test_a_run_whose_heart_stopped_is_lost_and_the_next_one_begins(tmp_path, instance, monkeypatch):
    definitions = shop.definitions(tmp_path, cron="0 * * * *")
    lost, path = begun(definitions, instance), tables(tmp_path).heartbeat
    os.makedirs(os.path.dirname(path(lost)))
    with open(path(lost), "w") as file:
        file.write("increment 3")
    written_ms = heartbeat_of(tables(tmp_path), lost).written_at_ms
    set_clock(monkeypatch, written_ms + 300_000)
    assert tick(definitions, instance).run_requests == []
    set_clock(monkeypatch, written_ms + 300_001)

    result = tick(definitions, instance)

    assert len(result.run_requests) == 1
    assert instance.get_run_by_id(lost).status is dg.DagsterRunStatus.FAILURE
    said = [event.message for event in instance.all_logs(lost) if event.is_dagster_event]
    assert any(f"run {lost} is lost: its last heartbeat is of" in message for message in said)
    assert any("when it was at: increment 3" in message for message in said)
    assert not os.path.exists(path(lost))


def test_a_run_whose_process_is_gone_is_lost(tmp_path, instance, monkeypatch):
    definitions = shop.definitions(tmp_path, cron="0 * * * *")
    lost = begun(definitions, instance)
    launcher = type(instance.run_launcher)
    monkeypatch.setattr(launcher, "supports_check_run_worker_health", True)
    health = CheckRunHealthResult(WorkerStatus.FAILED, "exit code 137")
    monkeypatch.setattr(launcher, "check_run_worker_health", lambda self, run: health)

    result = tick(definitions, instance)

    assert len(result.run_requests) == 1
    assert instance.get_run_by_id(lost).status is dg.DagsterRunStatus.FAILURE


def test_a_run_that_never_began_is_lost_after_a_quarter_of_an_hour(tmp_path, instance, monkeypatch):
    definitions = shop.definitions(tmp_path, cron="0 * * * *")
    lost = begun(definitions, instance, dg.DagsterRunStatus.STARTING)
    assert tick(definitions, instance).run_requests == []
    set_clock(monkeypatch, time.time_ns() // 1_000_000 + 901_000)

    result = tick(definitions, instance)

    assert len(result.run_requests) == 1
    assert instance.get_run_by_id(lost).status is dg.DagsterRunStatus.FAILURE


def test_a_run_that_hangs_beyond_its_max_runtime_is_not_waited_for_but_left_to_run_monitoring(
    tmp_path, instance, monkeypatch
):
    definitions = shop.definitions(tmp_path, cron="0 * * * *", max_runtime="1m")
    hangs = begun(definitions, instance)
    set_clock(monkeypatch, time.time_ns() // 1_000_000 + 60_001)

    with beating(tables(tmp_path), hangs, "increment 3"):
        result = tick(definitions, instance)

    assert len(result.run_requests) == 1
    assert instance.get_run_by_id(hangs).status is dg.DagsterRunStatus.STARTED


def test_a_run_over_another_warehouse_is_not_waited_for(tmp_path, instance):
    begun(shop.definitions(tmp_path / "other", cron="0 * * * *"), instance)

    assert len(tick(shop.definitions(tmp_path, cron="0 * * * *"), instance).run_requests) == 1


@pytest.mark.parametrize(
    ("setting", "tag"), [({}, "86400"), ({"max_runtime": dt.timedelta(hours=2)}, "7200"), ({"max_runtime": None}, None)]
)
def test_a_run_has_a_longest_time_by_default(tmp_path, setting, tag):
    job = shop.definitions(tmp_path, **setting).resolve_job_def("shop_replay")

    assert job.tags.get("dagster/max_runtime") == tag


def test_the_heart_beats_while_a_run_is_at_work_and_is_silent_after_it(small_shop, monkeypatch):
    seen = []
    monkeypatch.setattr("kstreams_replay.jobs.replay.heartbeats.Heart.say", lambda self, words: seen.append(words))

    small_shop.run()

    assert seen[:2] == ["landing clicks", "replaying"]
    assert seen[-1] == "checks"
    assert os.listdir(small_shop.root / "warehouse" / "shop" / "_heartbeats") == []


def test_the_example_of_instance_settings_is_one_that_dagster_takes(tmp_path):
    settings = yaml.safe_load((ROOT / "examples" / "dagster.yaml").read_text())
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(settings))

    with dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(tmp_path))) as instance:
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_start_timeout_seconds == 300


def test_there_is_no_schedule_without_a_cron(tmp_path):
    assert not shop.definitions(tmp_path).schedules


def test_steps_of_the_job_share_one_process(tmp_path):
    definitions = shop.definitions(tmp_path)

    assert definitions.resolve_job_def("shop_replay").executor_def is dg.in_process_executor
    assert definitions.executor is dg.in_process_executor  # what the UI's "Materialize" uses


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"check_engine": "ge"}, "check_engine: expected 'gx' or 'plain', got 'ge'; choose one"),
        ({"idle": "never"}, 'idle: expected "wait" or "proceed", got \'never\'; choose one'),
        ({"pipeline": "a/b"}, "pipeline: expected letters, digits"),
        ({"cron_timezone": "Berlin"}, "cron_timezone: expected the name of a time zone, got 'Berlin'; write it as"),
        (
            {"cron_timezone": "Asia/Tokyo"},
            "cron_timezone: expected cron beside it, got none; set cron, or leave it out",
        ),
        *(
            ({name: 0}, f"{name}: expected a whole number of 1 or more, got 0; correct it, or leave it out")
            for name in ("max_records", "increments", "verify_increments", "max_runtime", "fresh_within")
        ),
        ({"max_records": -5}, "max_records: expected a whole number of 1 or more, got -5;"),
        ({"max_records": "5"}, "replay_definitions, max_records: expected int | None, got '5';"),
        ({"max_records": True}, "max_records: expected a whole number of 1 or more, got True;"),
    ],
)
def test_a_wrong_setting_is_refused_when_definitions_are_built(tmp_path, setting, sentence):
    settings = {"pipeline": "shop", "warehouse": tmp_path} | setting

    with pytest.raises(ConfigError) as refused:
        replay_definitions(shop.topology(), **settings)

    assert str(refused.value).startswith(sentence)
