"""Kafka Streams itself, for tests that ask it: its jars and a small Java program at a time."""

import os
import subprocess
import tempfile
from pathlib import Path

from jobs.spark import resolve

VERSION = "4.3.0"
STREAMS = f"org.apache.kafka:kafka-streams:{VERSION}"
TEST_UTILS = f"org.apache.kafka:kafka-streams-test-utils:{VERSION}"


def run_java(*programs: Path, packages: tuple[str, ...] = (STREAMS,), text: str = "") -> str:
    """What the first of ``programs``, Java files, prints about ``text``, its input; a failure shows what it said."""
    with tempfile.TemporaryDirectory() as scratch:  # classes, state stores and unpacked libraries
        class_path = os.pathsep.join(map(str, [scratch, *resolve(packages)]))
        _said(["javac", "-encoding", "UTF-8", "-nowarn", "-cp", class_path, "-d", scratch, *map(str, programs)])
        options = ["-Dfile.encoding=UTF-8", f"-Djava.io.tmpdir={scratch}", "-XX:+UseSerialGC", "-cp", class_path]
        return _said(["java", *options, programs[0].stem], text)


def _said(command: list[str], text: str = "") -> str:
    said = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=False)
    assert said.returncode == 0, said.stderr
    return said.stdout
