"""Runs on an object store of which one request in twenty fails (tests/laws/failing.py)."""

import pytest

from kstreams_replay.state.tables.ledger import Ledger
from tests.laws import failing
from tests.laws.failing import FailingRun, stuttering
from tests.laws.object_stores import azure_store, gateway_store, played_store
from tests.laws.pipelines import NAME, PIPELINES, begun, drive
from tests.sampling import sampled

SHORT = [
    seed
    for seed in range(1, 200)
    if (r := FailingRun.of(seed)).pipeline == "brief" and r.begun <= 1 and r.target == r.begun + 1
]
"""Of little history and one increment."""
ROUNDS = (("played", 0), ("gateway", 1))
"""Of SEEDS seeds each; `python -m tests.laws.failing` plays more of them."""
SEEDS = 25
ERRORS_IN = 100
"""Of so many commands at most one ends with an error."""


@pytest.fixture(scope="module")
def played():
    with played_store() as store, stuttering(store) as there:
        yield there


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with gateway_store(tmp_path_factory.mktemp("gateway")) as store, stuttering(store) as there:
        yield there


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    with azure_store(tmp_path_factory.mktemp("azure")) as store, stuttering(store) as there:
        yield there


@pytest.mark.slow
@pytest.mark.every_run
@pytest.mark.parametrize("seed", sampled(SHORT[:10]))
def test_a_run_on_a_store_that_stutters_leaves_the_tables_of_one_that_does_not(played, seed):
    outcome = failing.outcome_of(seed, played)

    assert outcome.difference is None, str(outcome)
    assert outcome.errors == []
    assert outcome.faults > 0


@pytest.mark.nightly
@pytest.mark.parametrize("seed", SHORT[:2])
def test_a_run_on_an_azure_that_stutters_leaves_the_tables_of_one_that_does_not(azure, seed):
    outcome = failing.outcome_of(seed, azure)

    assert outcome.difference is None, str(outcome)
    assert outcome.errors == []
    assert outcome.faults > 0


@pytest.mark.slow
@pytest.mark.every_run
def test_an_increment_counts_its_requests_those_for_deltas_logs_included(played):
    played.proxy.begin()
    with begun("brief", 1, 1, played.store) as warehouse:
        played.proxy.begin()
        drive(warehouse, PIPELINES["brief"].topology, 2)
        written = [each for each in played.proxy.asked() if each.startswith("PUT ")]
        done = Ledger(warehouse.pipeline(NAME).ledger).last_done()

    assert done is not None
    assert done.content.requests is not None
    assert done.content.requests["PUT"] == len(written) - 2  # but the done row's own file, and its commit


@pytest.mark.nightly
@pytest.mark.parametrize(("place", "number"), ROUNDS)
def test_of_a_hundred_commands_at_most_one_ends_with_an_error(request, place, number):
    there = request.getfixturevalue(place)
    outcomes = [failing.outcome_of(seed, there) for seed in range(1 + number * SEEDS, 1 + (number + 1) * SEEDS)]
    differing = [str(outcome) for outcome in outcomes if outcome.difference is not None]
    errors = [error for outcome in outcomes for error in outcome.errors]

    assert differing == []
    assert len(errors) * ERRORS_IN <= sum(outcome.commands for outcome in outcomes), errors
