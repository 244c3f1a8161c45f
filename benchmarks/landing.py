"""How fast records land: from the broker, against Spark's plain copy of the same topic to Delta, and from files.

``python -m kstreams_replay.benchmarks.landing [--records 10000000] [--runs 3] [--lake] [--folder DIR] [--json FILE]``

Ours: ``land_kafka`` into a new warehouse, with plan, ledger and order, in this process. Spark's: the connector as a
batch, all that it gives (key, value, topic, partition, offset, timestamp and its type) written to a new Delta table, in
a session on ``local[2]``. In turn, so that ratios of pairs hold on a noisy machine; the first pair, which pays
for the JVM's warming up, is shown apart. The topic is ``clicks`` of the benchmark. Then the same rows from Parquet (key
and value as bytes) and from JSON lines (the whole line as value), by ``land_files`` on the same session.

``--lake``: by ``land_lake`` alone, in this process and on one thread. The tables are a bronze Delta table, the same one
clustered by key, and Iceberg in Redpanda's layout. The cost of reading the files is given too. Then W1 is replayed over
our landed topic and over each table in place; last, the files of a table of 1,000 are registered.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import SparkSession

from examples.broker import running_broker
from kstreams_replay.jobs.execution.spark_session import open_spark
from kstreams_replay.jobs.landing.file_source import FileSource
from kstreams_replay.jobs.landing.landing import KafkaSource, land_files, land_kafka
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.tables.data_files import read_files
from kstreams_replay.state.tables.warehouse import Warehouse

from .lake_tables import BRONZE, CLUSTERED, IN_PLACE, REGISTERING, REPLAYED, from_lake
from .measuring import Stopwatch
from .peers.kafka import BROKER_JAVA, load, typed_rows
from .typed_data import RECORDS, prepare

TOPIC = "clicks"


def land(servers: str, folder: Path) -> int:
    """Our landing, into a new warehouse; the records that it landed."""
    return land_kafka(None, Warehouse(str(folder)), TOPIC, KafkaSource(servers)).records


def land_from(spark: SparkSession, source: FileSource, folder: Path) -> int:
    """Our landing of files, into a new warehouse; the records that it landed."""
    return land_files(spark, Warehouse(str(folder)), TOPIC, source).records


def copy(spark: SparkSession, servers: str, folder: Path) -> int:
    """Spark's copy, into a new table; the records in it."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC}
    spark.read.format("kafka").options(**options).load().write.format("delta").save(str(folder))
    return sum(file.records for file in read_files(str(folder)))


def time(clock: Stopwatch, work: Callable[[Path], int], folder: Path, records: int) -> None:
    """Time ``work`` in a new folder, which is gone afterwards. Raises AssertionError when a record is missing."""
    landed = clock.time(lambda: work(folder))
    assert landed == records, f"expected {records} records, got {landed}"
    shutil.rmtree(folder)


def from_broker(spark: SparkSession, rows: Sequence[pl.DataFrame], runs: int, scratch: Path) -> dict[str, Any]:
    """Counters of ours and of Spark's, pair by pair, the first pair cold; which goes first alternates. CPU seconds are
    those of all, the broker too.
    """
    records, ours, theirs = sum(map(len, rows)), Stopwatch(), Stopwatch()
    (scratch / "broker").mkdir()
    with running_broker(scratch / "broker", BROKER_JAVA) as broker:
        load(broker, TOPIC, rows)
        sides = [(ours, partial(land, broker.bootstrap_servers))]
        sides += [(theirs, partial(copy, spark, broker.bootstrap_servers))]
        for number in range(runs + 1):
            for clock, work in sides if number % 2 else reversed(sides):
                time(clock, work, scratch / "landed", records)
    return {
        "records": records,
        "ours": vars(ours),
        "spark": vars(theirs),
        "ratios": _ratios(ours.seconds, theirs.seconds),
        "cpu_ratios": _ratios(ours.cpu_seconds, theirs.cpu_seconds),
    }


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Of rates, ours to theirs, pair by pair."""
    return [their / our for our, their in zip(ours, theirs, strict=True)]


def from_files(spark: SparkSession, rows: Sequence[pl.DataFrame], runs: int, scratch: Path) -> dict[str, Any]:
    """Counters by format, the first run cold."""
    counters: dict[str, Any] = {}
    for kind, value in (("parquet", "value"), ("jsonl", None)):
        folder, clock = scratch / kind, Stopwatch()
        folder.mkdir()
        for number, part in enumerate(rows):
            write_file(kind, part, folder / f"{number}.{kind}")
        source = FileSource(str(folder), kind, timestamp="ms", key="key", value=value, partitions=len(rows))
        for _ in range(runs + 1):
            time(clock, partial(land_from, spark, source), scratch / "landed", sum(map(len, rows)))
        counters[kind] = vars(clock)
        shutil.rmtree(folder)
    return counters


def write_file(kind: str, rows: pl.DataFrame, path: Path) -> None:
    """JSON lines with a number as value, or Parquet with key and value as a topic has them."""
    if kind == "jsonl":
        rows.select("key", "ms", "value").write_ndjson(path)
    else:
        values = pl.from_arrow(Serde.long().encode(rows["value"].to_arrow()))
        rows.select(pl.col("key").cast(pl.Binary), "ms", value=values).write_parquet(path)


def lake_text(records: int, figures: dict[str, dict[str, list[float]]]) -> str:
    """The figures of ``--lake`` as a Markdown table; spreads are of the later runs, ratios of the runs of one round."""
    spent = {name: clock["cpu_seconds"][1:] for name, clock in figures.items()}
    lines = [
        "| a table of a lake, one thread | records/CPU-s, median (least to most) | round by round |",
        "|---|---|---|",
    ]
    for name, seconds in spent.items():
        if name == REGISTERING:
            lines.append(f"| {name} | {_spread(figures[name]['seconds'][1:], '.2f')} s |  |")
            continue
        ratio = ""
        if name == f"{IN_PLACE}{CLUSTERED}":
            ratio = f"{_spread(_ratios(spent[IN_PLACE + BRONZE], seconds), '.2f')} times the time of bronze"
        elif name.startswith(IN_PLACE):
            ratio = f"{_spread(_ratios(seconds, spent[REPLAYED]), '.2f')} of our landed topic's speed"
        lines.append(f"| {name} | {_spread([records / each for each in seconds], ',.0f')} | {ratio} |")
    return "\n".join(lines)


def table_text(figures: dict[str, Any]) -> str:
    """The figures as a Markdown table: records a second, the median of the later runs and the first."""
    broker = figures["broker"]
    records = broker["records"]
    lines = [
        "| landing | records/s, median of later runs (least to most) | first run | CPU-s per 1M |",
        "|---|---|---|---|",
    ]
    sides = {"from the broker, ours": broker["ours"], "from the broker, Spark's copy": broker["spark"]}
    for name, clock in (sides | {f"from files, {kind}": clock for kind, clock in figures["files"].items()}).items():
        rates = [records / seconds for seconds in clock["seconds"]]
        cpu = statistics.median(clock["cpu_seconds"][1:]) / records * 1e6
        lines.append(f"| {name} | {_spread(rates[1:], ',.0f')} | {rates[0]:,.0f} | {cpu:.2f} |")
    (first, *pairs), (_, *cpu_pairs) = broker["ratios"], broker["cpu_ratios"]
    lines.append(f"| ratio, pair by pair | {_spread(pairs, '.2f')} | {first:.2f} | {_spread(cpu_pairs, '.2f')} |")
    return "\n".join(lines)


def _spread(figures: Sequence[float], form: str) -> str:
    least, middle, most = (f"{each:{form}}" for each in (min(figures), statistics.median(figures), max(figures)))
    return f"{middle} ({least} to {most})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, help=f"default: as many as there are in the folder, or {RECORDS:,}")
    parser.add_argument("--runs", type=int, default=3, help="pairs after the first")
    parser.add_argument("--lake", action="store_true", help="tables of a lake alone")
    parser.add_argument("--folder", type=Path, help="with the benchmark's topics; they are made if missing")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="landing-"))
    try:
        folder = given.folder or scratch / "topics"
        prepare(folder, "W1", given.records)
        rows = typed_rows(folder, TOPIC)
        if given.lake:
            figures = from_lake(rows, given.runs, scratch)
            print(lake_text(sum(map(len, rows)), figures))
            print(json.dumps(figures))
            return
        spark = open_spark("local[2]")
        broker = from_broker(spark, rows, given.runs, scratch)
        figures = {"broker": broker, "files": from_files(spark, rows, given.runs, scratch)}
        spark.stop()
    finally:
        shutil.rmtree(scratch)
    print(table_text(figures))
    print(json.dumps(figures))
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
