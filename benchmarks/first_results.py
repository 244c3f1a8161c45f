"""How long a newcomer waits: first rows of a test, `replay run`, the demo, and commands that only print.

``python -m kstreams_replay.benchmarks.start_up --parts first,demo``. Every figure is of a fresh process, start and end
included, in wall seconds and in CPU seconds of it and of those that it waited for (a JVM is none). Cold: an empty
kernel cache. Spark starts with the classes that `replay warm-up --spark` has kept.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]  # resolved, since the package names this folder by a link
RECORDS = 5_000
"""Of a `replay run`."""

TARGETS = {
    "driver, cold": 2.0,
    "driver, warm": 0.8,
    "demo, cold": 35.0,
    "demo, warm": 20.0,
    "run, local": 1.5,
    "run, Spark": 8.0,
    "help": 0.2,
    "show": 1.0,
}

Figures = dict[str, dict[str, float]]


def sessions() -> Any:
    """Sessions and their final results."""
    from kstreams_replay.jobs.topology import Consumed, Serde, SessionWindows, StreamsBuilder, Suppressed, fold

    builder = StreamsBuilder()
    (
        builder.stream("clicks", Consumed(Serde.string(), Serde.long()))
        .group_by_key()
        .windowed_by(SessionWindows.with_inactivity_gap("30s", grace="10s"))
        .aggregate(clicks=fold.count(), total=fold.sum())
        .suppress(Suppressed.until_window_closes(name="final"))
        .to("totals")
    )
    return builder.build()


def ten_rows() -> None:
    """The first ten rows of a test."""
    from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver

    driver = TopologyTestDriver(sessions())
    for n in range(11):
        driver.pipe_input("clicks", "ann", n, timestamp_ms=60_000 * n)
    assert len(driver.read_outputs("totals")) == 10


def run_python(arguments: list[str], **environment: str) -> str:
    """Standard output of Python with ``arguments``, in the checkout. Raises RuntimeError, with its errors, when it
    fails.
    """
    path = os.pathsep.join([str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {**os.environ, "PYTHONPATH": path, **environment}
    command = [sys.executable, *arguments]
    said = subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise RuntimeError(f"python {' '.join(arguments)}: exit code {said.returncode}\n{said.stderr[-2_000:]}")
    return said.stdout


def timed(arguments: list[str], **environment: str) -> dict[str, float]:
    """Of a Python in a process of its own."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run_python(arguments, **environment)
    ended, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": ended - began, "cpu": cpu}


def _medians(run: Callable[[int], dict[str, float]], runs: int) -> dict[str, float]:
    figures = [run(number) for number in range(runs)]
    return {name: statistics.median(each[name] for each in figures) for name in figures[0]}


def first_part(folder: Path, runs: int) -> Figures:
    """Rows of a test, `replay run`, `--help` and `show`."""
    import numpy as np
    import pyarrow as pa

    from kstreams_replay.jobs.landing.landing import land_records
    from kstreams_replay.jobs.topology import Serde
    from kstreams_replay.state.tables.warehouse import Warehouse

    rows = ["-c", "from kstreams_replay.benchmarks.first_results import ten_rows; ten_rows()"]

    def cold(number: int) -> dict[str, float]:
        return timed(rows, NUMBA_CACHE_DIR=str(folder / f"rows-{number}"))

    figures = {"driver, cold": _medians(cold, runs), "driver, warm": _medians(lambda _: timed(rows), runs)}
    warehouse = Warehouse(str(folder / "first"))
    columns = {
        "partition": np.arange(RECORDS, dtype=np.int32) % 4,
        "timestamp": 1_000 * np.arange(RECORDS),
        "key": pa.array([b"user-%d" % (n % 50) for n in range(RECORDS)]),
        "value": Serde.long().encode(pa.array(range(RECORDS))),
    }
    land_records(warehouse, "clicks", pa.table(columns), partitions=4)
    cli, of_pipeline = ["-m", "kstreams_replay.orchestration.cli.main"], ["--warehouse", warehouse.root, "--pipeline"]
    run = [*cli, "run", "kstreams_replay.benchmarks.first_results:sessions", *of_pipeline]
    timed([*cli, "warm-up", "kstreams_replay.benchmarks.first_results:sessions", "--spark"])
    for engine, options in (("local", ["--local"]), ("Spark", ["--master", "local[2]"])):
        figures[f"run, {engine}"] = _medians(
            lambda number, engine=engine, options=options: timed([*run, f"{engine}-{number}", *options]), runs
        )
    figures["help"] = _medians(lambda _: timed([*cli, "--help"]), runs)
    figures["show"] = _medians(lambda _: timed([*cli, "show", "totals", *of_pipeline, "local-0"]), runs)
    return figures


def demo_part(folder: Path, runs: int) -> Figures:
    """The demo with empty caches, and again with what that left."""
    figures: Figures = {}
    took: dict[str, list[dict[str, float]]] = {"demo, cold": [], "demo, warm": []}
    for number in range(runs):
        for kept in took.values():
            tables, cache = folder / "demo", folder / f"demo-cache-{number}"
            kept.append(timed(["-m", "examples.flights", "--folder", str(tables)], NUMBA_CACHE_DIR=str(cache)))
            shutil.rmtree(tables)
    for name, measured in took.items():
        figures[name] = {each: statistics.median(one[each] for one in measured) for each in measured[0]}
    return figures


def print_figures(figures: Figures) -> None:
    """The figures as lines."""
    print("first results, seconds (CPU), target")
    for name, each in figures.items():
        print(f"  {name:14} {each['seconds']:6.2f}  ({each['cpu']:.2f})  {TARGETS[name]}")
