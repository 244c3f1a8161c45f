"""A warehouse of the shop's two increments, replayed in process."""

from pathlib import Path

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.landing import land_files
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.orchestration import progress_lines
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop


@pytest.fixture(scope="session")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Morning and evening, landed and replayed one after the other. Read only."""
    root = tmp_path_factory.mktemp("shop")
    warehouse = Warehouse(root / "warehouse")
    for name, clicks in (("1-morning", shop.MORNING), ("2-evening", shop.EVENING)):
        shop.drop_files(root / "clicks", name, clicks)
        land_files(None, warehouse, "clicks", shop.source(root / "clicks"))
        assert len(list(replay(warehouse, shop.topology(), pipeline="shop", runner=LocalRunner()))) == 1
    return warehouse


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, what a command prints is the same."""
    monkeypatch.setattr(progress_lines, "SILENCE_SECONDS", 1e9)


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """A directory with the morning's clicks."""
    shop.drop_files(tmp_path / "clicks", "1-morning", shop.MORNING)
    return tmp_path / "clicks"
