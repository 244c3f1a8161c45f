"""Automation of somebody's own asset below an output, by the condition that the page recommends: it runs for news of
any day, does not for quiet runs, nor while a check is broken.
"""

from typing import Any

import dagster as dg

from tests.dagster import shop
from tests.dagster.days import CLICKS, DAYS, FOUR, ONE, THREE, TWO, Days
from tests.dagster.duplicates import DuplicatingEngine
from tests.test_docs import code_blocks, document

SESSIONS = dg.AssetKey(["shop", "outputs", "sessions"])


def recommended() -> dg.AutomationCondition:
    """As the page has it."""
    blocks = ["\n".join(block) for block in code_blocks(document("orchestration/README.md"), "python")]
    (shown,) = [block for block in blocks if "AutomationCondition" in block]
    names: dict[str, Any] = {"dg": dg}
    exec(shown, names)
    condition: dg.AutomationCondition = names["condition"]
    return condition


def with_newsletter(definitions: dg.Definitions, partitions: dg.PartitionsDefinition | None = None) -> dg.Definitions:
    @dg.asset(deps=[SESSIONS], automation_condition=recommended(), partitions_def=partitions)
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


def test_it_runs_for_each_day_of_history_that_is_new(tmp_path):
    with dg.DagsterInstance.ephemeral() as instance:
        days = Days(tmp_path, instance)
        definitions, cursor = with_newsletter(days.definitions, DAYS), None

        def look() -> list[str]:
            nonlocal cursor
            found = dg.evaluate_automation_conditions(definitions, instance, cursor=cursor)
            cursor = found.cursor
            return sorted(map(str, found.get_requested_partitions(dg.AssetKey("newsletter"))))

        assert look() == []
        days.land(CLICKS)
        assert look() == []
        assert days.run(ONE, TWO).success
        assert look() == [ONE, TWO]
        assert look() == []
        assert days.run(THREE, FOUR).success
        assert look() == [THREE, FOUR]
