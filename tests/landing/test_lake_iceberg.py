"""An Iceberg table that has a topic's records: rows by its own snapshots, in a catalog that is one file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestWriterV2
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import StringType

from kstreams_replay.jobs.landing.landing import LandingReport
from kstreams_replay.state.errors import LandingError
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.landing.lake_tables import Row, in_order, land, records_of, redpanda_rows, rows, spark_rows


def add_position_deletes(patch: pytest.MonkeyPatch, table: Table, file: DataFile, rows: list[int], path: Path) -> None:
    """As an engine that merges on reading deletes them."""
    pq.write_table(pa.table({"file_path": [file.file_path] * len(rows), "pos": pa.array(rows, pa.int64())}), path)
    add_deletes(patch, table, path, len(rows), DataFileContent.POSITION_DELETES, None)


def add_deletes(
    patch: pytest.MonkeyPatch, table: Table, path: Path, count: int, content: DataFileContent, ids: list[int] | None
) -> None:
    """Commit a file of deletes. PyIceberg writes none, so its writer of data manifests is made one of deletes."""
    deletes = DataFile.from_args(
        content=content, file_path=f"file://{path}", file_format=FileFormat.PARQUET, partition=Record(),
        record_count=count, file_size_in_bytes=path.stat().st_size, equality_ids=ids,
    )  # fmt: skip
    deletes.spec_id = 0
    with patch.context() as inner:
        inner.setattr(ManifestWriterV2, "content", lambda self: ManifestContent.DELETES)
        told = ManifestWriterV2._meta.fget
        inner.setattr(ManifestWriterV2, "_meta", property(lambda self: {**told(self), "content": "deletes"}))
        with table.transaction() as change, change.update_snapshot().fast_append() as update:
            update.append_data_file(deletes)


def folder_of(table: Table) -> Path:
    """Where it is on this machine."""
    return Path(table.location().removeprefix("file://"))


class Lake:
    """A catalog, and landings of its table ``shop.clicks``."""

    def __init__(self, folder: Path, warehouse: Warehouse) -> None:
        folder.mkdir()
        self.properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        self.catalog = SqlCatalog("lake", **self.properties)
        self.catalog.create_namespace("shop")
        self.warehouse = warehouse

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.catalog.engine.dispose()

    def create(self, table: pa.Table, **settings: Any) -> Any:
        created = self.catalog.create_table("shop.clicks", schema=table.schema, **settings)
        created.append(table)
        return created

    def land(self, rules: dict[str, Any] | None = None, **source: Any) -> LandingReport:
        name = "lake.shop.clicks"
        return land(self.warehouse, iceberg=name, catalog=self.properties, rules=rules, **source)


@pytest.fixture
def lake(tmp_path, warehouse) -> Iterator[Lake]:
    with Lake(tmp_path / "lake", warehouse) as lake:
        yield lake


def test_redpandas_table_lands_as_its_records(lake, warehouse):
    table = lake.create(redpanda_rows(rows(10, 20)))
    table.append(redpanda_rows(rows(0, 10)))

    report = lake.land()

    assert (report.records, report.partitions, report.warnings) == (20, 2, ())
    assert records_of(warehouse) == in_order(rows(0, 20))
    assert lake.land().increments == ()


def test_only_what_was_appended_lands_next_and_a_snapshot_is_its_rows(lake, warehouse):
    table = lake.create(redpanda_rows(rows(0, 10)))
    first = table.current_snapshot().snapshot_id
    table.append(redpanda_rows(rows(10, 20)))

    assert lake.land(snapshot=first).records == 10
    assert lake.land().records == 10
    assert records_of(warehouse) == in_order(rows(0, 20))


def test_columns_that_were_renamed_added_and_dropped_are_known_by_their_ids(lake, warehouse):
    before = spark_rows(rows(0, 10)).rename_columns({"value": "payload"})
    table = lake.create(before)
    with table.update_schema() as update:
        update.rename_column("payload", "value")
        update.delete_column("timestampType")
        update.add_column("ingested", StringType())
    later = spark_rows(rows(10, 20)).drop_columns(["timestampType"])
    table.append(later.append_column("ingested", pa.array(["x"] * 10)))

    lake.land()

    assert records_of(warehouse) == in_order(rows(0, 20))


def test_a_renamed_field_of_the_struct_is_known_by_its_id(lake, warehouse):
    table = lake.create(redpanda_rows(rows(0, 10)))
    with table.update_schema() as update:
        update.rename_column("redpanda.offset", "position")

    lake.land(offset="redpanda.position", partition="redpanda.partition", timestamp="redpanda.timestamp",
              key="redpanda.key", value="value", headers="redpanda.headers")  # fmt: skip

    assert records_of(warehouse) == in_order(rows(0, 10))


def test_a_delete_of_landed_rows_is_noticed(lake, warehouse):
    table = lake.create(redpanda_rows(rows(0, 10)))
    lake.land()
    table.append(redpanda_rows(rows(10, 12)))
    table.delete("redpanda.offset = 3")

    with pytest.raises(LandingError, match=r"2 landed records are gone from the table \(partition 0: offset 3; part"):
        lake.land()
    report = lake.land({"on_change": "ignore"})

    assert report.records == 2
    assert records_of(warehouse) == in_order(rows(0, 12))


def test_an_overwrite_with_other_bytes_is_noticed(lake):
    table = lake.create(redpanda_rows(rows(0, 10)))
    lake.land()
    changed = [*rows(0, 9), Row(*rows(9, 10)[0][:4], b"other", rows(9, 10)[0].headers)]
    table.overwrite(redpanda_rows(changed))

    with pytest.raises(LandingError, match=r"1 landed record is changed in the table \(partition 1: offset 4\), by "):
        lake.land()


def test_columns_that_their_writer_had_as_categories_lie_in_place_as_bytes(lake, warehouse, tmp_path):
    plain = spark_rows(rows(0, 10))
    words = pa.DictionaryArray.from_arrays
    pairs = [
        words(pa.array(range(10), pa.int8()), pa.array([pair[at] for row in rows(0, 10) for pair in row.headers], kind))
        for at, kind in ((0, pa.string()), (1, pa.binary()))
    ]
    headers = pa.ListArray.from_arrays(range(11), pa.StructArray.from_arrays(pairs, ["key", "value"]))
    categories = plain.set_column(7, "headers", headers)
    for index, name in enumerate(("key", "value", "topic")):
        texts = plain[name].cast(pa.string()).dictionary_encode()
        categories = categories.set_column(index, name, texts)
    pq.write_table(categories, tmp_path / "lake" / "categories.parquet")
    table = lake.catalog.create_table(
        "shop.clicks",
        schema=plain.schema.set(0, pa.field("key", pa.string())).set(1, pa.field("value", pa.string())),
        location=f"file://{tmp_path}/lake",
    )
    table.add_files([f"file://{tmp_path}/lake/categories.parquet"])

    lake.land(in_place=True)
    assert records_of(warehouse) == in_order(rows(0, 10))
    table.delete("offset = 2")
    report = lake.land(in_place=True, rules={"on_change": "ignore"})

    assert any("2 landed records are gone" in said for said in report.warnings)
    assert records_of(warehouse) == [row for row in in_order(rows(0, 10)) if row.offset != 2]


@pytest.mark.parametrize("in_place", [False, True])
def test_an_older_snapshot_changes_nothing_unless_the_table_was_rolled_back_to_it(lake, warehouse, in_place):
    table = lake.create(redpanda_rows(rows(0, 6)))
    table.append(redpanda_rows(rows(6, 10)))
    older, newest = (each.snapshot_id for each in table.snapshots())
    lake.land(in_place=in_place)

    report = lake.land(in_place=in_place, snapshot=older)

    assert report.increments == ()
    assert report.warnings == (f"clicks: snapshot {older} is older than snapshot {newest}, which has landed",)
    assert records_of(warehouse) == in_order(rows(0, 10))
    table.manage_snapshots().rollback_to_snapshot(older).commit()
    with pytest.raises(LandingError, match="4 landed records are gone from the table"):
        lake.land(in_place=in_place)


def test_expired_snapshots_between_change_nothing(lake, warehouse):
    table = lake.create(redpanda_rows(rows(0, 10)))
    lake.land()
    table.append(redpanda_rows(rows(10, 20)))
    old = [each.snapshot_id for each in table.snapshots()[:-1]]
    table.maintenance.expire_snapshots().by_ids(old).commit()

    report = lake.land()

    assert report.records == 10
    assert "has expired or is on no branch of it any more" in report.warnings[0]
    assert records_of(warehouse) == in_order(rows(0, 20))
    with pytest.raises(LandingError, match=f"expected snapshot {old[0]}, got 1 snapshots"):
        lake.land(snapshot=old[0])


def test_rows_of_position_deletes_do_not_land(lake, warehouse, monkeypatch):
    table = lake.create(redpanda_rows(rows(0, 10)))
    [task] = table.scan().plan_files()
    add_position_deletes(monkeypatch, table, task.file, [0, 7], folder_of(table) / "deletes.parquet")

    lake.land()

    assert records_of(warehouse) == in_order(row for n, row in enumerate(rows(0, 10)) if n not in (0, 7))


def test_position_deletes_of_landed_rows_are_noticed(lake, monkeypatch):
    table = lake.create(redpanda_rows(rows(0, 10)))
    lake.land()
    [task] = table.scan().plan_files()
    add_position_deletes(monkeypatch, table, task.file, [3], folder_of(table) / "deletes.parquet")

    with pytest.raises(LandingError, match=r"1 landed record is gone from the table \(partition 1: offset 1\)"):
        lake.land()


@pytest.mark.parametrize("is_second", [False, True])
def test_equality_deletes_are_refused_since_the_table_is_no_history(lake, tmp_path, monkeypatch, is_second):
    table = lake.create(redpanda_rows(rows(0, 10)))
    if is_second:
        lake.land()
    path = tmp_path / "lake" / "deletes.parquet"
    pq.write_table(pa.table({"value": pa.array([b"v1"])}), path)
    add_deletes(monkeypatch, table, path, 1, DataFileContent.EQUALITY_DELETES, [2])

    with pytest.raises(LandingError, match="got equality deletes, by which a writer upserts: it keeps the last value"):
        lake.land()


def test_identifier_fields_and_properties_say_that_a_table_is_no_history(lake):
    table = lake.create(redpanda_rows(rows(0, 10)))
    with table.transaction() as change:
        change.set_properties({"write.upsert.enabled": "true"})

    with pytest.raises(LandingError, match=r"the last value of a key: its property write\.upsert\.enabled is true"):
        lake.land()
    assert lake.land({"on_change": "ignore"}).records == 10


def test_no_table_and_no_catalog_are_named(lake, warehouse):
    with pytest.raises(LandingError, match=r"Iceberg table lake\.shop\.clicks: expected a table, got none"):
        lake.land()
    with pytest.raises(LandingError, match=r"expected a catalog that answers, got .*; configure the catalog nowhere"):
        land(warehouse, iceberg="nowhere.shop.clicks")
