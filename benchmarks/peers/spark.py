"""Spark itself on the same rows, typed, from Delta to Delta: batch, and Structured Streaming with AvailableNow. W10 and
W11 read the landed bytes, as ours does, and are batch alone.

``python -m kstreams_replay.benchmarks.peers.spark --workload W1 --folder DIR [--runs 3] [--records N]``

Same Spark, same ``local[2]`` as ours; four shuffle partitions, adaptive execution on. Batch has
neither lateness nor order. Streaming takes all in one micro-batch, and one without data lets go what the watermark
has passed; state is in RocksDB, the watermark 60 s behind, one for all partitions. The clock begins when the session
is open.
"""

import json
import shutil
import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pyspark
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

from kstreams_replay.jobs.execution.spark_session import (
    PACKAGES,
    PROVIDED_BY_SPARK,
    SCALA,
    open_spark,
    resolve,
)
from kstreams_replay.state.tables.data_files import read_files

from .. import THREADS
from ..click_events import READ, READ_SCHEMA, ROBOT, SCHEMA
from ..measuring import Stopwatch, print_figures, program_options
from ..typed_data import typed_path, warehouse_of
from ..workloads import GAP_MS, GRACE_MS, INTERVAL_MS, WINDOW_MS, WORKLOADS
from .relational import checks_of, without_closing

AVRO_PACKAGE = f"org.apache.spark:spark-avro_{SCALA}:4.1.1"
"""Some repositories lack those of other patches of the 4.1 line."""
SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "8g",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def _ms(milliseconds: int) -> str:
    return f"{milliseconds} milliseconds"


def _by_window(window: Column) -> Callable[[DataFrame], DataFrame]:
    def form(rows: DataFrame) -> DataFrame:
        totals = f.count(f.lit(1)).alias("clicks"), f.sum("value").alias("total")
        return rows.groupBy("key", window.alias("window")).agg(*totals)

    return form


def _sessions(rows: DataFrame) -> DataFrame:
    return _by_window(f.session_window("time", _ms(GAP_MS)))(rows)


def _windows(rows: DataFrame) -> DataFrame:
    return _by_window(f.window("time", _ms(WINDOW_MS)))(rows)


def _first_clicks(rows: DataFrame) -> DataFrame:
    before = f.lag("ms").over(Window.partitionBy("key").orderBy("ms"))
    marked = rows.withColumn("before_ms", before)
    return marked.filter(f.col("before_ms").isNull() | (f.col("ms") - f.col("before_ms") > INTERVAL_MS))


def _deduplicated(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicatesWithinWatermark(["key"])


def _event_sessions(rows: DataFrame) -> DataFrame:
    totals = f.count(f.lit(1)).alias("clicks"), f.sum("amount").alias("total"), f.sum("seconds").alias("seconds")
    window = f.session_window("time", _ms(GAP_MS)).alias("window")
    return rows.filter(f.col("kind") != ROBOT).groupBy("key", window).agg(*totals)


def _read_json(value: Column) -> Column:
    return f.from_json(value.cast("string"), READ)


def _read_avro(value: Column) -> Column:
    """Behind the head of five bytes; the reader's schema is an option."""
    body = f.substring(value, 6, 2**31 - 1)
    return from_avro(body, json.dumps(SCHEMA), {"avroSchema": json.dumps(READ_SCHEMA)})


DECODED = {"W10": _read_json, "W11": _read_avro}
"""How each workload of landed bytes reads its values."""
BATCH = {"W1": _sessions, "W1u": _sessions, "W2": _windows, "W3": _first_clicks} | dict.fromkeys(
    DECODED, _event_sessions
)
STREAMING = {"W1": _sessions, "W1u": _sessions, "W2": _windows, "W3": _deduplicated}
NOTES = {
    ("W3", "batch"): "compares with the record before, kept or not, in order of time",
    ("W3", "streaming"): "nothing expires inside the micro-batch, so one row a key is kept: less work",
}


def _rows(frame: DataFrame) -> DataFrame:
    return frame.select("key", "ms", f.timestamp_millis("ms").alias("time"), "value")


def _decoded_rows(frame: DataFrame, decode: Callable[[Column], Column]) -> DataFrame:
    time_and_value = f.timestamp_millis("timestamp").alias("time"), decode(f.col("value")).alias("value")
    return frame.select(f.col("key").cast("string"), *time_and_value).select("key", "time", "value.*")


def run_batch(spark: SparkSession, workload: str, source: Path, target: Path) -> None:
    """One query, from Delta to Delta."""
    frame = spark.read.format("delta").load(str(source))
    rows = _decoded_rows(frame, DECODED[workload]) if workload in DECODED else _rows(frame)
    BATCH[workload](rows).write.format("delta").save(str(target))


def run_streaming(spark: SparkSession, workload: str, source: Path, target: Path) -> None:
    """All that is there, in one micro-batch, and what the watermark then lets go."""
    wait_ms = INTERVAL_MS if workload == "W3" else GRACE_MS
    stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 1_000_000).load(str(source))
    query = (
        STREAMING[workload](_rows(stream).withWatermark("time", _ms(wait_ms)))
        .writeStream.format("delta")
        .outputMode("append")
        .option("checkpointLocation", f"{target}/_checkpoint")
        .trigger(availableNow=True)
        .start(str(target))
    )
    query.awaitTermination()


MODES = {"batch": run_batch, "streaming": run_streaming}
CONFIGURATIONS = {"batch": "batch", "streaming": "streaming, AvailableNow"}


def measure(options: Namespace) -> None:
    """Every mode ``options.runs`` times, in turn, in one session; a line each."""
    workload = WORKLOADS[options.workload]
    settings, modes = SETTINGS, MODES
    source = typed_path(options.folder, workload.topics[0])
    if workload.landed:
        jars = resolve((*PACKAGES, AVRO_PACKAGE), provided=PROVIDED_BY_SPARK)
        settings = SETTINGS | {"spark.jars": ",".join(map(str, jars))}
        source, modes = Path(warehouse_of(options.folder).landed(workload.topics[0])), {"batch": run_batch}
    started = time.perf_counter()
    spark = open_spark(f"local[{THREADS}]", extra=settings)
    start_up = time.perf_counter() - started
    targets = {mode: options.folder / f"spark_{mode}" for mode in modes}
    counters = {mode: Stopwatch() for mode in modes}
    for _ in range(options.runs):
        for mode, run in modes.items():
            shutil.rmtree(targets[mode], ignore_errors=True)
            counters[mode].time(partial(run, spark, options.workload, source, targets[mode]))
    spark.stop()
    for mode, target in targets.items():
        results = without_closing(pl.scan_parquet([f"{target}/{file.path}" for file in read_files(str(target))]))
        print_figures(
            options,
            counters[mode],
            system=f"spark {pyspark.__version__}",
            configuration=CONFIGURATIONS[mode],
            rows_out=results.select(pl.len()).collect().item(),
            checks=checks_of(results, landed=workload.landed),
            start_up_seconds=start_up,
            notes=NOTES.get((options.workload, mode), ""),
        )
        shutil.rmtree(target)


if __name__ == "__main__":
    measure(program_options(__doc__ or "", list(BATCH)))
