"""What `compare --infer-restarts` proposes can be recorded, and a replay with it has the differences that are said.

Expected rows are those of docs/compare.md, which Kafka Streams wrote on a real broker: the late record at offset 4 was
let in by a restart before it.
"""

import shlex

import pytest

from kstreams_replay.jobs.compare.comparison import Comparison, compare
from kstreams_replay.jobs.compare.proposed_restarts import Proposal
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.exclusions import book_exclusion
from kstreams_replay.jobs.landing.recorded_restarts import record_restarts
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Materialized, Serde, StreamsBuilder, TimeWindows, Topology
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.compare.test_compare import LET_IN, RESTART, WRITTEN, at, long
from tests.compare.test_recorded_restarts import CODE, windowed
from tests.planted import LandedRecord, plant

pytestmark = pytest.mark.every_run

S = Serde.string()


def compared(warehouse: Warehouse, topology: Topology, rows: list[tuple[bytes, bytes, int]]) -> Comparison:
    plant(warehouse, "in", [LandedRecord(0, *row) for row in RESTART], partitions=1)
    plant(warehouse, "live", [LandedRecord(0, *row) for row in rows], partitions=1)
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner()))
    return again(warehouse, topology, "p")


def again(warehouse: Warehouse, topology: Topology, pipeline: str) -> Comparison:
    return compare(warehouse, topology, "out", with_topic="live", pipeline=pipeline, form="events", infer_restarts=True)


def proposed(comparison: Comparison) -> Proposal:
    assert comparison.proposal is not None
    return comparison.proposal


def test_a_replay_with_what_is_proposed_has_the_differences_that_are_said(warehouse):
    """
    Production lost its second row, and its late one came with a restart.
    """
    proposal = proposed(compared(warehouse, windowed(), [*WRITTEN[:1], *WRITTEN[2:], LET_IN]))

    assert [each.place for each in proposal.restarts] == ["0:4"]
    assert proposal.leaves == {"record cache": 1}
    record_restarts(warehouse, "in", [(0, 4)])
    list(replay(warehouse, windowed(), pipeline="restarted", runner=LocalRunner()))
    assert again(warehouse, windowed(), "restarted").causes == {"record cache": 1}


def test_a_row_that_a_restart_let_in_and_that_a_crash_repeated_is_left_as_published_twice(warehouse):
    proposal = proposed(compared(warehouse, windowed(), [*WRITTEN, LET_IN, LET_IN]))

    assert [each.place for each in proposal.restarts] == ["0:4"]
    assert proposal.leaves == {"published twice": 1}


def test_a_restart_with_which_a_replay_differs_as_much_is_not_proposed(warehouse):
    """
    The late record gives 1 after a restart, never 7.
    """
    found = compared(warehouse, windowed(), [*WRITTEN, (at(b"a", 0), long(7), 2_000)])

    assert [each.place for each in found.restarts] == ["0:4"]
    assert proposed(found).restarts == ()
    assert proposed(found).reason == "differences after a replay with them: 1; without them: 1"


def test_a_restart_that_another_task_of_the_topic_cannot_take_is_not_proposed(warehouse):
    builder = StreamsBuilder()
    records = builder.stream("in", Consumed(S, S))
    records.group_by_key().windowed_by(TimeWindows.of_size("10s")).count().to_stream().to("out")
    records.to_table(materialized=Materialized.versioned("history", "1h")).to_stream().to("versions")

    proposal = proposed(compared(warehouse, builder.build(), [*WRITTEN, LET_IN]))

    assert proposal.restarts == ()
    assert list(proposal.impossible) == ["in:0:4"]
    assert "expected an operator that can restart" in proposal.impossible["in:0:4"]


def test_a_restart_before_a_record_of_a_repartition_topic_is_not_proposed(warehouse):
    builder = StreamsBuilder()
    again = builder.stream("in", Consumed(S, S)).select_key(lambda key, value: key, returns=S)
    again.group_by_key().windowed_by(TimeWindows.of_size("10s")).count(name="counts").to_stream().to("out")

    proposal = proposed(compared(warehouse, builder.build(), [*WRITTEN, LET_IN]))

    assert proposal.restarts == ()
    ((place, why),) = proposal.impossible.items()
    assert place.endswith("-repartition:0:4")
    assert why.endswith("has not landed, and tasks that read a repartition topic do not restart")


def test_a_restart_before_a_record_that_was_taken_out_of_play_is_not_proposed(warehouse):
    compared(warehouse, windowed(), [*WRITTEN, LET_IN])
    book_exclusion(warehouse, "in", [(0, 4)], "a test")

    assert proposed(again(warehouse, windowed(), "p")).impossible == {"in:0:4": "its record was taken out of play"}


def test_commands_that_are_printed_run_as_they_are(tmp_path, capsys):
    warehouse, code = Warehouse(str(tmp_path / "a lake")), tmp_path / "my windows.py"
    code.write_text(CODE)
    compared(warehouse, windowed(), [*WRITTEN, LET_IN])
    words = ["compare", "out", "--with-topic", "live", "--topology", f"{code}:topology"]

    assert main([*words, "--warehouse", warehouse.root, "--pipeline", "p", "--infer-restarts"]) == 4
    printed = [line.strip() for line in capsys.readouterr().out.splitlines()]
    land, explain = (
        next(line for line in printed if line.startswith(f"replay {name}")) for name in ("land", "explain")
    )
    assert main(shlex.split(land)[1:]) == 0
    assert "1 restart recorded before 0:4" in capsys.readouterr().out
    assert main(shlex.split(explain)[1:]) == 0
    assert "in:0:4 was read by increment 1" in capsys.readouterr().out
