"""An error names the command that says what to do about it."""

import pytest

from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.error_page import error_sections


def test_the_command_prints_the_section_of_an_error(capsys):
    assert main(["errors", "LedgerConflict"]) == 0
    assert capsys.readouterr().out.startswith("Another runner processed the same increment, ")


def test_without_a_name_it_prints_every_section(capsys):
    assert main(["errors"]) == 0
    assert "\n\nTopologyError\nThe topology cannot work" in capsys.readouterr().out


def test_a_name_of_no_error_is_refused(capsys):
    assert main(["errors", "KeyError"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("replay: errors: expected one of ReplayError, ConfigError, ")
    assert said.endswith("got 'KeyError'; take the name from the error [replay errors ConfigError]\n")


@pytest.mark.parametrize("name", sorted(error_sections()))
def test_a_section_has_no_links_which_a_terminal_cannot_follow(name):
    assert "](" not in error_sections()[name]
