"""Where the tasks of an increment ran is reported to Dagster: numbers that it plots, and a line in the log."""

import pytest

from kstreams_replay.benchmarks.placement.played_workers import PlayedRunner, PlayedWorkers
from kstreams_replay.jobs.placement.settings import HIGH_AVAILABILITY, PlacementSettings
from kstreams_replay.orchestration.resources import LocalEngine
from tests.dagster import shop
from tests.dagster.conftest import numbers, told

pytestmark = pytest.mark.sampled


def test_an_increment_says_who_was_there_and_what_a_worker_that_joined_learns(small_shop, tmp_path):
    workers = PlayedWorkers(tmp_path / "caches")
    settings = PlacementSettings(HIGH_AVAILABILITY, acceptable_recovery_lag_bytes=0)

    class PlayedEngine(LocalEngine):
        def runner(self, kafka_version: str | None = None) -> PlayedRunner:
            return PlayedRunner(workers, settings)

    placed = shop.definitions(small_shop.root, engine=PlayedEngine(), check_engine="plain")
    workers.start(1, "a")
    first = small_shop.run(placed)
    workers.start(2, "b")
    small_shop.drop("2-evening", shop.EVENING)

    second = small_shop.run(placed)

    (pages,) = told(first)["shop/outputs/pages"]
    alone = {"placement/members": 1, "placement/tasks_learned": 0, "placement/moves_to_come": 0}
    assert numbers(pages, *alone) == alone
    (pages,) = told(second)["shop/outputs/pages"]
    joined = {"placement/members": 2, "placement/tasks_learned": 1, "placement/moves_to_come": 1}
    assert numbers(pages, *joined) == joined
    said = [event.user_message for event in small_shop.instance.all_logs(second.run_id)]
    (line,) = [message for message in said if message.startswith("increment 2: tasks placed")]
    assert line.startswith("increment 2: tasks placed on 2 workers; host-2/b learns 1_0 (0 %)")
