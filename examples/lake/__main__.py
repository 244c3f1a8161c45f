"""The demo of topics that lie in tables of a lake. ``python -m examples.lake [--folder DIR] [--months N]``.

A real broker gets a year of New York's departures in three nights. Each night Spark's Kafka source appends them to a
Delta table, and Iceberg tables have them in Redpanda's layout. Three pipelines replay the night: over topics that were
landed from Kafka, over the Delta table in place, over the Iceberg tables in place. Then the owner of the tables sorts
their rows by key and deletes the old files. In the end the three pipelines have the same results, row for row.
"""

import argparse
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from examples.broker import Broker, running_broker
from examples.flights.__main__ import storyteller
from examples.flights.topology import topology
from examples.lake.company import CATALOG, NAMESPACE, TOPICS, BronzeTable, IcebergTables, nights, produce
from kstreams_replay import (
    KafkaSource,
    LakeSource,
    ReplayError,
    SparkRunner,
    Warehouse,
    land_kafka,
    land_lake,
    replay,
)
from kstreams_replay.jobs.history.committed_tables import read_changelog
from kstreams_replay.orchestration.engines import start_spark

PIPELINE = "flights"
OUTPUTS = ("departures_per_hour", "aircraft_sessions")
NIGHTS = 3
KAFKA, DELTA, ICEBERG = "landed from Kafka", "Delta, in place", "Iceberg, in place"

Say = Callable[[str], None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("lake"), help="where broker, tables and warehouses go")
    parser.add_argument("--months", type=int, default=12, choices=range(NIGHTS, 13), help="how much of the year")
    asked = parser.parse_args()
    say = storyteller()
    say("starting Spark and a broker (the first start resolves their packages)")
    folder = asked.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "broker").mkdir(parents=True)
    try:
        spark = start_spark("local[2]")
        try:
            with running_broker(folder / "broker") as broker:
                return run(folder, spark(), broker, asked.months, say)
        finally:
            spark().stop()
    except ReplayError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def run(folder: Path, spark: SparkSession, broker: Broker, months: int, say: Say) -> int:
    """0 when the results of the three pipelines are the same, else 1."""
    for topic, (_, partitions) in TOPICS.items():
        broker.create_topic(topic, partitions)
    bronze = BronzeTable(spark, broker, folder / "bronze")
    iceberg = IcebergTables(broker, folder / "iceberg")
    warehouses = {
        name: Warehouse(str(folder / name.replace(", ", "-").replace(" ", "-"))) for name in (KAFKA, DELTA, ICEBERG)
    }
    for number, flown in enumerate(nights(months, NIGHTS), start=1):
        records = produce(broker, flown)
        bronze.append()
        iceberg.append()
        say(f"night {number}: {records:,} new records in Kafka, in the Delta table and in Iceberg")
        for name, warehouse in warehouses.items():
            landed = sum(_land(name, warehouse, topic, spark, broker, bronze, iceberg) for topic in TOPICS)
            reports = list(replay(warehouse, topology, pipeline=PIPELINE, runner=SparkRunner(lambda: spark)))
            results = sum(rows for report in reports for rows in report.outputs.values())
            say(f"  {name}: {landed:,} records -> {results:,} results")
        bronze.cluster()
        iceberg.cluster()
        say("  the owner has sorted the tables by key and deleted the old files")
    iceberg.close()
    same = [_compare(warehouses, output) for output in OUTPUTS]
    say("done" if all(same) else "done, and results differ: see above")
    return 0 if all(same) else 1


def _land(
    name: str,
    warehouse: Warehouse,
    topic: str,
    spark: SparkSession,
    broker: Broker,
    bronze: BronzeTable,
    iceberg: IcebergTables,
) -> int:
    if name == KAFKA:
        return land_kafka(spark, warehouse, topic, KafkaSource(broker.bootstrap_servers)).records
    if name == DELTA:
        source = LakeSource(delta=bronze.path, in_place=True, partitions=TOPICS[topic][1])
    else:
        table = f"{CATALOG}.{NAMESPACE}.{topic}"
        source = LakeSource(iceberg=table, catalog=iceberg.properties, in_place=True, partitions=TOPICS[topic][1])
    return land_lake(None, warehouse, topic, source).records


def _compare(warehouses: dict[str, Warehouse], output: str) -> bool:
    """Whether all have the same rows of ``output`` in the same order; prints how many."""
    results: dict[str, pa.Table] = {name: read_changelog(each, PIPELINE, output) for name, each in warehouses.items()}
    are_equal = all(rows.equals(results[KAFKA]) for rows in results.values())
    counts = ", ".join(f"{name} {rows.num_rows:,}" for name, rows in results.items())
    print(f"{output}: {counts} rows, {'the same' if are_equal else 'NOT THE SAME'}")
    return are_equal


if __name__ == "__main__":
    sys.exit(main())
