"""Counters of the benchmarks, the line of JSON that a program prints, and the memory of a program from outside.

Rule: a program times its own work, start-up apart; who starts it watches the memory of all its processes.

The line (the last of stdout; one a configuration): ``system``, ``configuration``, ``workload``, ``records``,
``seconds`` (first run, then later ones), ``rows_out``, ``checks`` (numbers by name), and where known ``cpu_seconds``
(of all processes, run by run), ``parts`` (seconds by stage), ``start_up_seconds`` and ``notes``.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import psutil

from .typed_data import prepare
from .workloads import WORKLOADS

SAMPLE_SECONDS = 0.1


@dataclass
class Stopwatch:
    """Wall and CPU seconds of runs; the CPU time is that of this process and all its children."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    def time(self, work: Callable[[], Any]) -> Any:
        """What ``work()`` returns."""
        cpu, started = _cpu_seconds(), time.perf_counter()
        result = work()
        self.seconds.append(time.perf_counter() - started)
        self.cpu_seconds.append(_cpu_seconds() - cpu)
        return result


def _cpu_seconds() -> float:
    """So far, of this process, its living descendants and what these have waited for."""
    total = 0.0
    for process in _tree():
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def _tree(root: int | None = None) -> list[psutil.Process]:
    """A process (None: this one) and its living descendants."""
    try:
        parent = psutil.Process(root)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def program_options(words: str, workloads: list[str] | None = None) -> argparse.Namespace:
    """Arguments that every program has; makes missing topics. ``workloads``: those that it knows (None: all)."""
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", required=True, choices=workloads or list(WORKLOADS))
    parser.add_argument("--folder", required=True, type=Path, help="with the topics; they are made if missing")
    parser.add_argument("--runs", type=int, default=3, help="runs, the first of which is shown apart (default 3)")
    parser.add_argument("--records", type=int, help="clicks (default: as many as there are, or 10,000,000)")
    options = parser.parse_args()
    options.records = prepare(options.folder, options.workload, options.records)
    return options


def print_figures(options: argparse.Namespace, clock: Stopwatch, **said: Any) -> None:
    """Print the line of JSON. ``said``: ``system``, ``configuration``, ``rows_out``, ``checks``, …"""
    line = {
        "workload": options.workload,
        "records": options.records,
        "seconds": clock.seconds,
        "cpu_seconds": clock.cpu_seconds,
        **said,
    }
    print(json.dumps(line), flush=True)


NUMBERS = (("clicks", "total"), ("value", "user"), ("value", "item"), ("value",))
"""First and second number of the values that workloads write, by their names."""


def added_up(outputs: list[pl.LazyFrame]) -> dict[str, int]:
    """``checks`` of what was written: sums of the first and of the second number of all values, and how many have a
    second one.
    """
    sums = {"first": 0, "second": 0, "present": 0}
    for output in outputs:
        columns = output.collect_schema().names()
        first, *second = next(names for names in NUMBERS if set(names) <= set(columns))
        sums["first"] += int(output.select(pl.col(first).sum()).collect().item())
        if second:
            numbers = output.select(pl.col(second[0])).collect().to_series()
            sums["second"] += int(numbers.sum())
            sums["present"] += len(numbers) - numbers.null_count()
    return sums


def summed(rows: pl.LazyFrame) -> dict[str, int]:
    """``checks`` of rows of any columns: of whole numbers, and of lists of them, the sum; of texts the bytes; of each
    how many are null. Doubles have none, since their last digits depend on the order of adding.
    """
    checks: dict[str, int] = {}
    for name, dtype in rows.collect_schema().items():
        column = pl.col(name)
        if isinstance(dtype, pl.List):
            column = column.list.sum()
        elif dtype == pl.String:
            column = column.str.len_bytes()
        elif dtype.is_float():
            column = column.is_finite()
        sums = column.cast(pl.Int64).sum().alias("sum"), pl.col(name).null_count().alias("null")
        total, nulls = rows.select(*sums).collect().row(0)
        checks |= {name: int(total), f"{name}, null": int(nulls)}
    return checks


class ProgramFailed(Exception):
    """A program of the benchmark ended with an error, or said nothing; the text is the end of what it printed."""


def run_program(module: str, arguments: list[str]) -> list[dict[str, Any]]:
    """Run ``python -m module`` and return its lines of JSON, each with ``rss_bytes_max`` if it said none: the most
    that all its processes held at one time, pages that they share counted once a process. Raises ProgramFailed.
    """
    command = [sys.executable, "-m", module, *arguments]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    most = [0]
    watcher = threading.Thread(target=_watch, args=(program, most), daemon=True)
    watcher.start()
    try:
        out, err = program.communicate()
    except BaseException:  # Ctrl-C, SIGTERM: nothing of it goes on
        for process in _tree(program.pid):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        raise
    watcher.join()
    lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"')]
    if program.returncode != 0 or not lines:
        raise ProgramFailed((err.strip() or out.strip() or "it said nothing")[-600:])
    return [{"rss_bytes_max": most[0]} | line for line in lines]


def _watch(program: "subprocess.Popen[str]", most: list[int]) -> None:
    while program.poll() is None:
        held = 0
        for process in _tree(program.pid):
            with suppress(psutil.NoSuchProcess):
                held += process.memory_info().rss
        most[0] = max(most[0], held)
        time.sleep(SAMPLE_SECONDS)
