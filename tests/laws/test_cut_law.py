"""Law 2: a cut is not an event. Any increments over the same records leave the same tables."""

import random
from itertools import pairwise

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.topologies import PARTITIONS, everything, tape
from tests.planted import plant, tables_of

pytestmark = pytest.mark.sampled

RECORDS = 90


def run(warehouse: Warehouse, pipeline: str, max_records: list[int | None]) -> None:
    """One call a limit, the last with the end of history, so that nothing waits."""
    for limit in max_records:
        idle = "proceed" if limit is None else "wait"
        for _ in replay(warehouse, everything(), pipeline=pipeline, runner=LocalRunner(), max_records=limit, idle=idle):
            pass


@pytest.mark.parametrize(("seed", "max_records"), [(1, 13), (2, 40), (3, 60)])
def test_increments_of_any_size_leave_the_tables_of_one_big_increment(tmp_path, seed, max_records):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "clicks", tape(seed, RECORDS), partitions=PARTITIONS)

    run(warehouse, "whole", [None])
    run(warehouse, "cut", [max_records, None])

    assert tables_of(warehouse, "cut", everything()) == tables_of(warehouse, "whole", everything())


def test_increments_of_one_record_leave_the_tables_of_one_big_increment(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "clicks", tape(4, 14), partitions=PARTITIONS)

    run(warehouse, "whole", [None])
    run(warehouse, "cut", [1, None])

    assert tables_of(warehouse, "cut", everything()) == tables_of(warehouse, "whole", everything())


@pytest.mark.parametrize("seed", [12])
def test_landing_and_replaying_in_turn_leaves_the_tables_of_landing_all_first(tmp_path, seed):
    records, generator = tape(seed, RECORDS), random.Random(seed)
    at_once, in_turn = Warehouse(tmp_path / "once"), Warehouse(tmp_path / "turn")
    plant(at_once, "clicks", records, partitions=PARTITIONS)
    # Every partition gets a first record, since a partition without any holds nobody back.
    cuts = [0, 30, *sorted(generator.sample(range(31, RECORDS), 3)), RECORDS]
    assert {record.partition for record in records[:30]} == set(range(PARTITIONS))
    for first, after in pairwise(cuts):
        plant(in_turn, "clicks", records[first:after], partitions=PARTITIONS)
        run(in_turn, "p", [1000])

    run(in_turn, "p", [None])
    run(at_once, "p", [None])

    assert tables_of(in_turn, "p", everything()) == tables_of(at_once, "p", everything())


def test_replaying_with_nothing_new_writes_nothing(tmp_path):
    warehouse = Warehouse(tmp_path)
    plant(warehouse, "clicks", tape(5, 40), partitions=PARTITIONS)
    run(warehouse, "p", [None])
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())

    run(warehouse, "p", [None])

    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
