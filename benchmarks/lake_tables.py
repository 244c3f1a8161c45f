"""How fast records of a table of a lake land by copy, on one thread: for ``benchmarks.landing --lake``.

Owns the tables: a bronze Delta table as Spark's Kafka source appends it (a file for each partition and tenth), and the
same one clustered by key. The third is an Iceberg table in Redpanda's layout, in a catalog that is a file of SQLite.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from kstreams_replay.jobs.landing.landing import LakeSource, land_lake
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.tables.warehouse import Warehouse

from .measuring import Stopwatch

TOPIC = "clicks"
_APPENDS = 10


def from_lake(rows: Sequence[pl.DataFrame], runs: int, scratch: Path) -> dict[str, dict[str, list[float]]]:
    """Counters by table, the first run cold. ``rows``: of each partition, in the order of their offsets."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    records = sum(map(len, rows))
    bronze, clustered = scratch / "bronze", scratch / "clustered"
    for batch in _batches(rows):
        write_deltalake(str(bronze), batch, mode="append")
    shutil.copytree(bronze, clustered)
    DeltaTable(str(clustered)).optimize.z_order(["key"])
    properties = {"type": "sql", "uri": f"sqlite:///{scratch}/catalog.db", "warehouse": f"file://{scratch}"}
    _iceberg(rows, properties)
    sources = {
        "Delta, bronze": LakeSource(delta=str(bronze)),
        "Delta, after OPTIMIZE ZORDER BY (key)": LakeSource(delta=str(clustered)),
        "Iceberg, Redpanda's layout": LakeSource(iceberg="lake.kafka.clicks", catalog=properties),
    }
    found = {"reading the bronze files": _timed(lambda: _read(bronze), records, runs)}
    for name, source in sources.items():
        found[name] = _timed(lambda source=source: _land(source, scratch / "landed"), records, runs)  # type: ignore[misc]
    return found


def _timed(work: Callable[[], int], records: int, runs: int) -> dict[str, list[float]]:
    clock = Stopwatch()
    for _ in range(runs + 1):
        got = clock.time(work)
        assert got == records, f"expected {records} records, got {got}"
    return vars(clock)


def _land(source: LakeSource, folder: Path) -> int:
    try:
        return land_lake(None, Warehouse(str(folder)), TOPIC, source).records
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read(folder: Path) -> int:
    return sum(len(pq.read_table(path)) for path in folder.glob("*.parquet"))


def _batches(rows: Sequence[pl.DataFrame]) -> Iterator[pa.Table]:
    """With the columns of Spark's Kafka source."""
    for number in range(_APPENDS):
        for partition, frame in enumerate(rows):
            first, end = (len(frame) * each // _APPENDS for each in (number, number + 1))
            part, count = frame.slice(first, end - first), end - first
            yield pa.table(
                {
                    "key": part["key"].cast(pl.Binary).to_arrow().cast(pa.binary()),
                    "value": Serde.long().encode(part["value"].to_arrow()),
                    "topic": pa.repeat(TOPIC, count),
                    "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
                    "offset": pa.array(range(first, end)),
                    "timestamp": part["ms"].to_arrow().cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
                    "timestampType": pa.repeat(pa.scalar(0, pa.int32()), count),
                }
            )


def _iceberg(rows: Sequence[pl.DataFrame], properties: dict[str, Any]) -> None:
    catalog = SqlCatalog("lake", **properties)
    catalog.create_namespace("kafka")
    table = None
    for batch in _batches(rows):
        names = {"timestamp_type": "timestampType"}
        words = ["partition", "offset", "timestamp", "key", "timestamp_type"]
        parts = [batch[names.get(word, word)].combine_chunks() for word in words]
        struct = pa.StructArray.from_arrays(parts, words)
        given = pa.table({"redpanda": struct, "value": batch["value"]})
        table = table or catalog.create_table("kafka.clicks", schema=given.schema)
        table.append(given)
    catalog.engine.dispose()
