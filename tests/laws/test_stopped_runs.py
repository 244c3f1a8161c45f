"""A run that is stopped by Ctrl-C or SIGTERM says so, leaves no lock and nothing half visible."""

import functools
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.orchestration.cli.main import main
from tests.laws.pipelines import INCREMENTS, NAME, PIPELINES, RECORDS, begun, done_of, drive, undisturbed
from tests.laws.whole import first_difference

LINES = r"replay: stopped by {}\nreplay: increments up to (\d+) are committed; the same command continues from there\n$"
DONE = re.compile(r"increment 2 · [^·]+ · [^·]+ · stream time [^·]+\n")
"""The line of an increment that is done; others name what takes long."""


@pytest.mark.nightly
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_says_so_and_the_next_one_goes_on(number, code):
    topology, alone = PIPELINES["brief"].topology, undisturbed("brief", 1).warehouse
    with begun("brief", 1, 0) as warehouse:
        command = ["run", PIPELINES["brief"].reference, "--warehouse", warehouse.root, "--pipeline", NAME, "--local"]
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "kstreams_replay.orchestration.cli.main",
                *command,
                "--max-records",
                str(RECORDS),
                "--idle",
                "proceed",
            ],
            cwd=Path(__file__).parents[2],
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
        said: list[str] = []
        while not said or DONE.fullmatch(said[-1]) is None:
            said.append(process.stderr.readline())
            assert said[-1], said
        process.send_signal(number)
        _, rest = process.communicate()
        done = done_of(warehouse)

        kept = re.search(LINES.format("Ctrl-C" if number == signal.SIGINT else "SIGTERM"), rest)
        assert kept is not None, rest
        assert (process.returncode, 2 <= done < INCREMENTS) == (code, True)
        assert int(kept[1]) in (done - 1, done), "a stop may come just before the increment's report"
        seen, want = (
            read_table(warehouse, NAME, "outputs/pages"),
            read_table(alone, NAME, "outputs/pages", increment=done),
        )
        assert seen == want

        drive(warehouse, topology, INCREMENTS)
        assert first_difference(warehouse, alone, topology, since=0, until=INCREMENTS) is None


def test_sigterm_is_what_it_was_when_the_command_is_over(capsys):
    before = signal.getsignal(signal.SIGTERM)

    assert main(["describe", PIPELINES["brief"].reference]) == 0
    assert signal.getsignal(signal.SIGTERM) is before
