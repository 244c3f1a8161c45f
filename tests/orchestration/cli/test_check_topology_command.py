"""The command check-topology, and the options of run for changed code."""

import shutil
from pathlib import Path

import pytest

from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop

SHOP = f"{Path(shop.__file__)}:topology"
FEWER = """
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, SessionWindows, StreamsBuilder, fold

def topology(gap=20, store="open-sessions"):
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", Consumed(Serde.string(), Serde.json("page string, ms long")))
    sessions = clicks.group_by_key().windowed_by(SessionWindows.with_inactivity_gap(gap, grace=15))
    sessions.aggregate(
        clicks=fold.count(), last_page=fold.last("page"), first_page=fold.first("page"),
        materialized=Materialized.as_(store),
    ).to_stream().to("changes")
    return builder.build()

def wider():
    return topology(gap=40)

def renamed():
    return topology(store="sessions-of-users")

def none(rows):
    return rows.slice(0, 0)
"""


@pytest.fixture
def fewer(tmp_path) -> Path:
    path = tmp_path / "fewer.py"
    path.write_text(FEWER)
    return path


@pytest.fixture
def run(capsys):
    def run_command(*arguments: object) -> tuple[int, list[str], str]:
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err

    return run_command


def place(warehouse: Warehouse) -> list[str]:
    return ["--warehouse", warehouse.root, "--pipeline", "shop"]


def test_the_topology_that_made_the_state_differs_in_nothing(run, replayed):
    code, out, _ = run("check-topology", SHOP, *place(replayed))

    assert (code, out) == (0, ["nothing differs that the state of increment 2 depends on"])


def test_what_goes_on_is_listed_with_what_it_means(run, replayed, fewer):
    code, out, _ = run("check-topology", f"{fewer}:topology", *place(replayed))

    assert code == 0
    assert out[-1] == "the state of increment 2 goes on"
    assert (
        "goes on  store 'open-sessions': fold 'first_page' was none, is first page: null in aggregates from before"
        " until their next record, and then of what came since"
    ) in out
    assert "goes on  store 'held-sessions-store': removed: its rows stay readable as of the increments before" in out


def test_what_does_not_is_refused_by_both_commands_with_the_ways_on(run, replayed, fewer):
    code, out, _ = run("check-topology", f"{fewer}:wider", *place(replayed))
    refused, _, err = run("run", f"{fewer}:wider", *place(replayed), "--local")

    assert (code, refused) == (4, 1)
    assert "REFUSED  store 'open-sessions': gap_ms was 20, is 40: its rows were made under the other setting" in out
    assert out[-1] == "two options: fork and replay from the start, or --migrate STORE=MODULE:FUNCTION"
    assert "gap_ms was 20, is 40" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topology", "option"),
    [("wider", "--migrate=open-sessions={fewer}:none"), ("renamed", "--renamed=open-sessions=sessions-of-users")],
)
def test_a_wish_lets_it_go_on(run, replayed, fewer, tmp_path, topology, option):
    warehouse = Warehouse(shutil.copytree(replayed.root, tmp_path / "w"))
    changed = f"{fewer}:{topology}", *place(warehouse), option.format(fewer=fewer)

    checked, _, _ = run("check-topology", *changed)
    code, out, _ = run("run", *changed, "--local")
    again, said, _ = run("run", *changed, "--local")

    judged, verdicts, _ = run("check", changed[0], *place(warehouse), "--engine", "plain")

    assert (checked, code, again) == (0, 0, 0)
    assert (judged, {line[:7] for line in verdicts} - {" " * 7}) == (0, {"holds  ", "NOT CHE"})  # of no records
    assert {line.split()[2] for line in verdicts if line.startswith("NOT CHE")} == {"G4", "G6", "G11"}  # of old code
    assert [line.split()[:2] for line in out[2:-2]] == [["3", "0"], ["0", "records"]]
    assert said == ["nothing new to replay for shop"]


@pytest.mark.parametrize("option", ["--migrate=open-sessions", "--renamed=open-sessions"])
def test_a_wish_without_its_second_half_is_refused(run, replayed, option):
    code, _, err = run("check-topology", SHOP, *place(replayed), option)

    assert code == 2
    assert "put = between the store and the rest" in err
