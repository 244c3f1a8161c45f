"""Records that are taken out of play, seen from a pipeline: its results without them, and what every answer says."""

import pytest

from kstreams_replay.jobs.branches.branches import fork
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.history.committed_tables import read_changelog
from kstreams_replay.jobs.history.exclusions import AffectedPipeline, exclude_records
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Suppressed, TimeWindows, Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.orchestration.cli.run_outcome import takeovers
from kstreams_replay.state.errors import TaskFailed
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant

TEXT = Serde.string()
FAR = 2**52
"""Of a time in the year 144683, which closes every window."""


def counts() -> Topology:
    """Final counts of windows of 10 ms."""
    builder = StreamsBuilder()
    windowed = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key().windowed_by(TimeWindows.of_size(10, grace=0))
    windowed.count().suppress(Suppressed.until_window_closes()).to("counts")
    return builder.build()


def numbers() -> Topology:
    """Values as numbers; a value that is none ends the run."""
    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).map_values("CAST(value AS BIGINT)").to("numbers")
    return builder.build()


def land(warehouse: Warehouse, *rows: tuple[str, int]) -> None:
    """(value, time) of key `a` in partition 0."""
    plant(warehouse, "in", [LandedRecord(0, b"a", value.encode(), time) for value, time in rows], partitions=1)


def run(warehouse: Warehouse, topology: Topology, pipeline: str = "p", **options):
    return list(replay(warehouse, topology, pipeline=pipeline, runner=LocalRunner(), **options))


def command(capsys, *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(list(arguments))
    said = capsys.readouterr()
    return code, said.out + said.err


def final(warehouse: Warehouse, pipeline: str) -> list[tuple[int, int]]:
    rows = read_changelog(warehouse, pipeline, "counts").to_pylist()
    return [(row["window_start_ms"], row["value"]) for row in rows]


def test_a_time_that_makes_all_others_late_is_taken_out_for_pipelines_that_begin_later(tmp_path):
    warehouse = Warehouse(tmp_path)
    land(warehouse, ("1", 3), ("2", FAR), ("3", 5), ("4", 12), ("5", 25))
    run(warehouse, counts(), "before")

    report = exclude_records(warehouse, "in", [(0, 1)], "year 144683")
    (after,) = run(warehouse, counts(), "after")

    assert final(warehouse, "before") == [(0, 1)]
    assert final(warehouse, "after") == [(0, 2), (10, 1)]
    assert (after.books.read, after.books.applied, after.books.dropped) == (4, 4, 0)
    assert report.readers == (AffectedPipeline("before", ((0, 1),), 1, 0),)
    assert report.unfinished == ()


def test_readers_are_named_with_the_last_increment_before_the_record(tmp_path):
    warehouse = Warehouse(tmp_path)
    land(warehouse, *((str(n), n) for n in range(6)))
    run(warehouse, numbers(), max_records=2)
    run(warehouse, numbers(), "short", max_records=2, increments=1)
    fork(warehouse, "p", 3, "branch")
    fork(warehouse, "p", 1, "early")

    report = exclude_records(warehouse, "in", [(0, 3), (0, 5)], "a test")

    assert report.readers == (
        AffectedPipeline("branch", ((0, 3), (0, 5)), None, None),
        AffectedPipeline("p", ((0, 3), (0, 5)), 2, 1),
    )
    said = report.readers[1].sentence(warehouse)
    assert said.startswith("p has read 0:3, 0:5 in increment 2; for results without, go back (`replay restore ")
    assert f"--pipeline p --to 1`) and run it again, or run a branch first (`replay fork --warehouse {tmp_path}" in said
    assert report.readers[0].sentence(warehouse) == (
        "branch has read 0:3, 0:5 before its own first increment; for results without, "
        "replay under another pipeline name"
    )


def test_an_unfinished_increment_is_planned_again_without_it(tmp_path, capsys):
    """
    Who waits for a record that stops it is not stuck with its plan: another takes its place.
    """
    warehouse = Warehouse(tmp_path)
    land(warehouse, ("1", 1), ("x", 2), ("3", 3))
    with pytest.raises(TaskFailed, match="conversion from `str` to `i64` failed"):
        run(warehouse, numbers())

    report = exclude_records(warehouse, "in", [(0, 1)], "no number")
    land(warehouse, ("4", 4))
    (first, second) = run(warehouse, numbers())

    assert (report.readers, report.unfinished) == ((), ("p",))
    assert [row["value"] for row in read_changelog(warehouse, "p", "numbers").to_pylist()] == [1, 3, 4]
    assert (first.increment, first.books.read, second.increment, second.books.read) == (2, 2, 3, 1)
    assert takeovers([first, second]) == [
        "increment 2 is in the place of 1, which was planned and not finished "
        "(records that it reads were taken out of play)"
    ]
    rows = Ledger(warehouse.pipeline("p").ledger).rows_of(2)
    assert rows.planned is not None
    assert rows.done is not None
    assert rows.planned.content.excluded == rows.done.content.excluded == {"in": {"0": [1]}}


def test_an_unfinished_increment_of_which_something_is_committed_runs_as_planned(tmp_path):
    class Died(Exception):
        pass

    def die(step: str) -> None:
        if step.startswith("committed"):
            raise Died

    warehouse = Warehouse(tmp_path)
    land(warehouse, ("1", 1), ("2", 2))
    with pytest.raises(Died):
        run(warehouse, numbers(), on_step=die)

    exclude_records(warehouse, "in", [(0, 1)], "a test")
    (report,) = run(warehouse, numbers())

    assert (report.increment, report.books.read) == (1, 2)
    assert [row["value"] for row in read_changelog(warehouse, "p", "numbers").to_pylist()] == [1, 2]


def test_every_command_knows_what_is_out(tmp_path, capsys):
    root, warehouse = str(tmp_path / "w"), Warehouse(str(tmp_path / "w"))
    (tmp_path / "app.py").write_text(
        "from kstreams_replay import Consumed, Serde, StreamsBuilder\n"
        "builder = StreamsBuilder()\n"
        "builder.stream('in', Consumed(Serde.string(), Serde.string())).to('out')\n"
        "topology = builder.build()\n"
    )
    app, place = f"{tmp_path / 'app.py'}:topology", ("--warehouse", root)
    land(warehouse, *((str(n), n) for n in range(4)))
    first = ("run", app, *place, "--pipeline", "old", "--local", "--max-records", "2", "--increments", "1")
    assert command(capsys, *first)[0] == 0

    code, said = command(capsys, "exclude", "in", *place, "--record", "0:1", "--record", "0:2", "--reason", "a test")

    assert code == 0
    assert said.splitlines()[0] == "in: 2 records are out of play (increment 2): 0:1, 0:2"
    assert said.splitlines()[1].startswith(
        "old has read 0:1 in increment 1; for results without, go back (`replay restore"
    )
    for pipeline in ("old", "new"):
        assert command(capsys, "run", app, *place, "--pipeline", pipeline, "--local")[0] == 0
        assert command(capsys, "check", app, *place, "--pipeline", pipeline, "--engine", "plain")[0] == 0
        assert command(capsys, "verify", app, *place, "--pipeline", pipeline, "--increments", "1")[0] == 0
        for asking in (["books"], ["inspect"]):
            _, said = command(capsys, *asking, *place, "--pipeline", pipeline)
            lines = [line.split() for line in said.splitlines() if line.startswith("in:0:")]
            state = ["read"] if pipeline == "old" else ["left", "out"]
            assert lines == [["in:0:1", *state, "a", "test"], ["in:0:2", "left", "out", "a", "test"]]
    code, said = command(capsys, "fsck", *place)
    assert code == 0
    assert "nothing damaged" in said
    explain = ("explain", "--topology", app, *place, "--pipeline")
    assert command(capsys, *explain, "old", "--record", "in:0:1")[0] == 0
    code, said = command(capsys, *explain, "old", "--record", "in:0:2")
    assert code == 1
    assert (
        "in:0:2: expected a record that the pipeline reads, got one that landing increment 2 took out of play (a test)"
        in said
    )


@pytest.mark.parametrize(("record", "got"), [("in:0:1", "'in:0:1'"), ("1", "'1'"), ("0:-1", "'0:-1'")])
def test_a_record_is_named_by_partition_and_offset(tmp_path, capsys, record, got):
    code, said = command(capsys, "exclude", "in", "--warehouse", str(tmp_path), "--record", record, "--reason", "x")

    assert code == 2
    assert f"--record: expected PARTITION:OFFSET, got {got}; write it as in 0:17" in said
