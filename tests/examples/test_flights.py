"""The demo, whole, on Spark; and its topics once more through a real Kafka broker, with the same results."""

import pytest

from examples.broker import Broker, running_broker
from examples.flights.__main__ import INCREMENT_RECORDS, PIPELINE, run
from examples.flights.topics import SOURCES
from examples.flights.topology import topology
from kstreams_replay.jobs.execution.spark_runner import SparkRunner
from kstreams_replay.jobs.history.committed_tables import read_table
from kstreams_replay.jobs.landing.landing import KafkaSource, land_kafka
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.tables.data_files import read_files, read_rows
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA, Warehouse
from tests.planted import tables_of

pytestmark = pytest.mark.jvm


@pytest.fixture(scope="module")
def demo(spark, tmp_path_factory) -> tuple[Warehouse, int, list[str]]:
    """The demo's warehouse, its exit code and the lines it printed."""
    folder = tmp_path_factory.mktemp("demo")
    lines: list[str] = []
    code = run(folder, lambda: spark, lines.append)
    return Warehouse(str(folder / "tables")), code, lines


@pytest.fixture(scope="module")
def broker(tmp_path_factory) -> Broker:
    with running_broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


def test_every_number_and_every_guarantee_of_the_demo_holds(demo):
    _, code, lines = demo

    assert code == 0
    assert lines[-1] == "done"


def test_the_hours_count_every_flight_that_was_neither_late_nor_still_waiting(demo):
    """
    336,776 flights were scheduled, 8,255 never left: 328,521 departures.
    """
    output, store, dropped = (
        read_table(demo[0], PIPELINE, table)
        for table in ("outputs/departures_per_hour", "state/open-hours-store", "dropped")
    )
    final, waiting = (sum(row["value"]["departures"] for row in table.to_pylist()) for table in (output, store))
    late = sum(row["topic"] == "departures" and row["is_record"] for row in dropped.to_pylist())
    assert (final, waiting, late) == (308_552, 83, 19_886)
    assert final + waiting + late == 336_776 - 8_255


@pytest.mark.nightly
def test_the_topics_give_the_same_tables_when_they_come_through_a_kafka_broker(demo, broker, spark, tmp_path):
    by_files, by_kafka = demo[0], Warehouse(str(tmp_path / "tables"))
    for topic, (_, _, _, partitions) in SOURCES.items():
        produce(broker, by_files, topic, partitions)
        land_kafka(spark, by_kafka, topic, KafkaSource(broker.bootstrap_servers))

    for _ in replay(
        by_kafka, topology, pipeline=PIPELINE, runner=SparkRunner(spark), max_records=2 * INCREMENT_RECORDS
    ):
        pass

    assert tables_of(by_kafka, PIPELINE, topology) == tables_of(by_files, PIPELINE, topology)


def produce(broker: Broker, warehouse: Warehouse, topic: str, partitions: int) -> None:
    """Send a landed topic's records to the broker, each to its partition, in order."""
    broker.create_topic(topic, partitions, **{"retention.ms": "-1"})
    producer = broker.producer(**{"queue.buffering.max.messages": 1_000_000, "linger.ms": 20})
    path = warehouse.landed(topic)
    columns = ("partition", "key", "value", "timestamp")
    for file in read_files(path):
        rows = read_rows(path, [file], LANDED_SCHEMA)
        for partition, key, value, timestamp in zip(*(rows[name].to_pylist() for name in columns), strict=True):
            producer.produce(topic, value, key, partition=partition, timestamp=timestamp)
    assert producer.flush(60) == 0
