"""How tasks are shared out over Spark's slots, and that they report their progress."""

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import pytest
from py4j.protocol import Py4JError

from kstreams_replay.jobs.execution.spark_runner import (
    SparkRunner,
    _cache_here,
    _warns_without_executors,
    _worker,
    share_out,
)
from kstreams_replay.jobs.execution.worker_python import refuse_other, version_there
from kstreams_replay.jobs.placement.settings import HIGH_AVAILABILITY, SPARK, PlacementSettings
from kstreams_replay.jobs.replay import progress
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder
from kstreams_replay.orchestration.engines import start_spark, wait_for
from kstreams_replay.state.errors import ConfigError, MachineError, StorageError
from kstreams_replay.state.failures import failure_of
from kstreams_replay.state.version import VERSION
from tests.planted import LandedRecord, plant


@pytest.mark.parametrize(
    ("sizes", "slots", "shares"),
    [
        ([5, 9, 4, 8], 2, [[1, 2], [3, 0]]),  # 9 + 4 and 8 + 5
        ([3, 3], 8, [[0], [1]]),  # no more shares than tasks
        ([1, 0, 0], 1, [[0, 1, 2]]),
        ([], 4, []),
    ],
)
def test_the_longest_task_goes_first_and_to_the_slot_with_least_to_do(sizes, slots, shares):
    assert share_out(sizes, slots) == shares


@pytest.mark.parametrize(("master", "slots"), [("local[2]", 2), ("spark://127.0.0.1:7077", 5)])
def test_on_a_cluster_every_task_is_one_for_spark_to_place(master, slots):
    """Executors may still be on their way when the first stage begins."""
    session = SimpleNamespace(sparkContext=SimpleNamespace(master=master, defaultParallelism=2))

    assert SparkRunner(session)._slots(5) == slots


def test_a_session_that_is_still_starting_is_waited_for_once_and_when_it_is_needed():
    asked = []

    def session():
        asked.append(1)
        return SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]", defaultParallelism=2))

    runner = SparkRunner(session)
    assert asked == []
    assert runner._slots(5) == runner._slots(3) == 2
    assert asked == [1]


@pytest.mark.parametrize(("there", "warnings"), [([], 1), (["an executor"], 0)])
def test_a_run_that_no_executor_has_joined_says_what_an_executor_needs(monkeypatch, caplog, there, warnings):
    looked = threading.Event()
    context = SimpleNamespace(
        master="spark://127.0.0.1:7077", getConf=lambda: {"spark.executor.memory": "3g"}, _jsc=SimpleNamespace(sc=None)
    )

    class FixedWorkers:
        def __init__(self, context):
            pass

        def executors(self):
            looked.set()
            return there

    monkeypatch.setattr("kstreams_replay.jobs.execution.spark_members.SparkWorkers", FixedWorkers)
    with _warns_without_executors(context, 0.0) as timer:
        looked.wait(60)
        timer.join()

    assert len(caplog.messages) == warnings
    assert not warnings or "spark.executor.memory (3g)" in caplog.text


def test_what_starting_a_session_raises_is_raised_to_whoever_waits(monkeypatch):
    def refuse(master, say):
        raise MachineError("Java", "version 17 or newer", f"no java command for {master}", "install a JDK")

    monkeypatch.setattr("kstreams_replay.jobs.execution.spark_session.open_spark", refuse)
    spark = start_spark("local[3]")

    wait_for(spark, "computed 1")
    with pytest.raises(MachineError, match=r"no java command for local\[3\]"):
        wait_for(spark, "planned 1")


@pytest.mark.parametrize(("is_local", "more"), [(True, ""), (False, f"; it was on the worker {socket.gethostname()}")])
def test_a_worker_whose_disk_is_full_is_named(monkeypatch, tmp_path, is_local, more):
    def refuse(topology, description, cache):
        raise StorageError("/tmp", "room on the disk", "No space left on device", "free some")

    monkeypatch.setattr("kstreams_replay.jobs.execution.spark_runner.run_task", refuse)
    work = cloudpickle.dumps((None, [None], [[0]], str(tmp_path / "cache")))

    ((number, outcome),) = _worker(work, is_local=is_local)([0])

    assert number == 0
    assert str(outcome) == f"/tmp: expected room on the disk, got No space left on device; free some{more}"


def test_a_worker_that_cannot_make_its_cache_runs_without(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setenv("REPLAY_CACHE", str(tmp_path / "file" / "cache"))

    assert _cache_here("as the driver has it") is None
    assert "no warm copies of state here" in caplog.text
    assert _cache_here(None) is None


@pytest.mark.jvm
def test_tasks_on_spark_tell_how_far_they_are_while_they_run(spark, warehouse, tmp_path, monkeypatch):
    """Three tasks on two cores: the one that begins last does not continue before the driver has reported the progress
    of another.
    """
    monkeypatch.setattr(progress, "NOTE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.01)
    was_told, told = tmp_path / "told", []

    def on_progress(each: progress.Progress) -> None:
        told.append(each)
        if 0 < each.records_done < 12:
            was_told.touch()

    def slow(key: str, value: str) -> str:
        deadline = time.monotonic() + 60
        while key == "2" and not Path(was_told).exists():
            assert time.monotonic() < deadline, "the driver never told while tasks ran"
            time.sleep(0.01)
        return value

    builder = StreamsBuilder()
    lines = builder.stream("in", Consumed(Serde.string(), Serde.string()))
    lines.map_values(slow, returns=Serde.string()).to("out")
    sizes = {0: 5, 1: 4, 2: 3}
    records = [LandedRecord(p, b"%d" % p, b"v", 10 * p + n) for p, size in sizes.items() for n in range(size)]
    plant(warehouse, "in", records, partitions=3)

    list(replay(warehouse, builder.build(), pipeline="p", runner=SparkRunner(spark), progress=on_progress))

    within = {each.step for each in told if 0 < each.records_done < 12}
    assert within == {"sub-topology 0"}
    assert (told[-1].records_done, told[-1].stream_time_ms) == (12, 22)


@pytest.mark.jvm
def test_on_one_machine_nothing_of_placing_tasks_is_imported(warehouse):
    plant(warehouse, "clicks", [LandedRecord(0, b"ann", (7).to_bytes(8, "big"), 1)], partitions=1)
    run = ["run", "kstreams_replay.benchmarks.start_up:topology", "--warehouse", warehouse.root, "--pipeline", "p"]
    code = (
        "import sys; from kstreams_replay.orchestration.cli.main import main; "
        f"code = main({[*run, '--master', 'local[2]']!r}); "
        "print([name for name in sys.modules if 'jobs.placement' in name or 'placed_stages' in name]); sys.exit(code)"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("master", "cache", "placement", "is_placed"),
    [
        ("spark://127.0.0.1:7077", "cache", HIGH_AVAILABILITY, True),
        ("spark://127.0.0.1:7077", "cache", SPARK, False),
        ("spark://127.0.0.1:7077", None, HIGH_AVAILABILITY, False),  # without warm copies every place is as good
        ("local[2]", "cache", HIGH_AVAILABILITY, False),
    ],
)
def test_tasks_are_placed_on_a_cluster_that_keeps_warm_copies(master, cache, placement, is_placed):
    session = SimpleNamespace(sparkContext=SimpleNamespace(master=master))

    assert SparkRunner(session, cache, PlacementSettings(placement))._is_placed() == is_placed


# --- what is asked before the first stage ------------------------------------------------------------------------


LACKING = """An error occurred while calling z:PythonRDD.collectAndServe.
: SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task \
0.3 in stage 0.0 (TID 3) (10.0.0.5 executor 1): SparkException:
Error from python worker:
  python3: Error while finding module specification for 'kstreams_replay.jobs.execution.spark_worker_daemon' \
(ModuleNotFoundError: No module named 'kstreams_replay')
PYTHONPATH was:
  spark/python"""
"""Of a worker on which not even the process that starts Python workers is found."""

NOT_THERE = (
    "the worker at 10.0.0.5: expected the Python module kstreams_replay, as the driver has it, got none; install it "
    "there, set PYSPARK_PYTHON to a Python of the workers that has it, or send it with the job (docs/cluster.md, What "
    "travels with a job)"
)


def on_a_cluster(answer, asked):
    """A runner whose one worker answers so, or raises it."""

    def collect():
        asked.append(1)
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    rdd = SimpleNamespace(mapPartitions=lambda work: SimpleNamespace(collect=collect))
    context = SimpleNamespace(master="spark://127.0.0.1:7077", parallelize=lambda numbers, slots: rdd)
    return SparkRunner(SimpleNamespace(sparkContext=context))


@pytest.mark.parametrize(("version", "got"), [(None, "none"), ("0.0.9", "version 0.0.9")])
def test_a_worker_without_this_project_or_with_another_version_is_named(version, got):
    with pytest.raises(MachineError) as raised:
        on_a_cluster(("node-7", version), []).run(None, [])

    assert str(raised.value) == (
        f"the worker at node-7: expected the Python module kstreams_replay, version {VERSION} as the driver has it, "
        f"got {got}; install it there, set PYSPARK_PYTHON to a Python of the workers that has it, or send it with the "
        "job (docs/cluster.md, What travels with a job)"
    )


def test_a_worker_that_cannot_even_start_python_workers_is_named():
    with pytest.raises(MachineError) as raised:
        on_a_cluster(Py4JError(LACKING), []).run(None, [])

    assert str(raised.value) == NOT_THERE
    assert str(failure_of(Py4JError(LACKING), "a stage")) == NOT_THERE
    with pytest.raises(Py4JError, match="the executor was lost"):
        on_a_cluster(Py4JError("the executor was lost"), []).run(None, [])


def test_a_worker_is_asked_once_and_one_machine_never():
    asked = []
    runner = on_a_cluster(("node-7", VERSION), asked)

    for _ in range(3):
        runner._ask_worker()
    SparkRunner(SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]")))._ask_worker()

    assert asked == [1]


def test_the_question_is_read_where_this_project_is_not():
    code = "import pickle, sys; sys.modules['kstreams_replay'] = None; print(list(pickle.load(sys.stdin.buffer)([0])))"

    said = subprocess.run(
        [sys.executable, "-c", code], input=cloudpickle.dumps(version_there()), capture_output=True, check=False
    )

    assert said.returncode == 0, said.stderr
    assert said.stdout.decode().strip() == repr([(socket.gethostname(), None)])
    assert list(version_there()([0])) == [(socket.gethostname(), VERSION)]
    refuse_other("here", VERSION)


def test_a_session_of_spark_connect_is_refused_in_a_sentence():
    with pytest.raises(ConfigError) as raised:
        SparkRunner(SimpleNamespace()).run(None, [])

    assert str(raised.value) == (
        "Spark session: expected a session with a driver (local, spark://, yarn, k8s), got Spark Connect; open the "
        "session with the cluster as its master, and not as a remote"
    )
