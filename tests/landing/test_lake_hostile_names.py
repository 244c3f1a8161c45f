"""Names of files that lead out of a lake's table: refused before a file is opened, by copy and in place.

Rule: whoever may write a table's log has the rows of that table landed, and no other file of the machine.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from kstreams_replay.jobs.landing.lake.kept_paths import name_and_root
from kstreams_replay.jobs.landing.lake.lake_table import LakeChanges, LakeFile, LakeTable
from kstreams_replay.jobs.landing.lake.table_columns import TableColumns
from kstreams_replay.state.errors import LandingError, StorageError
from tests.landing.lake_tables import bronze, in_order, land, records_of, redpanda_rows, rows
from tests.landing.test_lake_iceberg import Lake, add_position_deletes, folder_of

BY_COPY_AND_IN_PLACE = pytest.mark.parametrize("in_place", [False, True])

LEADS_OUT = [
    "../x", "a/../../x", "a/..", "./x", "", "a//b", "a\0b", "a%00b", "%2e%2e/x", "%2E%2E/x", "%252e%252e/x", "..%2fx",
    "..\\x", "/etc/x", "file:///etc/x", "file:/etc/x", "file://host/etc/x", "s3://bucket/x", "/lake/tables/x",
    "/lake/table/../x", "file:///lake/table/%2e%2e/x", "/lake/table", "\ud800",
]  # fmt: skip


def table_with(name: str, root: str | None = None, other_roots: tuple[str, ...] = ()) -> LakeTable:
    return LakeTable(
        format="Delta", place="/lake/table", root="/lake/table", id="1", version=0, columns=TableColumns(()),
        files=(LakeFile(name, 1, root=root),), since=lambda before, files: LakeChanges(), upserts=lambda: None,
        is_before=lambda later: False, other_roots=other_roots,
    )  # fmt: skip


@pytest.mark.parametrize("number", range(len(LEADS_OUT)))
def test_there_is_no_table_with_a_file_elsewhere(number):
    name, root = name_and_root(LEADS_OUT[number], ["/lake/table"])

    with pytest.raises(LandingError, match=r"^Delta table /lake/table: expected files below /lake/table, got "):
        table_with(name, root)


@pytest.mark.parametrize(
    ("path", "roots", "expected"),
    [
        ("data/x.parquet", ["/t"], ("data/x.parquet", None)),
        ("day=1%2F2/x", ["/t"], ("day=1%2F2/x", None)),
        ("/t/data/x", ["file:///t/"], ("data/x", None)),
        ("file:/t/data/x", ["/t"], ("data/x", None)),
        ("file:///t/data/x", ["/t"], ("data/x", None)),
        ("s3a://b/t/x", ["s3://b/t"], ("x", None)),
        ("s3://b/data/x", ["s3://b/t", "s3://b/data"], ("s3://b/data/x", "s3://b/data")),
        ("file:///d/x", ["/t", "/d"], ("/d/x", "/d")),
    ],
)
def test_a_path_below_a_folder_of_the_table_has_a_name_there(path, roots, expected):
    assert name_and_root(path, roots) == expected


def test_a_file_below_another_folder_of_the_table_is_refused_where_it_leads_out_of_that():
    table_with("/data/x", "/data", ("/data",))

    with pytest.raises(LandingError, match=r"expected files below /lake/table or /data, got '/data/\.\./x' in its log"):
        table_with("/data/../x", "/data", ("/data",))


# --- Delta ---------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A Delta table of one file, which is also beside the table, as ``secret.parquet``."""
    bronze(tmp_path / "bronze", rows(0, 10))
    shutil.copy(file_of(tmp_path / "bronze"), tmp_path / "secret.parquet")
    return tmp_path / "bronze"


def file_of(table: Path) -> Path:
    [file] = table.glob("*.parquet")
    return file


def rename(table: Path, name: str) -> None:
    """In the log alone."""
    log = table / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = name
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


@BY_COPY_AND_IN_PLACE
@pytest.mark.parametrize(
    "name",
    ["../{}", "a/../../{}", "%2e%2e/{}", "%252e%252e/{}", "{folder}/{}", "file://{folder}/{}", "s3://bucket/{}"],
)
def test_a_delta_log_that_names_a_file_elsewhere_lands_nothing(warehouse, table, tmp_path, name, in_place):
    rename(table, name.format("secret.parquet", folder=tmp_path))

    with pytest.raises(LandingError) as error:
        land(warehouse, table, in_place=in_place)

    assert (error.value.place, error.value.expected) == (f"Delta table {table}", f"files below {table}")
    assert "secret.parquet" in error.value.got
    assert warehouse.topics() == []


@BY_COPY_AND_IN_PLACE
@pytest.mark.parametrize("name", ["{}", "file://{}"])
def test_a_whole_path_below_the_delta_table_is_a_file_of_it(warehouse, table, name, in_place):
    rename(table, name.format(file_of(table)))

    land(warehouse, table, in_place=in_place)

    assert records_of(warehouse) == in_order(rows(0, 10))


@BY_COPY_AND_IN_PLACE
def test_a_file_that_is_a_link_is_not_read(warehouse, table, tmp_path, in_place):
    file = file_of(table)
    file.unlink()
    file.symlink_to(tmp_path / "secret.parquet")

    with pytest.raises(StorageError, match="behind the symbolic link"):
        land(warehouse, table, in_place=in_place)


# --- Iceberg -------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path, warehouse) -> Iterator[Lake]:
    with Lake(tmp_path / "lake", warehouse) as lake:
        yield lake


def add_file(table: Table, path: str, like: DataFile) -> None:
    """Commit ``path`` as a data file, which has the rows of ``like``."""
    file = DataFile.from_args(
        content=DataFileContent.DATA, file_path=path, file_format=FileFormat.PARQUET, partition=Record(),
        record_count=like.record_count, file_size_in_bytes=like.file_size_in_bytes,
    )  # fmt: skip
    file.spec_id = 0
    with table.transaction() as change, change.update_snapshot().fast_append() as update:
        update.append_data_file(file)


def only_file(table: Any) -> DataFile:
    [task] = table.scan().plan_files()
    file: DataFile = task.file
    return file


@BY_COPY_AND_IN_PLACE
@pytest.mark.parametrize(
    "name", ["{table}/../{}", "{table}/%2e%2e/{}", "file://{folder}/{}", "s3://bucket/{}", "../{}"]
)
def test_iceberg_metadata_that_name_a_file_elsewhere_land_nothing(lake, warehouse, tmp_path, name, in_place):
    table = lake.create(redpanda_rows(rows(0, 10)))
    file = only_file(table)
    shutil.copy(file.file_path.removeprefix("file://"), tmp_path / "secret.parquet")
    add_file(table, name.format("secret.parquet", table=table.location(), folder=tmp_path), file)

    with pytest.raises(LandingError) as error:
        lake.land(in_place=in_place)

    assert error.value.place == "Iceberg table lake.shop.clicks"
    assert error.value.expected == f"files below {folder_of(table)}"
    assert "secret.parquet" in error.value.got
    assert warehouse.topics() == []


def test_deletes_of_iceberg_that_are_elsewhere_are_not_read(lake, tmp_path, monkeypatch):
    table = lake.create(redpanda_rows(rows(0, 10)))
    add_position_deletes(monkeypatch, table, only_file(table), [0], tmp_path / "secret.parquet")

    with pytest.raises(LandingError, match=r"files below .*, got '.*secret\.parquet' in its log"):
        lake.land()


def test_data_of_iceberg_may_be_in_the_folder_that_its_properties_name(lake, warehouse, tmp_path):
    elsewhere = f"file://{tmp_path}/elsewhere"
    table = lake.create(redpanda_rows(rows(0, 10)), properties={"write.data.path": elsewhere})
    assert only_file(table).file_path.startswith(f"{elsewhere}/")

    with pytest.raises(LandingError, match=r"expected files below .*shop/clicks, got .*elsewhere"):
        lake.land(in_place=True)
    lake.land()

    assert records_of(warehouse) == in_order(rows(0, 10))


def test_of_that_folder_a_file_that_leads_out_is_refused(lake, tmp_path):
    elsewhere = f"file://{tmp_path}/elsewhere"
    table = lake.create(redpanda_rows(rows(0, 10)), properties={"write.data.path": elsewhere})
    add_file(table, f"{elsewhere}/../secret.parquet", only_file(table))

    with pytest.raises(LandingError, match=rf"expected files below .* or {tmp_path}/elsewhere, got .*secret"):
        lake.land()


def test_metadata_in_a_store_name_no_folder_of_this_machine(lake, monkeypatch):
    lake.create(redpanda_rows(rows(0, 10)))
    loaded = lake.catalog.load_table("shop.clicks")
    loaded.metadata_location = "s3://bucket/shop/clicks/metadata/1.metadata.json"
    monkeypatch.setattr("kstreams_replay.jobs.landing.lake.iceberg_tables._loaded", lambda name, properties: loaded)

    with pytest.raises(LandingError, match="expected folders in a store, as of its metadata, got /"):
        lake.land()
