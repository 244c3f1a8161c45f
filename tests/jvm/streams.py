"""Kafka Streams itself, for tests that ask it: its jars and a small Java program at a time."""

import os
import subprocess
from pathlib import Path

from jobs.spark import resolve

VERSION = "4.3.0"
STREAMS = f"org.apache.kafka:kafka-streams:{VERSION}"
TEST_UTILS = f"org.apache.kafka:kafka-streams-test-utils:{VERSION}"


def run_java(program: Path, *arguments: str, packages: tuple[str, ...] = (STREAMS,)) -> str:
    """What a single-file Java ``program`` prints; a failure shows what it said."""
    class_path = os.pathsep.join(map(str, resolve(packages)))
    command = ["java", "-cp", class_path, str(program), *arguments]
    said = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert said.returncode == 0, said.stderr
    return said.stdout
