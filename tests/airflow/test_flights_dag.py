"""The example's DAG: its tasks and their order, the commands that they run, and what an exit code is to Airflow."""

import os
import shlex
from pathlib import Path

import click
import pytest

from kstreams_replay.orchestration.cli.main import COMMANDS, _replay
from tests.airflow.stub import AirflowException, AirflowFailException, AirflowSkipException, LoadedDag, airflow
from tests.source_tree import ROOT

FILE = ROOT / "examples" / "airflow" / "flights_dag.py"


@pytest.fixture
def loaded() -> LoadedDag:
    """The file, run where Airflow is."""
    with airflow() as found:
        exec(compile(FILE.read_text(), str(FILE), "exec"), {"__name__": "flights_dag"})
    return found


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `replay` that writes down how it was called, and ends with the code in the environment."""
    command = tmp_path / "replay"
    command.write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(tmp_path / "called"))}\nexit ${{CODE:-0}}\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("REPLAY_WAREHOUSE", "tables")
    monkeypatch.setenv("REPLAY_INCOMING", "incoming")
    return tmp_path / "called"


def test_topics_land_then_an_increment_is_replayed_and_checked(loaded):
    order = {name: task.downstream for name, task in loaded.tasks.items()}

    assert order == {"run": ["check"], "land_departures": ["run"], "land_aircraft": ["run"], "check": []}
    assert loaded.settings["max_active_runs"] == 1, "two runs of a pipeline would only refuse each other"


@pytest.mark.slow
def test_the_command_understands_what_the_tasks_run(loaded, commands):
    for task in loaded.tasks.values():
        task.run()

    called = [shlex.split(line) for line in commands.read_text().splitlines()]
    assert sorted(name for name, *_ in called) == ["check", "land", "land", "run"]
    known = {name for section in COMMANDS.values() for name in section}
    for name, *arguments in called:
        assert name in known
        command = _replay.get_command(click.Context(_replay), name)
        assert command is not None
        command.make_context(name, arguments)  # raises UsageError for what it does not know


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (1, AirflowException),
        (2, AirflowFailException),
        (3, AirflowSkipException),
        (4, AirflowFailException),
        (130, AirflowException),
        (143, AirflowException),
    ],
)
def test_a_task_ends_as_its_exit_code_says(loaded, commands, monkeypatch, code, raised):
    monkeypatch.setenv("CODE", str(code))

    with pytest.raises(AirflowException, match=f"exit code {code}") as error:
        loaded.tasks["run"].run()

    assert type(error.value) is raised


@pytest.mark.parametrize("code", [0, 5])
def test_done_and_done_with_warnings_go_on(loaded, commands, monkeypatch, code):
    monkeypatch.setenv("CODE", str(code))

    loaded.tasks["run"].run()

    assert "--detailed-exit-code" in commands.read_text()
