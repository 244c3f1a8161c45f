"""What the command is asked for by name: its version, commands that are mistyped, and a line that a shell completes."""

import os
import re
import subprocess
import sys

import click
import pytest

import kstreams_replay
from kstreams_replay.orchestration.cli.main import COMMANDS, _replay, main
from tests.source_tree import ROOT, text_of

VERSION = re.search(r'^version = "(.+)"$', text_of("pyproject.toml"), re.MULTILINE)


def test_the_version_is_that_of_pyproject(capsys):
    assert VERSION is not None
    assert kstreams_replay.__version__ == VERSION[1]
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"replay {VERSION[1]}\n"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["shwo"], "No such command 'shwo', did you mean 'show'? See replay --help"),
        (["brnches"], "No such command 'brnches', did you mean 'bench' or 'branches'? See replay --help"),
        (["zzz"], "No such command 'zzz'; see replay --help"),
        (
            ["show", "pages", "--warehuse", "W"],
            "No such option '--warehuse', did you mean '--warehouse'? See replay show --help",
        ),
    ],
)
def test_names_near_to_a_mistyped_one_are_named(capsys, command, sentence):
    assert main(command) == 2
    assert capsys.readouterr().err == f"replay: {sentence}\n"


def test_every_number_that_an_option_takes_has_bounds():
    commands = {name: _replay.get_command(None, name) for section in COMMANDS.values() for name in section}

    unbounded = {
        f"{name} {param.opts[0]}"
        for name, command in commands.items()
        for param in command.params
        if param.type in (click.INT, click.FLOAT) or type(param.type) in (click.FloatRange, click.IntRange)
    }

    assert unbounded == set()


def completed(line: str, shell: str = "bash") -> list[str]:
    """What a shell is given for the last word of ``line``."""
    words = line.split(" ")
    environment = os.environ | {
        "_REPLAY_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1),
    }  # fmt: skip
    program = "import sys; from kstreams_replay.orchestration.cli.main import program; sys.exit(program())"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.sampled(share=3)
@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("replay sho", ["plain,show"]),
        ("replay show pages --w", ["plain,--warehouse", "plain,--window", "plain,--wide"]),
        ("replay check x --engine ", ["plain,gx", "plain,plain"]),
        ("replay land clicks --on-gap ", ["plain,refuse", "plain,skip"]),  # none of the sources is named yet
        ("replay vacuum --keep-days 1 --keep-increments 1 --de", ["plain,--delete"]),
    ],
)
def test_a_shell_completes_commands_options_and_values(line, want):
    assert completed(line) == want
