"""What a machine needs for this project, looked at one by one: what was found, and what to do about it.

Owns the bounds below which it warns. Rule: nothing is changed; what is written to try a place is taken away again.
No check raises an error for what it finds.
"""

import json
import os
import platform
import shutil
import socket
import tempfile
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import urlsplit

from pyarrow import fs

from ...jobs.execution.java import check_java
from ...state.errors import ConfigError, MachineError, ReplayError
from ...state.kafka.connection import Connection
from ...state.runs.local_copies import default_cache
from ...state.tables.object_stores import is_remote, open_filesystem, refuse_overwriting
from ...state.version import DISTRIBUTION, VERSION
from ...state.wall_clock import now_ms

OK, WARNING, WRONG, ABSENT = "ok", "warning", "wrong", "absent"
"""``ABSENT``: not there, and only some commands need it."""

GIB = 1 << 30
MEMORY_LEAST, DISK_LEAST, DISK_NEEDED = 2 * GIB, 5 * GIB, GIB // 2
"""Below the least it warns; a disk with less than is needed is wrong."""
CLOCK_MOST_MS = 2_000
"""So far may the clocks of this machine and of the storage be apart."""
SECONDS = 5.0
"""To wait for a broker or a registry."""
NEEDED = ("pyarrow", "polars", "numba", "numpy", "deltalake", "click")
OPTIONAL = ("pyspark", "delta-spark", "dagster", "great-expectations", "pyiceberg", "confluent-kafka", "altair")


@dataclass(frozen=True)
class MachineFinding:
    """``verdict``: one of OK, WARNING, WRONG, ABSENT. ``found`` is a sentence; ``next_step`` is "" where nothing is to
    be done.
    """

    check: str
    verdict: str
    found: str
    next_step: str = ""


def look_at_machine(
    warehouse: str | None = None, kafka: str | None = None, registry: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[MachineFinding]:  # fmt: skip
    """One finding after the other. ``warehouse``: its root; ``kafka``: bootstrap servers with commas; ``registry``: the
    URL of a schema registry. What is None is not looked at. ``settings``: of a Kafka client; with some, the brokers
    must let it in.
    """
    yield _python()
    yield from _packages()
    yield _java()
    yield _memory()
    yield _disk("temporary files", Path(tempfile.gettempdir()))
    yield _disk("cache", Path(default_cache()))
    if warehouse is not None:
        if not is_remote(warehouse):
            yield _disk("warehouse", Path(warehouse.removeprefix("file://")))
        yield from _storage(warehouse)
    for server in (kafka or "").split(","):
        if server.strip():
            yield _broker(server.strip())
    if kafka and settings:
        yield _client(kafka, settings)
    if registry is not None:
        yield _registry(registry)


def _python() -> MachineFinding:
    sentence = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if os.name != "posix":
        return MachineFinding("python", WRONG, sentence, "use Linux or macOS, on Windows its subsystem for Linux")
    return MachineFinding("python", OK, sentence)


def _packages() -> Iterator[MachineFinding]:
    yield MachineFinding("version", OK, f"{DISTRIBUTION} {VERSION}")
    for names, verdict in ((NEEDED, WRONG), (OPTIONAL, ABSENT)):
        there, missing = [], []
        for name in names:
            try:
                there.append(f"{name} {version(name)}")
            except PackageNotFoundError:
                missing.append(name)
        if there:
            yield MachineFinding("packages", OK, ", ".join(there))
        if missing:
            step = "install the package again" if verdict == WRONG else "install its extra where you need it"
            yield MachineFinding("packages", verdict, f"not installed: {', '.join(missing)}", step)


def _java() -> MachineFinding:
    try:
        return MachineFinding("java", OK, f"version {check_java()}")
    except MachineError as error:
        step = f"for Spark {error.next_step}; --local and the test driver need none"
        return MachineFinding("java", ABSENT, f"{error.place}: {error.got}", step)


def _memory() -> MachineFinding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [total, *_limits_of_container()]
    sentence = f"{_gib(min(limits))}" + ("" if min(limits) == total else f" by the container's limit, of {_gib(total)}")
    if min(limits) < MEMORY_LEAST:
        return MachineFinding("memory", WARNING, sentence, f"give it {_gib(MEMORY_LEAST)}, or run with --max-records")
    return MachineFinding("memory", OK, sentence)


def _limits_of_container() -> Iterator[int]:
    # The file of cgroup v2, then that of v1, whose value without a limit is larger than any memory.
    for path in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # "max": no limit
            yield int((Path("/sys/fs/cgroup") / path).read_text())


def _disk(name: str, folder: Path) -> MachineFinding:
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    free = shutil.disk_usage(there).free
    sentence = f"{name}: {_gib(free)} free in {there}"
    if not os.access(there, os.W_OK):
        return MachineFinding("disk", WRONG, f"{sentence}, where this user may not write", "choose another folder")
    if free < DISK_LEAST:
        return MachineFinding("disk", WRONG if free < DISK_NEEDED else WARNING, sentence, "make room")
    return MachineFinding("disk", OK, sentence)


def _storage(warehouse: str) -> Iterator[MachineFinding]:
    """Whether of two writers one is refused, and how far its clock is from ours."""
    try:
        if is_remote(warehouse):
            refuse_overwriting(warehouse)
            yield MachineFinding("storage", OK, f"{warehouse}: a file that is there is not made again")
        yield _clock(warehouse)
    except (ReplayError, OSError) as error:
        step = error.next_step if isinstance(error, ReplayError) else "check its address, rights and options"
        got = error.got if isinstance(error, ReplayError) else str(error)
        yield MachineFinding("storage", WRONG, f"{warehouse}: {got}", step)


def _clock(warehouse: str) -> MachineFinding:
    """A small file has the time that the storage gives it."""
    filesystem, root = open_filesystem(warehouse)
    if not is_remote(warehouse):
        there = next(each for each in (Path(root), *Path(root).parents) if each.exists())
        root = str(there)
    probe = f"{root}/_doctor-{uuid.uuid4().hex}"
    before = now_ms()
    try:
        with filesystem.open_output_stream(probe) as file:
            file.write(b"x")
        after, entry = now_ms(), filesystem.get_file_info(probe)
    finally:
        with suppress(OSError):
            filesystem.delete_file(probe)
    if entry.type != fs.FileType.File or entry.mtime_ns is None:
        return MachineFinding("clock", WRONG, f"{warehouse}: a file that was written is not there", "check the storage")
    written = entry.mtime_ns // 1_000_000
    # Writing takes time: a file's time between the two readings of our clock shows no difference.
    apart = max(before - written, written - after, 0)
    sentence = f"clocks of this machine and of {warehouse} are {apart / 1000:.1f} s apart"
    if apart > CLOCK_MOST_MS:
        return MachineFinding("clock", WARNING, sentence, "set this machine's clock by NTP")
    return MachineFinding("clock", OK, sentence)


def _broker(server: str) -> MachineFinding:
    """Reached or not; whether it lets a client in, landing says."""
    host, _, port = server.rpartition(":")
    if not (host and port.isdecimal()):
        return MachineFinding("kafka", WRONG, f"{server!r} is no HOST:PORT", "write it as in localhost:9092")
    try:
        # Kafka writes an IPv6 address in brackets, which a socket does not take.
        with socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS):
            return MachineFinding("kafka", OK, f"{server} answers")
    except (OSError, OverflowError) as error:
        return MachineFinding("kafka", WRONG, f"{server}: {error}", "check the address, the network and the listeners")


def _client(servers: str, settings: Mapping[str, str]) -> MachineFinding:
    """Whether the brokers let a client with these settings in."""
    try:
        connection = Connection(servers, settings, SECONDS)
        try:
            (cluster,) = connection.ask(connection.admin.describe_cluster)
        except connection.kafka.KafkaException as error:
            said, step = connection.said(error.args[0]), "check the client's settings, its rights and the listeners"
            return MachineFinding("kafka", WRONG, f"{servers}: {said}", step)
    except (ConfigError, MachineError) as error:
        return MachineFinding("kafka", WRONG, f"{error.place}: {error.got}", error.next_step)
    nodes = "1 broker" if len(cluster.nodes) == 1 else f"{len(cluster.nodes)} brokers"
    return MachineFinding("kafka", OK, f"a client with these settings is let in; the cluster has {nodes}")


def _registry(url: str) -> MachineFinding:
    """Whether it lists its subjects. ConfigError for credentials in the URL, which every user of a machine may read."""
    parts = urlsplit(url)
    if parts.username is not None or parts.scheme not in ("http", "https"):
        raise ConfigError("--registry", "an http or https URL without credentials", "another one", "leave them out")
    address = f"{parts.scheme}://{parts.netloc}"
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/subjects", timeout=SECONDS) as answer:
            subjects = json.load(answer)
            return MachineFinding("registry", OK, f"{address} has {len(subjects):,} subjects")
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            return MachineFinding("registry", OK, f"{address} answers, and asks for credentials")
        return MachineFinding("registry", WRONG, f"{address} answers {error.code}", "check the path of the URL")
    except (OSError, ValueError, TypeError) as error:
        return MachineFinding("registry", WRONG, f"{address}: {error}", "check the address and the network")


def _gib(size: int) -> str:
    return f"{size / GIB:,.1f} GiB"
