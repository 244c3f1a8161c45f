"""Kafka Streams itself, for tests that ask it: its jars and small Java programs."""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kstreams_replay.jobs.execution.spark_session import resolve
from kstreams_replay.state.kafka_version import JUDGE as VERSION
from tests.once_a_run import once_a_run
from tests.quick_java import QUICK_JAVA


def streams_of(version: str) -> str:
    """The package of Kafka Streams."""
    return f"org.apache.kafka:kafka-streams:{version}"


STREAMS = streams_of(VERSION)
TEST_UTILS = f"org.apache.kafka:kafka-streams-test-utils:{VERSION}"


@contextmanager
def compiled(
    *programs: Path, packages: tuple[str, ...] = (STREAMS,), java_options: tuple[str, ...] = QUICK_JAVA
) -> Iterator[list[str]]:
    """Compile Java files, once a test run; gives the command that runs the first of them."""
    jars = list(map(str, resolve(packages)))
    javac = ["javac", *(f"-J{option}" for option in QUICK_JAVA), "-encoding", "UTF-8", "-nowarn"]

    def compile_into(folder: Path) -> None:
        _said([*javac, "-cp", os.pathsep.join(jars), "-d", str(folder), *map(str, programs)])

    asked = [jars, *(program.read_text(encoding="utf-8") for program in programs)]
    classes = once_a_run(f"classes-{hashlib.sha256(repr(asked).encode()).hexdigest()[:16]}", compile_into)
    with tempfile.TemporaryDirectory() as scratch:  # of state stores
        class_path = os.pathsep.join([str(classes), *jars])
        options = ["-Dfile.encoding=UTF-8", f"-Djava.io.tmpdir={scratch}", "-cp", class_path]
        yield ["java", *java_options, *options, programs[0].stem]


def run_java(program: Path) -> str:
    """What a ``program`` prints; a failure shows what it said."""
    with compiled(program) as command:
        return _said(command)


def _said(command: list[str]) -> str:
    said = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert said.returncode == 0, said.stderr
    return said.stdout
