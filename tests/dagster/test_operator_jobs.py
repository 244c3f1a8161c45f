"""Jobs that a person launches: plan changed code, promote a branch, restore, vacuum."""

from typing import Any

import dagster as dg
import pytest

from kstreams_replay.jobs.branches.branches import branches
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.landing import land_files
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.orchestration.automation.operator_jobs import markdown_table
from kstreams_replay.orchestration.definitions import replay_definitions
from kstreams_replay.orchestration.resources import LocalEngine
from kstreams_replay.orchestration.settings.connections import WarehouseResource
from kstreams_replay.state.tables.refused_shares import RefusedLimit
from tests.dagster import shop
from tests.dagster.duplicates import DuplicatingRunner

pytestmark = pytest.mark.sampled

COARSER = "tests.dagster.shop:coarser"
"""Windows of 200 instead of 100."""


class Operated:
    """A pipeline of counts after its morning and its evening."""

    def __init__(self, made: Any, **settings: Any) -> None:
        self.shop, self.warehouse = made, made.warehouse
        self.topology = settings.pop("topology", None) or shop.windows(100)
        for name, clicks in (("1-morning", shop.MORNING), ("2-evening", shop.EVENING)):
            made.drop(name, clicks)
            land_files(None, made.warehouse, "clicks", shop.source(made.root / "clicks"))
            self.replay("shop")
        settings = {"check_engine": "plain", **settings}
        self.definitions = shop.definitions(made.root, topology=self.topology, operator_jobs=True, **settings)

    def replay(self, pipeline: str, **settings: Any) -> None:
        runner = settings.pop("runner", LocalRunner())
        list(replay(self.warehouse, settings.pop("topology", self.topology), pipeline=pipeline, runner=runner))

    def launch(self, what: str, **config: Any) -> dg.ExecuteInProcessResult:
        job = self.definitions.resolve_job_def(f"shop_{what}")
        return job.execute_in_process(
            instance=self.shop.instance,
            run_config={"ops": {f"shop_{what}_step": {"config": config}}},
            raise_on_error=False,
        )


def told(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """Metadata of the step's output."""
    assert result.success
    (output,) = [event for event in result.all_node_events if event.is_successful_output]
    return {name: value.value for name, value in output.step_output_data.metadata.items()}


def failure(result: dg.ExecuteInProcessResult) -> str:
    (failed,) = [event for event in result.all_node_events if event.is_step_failure]
    return str(failed.step_failure_data.user_failure_data or failed.step_failure_data.error)


@pytest.fixture
def operated(small_shop):
    return Operated(small_shop)


def test_a_plan_of_changed_windows_says_what_the_state_and_the_results_become(operated):
    said = told(operated.launch("plan", topology=COARSER, branch="coarse"))

    assert said["state_goes_on"] is False
    assert "refused" in said["changes"]
    assert (said["forked_after_increment"], said["records_read"]) == (0, 8)
    numbers = {name.partition("/")[2]: said[name] for name in said if name.startswith("counts/") and "rows" not in name}
    assert sum(numbers.values()) > 0
    assert numbers["only_before"] > 0
    assert said["counts/first_rows"].startswith("| difference | key |")
    assert list(branches(operated.warehouse)) == ["coarse"]
    drop = f"`replay drop coarse --warehouse {operated.warehouse.root}`"
    assert said["next_step"] == f"launch shop_promote with branch: coarse, or drop it: {drop}"


def test_a_sample_compares_both_codes_at_one_cut_and_leaves_nothing(operated):
    said = told(operated.launch("plan", topology=COARSER, branch="coarse", records=4))

    assert said["records_read"] == 4
    assert "warning" not in said
    assert list(branches(operated.warehouse)) == []
    assert operated.launch("plan", topology=COARSER, branch="coarse").success, "the name is free again"


def test_the_same_code_plans_no_difference(operated):
    said = told(operated.launch("plan", topology="tests.dagster.shop:finer", branch="same"))

    assert said["state_goes_on"] is True
    assert said["forked_after_increment"] == 1
    assert (said["counts/differ"], said["counts/only_before"], said["counts/only_after"]) == (0, 0, 0)
    assert "counts/first_rows" not in said


def test_a_branch_is_promoted_when_its_checks_pass(operated):
    assert operated.launch("plan", topology=COARSER, branch="coarse").success

    said = told(operated.launch("promote", branch="coarse", topology=COARSER))

    assert said["increment"] == 3
    assert said["checks_passed"] > 0


def test_a_branch_that_breaks_a_guarantee_is_not_promoted(small_shop):
    operated = Operated(small_shop, topology=shop.topology())
    assert operated.launch("plan", topology="tests.dagster.shop:topology", branch="again", at=0).success
    small_shop.drop("3-night", [("ann", "home", 500), ("bob", "home", 600), ("cid", "home", 700)])
    land_files(None, operated.warehouse, "clicks", shop.source(small_shop.root / "clicks"))
    operated.replay("again", runner=Duplicating())

    refused = operated.launch("promote", branch="again")

    assert not refused.success
    assert "again is not promoted, since" in failure(refused)
    assert list(branches(operated.warehouse)) == ["again"]


def test_a_branch_that_refused_more_than_is_allowed_is_not_promoted(small_shop):
    """
    Of the morning's six clicks, the one without a key is refused: a warning above 1 %, and here an error above none.
    """
    operated = Operated(small_shop, refused=RefusedLimit(0, "error"))
    assert operated.launch("plan", topology="tests.dagster.shop:finer", branch="again", at=0).success

    refused = operated.launch("promote", branch="again")

    assert not refused.success
    assert "G12 of ledger, increment 1: Few records are dropped, refused by an operator" in failure(refused)
    assert list(branches(operated.warehouse)) == ["again"]


@pytest.mark.nightly
def test_a_branch_that_breaks_a_suite_of_the_project_is_not_promoted(small_shop):
    folder = small_shop.root / "expectations"
    folder.mkdir()
    (folder / "few.yaml").write_text(
        "name: few counts\nmeta: {table: outputs/counts}\nexpectations:\n"
        "  - type: expect_table_row_count_to_be_between\n    kwargs: {max_value: 1}\n    severity: critical\n"
    )
    operated = Operated(small_shop, check_engine="gx", expectations=folder)
    assert operated.launch("plan", topology="tests.dagster.shop:finer", branch="again", at=0).success

    refused = operated.launch("promote", branch="again")

    assert not refused.success
    assert "few counts of outputs/counts, increment 1" in failure(refused)
    assert list(branches(operated.warehouse)) == ["again"]


def test_a_branch_of_other_code_is_not_promoted_by_the_checks_of_this_code(operated):
    assert operated.launch("plan", topology=COARSER, branch="coarse").success

    refused = operated.launch("promote", branch="coarse")

    assert not refused.success
    assert "branch 'coarse': expected the code that it ran with" in failure(refused)
    assert "set `topology` in the run's config to that code" in failure(refused)
    assert list(branches(operated.warehouse)) == ["coarse"]


class Duplicating(DuplicatingRunner):
    pipeline = "again"


def test_a_restore_tells_first(operated):
    said = told(operated.launch("restore", to=1))
    assert said == {"increments_withdrawn": 1, "records_to_read_again": 2, "is_done": False}

    said = told(operated.launch("restore", to=1, do=True))
    assert (said["is_done"], said["increment"]) == (True, 3)


@pytest.mark.parametrize(("to", "words"), [(5, "expected a done increment 5, got none"), (-1, "increment -1")])
def test_a_restore_that_cannot_be_is_refused_when_it_is_listed(operated, to, words):
    listed, done = operated.launch("restore", to=to), operated.launch("restore", to=to, do=True)

    assert (listed.success, done.success) == (False, False)
    assert words in failure(listed)
    assert failure(listed) == failure(done)


def test_a_restore_over_an_unfinished_increment_is_listed_only_where_it_is_given_up(operated):
    operated.shop.drop("3-night", [("ann", "home", 500)])
    land_files(None, operated.warehouse, "clicks", shop.source(operated.shop.root / "clicks"))
    with pytest.raises(RuntimeError, match="killed"):
        operated.replay("shop", runner=Killed())

    refused = operated.launch("restore", to=1)

    assert "increment 3, planned and not done" in failure(refused)
    assert told(operated.launch("restore", to=1, abandon=True))["increments_withdrawn"] == 1


class Killed(LocalRunner):
    def run(self, *arguments: Any, **settings: Any) -> Any:
        raise RuntimeError("killed")


def test_a_vacuum_tells_first(operated):
    said = told(operated.launch("vacuum", keep_increments=1))
    assert not said["is_deleted"]

    again = told(operated.launch("vacuum", keep_increments=1, delete=True))
    assert again["is_deleted"]
    assert again["files"] == said["files"]


def test_a_table_of_rows_is_markdown():
    rows = [{"key": "a|b", "value": None}, {"key": "c", "more": 1}]

    assert markdown_table(rows) == "\n".join(
        ["| key | value | more |", "| --- | --- | --- |", "| a\\|b |  |  |", "| c |  | 1 |"]
    )


def test_a_job_takes_the_warehouse_that_its_run_config_says(operated):
    """
    Definitions name an empty one; the run the one with two increments.
    """
    empty = WarehouseResource(root=str(operated.shop.root / "empty"))
    operated.definitions = replay_definitions(
        operated.topology, pipeline="shop", warehouse=empty, engine=LocalEngine(), operator_jobs=True
    )
    job = operated.definitions.resolve_job_def("shop_restore")
    resources = {"shop_warehouse": {"config": {"root": operated.warehouse.root}}}
    result = job.execute_in_process(
        instance=operated.shop.instance,
        run_config={"ops": {"shop_restore_step": {"config": {"to": 1}}}, "resources": resources},
    )

    assert told(result)["increments_withdrawn"] == 1


def test_a_range_is_made_anew_in_the_warehouse_that_the_runs_config_says(operated):
    empty = WarehouseResource(root=str(operated.shop.root / "empty"))
    definitions = replay_definitions(
        operated.topology, pipeline="shop", warehouse=empty, engine=LocalEngine(), operator_jobs=True
    )
    given = {"from_time": "100", "to_time": "200", "name": "again"}
    result = definitions.resolve_job_def("shop_backfill").execute_in_process(
        instance=operated.shop.instance,
        run_config={
            "ops": {"shop_range": {"config": given}},
            "resources": {"shop_warehouse": {"config": {"root": operated.warehouse.root}}},
        },
    )

    assert result.success
    assert list(branches(operated.warehouse)) == ["again"]
