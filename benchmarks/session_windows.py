"""Session count + sum (gap 30 s, grace 60 s, final results): the public path against Spark's own batch
``session_window``.

``python -m benchmarks.session_windows [--records 10000000] [--runs 3] [--json FILE]``

Ours: ``replay`` on Spark ``local[2]`` from the landed table to committed output and state. Spark: the same rows,
already typed (string key, timestamp, long), from Delta to Delta; it has neither a late rule nor an order. Both in one
Spark session, in turn, so that the ratio holds on a noisy machine. Each side's first run, which pays for starting
workers and compiling, is shown apart.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from benchmarks.landed_data import land
from jobs.increment_report import IncrementReport
from jobs.replay import replay
from jobs.spark import open_spark
from jobs.spark_runner import SparkRunner
from jobs.topology import Consumed, Serde, SessionWindows, StreamsBuilder, Suppressed, Topology, fold
from state.commit import commit_files
from state.files import TaskFile, read_files, read_rows
from state.tables import LANDED_SCHEMA, Warehouse


def topology() -> Topology:
    builder = StreamsBuilder()
    (
        builder.stream("clicks", Consumed(Serde.string(), Serde.long()))
        .group_by_key()
        .windowed_by(SessionWindows.with_inactivity_gap("30s", grace="60s"))
        .aggregate(clicks=fold.count(), total=fold.sum())
        .suppress(Suppressed.until_window_closes())
        .to("sessions")
    )
    return builder.build()


def type_rows(warehouse: Warehouse) -> str:
    """The landed rows as a typed Delta table for Spark; returns its path."""
    path = f"{warehouse.root}/typed"
    schema = pa.schema([("partition", pa.int32()), ("key", pa.string()), ("ms", pa.int64()), ("value", pa.int64())])
    files = []
    for landed in read_files(warehouse.landed("clicks")):
        rows = read_rows(warehouse.landed("clicks"), [landed], LANDED_SCHEMA).combine_chunks()
        values = Serde.long().decode(rows["value"].chunk(0)).values
        columns = [rows["partition"], rows["key"].cast(pa.string()), rows["timestamp"], values]
        file = TaskFile(path, partition=landed.partition, name="typed")
        file.write(pa.table(columns, schema=schema).drop_columns(["partition"]))
        written = file.close()
        assert written is not None
        files.append(written)
    commit_files(path, schema, files, app_id="typed", increment=1)
    return path


def run_ours(spark: SparkSession, warehouse: Warehouse) -> tuple[float, IncrementReport]:
    shutil.rmtree(f"{warehouse.root}/bench", ignore_errors=True)
    started = time.perf_counter()
    (report,) = replay(warehouse, topology(), pipeline="bench", runner=SparkRunner(spark, f"{warehouse.root}/cache"))
    return time.perf_counter() - started, report


def run_spark(spark: SparkSession, typed: str, target: str) -> tuple[float, int]:
    shutil.rmtree(target, ignore_errors=True)
    started = time.perf_counter()
    (
        spark.read.format("delta").load(typed)
        .select("key", f.timestamp_millis("ms").alias("time"), "value")
        .groupBy("key", f.session_window("time", "30 seconds"))
        .agg(f.count(f.lit(1)).alias("clicks"), f.sum("value").alias("total"))
        .write.format("delta").save(target)
    )  # fmt: skip
    seconds = time.perf_counter() - started
    return seconds, spark.read.format("delta").load(target).count()


def measure(records: int, runs: int, folder: Path) -> dict[str, Any]:
    warehouse = Warehouse(str(folder))
    land(warehouse, "clicks", records=records)
    typed = type_rows(warehouse)
    spark = open_spark("local[2]", extra={"spark.sql.shuffle.partitions": "4"})
    ours: list[tuple[float, IncrementReport]] = []
    theirs: list[tuple[float, int]] = []
    for _ in range(runs + 1):
        ours.append(run_ours(spark, warehouse))
        theirs.append(run_spark(spark, typed, f"{folder}/spark_sessions"))
    spark.stop()
    report = ours[-1][1]
    rates = [records / seconds for seconds, _ in ours], [records / seconds for seconds, _ in theirs]
    warm = [statistics.median(side[1:]) for side in rates]
    return {
        "records": records,
        "ours_records_per_second": {"first": rates[0][0], "median": warm[0], "runs": rates[0][1:]},
        "spark_records_per_second": {"first": rates[1][0], "median": warm[1], "runs": rates[1][1:]},
        "ratio": {"median": warm[0] / warm[1], "pairs": [a / b for a, b in zip(*rates, strict=True)][1:]},
        "ours_seconds_by_part": report.seconds,
        "ours_worker_rss_bytes_max": report.rss_bytes_max,
        "rows_out": {"ours": report.outputs["sessions"], "spark": theirs[-1][1]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(arguments.records, arguments.runs, Path(folder))
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
