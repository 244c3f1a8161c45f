"""Recorded restarts beside Kafka Streams' own tasks, which are closed and begin again at the same records."""

from pathlib import Path

import pytest

from kstreams_replay.jobs.compare.comparison import compare
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.judge.chosen_records import ChosenRecords
from kstreams_replay.jobs.judge.judgement import judge
from kstreams_replay.jobs.judge.kafka_tasks import JavaApplication, run_kafka
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.judge.restarting import APPLICATIONS, LIVES, TWINS, Lives, table, windows
from tests.jvm.streams import compiled
from tests.planted import tables_of

pytestmark = [pytest.mark.jvm, pytest.mark.xdist_group("oracle")]


@pytest.fixture(scope="module")
def classes() -> Path:
    with compiled(APPLICATIONS) as command:
        yield Path(command[command.index("-cp") + 1].split(":")[0])


def replayed(warehouse: Warehouse, name: str, pipeline: str, max_records: int | None = None) -> dict[str, list]:
    """Rows of all tables."""
    topology, runner = TWINS[name](), LocalRunner()
    list(replay(warehouse, topology, pipeline=pipeline, runner=runner, idle="proceed", max_records=max_records))
    return tables_of(warehouse, pipeline, topology)


@pytest.mark.nightly
@pytest.mark.parametrize("name", TWINS)
def test_a_replay_with_recorded_restarts_does_what_kafkas_tasks_do_that_restart(name, classes, tmp_path):
    lives, application = Lives(TWINS[name](), name), JavaApplication([classes], f"Restarting#{name}")
    restarted, never = (Warehouse(str(tmp_path / each)) for each in ("restarted", "never"))
    lives.land(restarted)
    lives.land(never, restarts=False)

    whole = replayed(restarted, name, "whole")
    found = judge(restarted, TWINS[name](), application, pipeline="whole")

    assert found.is_equal, found
    assert replayed(restarted, name, "cut", max_records=17 * LIVES) == whole
    assert replayed(never, name, "p") != whole  # else the restarts have changed nothing


@pytest.mark.parametrize("optimization", ["none", "all"])
def test_a_table_in_memory_is_there_behind_a_restart(optimization, classes, tmp_path):
    settings, lives = tmp_path / "application.properties", Lives(table(), "table")
    settings.write_text(f"topology.optimization={optimization}\n")
    warehouse = Warehouse(str(tmp_path / "tables"))
    lives.land(warehouse)
    list(replay(warehouse, table(), pipeline="p", runner=LocalRunner(), idle="proceed"))
    application = JavaApplication([classes], "Restarting#table", settings)

    found = judge(warehouse, table(), application, pipeline="p")

    assert found.is_equal, found
    assert found.outputs[0].rows[1] > LIVES


def test_of_a_pipeline_with_restarts_all_records_are_judged(classes, tmp_path):
    warehouse, lives = Warehouse(str(tmp_path)), Lives(windows(), "windows")
    lives.land(warehouse)
    replayed(warehouse, "windows", "p")
    application = JavaApplication([classes], "Restarting#windows")

    with pytest.raises(ConfigError, match="expected all records of a pipeline with recorded restarts, got some of"):
        judge(warehouse, windows(), application, pipeline="p", chosen=ChosenRecords(partitions=[1]))


JOINED = ("pairs", "left", "outer", "outerInMemory", "counted")
"""Their lives are the same in every run: where two restarts change rows only together, none is found."""
EXPLAINED = [(name, 0 if name in JOINED else None) for name in TWINS if not name.startswith("emitted")]
TWO_PLACES_GIVE_THE_SAME_ROWS_AND_ONE_IS_WRONG = pytest.param("left", 745214661, marks=pytest.mark.nightly)


@pytest.mark.sampled(share=12)
@pytest.mark.parametrize(("name", "number"), [*EXPLAINED, TWO_PLACES_GIVE_THE_SAME_ROWS_AND_ONE_IS_WRONG])
def test_what_kafkas_tasks_write_that_restart_is_explained_by_the_restarts(name, number, classes, tmp_path):
    topology, lives = TWINS[name](), Lives(TWINS[name](), name, number)
    warehouse, folder = Warehouse(str(tmp_path / "tables")), tmp_path / "run"
    folder.mkdir()
    lives.land(warehouse, restarts=False)
    replayed(warehouse, name, "p")
    application = JavaApplication([classes], f"Restarting#{name}")
    run = run_kafka(application, folder, lives.partitions(), lives.restarts_by_partition())
    land_records(warehouse, "live", run.written["out"], partitions=LIVES)

    found = compare(warehouse, topology, "out", with_topic="live", pipeline="p", form="events", no_cache=True)

    assert set(found.causes) == {"restart"}
    assert found.causes["restart"] > LIVES
