"""Spark itself on the same rows, typed, from Delta to Delta: batch, and Structured Streaming with AvailableNow.

``python -m kstreams_replay.benchmarks.peers.spark --workload W1 --folder DIR [--runs 3] [--records N]``

Same Spark, same ``local[2]`` as ours; four shuffle partitions, adaptive execution on. Batch has
neither lateness nor order. Streaming takes all in one micro-batch, and one without data lets go what the watermark
has passed; state is in RocksDB, the watermark 60 s behind, one for all partitions. The clock begins when the session
is open.
"""

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

from kstreams_replay.jobs.execution.spark_session import open_spark
from kstreams_replay.state.tables.data_files import read_files

from .. import THREADS
from ..measuring import Stopwatch, added_up, print_figures, program_options
from ..typed_data import typed_path
from ..workloads import GAP_MS, GRACE_MS, INTERVAL_MS, WINDOW_MS, WORKLOADS
from .relational import without_closing

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


BATCH = {"W1": _sessions, "W1u": _sessions, "W2": _windows, "W3": _first_clicks}
STREAMING = {"W1": _sessions, "W1u": _sessions, "W2": _windows, "W3": _deduplicated}
NOTES = {
    ("W3", "batch"): "compares with the record before, kept or not, in order of time",
    ("W3", "streaming"): "nothing expires inside the micro-batch, so one row a key is kept: less work",
}


def _rows(frame: DataFrame) -> DataFrame:
    return frame.select("key", "ms", f.timestamp_millis("ms").alias("time"), "value")


def run_batch(spark: SparkSession, workload: str, source: Path, target: Path) -> None:
    """One query, from Delta to Delta."""
    rows = _rows(spark.read.format("delta").load(str(source)))
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
    started = time.perf_counter()
    spark = open_spark(f"local[{THREADS}]", extra=SETTINGS)
    start_up = time.perf_counter() - started
    source = typed_path(options.folder, WORKLOADS[options.workload].topics[0])
    targets = {mode: options.folder / f"spark_{mode}" for mode in MODES}
    counters = {mode: Stopwatch() for mode in MODES}
    for _ in range(options.runs):
        for mode, run in MODES.items():
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
            checks=added_up([results]),
            start_up_seconds=start_up,
            notes=NOTES.get((options.workload, mode), ""),
        )
        shutil.rmtree(target)


if __name__ == "__main__":
    measure(program_options(__doc__ or "", list(BATCH)))
