"""`--storage-option`: how the object store of a warehouse is reached, for every command."""

import pytest

from kstreams_replay.jobs.history.committed_tables import read_changelog
from kstreams_replay.orchestration.cli.command import key_and_value
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.tables import object_stores
from tests.laws.object_stores import ObjectStore, played_store

SHOP = "tests.dagster.shop:topology"


@pytest.fixture
def run(capsys):
    """Runs a command; returns exit code, stdout and stderr."""

    def run_command(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run_command


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr(object_stores, "_OPTIONS", {})
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    with played_store() as started:
        yield started


@pytest.mark.slow
def test_topics_land_are_replayed_checked_and_shown_on_an_object_store(store: ObjectStore, run, clicks):
    warehouse = store.warehouse()
    object_stores._OPTIONS.clear()
    options = [word for name, value in store.options.items() for word in ("--storage-option", f"{name}={value}")]
    where = ["--warehouse", warehouse.root, *options]

    land = ["land", "clicks", *where, "--files", clicks, "--timestamp", "ms", "--key", "user", "--local"]
    assert run(*land)[0] == 0
    assert run("run", SHOP, *where, "--pipeline", "shop", "--local")[0] == 0
    assert run("check", SHOP, *where, "--pipeline", "shop", "--engine", "plain")[0] == 0
    code, out, _ = run("show", "pages", *where, "--pipeline", "shop")

    assert code == 0
    assert len(out.splitlines()) == 4
    assert read_changelog(warehouse, "shop", "pages").num_rows == 2


@pytest.mark.parametrize("pair", ["AWS_REGION", "=x"])
def test_an_option_that_is_no_pair_is_a_usage_error(run, tmp_path, pair):
    code, _, err = run("books", "--warehouse", tmp_path, "--pipeline", "p", "--storage-option", pair)

    assert code == 2
    assert "expected KEY=VALUE, got something without a key" in err


def test_a_value_may_be_that_of_an_environment_variable(monkeypatch):
    monkeypatch.setenv("MY_SECRET", "s=3")

    assert key_and_value("K=${env:MY_SECRET}", "--option") == ("K", "s=3")
    assert key_and_value("K=a ${env:MY_SECRET};$x", "--option") == ("K", "a s=3;$x")


def test_a_variable_that_is_not_set_is_a_usage_error(run, tmp_path):
    pair = "AWS_SECRET_ACCESS_KEY=${env:NOT_SET}"
    code, _, err = run("books", "--warehouse", tmp_path, "--pipeline", "p", "--storage-option", pair)

    assert code == 2
    assert "AWS_SECRET_ACCESS_KEY: the environment variable NOT_SET is not set" in err


def test_options_of_a_folder_are_a_usage_error(run, tmp_path):
    code, _, err = run("books", "--warehouse", tmp_path, "--pipeline", "p", "--storage-option", "AWS_REGION=x")

    assert code == 2
    assert "storage options AWS_REGION: expected a warehouse that is a URI" in err
