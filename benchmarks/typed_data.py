"""The topics in a folder: landed for us, and the same rows typed for the peers.

Owns the layout. Rule: what is there is used again, and never mistaken for rows of another number of records.

    <folder>/warehouse/landed/<topic>            as landing writes it
    <folder>/typed/<topic>/partition=<p>/…       Parquet, and Delta: key, ms, value, offset
    <folder>/typed/<topic>.json                  made of what; written last

Nexmark's topics, and those of events, have no typed rows: their peers read the landed bytes.
"""

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa

from kstreams_replay.jobs.topology import Serde
from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.commit import commit_files
from kstreams_replay.state.tables.data_files import DataFile, read_files, read_rows
from kstreams_replay.state.tables.parquet_writer import TaskFile
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA, Warehouse

from . import click_events, landed_data
from .landed_data import LandedColumns
from .nexmark import events
from .workloads import WORKLOADS

RECORDS = 10_000_000
SLICE = 10_000
"""Records of an increment of W8."""

TYPED_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("key", pa.string()),
        ("ms", pa.int64()),
        ("value", pa.int64()),
        ("offset", pa.int64()),
    ]
)

_MAKERS: dict[str, Callable[[int], Iterable[LandedColumns]]] = {
    "clicks": landed_data.clicks,
    "clicks_uniform": lambda records: landed_data.clicks(records, uniform=True),
    "clicks_in_files": landed_data.clicks,
    "clicks_json": landed_data.clicks,
    "clicks_avro": landed_data.clicks,
    "clicks_of_few": lambda records: landed_data.clicks(records, keys=100_000, uniform=True),
    "users": landed_data.users,
    "items": landed_data.items,
}


_VALUES = {"clicks_json": click_events.json_values, "clicks_avro": click_events.avro_values}
"""Bytes of the values of topics that are no longs."""


def warehouse_of(folder: Path) -> Warehouse:
    """The warehouse with the landed topics."""
    return Warehouse(str(folder / "warehouse"))


def typed_path(folder: Path, topic: str) -> Path:
    """Of the typed rows of ``topic``."""
    return folder / "typed" / topic


def prepare(folder: Path, workload: str, records: int | None = None) -> int:
    """Make the topics of ``workload`` that are not there, of ``records`` clicks; None: as many as the folder has, or 10
    million. Returns how many records count: so many, or of a workload of landed bytes all of its topics. ConfigError
    when there are topics of another number.
    """
    (folder / "typed").mkdir(parents=True, exist_ok=True)
    sizes = {json.loads(made.read_text())["records"] for made in (folder / "typed").glob("*.json")}
    records = records or next(iter(sizes), RECORDS)
    if sizes - {records}:
        next_step = "name another folder, or remove this one"
        raise ConfigError(f"{folder}", f"topics of {records} records", f"of {sizes.pop()} records", next_step)
    for topic in WORKLOADS[workload].topics:
        made = folder / "typed" / f"{topic}.json"
        if not made.exists():
            _make(folder, topic, records)
            made.write_text(json.dumps({"records": records}))
    if not WORKLOADS[workload].landed:
        return records
    return sum(file.records for topic in WORKLOADS[workload].topics for file in landed_files(folder, topic))


def landed_files(folder: Path, topic: str) -> list[DataFile]:
    """Live files of a landed topic."""
    return list(read_files(warehouse_of(folder).landed(topic)))


def _make(folder: Path, topic: str, records: int) -> None:
    warehouse = warehouse_of(folder)
    for half_made in (warehouse.landed(topic), warehouse.landing_ledger(topic), str(typed_path(folder, topic))):
        shutil.rmtree(half_made, ignore_errors=True)
    if topic in events.COLUMNS:
        landed_data.land_tables(warehouse, topic, events.records_of(topic, records), partitions=events.PARTITIONS)
        return
    rows_a_file = SLICE // 4 if topic == "clicks_in_files" else landed_data.ROWS_A_FILE
    values_of = _VALUES.get(topic, landed_data.long_values)
    landed_data.land_rows(warehouse, topic, _MAKERS[topic](records), rows_a_file=rows_a_file, values_of=values_of)
    if topic != "clicks_in_files" and topic not in _VALUES:
        _type(warehouse.landed(topic), str(typed_path(folder, topic)))


def _type(landed: str, path: str) -> None:
    files = []
    for source in read_files(landed):
        rows = read_rows(landed, [source], LANDED_SCHEMA).combine_chunks()
        values = Serde.long().decode(rows["value"].chunk(0)).values
        file = TaskFile(path, partition=source.partition, name="typed")
        columns = [rows["key"].cast(pa.string()), rows["timestamp"], values, rows["offset"]]
        file.write(pa.table(columns, names=TYPED_SCHEMA.names[1:]))
        written = file.close()
        assert written is not None
        files.append(written)
    commit_files(path, TYPED_SCHEMA, files, app_id="typed", increment=1)
