"""How time and memory grow with records, partitions, keys and skew, by the public path: landed Delta in, ``replay``,
output and state committed.

``python -m kstreams_replay.benchmarks.growth [--workloads W1,W2,W3] [--axes records,partitions,keys,skew,chunks]
[--records 1000000,10000000,50000000] [--partitions 1,4,16,64] [--keys 10000,500000,10000000] [--skews zipf,hot-key]
[--runner spark|local] [--runs 2] [--max-records N] [--json FILE] [--folder DIR]``

Rule: on an axis one thing varies, all else is as ``--base-records``, ``--base-partitions`` and ``--base-keys`` say
(Zipf keys); on the axis of chunks, how many records an increment has at most. Every point is a process of its own, so
its memory too; its first run, which starts workers and compiles, is shown apart. A topic is made, and removed again,
before and after its points.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from . import growth_data
from .growth_data import SKEWS
from .growth_point import RUNNERS
from .landed_data import land_rows
from .measuring import ProgramFailed, run_program
from .typed_data import warehouse_of

AXES = ("records", "partitions", "keys", "skew", "chunks")
TOPIC = "clicks"
MIB = 2**20


@dataclass(frozen=True)
class Data:
    """What a topic is made of."""

    records: int
    partitions: int
    keys: int
    skew: str = "zipf"


@dataclass(frozen=True)
class Point:
    """``max_records``: of an increment, None: all in one. ``axis`` and ``value``: what varies here."""

    workload: str
    axis: str
    value: int | str
    data: Data
    max_records: int | None = None


@dataclass
class Measured:
    """``said``: the point's line of JSON; {} with a ``problem`` when there is none."""

    point: Point
    said: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None

    @property
    def seconds(self) -> float:
        """Median of the runs but the first, if there are others."""
        seconds = self.said["seconds"]
        return statistics.median(seconds[1:] or seconds)

    @property
    def microseconds(self) -> float:
        """A record."""
        return self.seconds / self.point.data.records * 1e6


def points(options: argparse.Namespace) -> list[Point]:
    """All that were asked for, those of one topic after one another."""
    base = Data(options.base_records, options.base_partitions, options.base_keys)
    values: dict[str, Iterable[Any]] = {
        "records": options.records,
        "partitions": options.partitions,
        "keys": options.keys,
        "skew": options.skews,
        "chunks": options.chunks,
    }
    chosen = []
    for workload in options.workloads:
        for axis in options.axes:
            for value in values[axis]:
                is_chunk = axis == "chunks"
                data = base if is_chunk else replace(base, **{axis: value})
                most = (value or None) if is_chunk else options.max_records
                chosen.append(Point(workload, axis, value, data, most))
    return sorted(chosen, key=lambda point: tuple(asdict(point.data).values()))


def run(point: Point, folder: Path, options: argparse.Namespace) -> Measured:
    """Measure one point over the topic in ``folder``."""
    arguments = ["--workload", point.workload, "--folder", str(folder), "--records", str(point.data.records)]
    arguments += ["--runs", str(options.runs), "--runner", options.runner]
    arguments += [] if point.max_records is None else ["--max-records", str(point.max_records)]
    try:
        (said,) = run_program("kstreams_replay.benchmarks.growth_point", arguments)
    except ProgramFailed as failure:
        return Measured(point, problem=str(failure))
    return Measured(point, said)


def measure(options: argparse.Namespace, folder: Path) -> list[Measured]:
    """All points, in the order of ``points``; a failed one is printed, and the next one follows."""
    measured: list[Measured] = []
    made: Data | None = None
    for point in points(options):
        if point.data != made:
            shutil.rmtree(folder / "warehouse", ignore_errors=True)
            land_rows(warehouse_of(folder), TOPIC, growth_data.clicks(**asdict(point.data)))
            made = point.data
        measured.append(run(point, folder, options))
        print(f"{len(measured)}: {line(measured[-1], measured[-1])}", file=sys.stderr, flush=True)
        if options.json is not None:
            _write(options.json, measured)
    shutil.rmtree(folder / "warehouse", ignore_errors=True)
    return measured


def table(measured: list[Measured]) -> str:
    """A line a point, axis by axis; times of a record are compared with the first point of the axis."""
    head = ("workload", "axis", "value", "seconds (first run)", "records/s", "time of a record to the first",
            "increments", "rows out", "a worker, MiB", "all processes, MiB")  # fmt: skip
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    for workload, axis in dict.fromkeys((each.point.workload, each.point.axis) for each in measured):
        mine = [each for each in measured if (each.point.workload, each.point.axis) == (workload, axis)]
        first = next((each for each in mine if each.said), None)
        lines += [line(each, first) for each in mine]
    return "\n".join(f"| {text} |" for text in lines)


def line(measured: Measured, first: Measured | None) -> str:
    """``first``: what it is compared with."""
    point, said = measured.point, measured.said
    value = f"{point.value:,}" if isinstance(point.value, int) else point.value
    value = "all in one" if point.axis == "chunks" and not point.value else value
    if not said or first is None:
        return " | ".join((point.workload, point.axis, value, f"failed: {measured.problem}"))
    cells = (
        f"{measured.seconds:.2f} ({said['seconds'][0]:.2f})",
        f"{point.data.records / measured.seconds:,.0f}",
        f"{measured.microseconds / first.microseconds:.2f}",
        f"{said['increments']:,}",
        f"{said['rows_out']:,}",
        f"{said['worker_rss_bytes_max'] / MIB:,.0f}",
        f"{said['rss_bytes_max'] / MIB:,.0f}",
    )
    return " | ".join((point.workload, point.axis, value, *cells))


def _write(path: Path, measured: list[Measured]) -> None:
    path.write_text(json.dumps([asdict(each) for each in measured], indent=2))


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """``--chunks``: 0 is all in one."""

    def numbers(text: str) -> list[int]:
        return [int(number) for number in text.replace("_", "").split(",") if number]

    def names(known: Iterable[str]) -> Any:
        def chosen(text: str) -> list[str]:
            names = text.split(",")
            if not set(names) <= set(known):
                raise argparse.ArgumentTypeError(f"of {', '.join(known)}")
            return names

        return chosen

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=names(("W1", "W2", "W3", "W7")), default=["W1"])
    parser.add_argument("--axes", type=names(AXES), default=list(AXES))
    parser.add_argument("--records", type=numbers, default=[1_000_000, 10_000_000, 50_000_000])
    parser.add_argument("--partitions", type=numbers, default=[1, 4, 16, 64])
    parser.add_argument("--keys", type=numbers, default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--skews", type=names(SKEWS), default=list(SKEWS))
    parser.add_argument("--chunks", type=numbers, default=[0, 1_000_000])
    parser.add_argument("--base-records", type=int, default=10_000_000)
    parser.add_argument("--base-partitions", type=int, default=4)
    parser.add_argument("--base-keys", type=int, default=500_000)
    parser.add_argument("--max-records", type=int, help="of an increment, on all axes but chunks (default: any number)")
    parser.add_argument("--runner", choices=RUNNERS, default="spark")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the figures there, after every point")
    parser.add_argument("--folder", type=Path, help="for the topics (default: a temporary one)")
    return parser.parse_args(arguments)


def main() -> None:
    options = options_of()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        print(table(measure(options, options.folder)))
        return
    with tempfile.TemporaryDirectory(prefix="growth-") as folder:
        print(table(measure(options, Path(folder))))


if __name__ == "__main__":
    main()
