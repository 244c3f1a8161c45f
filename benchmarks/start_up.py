"""What it takes before the first result: the test driver, ``replay run``, and kernels that nobody has compiled yet.

``python -m kstreams_replay.benchmarks.start_up [--parts first,demo,driver,run,kernels] [--runs 3] [--json FILE]``

Every figure is of a fresh process. (1) driver: seconds from the first import to the first output of a small windowed
topology, kernels cached. (2) run: seconds from the start of ``replay run`` to the commit of its first increment (the
time in the ledger), in one process and on Spark, kernels cached. (3) kernels: compiling every kernel that the
conformance suite, and two pipelines with all operators through tables, come to: an empty cache, then the same again.
(4) first and demo: benchmarks/first_results.py.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import first_results

TARGETS = {"driver": 0.8, "kernels": 60.0}
SLOWEST = 12
"""So many kernels are named."""


# --- in processes of their own -----------------------------------------------------------------------------------


def drive() -> dict[str, Any]:
    """Seconds since the beginning, wall and CPU, when each step of a first test has come to its end."""
    began, cpu = time.perf_counter(), time.process_time()
    marks: dict[str, dict[str, float]] = {}

    def mark(name: str) -> None:
        marks[name] = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}

    from kstreams_replay.jobs.testing.test_driver import TopologyTestDriver

    mark("import")
    windows = topology()
    mark("topology")
    driver = TopologyTestDriver(windows)
    driver.pipe_input("clicks", "ann", 7, timestamp_ms=0)
    driver.pipe_input("clicks", "ann", 7, timestamp_ms=70_000)
    output = driver.read_output("totals")
    assert output is not None, "the first window has closed"
    assert output.value == {"clicks": 1, "total": 7}
    mark("first output")
    heavy = ("numba", "polars", "pandas", "scipy", "pyspark", "deltalake", "dagster", "great_expectations")
    return {"marks": marks, "loaded": [name for name in heavy if name in sys.modules]}


def topology() -> Any:
    """Counts and sums in windows of a minute, final results."""
    from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Suppressed, TimeWindows, fold

    builder = StreamsBuilder()
    (
        builder.stream("clicks", Consumed(Serde.string(), Serde.long()))
        .group_by_key()
        .windowed_by(TimeWindows.of_size("1m", grace="10s"))
        .aggregate(clicks=fold.count(), total=fold.sum())
        .suppress(Suppressed.until_window_closes(name="final"))
        .to("totals")
    )
    return builder.build()


def compile_all() -> dict[str, Any]:
    """CPU seconds of compilation by kernel, without those that it calls, and signatures by kernel."""
    from numba.core import event

    from tests.conformance.__main__ import reports
    from tests.conformance.scenarios import read_scenarios

    class Compilations(event.Listener):
        def __init__(self) -> None:
            self.seconds: Counter[str] = Counter()
            self.signatures: dict[str, list[str]] = {}
            self._open: list[list[float]] = []

        def on_start(self, event: Any) -> None:
            self._open.append([time.process_time(), 0.0])

        def on_end(self, event: Any) -> None:
            began, inner = self._open.pop()
            took = time.process_time() - began
            if self._open:
                self._open[-1][1] += took
            function = event.data["dispatcher"].py_func
            name = f"{function.__module__}.{function.__qualname__}"
            self.seconds[name] += took - inner
            self.signatures.setdefault(name, []).append(str(event.data["args"]))

    listener, began, cpu = Compilations(), time.perf_counter(), time.process_time()
    with event.install_listener("numba:compile", listener):
        goldens = sorted((first_results.CHECKOUT / "tests/conformance/goldens").glob("*.jsonl*"))
        failed = [each for path in goldens for each in reports(list(read_scenarios(path))) if each is not None]
        _through_tables()
    return {
        "whole": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
        "failed": len(failed),
        "compiling": sum(listener.seconds.values()),
        "seconds": dict(listener.seconds.most_common()),
        "signatures": listener.signatures,
    }


def _through_tables() -> None:
    """Two increments of the laws' pipelines: state that is written and read again has arrays of its own kinds."""
    from kstreams_replay.state.tables.warehouse import Warehouse
    from tests.laws.pipelines import PIPELINES, drive
    from tests.planted import plant

    for name in ("everything", "joined"):
        pipeline = PIPELINES[name]
        with tempfile.TemporaryDirectory() as folder:
            warehouse = Warehouse(folder)
            for topic, records in pipeline.tapes(1, 40).items():
                plant(warehouse, topic, records, partitions=pipeline.partitions)
            drive(warehouse, pipeline.topology, 2)


CHILDREN: dict[str, Callable[[], dict[str, Any]]] = {"driver": drive, "kernels": compile_all}


def child(name: str, **environment: str) -> dict[str, Any]:
    """What a child has found, in a process of its own."""
    said = first_results.run_python(["-m", "kstreams_replay.benchmarks.start_up", "--child", name], **environment)
    figures: dict[str, Any] = json.loads(said.splitlines()[-1])
    return figures


# --- parts -------------------------------------------------------------------------------------------------------


def driver_part(runs: int) -> dict[str, Any]:
    """Medians of so many runs, after one that compiles what is not cached."""
    child("driver")
    children = [child("driver") for _ in range(runs)]
    steps = {
        step: {kind: statistics.median(each["marks"][step][kind] for each in children) for kind in ("seconds", "cpu")}
        for step in children[0]["marks"]
    }
    return {"steps": steps, "loaded": children[0]["loaded"], "target": TARGETS["driver"]}


def run_part(folder: Path, runs: int) -> dict[str, Any]:
    """Medians by engine, after one run that compiles what is not cached."""
    import numpy as np
    import pyarrow as pa

    from kstreams_replay.jobs.landing.landing import land_records
    from kstreams_replay.jobs.topology import Serde
    from kstreams_replay.state.tables.warehouse import Warehouse

    warehouse, count = Warehouse(str(folder / "warehouse")), 1_000
    names = pa.array([b"user-%d" % (n % 50) for n in range(count)])
    columns = [
        np.arange(count, dtype=np.int32) % 4,
        1_000 * np.arange(count),
        names,
        Serde.long().encode(pa.array(range(count))),
    ]
    land_records(warehouse, "clicks", pa.table(columns, names=["partition", "timestamp", "key", "value"]), partitions=4)
    medians = {}
    for engine, options in (("local", ["--local"]), ("spark", ["--master", "local[2]"])):
        took = [_first_commit(warehouse, f"{engine}-{number}", options) for number in range(runs + 1)][1:]
        medians[engine] = {name: statistics.median(each[name] for each in took) for name in took[0]}
    return medians


def _first_commit(warehouse: Any, pipeline: str, options: list[str]) -> dict[str, float]:
    """Seconds until the first done row, and of that the increment itself; all until the process has ended."""
    from kstreams_replay.state.tables.ledger import Ledger

    command = ["-m", "kstreams_replay.orchestration.cli.main", "run", "kstreams_replay.benchmarks.start_up:topology"]
    began_ms, began = time.time() * 1_000, time.perf_counter()
    first_results.run_python([*command, *options, "--warehouse", warehouse.root, "--pipeline", pipeline])
    ended = time.perf_counter() - began
    done = Ledger(warehouse.pipeline(pipeline).ledger).last_done()
    assert done is not None, "an increment was committed"
    increment = sum(done.content.seconds[part] for part in ("plan", "compute", "commit"))
    return {"first commit": (done.written_at_ms - began_ms) / 1_000, "increment": increment, "process": ended}


def kernels_part(folder: Path) -> dict[str, Any]:
    """With an empty cache, then with what that left."""
    cache = folder / "numba"
    cold, warm = (child("kernels", NUMBA_CACHE_DIR=str(cache), REPLAY_KERNELS="compiled") for _ in range(2))
    assert not cold["failed"], "the goldens give what Kafka gave"
    size = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
    return {
        "kernels": len(cold["signatures"]),
        "signatures": sum(map(len, cold["signatures"].values())),
        "compiling": cold["compiling"],
        "cold": {"seconds": cold["whole"], "cpu": cold["cpu"]},
        "cached": {"seconds": warm["whole"], "cpu": warm["cpu"]},
        "compiled again": warm["seconds"],
        "cache_bytes": size,
        "seconds": cold["seconds"],
        "several signatures": {name: each for name, each in cold["signatures"].items() if len(each) > 1},
        "target": TARGETS["kernels"],
    }


# --- what is printed ---------------------------------------------------------------------------------------------


def print_figures(figures: dict[str, Any]) -> None:
    """The figures as lines."""
    if "first results" in figures:
        first_results.print_figures(figures["first results"])
    if "driver" in figures:
        print("test driver, seconds since the first import (CPU)")
        for step, each in figures["driver"]["steps"].items():
            print(f"  {step:20} {each['seconds']:6.2f}  ({each['cpu']:.2f})")
        print(f"  target: {figures['driver']['target']} s; loaded: {', '.join(figures['driver']['loaded'])}")
    for engine, each in figures.get("run", {}).items():
        print(f"replay run, {engine}: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in each.items()))
    if "kernels" in figures:
        part = figures["kernels"]
        print(f"{part['kernels']} kernels, {part['signatures']} signatures, {part['cache_bytes'] / 2**20:.0f} MiB")
        print(f"  compiling {part['compiling']:.1f} s of CPU (target {part['target']:.0f})")
        for name, words in (("cold", "with an empty cache"), ("cached", "again, with what that cached")):
            print(f"  all that runs them, {words}: {part[name]['seconds']:.1f} s, CPU {part[name]['cpu']:.1f}")
        print(f"  compiled although cached: {len(part['compiled again'])}")
        for name, seconds in list(part["seconds"].items())[:SLOWEST]:
            print(f"  {name:60} {seconds:6.2f} s, {len(part['several signatures'].get(name, [1]))} signatures")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kstreams_replay.benchmarks.start_up", description=__doc__)
    parser.add_argument("--parts", default="first,demo,driver,run,kernels", help="separated by commas")
    parser.add_argument("--runs", type=int, default=3, help="processes of every kind; medians count")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        print(json.dumps(CHILDREN[options.child]()))
        return
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as wherever modules are compiled once, not in every process
    parts = options.parts.split(",")
    folder, figures = Path(tempfile.mkdtemp(prefix="start-up-")), {}
    try:
        first = first_results.first_part(folder, options.runs) if "first" in parts else {}
        first |= first_results.demo_part(folder, options.runs) if "demo" in parts else {}
        if first:
            figures["first results"] = first
        if "driver" in parts:
            figures["driver"] = driver_part(options.runs)
        if "run" in parts:
            figures["run"] = run_part(folder, options.runs)
        if "kernels" in parts:
            figures["kernels"] = kernels_part(folder)
    finally:
        shutil.rmtree(folder)
    print_figures(figures)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
