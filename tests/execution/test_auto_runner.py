"""Small increments run in this process, others on Spark, and nobody sees it in the rows."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import NoReturn

import pytest

from kstreams_replay.jobs.execution import auto_runner
from kstreams_replay.jobs.execution.auto_runner import AutoRunner
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.files import spark_tasks
from kstreams_replay.jobs.landing.landing import FileSource
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology
from kstreams_replay.orchestration import engines
from kstreams_replay.orchestration.cli.commands.run import _where
from kstreams_replay.orchestration.cli.main import main
from kstreams_replay.orchestration.resources import SparkEngine
from kstreams_replay.state.errors import ConfigError, MachineError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.planted import LandedRecord, plant, tables_of


def topology() -> Topology:
    """Two sub-topologies: words by their own text, then how many there are of each."""
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(Serde.string(), Serde.string()))
    words.group_by("value").count().to_stream().to("counts")
    return builder.build()


class Recorded:
    """A stand-in for Spark that keeps which increments it ran, and of which sub-topologies."""

    def __init__(self) -> None:
        self.ran: list[tuple[int, int]] = []

    def run(self, topology, descriptions):
        self.ran += [(each.increment, each.sub_topology) for each in descriptions]
        return LocalRunner().run(topology, descriptions)


def land(warehouse, words: str, *, since_ms: int = 0) -> None:
    records = [LandedRecord(0, b"k", word.encode(), since_ms + at) for at, word in enumerate(words)]
    plant(warehouse, "words", records, partitions=1)


def counts(warehouse) -> list[tuple[bytes, int]]:
    return [(row["key"], row["value"]) for row in tables_of(warehouse, "p", topology())["outputs/counts"]]


def test_an_increment_runs_in_one_place_by_its_landed_records(warehouse):
    recorded, started = Recorded(), []

    def spark() -> Recorded:
        started.append(1)
        return recorded

    runner = AutoRunner(spark, records=3)
    land(warehouse, "abc")
    assert len([*replay(warehouse, topology(), pipeline="p", runner=runner)]) == 1
    assert (recorded.ran, started) == ([], [])

    land(warehouse, "abcd", since_ms=10)
    assert len([*replay(warehouse, topology(), pipeline="p", runner=runner)]) == 1
    assert recorded.ran == [(2, 0), (2, 1)]  # its second stage reads files of rows, however few

    land(warehouse, "e", since_ms=20)
    assert len([*replay(warehouse, topology(), pipeline="p", runner=runner)]) == 1
    assert recorded.ran == [(2, 0), (2, 1)]
    assert started == [1]
    assert counts(warehouse) == [("a", 1), ("b", 1), ("c", 1), ("a", 2), ("b", 2), ("c", 2), ("d", 1), ("e", 1)]


def test_a_small_replay_needs_no_spark_at_all(warehouse):
    land(warehouse, "aab")
    code = (
        "import sys\n"
        "from kstreams_replay import Warehouse, replay\n"
        "from tests.execution.test_auto_runner import topology\n"
        f"(report,) = replay(Warehouse({warehouse.root!r}), topology(), pipeline='p')\n"
        "print(report.spark_tasks, report.outputs, 'pyspark' in sys.modules)\n"
    )
    no_java = {**os.environ, "PATH": "", "JAVA_HOME": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=no_java, check=True)

    assert done.stdout == "0 {'counts': 3} False\n"


@pytest.mark.jvm
@pytest.mark.nightly
def test_a_large_increment_goes_to_spark_and_leaves_the_same_rows(warehouse, tmp_path, spark, monkeypatch):
    here = Warehouse(tmp_path / "here")
    for each in (warehouse, here):
        land(each, "aabac")
    monkeypatch.setattr(auto_runner, "SMALL_RECORDS", 4)

    (report,) = replay(warehouse, topology(), pipeline="p", runner="auto")
    (other,) = replay(here, topology(), pipeline="p", runner=LocalRunner())

    assert (report.spark_tasks, other.spark_tasks) == (2, 0)
    assert tables_of(warehouse, "p", topology()) == tables_of(here, "p", topology())


@pytest.mark.parametrize(
    ("on_spark", "said"), [([0, 0], "in this process"), ([2, 4], "on Spark"), ([0, 4, 0], "1 of them on Spark")]
)
def test_the_command_says_where_increments_ran(on_spark, said):
    assert _where([SimpleNamespace(spark_tasks=tasks) for tasks in on_spark]) == said


@pytest.fixture
def command(warehouse, monkeypatch, capsys):
    """Runs `replay run` of a small topic; (what it printed, the masters that Spark was started for)."""
    land(warehouse, "aab")
    started = []
    monkeypatch.setattr(engines, "start_spark", lambda master: started.append(master) or (lambda say=None: None))
    monkeypatch.setattr(engines, "runner_of", lambda spark, placement=None: LocalRunner())
    monkeypatch.delenv("REPLAY_SPARK_MASTER", raising=False)

    def run(*arguments: str) -> tuple[str, list[str | None]]:
        reference = "tests.execution.test_auto_runner:topology"
        assert main(["run", reference, "--warehouse", warehouse.root, "--pipeline", "p", *arguments]) == 0
        return capsys.readouterr().out, started

    return run


@pytest.mark.parametrize(
    ("arguments", "variable", "started"),
    [
        ([], None, []),
        (["--local"], "spark://host:7077", []),
        (["--master", "local[1]"], None, ["local[1]"]),
        ([], "spark://host:7077", [None]),
    ],
)
def test_the_command_starts_spark_at_once_only_where_somebody_names_a_master(
    command, monkeypatch, arguments, variable, started
):
    if variable is not None:
        monkeypatch.setenv("REPLAY_SPARK_MASTER", variable)

    printed, masters = command(*arguments)

    assert masters == started
    assert "3 records in 1 increment, " in printed
    assert "records/s, in this process\n" in printed


@pytest.mark.parametrize(
    ("arguments", "started"), [([], []), (["--local"], []), (["--master", "local[1]"], ["local[1]"])]
)
def test_a_small_landing_starts_spark_only_where_somebody_names_a_master(
    tmp_path, monkeypatch, capsys, arguments, started
):
    masters = []
    monkeypatch.setattr(engines, "start_spark", lambda master: masters.append(master) or (lambda say: None))
    monkeypatch.delenv("REPLAY_SPARK_MASTER", raising=False)
    (tmp_path / "words.csv").write_text("word,ms\nab,1\nc,2\n")
    place = ["--warehouse", str(tmp_path / "W"), "--files", str(tmp_path / "words.csv"), "--timestamp", "ms"]

    assert main(["land", "words", *place, *arguments, "--dry-run"]) == 0
    assert main(["land", "words", *place, *arguments]) == 0

    assert masters == started * 2
    assert "2 records" in capsys.readouterr().out


def test_files_of_many_tasks_are_worth_a_start_of_spark(warehouse, monkeypatch):
    started = []

    def spark() -> NoReturn:
        started.append(1)
        raise MachineError("Spark", "a session", "none", "this is a test")

    few, many = [lambda: 1] * spark_tasks.FEW_TASKS, [lambda: 1] * (spark_tasks.FEW_TASKS + 1)
    assert spark_tasks.run_tasks(spark, warehouse, few) == [1] * len(few)
    assert spark_tasks.run_tasks(None, warehouse, many) == [1] * len(many)
    assert started == []
    with pytest.raises(MachineError):
        spark_tasks.run_tasks(spark, warehouse, many)
    assert started == [1]


def test_a_runner_that_is_no_word_of_ours_is_refused(warehouse):
    with pytest.raises(ConfigError, match=r"runner: expected a runner, or \"auto\", got 'spark'; give a LocalRunner"):
        next(replay(warehouse, topology(), pipeline="p", runner="spark"))


@pytest.mark.parametrize(
    ("settings", "is_auto"),
    [
        ({}, True),
        ({"records_in_process": 0}, False),
        ({"master": "local[1]"}, False),
        ({"settings": {"spark.master": "local[1]"}}, False),
        ({"placement": "sticky"}, False),
    ],
)
def test_dagsters_engine_starts_spark_for_who_names_a_master_and_else_when_it_is_needed(monkeypatch, settings, is_auto):
    opened = []
    monkeypatch.setattr(SparkEngine, "session", lambda self: opened.append(1))
    monkeypatch.delenv("REPLAY_SPARK_MASTER", raising=False)

    runner = SparkEngine(**settings).runner()

    assert isinstance(runner, AutoRunner) == is_auto
    assert opened == ([] if is_auto else [1])


@pytest.mark.parametrize(
    ("settings", "started"),
    [({}, []), ({"master": "local[1]"}, [1]), ({"settings": {"spark.master": "local[1]"}}, [1])],
)
def test_dagsters_engine_lands_small_files_without_spark(warehouse, tmp_path, monkeypatch, settings, started):
    opened = []
    monkeypatch.setattr(SparkEngine, "session", lambda self: opened.append(1))
    monkeypatch.delenv("REPLAY_SPARK_MASTER", raising=False)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "words.csv").write_text("word,ms\nab,1\nc,2\n")
    source = FileSource(str(tmp_path / "in"), timestamp="ms")

    landed = SparkEngine(**settings).land(warehouse, "words", source)

    assert landed.records == 2
    assert opened == started


def test_an_engine_takes_another_number_of_records(monkeypatch):
    monkeypatch.delenv("REPLAY_SPARK_MASTER", raising=False)

    assert SparkEngine(records_in_process=7).runner().records == 7
    assert SparkEngine().runner().records == auto_runner.SMALL_RECORDS
