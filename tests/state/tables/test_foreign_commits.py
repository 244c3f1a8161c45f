"""Commits of others on a table: what is left of them, and what a writer does about it."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake
from deltalake.schema import Field, PrimitiveType

from kstreams_replay.state.errors import TouchedTable
from kstreams_replay.state.tables import delta_log, foreign_commits
from kstreams_replay.state.tables.commit import commit_files, settle, take_back
from kstreams_replay.state.tables.data_files import open_table, read_files, read_rows
from kstreams_replay.state.tables.foreign_commits import refuse_ever_altered, refuse_touched, touched_since
from kstreams_replay.state.tables.parquet_writer import write_task_file
from kstreams_replay.state.tables.replaced_files import added_files
from kstreams_replay.state.tables.warehouse import LANDED_SCHEMA

APP = "shop/outputs/counts/0"
STORED = pa.schema([field for field in LANDED_SCHEMA if field.name != "partition"])


@pytest.fixture
def path(tmp_path) -> str:
    """A table, not only appended to, of two increments of two rows; version 2 is what its ledger would name."""
    path = str(tmp_path / "shop" / "outputs" / "counts")
    for increment in (1, 2):
        assert commit(path, increment, since=None) == increment
    return path


def commit(path: str, increment: int, since: int | None = 2) -> int:
    rows = [{"offset": 2 * increment + n, "timestamp": n, "increment": increment} for n in (0, 1)]
    file = write_task_file(path, pa.Table.from_pylist(rows, STORED), partition=0, name=f"{increment:08d}")
    return commit_files(path, LANDED_SCHEMA, [file], app_id=APP, increment=increment, since=since)


def offsets(path: str) -> list[int]:
    return sorted(read_rows(path, read_files(path), LANDED_SCHEMA)["offset"].to_pylist())


def append(path: str, rows: int = 1) -> None:
    write_deltalake(path, DeltaTable(path).to_pyarrow_table().slice(0, rows), mode="append")


ALTERING = {
    "DELETE": lambda path: DeltaTable(path).delete("offset = 2"),
    "UPDATE": lambda path: DeltaTable(path).update(updates={"offset": "offset + 9"}, predicate="offset = 2"),
    "WRITE": append,
    "RESTORE": lambda path: DeltaTable(path).restore(1),
    "ADD COLUMN": lambda path: DeltaTable(path).alter.add_columns([Field("note", PrimitiveType("string"))]),
}


@pytest.mark.parametrize("operation", ALTERING)
def test_what_alters_a_table_is_refused_with_the_commit_and_can_be_taken_back(path, operation):
    before = read_files(path)
    ALTERING[operation](path)

    with pytest.raises(TouchedTable, match=f"since version 2, .*got {operation} of version 3 by delta-rs"):
        commit(path, 3)
    assert take_back(path, 2) is not None
    assert read_files(path) == before
    assert take_back(path, 2) is None
    commit(path, 3)
    assert offsets(path) == [2, 3, 4, 5, 6, 7]


def test_the_error_says_what_is_left_and_what_to_paste(path):
    ALTERING["DELETE"](path)
    with pytest.raises(TouchedTable) as raised:
        commit(path, 3)

    warehouse = path.removesuffix("/shop/outputs/counts")
    assert "(1 file gone, 1 file added, 1 row fewer)" in str(raised.value)
    assert f"`replay take-back shop/outputs/counts --warehouse {warehouse}`" in str(raised.value)


@pytest.mark.parametrize("is_clustered", [False, True])
def test_a_writer_puts_back_what_was_rearranged(path, is_clustered):
    before = read_files(path)
    optimize = DeltaTable(path).optimize
    optimize.z_order(["timestamp"]) if is_clustered else optimize.compact()
    assert len(read_files(path)) == 1 < len(before)

    commit(path, 3)

    assert read_files(path)[:2] == before
    assert offsets(path) == [2, 3, 4, 5, 6, 7]


def test_a_reader_leaves_a_rearranged_table_alone(path):
    DeltaTable(path).optimize.compact()
    table = open_table(path)

    assert refuse_touched(table, path, 2).is_rearranged
    assert open_table(path).version() == 3


def test_files_that_a_vacuum_took_behind_an_optimize_are_named(path):
    DeltaTable(path).optimize.compact()
    DeltaTable(path).vacuum(0, enforce_retention_duration=False, dry_run=False)

    with pytest.raises(TouchedTable, match=r"OPTIMIZE of version 3 by .*has no file\); put it back from a copy"):
        refuse_touched(open_table(path), path, 2)
    with pytest.raises(TouchedTable, match="has no file"):
        take_back(path, 2)


def test_rows_that_came_and_went_under_cover_of_an_optimize_are_seen(path):
    """
    An INSERT and an OPTIMIZE, a DELETE, an INSERT and an OPTIMIZE: as many rows as before, in one file, and our own
    went by an OPTIMIZE.
    """
    append(path)
    DeltaTable(path).optimize.compact()
    DeltaTable(path).delete("offset >= 4")
    append(path, 4 - len(offsets(path)))
    DeltaTable(path).optimize.compact()
    assert len(offsets(path)) == 4
    assert len(read_files(path)) == 1

    with pytest.raises(TouchedTable, match="OPTIMIZE of version"):
        refuse_touched(open_table(path), path, 2)


def test_what_was_undone_is_harmless(path):
    ALTERING["UPDATE"](path)
    DeltaTable(path).restore(2)
    DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    DeltaTable(path).alter.add_constraint({"positive": "offset >= 0"})
    DeltaTable(path).optimize.compact()

    commit(path, 3)
    assert offsets(path) == [2, 3, 4, 5, 6, 7]


def test_a_table_that_increments_rewrite_must_not_be_append_only(path):
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "true"})

    with pytest.raises(TouchedTable, match=r"SET TBLPROPERTIES of version 3 .*delta\.appendOnly is set"):
        commit(path, 3)


@pytest.mark.parametrize("name", ["DeletionVectors", "ColumnMapping"])
def test_a_feature_that_changes_what_files_mean_is_refused_by_name(path, name):
    DeltaTable(path).alter.add_feature(getattr(TableFeatures, name), allow_protocol_versions_increase=True)
    name = name[0].lower() + name[1:]

    with pytest.raises(TouchedTable, match=f"got {name}, which came with ADD FEATURE of version 3 by delta-rs"):
        read_files(path)
    take_back(path, 2)
    assert offsets(path) == [2, 3, 4, 5]


def test_a_feature_that_asks_something_of_writers_stops_them_alone(path):
    DeltaTable(path).alter.add_feature(TableFeatures.DomainMetadata, allow_protocol_versions_increase=True)
    assert offsets(path) == [2, 3, 4, 5]

    with pytest.raises(TouchedTable, match="got domainMetadata, which came with ADD FEATURE of version 3"):
        commit(path, 3)


def test_one_who_is_quicker_than_a_commit_is_seen_behind_it(path, monkeypatch):
    """
    An append between the look before the commit and the commit, which Delta lets through.
    """
    create = DeltaTable.create_write_transaction

    def after_another(table, *given, **options):
        append(path)
        return create(table, *given, **options)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", after_another)
    with pytest.raises(TouchedTable, match="WRITE of version 3 by"):
        commit(path, 3)
    monkeypatch.undo()

    with pytest.raises(TouchedTable, match="WRITE of version 3 by"):  # also once it has died and is run again
        commit(path, 3)
    take_back(path, 2)
    assert commit(path, 3) == 5
    assert offsets(path) == [2, 3, 4, 5, 6, 7]


def test_rows_of_an_increment_that_died_are_not_lost_by_a_restore(path):
    """
    Increment 3 is in the table and not in the ledger; a RESTORE to version 2 keeps its mark.
    """
    commit(path, 3)
    DeltaTable(path).restore(2)

    with pytest.raises(TouchedTable, match="RESTORE of version 4"):
        commit(path, 3)
    take_back(path, 2)
    commit(path, 3)
    assert offsets(path) == [2, 3, 4, 5, 6, 7]


def test_a_log_that_has_lost_entries_is_not_believed(path):
    """
    Somebody has committed, made a checkpoint and deleted what is before it.
    """
    append(path)
    DeltaTable(path).create_checkpoint()
    Path(path, "_delta_log", f"{3:020}.json").unlink()

    with pytest.raises(TouchedTable, match=r"got commits of which nothing is known \(its log has lost 1 of"):
        commit(path, 3)


def test_where_nobody_else_commits_no_log_is_read(path, monkeypatch):
    monkeypatch.setattr(foreign_commits, "log_entries", None)

    refuse_touched(open_table(path), path, 2)
    commit(path, 3)
    settle(open_table(path), path, 3)


def test_what_is_left_of_earlier_commits_is_found_in_the_whole_log(path):
    ALTERING["DELETE"](path)
    commit(path, 3, since=None)  # as a version did that did not look

    with pytest.raises(TouchedTable, match=r"DELETE of version 3 by .*and it has been used since"):
        refuse_ever_altered(open_table(path), path)


def test_our_own_commits_are_known_as_ours(path):
    commit(path, 3)

    assert touched_since(path, -1, 3) is None
    assert [entry.is_ours for entry in delta_log.log_entries(path, 0, 3)] == [True] * 3


def test_a_landed_topic_is_append_only_and_an_output_is_not(tmp_path):
    topic, output = str(tmp_path / "landed" / "clicks"), str(tmp_path / "shop" / "outputs" / "counts")
    for path in (topic, output):
        commit(path, 1, since=None)

    with pytest.raises(Exception, match="append-only"):
        DeltaTable(topic).delete("offset = 2")
    DeltaTable(output).delete("offset = 2")
    assert offsets(output) == [3]


@pytest.mark.parametrize("end", ["\u2028", "\u0085"])
def test_a_log_entry_is_read_whole_whatever_ends_of_lines_its_texts_have(tmp_path, end):
    """
    Writers leave these characters in JSON as they are; lines of text would end at them.
    """
    path = str(tmp_path / "table")
    write_deltalake(path, pa.table({"word": [f"one{end}two"]}))
    (raw,) = (tmp_path / "table" / "_delta_log").glob("*.json")
    assert end.encode() in raw.read_bytes()
    (file,) = DeltaTable(path).file_uris()

    (entry,) = delta_log.log_entries(path, -1, 0)

    assert [added["path"] for added in entry.of("add")] == [Path(file).name]
    assert added_files(path, [raw.name]) == {0: {Path(file).name}}
