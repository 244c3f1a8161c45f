"""What an increment costs as state and history grow.

``python -m kstreams_replay.benchmarks.increments [--keys 100000,1000000,10000000] [--rounds 9] [--in-a-row 1000]
[--json FILE]``

A pipeline counts and sums by key (a table's changelog comes out) over 4 partitions, in this process, with warm copies.
(1) State of so many keys, then increments of 10,000 records of random keys: seconds of an increment, all of it (plan,
read, compute, commit), as the median of the rounds. Sizes take turns in each round, so that noise hits all of them.
(2) Increments of 1,000 records in a row: the last hundred against the first, by their medians.
"""

import argparse
import json
import resource
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.landing import land_records
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.jobs.topology import Consumed, Serde, StreamsBuilder, Topology, fold
from kstreams_replay.state.records.murmur2 import murmur2_partitions
from kstreams_replay.state.tables.warehouse import Warehouse

PARTITIONS, RECORDS, SMALL = 4, 10_000, 1_000
BUILD_RECORDS = 1_000_000
"""Records an increment while state is built."""


def topology() -> Topology:
    builder = StreamsBuilder()
    (
        builder.stream("events", Consumed(Serde.string(), Serde.long()))
        .group_by_key()
        .aggregate(events=fold.count(), total=fold.sum())
        .to_stream()
        .to("totals")
    )
    return builder.build()


class BenchmarkPipeline:
    """One warehouse with its own warm copies; ``clock_ms`` is the time of the next record."""

    def __init__(self, folder: Path) -> None:
        self.warehouse, self.runner = Warehouse(str(folder / "warehouse")), LocalRunner(str(folder / "cache"))
        self.topology, self.clock_ms = topology(), 0

    def land(self, keys: np.ndarray) -> None:
        """One record of every key number."""
        names = pa.array(np.char.add("user-", keys.astype(str))).cast(pa.binary())
        times = self.clock_ms + np.arange(len(keys))
        self.clock_ms += len(keys)
        values = Serde.long().encode(pa.array(keys))
        columns = [murmur2_partitions(names, PARTITIONS).astype(np.int32), times, names, values]
        records = pa.table(columns, names=["partition", "timestamp", "key", "value"])
        land_records(self.warehouse, "events", records, partitions=PARTITIONS)

    def run(self, **options: Any) -> float:
        """Seconds of a replay of what was landed."""
        started = time.perf_counter()
        for _ in replay(self.warehouse, self.topology, pipeline="p", runner=self.runner, **options):
            pass
        return time.perf_counter() - started


def by_size(folder: Path, sizes: list[int], rounds: int) -> list[dict[str, Any]]:
    """Seconds of increments over state of each size."""
    pipelines = {size: BenchmarkPipeline(folder / str(size)) for size in sizes}
    for size, pipeline in pipelines.items():
        for first in range(0, size, BUILD_RECORDS):
            pipeline.land(np.arange(first, min(first + BUILD_RECORDS, size)))
            pipeline.run()
    seconds: dict[int, list[float]] = {size: [] for size in sizes}
    generator = np.random.default_rng(1)
    for number in range(rounds + 1):
        for size, pipeline in pipelines.items():
            pipeline.land(generator.integers(0, size, RECORDS))
            taken = pipeline.run()
            if number:
                seconds[size].append(taken)
    return [
        {"keys": size, "seconds": statistics.median(taken), "least": min(taken), "most": max(taken)}
        for size, taken in seconds.items()
    ]


def in_a_row(folder: Path, increments: int) -> dict[str, Any]:
    """The last tenth of so many small increments against the first."""
    pipeline, generator, seconds = BenchmarkPipeline(folder / "row"), np.random.default_rng(2), []
    for _ in range(increments + 1):
        pipeline.land(generator.integers(0, 100_000, SMALL))
        seconds.append(pipeline.run())
    part = max(1, increments // 10)
    first, last = statistics.median(seconds[1 : part + 1]), statistics.median(seconds[-part:])
    return {"increments": increments, "first": first, "last": last, "ratio": last / first}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kstreams_replay.benchmarks.increments", description=__doc__)
    parser.add_argument("--keys", default="100000,1000000,10000000", help="sizes of state, separated by commas")
    parser.add_argument("--rounds", type=int, default=9, help="increments of every size")
    parser.add_argument("--in-a-row", type=int, default=1000, help="small increments, 0: none")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="increments-"))
    try:
        sizes = by_size(folder, [int(size) for size in options.keys.split(",") if size], options.rounds)
        row = in_a_row(folder, options.in_a_row) if options.in_a_row else None
    finally:
        shutil.rmtree(folder)
    for size in sizes:
        print(f"{size['keys']:>12,} keys  {size['seconds']:.3f} s  ({size['least']:.3f} to {size['most']:.3f})")
    ratio = sizes[-1]["seconds"] / sizes[0]["seconds"] if sizes else None
    if ratio is not None:
        print(f"largest to smallest: {ratio:.2f}")
    if row is not None:
        print(f"{row['increments']} in a row: first {row['first']:.3f} s, last {row['last']:.3f} s: {row['ratio']:.2f}")
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"most memory of the process: {rss / 2**20:.0f} MiB")
    if options.json is not None:
        figures = {"sizes": sizes, "ratio": ratio, "in_a_row": row, "rss_bytes_max": rss}
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
