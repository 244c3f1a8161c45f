"""After a restore, what a pipeline has read and its stream times go back: records belong to the increments in force."""

import pytest

from kstreams_replay.jobs.branches.restatement import restore
from kstreams_replay.jobs.history.history import History
from kstreams_replay.state.tables.ledger_rows import cut_of
from kstreams_replay.state.tables.rows_in_force import in_force
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.restated import clicks, landed, run

pytestmark = pytest.mark.sampled


@pytest.fixture(scope="module", params=[(), (3,), (3, 20), (20, 3, 0)], ids=str)
def warehouse(request, tmp_path_factory) -> Warehouse:
    """Restored so often, each time to increment 2, and run again in steps of so many records; 0: not run again."""
    warehouse = landed(tmp_path_factory.mktemp("w"))
    run(warehouse, "p")
    for step in request.param:
        restore(warehouse, "p", 2)
        if step:
            run(warehouse, "p", max_records=step)
    return warehouse


def test_a_record_was_read_by_the_increment_in_force(warehouse):
    history = History(warehouse, "p", clicks())
    rows = in_force(history.increments())

    def reader(partition: int, offset: int) -> int | None:
        return next((row.increment for row in rows if cut_of(row.content.cut_to, "clicks", partition) > offset), None)

    records = [(partition, offset) for partition in range(3) for offset in range(30)]
    want = {record: reader(*record) for record in records}

    assert {record: history.reading("clicks", *record) for record in records} == want


def test_a_stream_time_means_the_last_increment_in_force_that_had_not_gone_past_it(warehouse):
    history = History(warehouse, "p", clicks())
    rows = in_force(history.increments())
    for time_ms in {row.content.stream_time_ms for row in history.increments()}:
        want = [row.increment for row in rows if row.content.stream_time_ms <= time_ms]
        assert history.at(stream_time_ms=time_ms).increment == want[-1]
