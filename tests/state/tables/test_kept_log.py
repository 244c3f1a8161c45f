"""Logs of open tables, kept on this machine: what is read and written, and who wins where two commit."""

import errno
import os
from pathlib import Path

import obstore
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction
from obstore.exceptions import AlreadyExistsError

from kstreams_replay.state.failures import failure_of
from kstreams_replay.state.tables.commit import commit_files, write_mark
from kstreams_replay.state.tables.data_files import KeptTable, live_files, open_table
from kstreams_replay.state.tables.kept_log import KeptLog
from kstreams_replay.state.tables.object_stores import open_filesystem
from kstreams_replay.state.tables.requests import REQUESTS
from tests.laws.stuttering import Stutter

SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64())])


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


def test_an_open_table_is_brought_up_to_date_by_two_requests_and_none_of_them_lists(there, path):
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


def test_a_checkpoint_of_a_commit_that_came_second_is_none(there, path):
    first, second = KeptTable(path), KeptTable(path)
    for number in range(2, 9):
        add(first, f"{number}.parquet")
        first.update_incremental()
    second.update_incremental()
    add(second, "first.parquet")
    add(first, "second.parquet")
    first.update_incremental()

    want = {f"{number}.parquet" for number in range(2, 9)} | {"first.parquet", "second.parquet"}
    assert not (Path(first._kept.table) / "_delta_log" / "00000000000000000009.checkpoint.parquet").exists()
    assert names(first) == names(DeltaTable(first._kept.table)) == names(in_store(there, path)) == want


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


def test_what_delta_wrote_before_it_failed_is_no_commit(there, path, monkeypatch):
    """As where the disk is full when it writes the checkpoint behind its entry."""
    table = KeptTable(path)
    with monkeypatch.context() as patched:
        write = DeltaTable.create_write_transaction

        def fail_behind(*arguments, **options):
            write(*arguments, **options)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patched.setattr(DeltaTable, "create_write_transaction", fail_behind)
        with pytest.raises(OSError, match="No space left on device"):
            add(table, "x.parquet")
    table.update_incremental()

    assert (table.version(), names(table)) == (1, set())
    add(table, "y.parquet")
    assert (in_store(there, path).version(), names(in_store(there, path))) == (2, {"y.parquet"})


def test_a_disk_without_room_for_an_entry_is_named(path, monkeypatch):
    said = "Generic LocalFileSystem error\n ↳ Unable to copy data to file\n ↳ No space left on device (os error 28)"

    def refuse(*_arguments, **_options):
        raise OSError(said)

    table = KeptTable(path)
    monkeypatch.setattr(DeltaTable, "create_write_transaction", refuse)
    with pytest.raises(OSError, match="No space left on device") as raised:
        write_mark(table, path, "b", 7)

    assert str(failure_of(raised.value, path)) == (
        f"{table._kept.table}/_delta_log: expected room on the disk, got No space left on device; free some, then give "
        "the same command again; what is committed stays"
    )


@pytest.mark.parametrize("place", ["tempfile.mkdtemp", "pathlib.Path.mkdir", "pathlib.Path.write_bytes"])
def test_without_room_for_a_copy_delta_reads_and_writes_by_itself(there, path, monkeypatch, place):
    def full(*_arguments, **_options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(place, full)
    table = KeptTable(path)
    write_mark(table, path, "b", 7)

    assert table._kept is None
    assert in_store(there, path).transaction_version("b") == 7


def test_an_entry_that_was_read_by_half_is_read_again(there, path, monkeypatch):
    table, other = KeptTable(path), KeptTable(path)
    add(other, "x.parquet")
    with monkeypatch.context() as patched:
        write = Path.write_bytes

        def write_half(self, content):
            write(self, content[: len(content) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patched.setattr(Path, "write_bytes", write_half)
        with pytest.raises(OSError, match="No space left on device") as raised:
            table.update_incremental()
    add(table, "y.parquet")

    assert raised.value.filename == f"{table._kept.table}/_delta_log/00000000000000000002.json"
    assert (in_store(there, path).version(), names(in_store(there, path))) == (3, {"x.parquet", "y.parquet"})


def test_a_commit_that_the_store_refuses_although_nobody_was_first_is_made_again(there, path, monkeypatch):
    """S3 answers 409 while another put of the same name is under way, and that one may fail."""
    table, put, refused = KeptTable(path), obstore.put, []

    def refuse_once(store, key, content, **options):
        if not refused:
            refused.append(key)
            raise AlreadyExistsError("409 Conflict: ConditionalRequestConflict")
        return put(store, key, content, **options)

    monkeypatch.setattr(obstore, "put", refuse_once)
    write_mark(table, path, "b", 7)

    assert len(refused) == 1
    assert (in_store(there, path).version(), in_store(there, path).transaction_version("b")) == (2, 7)


def test_of_ten_versions_one_has_a_checkpoint_and_a_table_is_opened_from_it(there, path):
    table = KeptTable(path)
    for number in range(2, 13):
        add(table, f"{number}.parquet")
        table.update_incremental()
    there.proxy.begin()
    opened = KeptTable(path)
    asked = [each.rpartition("/")[2] for each in there.proxy.asked() if each.startswith("GET") and ".json" in each]

    assert "00000000000000000009.checkpoint.parquet" in entries(there, path)
    assert "_last_checkpoint" in entries(there, path)
    assert sorted(asked) == [f"{version:020}.json" for version in (10, 11, 12)]  # at the same time
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


def test_a_hint_at_a_version_that_is_not_there_hides_no_table(there, path, monkeypatch):
    monkeypatch.setattr("kstreams_replay.state.tables.object_files._PAGE", 2)
    files, folder = open_filesystem(path)
    with files.open_output_stream(f"{folder}/_delta_log/_last_checkpoint") as file:
        file.write(b'{"version": 99, "size": 1}')

    opened = open_table(path)

    assert opened is not None
    assert opened.version() == 1


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


def test_a_table_that_was_made_again_with_fewer_versions_is_another_one(there, path):
    table = KeptTable(path)
    for name in ("x.parquet", "y.parquet"):
        add(table, name)
        table.update_incremental()
    files, folder = open_filesystem(path)
    for name in entries(there, path):
        files.delete_file(f"{folder}/_delta_log/{name}")
    commit_files(path, SCHEMA, [], app_id="again", increment=1)

    for _ in range(2):
        with pytest.raises(DeltaError, match="was replaced while it was open"):
            table.update_incremental()
    with pytest.raises(CommitFailedError):
        add(table, "z.parquet")
    assert (in_store(there, path).version(), names(in_store(there, path))) == (1, set())


def test_a_name_that_the_store_lists_and_does_not_have_is_left_to_delta(there, path, monkeypatch):
    files, _ = open_filesystem(path)
    listed = files.handler.names_in
    checkpoint = "00000000000000000000.checkpoint.parquet"
    monkeypatch.setattr(files.handler, "names_in", lambda folder, after: [*listed(folder, after), checkpoint])
    there.proxy.begin()

    assert KeptLog.of(path) is None
    assert there.proxy.counts()["LIST"] < 5


def test_a_checkpoint_of_a_version_that_has_no_entry_is_left_to_delta(there, path):
    files, folder = open_filesystem(path)
    with files.open_output_stream(f"{folder}/_delta_log/00000000000000000009.checkpoint.parquet") as file:
        file.write(b"of a version that is not there")

    assert KeptLog.of(path) is None


def test_a_version_that_a_listing_does_not_name_yet_is_found(there, path, monkeypatch):
    add(KeptTable(path), "x.parquet")
    files, _ = open_filesystem(path)
    listed, newest = files.handler.names_in, "00000000000000000002.json"
    monkeypatch.setattr(
        files.handler, "names_in", lambda folder, after: [each for each in listed(folder, after) if each != newest]
    )

    assert open_table(path, version=2, opened={}).version() == 2


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
