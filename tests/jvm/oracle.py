"""Real Kafka Streams as an oracle: scenarios in, their results out, as often as one asks."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any

from kstreams_replay.jobs.judge.kafka_tasks import SOURCES
from tests.jvm.streams import VERSION, compiled, streams_of

NAMES = ("Oracle", "Topologies", "Functions", "Folds", "Extractors", "Deduplicate", "Processors")
PROGRAMS = [*(Path(__file__).with_name(f"{name}.java") for name in NAMES), *SOURCES]
"""Scenarios, and the product's own tasks that play them."""
_ASKED = ("name", "topology", "records")

Line = dict[str, Any]


class Oracle:
    """A running Kafka Streams."""

    def __init__(self, process: "subprocess.Popen[str]", log: IO[str]) -> None:
        self._process, self._log = process, log

    def ask(self, lines: Sequence[Line], *, tasks: str = "one") -> list[Line]:
        """``lines`` with what Kafka Streams makes of them as their ``result``. ``tasks``: "one" for all sub-topologies,
        as in Kafka's test driver, or "apart", as a live application and `replay judge` have them.
        """
        asked = [{field: line[field] for field in _ASKED} | {"tasks": tasks} for line in lines]
        writer = Thread(target=self._write, args=(asked,))
        writer.start()
        answered = [line | {"result": self._next()} for line in lines]
        writer.join()
        return answered

    def _write(self, lines: Sequence[Line]) -> None:
        assert self._process.stdin is not None
        for line in lines:
            self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def _next(self) -> Any:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        assert answer, self._said()
        return json.loads(answer)["result"]

    def _said(self) -> str:
        self._process.wait()
        self._log.seek(0)
        return self._log.read()


@contextmanager
def open_oracle(version: str = VERSION) -> Iterator[Oracle]:
    """Starts Kafka Streams of a version, and stops it."""
    packages = (streams_of(version),)
    others = Path(__file__).with_name(f"kafka{version[0]}{version[2]}")
    programs = [other if (other := others / each.name).exists() else each for each in PROGRAMS]
    with compiled(*programs, packages=packages) as command, TemporaryFile("w+") as log:
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True, encoding="utf-8") as process:
            yield Oracle(process, log)
            assert process.stdin is not None
            process.stdin.close()
