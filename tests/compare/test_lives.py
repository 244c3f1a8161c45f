"""Every difference of a seeded life has its true cause: the life's script knows it, and `compare` does not."""

import random
import struct

import pytest

from kstreams_replay.jobs.compare import processing_order
from kstreams_replay.jobs.landing.recorded_time import record_tick
from tests.compare.live_application import (
    AGAIN,
    INTERLEAVED,
    LET_IN,
    SWALLOWED,
    TICK,
    TRUE,
    TWICE,
    VERSION,
    Input,
    Life,
    Published,
    WindowCounts,
    live,
)
from tests.compare.lives import (
    GRACE_MS,
    KINDS,
    SIZE_MS,
    Played,
    called,
    counts,
    finals,
    forwarded,
    lives,
    places,
    steps,
)
from tests.planted import LandedRecord, plant
from tests.sampling import is_nightly, seed

pytestmark = pytest.mark.every_run

LIVES, CRASHED = 6, 40 if is_nightly() else 6
"""So many lives of a kind are played side by side, and so many of those that crash and count twice."""


def test_rows_that_clean_restarts_let_in_are_explained_by_the_restarts(warehouse):
    played = Played(warehouse, counts(), lives("restarts", LIVES, seed()))

    let_in = sum(row.why == LET_IN for rows in played.published for row in rows)
    assert played.causes() == {("restart", LET_IN): let_in}
    assert let_in > LIVES


def test_final_results_that_a_restart_lets_out_again_are_explained_by_it(warehouse):
    played = Played(warehouse, finals(), lives("finals", LIVES, seed()))

    let_in = sum(row.why == LET_IN for rows in played.published for row in rows)
    assert played.causes() == {("restart", LET_IN): let_in}
    assert let_in > LIVES


def test_a_result_that_two_late_records_change_leaves_the_one_before_to_an_earlier_record(warehouse):
    """The first result that is let out again has time 8,000, so it cannot be of the record at 9,000."""
    times = [("c", 8_000), ("x", 20_000), ("c", 2_000), ("x", 30_000), ("c", 9_000), ("c", 3_000), ("x", 40_000)]
    records = [Input(key, time_ms) for key, time_ms in times]
    published = live(records, WindowCounts(SIZE_MS, GRACE_MS, is_final=True), Life(frozenset({2, 4}))).published
    assert [(row.value, row.time_ms) for row in published if row.why == LET_IN] == [(2, 8_000), (4, 9_000)]

    assert Played(warehouse, finals(), [(records, published)]).causes() == {("restart", LET_IN): 2}


def test_updates_that_a_cache_holds_back_are_explained_by_the_cache(warehouse):
    swallowed = 0

    def publish(rng: random.Random, records: list[Input]) -> list[Published]:
        nonlocal swallowed
        task = live(records, WindowCounts(SIZE_MS, GRACE_MS, is_cached=True), Life(commits=places(rng, 12)))
        swallowed += len(task.swallowed)
        return task.published

    played = Played(warehouse, counts(), lives("cache", LIVES, seed(), publish))

    assert played.causes() == {("record cache", SWALLOWED): swallowed}
    assert swallowed > LIVES


def test_restarts_of_a_task_with_a_cache_are_told_from_what_the_cache_holds_back(warehouse):
    played = Played(warehouse, counts(), lives("cache and restarts", LIVES, seed()))

    assert set(played.causes()) == {("restart", LET_IN), ("record cache", SWALLOWED)}


def test_what_the_wall_clock_made_is_explained_by_it(warehouse):
    played = Played(warehouse, called(), lives("called by the clock", LIVES, seed()))

    ticks = sum(row.why == TICK for rows in played.published for row in rows)
    assert played.causes() == {("wall clock", TICK): ticks}
    assert ticks > LIVES
    assert {each.sentence for each in played.found.first} == {
        "forwarded by the wall clock, which calls KSTREAM-PROCESSOR-0000000001: no tick is recorded that says when "
        "(replay advance --tick)"
    }


def test_where_ticks_are_recorded_the_wall_clock_explains_nothing(warehouse):
    """The first one starts the clock, so no schedule was called."""
    (records, published), *_ = lives("called by the clock", 1, seed())
    plant(warehouse, "in", [LandedRecord(0, b"a", struct.pack(">q", 0), 1)], partitions=1)
    record_tick(warehouse, "in", 1)

    played = Played(warehouse, called(), [(records, published)])

    assert "wall clock" not in played.found.causes
    assert played.found.causes["not explained"] > 0


@pytest.mark.parametrize(("kind", "causes"), [
    ("versions", {("code version", VERSION)}),
    ("versions and restarts", {("code version", VERSION), ("restart", LET_IN)}),
])  # fmt: skip
def test_what_an_earlier_version_of_the_code_wrote_is_explained_by_it(kind, causes, warehouse):
    played = Played(warehouse, steps(), lives(kind, LIVES, seed()), before=steps(2))

    found = played.causes()
    of_code = sum(row.why == VERSION for rows in played.published for row in rows)
    assert set(found) == causes
    # A sum that the other code writes early may be equal to one that the rules write later.
    assert LIVES < found["code version", VERSION] <= of_code


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["join", "inner join", "sums of a join"])
def test_what_a_join_looked_up_in_another_order_of_its_topics_is_explained_by_it(kind, warehouse):
    played = Played(warehouse, KINDS[kind][0](), lives(kind, LIVES, seed()))

    found = played.causes()
    assert set(found) == {("interleaving", INTERLEAVED)}
    assert found["interleaving", INTERLEAVED] > LIVES


def test_what_a_crash_publishes_twice_is_explained_by_it(warehouse):
    played = Played(warehouse, forwarded(), lives("forwarded twice", LIVES, seed()))

    twice = sum(row.why == TWICE for rows in played.published for row in rows)
    assert played.causes() == {("published twice", TWICE): twice}
    assert twice > LIVES


def test_what_a_crash_counts_twice_is_told_from_what_it_lets_in(warehouse):
    played = Played(warehouse, counts(), lives("counted twice", CRASHED, seed()))

    found = played.causes()
    assert set(found) <= {("restart", LET_IN), ("processed twice", AGAIN), ("published twice", TWICE)}
    assert found["processed twice", AGAIN] > CRASHED
    assert found["restart", LET_IN] > 0


def test_a_row_that_two_crashes_write_was_published_twice(warehouse, monkeypatch):
    """Both lost the window, and had the second record again."""
    monkeypatch.setattr(processing_order, "STEPS_MAX", 0)
    records = [Input("a", 1_000), Input("a", 5_000), Input("b", 6_000)]
    again = Published("a", 0, 1, 5_000, AGAIN)
    published = [Published("a", 0, 1, 1_000, TRUE), Published("a", 0, 2, 5_000, TRUE), again, again]

    found = Played(warehouse, counts(), [(records, [*published, Published("b", 0, 1, 6_000, TRUE)])]).causes()

    assert found == {("processed twice", AGAIN): 1, ("published twice", TWICE): 1}


def test_where_no_order_of_processing_is_found_a_row_in_doubt_has_a_cause_that_says_so(warehouse, monkeypatch):
    monkeypatch.setattr(processing_order, "STEPS_MAX", 0)

    played = Played(warehouse, counts(), lives("counted twice", CRASHED, seed()))

    found = played.causes()
    in_doubt = {("crash", truth) for truth in (LET_IN, AGAIN, TWICE, TRUE)}
    assert set(found) <= {("restart", LET_IN), ("processed twice", AGAIN), ("published twice", TWICE)} | in_doubt
    assert found["processed twice", AGAIN] > CRASHED


@pytest.mark.parametrize("lost", [3, 40])
def test_a_row_that_production_lost_is_not_explained(warehouse, lost):
    def publish(rng: random.Random, records: list[Input]) -> list[Published]:
        rows = live(records, WindowCounts(SIZE_MS, GRACE_MS), Life()).published
        return [row for number, row in enumerate(rows) if number != lost]

    played = Played(warehouse, counts(), lives("lost", LIVES, seed(), publish)[:1], no_cache=True)

    assert [each.cause for each in played.found.first] == ["not explained"]
    assert {row.why for row in played.published[0]} == {TRUE}
