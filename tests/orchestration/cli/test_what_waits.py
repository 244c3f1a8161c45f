"""`replay run` says what it leaves unread and why, and what is not final yet."""

import json
import shlex

import pytest

from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.orchestration.what_waits import advance_command
from kstreams_replay.state.times import END_OF_TIME_MS, LATEST_MS
from tests.dagster.test_waiting import orders_wait, static  # noqa: F401  (a fixture)
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
    assert out.splitlines() == ["nothing replayed for p: what has landed waits", orders_wait(static.root)]
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


def test_a_static_table_that_is_complete_holds_nothing_back(run, static):  # noqa: F811
    assert run("advance", "users", "--complete", "--warehouse", static.root)[:2] == (
        0, "users: recorded to be complete; no other topic waits for it\n",
    )  # fmt: skip
    assert "was recorded before" in run("advance", "users", "--complete", "--warehouse", static.root)[1]

    code, out, errors = run("run", JOINED, "--warehouse", static.root, "--pipeline", "p", "--local")

    assert code == 0
    assert "warning" not in errors
    assert "3 read = 3 applied" in out


@pytest.mark.parametrize("to_ms", [1, END_OF_TIME_MS, END_OF_TIME_MS + 1, LATEST_MS])
def test_the_command_that_is_advised_is_one_that_can_be_given(run, static, to_ms):  # noqa: F811
    _, *words = shlex.split(advance_command("users", static.root, to_ms))

    code, out, _ = run(*words, "--json")

    assert (code, set(json.loads(out)["reached_ms"].values())) == (0, {to_ms})


def test_landing_says_that_a_topic_is_complete_and_refuses_more_of_it(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.jsonl").write_text('{"ms": 1, "user": "a"}\n')
    land = ["land", "users", "--warehouse", tmp_path / "w", "--files", tmp_path / "in", "--timestamp", "ms", "--local"]

    assert run(*land, "--complete")[1].endswith("users: recorded to be complete; no other topic waits for it\n")
    (tmp_path / "in" / "2.jsonl").write_text('{"ms": 2, "user": "b"}\n')
    code, _, err = run(*land)

    assert code == 1
    assert "it was recorded that the topic is complete, got something new in its source" in err
    assert run(*land, "--reopen")[0] == 0


def test_what_contradicts_is_refused(run, tmp_path):
    for words in (["--complete", "--to", "5"], [], ["--complete", "--tick"]):
        assert run("advance", "users", "--warehouse", tmp_path, *words)[0] == 2
