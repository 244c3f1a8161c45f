"""How fast files land in this process, against the quickest plain copy of the same files that one would write.

``python -m kstreams_replay.benchmarks.landing_files [--records 1000000] [--runs 3] [--only parquet,jsonl,csv]
[--json FILE]``

Ours: ``land_files`` without Spark into a new warehouse: every row checked, digests, order, ledger, Delta, read back.
The plain copy: Polars' scan of the file to one Parquet file, which promises nothing. Both in turn, in one process, so
that ratios of pairs hold on a busy machine; a first pair is left out. Rates are records a CPU second, of all threads.
The Parquet file has Kafka's coordinates and headers, the others have key, time and a number.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from kstreams_replay.jobs.landing.file_source import FileSource
from kstreams_replay.jobs.landing.landing import land_files
from kstreams_replay.state.tables.warehouse import Warehouse

from .measuring import Stopwatch

PARTITIONS, KEYS = 4, 50_000
MAPPINGS: dict[str, dict[str, Any]] = {
    "parquet": {
        "timestamp": "timestamp", "key": "key", "value": "value", "partition": "partition", "offset": "offset",
        "headers": "headers", "timestamp_type": "timestampType", "partitions": PARTITIONS,
    },
    "jsonl": {"timestamp": "ms", "key": "key"},
    "csv": {"timestamp": "ms", "key": "key", "types": "key string, ms long, value long"},
}  # fmt: skip
SCANS: dict[str, Callable[[Path], pl.LazyFrame]] = {
    "parquet": pl.scan_parquet,
    "jsonl": pl.scan_ndjson,
    "csv": pl.scan_csv,
}


def write(kind: str, records: int, path: Path) -> None:
    """A file of ``records``: of Parquet in the order of offsets, partitions in turn."""
    dice, number = np.random.default_rng(1), np.arange(records)
    keys = pl.Series(dice.integers(0, KEYS, records)).cast(pl.String)
    rows = pl.DataFrame({"key": "user-" + keys, "ms": 1_767_258_000_000 + number, "value": number * 7919 % 100_003})
    if kind == "jsonl":
        rows.write_ndjson(path)
    elif kind == "csv":
        rows.write_csv(path)
    else:
        text = pl.concat_str(pl.lit('{"page":"home-'), "value", pl.lit('","ms":'), "ms", pl.lit("}"))
        header = pl.struct(pl.lit("trace").alias("key"), pl.lit(b"abc").alias("value"))
        rows.select(
            pl.col("key").cast(pl.Binary),
            text.cast(pl.Binary).alias("value"),
            pl.Series("partition", number % PARTITIONS, pl.Int32),
            pl.Series("offset", number // PARTITIONS),
            pl.col("ms").cast(pl.Datetime("ms", "UTC")).alias("timestamp"),
            pl.lit(0, pl.Int32).alias("timestampType"),
            pl.concat_list(header).alias("headers"),
        ).write_parquet(path)


def measured(kind: str, records: int, runs: int, scratch: Path) -> dict[str, Any]:
    """Counters of ours and of the plain copy, without the first pair."""
    ours, plain = Stopwatch(), Stopwatch()
    folder, warehouse = scratch / kind, scratch / "warehouse"
    folder.mkdir()
    write(kind, records, folder / f"a.{kind}")
    source = FileSource(str(folder), kind, **MAPPINGS[kind])
    for _ in range(runs + 1):
        landed = ours.time(lambda: land_files(None, Warehouse(str(warehouse)), "t", source)).records
        assert landed == records, f"expected {records} records, got {landed}"
        shutil.rmtree(warehouse)
        plain.time(lambda: SCANS[kind](folder / f"a.{kind}").sink_parquet(scratch / "copy.parquet"))
    shutil.rmtree(folder)
    sides = {"ours": ours, "plain": plain}
    return {name: {"seconds": of.seconds[1:], "cpu_seconds": of.cpu_seconds[1:]} for name, of in sides.items()}


def table_text(figures: dict[str, dict[str, Any]], records: int) -> str:
    """The figures as a Markdown table."""
    lines = [
        "| file | ours, records a CPU second | plain copy | ratio, pair by pair | ratio by the clock |",
        "|---|---|---|---|---|",
    ]
    for kind, sides in figures.items():
        rates = [records / statistics.median(sides[name]["cpu_seconds"]) for name in ("ours", "plain")]
        ratios = []
        for unit in ("cpu_seconds", "seconds"):
            pairs = [plain / our for our, plain in zip(sides["ours"][unit], sides["plain"][unit], strict=True)]
            ratios.append(f"{statistics.median(pairs):.2f} ({min(pairs):.2f} to {max(pairs):.2f})")
        lines.append(f"| {kind} | {rates[0]:,.0f} | {rates[1]:,.0f} | {ratios[0]} | {ratios[1]} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000, help="of each file")
    parser.add_argument("--runs", type=int, default=3, help="pairs after the first")
    parser.add_argument("--only", default=",".join(MAPPINGS), help="formats, with commas between them")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="landing-files-"))
    try:
        figures = {kind: measured(kind, given.records, given.runs, scratch) for kind in given.only.split(",")}
    finally:
        shutil.rmtree(scratch)
    print(table_text(figures, given.records))
    print(json.dumps(figures))
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
