"""By arrival, where a later stage decides the order of what an earlier one took: stages run again, and leave nothing.

Kafka Streams answered the scenario: three repartition tables, and all that the last record causes has the same time.
"""

from pathlib import Path

import pytest

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.explain.explanation import explain
from kstreams_replay.jobs.explain.observed_task import ObservedTask
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.tape.causal_order import is_known_late
from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder
from kstreams_replay.state.errors import TaskFailed
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.conformance.engines import built, play_with_driver
from tests.conformance.scenarios import REGRESSIONS, read_scenarios
from tests.conformance.translation import OUTPUT, topic_serdes
from tests.landing.landed_records import records

(SCENARIO,) = read_scenarios(REGRESSIONS / "random-900005746-1.jsonl")
STAGES = 4
"""Counting, taking, the table's answers, and what becomes of these."""


class RecordedRunner(LocalRunner):
    """``reports``: by stage as it ran; ``left``: files below the warehouse when each stage began."""

    def __init__(self) -> None:
        super().__init__()
        self.reports, self.left = [], []

    def run(self, topology, descriptions):
        root = Path(descriptions[0].warehouse.root)
        self.left.append({path.name for path in root.rglob("*.parquet")})
        self.reports.append(super().run(topology, descriptions))
        return self.reports[-1]

    def written(self, stages):
        files = (file for stage in stages for task in stage for found in task.files.values() for file in found)
        return {Path(file["path"]).name for file in files}


def played(tmp_path, runner, **options):
    """The warehouse, the topology and how ``runner`` replayed the last record, alone in its increment."""
    topology, warehouse = built(SCENARIO), Warehouse(str(tmp_path))
    serde = topic_serdes(SCENARIO.records)["s0"]
    values = serde.encode(serde.from_python([record["value"] for record in SCENARIO.records])).to_pylist()
    rows = [(0, r["ts"], r["key"].encode(), value) for r, value in zip(SCENARIO.records, values, strict=True)]
    land_records(warehouse, "s0", records(*rows, arrivals=[0, 1, 2]))
    list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), max_records=2, increments=1, order="arrival"))
    list(replay(warehouse, topology, pipeline="p", runner=runner, order="arrival", **options))
    return warehouse, topology, runner


@pytest.fixture
def replayed(tmp_path):
    return played(tmp_path, RecordedRunner())


def test_stages_run_again_until_every_task_has_taken_its_rows_in_order(replayed):
    warehouse, _, runner = replayed

    got = read_table(warehouse, "p", f"outputs/{OUTPUT}").sort_by("offset").to_pylist()

    assert [row["key"] for row in got if row["arrival"] == 2] == ["1", "1", "12", "1", "1", "2"]
    assert len(runner.reports) == 2 * STAGES


def test_what_the_first_run_wrote_is_gone_before_the_second(replayed):
    warehouse, _, runner = replayed
    first, second = runner.written(runner.reports[:STAGES]), runner.written(runner.reports[STAGES:])

    assert first
    assert first & runner.left[STAGES] == set()
    assert first & second == set()
    assert first & {path.name for path in Path(warehouse.root).rglob("*.parquet")} == set()


def test_progress_counts_a_record_once(tmp_path):
    told = []
    played(tmp_path, LocalRunner(), progress=told.append)

    assert [progress.step for progress in told].count("sub-topology 0") == 2
    assert {progress.records_done for progress in told} == {0, 1}
    assert {progress.records_to_do for progress in told} == {1}


def test_a_record_is_explained_by_all_tasks_run_as_often(replayed, monkeypatch):
    warehouse, topology, _ = replayed
    ran, run = [], ObservedTask.run
    monkeypatch.setattr(ObservedTask, "run", lambda self: ran.append(self.description.id) or run(self))

    steps = explain(warehouse, "p", topology, "s0:0:2", order="arrival").steps
    sink = topology.sinks()[0].name

    assert [sentence for step in steps if step.node == sink for sentence in step.sentences] == [
        f"writes outputs/out offset {offset}: {output['key']!r} = {output['value']!r}, time 14"
        for offset, output in enumerate(SCENARIO.want["outputs"][2], 1)
    ]
    assert ran == 2 * ["0_0", "1_0", "2_0", "3_0"]


@pytest.mark.parametrize("handler", ["LogAndContinueExceptionHandler", "LogAndFailExceptionHandler"])
def test_a_failure_counts_where_stages_might_have_run_again(tmp_path, handler):
    texts, warehouse = Consumed(Serde.string(), Serde.string()), Warehouse(str(tmp_path))
    builder = StreamsBuilder(config={"processing.exception.handler": handler})
    numbers = builder.stream("in", texts).map_values(lambda word: int(word), returns=Serde.long(), name="number")
    counts = [numbers.group_by(f"value % {by}").count().to_stream(name=f"by-{by}") for by in (2, 3, 5)]
    counts[0].merge(counts[1]).merge(counts[2]).to("out")
    topology = builder.build()
    land_records(warehouse, "in", records(*((0, 7, b"k", word) for word in (b"4", b"x", b"10")), arrivals=[0, 1, 2]))

    def play():
        return list(replay(warehouse, topology, pipeline="p", runner=LocalRunner(), order="arrival"))

    assert is_known_late(topology)
    if handler == "LogAndFailExceptionHandler":
        with pytest.raises(TaskFailed, match="of the record in-0, offset 1"):
            play()
        return
    play()
    dropped = read_table(warehouse, "p", "dropped").to_pylist()
    assert [(row["node"], row["reason"], row["offset"]) for row in dropped] == [("number", "processing-exception", 1)]
    got = read_table(warehouse, "p", "outputs/out").sort_by("offset").to_pylist()
    driver = TopologyTestDriver(topology)
    for word in ("4", "x", "10"):
        driver.pipe_input("in", "k", word, 7)
    assert len(got) == 6
    assert [(row["arrival"], row["key"], row["value"]) for row in got] == [
        (one.arrival, one.key, one.value) for one in driver.read_outputs("out")
    ]


def test_an_order_that_is_never_settled_is_refused(monkeypatch, tmp_path):
    """
    As if a callable answered differently each time.
    """
    monkeypatch.setattr("kstreams_replay.jobs.tape.causal_order.RUNS_MAX", 3)
    monkeypatch.setattr("kstreams_replay.jobs.replay.stage_exchange.are_in_order", lambda arrival, sequence: False)
    monkeypatch.setattr("kstreams_replay.jobs.testing.driver_tasks.are_in_order", lambda arrival, sequence: False)

    with pytest.raises(TaskFailed, match=r"settled after 3 runs .*; look for a callable that answers differently"):
        played(tmp_path, LocalRunner())
    with pytest.raises(TaskFailed, match=r"settled after 3 runs"):
        play_with_driver(SCENARIO)
