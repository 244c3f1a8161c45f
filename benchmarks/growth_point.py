"""One point of benchmarks/growth.py: a replay of a landed topic, timed, in this process and its workers.

``python -m kstreams_replay.benchmarks.growth_point --workload W1 --folder DIR [--runs 2] [--runner spark|local]
[--max-records N]``

Prints a line of JSON as benchmarks/measuring.py has it. Every run is a pipeline of its own, from nothing;
``worker_rss_bytes_max``: the most that a process which runs tasks ever held, of all runs.
"""

import argparse
import shutil
from pathlib import Path
from typing import Any

from kstreams_replay.jobs.execution.spark_runner import SparkRunner
from kstreams_replay.jobs.execution.spark_session import open_spark
from kstreams_replay.jobs.execution.task_description import Runner
from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.replay.increment_report import IncrementReport
from kstreams_replay.jobs.replay.pipeline_run import replay

from . import THREADS
from .comparison import OURS
from .measuring import Stopwatch, print_figures
from .ours import PIPELINE
from .typed_data import warehouse_of
from .workloads import WORKLOADS

RUNNERS = ("spark", "local")


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", required=True, choices=list(WORKLOADS))
    parser.add_argument("--folder", required=True, type=Path, help="with the landed topic")
    parser.add_argument("--records", required=True, type=int, help="how many records it has")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--runner", choices=RUNNERS, default="spark")
    parser.add_argument("--max-records", type=int, help="of an increment (default: all in one)")
    return parser.parse_args(arguments)


def main() -> None:
    options, clock = options_of(), Stopwatch()
    warehouse, workload = warehouse_of(options.folder), WORKLOADS[options.workload]
    cache = f"{warehouse.root}/cache"
    spark = open_spark(f"local[{THREADS}]") if options.runner == "spark" else None
    runner: Runner = LocalRunner(cache) if spark is None else SparkRunner(spark, cache)

    def once() -> list[IncrementReport]:
        for left in (warehouse.pipeline(PIPELINE).root, cache):
            shutil.rmtree(left, ignore_errors=True)
        asked: dict[str, Any] = {"pipeline": PIPELINE, "runner": runner, "max_records": options.max_records}
        return list(replay(warehouse, workload.build(), **asked))

    reports: list[IncrementReport] = []
    for _ in range(options.runs):
        reports += clock.time(once)
    if spark is not None:
        spark.stop()
    last = reports[-(len(reports) // options.runs) :]
    print_figures(
        options,
        clock,
        system=OURS,
        configuration=f"{options.runner}, at most {options.max_records or 'any number of'} records an increment",
        rows_out=sum(sum(report.outputs.values()) for report in last),
        checks={},
        increments=len(last),
        parts={name: sum(report.seconds.get(name, 0.0) for report in last) for name in last[-1].seconds},
        worker_rss_bytes_max=max(report.rss_bytes_max for report in reports),
    )


if __name__ == "__main__":
    main()
