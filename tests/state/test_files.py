"""Files of tables, written piece by piece."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from state import files
from state.files import TaskFile

ROWS = pa.table({"offset": [0, 1, 2, 3], "timestamp": [50, 10, 40, 20], "key": ["a", "b", None, "a"]})


@pytest.mark.parametrize(
    ("rows", "size", "groups"),
    [(1 << 18, 16 << 20, [12]), (8, 16 << 20, [8, 4]), (5, 16 << 20, [8, 4]), (1 << 18, 1, [4, 4, 4])],
)
def test_pieces_wait_until_they_make_a_row_group(tmp_path, monkeypatch, rows, size, groups):
    monkeypatch.setattr(files, "_GROUP_ROWS", rows)
    monkeypatch.setattr(files, "_GROUP_BYTES", size)
    file = TaskFile(str(tmp_path), partition=2, name="7")
    for begin in (0, 4, 8):
        file.write(ROWS.set_column(0, "offset", pa.array(range(begin, begin + 4), pa.int64())))
        file.write(ROWS.slice(0, 0))
    written = file.close()

    parquet = pq.ParquetFile(tmp_path / written.path)
    assert [parquet.metadata.row_group(number).num_rows for number in range(parquet.num_row_groups)] == groups
    assert parquet.read(["offset", "key"]).to_pylist() == [
        {"offset": offset, "key": ("a", "b", None, "a")[offset % 4]} for offset in range(12)
    ]
    assert (written.records, written.partition, written.min_offset, written.max_offset) == (12, 2, 0, 11)
    assert written.bounds == {"offset": (0, 11), "timestamp": (10, 50)}


def test_nothing_is_written_without_rows(tmp_path):
    file = TaskFile(str(tmp_path), partition=0, name="7")
    file.write(ROWS.slice(0, 0))

    assert file.close() is None
    assert list(tmp_path.iterdir()) == []
