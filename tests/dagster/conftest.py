"""A shop of this test alone, with its Dagster instance."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.increment_report import IncrementReport
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop


class Shop:
    """``root``: holds the warehouse and the directory of clicks."""

    def __init__(self, root: Path, instance: dg.DagsterInstance) -> None:
        self.root, self.instance = root, instance
        self.warehouse = Warehouse(root / "warehouse")

    def drop(self, name: str, clicks: list[tuple[str | None, str, int]]) -> None:
        shop.drop_files(self.root / "clicks", name, clicks)

    def run(self, definitions: dg.Definitions | None = None, **selection: Any) -> dg.ExecuteInProcessResult:
        """Run the shop's job; ``asset_selection`` for a part of it."""
        definitions = definitions or shop.definitions(self.root, check_engine="plain")
        job = definitions.resolve_job_def("shop_replay")
        return job.execute_in_process(instance=self.instance, raise_on_error=False, **selection)

    def replay(self, **settings: Any) -> list[IncrementReport]:
        """Replay without Dagster, as the command line does."""
        runner = settings.pop("runner", LocalRunner())
        return list(replay(self.warehouse, shop.topology(), pipeline="shop", runner=runner, **settings))


@pytest.fixture
def small_shop(tmp_path: Path) -> Iterator[Shop]:
    """The shop after its morning's clicks were dropped."""
    with dg.DagsterInstance.ephemeral() as instance:
        made = Shop(tmp_path, instance)
        made.drop("1-morning", shop.MORNING)
        yield made


def told(result: dg.ExecuteInProcessResult) -> dict[str, list[dg.AssetMaterialization]]:
    """Materializations of a run, by asset, in the order in which they were reported."""
    by_asset: dict[str, list[dg.AssetMaterialization]] = {}
    for event in result.get_asset_materialization_events():
        materialization = event.materialization
        by_asset.setdefault(materialization.asset_key.to_user_string(), []).append(materialization)
    return by_asset


def observed(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetObservation]:
    """Observations of a run, by asset."""
    found = [event.asset_observation_data.asset_observation for event in result.get_asset_observation_events()]
    return {each.asset_key.to_user_string(): each for each in found}


def versions(result: dg.ExecuteInProcessResult) -> dict[str, list[str | None]]:
    """Data versions that a run reported, by asset."""
    return {
        asset: [each.tags.get("dagster/data_version") for each in materializations if each.tags is not None]
        for asset, materializations in told(result).items()
    }


def numbers(materialization: dg.AssetMaterialization | dg.AssetObservation, *names: str) -> dict[str, Any]:
    """The metadata called ``names``; all of it without."""
    metadata = materialization.metadata
    return {name: metadata[name].value for name in names or metadata if name in metadata}


def broken(result: dg.ExecuteInProcessResult) -> list[dg.AssetCheckEvaluation]:
    """Checks that did not pass."""
    return [evaluation for evaluation in result.get_asset_check_evaluations() if not evaluation.passed]


def errors(result: dg.ExecuteInProcessResult) -> list[dg.AssetCheckEvaluation]:
    """Checks that did not pass, warnings left out."""
    return [evaluation for evaluation in broken(result) if evaluation.severity is dg.AssetCheckSeverity.ERROR]


def passed(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    """Answers of the checks, by output and check."""
    return {
        f"{evaluation.asset_key.path[-1]}: {evaluation.check_name}": evaluation.passed
        for evaluation in result.get_asset_check_evaluations()
    }
