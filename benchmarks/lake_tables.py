"""How fast records of a table of a lake land by copy and in place, and what replays of both cost: for
``benchmarks.landing --lake``, on one thread.

Owns the tables: a bronze Delta table as Spark's Kafka source appends it (a file for each partition and tenth), and the
same one clustered by key. The third is an Iceberg table in Redpanda's layout, in a catalog that is a file of SQLite. A
fourth has 10^8 rows in 1,000 files, to be registered.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.transaction import AddAction
from pyiceberg.catalog.sql import SqlCatalog

from kstreams_replay.jobs.execution.task_run import LocalRunner
from kstreams_replay.jobs.landing.landing import LakeSource, land_lake
from kstreams_replay.jobs.replay.pipeline_run import replay
from kstreams_replay.state.serdes import Serde
from kstreams_replay.state.tables.warehouse import Warehouse

from .measuring import Stopwatch
from .workloads import WORKLOADS

PIPELINE = "bench"
TOPIC = "clicks"
_APPENDS = 10
_FILES, _FILE_ROWS = 1_000, 100_000
_YEAR_2026_US = 1_767_225_600_000_000


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
        BRONZE: LakeSource(delta=str(bronze)),
        CLUSTERED: LakeSource(delta=str(clustered)),
        ICEBERG: LakeSource(iceberg="lake.kafka.clicks", catalog=properties),
    }
    works = {"reading the bronze files": partial(_read, bronze)}
    works |= {name: partial(_land, source, scratch / "landed") for name, source in sources.items()}
    replays = {REPLAYED: partial(_replay, _landed(scratch / "copied", next(iter(sources.values()))))}
    for number, (name, source) in enumerate(sources.items()):
        warehouse = _landed(scratch / f"in place {number}", replace(source, in_place=True))
        replays[f"{IN_PLACE}{name}"] = partial(_replay, warehouse)
    _many_files(scratch / "many")
    many = LakeSource(delta=str(scratch / "many"), in_place=True)
    registering = {REGISTERING: partial(_land, many, scratch / "landed")}
    return (
        _timed(works, records, runs) | _timed(replays, records, runs) | _timed(registering, _FILES * _FILE_ROWS, runs)
    )


BRONZE, CLUSTERED, ICEBERG = "Delta, bronze", "Delta, after OPTIMIZE ZORDER BY (key)", "Iceberg, Redpanda's layout"
REPLAYED, IN_PLACE = "W1 over our landed topic", "W1 in place: "
REGISTERING = f"registering {_FILES:,} files of {_FILE_ROWS:,} rows in place"


def _replay(warehouse: Warehouse) -> int:
    """W1 from nothing, in this process; the records that it read."""
    shutil.rmtree(warehouse.pipeline(PIPELINE).root, ignore_errors=True)
    reports = replay(warehouse, WORKLOADS["W1"].build(), pipeline=PIPELINE, runner=LocalRunner(), idle="proceed")
    return sum(report.books.read for report in reports)


def _many_files(folder: Path) -> None:
    """A table of many files, as a stream leaves it. Rows differ in their offsets alone, so that files are of a few kB:
    what is registered is in their footers.
    """
    alike = {
        "key": b"k", "value": b"v", "partition": pa.scalar(0, pa.int32()),
        "timestamp": pa.scalar(_YEAR_2026_US, pa.timestamp("us", "UTC")),
    }  # fmt: skip
    columns = {name: pa.repeat(value, _FILE_ROWS) for name, value in alike.items()}
    offsets = np.arange(_FILE_ROWS)
    actions = []
    folder.mkdir()
    for number in range(_FILES):
        rows = pa.table(columns | {"offset": pa.array(offsets + number * _FILE_ROWS)})
        path = folder / f"{number:05d}.parquet"
        pq.write_table(rows, path, use_dictionary=[*alike], column_encoding={"offset": "DELTA_BINARY_PACKED"})
        stats = json.dumps({"numRecords": _FILE_ROWS})
        actions.append(AddAction(path.name, path.stat().st_size, {}, 0, True, stats))
    table = DeltaTable.create(str(folder), Schema.from_arrow(rows.schema))
    table.create_write_transaction(actions, mode="append", schema=table.schema())


def _timed(works: Mapping[str, Callable[[], int]], records: int, runs: int) -> dict[str, dict[str, list[float]]]:
    """Counters of each work, which take turns, so that ratios of one round hold on a noisy machine."""
    clocks = {name: Stopwatch() for name in works}
    for _ in range(runs + 1):
        for name, work in works.items():
            got = clocks[name].time(work)
            assert got == records, f"expected {records} records of {name}, got {got}"
    return {name: vars(clock) for name, clock in clocks.items()}


def _landed(folder: Path, source: LakeSource) -> Warehouse:
    warehouse = Warehouse(str(folder))
    land_lake(None, warehouse, TOPIC, source)
    return warehouse


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
