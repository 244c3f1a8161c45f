"""Golden scenarios through Delta tables in several increments: landed, planned, committed, resumed, read back.

Cut at random they are played in tests/expectations/test_false_alarms.py, where every increment is judged, too.
"""

import pytest

from kstreams_replay.jobs.execution import task_stores
from tests.conformance.__main__ import reports
from tests.conformance.tables_engine import increments, looking_up
from tests.conformance.test_goldens import FOUND, SCENARIOS, name_of
from tests.sampling import sampled


@pytest.mark.parametrize(
    ("cuts", "records", "sizes"),
    [("none", 5, [5]), ("none", 0, []), ("every", 3, [1, 1, 1]), ("random:1", 1, [1]), ("random:1", 2, [1, 1])],
)
def test_cuts_are_places_between_records(cuts, records, sizes):
    assert increments(cuts, records) == sizes


def test_random_cuts_are_the_same_for_the_same_seed_and_take_every_record():
    got = [increments(f"random:{seed}", 30) for seed in range(20)]

    assert got == [increments(f"random:{seed}", 30) for seed in range(20)]
    assert {sum(sizes) for sizes in got} == {30}
    assert len({tuple(sizes) for sizes in got}) > 10


def test_scenarios_that_are_played_at_once_leave_the_limits_as_they_were():
    before, first, second = task_stores.ALL_BELOW_ROWS, looking_up(), looking_up()
    for scenario in (first, second):
        scenario.__enter__()
    first.__exit__(None, None, None)
    within = task_stores.ALL_BELOW_ROWS
    second.__exit__(None, None, None)

    assert (within, task_stores.ALL_BELOW_ROWS) == (0, before)
    assert before > 0


@pytest.mark.every_run
@pytest.mark.slow
def test_cut_between_all_records_the_examples_do_what_kafka_streams_did():
    mine = sampled([scenario for scenario in SCENARIOS if scenario.family == "examples"], name_of)

    got = {
        scenario.name: why
        for scenario, why in zip(mine, reports(mine, "tables", cuts="every"), strict=True)
        if why is not None
    }

    assert got == {}


@pytest.mark.every_run
@pytest.mark.slow
def test_what_once_differed_does_not_through_tables():
    mine = sampled(FOUND, name_of)
    said = reports(mine, "tables", cuts="random:1")

    got = {scenario.name: why for scenario, why in zip(mine, said, strict=True) if why is not None}

    assert got == {}
