"""What the rows of a table have to have, so that a topic may read them where they lie: else nothing is registered."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from kstreams_replay.jobs.landing.lake import registering
from kstreams_replay.jobs.landing.landing_rules import DAY_MS
from kstreams_replay.state.errors import LandingError
from kstreams_replay.state.tables.files_in_place import files_in_place
from kstreams_replay.state.tables.ledger import LandingLedger
from tests.landing.file_folders import NOON, dies
from tests.landing.lake_tables import START_MS, Row, bronze, in_order, land, records_of, rows, spark_rows


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "bronze"


def with_column(name: str, values: pa.Array) -> pa.Table:
    """Six rows of Spark's Kafka source, of two partitions, with another column ``name``."""
    table = spark_rows(rows(0, 6))
    return table.set_column(table.schema.get_field_index(name), name, values)


@pytest.mark.parametrize(
    ("name", "values"),
    [("key", pa.array(["a", "b"] * 3)), ("timestampType", pa.array([1] * 6, pa.int32()))],
)
def test_a_column_that_only_the_tables_log_has_is_refused(warehouse, lake, name, values):
    write_deltalake(str(lake), with_column(name, values), partition_by=[name])

    with pytest.raises(LandingError, match=r"\.parquet without it, which only the table's log has; .* by copy"):
        land(warehouse, lake, in_place=True)
    assert warehouse.topics() == []
    assert land(warehouse, lake).records == 6


@pytest.mark.parametrize(
    ("name", "values"),
    [("key", pa.array([None] * 6, pa.string())), ("timestampType", pa.array([0] * 6, pa.int32()))],
)
def test_a_column_of_the_log_that_changes_no_record_is_left_out(warehouse, lake, name, values):
    write_deltalake(str(lake), with_column(name, values), partition_by=[name])

    land(warehouse, lake, in_place=True)

    expected = [row._replace(key=None) if name == "key" else row for row in in_order(rows(0, 6))]
    assert records_of(warehouse) == expected


def test_a_column_that_the_files_of_a_partition_have_is_read_there(warehouse, tmp_path):
    """Files of Iceberg have the columns by which their table is partitioned."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    table = with_column("key", pa.array([row.key.decode() for row in rows(0, 6)]))
    catalog = SqlCatalog("lake", **properties)
    try:
        catalog.create_namespace("shop")
        created = catalog.create_table("shop.clicks", schema=table.schema)
        with created.update_spec() as spec:
            spec.add_identity("key")
        created.append(table)

        land(warehouse, in_place=True, iceberg="lake.shop.clicks", catalog=properties)
    finally:
        catalog.engine.dispose()

    assert records_of(warehouse) == in_order(rows(0, 6))


@pytest.mark.parametrize(
    ("name", "numbers", "words"),
    [
        ("partition", [-1] * 6, r"got offset 0 of partition -1 \(6 in all\)"),
        ("partition", [0, 1, 0, 1, 0, -1], r"got offset 2 of partition -1 \(1 in all\)"),
        ("offset", [-1, -1, 0, 0, 1, 1], r"got offset -1 of partition 0 \(2 in all\)"),
    ],
)
def test_a_number_below_zero_is_refused_with_its_file(warehouse, lake, name, numbers, words):
    """Kafka gives none, so the column is another one, or says that the row has none."""
    kind = spark_rows([]).schema.field(name).type
    write_deltalake(str(lake), with_column(name, pa.array(numbers, kind)))

    with pytest.raises(LandingError, match=rf"\.parquet: expected partitions and offsets of 0 or more, {words}"):
        land(warehouse, lake, in_place=True)
    assert warehouse.topics() == []


def test_an_offset_below_zero_is_refused_in_a_file_of_one_partition(warehouse, lake):
    table = with_column("partition", pa.array([0] * 6, pa.int32()))
    write_deltalake(str(lake), table.set_column(4, "offset", pa.array(range(-1, 5), pa.int64())))

    with pytest.raises(LandingError, match=r"got offset -1 of partition 0 \(1 in all\)"):
        land(warehouse, lake, in_place=True)
    assert warehouse.topics() == []


LATE_US = 9_100_000_000_000_000_000
"""In the year 290337."""


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("timestamp", pa.array([None, 1, 2, 3, 4, 5], pa.timestamp("us", "UTC")), "a time in every row"),
        ("timestamp", pa.array([LATE_US, 1, 2, 3, 4, 5], pa.timestamp("us", "UTC")), "times up to 9007199254740991 ms"),
        ("timestampType", pa.array([7, 1, -1, 0, 1, None], pa.int32()), "timestamp types -1, 0 or 1, got -1 to 7"),
        ("timestampType", pa.array(["CreateTime", "other"] * 3), "a timestamp type .*, got 'other'"),
    ],
)
def test_a_row_that_no_replay_could_read_is_refused_before_anything_is_written(
    warehouse, lake, name, values, words, partitions
):
    """Once it were registered, no landing could take it back: the plan and the commit would be there."""
    table = with_column(name, values)
    if partitions == 1:
        table = table.set_column(3, "partition", pa.array([0] * 6, pa.int32()))
        table = table.set_column(4, "offset", pa.array(range(6), pa.int64()))
    write_deltalake(str(lake), table)

    with pytest.raises(LandingError, match=rf"in place, \S+\.parquet: expected {words}.* by copy"):
        land(warehouse, lake, in_place=True)
    assert warehouse.topics() == []
    assert land(warehouse, lake, rules={"max_bad_share": 0.5}).dead_letters >= 1


def test_after_a_wrong_unit_of_the_times_the_topic_lands_by_the_right_one(warehouse, lake):
    records = [row for row in rows(0, 6) if row.partition == 0]
    nanoseconds = pa.array([row.ms * 1_000_000 for row in records], pa.int64())
    write_deltalake(str(lake), spark_rows(records).set_column(5, "timestamp", nanoseconds))

    with pytest.raises(LandingError, match="times up to"):
        land(warehouse, lake, in_place=True)
    land(warehouse, lake, in_place=True, timestamp_unit="ns")

    assert records_of(warehouse) == in_order(records)


def test_a_record_beyond_max_future_is_refused_since_there_is_no_dead_letter(warehouse, lake):
    day = {"max_future": "1d"}
    bronze(lake, rows(0, 6))
    assert land(warehouse, lake, in_place=True, rules=day).records == 6
    bronze(lake, [Row(0, 3, NOON, b"k", b"v"), Row(0, 4, NOON + 2 * DAY_MS, b"k", b"v")])

    with pytest.raises(
        LandingError, match=r"offset 4 of partition 0 \(1 in all\); .* by copy .*, or without --max-future"
    ):
        land(warehouse, lake, in_place=True, rules=day)
    assert land(warehouse, lake, in_place=True).records == 2
    bronze(lake, [Row(0, 5, NOON, b"k", b"v")])
    DeltaTable(str(lake)).optimize.compact()
    assert land(warehouse, lake, in_place=True, rules=day).records == 1


@pytest.mark.parametrize("in_place", [False, True])
def test_times_in_a_wrong_unit_are_warned_of_in_files_of_several_partitions(warehouse, lake, in_place):
    bronze(lake, [row._replace(ms=row.ms // 1_000) for row in rows(0, 6)])

    [warning] = land(warehouse, lake, in_place=in_place).warnings

    assert "6 of 6 records (100.0%) have times that can hardly be meant" in warning


def test_records_that_have_landed_are_warned_of_once(warehouse, lake):
    """A compaction puts them into a file with new ones."""
    bronze(lake, [Row(0, offset, 1_767_258, b"k", b"v") for offset in range(6)])
    assert "6 of 6 records" in land(warehouse, lake, in_place=True).warnings[0]
    bronze(lake, [Row(0, 6, START_MS, b"k", b"v"), Row(0, 7, 1_767_258, b"k", b"v")])
    DeltaTable(str(lake)).optimize.compact()

    [warning] = land(warehouse, lake, in_place=True).warnings

    assert "1 of 2 records (50.0%)" in warning
    assert "the first at offset 7 of partition 0" in warning
    DeltaTable(str(lake)).optimize.z_order(["key"])
    assert land(warehouse, lake, in_place=True).warnings == ()


def test_times_of_96_bits_are_warned_of(warehouse, lake):
    """Footers have no bounds of them."""
    table = spark_rows(Row(0, offset, 1_767_258, b"k", b"v") for offset in range(6))
    write_int96(lake, table)

    [warning] = land(warehouse, lake, in_place=True).warnings

    assert "6 of 6 records" in warning


@pytest.mark.parametrize(("nulls", "read"), [("0", 0), ("1", 1), ("null", 1)])
def test_times_of_96_bits_are_read_only_where_the_tables_log_does_not_say_them(
    warehouse, lake, nulls, read, monkeypatch
):
    """Else a thousand files of Spark would cost what their rows cost."""
    write_int96(lake, spark_rows(Row(0, offset, 1_767_258_000_000 + offset, b"k", b"v") for offset in range(6)))
    [log] = (lake / "_delta_log").glob("*.json")
    log.write_text(re.sub(r'(nullCount.*?\\"timestamp\\":)0', rf"\g<1>{nulls}", log.read_text()))
    times_read, with_times = [], registering._with_times
    monkeypatch.setattr(registering, "_with_times", lambda *one: times_read.append(one) or with_times(*one))

    assert land(warehouse, lake, in_place=True).records == 6

    assert len(times_read) == read
    last = LandingLedger(warehouse.landing_ledger("clicks")).last_done()
    [file] = files_in_place(warehouse, "clicks", last)
    assert file.bounds["timestamp"] == (1_767_258_000_000, 1_767_258_000_005)


def write_int96(lake: Path, table: pa.Table) -> None:
    """A Delta table of one file, with times as Spark writes them."""
    write_deltalake(str(lake), table)
    [file], [log] = lake.glob("*.parquet"), (lake / "_delta_log").glob("*.json")
    before = file.stat().st_size
    pq.write_table(table, file, use_deprecated_int96_timestamps=True)
    log.write_text(log.read_text().replace(f'"size":{before}', f'"size":{file.stat().st_size}'))


def test_a_landing_is_finished_though_the_files_that_it_would_look_at_are_gone(warehouse, lake, monkeypatch):
    """Their times can hardly be meant, so it opens them after the commit."""
    table = bronze(lake, [Row(0, offset, 1_767_258, b"k", b"v", []) for offset in range(6)])
    with dies(monkeypatch, in_="between_commit_and_ledger"):
        land(warehouse, lake, in_place=True)
    table.optimize.z_order(["key"])
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)

    assert land(warehouse, lake, in_place=True).records == 6
    assert [row.offset for row in in_order(records_of(warehouse))] == [*range(6)]


def test_a_copy_of_a_topic_that_has_not_landed_is_refused(warehouse, lake):
    bronze(lake, rows(0, 6))

    with pytest.raises(LandingError, match="topic clicks, copy: expected records that lie in place, got no landing"):
        land(warehouse, lake, rules={"copy": True})
    assert warehouse.topics() == []
