"""Going back, on the command line: fork, diff, promote, drop, restore, vacuum."""

import re
import shutil
from pathlib import Path

import pytest

from kstreams_replay.jobs.history.committed_tables import done_row
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.dagster import shop

SHOP = f"{Path(shop.__file__)}:topology"


@pytest.fixture
def warehouse(replayed, tmp_path) -> Warehouse:
    return Warehouse(shutil.copytree(replayed.root, tmp_path / "w"))


@pytest.fixture
def run(capsys, warehouse):
    """Runs a command on the warehouse; returns exit code, lines of stdout, stderr."""

    def run_command(*arguments: object) -> tuple[int, list[str], str]:
        code = main([*(str(argument) for argument in arguments), "--warehouse", warehouse.root])
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err

    return run_command


@pytest.mark.slow
def test_a_branch_is_forked_replayed_compared_promoted_and_dropped(run, warehouse):
    fork = run("fork", "--pipeline", "shop", "--at", 1, "--as", "what-if", "--topology", SHOP)
    assert fork[:2] == (0, ["what-if begins with increment 1 of shop; replay run … --pipeline what-if goes on"])
    code, out, _ = run("branches")
    assert (code, [line.split()[:4] for line in out]) == (
        0,
        [
            ["branch", "parent", "forked_at", "increment"],
            ["-" * 7, "-" * 6, "-" * 9, "-" * 9],
            ["what-if", "shop", "1", "1"],
        ],
    )

    code, out, _ = run("diff", "shop", "what-if", "--output", "sessions", "--raw")
    assert code == 4
    assert [line.split()[:3] for line in out[3:]] == [["only", "in", "A"]] * (len(out) - 3)

    assert run("run", SHOP, "--pipeline", "what-if", "--local")[0] == 0
    code, out, _ = run("diff", "shop", "what-if")
    assert code == 0
    assert [line.split()[:5] for line in out] == [
        ["pages:", "5", "equal,", "0", "differ;"],
        ["sessions:", "4", "equal,", "0", "differ;"],
    ]

    assert run("promote", "what-if")[:2] == (0, ["shop is what-if from increment 3 on (epoch 1)"])
    assert run("drop", "what-if")[:2] == (0, ["what-if is gone"])
    assert run("branches")[:2] == (0, ["no branches"])
    assert not Path(warehouse.root, "what-if").exists()


@pytest.mark.slow
def test_books_say_what_was_restated_and_count_it_once(run):
    assert run("restore", "--pipeline", "shop", "--to", 1)[:2] == (
        0,
        ["shop goes on from increment 1 (increment 3, epoch 1)"],
    )
    run("run", SHOP, "--pipeline", "shop", "--local")

    code, out, _ = run("books", "--pipeline", "shop")

    assert code == 0
    assert [(line.split()[0], line.split()[1], "yes" in line) for line in out[2:7]] == [
        ("1", "6", False), ("2", "2", True), ("3", "0", False), ("4", "2", False), ("all", "8", False),
    ]  # fmt: skip


def answers_of(lines: list[str]) -> set[str]:
    """First words of the verdicts: "WARNING" of late records, and "NOT CHECKED" of what no table has evidence of."""
    return {line.split()[0] for line in lines if re.match(r"[A-Za-z ]+ G\d+ ", line)}


@pytest.mark.slow
def test_all_increments_are_checked_those_of_a_branch_too(run):
    run("restore", "--pipeline", "shop", "--to", 1)
    run("fork", "--pipeline", "shop", "--at", 1, "--as", "b")
    run("run", SHOP, "--pipeline", "b", "--local")

    code, out, _ = run("check", SHOP, "--pipeline", "shop", "--all", "--engine", "plain")
    assert (code, answers_of(out) - {"WARNING", "NOT"}) == (0, {"holds"})
    code, out, _ = run("check", SHOP, "--pipeline", "b", "--all", "--engine", "plain")
    assert (code, answers_of(out) - {"WARNING", "NOT"}) == (0, {"holds"})


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--increment", 2), ("--all",)])
def test_a_check_of_a_fresh_fork_judges_the_increment_that_it_was_forked_from(run, warehouse, options):
    run("fork", "--pipeline", "shop", "--at", 2, "--as", "b")
    run("fork", "--pipeline", "b", "--at", 2, "--as", "c")

    of_shop = run("check", SHOP, "--pipeline", "shop", "--increment", 2, "--engine", "plain")
    *of_fork, err = run("check", SHOP, "--pipeline", "c", *options, "--engine", "plain")

    assert of_fork == [*of_shop[:2]]
    assert "holds" in answers_of(of_shop[1])
    assert err == ("replay check: judging increment 2 of shop, with which c begins; the verdicts are not recorded\n")
    assert not Path(warehouse.root, "c", "quality_results").exists()


def test_a_check_of_a_fork_from_the_start_says_that_there_is_nothing_to_judge(run):
    run("fork", "--pipeline", "shop", "--at", 0, "--as", "b")

    code, _, err = run("check", SHOP, "--pipeline", "b", "--engine", "plain")

    assert code == 1
    assert "pipeline 'b': expected a done increment of its own, got none" in err


def test_a_branch_without_increments_of_its_own_has_no_books(run):
    run("fork", "--pipeline", "shop", "--at", 2, "--as", "b")

    assert run("books", "--pipeline", "b")[:2] == (0, ["nothing replayed yet by b"])


def test_vacuum_tells_what_would_go_and_deletes_when_asked(run, warehouse):
    dead = Path(warehouse.root, "shop/outputs/pages/partition=0/00000001-0_0-dead.parquet")
    dead.write_bytes(b"12345")

    code, out, _ = run("vacuum", "--pipeline", "shop")
    assert code == 0
    assert [line.split() for line in out[2:4]] == [
        ["outputs/pages", "never", "committed", "1", "5"],
        ["all", "1", "5"],
    ]
    assert out[4:] == ["1 files, 5 bytes would be deleted by --delete"]
    assert dead.exists()

    code, out, _ = run("vacuum", "--pipeline", "shop", "--keep-increments", 1, "--delete")
    assert (code, out[-1]) == (0, "the oldest increment that can be asked for is 2")
    assert not dead.exists()
    code, _, err = run("show", "pages", "--pipeline", "shop", "--increment", 1)
    assert code == 1
    assert "increment 1, which was vacuumed; the oldest that can be asked for is 2" in err
    assert run("vacuum", "--pipeline", "shop", "--delete")[1][0] == "nothing to delete"


def test_a_branch_has_no_name_that_a_command_takes_for_an_option(run):
    code, out, err = run("fork", "--pipeline", "shop", "--at", 1, "--as", "-x")

    assert (code, out) == (2, [])
    assert "branch '-x': expected a name that no command takes for an option, got one that begins with '-'" in err
    assert run("branches")[1] == ["no branches"]


def test_a_promoted_branch_is_dropped_before_the_one_that_it_is_based_on(run):
    run("fork", "--pipeline", "shop", "--at", 2, "--as", "first")
    run("fork", "--pipeline", "first", "--at", 2, "--as", "second")
    assert run("promote", "second")[0] == 0

    code, _, err = run("drop", "first")

    assert code == 2
    assert "got second; drop those first; one whose rows are wanted is promoted before" in err
    assert [run("drop", name)[0] for name in ("second", "first")] == [0, 0]


def test_what_cannot_be_done_is_said_in_one_sentence(run, warehouse):
    code, _, err = run("promote", "none")
    assert (code, err) == (
        2,
        "replay: branch 'none': expected a branch that was forked, got open ones: none at all; see `replay branches` "
        "[replay errors ConfigError]\n",
    )
    assert run("restore", "--pipeline", "shop", "--to", 9)[0] == 1
    assert run("fork", "--pipeline", "shop", "--at", 2, "--as", "landed")[0] == 2
    assert done_row(warehouse, "shop").increment == 2
