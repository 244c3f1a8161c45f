"""After which increment the branch of a planned change begins."""

from types import SimpleNamespace

import pytest

from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.orchestration.automation.planned_change import fork_point
from kstreams_replay.state.tables.ledger import Ledger
from tests.laws.restated import landed, run


@pytest.mark.parametrize(
    ("restored_to", "begins"),
    [
        (None, 2),
        (1, 1),  # 1, 2, 3 and the restore 4: 2 and 3 are withdrawn
        (2, 2),
    ],
)
def test_it_is_before_the_last_increment_of_those_in_force(tmp_path, restored_to, begins):
    warehouse = landed(tmp_path)
    assert run(warehouse, "p", increments=3) == [1, 2, 3]
    if restored_to is not None:
        restore(warehouse, "p", restored_to)
    pipeline = SimpleNamespace(ledger=Ledger(warehouse.pipeline("p").ledger))

    assert fork_point(pipeline, None, goes_on=True) == begins
    assert fork_point(pipeline, None, goes_on=False) == 0
    assert fork_point(pipeline, 7, goes_on=True) == 7
