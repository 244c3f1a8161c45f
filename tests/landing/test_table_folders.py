"""The folder of a table is no heap of files: rows that its log has taken away must not come back."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from kstreams_replay.state.errors import LandingError
from tests.landing.file_folders import land, write

ROWS = pa.table({"t": [1, 2, 3]})


@pytest.mark.parametrize("below", ["", "table"])
def test_a_delta_tables_folder_is_refused_whose_files_have_deleted_rows(warehouse, tmp_path, below):
    write_deltalake(str(tmp_path / "in" / below), ROWS)
    DeltaTable(str(tmp_path / "in" / below)).delete("t = 2")

    with pytest.raises(
        LandingError, match=r"expected files that are no table's, got files of a Delta table, .*_delta_log/"
    ):
        land(warehouse, tmp_path / "in")

    assert warehouse.topics() == []


def test_a_partition_of_a_delta_table_is_refused(warehouse, tmp_path):
    write_deltalake(str(tmp_path / "in"), ROWS.append_column("day", pa.array(["a", "a", "b"])), partition_by=["day"])

    with pytest.raises(LandingError, match="files of a Delta table"):
        land(warehouse, tmp_path / "in" / "day=a")


@pytest.mark.parametrize(("here", "named"), [("table", "day=a"), ("table/day=a", "."), ("table/day=a", "../day=a")])
def test_a_partition_of_a_table_that_is_named_from_the_folder_around_it_is_refused(
    warehouse, tmp_path, monkeypatch, here, named
):
    with_a_deleted_row(tmp_path / "table")
    monkeypatch.chdir(tmp_path / here)

    with pytest.raises(LandingError, match="files of a Delta table"):
        land(warehouse, named)


def test_the_data_of_an_iceberg_table_that_are_named_from_its_folder_are_refused(warehouse, tmp_path, monkeypatch):
    directory = write(tmp_path / "in", {"metadata/v1.metadata.json": "{}", "data/a.jsonl": '{"t":1}'})
    monkeypatch.chdir(directory)

    with pytest.raises(LandingError, match="files of an Iceberg table"):
        land(warehouse, "data")


@pytest.mark.parametrize("link", ["in", "in/day", "in/a.parquet"])
def test_a_link_to_a_partition_of_a_table_or_to_its_file_is_refused(warehouse, tmp_path, link):
    with_a_deleted_row(tmp_path / "table")
    if link != "in":
        (tmp_path / "in").mkdir()
    there = tmp_path / "table" / "day=a"
    (tmp_path / link).symlink_to(next(there.glob("*.parquet")) if link.endswith(".parquet") else there)

    with pytest.raises(LandingError, match="files of a Delta table"):
        land(warehouse, tmp_path / "in")


def test_a_link_into_a_table_of_which_no_file_lands_is_no_matter(warehouse, tmp_path):
    with_a_deleted_row(tmp_path / "table")
    write(tmp_path / "in", {"a.jsonl": '{"t":1}\n'})
    (tmp_path / "in" / "day").symlink_to(tmp_path / "table" / "day=a")

    assert land(warehouse, tmp_path / "in", pattern="*.jsonl").records == 1


def with_a_deleted_row(directory):
    """A Delta table with two days, and one row less than its files have."""
    rows = ROWS.append_column("day", pa.array(["a", "a", "b"]))
    write_deltalake(str(directory), rows, partition_by=["day"])
    DeltaTable(str(directory)).delete("t = 2")


@pytest.mark.parametrize(
    ("mark", "what"), [("metadata/v1.metadata.json", "an Iceberg table"), (".hoodie/hoodie.properties", "a Hudi table")]
)
@pytest.mark.parametrize(("folder", "mapping"), [("", {}), ("", {"pattern": "data/*"}), ("data", {})])
def test_folders_of_iceberg_and_hudi_are_refused_and_so_are_their_files(
    warehouse, tmp_path, mark, what, folder, mapping
):
    directory = write(tmp_path / "in", {mark: "{}"})
    (directory / "data").mkdir()
    pq.write_table(ROWS, directory / "data" / "a.parquet")

    with pytest.raises(LandingError, match=f"got files of {what}"):
        land(warehouse, directory / folder, **{"format": "parquet", "pattern": "*.parquet", **mapping})


def test_files_beside_a_table_may_land(warehouse, tmp_path):
    write_deltalake(str(tmp_path / "in" / "table"), ROWS)
    write(tmp_path / "in", {"a.jsonl": '{"t":1}\n'})

    assert land(warehouse, tmp_path / "in", pattern="*.jsonl").records == 1
