"""Tables of a lake for tests of landing: records of a topic, as writers lay them in columns."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from kstreams_replay.jobs.landing.landing import LakeSource, LandingReport, LandingRules, land_lake
from kstreams_replay.state.tables.branch_files import landed_files
from kstreams_replay.state.tables.data_files import read_rows
from kstreams_replay.state.tables.ledger import LandingLedger
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA, Warehouse
from tests.landing.file_folders import NOON

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_COLUMNS = "partition", "offset", "timestamp", "key", "value"
START_MS = 1_767_258_000_000


class Row(NamedTuple):
    """A record of a topic."""

    partition: int
    offset: int
    ms: int
    key: bytes
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


def rows(first: int, end: int) -> list[Row]:
    """Records number ``first`` to ``end`` of a topic of two partitions; every fifth is a tombstone."""
    values = [None if n % 5 == 4 else b"v%d" % n for n in range(end)]
    return [
        Row(n % 2, n // 2, START_MS + 1_000 * n, b"k%d" % (n % 3), values[n], [("h", b"%d" % n)])
        for n in range(first, end)
    ]


def spark_rows(records: Iterable[Row], topic: str = "clicks") -> pa.Table:
    """Columns of Spark's Kafka source."""
    of = list(records)
    return pa.table(
        {
            "key": pa.array([row.key for row in of], pa.binary()),
            "value": pa.array([row.value for row in of], pa.binary()),
            "topic": pa.array([topic] * len(of), pa.string()),
            "partition": pa.array([row.partition for row in of], pa.int32()),
            "offset": pa.array([row.offset for row in of], pa.int64()),
            "timestamp": pa.array([row.ms * 1_000 for row in of], pa.timestamp("us", "UTC")),
            "timestampType": pa.array([0] * len(of), pa.int32()),
            "headers": pa.array([_headers(row) for row in of], HEADERS),
        }
    )


REDPANDA = pa.struct(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", HEADERS),
        ("key", pa.binary()),
        ("timestamp_type", pa.int32()),
    ]
)


def redpanda_rows(records: Iterable[Row]) -> pa.Table:
    """Columns of Redpanda's Iceberg topics in the mode key_value."""
    of = list(records)
    structs = [
        {
            "partition": row.partition, "offset": row.offset, "timestamp": row.ms * 1_000, "headers": _headers(row),
            "key": row.key, "timestamp_type": 0,
        }
        for row in of
    ]  # fmt: skip
    return pa.table(
        {"redpanda": pa.array(structs, REDPANDA), "value": pa.array([row.value for row in of], pa.binary())}
    )


def _headers(row: Row) -> list[dict[str, Any]]:
    return [{"key": name, "value": value} for name, value in row.headers]


def bronze(path: Path, *batches: Iterable[Row]) -> DeltaTable:
    """A Delta table to which each batch was appended."""
    for batch in batches:
        write_deltalake(str(path), spark_rows(batch), mode="append")
    return DeltaTable(str(path))


def land(
    warehouse: Warehouse, path: Path | None = None, *, rules: Mapping[str, Any] | None = None, **source: Any
) -> LandingReport:
    """Land ``clicks`` in this process, at ``NOON``, of the Delta table at ``path`` if one is given."""
    given = source if path is None else {"delta": str(path), **source}
    return land_lake(
        None, warehouse, "clicks", LakeSource(**given), rules=LandingRules(**(rules or {})), clock_ms=lambda: NOON
    )


def records_of(warehouse: Warehouse, topic: str = "clicks") -> list[Row]:
    """What has landed, in the order of partitions and offsets in which it lies there."""
    last = LandingLedger(warehouse.landing_ledger(topic)).last_done()
    assert last is not None
    path, found = warehouse.landed(topic), []
    for file in landed_files(warehouse, topic, last):
        for row in read_rows(path, [file], LANDED_SCHEMA).to_pylist():
            headers = [(header["key"], header["value"]) for header in row["headers"]]
            found.append(Row(*(row[name] for name in _COLUMNS), headers))
    return found


def in_order(records: Iterable[Row]) -> list[Row]:
    """By partition and offset."""
    return sorted(records, key=lambda row: row[:2])
