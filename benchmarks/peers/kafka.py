"""Kafka Streams on the benchmark's rows: a real broker and ``Peer.java``, a fresh JVM a run.

``python -m kstreams_replay.benchmarks.peers.kafka --workload W1 --folder DIR [--records N] [--runs 3] [--prefix N]
[--configurations rocksdb,…]``

Rule: rows are in the topics, in their partitions and order, before the clock starts; it runs from
``KafkaStreams.start()`` until all input is processed and ``close()`` has committed. Then the output topics are read
back, and what they hold is compared with the answer of a relational form where there is an exact one; a difference is
an error. Two stream threads, 6 GiB of heap, the broker with 1, else defaults. Prints a line of JSON a configuration.
"""

import argparse
import json
import shutil
import struct
import subprocess
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from confluent_kafka import Consumer, TopicPartition

from examples.broker import Broker, running_broker
from tests.jvm.streams import STREAMS, VERSION, compiled

from ..typed_data import RECORDS, prepare, typed_path
from ..workloads import WORKLOADS
from .expected import Answer, expected

PEER = Path(__file__).with_name("Peer.java")
PACKAGES = (STREAMS, "org.slf4j:slf4j-simple:1.7.36")
BROKER_JAVA, PEER_JAVA = ("-Xmx1g",), ("-Xmx6g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
LOADED_AT_ONCE = 500_000
"""Records that the producer holds at most."""


@dataclass(frozen=True)
class Configuration:
    """Where stores are kept and how large the record cache is (bytes, or ``"default"``)."""

    stores: str
    cache: str

    def __str__(self) -> str:
        return f"{self.stores}, cache {'on' if self.cache == 'default' else 'off'}"


CONFIGURATIONS = {
    "rocksdb": Configuration("rocksdb", "default"),
    "memory": Configuration("memory", "default"),
    "rocksdb-nocache": Configuration("rocksdb", "0"),
    "memory-nocache": Configuration("memory", "0"),
}
ONLY_ROCKSDB = dict.fromkeys(("W4", "W6"), f"{VERSION} has no versioned store in memory")

PREFIXES = (
    (
        ("W1", "W6", "W7"),
        ("rocksdb", "rocksdb-nocache"),
        2_000_000,
        "10 M take 10 minutes: hot keys are slow",
    ),
    (("W1u",), ("rocksdb", "rocksdb-nocache"), 2_000_000, "as long as that of W1, with which it is compared"),
    (("W1", "W7"), ("memory-nocache",), 400_000, "2 M did not end within 6 minutes"),
    (("W1u",), ("memory-nocache",), 100_000, "a search in its session store walks all ends of 30 s, of every key"),
    (("W1", "W1u", "W7"), ("memory",), 100_000, "1,500 records/s: the record cache before the store is slow"),
)
"""(workloads, configurations, records, reason): where a prefix of the rows represents all of them."""
NOTES = {"W5": "a foreign-key join drops answers to a row that has changed since, so how many come out is chance"}


def prefix_of(workload: str, configuration: str) -> tuple[int, str]:
    """How many records a configuration gets at most when nothing else is asked for, and why."""
    for workloads, configurations, records, reason in PREFIXES:
        if workload in workloads and configuration in configurations:
            return records, f"a prefix of {records:,} records: {reason}"
    return RECORDS, ""


# --- rows ----------------------------------------------------------------------------------------------------


def typed_rows(folder: Path, topic: str) -> list[pl.DataFrame]:
    """Rows of each partition of the typed topic, in order of offset."""
    partitions = sorted(typed_path(folder, topic).glob("partition=*"), key=lambda path: int(path.name.split("=")[1]))
    assert partitions, f"no rows of {topic} in {folder}"
    return [pl.read_parquet(path / "*.parquet", hive_partitioning=False).sort("offset") for path in partitions]


def inputs(folder: Path, workload: str, records: int) -> dict[str, list[pl.DataFrame]]:
    """Rows of each topic: of the first one so many records, alike in each partition, and the last of each partition,
    which closes its windows; of tables what is not newer.
    """
    first, *tables = WORKLOADS[workload].topics
    rows = {topic: typed_rows(folder, topic) for topic in (first, *tables)}
    stream = rows[first]
    if records >= sum(len(part) - 1 for part in stream):
        return rows
    begun = [part.head(min(records // len(stream), len(part) - 1)) for part in stream]
    reached_ms = max(int(part["ms"].max() or 0) for part in begun)  # type: ignore[call-overload]
    cut = {topic: [part.filter(pl.col("ms") <= reached_ms) for part in rows[topic]] for topic in tables}
    return {first: [pl.concat([head, part.tail(1)]) for head, part in zip(begun, stream, strict=True)]} | cut


def load(broker: Broker, topic: str, rows: Sequence[pl.DataFrame]) -> None:
    """Produce rows into a new topic: string keys, values as Kafka's LongSerializer writes them. The client takes a time
    of 0 for now, so there must be none.
    """
    assert all((part["ms"] > 0).all() for part in rows), f"{topic}: times from 1 ms on"
    broker.create_topic(topic, partitions=len(rows))
    options = {"queue_buffering_max_messages": 2 * LOADED_AT_ONCE, "queue_buffering_max_kbytes": 1 << 20}
    producer = broker.producer(linger_ms=50, **options)
    for partition, part in enumerate(rows):
        for first in range(0, len(part), LOADED_AT_ONCE):
            batch = part.slice(first, LOADED_AT_ONCE)
            values = batch["value"].to_numpy().astype(">i8").tobytes()
            for at, (key, ms) in enumerate(zip(batch["key"].to_list(), batch["ms"].to_list(), strict=True)):
                producer.produce(topic, values[8 * at : 8 * at + 8], key, partition, timestamp=ms)
            assert producer.flush(120) == 0, f"{topic}: the broker did not take all records"
    assert ends(broker, topic) == {partition: len(part) for partition, part in enumerate(rows)}


def ends(broker: Broker, topic: str) -> dict[int, int]:
    """The end offset of every partition."""
    with _consumer(broker) as consumer:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        return {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)[1] for p in sorted(partitions)}


def answer_of(broker: Broker, topics: Iterable[str]) -> Answer:
    """What output topics hold, of all of them together."""
    rows, first, second, present = 0, 0, 0, 0
    for topic in topics:
        left = {p: end for p, end in ends(broker, topic).items() if end}
        rows += sum(left.values())
        with _consumer(broker) as consumer:
            consumer.assign([TopicPartition(topic, p, 0) for p in left])
            while left:
                for message in consumer.consume(100_000, timeout=1):
                    assert message.error() is None, message.error()
                    value = message.value()
                    first += struct.unpack_from(">q", value)[0]
                    if len(value) == 16:
                        second, present = second + struct.unpack_from(">q", value, 8)[0], present + 1
                    if message.offset() + 1 == left[message.partition()]:
                        del left[message.partition()]
    return Answer(rows, {"first": first, "second": second, "present": present})


@contextmanager
def _consumer(broker: Broker) -> Iterator[Consumer]:
    named = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "answers", "enable.auto.commit": False}
    consumer = Consumer(named)
    try:
        yield consumer
    finally:
        consumer.close()


# --- runs ----------------------------------------------------------------------------------------------------


def run(broker: Broker, command: Sequence[str], workload: str, name: str, topics: Mapping[str, str]) -> dict[str, Any]:
    """One run of the application in a JVM of its own; what Peer.java says, and the ``answer`` in its output topics."""
    configuration, application = CONFIGURATIONS[name], f"peer-{uuid.uuid4().hex}"
    partitions = len(ends(broker, topics["clicks"]))
    outputs = {
        output: broker.create_topic(f"{application}-{output}", partitions) for output in WORKLOADS[workload].outputs
    }
    given = {
        "workload": workload,
        "bootstrap": broker.bootstrap_servers,
        "application": application,
        "stores": configuration.stores,
        "cache": configuration.cache,
        "broker": str(broker.pid),
        **topics,
        **outputs,
    }
    ran = subprocess.run(
        [*command, *(f"{each}={value}" for each, value in given.items())], stdout=subprocess.PIPE, text=True, check=True
    )
    said = json.loads(ran.stdout.splitlines()[-1])
    said["answer"] = answer_of(broker, outputs.values())
    admin = broker.admin()
    own = [topic for topic in admin.list_topics(timeout=30).topics if topic.startswith(application)]
    for deleted in admin.delete_topics(own, operation_timeout=30).values():
        deleted.result(60)
    return said


@dataclass(frozen=True)
class LoadedTopics:
    """Topics of the broker by the names that Peer.java has for them, ``records`` of the stream without those that close
    its windows, and the answer where it is known.
    """

    topics: dict[str, str]
    records: int
    answer: Answer | None


def measured(
    workload: str, folder: Path, names: Sequence[str], runs: int, prefix: int | None = None
) -> Iterator[dict[str, Any]]:
    """A result for each of the configurations ``names``, in their order. Raises AssertionError when an output is not
    what it has to be.
    """
    scratch = Path(tempfile.mkdtemp(prefix="kafka-peer-"))
    loaded: dict[int, LoadedTopics] = {}
    try:
        (scratch / "broker").mkdir()
        with (
            running_broker(scratch / "broker", BROKER_JAVA) as broker,
            compiled(PEER, packages=PACKAGES, java_options=PEER_JAVA) as command,
        ):
            for name in names:
                asked, why = (prefix, f"a prefix of {prefix:,} records") if prefix else prefix_of(workload, name)
                if asked not in loaded:
                    loaded[asked] = load_inputs(broker, folder, workload, asked)
                rows = loaded[asked]
                ran = [run(broker, command, workload, name, rows.topics) for _ in range(runs)]
                for each in ran:
                    right = rows.answer in (None, each["answer"])
                    assert right, f"{workload}, {name}: expected {rows.answer}, got {each['answer']}"
                yield _result(workload, name, rows.records, ran, why if rows.records == asked else "")
    finally:
        shutil.rmtree(scratch)


def load_inputs(broker: Broker, folder: Path, workload: str, records: int) -> LoadedTopics:
    """Load the topics of ``workload``, a prefix of so many records."""
    rows = inputs(folder, workload, records)
    topics = {topic: f"{topic}-{records}" for topic in rows}
    for topic, parts in rows.items():
        load(broker, topics[topic], parts)
    named = dict(zip(["clicks", *list(rows)[1:]], topics.values(), strict=True))
    return LoadedTopics(named, sum(len(part) - 1 for part in next(iter(rows.values()))), expected(workload, rows))


def _result(workload: str, name: str, records: int, ran: Sequence[dict[str, Any]], why: str) -> dict[str, Any]:
    last = ran[-1]
    return {
        "system": f"kafka-streams {VERSION}",
        "configuration": str(CONFIGURATIONS[name]),
        "workload": workload,
        "records": records,
        "seconds": [round(each["process"] + each["close"], 3) for each in ran],
        "rows_out": last["answer"].rows,
        "checks": last["answer"].checks,
        "parts": {part: last[part] for part in ("process", "close", "cpu", "broker_cpu")},
        "cpu_seconds": [round(each["cpu"] + each["broker_cpu"], 2) for each in ran],
        "rss_bytes_max": max(each["rss"] + each["broker_rss"] for each in ran),
        "notes": "; ".join(filter(None, (why, NOTES.get(workload)))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--folder", type=Path, required=True, help="with the topics; they are made if missing")
    parser.add_argument("--runs", type=int, default=3, help="each in a fresh JVM")
    parser.add_argument("--records", type=int, help=f"clicks (default: as many as there are, or {RECORDS:,})")
    parser.add_argument("--prefix", type=int, help="take so many of them; default by PREFIXES")
    parser.add_argument("--configurations", help=f"of {','.join(CONFIGURATIONS)}; default rocksdb,memory-nocache")
    given = parser.parse_args()
    prepare(given.folder, given.workload, given.records)
    default = "rocksdb" if given.workload in ONLY_ROCKSDB else "rocksdb,memory-nocache"
    names = (given.configurations or default).split(",")
    if given.workload in ONLY_ROCKSDB and any(CONFIGURATIONS[name].stores == "memory" for name in names):
        parser.error(f"{given.workload}: {ONLY_ROCKSDB[given.workload]}")
    for result in measured(given.workload, given.folder, names, given.runs, given.prefix):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
