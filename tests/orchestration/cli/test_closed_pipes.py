"""Pipes that nobody reads any more: of the results, of the remarks, and of another program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kstreams_replay.orchestration.cli.exit_codes import ExitCode
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.orchestration.cli.test_main import SHOP

PROGRAM = "import sys; from kstreams_replay.orchestration.cli.main import program; sys.exit(program())"


@pytest.mark.parametrize("name", ["stdout", pytest.param("stderr", marks=pytest.mark.nightly)])
def test_a_run_ends_whole_when_nobody_reads_what_it_says(tmp_path, clicks, capsys, name):
    main(["land", "clicks", "--files", str(clicks), "--timestamp", "ms", "--local", "--warehouse", str(tmp_path)])
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, name: writer}

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "run", SHOP, "--warehouse", str(tmp_path), "--pipeline", "shop", "--local",
         "--max-records", "4"],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}, text=True, check=False, **streams,
    )  # fmt: skip
    os.close(writer)

    assert done.returncode == ExitCode.DONE
    last = Ledger(Warehouse(tmp_path).pipeline("shop").ledger).last_done()
    assert last.increment == 2
    assert sum(last.content.cut_to["clicks"].values()) == 6
    if name == "stderr":
        assert "6 records in 2 increments" in done.stdout


def test_a_broken_pipe_of_another_program_is_an_error(tmp_path, command, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("kstreams_replay.orchestration.cli.commands.vacuum.vacuum_pipeline", broken)

    code, _, said = command("vacuum", "--warehouse", tmp_path, "--pipeline", "shop")

    assert code == ExitCode.ERROR
    assert said.startswith("replay: ")
