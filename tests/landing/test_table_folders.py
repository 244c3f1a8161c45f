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
