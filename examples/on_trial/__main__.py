"""A live application on trial. ``python -m examples.on_trial [--folder DIR]``.

A real broker gets clicks, and a small Kafka Streams application counts them. It is closed and started again before a
late click, and later killed before it has committed. Then both topics are landed, the clicks are replayed, and
``replay compare`` says of every row that production wrote, and that its rules do not give, why it is there.
"""

import argparse
import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from examples.broker import JARS, QUICK, Broker, running_broker
from examples.on_trial.topology import topology
from kstreams_replay import Warehouse, compare
from kstreams_replay.jobs.execution.java import java_command
from kstreams_replay.jobs.execution.spark_session import resolve
from kstreams_replay.orchestration.cli.main import main as replay
from kstreams_replay.state.errors import MachineError
from kstreams_replay.state.kafka_version import JUDGE

STREAMS = f"org.apache.kafka:kafka-streams:{JUDGE}"
APPLICATION = Path(__file__).with_name("Counts.java")
TOPOLOGY = f"{Path(__file__).with_name('topology.py')}:topology"
WAIT_S = 90.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("on_trial"), help="where broker, state and tables go")
    folder: Path = parser.parse_args().folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "broker").mkdir(parents=True)
    print("starting a broker (the first start resolves its packages)", flush=True)
    with running_broker(folder / "broker") as broker:
        return run(folder, broker)


def run(folder: Path, broker: Broker) -> int:
    """0 when every difference has a cause, else 1."""
    for topic in ("clicks", "counts"):
        broker.create_topic(topic)
    live(folder, broker)
    options = ["--warehouse", str(folder / "warehouse")]
    kafka = ["--kafka", broker.bootstrap_servers]
    command(["land", "clicks", *options, *kafka])
    command(["land", "production", *options, *kafka, "--source-topic", "counts"])
    command(["run", TOPOLOGY, *options, "--pipeline", "rules", "--local"])
    compared = ["compare", "counts", "--with-topic", "production", "--topology", TOPOLOGY, *options]
    command([*compared, "--pipeline", "rules", "--as", "events", "--infer-restarts"])
    comparison = compare(
        Warehouse(str(folder / "warehouse")), topology(), "counts", with_topic="production", pipeline="rules",
        form="events",
    )  # fmt: skip
    return 0 if comparison.causes and not comparison.not_explained else 1


def live(folder: Path, broker: Broker) -> None:
    """The application's life: a clean restart before a late click, and a kill before a commit."""
    jars = [str(jar) for jar in resolve((STREAMS, *JARS[1:]))]
    with started(folder, broker, jars) as application:
        send(broker, 1_000, 1_001, 1_002, 100_000)
        wait_for(broker, 4, application)
        close(application)
    print("closed; a click of 2 s is late by then", flush=True)
    with started(folder, broker, jars) as application:
        send(broker, 2_000)
        wait_for(broker, 5, application)
        send(broker, 101_000, 111_000)
        wait_for(broker, 7, application)
        application.kill()
    print("killed; it has not committed since it was started", flush=True)
    with started(folder, broker, jars) as application:
        send(broker, 112_000)
        wait_for(broker, 11, application)
        close(application)


@contextlib.contextmanager
def started(folder: Path, broker: Broker, jars: Sequence[str]) -> "Iterator[subprocess.Popen[bytes]]":
    """The application as a process; killed at the end, whatever happens."""
    java = java_command()
    if java is None:
        raise MachineError("example on_trial", "a JDK", "no java command", "install a JDK 17 or newer")
    arguments = [java, *QUICK, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", ":".join(jars)]
    arguments += [str(APPLICATION), broker.bootstrap_servers, str(folder / "state")]
    with (folder / "application.log").open("ab") as log:
        application = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=log, stderr=log)
    try:
        yield application
    finally:
        application.kill()
        application.wait()


def close(application: "subprocess.Popen[bytes]") -> None:
    """End its input, so that it closes and commits."""
    assert application.stdin is not None
    application.stdin.close()
    application.wait(WAIT_S)


def send(broker: Broker, *times_ms: int) -> None:
    """Clicks of the key ``a`` at these times."""
    producer = broker.producer()
    for time_ms in times_ms:
        producer.produce("clicks", b"x", b"a", timestamp=time_ms)
    if producer.flush(WAIT_S):
        raise RuntimeError("the broker does not take the clicks")


def wait_for(broker: Broker, rows: int, application: "subprocess.Popen[bytes]") -> None:
    """Until the application has written so many rows."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "looks"})
    deadline, written = time.monotonic() + WAIT_S, 0
    try:
        while written < rows:
            if application.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"expected {rows} rows of the application, got {written}; see application.log")
            time.sleep(0.1)
            written = consumer.get_watermark_offsets(TopicPartition("counts", 0), timeout=30)[1]
    finally:
        consumer.close()


def command(words: Sequence[str]) -> int:
    """Run a command of ``replay`` as a user does, and show it."""
    print(f"\n$ replay {' '.join(words)}", flush=True)
    return replay(list(words))


if __name__ == "__main__":
    sys.exit(main())
