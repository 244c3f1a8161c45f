"""How fast results and state go to a live application's broker and come back.

``python -m kstreams_replay.benchmarks.live [--bytes 1000000000] [--rows 1000000] [--runs 3] [--only state,publish]
[--json FILE]``

``state``: a table of ``--bytes`` in values of VALUE_BYTES, on PARTITIONS partitions. Its state is handed over to a
first application; a pipeline begins with what that application has (bootstrap), and the pipeline's state is handed over
to a second application. Each step by itself, reading and writing included; the second hand-over and the bootstrap are
what a person waits for. ``publish``: an output of ``--rows`` rows of as many bytes, against a loop that gives the same
records to the client in transactions of as many rows, in turn. The broker runs beside, on the same cores.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from examples.broker import Broker, running_broker
from kstreams_replay import Consumed, Materialized, Serde, StreamsBuilder, Topology
from kstreams_replay.jobs.bootstrap.application_state import ApplicationState, CommittedPosition
from kstreams_replay.jobs.bootstrap.bootstrapping import bootstrap
from kstreams_replay.jobs.bootstrap.handing_over import changelog_settings, state_of_pipeline
from kstreams_replay.jobs.bootstrap.kafka_application import KafkaApplication, read_application
from kstreams_replay.jobs.bootstrap.kafka_hand_over import hand_over
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.landing import KafkaSource, land_kafka, land_records
from kstreams_replay.jobs.operators.base.changelogs import Changelog
from kstreams_replay.jobs.publish.kafka_target import KafkaTarget
from kstreams_replay.jobs.publish.publishing import ROWS_PER_TRANSACTION, publish
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.tables.warehouse import Warehouse

from .measuring import Stopwatch
from .peers.kafka import BROKER_JAVA

PARTITIONS, VALUE_BYTES = 4, 100
PIPELINE, TABLE, STREAM = "bench", "accounts", "payments"
TIME_MS = 1_767_258_000_000


def a_table() -> Topology:
    """A table with a changelog of its own, beside its topic."""
    builder = StreamsBuilder()
    of_text = Consumed(Serde.string(), Serde.string())
    builder.table(TABLE, of_text, Materialized("kept")).to_stream().to("changes")
    return builder.build()


def a_copy() -> Topology:
    """Each record as it came."""
    builder = StreamsBuilder()
    builder.stream(STREAM, Consumed(Serde.string(), Serde.string())).to("copies")
    return builder.build()


def columns(rows: int, first: int = 0) -> tuple[pa.Array, pa.Array, np.ndarray]:
    """Keys, values of VALUE_BYTES that do not repeat, and times."""
    number = np.arange(first, first + rows)
    keys = pa.array(np.char.add("account-", number.astype("U12"))).cast(pa.binary())
    letters = np.random.default_rng(first).integers(97, 123, rows * VALUE_BYTES, dtype=np.uint8)
    ends = pa.array(np.arange(rows + 1, dtype=np.int32) * VALUE_BYTES)
    values = pa.Array.from_buffers(pa.binary(), rows, [None, ends.buffers()[1], pa.py_buffer(letters)])
    return keys, values, TIME_MS + number


def state(size: int, runs: int, scratch: Path) -> dict[str, dict[str, list[float]]]:
    """Counters by step."""
    rows = size // (PARTITIONS * VALUE_BYTES)
    logs = []
    for partition in range(PARTITIONS):
        keys, values, times = columns(rows, partition * rows)
        logs.append(Changelog("kept", keys, values, times))
    clocks = {name: Stopwatch() for name in ("hand over", "bootstrap", "hand over again")}
    for number in range(runs):
        with a_broker(scratch) as broker:
            one_record_each(broker, TABLE)
            warehouse = Warehouse(str(scratch / f"warehouse {number}"))
            land_kafka(None, warehouse, TABLE, KafkaSource(broker.bootstrap_servers))
            written = there_and_back(broker, warehouse, logs, clocks)
            assert written == PARTITIONS * rows, f"expected {PARTITIONS * rows} records, got {written}"
            shutil.rmtree(warehouse.root)
    return {name: vars(clock) for name, clock in clocks.items()}


def there_and_back(broker: Broker, warehouse: Warehouse, logs: list[Changelog], clocks: Mapping[str, Stopwatch]) -> int:
    """One round of the three steps; the records that the last one wrote."""
    first, second = (KafkaApplication(broker.bootstrap_servers, name) for name in ("first", "second"))
    positions = {TABLE: {partition: CommittedPosition(1, TIME_MS) for partition in range(PARTITIONS)}}
    given, settings = (
        ApplicationState(first.application_id, positions, {"kept": logs}, {}),
        changelog_settings(a_table()),
    )

    def again() -> int:
        whole = state_of_pipeline(warehouse, a_table(), PIPELINE, application_id=second.application_id)
        return sum(hand_over(whole, second, settings).records.values())

    clocks["hand over"].time(lambda: hand_over(given, first, settings))
    clocks["bootstrap"].time(lambda: bootstrap(warehouse, a_table(), read_application(first), pipeline=PIPELINE))
    written: int = clocks["hand over again"].time(again)
    return written


def published(rows: int, runs: int, scratch: Path) -> dict[str, dict[str, list[float]]]:
    """Counters of ours and of the plain loop, without the first pair."""
    keys, values, times = columns(rows)
    zero = pa.repeat(pa.scalar(0, pa.int32()), rows)
    records = pa.table({"key": keys, "value": values, "timestamp": pa.array(times), "partition": zero})
    warehouse = Warehouse(str(scratch / "published"))
    land_records(warehouse, STREAM, records)
    list(replay(warehouse, a_copy(), pipeline=PIPELINE, runner=LocalRunner()))
    pairs = list(zip(keys.to_pylist(), values.to_pylist(), times.tolist(), strict=True))
    ours, plain = Stopwatch(), Stopwatch()
    with a_broker(scratch) as broker:
        for number in range(runs + 1):
            topics = [broker.create_topic(f"{name}-{number}") for name in ("ours", "plain")]
            to = KafkaTarget(broker.bootstrap_servers, topics[0])
            report = ours.time(partial(publish, warehouse, a_copy(), "copies", pipeline=PIPELINE, to=to))
            assert report.rows == rows, f"expected {rows} rows, got {report.rows}"
            plain.time(partial(loop, broker, topics[1], pairs))
    return {
        name: {"seconds": clock.seconds[1:], "cpu_seconds": clock.cpu_seconds[1:]}
        for name, clock in (("publish", ours), ("plain producer", plain))
    }


def loop(broker: Broker, topic: str, records: list[tuple[bytes, bytes, int]]) -> None:
    """``records`` in transactions of as many rows as ours."""
    producer = broker.producer(transactional_id=f"plain-{topic}")
    producer.init_transactions(30)
    for first in range(0, len(records), ROWS_PER_TRANSACTION):
        producer.begin_transaction()
        for key, value, time_ms in records[first : first + ROWS_PER_TRANSACTION]:
            producer.produce(topic, value, key, 0, timestamp=time_ms)
        producer.commit_transaction(30)


@contextmanager
def a_broker(scratch: Path) -> Iterator[Broker]:
    folder = Path(tempfile.mkdtemp(dir=scratch))
    try:
        with running_broker(folder, BROKER_JAVA) as broker:
            yield broker
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def one_record_each(broker: Broker, topic: str) -> None:
    """A topic with a record in each partition."""
    broker.create_topic(topic, PARTITIONS)
    producer = broker.producer()
    for partition in range(PARTITIONS):
        producer.produce(topic, b"value", b"key", partition, timestamp=TIME_MS)
    assert producer.flush(30) == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=1_000_000_000, help="of the state's values")
    parser.add_argument("--rows", type=int, default=1_000_000, help="that are published")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="state,publish")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    work: dict[str, Callable[[Path], dict[str, Any]]] = {
        "state": lambda scratch: state(given.bytes, given.runs, scratch),
        "publish": lambda scratch: published(given.rows, given.runs, scratch),
    }
    scratch, figures = Path(tempfile.mkdtemp(prefix="live-")), dict[str, Any]()
    try:
        for name in given.only.split(","):
            figures |= work[name](scratch)
    finally:
        shutil.rmtree(scratch)
    print("| step | seconds, median | CPU seconds, median |\n|---|---|---|")
    for name, counters in figures.items():
        medians = [f"{statistics.median(counters[unit]):.1f}" for unit in ("seconds", "cpu_seconds")]
        print(f"| {name} | {' | '.join(medians)} |")
    print(json.dumps(figures))
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
