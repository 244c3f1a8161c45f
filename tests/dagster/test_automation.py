"""Automation of somebody's own asset below an output: it does not run for quiet runs, nor while a check is broken."""

import dagster as dg

from tests.dagster import shop
from tests.dagster.duplicates import DuplicatingEngine

SESSIONS = dg.AssetKey(["shop", "outputs", "sessions"])


def with_newsletter(definitions: dg.Definitions) -> dg.Definitions:
    condition = dg.AutomationCondition.eager() & dg.AutomationCondition.all_deps_blocking_checks_passed()

    @dg.asset(deps=[SESSIONS], automation_condition=condition)
    def newsletter() -> None:
        """Reads the sessions."""

    return dg.Definitions.merge(definitions, dg.Definitions(assets=[newsletter]))


class Daemon:
    """Looks at the conditions, as Dagster's daemon does each half a minute."""

    def __init__(self, made, definitions: dg.Definitions) -> None:
        self.shop, self.definitions = made, with_newsletter(definitions)
        self.cursor = None

    def look(self) -> int:
        """How many runs of the newsletter it asks for."""
        found = dg.evaluate_automation_conditions(self.definitions, self.shop.instance, cursor=self.cursor)
        self.cursor = found.cursor
        return found.total_requested


def test_what_is_below_an_output_runs_for_news_and_not_for_quiet_runs(small_shop):
    definitions = shop.definitions(small_shop.root, check_engine="plain")
    daemon = Daemon(small_shop, definitions)
    daemon.look()

    assert small_shop.run(definitions).success
    assert daemon.look() == 1
    with_newsletter(definitions).resolve_implicit_global_asset_job_def().execute_in_process(
        instance=small_shop.instance, asset_selection=[dg.AssetKey("newsletter")]
    )
    assert daemon.look() == 0
    assert small_shop.run(definitions).success, "a run with nothing new"
    assert daemon.look() == 0
    small_shop.drop("2-evening", shop.EVENING)
    assert small_shop.run(definitions).success
    assert daemon.look() == 1


def test_what_is_below_an_output_does_not_run_while_its_check_is_broken(small_shop):
    broken = shop.definitions(small_shop.root, engine=DuplicatingEngine(), check_engine="plain")
    daemon = Daemon(small_shop, broken)
    daemon.look()

    assert not small_shop.run(broken).success

    assert daemon.look() == 0
