"""Logs of open tables, kept on this machine: what is read and written, and who wins where two commit."""

import os

import obstore
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from kstreams_replay.state.tables.commit import commit_files
from kstreams_replay.state.tables.data_files import KeptTable, live_files, open_table
from kstreams_replay.state.tables.kept_log import KeptLog
from kstreams_replay.state.tables.object_stores import open_filesystem
from kstreams_replay.state.tables.requests import REQUESTS
from tests.laws.failing import stuttering
from tests.laws.object_stores import played_store
from tests.laws.stuttering import Stutter

SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64())])


@pytest.fixture(scope="module")
def started():
    with played_store() as store, stuttering(store) as there:
        yield there


@pytest.fixture
def there(started):
    """Fails at nothing yet."""
    started.proxy.begin()
    return started


@pytest.fixture
def path(there):
    """Of a table at version 1, which has no file."""
    made = f"{there.store.warehouse().root}/table"
    commit_files(made, SCHEMA, [], app_id="a", increment=1)
    return made


def add(table: DeltaTable, name: str, mark: int | None = None) -> None:
    """Commit a file of this name, which is nowhere: a commit looks at the log alone."""
    action = AddAction(name, 10, {"partition": "0"}, 1, True, '{"numRecords": 1}')
    marks = [] if mark is None else [Transaction("b", mark)]
    table.create_write_transaction(
        [action], "append", SCHEMA, ["partition"], commit_properties=CommitProperties(app_transactions=marks)
    )


def in_store(there, path: str) -> DeltaTable:
    """As a reader who knows nothing of this package opens it."""
    return DeltaTable(path, storage_options=there.store.options)


def names(table: DeltaTable) -> set[str]:
    return {os.path.basename(file) for file in table.file_uris()}


def entries(there, path: str) -> set[str]:
    files, folder = open_filesystem(f"{path}/_delta_log")
    return set(files.handler.names_in(folder, str))


def test_an_open_table_is_brought_up_to_date_by_three_requests_and_none_of_them_lists(there, path):
    table, other = KeptTable(path), KeptTable(path)
    add(other, "x.parquet")
    there.proxy.begin()
    before = REQUESTS.made()
    table.update_incremental()
    counted = dict(REQUESTS.made() - before)

    assert (table.version(), names(table)) == (2, {"x.parquet"})
    assert dict(there.proxy.counts()) == counted == {"GET": 2}  # version 2, and that there is no version 3


def test_a_commit_is_one_put_that_the_store_refuses_where_there_is_one(there, path):
    table = KeptTable(path)
    there.proxy.begin()
    add(table, "x.parquet")
    made = dict(there.proxy.counts())

    assert made == {"PUT": 1, "HEAD": 1}
    assert names(in_store(there, path)) == {"x.parquet"}


def test_of_two_that_append_at_once_both_are_in(there, path):
    first, second = KeptTable(path), KeptTable(path)
    add(first, "first.parquet")
    add(second, "second.parquet")
    second.update_incremental()
    first.update_incremental()
    plain = in_store(there, path)

    assert plain.version() == first.version() == second.version() == 3
    assert names(plain) == names(first) == names(second) == {"first.parquet", "second.parquet"}


def test_of_two_with_one_mark_the_second_is_refused_and_leaves_nothing(there, path):
    first, second = KeptTable(path), KeptTable(path)
    add(first, "first.parquet", mark=7)
    with pytest.raises(CommitFailedError):
        add(second, "second.parquet", mark=7)
    second.update_incremental()

    assert (second.version(), names(second)) == (2, {"first.parquet"})
    assert (in_store(there, path).version(), names(in_store(there, path))) == (2, {"first.parquet"})
    add(second, "third.parquet", mark=8)
    assert names(in_store(there, path)) == {"first.parquet", "third.parquet"}


@pytest.mark.parametrize("fault", ["lost", "reset", "500", "cut"])
def test_a_commit_whose_answer_was_lost_is_read_back_and_not_made_twice(there, path, fault):
    table = KeptTable(path)
    there.proxy.begin(Stutter(1.0, 7, (fault,), only="_delta_log/00000000000000000002.json", most=1))
    add(table, "x.parquet")
    failed = there.proxy.counts()[fault]
    there.proxy.begin()

    assert failed == 1
    assert (in_store(there, path).version(), names(in_store(there, path))) == (2, {"x.parquet"})


def test_what_the_store_does_not_take_leaves_nothing_in_the_copy(there, path, monkeypatch):
    table = KeptTable(path)

    def refuse(*_args, **_options):
        raise OSError("no more space")

    with monkeypatch.context() as patched:
        patched.setattr(obstore, "put", refuse)
        patched.setattr(table._kept._files.handler, "_seconds", 0.0)
        with pytest.raises(OSError, match="no more space"):
            add(table, "x.parquet")
    add(table, "y.parquet")

    assert (in_store(there, path).version(), names(in_store(there, path))) == (2, {"y.parquet"})


def test_of_ten_versions_one_has_a_checkpoint_and_a_table_is_opened_from_it(there, path):
    table = KeptTable(path)
    for number in range(2, 13):
        add(table, f"{number}.parquet")
        table.update_incremental()
    there.proxy.begin()
    opened = KeptTable(path)
    read = [each.rpartition("/")[2] for each in there.proxy.asked() if each.startswith("GET") and ".json" in each]

    assert "00000000000000000009.checkpoint.parquet" in entries(there, path)
    assert "_last_checkpoint" in entries(there, path)
    assert read == [f"{version:020}.json" for version in (10, 11, 12)]
    assert names(opened) == names(in_store(there, path)) == {f"{number}.parquet" for number in range(2, 13)}
    # History of versions before the checkpoint is asked of the store.
    assert [entry["version"] for entry in opened.history()] == list(range(12, -1, -1))


def test_a_log_of_more_entries_than_one_answer_names_is_read_from_its_checkpoint(there, path, monkeypatch):
    monkeypatch.setattr("kstreams_replay.state.tables.object_files._PAGE", 4)
    table = KeptTable(path)
    for number in range(2, 13):
        add(table, f"{number}.parquet")
        table.update_incremental()

    opened = KeptTable(path)

    assert (opened.version(), len(live_files(opened))) == (12, 11)


def test_a_table_that_was_made_again_is_no_longer_the_one_that_was_open(there, path):
    table = KeptTable(path)
    add(table, "x.parquet")
    table.update_incremental()
    files, folder = open_filesystem(path)
    for name in entries(there, path):
        files.delete_file(f"{folder}/_delta_log/{name}")

    with pytest.raises(DeltaError, match="was replaced while it was open"):
        table.update_incremental()
    assert open_table(path, opened={}) is None


def test_entries_that_went_behind_a_checkpoint_while_a_table_was_open_are_not_needed(there, path):
    late, table = KeptTable(path), KeptTable(path)
    for number in range(2, 13):
        add(table, f"{number}.parquet")
        table.update_incremental()
    files, folder = open_filesystem(path)
    for number in range(9):
        files.delete_file(f"{folder}/_delta_log/{number:020}.json")

    late.update_incremental()

    assert (late.version(), names(late)) == (12, {f"{number}.parquet" for number in range(2, 13)})


def test_what_this_does_not_copy_is_left_to_delta(there, path):
    files, folder = open_filesystem(path)
    with files.open_output_stream(f"{folder}/_delta_log/00000000000000000001.0000000001.part.parquet") as file:
        file.write(b"a file of a kind that is not known")

    assert KeptLog.of(path) is None
    table = KeptTable(path)
    add(table, "x.parquet")
    assert names(in_store(there, path)) == {"x.parquet"}


def test_a_table_with_a_lock_beside_the_store_is_left_to_delta(there, path, monkeypatch):
    assert KeptLog.of(path) is not None
    monkeypatch.setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
    assert KeptLog.of(path) is None


def test_the_copy_goes_with_the_table(there, path):
    table = KeptTable(path)
    folder = table._kept.table
    assert os.listdir(f"{folder}/_delta_log")
    del table

    assert not os.path.exists(folder)
