"""Law 3: once. An increment that dies at any step and is run again leaves the tables of a run that never died."""

import shutil
from pathlib import Path

import pytest

from jobs.replay import replay
from jobs.runner import LocalRunner, TaskDescription, TaskReport
from jobs.topology import Topology
from state.errors import LedgerConflict
from state.tables import Warehouse
from tests.laws.topologies import OUTPUTS, PARTITIONS, STORES, everything, tape
from tests.planted import Rows, plant, tables_of


class Killed(Exception):
    """The process died here."""


def drive(warehouse: Warehouse, *, runner=None, increments=None, on_step=lambda step: None) -> None:
    for _ in replay(
        warehouse,
        everything(),
        pipeline="p",
        runner=runner or LocalRunner(),
        max_records=50,
        increments=increments,
        idle="proceed",
        on_step=on_step,
    ):
        pass


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    """A warehouse whose first increment is done and whose second is to come."""
    folder = tmp_path_factory.mktemp("begun")
    plant(Warehouse(folder), "clicks", tape(6, 100), partitions=PARTITIONS)
    drive(Warehouse(folder), increments=1)
    return folder


@pytest.fixture(scope="module")
def finished(begun, tmp_path_factory) -> tuple[list[str], dict[str, Rows]]:
    """Steps of the second increment when nobody kills it, and the tables it leaves."""
    warehouse = copy(begun, tmp_path_factory.mktemp("finished"))
    steps: list[str] = []
    drive(warehouse, on_step=steps.append)
    return steps, tables_of(warehouse, "p", everything())


def copy(begun: Path, folder: Path) -> Warehouse:
    return Warehouse(shutil.copytree(begun, folder / "warehouse"))


STEPS = [
    "planned",
    "computed",
    *(f"committed state/{name}" for name in STORES),
    "committed repartition/pages-store-repartition",
    "committed dropped",
    "committed dead_letter",
    *(f"committed outputs/{name}" for name in OUTPUTS),
    "done",
]


def test_the_steps_at_which_runs_are_killed_are_all_there_are(finished):
    steps, _ = finished

    assert steps == [f"{step} 2" for step in STEPS]


@pytest.mark.parametrize("last_step", STEPS)
def test_a_run_killed_at_a_step_and_run_again_leaves_the_tables_of_one_that_was_not(
    begun, finished, tmp_path, last_step
):
    warehouse = copy(begun, tmp_path)

    def die(step: str) -> None:
        if step == f"{last_step} 2":
            raise Killed(step)

    with pytest.raises(Killed):
        drive(warehouse, on_step=die)
    drive(warehouse)

    assert tables_of(warehouse, "p", everything()) == finished[1]


class DyingRunner:
    """Runs ``tasks`` tasks, then dies: their files are there and nobody will ever know of them."""

    def __init__(self, tasks: int) -> None:
        self.left = tasks

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        reports = []
        for description in descriptions:
            if self.left == 0:
                raise Killed(description.id)
            self.left -= 1
            reports += LocalRunner().run(topology, [description])
        return reports


@pytest.mark.parametrize("tasks", range(6))
def test_a_run_killed_between_two_tasks_and_run_again_leaves_the_tables_of_one_that_was_not(
    begun, finished, tmp_path, tasks
):
    warehouse = copy(begun, tmp_path)

    with pytest.raises(Killed):
        drive(warehouse, runner=DyingRunner(tasks))
    drive(warehouse)

    assert tables_of(warehouse, "p", everything()) == finished[1]


def test_of_two_runners_one_wins_and_the_tables_are_whole(begun, finished, tmp_path):
    """
    The second runner starts, and finishes everything, while the first has computed and is about to commit.
    """
    warehouse = copy(begun, tmp_path)

    def let_the_other_finish(step: str) -> None:
        if step == "computed 2":
            drive(warehouse)

    with pytest.raises(LedgerConflict) as refused:
        drive(warehouse, on_step=let_the_other_finish)

    assert "increment 2" in str(refused.value)
    assert tables_of(warehouse, "p", everything()) == finished[1]
