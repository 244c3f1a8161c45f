"""Law 3: of two runners on one pipeline one wins, the other gets an error, and the tables are whole.

`python -m tests.laws.races --rounds 200` is the long run.
"""

import pytest

from kstreams_replay.jobs.execution.task_description import TaskDescription, TaskReport
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.topology import Topology
from kstreams_replay.state.errors import LedgerConflict
from tests.laws.pipelines import PIPELINES, begun, drive, undisturbed
from tests.laws.races import outcome_of, stratum_of
from tests.laws.whole import first_difference
from tests.sampling import sampled

ROUNDS = range(1, 31)
"""Every tenth is run by two processes of the command line."""


@pytest.mark.every_run
@pytest.mark.parametrize("seed", sampled(ROUNDS, stratum=stratum_of))
def test_of_two_runners_one_wins_and_the_tables_are_whole(seed):
    outcome = outcome_of(seed)

    assert outcome.difference is None, str(outcome)


class Overtaken:
    """Lets another runner finish before its task number ``at`` begins."""

    def __init__(self, at: int, finish) -> None:
        self.left, self.finish = at, finish

    def run(self, topology: Topology, descriptions: list[TaskDescription]) -> list[TaskReport]:
        reports = []
        for description in descriptions:
            self.left -= 1
            if self.left == 0:
                self.finish()
            reports += LocalRunner().run(topology, [description])
        return reports


@pytest.mark.parametrize("at", [1, 3, 4, 6])
def test_a_runner_that_is_overtaken_is_told_so_whatever_it_stumbles_over(at):
    """
    From task 4 on it would read what the first stage wrote and the winner has cleared.
    """
    topology, alone = PIPELINES["brief"].topology, undisturbed("brief", 1).warehouse
    with begun("brief", 1, 1) as warehouse:
        slow = Overtaken(at, lambda: drive(warehouse, topology, 2))
        with pytest.raises(LedgerConflict, match="increment 2 not done yet, got a row of another runner that is done"):
            drive(warehouse, topology, 2, runner=slow)

        assert first_difference(warehouse, alone, topology, since=1, until=2) is None
