"""Law 3 on an object store: a run that dies anywhere leaves no trace, and of two runners one wins.

The seeds are those of tests/laws/crash.py and races.py. A few run on a store that a library plays; the nightly tier
builds a real gateway and runs more on it, and installs Azurite and runs a few on that.
"""

import pickle

import pytest

from kstreams_replay.jobs.execution.spark_runner import SparkRunner
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables import object_stores
from kstreams_replay.state.tables.object_stores import open_filesystem
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws import crash, races
from tests.laws.object_stores import azure_store, gateway_store, played_store
from tests.laws.pipelines import PIPELINES, begun, drive, undisturbed
from tests.laws.whole import first_difference
from tests.sampling import sampled

DEATHS = [seed for seed in range(1, 1500) if not crash.CrashScenario.of(seed).is_killed]
ROUNDS = [seed for seed in range(1, 100) if not races.Race.of(seed).is_by_processes]
SHORT_DEATHS = [
    seed
    for seed in DEATHS
    if (s := crash.CrashScenario.of(seed)).pipeline == "brief"
    and s.target - s.begun == len(s.deaths) == 1
    and s.vacuum is None
    and s.begun <= 1
]
"""Of little history, which is uploaded file by file."""
SHORT_ROUNDS = [
    seed
    for seed in ROUNDS
    if (r := races.Race.of(seed)).pipeline == "brief" and r.target - r.begun == 1 and not r.vacuums and r.begun <= 1
]
OPTIONS = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    "AWS_REGION": "eu-west-1",
    "aws_access_key_id": "k",
    "aws_secret_access_key": "s",
}


@pytest.fixture(scope="module")
def store():
    with played_store() as started:
        yield started


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with gateway_store(tmp_path_factory.mktemp("gateway")) as started:
        yield started


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    with azure_store(tmp_path_factory.mktemp("azure")) as started:
        yield started


@pytest.mark.every_run
@pytest.mark.parametrize("seed", sampled(SHORT_DEATHS[:10]))
def test_a_run_that_dies_anywhere_on_an_object_store_leaves_no_trace(store, seed):
    outcome = crash.outcome_of(seed, store)

    assert outcome.difference is None, str(outcome)
    assert outcome.deaths


@pytest.mark.every_run
@pytest.mark.parametrize("seed", sampled(SHORT_ROUNDS[:10]))
def test_of_two_runners_on_an_object_store_one_wins(store, seed):
    outcome = races.outcome_of(seed, store)

    assert outcome.difference is None, str(outcome)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", DEATHS[:20])
def test_a_run_that_dies_anywhere_on_a_real_gateway_leaves_no_trace(gateway, seed):
    outcome = crash.outcome_of(seed, gateway)

    assert outcome.difference is None, str(outcome)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", ROUNDS[:10])
def test_of_two_runners_on_a_real_gateway_one_wins(gateway, seed):
    outcome = races.outcome_of(seed, gateway)

    assert outcome.difference is None, str(outcome)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", SHORT_DEATHS[:6])
def test_a_run_that_dies_anywhere_on_azure_leaves_no_trace(azure, seed):
    outcome = crash.outcome_of(seed, azure)

    assert outcome.difference is None, str(outcome)
    assert outcome.deaths


@pytest.mark.nightly
@pytest.mark.parametrize("seed", SHORT_ROUNDS[:4])
def test_of_two_runners_on_azure_one_wins(azure, seed):
    outcome = races.outcome_of(seed, azure)

    assert outcome.difference is None, str(outcome)


@pytest.mark.jvm
@pytest.mark.nightly
def test_tasks_on_spark_reach_the_store_with_what_came_along(store, spark):
    topology, alone = PIPELINES["brief"].topology, undisturbed("brief", 1).warehouse
    with begun("brief", 1, 0, store) as warehouse:
        drive(warehouse, topology, 1, runner=SparkRunner(spark))

        assert first_difference(warehouse, alone, topology, since=0, until=1) is None


def test_options_say_how_a_store_is_reached_and_go_along_to_workers(monkeypatch):
    monkeypatch.setattr(object_stores, "_OPTIONS", {})
    sent = pickle.dumps(Warehouse("s3://bucket-of-one-test/w", OPTIONS))
    object_stores._OPTIONS.clear()  # a worker's process knows nothing

    arrived = pickle.loads(sent)
    filesystem, path = open_filesystem(arrived.landed("clicks"))

    assert path == "bucket-of-one-test/w/landed/clicks"
    assert filesystem.handler.store.config["region"] == "eu-west-1"
    assert arrived.storage_options == OPTIONS
    assert "127.0.0.1" not in repr(arrived)  # a secret may be among them


def test_options_of_a_plain_path_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="AWS_REGION: expected a warehouse that is a URI"):
        Warehouse(tmp_path, {"AWS_REGION": "eu-west-1"})


def test_one_half_of_the_credentials_is_refused():
    with pytest.raises(ConfigError, match="expected aws_access_key_id and aws_secret_access_key, both or none"):
        open_filesystem(Warehouse("s3://another-bucket-of-one-test/w", {"AWS_ACCESS_KEY_ID": "k"}).root)
