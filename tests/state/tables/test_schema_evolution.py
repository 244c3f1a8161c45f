"""Columns that a table gains: null in the previous rows, added once, and read back from old and new files alike."""

from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.tables.commit import commit_files
from kstreams_replay.state.tables.data_files import read_files, read_rows
from kstreams_replay.state.tables.parquet_writer import write_task_file
from kstreams_replay.state.tables.schema_evolution import grow

OLD = pa.schema(
    [
        ("partition", pa.int32()),
        ("at", pa.struct([("x", pa.int64())])),
        ("tags", pa.list_(pa.struct([("a", pa.string())]))),
    ]
)
NEW = pa.schema(
    [
        ("partition", pa.int32()),
        ("more", pa.int64()),
        ("at", pa.struct([("y", pa.struct([("z", pa.float64())])), ("x", pa.int64())])),
        ("tags", pa.list_(pa.struct([("a", pa.string()), ("b", pa.string())]))),
    ]
)
FIRST = [{"at": {"x": 1}, "tags": [{"a": "t"}, None]}, {"at": None, "tags": None}, {"at": {"x": None}, "tags": []}]
SECOND = [{"more": 2, "at": {"y": {"z": 0.5}, "x": 3}, "tags": [{"a": "u", "b": "v"}]}]


def commit(path: str, schema: pa.Schema, rows: list[dict[str, Any]], increment: int, **options: bool) -> int:
    stored = [column for column in schema if column.name != "partition"]
    table = pa.table([pa.array([row.get(c.name) for row in rows], c.type) for c in stored], schema=pa.schema(stored))
    files = [write_task_file(path, table, partition=0, name=str(increment))] if rows else []
    return commit_files(path, schema, files, app_id="a", increment=increment, **options)


@pytest.fixture
def path(tmp_path) -> str:
    commit(str(tmp_path), OLD, FIRST, 1)
    return str(tmp_path)


def test_rows_of_before_have_null_where_a_table_has_grown(path):
    version = commit(path, NEW, SECOND, 2, may_grow=True)

    rows = read_rows(path, read_files(path), NEW).drop_columns(["partition"]).to_pylist()
    assert rows == [
        {"more": None, "at": {"y": None, "x": 1}, "tags": [{"a": "t", "b": None}, None]},
        {"more": None, "at": None, "tags": None},
        {"more": None, "at": {"y": None, "x": None}, "tags": []},
        *SECOND,
    ]
    assert version == 3  # created, first increment, columns, second increment: 0 to 3


def test_code_that_knows_fewer_columns_goes_on_with_a_table_that_has_grown(path):
    commit(path, NEW, SECOND, 2, may_grow=True)

    commit(path, OLD, FIRST[:1], 3, may_grow=True)

    rows = read_rows(path, read_files(path), OLD).drop_columns(["partition"]).to_pylist()
    assert rows == [*FIRST, {"at": {"x": 3}, "tags": [{"a": "u"}]}, FIRST[0]]


def test_a_crash_after_the_columns_were_added_changes_nothing_and_they_are_not_added_again(path):
    grown = grow(DeltaTable(path), path, NEW)

    assert read_rows(path, read_files(path), OLD).drop_columns(["partition"]).to_pylist() == FIRST
    assert grow(grown, path, NEW).version() == grown.version()
    assert commit(path, NEW, SECOND, 2, may_grow=True) == grown.version() + 1


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.struct([("x", pa.float64())]), pa.struct([("y", pa.int64()), ("x", pa.string())])]
)
def test_a_column_of_another_type_is_refused_even_where_a_table_may_grow(path, kind):
    with pytest.raises(ConfigError, match="column at"):
        commit(path, pa.schema([("partition", pa.int32()), ("at", kind)]), [], 2, may_grow=True)


def test_a_table_that_may_not_grow_is_left_as_it_is(path):
    with pytest.raises(ConfigError, match="columns more"):
        commit(path, NEW, SECOND, 2)

    assert DeltaTable(path).version() == 1


def test_files_that_replace_all_others_bring_their_own_columns_and_history_stays(path):
    other = pa.schema([("partition", pa.int32()), ("at", pa.string())])

    version = commit(path, other, [{"at": "here"}], 2, replaces=True)
    again = commit(path, other, [{"at": "there"}], 2, replaces=True)

    assert again == version
    assert read_rows(path, read_files(path), other)["at"].to_pylist() == ["here"]
    before = read_rows(path, read_files(path, version=1), OLD).drop_columns(["partition"]).to_pylist()
    assert before == FIRST
