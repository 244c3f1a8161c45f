"""A Delta log says what it said when it was committed, or it is an error."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kstreams_replay.state.errors import DamagedTable
from kstreams_replay.state.tables.commit import commit_files
from kstreams_replay.state.tables.data_files import OpenedTable, open_table, read_files, table_digest
from kstreams_replay.state.tables.parquet_writer import write_task_file

SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.string())])


@pytest.fixture
def path(tmp_path) -> str:
    """A table of 15 increments with a file each; its log has checkpoints."""
    path = f"{tmp_path}/table"
    for increment in range(1, 16):
        rows = pa.table({"offset": [increment * 10], "key": ["a"]})
        file = write_task_file(path, rows, partition=increment % 2, name=f"{increment:08d}")
        commit_files(path, SCHEMA, [file], app_id="a", increment=increment)
    return path


def log_of(path: str) -> list[Path]:
    return sorted(Path(path, "_delta_log").glob("*.json"))


def change(entry: Path, was: str, becomes: str) -> None:
    text = entry.read_text()
    assert was in text
    entry.write_text(text.replace(was, becomes))


def assert_refused(path: str, version: int, digest: str) -> None:
    with pytest.raises(DamagedTable, match=f"^{re.escape(path)}: expected "):
        read_files(path, version=version, digest=digest)


def test_a_checkpoint_has_the_digest_of_the_entries_it_stands_for(path):
    version = DeltaTable(path).version()
    assert list(Path(path, "_delta_log").glob("*.checkpoint.parquet"))
    with_checkpoint = table_digest(path, version)
    for part in Path(path, "_delta_log").glob("*checkpoint*"):
        part.unlink()

    assert table_digest(path, version) == with_checkpoint


def test_every_version_has_its_own_digest(path):
    digests = [table_digest(path, version) for version in range(DeltaTable(path).version() + 1)]

    assert len(set(digests)) == len(digests)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ('"offset\\": 150', '"offset\\": 151'),  # a bound, by which readers leave files out
        ('"numRecords\\": 1', '"numRecords\\": 2'),
        ('"add"', '"adc"'),
        ('"partition":"1"', '"partition":"0"'),
    ],
)
def test_a_changed_entry_is_an_error(path, was, becomes):
    version = DeltaTable(path).version()
    digest = table_digest(path, version)
    change(log_of(path)[-1], was, becomes)

    assert_refused(path, version, digest)


def test_another_name_of_a_column_is_an_error(path):
    """
    Else the column would be null in every row.
    """
    version = DeltaTable(path).version()
    digest = table_digest(path, version)
    for part in Path(path, "_delta_log").glob("*checkpoint*"):
        part.unlink()
    change(log_of(path)[0], '\\"name\\":\\"key\\"', '\\"name\\":\\"kez\\"')

    assert_refused(path, version, digest)


def test_an_entry_that_is_gone_is_an_error(path):
    version = DeltaTable(path).version()
    digest = table_digest(path, version)
    log_of(path)[-1].unlink()

    assert_refused(path, version, digest)


def test_a_log_that_cannot_be_read_is_an_error(path):
    for entry in log_of(path):
        entry.write_text("{")
    for part in Path(path, "_delta_log").glob("*checkpoint*"):
        part.write_bytes(b"PAR1")

    with pytest.raises(DamagedTable, match="expected a Delta log that can be read"):
        read_files(path)


def test_other_readers_read_the_log_as_before(path):
    entry = json.loads(log_of(path)[-1].read_text().splitlines()[0])

    assert set(entry) <= {"add", "txn", "commitInfo"}
    assert len(DeltaTable(path).to_pyarrow_table()) == 15


def test_the_log_of_a_table_that_is_open_at_the_version_asked_for_is_not_read_again(path, monkeypatch):
    opened = {}
    version = open_table(path, opened=opened).version()
    monkeypatch.setattr(OpenedTable, "update_incremental", lambda table: pytest.fail("asked the store"))

    assert len(read_files(path, version=version, opened=opened)) == 15
