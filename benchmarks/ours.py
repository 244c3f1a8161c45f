"""This project, by the public path: landed Delta in, ``replay`` on Spark ``local[2]``, output and state committed.

``python -m kstreams_replay.benchmarks.ours --workload W1 --folder DIR [--runs 3] [--records N]``

Every run is a pipeline of its own, from nothing. The clock has planning, reading, computing, writing and committing;
opening the Spark session is listed apart, starting its Python workers and compiling kernels is in the first run.
"""

import shutil
import statistics
import time
from argparse import Namespace
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

from kstreams_replay.jobs.execution.spark_runner import SparkRunner
from kstreams_replay.jobs.execution.spark_session import open_spark
from kstreams_replay.jobs.replay.increment_report import IncrementReport
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.tables.data_files import read_files
from kstreams_replay.state.tables.warehouse import Warehouse

from . import THREADS
from .comparison import OURS
from .measuring import Stopwatch, added_up, print_figures, program_options, summed
from .typed_data import SLICE, warehouse_of
from .workloads import WORKLOADS, Workload

PIPELINE = "bench"


def replay_once(
    spark: SparkSession,
    warehouse: Warehouse,
    workload: Workload,
    *,
    max_records: int | None = None,
    increments: int | None = None,
) -> list[tuple[float, IncrementReport]]:
    """From nothing, in a new pipeline: seconds and report of each increment of at most ``max_records``, at most
    ``increments`` of them.

    ``idle="proceed"``, since the tables have no record as late as the last of the stream.
    """
    for left in (Path(warehouse.pipeline(PIPELINE).root), Path(warehouse.root) / "cache"):
        shutil.rmtree(left, ignore_errors=True)
    timed, since = [], time.perf_counter()
    for report in replay(
        warehouse,
        workload.build(),
        pipeline=PIPELINE,
        runner=SparkRunner(spark, f"{warehouse.root}/cache"),
        max_records=max_records,
        increments=increments,
        idle="proceed",
    ):
        timed.append((time.perf_counter() - since, report))
        since = time.perf_counter()
    return timed


def written_values(warehouse: Warehouse, workload: Workload) -> list[pl.LazyFrame]:
    """Values of every output, one column a field; of a changing one those of the last row of each key."""
    frames = []
    for output in workload.outputs:
        path = warehouse.pipeline(PIPELINE).output(output)
        rows = pl.scan_parquet([f"{path}/{file.path}" for file in read_files(path)])
        if workload.changing:  # a key has one partition, whose files are in order
            rows = rows.unique("key", keep="last", maintain_order=True)
        values = rows.select("value")
        is_struct = isinstance(values.collect_schema()["value"], pl.Struct)
        frames.append(values.unnest("value") if is_struct else values)
    return frames


def by_increments(reports: list[tuple[float, IncrementReport]]) -> dict[str, float]:
    """Mean seconds of an increment, and the medians of the first and the last tenth of them."""
    seconds = [taken for taken, _ in reports]
    tenth = max(1, len(seconds) // 10)
    return {
        "increments": len(seconds),
        "mean": statistics.mean(seconds),
        "first_tenth": statistics.median(seconds[:tenth]),
        "last_tenth": statistics.median(seconds[-tenth:]),
    }


def measure(options: Namespace) -> None:
    """Run ``options.runs`` times and print the line; a workload in slices runs once, after one slice that warms up."""
    workload, warehouse, clock = WORKLOADS[options.workload], warehouse_of(options.folder), Stopwatch()
    started = time.perf_counter()
    spark = open_spark(f"local[{THREADS}]", extra={"spark.sql.shuffle.partitions": "4"})
    start_up = time.perf_counter() - started
    max_records = SLICE if workload.slices else None
    if workload.increments > 1:
        max_records = options.records // workload.increments + 1  # one more for the records that close windows
    if workload.slices:
        replay_once(spark, warehouse, workload, max_records=max_records, increments=1)
    for _ in range(1 if workload.slices else options.runs):
        reports = clock.time(lambda: replay_once(spark, warehouse, workload, max_records=max_records))
    spark.stop()
    written = written_values(warehouse, workload)
    changes = sum(sum(report.outputs.values()) for _, report in reports)
    print_figures(
        options,
        clock,
        system=OURS,
        configuration=f"local[{THREADS}]",
        rows_out=written[0].select(pl.len()).collect().item() if workload.changing else changes,
        checks=summed(written[0]) if workload.landed else added_up(written),
        notes=f"{changes:,} changes" if workload.changing else "",
        parts=reports[-1][1].seconds if max_records is None else by_increments(reports),
        start_up_seconds=start_up,
        worker_rss_bytes_max=max(report.rss_bytes_max for _, report in reports),
    )


if __name__ == "__main__":
    measure(program_options(__doc__ or ""))
