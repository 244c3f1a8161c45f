"""Kafka Streams itself, for tests that ask it: its jars and a small Java program at a time."""

import os
import subprocess
import tempfile
from pathlib import Path

from jobs.spark import resolve

VERSION = "4.3.0"
STREAMS = f"org.apache.kafka:kafka-streams:{VERSION}"
TEST_UTILS = f"org.apache.kafka:kafka-streams-test-utils:{VERSION}"


def run_java(program: Path, *, packages: tuple[str, ...] = (STREAMS,), text: str = "") -> str:
    """What a single-file Java ``program`` prints about ``text``, its input; a failure shows what it said."""
    class_path = os.pathsep.join(map(str, resolve(packages)))
    with tempfile.TemporaryDirectory() as scratch:  # state stores and unpacked libraries
        options = ["-Dfile.encoding=UTF-8", f"-Djava.io.tmpdir={scratch}", "-cp", class_path]
        command = ["java", *options, str(program)]
        said = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=False)
    assert said.returncode == 0, said.stderr
    return said.stdout
