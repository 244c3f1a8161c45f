"""The session and its packages: what a machine must have, and the error when it has not."""

import os
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyspark
import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext

from kstreams_replay.jobs.execution.java import JAVA_LOWEST, check_java
from kstreams_replay.jobs.execution.spark_session import PACKAGES, PROVIDED_BY_SPARK, open_spark, resolve
from kstreams_replay.jobs.execution.spark_worker_daemon import PromptReader, prompt
from kstreams_replay.state.errors import ConfigError, MachineError
from kstreams_replay.state.tables.commit import transaction_version
from tests.source_tree import ROOT


def fake_java(directory: Path, says: str) -> None:
    java = directory / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)


def test_a_machine_without_java_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(MachineError) as raised:
        check_java()

    assert str(raised.value) == (
        "Java: expected version 17 or newer, got no java command; "
        "install a JDK 17 or newer and put it on PATH, or set JAVA_HOME to it"
    )


@pytest.mark.parametrize(("says", "got"), [('java version "1.8.0_292"', "8"), ('openjdk version "11.0.2"', "11")])
def test_a_java_below_the_lowest_is_refused_by_its_version(tmp_path, monkeypatch, says, got):
    fake_java(tmp_path, says)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(MachineError, match=f"expected version {JAVA_LOWEST} or newer, got version {got}; install"):
        check_java()


def test_java_home_goes_before_the_path(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    fake_java(tmp_path / "bin", 'openjdk version "21" 2023-09-19')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert check_java() == 21


def test_packages_follow_the_installed_versions():
    line = pyspark.__version__.rpartition(".")[0]

    want = (
        f"io.delta:delta-spark_{line}_2.13:{version('delta-spark')}",
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}",
    )

    assert want == PACKAGES


@pytest.mark.jvm
def test_a_package_that_is_nowhere_is_named(tmp_path):
    with pytest.raises(MachineError, match=r"org\.example\.absent:nothing:1\.0 not found; check the network, or set"):
        resolve(["org.example.absent:nothing:1.0"], tmp_path)


def test_a_malformed_coordinate_is_refused():
    with pytest.raises(MachineError, match="expected group:artifact:version, got 'only-a-name'"):
        resolve(["only-a-name"])


@pytest.mark.jvm
def test_what_was_resolved_once_needs_no_ivy_again(monkeypatch):
    first = resolve(PACKAGES, provided=PROVIDED_BY_SPARK)
    monkeypatch.setattr("kstreams_replay.jobs.execution.spark_session._run_ivy", None)  # a call would fail

    assert resolve(PACKAGES, provided=PROVIDED_BY_SPARK) == first
    assert [jar.suffix for jar in first] == [".jar"] * len(first)


def test_of_two_programs_that_ask_at_once_one_fetches(tmp_path, monkeypatch):
    jar, fetched, second = tmp_path / "a.jar", [], threading.Event()
    jar.touch()

    def fetch(settings, cache, wanted, classpath, coordinates):
        fetched.append(coordinates)
        if len(fetched) == 2:
            second.set()
        second.wait(0.5)  # it never comes, since the other one waits at the lock
        classpath.parent.mkdir(parents=True, exist_ok=True)
        classpath.write_text(str(jar))

    monkeypatch.setattr("kstreams_replay.jobs.execution.spark_session._run_ivy", fetch)
    with ThreadPoolExecutor(2) as programs:
        answers = list(programs.map(lambda _: resolve(["org.example:a:1.0"], tmp_path / "cache"), range(2)))

    assert answers == [[jar], [jar]]
    assert len(fetched) == 1


@pytest.mark.jvm
def test_a_jar_that_has_gone_is_fetched_again(tmp_path):
    [jar] = resolve(["org.slf4j:slf4j-api:1.7.36"], tmp_path)
    jar.unlink()

    assert resolve(["org.slf4j:slf4j-api:1.7.36"], tmp_path) == [jar]
    assert jar.exists()


@pytest.mark.jvm
def test_the_session_is_the_one_of_the_process_and_fits_a_small_machine(spark):
    names = ["spark.sql.session.timeZone", "spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions"]

    assert open_spark() is spark
    assert [spark.conf.get(name) for name in names] == ["UTC", "2", "2"]


@pytest.mark.jvm
def test_workers_run_the_python_of_the_driver(spark):
    def name_python(batches):
        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([sys.executable])], ["python"])

    rows = spark.range(1).mapInArrow(name_python, "python string").collect()

    assert [row["python"] for row in rows] == [sys.executable]


@pytest.mark.jvm
def test_workers_know_of_no_archive_whose_directory_each_task_would_read(spark):
    def archives(_):
        yield from (entry for entry in [*sys.path, *sys.path_importer_cache] if entry.endswith((".zip", ".jar")))

    assert spark.sparkContext.parallelize(range(1), 1).mapPartitions(archives).collect() == []


def test_a_worker_reads_every_byte_of_its_connection():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        spark = socket.create_connection(listening.getsockname())
        worker, _ = listening.accept()
    with spark, worker, worker.makefile("rb") as infile, prompt(infile) as read:
        spark.sendall(b"task" + bytes(100_000))
        spark.shutdown(socket.SHUT_WR)

        assert isinstance(read.raw, PromptReader)
        assert read.read() == b"task" + bytes(100_000)


def test_every_read_acknowledges_what_came_before():
    calls = []
    connection = SimpleNamespace(
        setsockopt=lambda *option: calls.append(option),
        recv_into=lambda buffer: calls.append("read") or len(buffer),
        close=lambda: None,
    )
    read = PromptReader(connection)

    assert [len(read.read(4)), len(read.read(4))] == [4, 4]
    assert calls == 2 * [(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1), "read"]


def test_a_worker_reads_from_another_connection_as_it_is():
    spark, worker = socket.socketpair()
    with spark, worker, worker.makefile("rb") as infile:
        before = len(os.listdir("/dev/fd"))

        assert prompt(infile) is infile
        assert len(os.listdir("/dev/fd")) == before


@pytest.mark.jvm
def test_spark_writes_delta_that_the_driver_reads_without_spark(spark, tmp_path):
    path = str(tmp_path / "numbers")
    spark.range(3).write.format("delta").option("txnAppId", "test").option("txnVersion", 1).save(path)

    assert transaction_version(path, "test") == 1


@pytest.fixture
def no_session(monkeypatch):
    """A process without a session, on a machine that has Java and all packages."""
    module = "kstreams_replay.jobs.execution.spark_session"
    monkeypatch.setattr(f"{module}.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setattr(f"{module}.SparkSession._instantiatedSession", None)
    for name in ("_gateway", "_jvm", "_active_spark_context"):
        monkeypatch.setattr(f"{module}.SparkContext.{name}", None)
    monkeypatch.setattr(f"{module}.check_java", lambda: 21)
    monkeypatch.setattr(f"{module}.resolve", lambda coordinates, provided: [])


def in_a_new_process(code: str) -> list[str]:
    """Lines that it prints."""
    code = f"from kstreams_replay.jobs.execution.spark_session import open_spark\n{code}"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    return said.stdout.splitlines()


@pytest.mark.jvm
def test_threads_that_open_at_once_get_the_one_session():
    said = in_a_new_process("""
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
all_there = Barrier(3)

def opened(number):
    all_there.wait()
    session = open_spark("local[1]")
    return id(session), session.range(number).count()

with ThreadPoolExecutor(3) as threads:
    found = list(threads.map(opened, (1, 2, 3)))
print(len({session for session, _ in found}), [count for _, count in found])
""")

    assert said == ["1 [1, 2, 3]"]


@pytest.mark.jvm
@pytest.mark.nightly
def test_a_process_whose_jvm_died_while_spark_started_starts_it_again():
    said = in_a_new_process("""
from kstreams_replay.state.errors import MachineError
from pyspark import SparkContext
begun, started = SparkContext._do_init, []

def dies_once(context, *given):
    if not started:
        started.append(context._gateway.proc)
        context._gateway.proc.kill()
    return begun(context, *given)

SparkContext._do_init = dies_once
try:
    open_spark("local[1]")
except MachineError as error:
    print(error.place, "/", started[0].poll() is not None)
print(open_spark("local[1]").range(3).count())
""")

    assert said == ["Spark at local[1] / True", "3"]


def test_a_start_that_failed_leaves_no_jvm_and_no_half_context(monkeypatch, no_session):
    ended = []
    process = SimpleNamespace(kill=lambda: ended.append("killed"), wait=lambda: ended.append("waited for"))
    gateway = SimpleNamespace(shutdown=lambda: ended.append("shut down"), proc=process)
    context = SimpleNamespace(stop=lambda: ended.append("stopped"))

    def half(settings):
        SparkContext._gateway, SparkContext._active_spark_context = gateway, context
        raise AttributeError("'SparkContext' object has no attribute 'master'")

    monkeypatch.setattr("kstreams_replay.jobs.execution.spark_session.start_context", half)

    with pytest.raises(AttributeError, match="master"):
        open_spark("local[1]")

    assert ended == ["stopped", "shut down", "killed", "waited for"]
    assert (SparkContext._gateway, SparkContext._active_spark_context) == (None, None)


def test_a_cluster_that_does_not_take_us_is_told_in_javas_own_words(monkeypatch, no_session):
    said = "An error occurred while calling None.x.\n: java.lang.IllegalStateException: Spark context stopped\n\tat x"

    def refuse(settings):
        assert settings["spark.master"] == "spark://127.0.0.1:1"
        raise Py4JError(said)

    monkeypatch.setattr("kstreams_replay.jobs.execution.spark_session.start_context", refuse)

    with pytest.raises(MachineError) as raised:
        open_spark("spark://127.0.0.1:1")

    assert str(raised.value) == (
        "Spark at spark://127.0.0.1:1: expected a session, got java.lang.IllegalStateException: Spark context stopped; "
        "check the master; --traceback shows what the JVM printed"
    )


def test_a_session_without_delta_is_refused_with_the_next_step(monkeypatch):
    somebody_elses = SimpleNamespace(conf={}, sparkContext=object())
    monkeypatch.setattr(
        "kstreams_replay.jobs.execution.spark_session.SparkSession.getActiveSession", lambda: somebody_elses
    )

    with pytest.raises(MachineError) as raised:
        open_spark()

    assert str(raised.value) == (
        "Spark session: expected extension io.delta.sql.DeltaSparkSessionExtension, got none; "
        "stop that session; open ours first"
    )


def test_spark_connect_is_refused_before_anything_is_started(monkeypatch, no_session):
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:15002/;token=a-secret")

    with pytest.raises(ConfigError) as raised:
        open_spark()

    assert str(raised.value) == (
        "Spark session: expected a session with a driver (local, spark://, yarn, k8s), got Spark Connect (SPARK_REMOTE "
        "is set); unset SPARK_REMOTE, and name the cluster in REPLAY_SPARK_MASTER or --master"
    )


def test_a_session_of_spark_connect_is_refused(monkeypatch):
    """Its attribute ``sparkContext`` raises an AttributeError, as one that is not there."""
    remote = SimpleNamespace(conf={})
    monkeypatch.setattr("kstreams_replay.jobs.execution.spark_session.SparkSession.getActiveSession", lambda: remote)

    with pytest.raises(ConfigError, match=r"a session with a driver \(local.*\), got Spark Connect; open the session"):
        open_spark()
