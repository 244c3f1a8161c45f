"""Data files that a task writes piece by piece: what they leave out."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from state.files import TaskFile, read_rows

SCHEMA = pa.schema([("offset", pa.int64()), ("note", pa.string()), ("arrival", pa.int64())])


def rows(*found: tuple[int, str | None, int | None]) -> pa.Table:
    return pa.table(
        [pa.array(column, f.type) for column, f in zip(zip(*found, strict=True), SCHEMA, strict=True)], SCHEMA
    )


def started(folder) -> TaskFile:
    return TaskFile(str(folder), partition=0, name="1", leaves_out=("note", "arrival"))


def test_a_column_without_a_value_is_left_out_and_read_as_nulls(tmp_path):
    file = started(tmp_path)
    file.write(rows((0, None, 7)))
    file.write(rows((1, None, None)))
    written = file.close()

    assert pq.read_schema(tmp_path / written.path).names == ["offset", "arrival"]
    assert read_rows(str(tmp_path), [written], SCHEMA) == rows((0, None, 7), (1, None, None))


def test_what_has_a_value_for_a_column_that_was_left_out_does_not_fit(tmp_path):
    file = started(tmp_path)
    assert file.fits(rows((0, "n", 7)))  # nothing is left out before there is a row
    file.write(SCHEMA.empty_table())
    file.write(rows((0, None, 7)))

    assert file.fits(rows((1, None, 8)))
    assert not file.fits(rows((1, None, 8), (2, "n", 8)))
    with pytest.raises(AssertionError, match="no column for some of the values"):
        file.write(rows((1, "n", 8)))
