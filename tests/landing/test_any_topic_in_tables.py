"""Any topic, in a table of a lake, lands as it was written: by copy and in place, while its owner appends and clusters.

The writers are delta-rs and PyIceberg; columns of a mapping of one's own are those of written_tables.py.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstreams_replay.jobs.tape.landed_topic import Landed
from kstreams_replay.state.tables.branch_files import landed_files
from kstreams_replay.state.tables.data_files import read_rows
from kstreams_replay.state.tables.ledger import LandingLedger
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA, Warehouse
from tests.landing.lake_tables import HEADERS, REDPANDA, land
from tests.landing.test_any_topic import (
    ANY_TIMES,
    LANDED,
    LONG_TIMES,
    PARTITIONS,
    TIMES,
    TYPES,
    Form,
    Record,
    as_landed,
    batches_of,
    draw_kinds,
    draw_none,
    forms,
    topics,
    written,
)
from tests.landing.test_lake_iceberg import Lake
from tests.landing.written_tables import Column, arrow_table
from tests.sampling import is_nightly

PLAIN = Form("table", "bytes", "bytes")
"""Rows that are records without any conversion."""


@dataclass(frozen=True)
class Topic:
    """``columns``: a row for each of ``records``; ``source``: how they are named."""

    form: Form
    records: Sequence[Record]
    columns: pa.Table
    source: dict[str, Any]


# --- layouts -------------------------------------------------------------------------------------------------------


def spark(draw: Any, in_place: bool) -> Topic:
    """Columns of Spark's Kafka source, and rows of another topic at the same offsets; times are of microseconds."""
    records = topics(draw, PLAIN, times=TIMES)
    columns = pa.table({**_kafka(draw, records), "topic": pa.array(["clicks"] * len(records), pa.string())})
    return Topic(PLAIN, records, columns.rename_columns({"timestamp_type": "timestampType"}), {})


def redpanda(draw: Any, in_place: bool) -> Topic:
    """Columns of Redpanda's Iceberg topics in the mode key_value; times are of microseconds."""
    records = topics(draw, PLAIN, times=TIMES)
    columns = _kafka(draw, records)
    value = columns.pop("value")
    of = pa.StructArray.from_arrays([columns[field.name] for field in REDPANDA], fields=list(REDPANDA))
    return Topic(PLAIN, records, pa.table({"redpanda": of, "value": value}), {})


def own(draw: Any, in_place: bool) -> Topic:
    """Columns of one's own, which may lie in another column; times are of microseconds, or of a long or text that holds
    any. In place keys and values are bytes, and coordinates are numbers.
    """
    if not in_place:
        form = forms(draw, ["table"])
        records = topics(draw, form, times=draw(ANY_TIMES))
        made = written(draw, form, records, ("partition", "offset"))
        source = {name: of for name, of in made.mapping.items() if name != "partitions"}
        return Topic(form, records, arrow_table(made.columns), source)
    kind = draw(st.sampled_from(["us", "long"]))
    records = topics(draw, PLAIN, times=TIMES if kind == "us" else LONG_TIMES)
    meta = {
        "p": Column("long", [record.partition for record in records]),
        "o": Column("long", [record.offset for record in records]),
        "t": Column(kind, [record.time_ms for record in records]),
        "kind": draw_kinds(draw, records),
        "h": Column("list", [each.headers or draw_none(draw) for each in records]),
    }
    values = {
        "key": Column("bytes", [record.key for record in records]),
        "v": Column("bytes", [record.body for record in records]),
    }
    source = {"partition": "p", "offset": "o", "timestamp": "t", "timestamp_type": "kind", "headers": "h"}
    columns = {**meta, **values}
    if draw(st.booleans()):
        columns = {"meta": Column("row", [True] * len(records), meta), **values}
        source = {name: f"meta.{of}" for name, of in source.items()}
    return Topic(PLAIN, records, arrow_table(columns), {**source, "key": "key", "value": "v"})


def _kafka(draw: Any, records: Sequence[Record]) -> dict[str, pa.Array]:
    headers = [
        [{"key": name, "value": value} for name, value in record.headers] or draw_none(draw) for record in records
    ]
    return {
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.body for record in records], pa.binary()),
        "partition": pa.array([record.partition for record in records], pa.int32()),
        "offset": pa.array([record.offset for record in records], pa.int64()),
        "timestamp": pa.array([record.time_ms * 1_000 for record in records], pa.timestamp("us", "UTC")),
        "timestamp_type": pa.array([TYPES[record.kind][0] for record in records], pa.int32()),
        "headers": pa.array(headers, HEADERS),
    }


# --- tables --------------------------------------------------------------------------------------------------------


class _Delta:
    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.path = str(folder / "bronze")
        self.source = {"delta": self.path}
        DeltaTable.create(self.path, schema)
        self.sorts_by = [name for name in ("value", "v", "key") if name in schema.names]

    def append(self, rows: pa.Table) -> None:
        write_deltalake(self.path, rows, mode="append")

    def tidy(self, way: str) -> None:
        optimize = DeltaTable(self.path).optimize
        optimize.compact() if way == "compact" else optimize.z_order(self.sorts_by[:1])
        if way == "vacuum":
            DeltaTable(self.path).vacuum(0, dry_run=False, enforce_retention_duration=False)


class _Iceberg:
    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.lake = Lake(folder / "lake", Warehouse(str(folder)))
        self.table = self.lake.catalog.create_table("shop.clicks", schema=schema)
        self.source = {"iceberg": "lake.shop.clicks", "catalog": self.lake.properties}

    def append(self, rows: pa.Table) -> None:
        self.table.append(rows)

    def tidy(self, way: str) -> None:
        """PyIceberg compacts nothing, so the rows are written again, in another order."""
        rows = self.table.scan().to_arrow()
        self.table.overwrite(rows.take(pa.array(range(rows.num_rows)[::-1], pa.int64())))


TABLES: dict[str, tuple[type[_Delta | _Iceberg], Callable[[Any, bool], Topic]]] = {
    "delta, spark": (_Delta, spark),
    "delta, own": (_Delta, own),
    "iceberg, redpanda": (_Iceberg, redpanda),
}


def check(draw: Any, table: str, in_place: bool) -> None:
    """Append rows in several commits, in any order, land what is there, and compare. In place rows lie in the order of
    their files, and a replay sorts them.
    """
    of, layout = TABLES[table]
    topic = layout(draw, in_place)
    records = topic.records
    batches = [list(dict.fromkeys(batch)) if in_place else batch for batch in batches_of(draw, records)]
    if in_place:  # where an offset that comes twice is refused
        batches[1] = [row for row in batches[1] if row not in batches[0]]
    with tempfile.TemporaryDirectory() as folder:
        made = of(Path(folder), topic.columns.schema)
        warehouse = Warehouse(folder)
        for batch in batches:
            rows = draw(st.permutations(batch))
            cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))
            for first, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
                made.append(topic.columns.take(pa.array(rows[first:end], pa.int64())))
            for way in draw(st.lists(st.sampled_from(["compact", "z-order", "vacuum"]), max_size=2)):
                made.tidy(way)
            land(warehouse, partitions=PARTITIONS, in_place=in_place, **made.source, **topic.source)
        want = as_landed(topic.form, records)
        found = sorted(_rows(warehouse), key=lambda row: row[:2]) if in_place else _rows(warehouse)
        assert [(*row[:-1], topic.form.read(row[-1])) for row in found] == want
        assert _replayed(warehouse) == [(row[0], row[1], row[2], *row[5:]) for row in found]


def _rows(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    last = LandingLedger(warehouse.landing_ledger("clicks")).last_done()
    assert last is not None
    path = warehouse.landed("clicks")
    tables = [read_rows(path, [file], LANDED_SCHEMA) for file in landed_files(warehouse, "clicks", last)]
    return [tuple(row[name] for name in LANDED) for table in tables for row in table.to_pylist()]


def _replayed(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """Partition, offset, time, key and value, as a replay reads them."""
    topic = Landed.of(warehouse, "clicks")
    return [
        (int(partition), *(row[name] for name in ("offset", "timestamp", "key", "value")))
        for partition, end in topic.ends.items()
        for table in topic.slice(partition, 0, end).chunks(4, dictionary_keys=True)
        for row in table.to_pylist()
    ]


@pytest.mark.slow
@pytest.mark.every_run
@pytest.mark.parametrize("in_place", [False, True], ids=["copy", "in place"])
@pytest.mark.parametrize("table", TABLES)
@settings(max_examples=30 if is_nightly() else 3, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_lands_from_a_table_is_what_was_written(table, in_place, data):
    check(data.draw, table, in_place)
