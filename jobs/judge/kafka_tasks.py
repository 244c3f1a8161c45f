"""Kafka Streams' own tasks over files of records: a class of the user's jar, run by Judge.java without a broker.

Owns the process and the files between it and Python. In a file a record is: offset int64 (of what was written: the
partition), time in ms int64, key, value, the number of headers int32, and each header's key and value. Bytes are a
length int32 (-1: null) and themselves. Numbers are big-endian.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import IO

import pyarrow as pa

from ...state.argument_types import check_fields
from ...state.errors import ConfigError, MachineError
from ...state.kafka_version import JUDGE
from ...state.tables.warehouse import HEADERS
from ..execution.java import check_java, java_command
from ..execution.spark_session import resolve

PACKAGES = (f"org.apache.kafka:kafka-streams:{JUDGE}", "org.slf4j:slf4j-simple:1.7.36")
APPLICATION_ID = "kstreams-replay-judge"
SOURCES = tuple(Path(__file__).with_name(f"{name}.java") for name in ("Judge", "KafkaTasks", "WatchedState"))
"""Of the program: the order of landed records, and the tasks."""
RECORDS = pa.schema([
    ("partition", pa.int32()), ("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary()),
    ("headers", HEADERS),
])  # fmt: skip
"""What tasks wrote to one topic, in the order in which they did; the partition of a row is that of the task where the
application names none."""

_NUMBERS, _LENGTH = Struct(">qq"), Struct(">i")
_NULL = _LENGTH.pack(-1)
_REFUSED = 3
_SHORT = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of a JVM that lives for seconds."""

Record = tuple[int, int, bytes | None, bytes | None, Sequence[Mapping[str, object]] | None]
"""Offset, time in ms, key, value, headers."""


@dataclass(frozen=True)
class JavaApplication:
    """``jars``: the application's jar and what it needs beside Kafka Streams; ``name``: ``com.acme.Orders#topology``, a
    static method that gives the topology; ``settings``: a file of Java properties with the application's settings.
    """

    jars: Sequence[Path]
    name: str
    settings: Path | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "jars", tuple(map(Path, self.jars)))
        for path in (*self.jars, *([] if self.settings is None else [self.settings])):
            if not path.exists():
                raise ConfigError("judge", "a file that is there", str(path), "correct the path")


@dataclass(frozen=True)
class KafkaRun:
    """``describe``: what Kafka says of the topology; ``written``: by topic what tasks wrote. ``internal``: the same of
    changelogs and repartition topics, by their names without the application's id. ``records``: that tasks took;
    ``seconds``: without the start of Java.
    """

    describe: str
    written: Mapping[str, pa.Table]
    internal: Mapping[str, pa.Table]
    records: int
    seconds: float


def run_kafka(
    application: JavaApplication, folder: Path, topics: Mapping[str, Sequence[Iterator[Record]]],
    restarts: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
) -> KafkaRun:  # fmt: skip
    """Run the application over ``topics``: of each its partitions, each with its records in order. Topics that a task
    reads together are taken in their order here where times are equal. ``folder``: empty, for files of the run.
    ``restarts``: by topic and partition, offsets of the records before which the task that reads them restarts.

    Raises MachineError without a JDK, ConfigError for a class that gives no topology, for a topic that it reads and
    that is not given, and for what Kafka Streams says when it fails.
    """
    (folder / "in").mkdir()
    lines = []
    for number, (topic, partitions) in enumerate(topics.items()):
        lines.append(f"{topic}\t{len(partitions)}\n")
        for partition, records in enumerate(partitions):
            with (folder / "in" / f"{number}-{partition}").open("wb") as file:
                _write(file, records)
    (folder / "topics.tsv").write_text("".join(lines), encoding="utf-8")
    before = [
        f"{topic}\t{partition}\t{offset}\n"
        for topic, partitions in (restarts or {}).items()
        for partition, offsets in partitions.items()
        for offset in offsets
    ]
    (folder / "restarts.tsv").write_text("".join(before), encoding="utf-8")
    class_path = _compiled(folder / "classes", application.jars)
    _run(class_path, application, folder)
    done = dict(line.split("\t") for line in (folder / "done.tsv").read_text().splitlines())
    written, internal, prefix = {}, {}, f"{APPLICATION_ID}-"
    for name in sorted((folder / "out").glob("*.name")):
        topic = name.read_text(encoding="utf-8")
        with name.with_suffix("").open("rb") as file:
            rows = _read(file)
        if topic.startswith(prefix):
            internal[topic.removeprefix(prefix)] = rows
        else:
            written[topic] = rows
    describe = (folder / "topology.txt").read_text(encoding="utf-8")
    return KafkaRun(describe, written, internal, int(done["processed"]), float(done["seconds"]))


def _compiled(classes: Path, jars: Sequence[Path]) -> str:
    """The class path of Judge, the application and Kafka Streams. The application's own jars come behind Kafka's, so
    that the judge is the version that this project names.
    """
    check_java()
    java = java_command()
    javac = None if java is None else Path(java).resolve().with_name("javac")
    if javac is None or not javac.exists():
        expected, got = "a JDK, whose compiler is javac", f"no javac beside {java}"
        raise MachineError(
            "judge", expected, got, "install a JDK 17 or newer and put it on PATH, or set JAVA_HOME to it"
        )
    class_path = os.pathsep.join([str(classes), *map(str, resolve(PACKAGES)), *map(str, jars)])
    command = [
        str(javac),
        *(f"-J{option}" for option in _SHORT),
        "-nowarn",
        "-encoding",
        "UTF-8",
        "-cp",
        class_path,
        "-d",
        str(classes),
        *map(str, SOURCES),
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode:
        expected, got = f"Kafka Streams {JUDGE} on the class path", said.stderr.strip()[-1_000:]
        raise ConfigError("judge", expected, got, "take another version of Kafka out of --jar")
    return class_path


def _run(class_path: str, application: JavaApplication, folder: Path) -> None:
    settings = [] if application.settings is None else [str(application.settings)]
    quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Dfile.encoding=UTF-8"]
    judge = ["org.apache.kafka.streams.Judge", str(folder), application.name, *settings]
    command = [java_command() or "java", "-XX:+UseSerialGC", *quiet, "-cp", class_path, *judge]
    said = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False)
    if said.returncode == _REFUSED:
        expected = (folder / "refused.txt").read_text(encoding="utf-8")
        raise ConfigError(
            f"judge, {application.name}", expected, "something else", "correct --class, or land the topic"
        )
    if said.returncode:
        lines = [line for line in said.stderr.splitlines() if line.strip()]
        causes = [line for line in lines if line.startswith(("Exception", "Caused by"))]
        got = (causes[-1] if causes else " ".join(lines[:1]))[:1_000]
        next_step = "run its topology in Kafka's TopologyTestDriver with the same record; --settings gives its settings"
        raise ConfigError(f"judge, {application.name}", "an application that takes all records", got, next_step)


# --- files ---------------------------------------------------------------------------------------------------


def _write(file: IO[bytes], records: Iterator[Record]) -> None:
    for offset, time_ms, key, value, headers in records:
        parts = [_NUMBERS.pack(offset, time_ms), _bytes(key), _bytes(value), _LENGTH.pack(len(headers or ()))]
        for header in headers or ():
            parts += [_bytes(str(header["key"]).encode()), _bytes(header["value"])]  # type: ignore[arg-type]
        file.write(b"".join(parts))


def _bytes(value: bytes | None) -> bytes:
    return _NULL if value is None else _LENGTH.pack(len(value)) + value


def _read(file: IO[bytes]) -> pa.Table:
    data, at = file.read(), 0
    columns: list[list[object]] = [[], [], [], [], []]

    def taken() -> bytes | None:
        nonlocal at
        (length,) = _LENGTH.unpack_from(data, at)
        at += 4 + max(length, 0)
        return None if length < 0 else data[at - length : at]

    while at < len(data):
        numbers = _NUMBERS.unpack_from(data, at)
        at += _NUMBERS.size
        row = [*numbers, taken(), taken()]
        (count,) = _LENGTH.unpack_from(data, at)
        at += 4
        row.append([{"key": (taken() or b"").decode(), "value": taken()} for _ in range(count)] or None)
        for column, cell in zip(columns, row, strict=True):
            column.append(cell)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, RECORDS, strict=True)], RECORDS)
