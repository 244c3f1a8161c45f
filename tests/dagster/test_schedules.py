"""The schedule: it starts the job unless a run of it is still at work."""

import dagster as dg
import pytest

from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.state.errors import ConfigError
from tests.dagster import shop


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


def test_a_tick_leaves_the_work_to_a_run_that_is_still_at_it(tmp_path, instance):
    definitions = shop.definitions(tmp_path, cron="0 * * * *")
    running = instance.create_run_for_job(
        definitions.resolve_job_def("shop_replay"), status=dg.DagsterRunStatus.STARTED
    )

    result = tick(definitions, instance)

    assert result.run_requests == []
    assert result.skip_message == f"run {running.run_id} is still at work"


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
    ],
)
def test_a_wrong_setting_is_refused_when_definitions_are_built(tmp_path, setting, sentence):
    settings = {"pipeline": "shop", "warehouse": tmp_path} | setting

    with pytest.raises(ConfigError) as refused:
        replay_definitions(shop.topology(), **settings)

    assert str(refused.value).startswith(sentence)
