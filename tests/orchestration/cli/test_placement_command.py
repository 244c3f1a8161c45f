"""The command `placement`, over the hint of a group of two workers that a third one has joined."""

import pytest

from kstreams_replay.jobs.execution.placement_hint import read_hint, write_hint
from kstreams_replay.jobs.placement.group import Group, Present
from kstreams_replay.jobs.placement.members import TaskId
from kstreams_replay.jobs.placement.settings import HIGH_AVAILABILITY, PlacementSettings
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.orchestration.placement.tables import placed_tables, placement_numbers, placement_sentence
from kstreams_replay.state.tables.warehouse import Warehouse

MEMBERS = {"aaaaaaaa-1": "10.0.0.1", "bbbbbbbb-2": "10.0.0.2"}


@pytest.fixture
def placed(tmp_path):
    """Four tasks of 2 MB on the first worker; the second has copied half of 0_1 and nothing of 0_3."""
    group = Group(PlacementSettings(HIGH_AVAILABILITY, max_warmup_replicas=1, acceptable_recovery_lag_bytes=0))
    for partition in range(4):
        task = TaskId(0, partition)
        group.ran(task, "aaaaaaaa-1", {f"{task}/1": 1_000_000, f"{task}/2": 1_000_000})
    group.has_warm("bbbbbbbb-2", {"0_1/1"})
    group.assign([Present(member) for member in MEMBERS])
    warehouse = Warehouse(tmp_path)
    members = {member: {"hosts": [host], "cores": 1, "tags": {"zone": "a"}} for member, host in MEMBERS.items()}
    seconds = {"0_0": 9.0, "0_1": 1.0, "0_2": 1.0, "0_3": 1.0}
    write_hint(warehouse.pipeline("p"), group, increment=7, members=members, elsewhere=["0_2"], seconds=seconds)
    return ["--warehouse", warehouse.root, "--pipeline", "p"]


def lines(capsys) -> list[str]:
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_it_shows_members_tasks_and_what_is_learned_and_why(placed, capsys):
    assert main(["placement", *placed]) == 0

    said = lines(capsys)
    assert "members, increment 7, high_availability:" in said
    assert any("aaaaaaaa" in line and "zone=a" in line and "0_0 0_1 0_2 0_3" in line for line in said)
    assert any("10.0.0.2/bbbbbbbb 50 %" in line for line in said)  # of 0_1
    assert any("0_1" in line and "learns, 1.0 MB to go" in line for line in said)
    assert any("0_3" in line and "waits for a warm-up to be free" in line for line in said)
    assert any("Spark ran 0_2 elsewhere" in line for line in said)
    assert any("task 0_0 takes 9.00 s" in line for line in said)


def test_a_task_that_is_learned_already_waits_for_its_next_owner_to_have_room(placed):
    hint = read_hint(Warehouse(placed[1]).pipeline("p"))
    hint["group"]["warm"]["bbbbbbbb-2"].append("0_1/2")

    tables, _ = placed_tables(hint)
    (moves,) = [rows for title, rows in tables if title == "moves to come"]

    assert [(row["task"], row["why not yet"]) for row in moves] == [
        ("0_1", "learned, takes it over when it has room"),
        ("0_3", "waits for a warm-up to be free"),
    ]


def test_a_preview_says_what_would_move_and_what_must_be_copied(placed, capsys):
    assert main(["placement", *placed, "--preview", "--members", "6"]) == 0

    said = lines(capsys)
    # each of four members runs one task in the end: three move, 0_1 with half of it there
    assert said[0] == "3 of 4 tasks would move; increments until all is done: 4"
    assert said[1].startswith("5.0 MB of state would be copied")
    assert "  0_1: 10.0.0.1/aaaaaaaa -> 10.0.0.2/bbbbbbbb, 2.0 MB" in said
    assert "2 of 6 cores have nothing to do: there are 4 tasks, one a partition" in said


def test_dagster_is_told_the_same_in_numbers_and_in_a_line(placed):
    hint = read_hint(Warehouse(placed[1]).pipeline("p"))

    assert placement_numbers(hint, 7) == {
        "placement/members": 2,
        "placement/tasks_elsewhere": 1,
        "placement/tasks_learned": 1,
        "placement/moves_to_come": 2,
    }
    assert placement_sentence(hint, 7) == (
        "increment 7: tasks placed on 2 workers; 10.0.0.2/bbbbbbbb learns 0_1 (50 %); 0_2 ran elsewhere; "
        "task 0_0 takes 9.00 s, longer than the 6.00 s that each core has: it bounds the increment, and more workers "
        "do not make it shorter"
    )


@pytest.mark.parametrize("increment", [6, 8])
def test_of_another_increment_than_the_last_nothing_is_told(placed, increment):
    hint = read_hint(Warehouse(placed[1]).pipeline("p"))

    assert placement_numbers(hint, increment) == placement_numbers(None, increment) == {}
    assert placement_sentence(hint, increment) is None
    assert placement_sentence(None, increment) is None


def test_members_without_a_preview_are_refused(placed, capsys):
    assert main(["placement", *placed, "--members", "3"]) == 2


def test_a_pipeline_that_was_never_placed_is_told_what_to_do(tmp_path, capsys):
    assert main(["placement", "--warehouse", str(tmp_path), "--pipeline", "p"]) != 0

    assert "run it on a cluster with --placement high_availability or sticky" in capsys.readouterr().err


@pytest.mark.parametrize("where", [["--local"], ["--master", "local[2]"]])
def test_a_placement_on_one_machine_is_refused_and_not_left_out(tmp_path, capsys, where):
    asked = ["run", "topology.py", "--warehouse", str(tmp_path), "--pipeline", "p", "--placement", "sticky", *where]

    assert main(asked) == 2
    assert f"--placement sticky: expected a cluster, got {' '.join(where)};" in capsys.readouterr().err
