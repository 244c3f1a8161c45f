"""Runs commands in this process."""

from collections.abc import Callable

import pytest

from kstreams_replay.orchestration.cli.main import main


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command; returns its exit code, stdout and stderr."""

    def run_command(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run_command
