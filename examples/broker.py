"""A real Apache Kafka broker as a child process: KRaft, one node, broker and controller in one.

Owns the process and its directory. Rule: jars come by the same Ivy as Spark's, ports are free ones, others where
somebody takes one meanwhile. The broker counts as started when it answers, and it is dead when the block ends.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kstreams_replay.jobs.execution.spark_session import resolve
from kstreams_replay.state.kafka.connection import Connection, wait_for_leaders
from kstreams_replay.state.kafka_version import JUDGE as KAFKA_VERSION

KAFKA_JAR = "org.apache.kafka:kafka_2.13"
JARS = (f"{KAFKA_JAR}:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")
START_LIMIT_S = 90.0
QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms128m", "-Xmx384m", "-Xshare:auto")
"""Options of a JVM that starts quickly and does little."""


@dataclass(frozen=True)
class Broker:
    """A broker that answers. ``log`` is what it printed, ``pid`` its process, ``command`` what started it.
    ``secured_servers``: where it speaks TLS and asks for a password, if it does.
    """

    bootstrap_servers: str
    log: Path
    pid: int
    command: tuple[str, ...]
    secured_servers: str | None = None

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def producer(self, **settings: Any) -> Producer:
        """An idempotent producer; ``transactional_id="x"`` and the like are given with underscores."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return Producer({"bootstrap.servers": self.bootstrap_servers, "enable.idempotence": True, **named})

    def create_topic(self, name: str, partitions: int = 1, **settings: str) -> str:
        """Create a topic that keeps old timestamps (``retention.ms=-1``) unless ``settings`` say otherwise; return its
        name.
        """
        config = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in settings.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        connection = self._connection()
        connection.ask(connection.admin.create_topics, [topic])
        wait_for_leaders(connection, name, partitions)
        return name

    def add_partitions(self, topic: str, total: int) -> None:
        """Raise the number of partitions to ``total``."""
        connection = self._connection()
        connection.ask(connection.admin.create_partitions, [NewPartitions(topic, total)])
        wait_for_leaders(connection, topic, total)

    def _connection(self) -> Connection:
        return Connection(self.bootstrap_servers, {}, patience_s=30)


@dataclass(frozen=True)
class Login:
    """A listener with SASL_PLAIN over TLS: a user, and a PEM file with the broker's key and certificate."""

    user: str
    password: str
    pem: Path


@contextlib.contextmanager
def running_broker(
    directory: Path,
    java_options: Sequence[str] = QUICK,
    login: Login | None = None,
    version: str = KAFKA_VERSION,
    *,
    compacts: bool = True,
) -> Iterator[Broker]:
    """A fresh broker with everything in ``directory``; killed at the end, whatever happens. ``login``: of a second
    listener. ``version``: of Kafka. ``compacts``: False keeps all records of compacted topics.
    """
    classpath = os.pathsep.join(str(jar) for jar in resolve((f"{KAFKA_JAR}:{version}", *JARS[1:])))
    log, tries = directory / "broker.log", 3
    while True:
        settings, port, secured_port = _write_settings(directory, login, compacts=compacts)
        with log.open("wb") as printed:
            command = ["kafka.tools.StorageTool", "format", "-g", "-t", _cluster_id(), "-c", str(settings)]
            subprocess.run([*_java(classpath, QUICK), *command], stdout=printed, stderr=printed, check=True)
            run = (*_java(classpath, java_options), "kafka.Kafka", str(settings))
            process = subprocess.Popen(run, stdout=printed, stderr=printed, stdin=subprocess.DEVNULL)
        secured = None if login is None else f"127.0.0.1:{secured_port}"
        broker = Broker(f"127.0.0.1:{port}", log, process.pid, run, secured)
        try:
            _wait_until_it_answers(broker, process)
            break
        except AssertionError:
            tries -= 1
            if not tries or b"Address already in use" not in log.read_bytes():
                process.kill()
                raise
    try:
        yield broker
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def started_again(broker: Broker) -> Iterator[Broker]:
    """``broker``, which has died, with what it had written and at its ports; killed at the end."""
    with broker.log.open("ab") as printed:
        process = subprocess.Popen(broker.command, stdout=printed, stderr=printed, stdin=subprocess.DEVNULL)
    try:
        again = replace(broker, pid=process.pid)
        _wait_until_it_answers(again, process)
        yield again
    finally:
        process.kill()
        process.wait()


def _java(classpath: str, options: Sequence[str]) -> list[str]:
    java = (
        shutil.which("java", path=os.path.join(os.environ["JAVA_HOME"], "bin")) if "JAVA_HOME" in os.environ else None
    )
    quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [java or "java", *options, *quiet, "-cp", classpath]


def _cluster_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _write_settings(directory: Path, login: Login | None, *, compacts: bool) -> tuple[Path, int, int]:
    port, controller_port, secured_port = _free_ports(3)
    settings: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": directory / "log",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "num.network.threads": 1,
        "num.io.threads": 2,
        "log.cleaner.enable": str(compacts).lower(),
        "log.cleaner.backoff.ms": 200,  # a compacted topic is cleaned while the test waits
        "log.cleaner.dedupe.buffer.size": 4_194_304,
        "log.message.timestamp.before.max.ms": 9_223_372_036_854_775_807,  # history is old
    }
    if login is not None:
        secured, module = (
            f"SASL_SSL://127.0.0.1:{secured_port}",
            "org.apache.kafka.common.security.plain.PlainLoginModule",
        )
        settings["listeners"] = f"{settings['listeners']},{secured}"
        settings["advertised.listeners"] = f"{settings['advertised.listeners']},{secured}"
        settings["listener.security.protocol.map"] = f"{settings['listener.security.protocol.map']},SASL_SSL:SASL_SSL"
        settings |= {
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{module} required user_{login.user}="{login.password}";',
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": login.pem,
        }
    path = directory / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path, port, secured_port


def _wait_until_it_answers(broker: Broker, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}).list_topics(timeout=2)
        except KafkaException:
            continue
        return
    said = broker.log.read_text(errors="replace")[-2000:]
    raise AssertionError(f"the broker did not answer within {START_LIMIT_S:.0f} s; it said:\n{said}")
