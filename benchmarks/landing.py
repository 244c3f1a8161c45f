"""How fast records land: from the broker, against Spark's plain copy of the same topic to Delta, and from files.

``python -m benchmarks.landing [--records 10000000] [--runs 3] [--folder DIR] [--json FILE]``

Ours: ``land_kafka`` into a new warehouse, with plan, ledger, order and reading back. Spark's: the connector as a batch,
all that it gives (key, value, topic, partition, offset, timestamp and its type) written to a new Delta table. Both in
one Spark session on ``local[2]``, in turn, so that ratios of pairs hold on a noisy machine; the first pair, which pays
for the JVM's warming up, is shown apart. The topic is ``clicks`` of the benchmark. Then the same rows from Parquet (key
and value as bytes) and from JSON lines (the whole line as value), by ``land_files`` on the same session.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import SparkSession

from benchmarks.peers.kafka import BROKER_JAVA, load, typed_rows
from benchmarks.typed_data import RECORDS, prepare
from jobs.file_source import FileSource
from jobs.landing import KafkaSource, land_files, land_kafka
from jobs.spark import open_spark
from state.files import read_files
from state.serdes import Serde
from state.tables import Warehouse
from tests.kafka.broker import running_broker

TOPIC = "clicks"


def land(spark: SparkSession, servers: str, folder: Path) -> int:
    """Our landing, into a new warehouse; the records that it landed."""
    return land_kafka(spark, Warehouse(str(folder)), TOPIC, KafkaSource(servers)).records


def copy(spark: SparkSession, servers: str, folder: Path) -> int:
    """Spark's copy, into a new table; the records in it."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC}
    spark.read.format("kafka").options(**options).load().write.format("delta").save(str(folder))
    return sum(file.records for file in read_files(str(folder)))


def timed(work: Callable[[Path], int], folder: Path, records: int) -> float:
    """Seconds of ``work`` in a new folder, which is gone afterwards. Raises AssertionError when a record is missing."""
    started = time.perf_counter()
    landed = work(folder)
    seconds = time.perf_counter() - started
    assert landed == records, f"expected {records} records, got {landed}"
    shutil.rmtree(folder)
    return seconds


def from_broker(spark: SparkSession, rows: Sequence[pl.DataFrame], runs: int, scratch: Path) -> dict[str, Any]:
    """Seconds of ours and of Spark's, pair by pair, the first pair cold; which goes first alternates."""
    records, ours, theirs = sum(map(len, rows)), [], []
    (scratch / "broker").mkdir()
    with running_broker(scratch / "broker", BROKER_JAVA) as broker:
        load(broker, TOPIC, rows)
        sides = [(ours, land), (theirs, copy)]
        for number in range(runs + 1):
            for seconds, work in sides if number % 2 else reversed(sides):
                seconds.append(
                    timed(
                        lambda folder, work=work: work(spark, broker.bootstrap_servers, folder), scratch / "t", records
                    )
                )
    return {"records": records, "ours_seconds": ours, "spark_seconds": theirs, **_ratios(ours, theirs)}


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Of rates, ours to theirs: each pair, the first apart."""
    first, *pairs = [their / our for our, their in zip(ours, theirs, strict=True)]
    return {"first_ratio": first, "ratios": pairs, "ratio": statistics.median(pairs)}


def from_files(spark: SparkSession, rows: Sequence[pl.DataFrame], runs: int, scratch: Path) -> dict[str, list[float]]:
    """Seconds of each run by format, the first one apart."""
    seconds: dict[str, list[float]] = {}
    for kind, value in (("parquet", "value"), ("jsonl", None)):
        folder = scratch / kind
        folder.mkdir()
        for number, part in enumerate(rows):
            if kind == "jsonl":
                part.select("key", "ms", "value").write_ndjson(folder / f"{number}.jsonl")
            else:
                values = pl.from_arrow(Serde.long().encode(part["value"].to_arrow()))
                part.select(pl.col("key").cast(pl.Binary), "ms", value=values).write_parquet(
                    folder / f"{number}.parquet"
                )
        source = FileSource(str(folder), kind, timestamp="ms", key="key", value=value, partitions=len(rows))
        seconds[kind] = [
            timed(
                lambda at, source=source: land_files(spark, Warehouse(str(at)), TOPIC, source).records,
                scratch / "t",
                sum(map(len, rows)),
            )
            for _ in range(runs + 1)
        ]
        shutil.rmtree(folder)
    return seconds


def table_text(found: dict[str, Any]) -> str:
    """The figures as a Markdown table: records a second, the median of the later runs and the first."""
    broker, records = found["broker"], found["broker"]["records"]
    lines = ["| landing | records/s, median of later runs (least to most) | first run |", "|---|---|---|"]
    sides = {"from the broker, ours": broker["ours_seconds"], "from the broker, Spark's copy": broker["spark_seconds"]}
    for name, (first, *later) in (
        sides | {f"from files, {kind}": all_ for kind, all_ in found["files"].items()}
    ).items():
        rates = [records / seconds for seconds in later]
        spread = f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"
        lines.append(f"| {name} | {spread} | {records / first:,.0f} |")
    pairs = f"{min(broker['ratios']):.2f} to {max(broker['ratios']):.2f}"
    lines.append(f"| ratio, pair by pair | **{broker['ratio']:.2f}** ({pairs}) | {broker['first_ratio']:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, help=f"default: as many as there are in the folder, or {RECORDS:,}")
    parser.add_argument("--runs", type=int, default=3, help="pairs after the first")
    parser.add_argument("--folder", type=Path, help="with the benchmark's topics; they are made if missing")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="landing-"))
    try:
        folder = given.folder or scratch / "topics"
        prepare(folder, "W1", given.records)
        rows = typed_rows(folder, TOPIC)
        spark = open_spark("local[2]")
        broker = from_broker(spark, rows, given.runs, scratch)
        found = {"broker": broker, "files": from_files(spark, rows, given.runs, scratch)}
        spark.stop()
    finally:
        shutil.rmtree(scratch)
    print(table_text(found))
    print(json.dumps(found))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
