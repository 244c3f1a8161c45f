"""Files of an object store: what is asked for, what is made of the answers, and what happens when there are none."""

import errno
import io
import os
import tempfile

import obstore
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from obstore.store import LocalStore, MemoryStore
from pyarrow import fs

from kstreams_replay.state.errors import ConfigError
from kstreams_replay.state.failures import failure_of
from kstreams_replay.state.tables import formats, object_files, object_stores
from kstreams_replay.state.tables.commit import commit_files, take_back
from kstreams_replay.state.tables.data_files import open_table, read_files
from kstreams_replay.state.tables.ledger import LandingLedger
from kstreams_replay.state.tables.ledger_rows import LandingPlanRow
from kstreams_replay.state.tables.object_files import ObjectFiles
from kstreams_replay.state.tables.object_stores import delta_options, open_filesystem, refuse_overwriting
from kstreams_replay.state.tables.parquet_writer import write_task_file
from kstreams_replay.state.tables.requests import REQUESTS
from kstreams_replay.state.tables.warehouse import Warehouse
from tests.laws.stuttering import Stutter

BROKEN = ("500", "503", "reset", "lost", "cut")
SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64())])


@pytest.fixture
def files():
    return fs.PyFileSystem(ObjectFiles(MemoryStore(), "bucket", "memory://bucket", 0.0))


def write(files: fs.FileSystem, path: str, content: bytes) -> None:
    with files.open_output_stream(path, compression=None) as file:
        file.write(content)


def kinds(files: fs.FileSystem, path: str, **how: bool) -> dict[str, str]:
    entries = files.get_file_info(fs.FileSelector(path, **how))
    return {entry.path: entry.type.name for entry in entries}


def asked(work) -> dict[str, int]:
    before = REQUESTS.made()
    work()
    return dict(REQUESTS.made() - before)


def test_a_file_is_there_when_it_is_closed_and_not_before(files):
    file = files.open_output_stream("bucket/w/x", compression=None)
    file.write(b"one ")
    file.write(pa.py_buffer(b"two"))
    before = files.get_file_info("bucket/w/x").type
    file.close()

    assert before == fs.FileType.NotFound
    with files.open_input_file("bucket/w/x") as written:
        assert written.read() == b"one two"


def test_a_disk_without_room_for_a_file_that_waits_there_is_named(files, monkeypatch):
    class Full(io.BytesIO):
        def write(self, piece):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(object_files, "SpooledTemporaryFile", lambda max_size: Full())
    with pytest.raises(OSError, match="No space left on device") as raised:
        files.open_output_stream("bucket/w/x", compression=None).write(b"one")

    assert str(failure_of(raised.value, "a task")) == (
        f"{tempfile.gettempdir()}: expected room on the disk, got No space left on device; free some, then give the "
        "same command again; what is committed stays"
    )


def test_a_file_is_read_at_any_place(files):
    content = os.urandom(10_000)
    write(files, "bucket/x", content)
    write(files, "bucket/none", b"")

    with files.open_input_file("bucket/x") as file:
        end = file.size(), file.read_at(100, 9_950)
        file.seek(0)
        got = (*end, file.read(10), file.read(), file.read())
    with files.open_input_file("bucket/none") as file:
        nothing = file.size(), file.read()

    assert got == (10_000, content[9_950:], content[:10], content[10:], b"")
    assert nothing == (0, b"")


def test_a_large_file_is_written_in_parts_and_read_in_pieces(files, monkeypatch):
    monkeypatch.setattr(object_files, "_PART_BYTES", 1 << 10)
    monkeypatch.setattr(object_files, "_WHOLE_BYTES", 1 << 10)
    content = os.urandom(5_000)

    written = asked(lambda: write(files, "bucket/x", content))

    assert written == {"PUT": 7}  # begun, five parts, finished
    with files.open_input_file("bucket/x") as file:
        assert file.read_at(2_000, 1_500) == content[1_500:3_500]
        file.seek(0)
        assert file.read() == content


def test_what_is_not_there_is_a_file_that_is_not_found(files):
    with pytest.raises(FileNotFoundError, match="no file bucket/x"):
        files.open_input_file("bucket/x")
    with pytest.raises(FileNotFoundError, match="no folder bucket/x"):
        files.get_file_info(fs.FileSelector("bucket/x"))

    assert files.get_file_info(fs.FileSelector("bucket/x", allow_not_found=True)) == []
    files.delete_file("bucket/x")
    files.delete_dir("bucket/x")


def test_folders_are_what_files_are_in(files):
    for name in ("w/a/b/c", "w/a/d", "w/e"):
        write(files, f"bucket/{name}", b"x")

    assert kinds(files, "bucket") == {"bucket/w": "Directory"}
    assert kinds(files, "bucket/w") == {"bucket/w/a": "Directory", "bucket/w/e": "File"}
    assert kinds(files, "bucket/w", recursive=True) == {
        "bucket/w/a": "Directory", "bucket/w/a/b": "Directory",
        "bucket/w/a/b/c": "File", "bucket/w/a/d": "File", "bucket/w/e": "File",
    }  # fmt: skip
    assert files.get_file_info("bucket/w/a").type == fs.FileType.Directory
    assert files.get_file_info("bucket/w/a/").type == fs.FileType.Directory


def test_a_folder_goes_with_all_that_is_in_it_and_with_nothing_else(files):
    for name in ("a/b/c", "a/d", "ab"):
        write(files, f"bucket/{name}", b"x")

    files.delete_dir("bucket/a")

    assert kinds(files, "bucket", recursive=True) == {"bucket/ab": "File"}


def test_a_folder_goes_though_another_runner_deletes_a_file_of_it_meanwhile(tmp_path, monkeypatch):
    # Some stores answer a delete of several with the first that is not there, and leave those behind it.
    files = fs.PyFileSystem(ObjectFiles(LocalStore(tmp_path), "bucket", "file:///bucket", 0.0))
    for number in range(64):
        write(files, f"bucket/a/{number}", b"x")
    delete = obstore.delete

    def race(store, keys):
        (tmp_path / keys[0]).unlink(missing_ok=True)
        delete(store, keys)

    monkeypatch.setattr(object_files.obstore, "delete", race)

    files.delete_dir("bucket/a")

    assert [path.name for path in (tmp_path / "a").iterdir()] == []


def test_what_cannot_be_deleted_is_said_though_another_file_is_not_there(tmp_path, monkeypatch):
    files = fs.PyFileSystem(ObjectFiles(LocalStore(tmp_path), "bucket", "file:///bucket", 0.0))
    for number in range(64):
        write(files, f"bucket/a/{number}", b"x")
    delete, kept = obstore.delete, next(obstore.list(LocalStore(tmp_path), "a"))[-1]["path"]

    def fail(store, keys):
        keys = [keys] if isinstance(keys, str) else keys
        if len(keys) > 1:
            (tmp_path / keys[0]).unlink()
        elif keys == [kept]:
            raise PermissionError("denied")
        delete(store, keys)

    monkeypatch.setattr(object_files.obstore, "delete", fail)

    with pytest.raises(OSError, match=f"^Object store error: DELETE file://bucket/{kept}: denied$"):
        files.delete_dir("bucket/a")


def test_a_file_is_one_request_each_way(files):
    assert asked(lambda: files.create_dir("bucket/w/a", recursive=True)) == {}
    assert asked(lambda: write(files, "bucket/w/a/x", b"x" * 1_000)) == {"PUT": 1}
    assert asked(lambda: files.open_input_file("bucket/w/a/x").read()) == {"GET": 1}
    assert asked(lambda: files.get_file_info("bucket/w/a/x")) == {"HEAD": 1}
    assert asked(lambda: files.get_file_info(fs.FileSelector("bucket/w"))) == {"LIST": 1}
    assert asked(lambda: files.delete_file("bucket/w/a/x")) == {"DELETE": 1}


def test_a_store_that_refuses_to_make_a_file_again_is_one_for_two_runners(files, monkeypatch):
    assert files.handler.makes_once("bucket/probe")
    assert kinds(files, "bucket", allow_not_found=True) == {}

    put = obstore.put
    monkeypatch.setattr(object_files.obstore, "put", lambda *what, mode: put(*what))

    assert not files.handler.makes_once("bucket/probe")


def test_a_store_that_overwrites_is_refused(monkeypatch):
    monkeypatch.setattr(ObjectFiles, "makes_once", lambda *_: False)

    with pytest.raises(ConfigError, match="s3://overwriting: expected a store that refuses to make a file again"):
        refuse_overwriting("s3://overwriting/w")


@pytest.mark.parametrize("uri", ["hdfs://host/w", "https://localhost/w", "nope://b/w", "gs://b/w"])
def test_a_scheme_that_nobody_has_tried_is_refused_by_its_name(uri):
    with pytest.raises(ConfigError, match=f"expected a folder, or a URI of s3://.*, got {uri.partition(':')[0]}://"):
        open_filesystem(uri)


def test_googles_store_is_taken_where_it_is_meant(monkeypatch):
    with pytest.raises(ConfigError, match="take it untried: --storage-option untried=gs, or REPLAY_UNTRIED=gs"):
        delta_options("gs://not-meant/w")

    meant = Warehouse("gs://meant/w", {"untried": "gs", "GOOGLE_SERVICE_ACCOUNT": "here.json"})
    assert delta_options(meant.root) == {
        "max_retries": "1000", "backoff_config.init_backoff": "100ms", "backoff_config.max_backoff": "5s",
        "retry_timeout": "120000ms", "google_service_account": "here.json",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="got gs://, which nobody has tried"):
        delta_options(Warehouse("gs://of-another-name/w", {"untried": "s3"}).root)
    monkeypatch.setenv("REPLAY_UNTRIED", "gs")
    assert delta_options("gs://not-meant/w") is not None


def test_an_option_that_no_store_of_the_kind_has_is_refused():
    options = {"AWS_REGOIN": "eu-west-1"}

    with pytest.raises(ConfigError, match="'aws_regoin' is not valid"):
        open_filesystem(Warehouse("s3://bucket-of-a-misspelt-option/w", options).root)


@pytest.mark.slow
def test_requests_are_counted_as_the_store_sees_them(there):
    files, path = open_filesystem(there.store.warehouse().root)
    there.proxy.begin()

    def work() -> None:
        write(files, f"{path}/a/x", b"x" * 1_000)
        files.open_input_file(f"{path}/a/x").read()
        files.get_file_info([f"{path}/a/x", f"{path}/a", f"{path}/none"])
        files.get_file_info(fs.FileSelector(path, recursive=True))
        files.delete_dir(path)

    assert asked(work) == dict(there.proxy.counts())


@pytest.mark.slow
@pytest.mark.parametrize("fault", BROKEN)
def test_a_request_that_fails_is_made_again(there, fault):
    files, path = open_filesystem(there.store.warehouse().root)
    there.proxy.begin(Stutter(0.4, 7, (fault,)))

    for number in range(4):
        write(files, f"{path}/{number}", b"x" * 1_000)
        with files.open_input_file(f"{path}/{number}") as file:
            assert file.read() == b"x" * 1_000
        assert list(kinds(files, path)) == [f"{path}/{number}"]
        files.delete_file(f"{path}/{number}")

    assert there.proxy.counts()[fault] >= 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("503", "503 Service Unavailable, SlowDown: Reduce your request rate"),
        ("reset", "Connection reset by peer"),
    ],
)
def test_when_the_time_is_up_the_last_cause_is_said(there, fault, cause):
    warehouse = Warehouse(there.store.warehouse().root, there.store.options, "0s")
    files, path = open_filesystem(warehouse.root)
    there.proxy.begin(Stutter(1.0, 7, (fault,)))

    with pytest.raises(OSError, match=f"^Object store error: PUT s3://{path}/x: {cause}$"):
        write(files, f"{path}/x", b"x")


@pytest.mark.slow
def test_the_time_goes_along_with_the_options(there):
    warehouse = Warehouse(there.store.warehouse().root, there.store.options, "90s")

    assert object_stores.timeout_seconds(warehouse.landed("clicks")) == 90
    assert object_stores.delta_options(warehouse.root)["retry_timeout"] == "90000ms"
    assert warehouse.storage_options["retry_timeout"] == "90000ms"


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["lost", "reset", "503"])
def test_a_commit_whose_answer_was_lost_is_found_and_not_made_twice(there, fault):
    path = f"{there.store.warehouse().root}/p/dropped"
    commit_files(path, SCHEMA, [], app_id="a", increment=1)
    rows = pa.table({"partition": pa.array([0], pa.int32()), "offset": [7]})
    file = write_task_file(path, rows, partition=0, name="00000002")
    there.proxy.begin(Stutter(1.0, 7, (fault,), only="_delta_log/00000000000000000002.json", most=1))

    version = commit_files(path, SCHEMA, [file], app_id="a", increment=2)

    assert there.proxy.counts()[fault] == 1
    assert version == 2
    assert [each.path for each in read_files(path)] == [file.path]
    assert open_table(path).version() == 2


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["lost", "cut"])
def test_a_file_in_parts_is_whole_though_the_answer_to_its_last_request_was_lost(there, fault, monkeypatch):
    """
    The client gives the upload up then, and the store has none of that number any more.
    """
    monkeypatch.setattr(object_files, "_PART_BYTES", 5 << 20)  # a store takes no smaller part
    files, path = open_filesystem(there.store.warehouse().root)
    content = os.urandom(6 << 20)
    there.proxy.begin(Stutter(1.0, 7, (fault,), only="?uploadId", most=1))

    write(files, f"{path}/x", content)

    assert there.proxy.counts()[fault] == 1
    with files.open_input_file(f"{path}/x") as file:
        assert file.read() == content


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["lost", "reset", "503"])
def test_an_older_format_is_raised_once_though_the_answer_was_lost(there, fault, monkeypatch):
    path = f"{there.store.warehouse().root}/p/dropped"
    commit_files(path, SCHEMA, [], app_id="a", increment=1)
    monkeypatch.setattr(formats, "FORMAT", 2)
    there.proxy.begin(Stutter(1.0, 7, (fault,), only="_delta_log/00000000000000000002.json", most=1))

    version = commit_files(path, SCHEMA, [], app_id="a", increment=2)

    assert there.proxy.counts()[fault] == 1
    assert version == 3
    assert open_table(path).metadata().description.endswith("format 2")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["lost", "reset", "503"])
def test_a_commit_of_others_is_taken_back_once_though_the_answer_was_lost(there, fault):
    path = f"{there.store.warehouse().root}/p/dropped"
    commit_files(path, SCHEMA, [], app_id="a", increment=1)
    DeltaTable(path, storage_options=delta_options(path)).alter.set_table_properties({"delta.appendOnly": "true"})
    there.proxy.begin(Stutter(1.0, 7, (fault,), only="_delta_log/00000000000000000003.json", most=1))

    touched = take_back(path, 1)

    assert there.proxy.counts()[fault] == 1
    assert [commit.version for commit in touched.commits] == [2]
    assert open_table(path).version() == 3


@pytest.mark.slow
def test_a_plan_whose_answer_was_lost_is_the_own_one(there):
    ledger = LandingLedger(there.store.warehouse().landing_ledger("clicks"))
    there.proxy.begin(Stutter(1.0, 7, ("lost",), only="_delta_log/00000000000000000001.json", most=1))

    ledger.plan(1, LandingPlanRow(), written_at_ms=0)

    assert there.proxy.counts()["lost"] == 1
    assert [row.increment for row in ledger.plans()] == [1]
