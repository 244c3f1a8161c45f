"""`replay run` says what it leaves unread and why, and what is not final yet."""

import pytest

from kstreams_replay.orchestration.cli.main import main
from tests.dagster.test_waiting import ORDERS_WAIT, WHAT_TO_DO, static  # noqa: F401  (a fixture)
from tests.planted import LandedRecord, plant

JOINED, SHOP = "tests.dagster.test_waiting:joined", "tests.dagster.shop:topology"


@pytest.fixture
def run(capsys):
    """Runs a command; returns exit code, stdout and stderr."""

    def run_command(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run_command


def test_a_static_table_that_holds_everything_back_is_named_with_the_ways_on(run, static):  # noqa: F811
    replay = ["run", JOINED, "--warehouse", static.root, "--pipeline", "p", "--local"]

    code, out, errors = run(*replay)

    assert code == 0
    assert "replay: warning: nothing was replayed: all 3 unread records wait for other partitions\n" in errors
    lines = out.splitlines()
    assert lines[0] == "nothing replayed for p: what has landed waits"
    assert ORDERS_WAIT in lines
    assert lines[-1] == WHAT_TO_DO
    assert run(*replay, "--detailed-exit-code")[0] == 5
    assert run(*replay, "--detailed-exit-code", "--idle", "proceed")[0] == 0


def test_results_that_are_not_final_are_counted(run, tmp_path, clicks):
    where = ["--warehouse", tmp_path / "w", "--local"]
    run("land", "clicks", *where, "--files", clicks, "--timestamp", "ms", "--key", "user")

    code, out, _ = run("run", SHOP, *where, "--pipeline", "shop")

    assert code == 0
    assert "1 result waits in held-sessions-store until stream time 1970-01-01 00:00:00.235\n" in out


def test_a_run_up_to_a_time_that_is_done_has_nothing_new_though_later_records_wait(run, static):  # noqa: F811
    plant(static, "users", [LandedRecord(0, b"bob", b"Bob", 15)], partitions=1)
    until = ["run", JOINED, "--warehouse", static.root, "--pipeline", "p", "--local", "--detailed-exit-code", "--until"]
    assert run(*until, "1970-01-01T00:00:00.012")[0] == 0

    code, out, errors = run(*until, "1970-01-01T00:00:00.012")

    assert (code, out, errors) == (3, "nothing new to replay for p\n", "")
    assert run(*until, "1970-01-01T00:00:00.030")[0] == 5, "the order of 20 is before it, and waits"
