"""Reading as readers may: whole increments, as a changelog or as a table."""

import pyarrow as pa
import pytest

from kstreams_replay.jobs.history.committed_tables import read_changelog, read_newest, read_state, read_table
from kstreams_replay.state.errors import ConfigError, LedgerError
from kstreams_replay.state.tables.commit import commit_files
from kstreams_replay.state.tables.ledger import Ledger
from kstreams_replay.state.tables.ledger_rows import DoneRow, PlanRow
from kstreams_replay.state.tables.parquet_writer import write_task_file
from kstreams_replay.state.tables.warehouse import DROPPED_SCHEMA, Warehouse, output_schema

SCHEMA = output_schema(pa.string(), pa.int64(), windowed=False)
STATE = pa.schema(
    [
        ("partition", pa.int32()),
        ("increment", pa.int64()),
        ("deleted", pa.bool_()),
        ("key", pa.string()),
        ("value", pa.int64()),
    ]
)
# (partition, offset, key, value, record_time_ms) of each increment
FIRST = [(0, 0, "a", 1, 10), (0, 1, "b", 2, 11), (1, 0, "c", 3, 30), (1, 1, "a", 8, 12)]
SECOND = [(0, 2, "a", 4, 5), (0, 3, "b", None, 13), (1, 2, "c", 5, 20)]


def put(warehouse: Warehouse, table: str, path: str, schema: pa.Schema, increment: int, rows: list[dict]) -> int:
    files = []
    for partition in sorted({row["partition"] for row in rows}):
        mine = [{"increment": increment, **row} for row in rows if row["partition"] == partition]
        part = pa.Table.from_pylist(mine, pa.schema([column for column in schema if column.name != "partition"]))
        files.append(write_task_file(path, part, partition=partition, name=str(increment)))
    return commit_files(path, schema, files, app_id=table, increment=increment)


@pytest.fixture
def two_increments(warehouse: Warehouse) -> Warehouse:
    """Output `x` with two done increments, and a third that is committed and not done."""
    tables = warehouse.pipeline("p")
    ledger = Ledger(tables.ledger)
    names = ("partition", "offset", "key", "value", "record_time_ms")
    states = [[("a", 1, False), ("b", 2, False)], [("a", 4, False), ("b", None, True)], [("z", 9, False)]]
    for increment, records in enumerate((FIRST, SECOND, [(0, 4, "z", 9, 99)]), 1):
        ledger.plan(increment, PlanRow(), written_at_ms=0)
        rows = [dict(zip(names, record, strict=True)) for record in records]
        live = [
            {"partition": 0, "key": key, "value": value, "deleted": gone} for key, value, gone in states[increment - 1]
        ]
        versions = {
            "outputs/x": put(warehouse, "outputs/x", tables.output("x"), SCHEMA, increment, rows),
            "state/s": put(warehouse, "state/s", tables.state("s"), STATE, increment, live),
            "dropped": put(warehouse, "dropped", tables.dropped, DROPPED_SCHEMA, increment, []),
        }
        if increment < 3:
            ledger.done(increment, DoneRow(versions=versions), written_at_ms=0)
    return warehouse


def places(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def values(table: pa.Table) -> dict[str, int | None]:
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def test_a_changelog_stops_at_the_last_done_increment(two_increments):
    got = read_changelog(two_increments, "p", "x")

    assert places(got) == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2)]
    assert got.schema.equals(pa.schema(SCHEMA))


def test_a_changelog_as_of_an_increment_is_what_a_reader_saw_then(two_increments):
    assert places(read_changelog(two_increments, "p", "x", increment=1)) == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize(("last", "want"), [(1, [(1, 2)]), (4, [(1, 1), (0, 2), (0, 3), (1, 2)]), (99, None), (0, [])])
def test_the_last_records_are_the_end_of_the_whole_changelog(two_increments, last, want):
    whole = places(read_changelog(two_increments, "p", "x"))

    assert places(read_changelog(two_increments, "p", "x", last=last)) == (whole if want is None else want)


def test_the_newest_of_a_key_is_its_highest_offset_and_a_tombstone_deletes_it(two_increments):
    """
    `a` at offset 2 is newer than at offset 0 though its time is lower; partition 1's `a` is of an earlier increment.
    """
    assert values(read_newest(two_increments, "p", "x")) == {"a": 4, "c": 5}


def test_a_key_in_two_partitions_of_one_increment_is_as_its_highest_time_says(two_increments):
    assert values(read_newest(two_increments, "p", "x", increment=1)) == {"a": 8, "b": 2, "c": 3}


def test_live_rows_of_a_store_are_the_newest_that_are_not_deleted(two_increments):
    assert values(read_state(two_increments, "p", "s")) == {"a": 4}
    assert values(read_state(two_increments, "p", "s", increment=1)) == {"a": 1, "b": 2}


def test_a_table_without_rows_has_its_columns(two_increments):
    got = read_table(two_increments, "p", "dropped")

    assert (got.num_rows, got.column_names) == (0, DROPPED_SCHEMA.names)


def test_an_unknown_table_and_an_increment_that_is_not_done_are_refused(two_increments):
    with pytest.raises(ConfigError, match=r"expected one of dropped, outputs/x, state/s, got 'outputs/y'"):
        read_changelog(two_increments, "p", "y")
    with pytest.raises(LedgerError, match="expected a done increment 3, got none; run the replay first"):
        read_changelog(two_increments, "p", "x", increment=3)
    with pytest.raises(LedgerError, match="expected a done increment, got none"):
        read_changelog(two_increments, "another", "x")
