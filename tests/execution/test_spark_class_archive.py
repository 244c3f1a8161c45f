"""The classes that Spark loads, kept for its next start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kstreams_replay.jobs.execution import spark_session
from kstreams_replay.jobs.execution.spark_class_archive import archive_of, make_archive, options_to_use
from kstreams_replay.jobs.execution.spark_session import open_spark
from kstreams_replay.state.errors import MachineError


def test_without_an_archive_the_jvm_gets_no_option(tmp_path):
    assert options_to_use(tmp_path / "none.jsa") == ""


def test_java_or_jars_installed_anew_have_an_archive_of_their_own(tmp_path):
    java, jar = tmp_path / "java", Path("delta.jar")
    java.write_text("")
    os.utime(java, ns=(1, 1))
    first = archive_of([jar], tmp_path, str(java))
    other_jars = archive_of([Path("delta-2.jar")], tmp_path, str(java))
    os.utime(java, ns=(2, 2))

    assert first.parent == tmp_path
    assert len({first, other_jars, archive_of([jar], tmp_path, str(java))}) == 3
    os.utime(java, ns=(1, 1))
    assert archive_of([jar], tmp_path, str(java)) == first


@pytest.mark.jvm
def test_an_archive_that_the_jvm_does_not_take_hinders_nothing_and_prints_nothing(tmp_path):
    (tmp_path / "broken.jsa").write_bytes(b"no archive")
    options = options_to_use(tmp_path / "broken.jsa").split()

    said = subprocess.run(["java", *options, "--version"], capture_output=True, text=True, check=True)

    assert said.stderr == ""
    assert all("jsa" not in line and "cds" not in line for line in said.stdout.splitlines())


def test_a_path_with_a_space_is_refused_since_the_jvm_would_read_it_as_two(tmp_path):
    with pytest.raises(MachineError, match="expected a path without a space, got one; set REPLAY_IVY_CACHE"):
        make_archive(tmp_path / "my archives" / "spark.jsa", spark_session.__name__)


@pytest.mark.slow
def test_where_no_spark_starts_the_error_has_its_last_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(MachineError) as raised:
        make_archive(tmp_path / "archives" / "spark.jsa", spark_session.__name__)

    assert str(raised.value).startswith("Spark's JVM: expected an archive of its classes, got ")
    assert "got no java command" in str(raised.value)
    assert list((tmp_path / "archives").iterdir()) == []


@pytest.mark.jvm
def test_a_session_starts_with_the_archive_when_there_is_one(spark, monkeypatch, tmp_path):
    monkeypatch.setattr("kstreams_replay.jobs.execution.spark_session._running", lambda: None)
    archive = tmp_path / "spark.jsa"
    monkeypatch.setattr("kstreams_replay.jobs.execution.spark_session.archive_of", lambda *asked: archive)
    started = []
    monkeypatch.setattr("kstreams_replay.jobs.execution.spark_session.start_context", started.append)
    monkeypatch.setattr("kstreams_replay.jobs.execution.spark_session.SparkContext._gateway", None)
    monkeypatch.setattr("kstreams_replay.jobs.execution.spark_session.SparkSession.builder", _Builder(spark))

    open_spark("local[1]")
    archive.touch()
    open_spark("local[1]")

    without, with_it = (settings["spark.driver.extraJavaOptions"] for settings in started)
    assert with_it == f"{without} {options_to_use(archive)}"


class _Builder:
    """Gives a session that is there already."""

    def __init__(self, session) -> None:
        self.session = session

    def config(self, map):
        return self

    def getOrCreate(self):  # noqa: N802 - as PySpark calls it
        return self.session


@pytest.mark.jvm
@pytest.mark.nightly
def test_the_classes_of_spark_are_kept_once_and_taken_by_the_next_jvm(tmp_path):
    archive = tmp_path / "spark.jsa"

    assert make_archive(archive, spark_session.__name__)
    assert not make_archive(archive, spark_session.__name__)

    needs_it = f"-Xshare:on {options_to_use(archive)}"  # else the JVM does not start
    opens = (
        "from kstreams_replay.jobs.execution.spark_session import open_spark\n"
        f"print(open_spark('local[1]', extra={{'spark.driver.extraJavaOptions': {needs_it!r}}}).range(3).count())"
    )
    said = subprocess.run([sys.executable, "-c", opens], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (0, "3\n"), said.stderr
    archive.chmod(0o600)
    archive.write_bytes(b"no archive")
    assert subprocess.run([sys.executable, "-c", opens], capture_output=True, check=False).returncode != 0
