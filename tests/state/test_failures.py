"""Trouble of the machine, in one sentence with place, expected, got and next step; only a bug is called one."""

import errno
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JNetworkError

from kstreams_replay.state.errors import MachineError, StorageError
from kstreams_replay.state.failures import failure_of


def raised(call) -> Exception:
    with pytest.raises(Exception) as info:  # noqa: PT011 - which one is what is asked
        call()
    return info.value


@pytest.mark.parametrize(
    ("number", "expected", "next_step"),
    [
        (errno.ENOSPC, "room on the disk", "free some, then give the same command again; what is committed stays"),
        (errno.EROFS, "a disk that can be written", "mount it for writing, or name another place"),
        (errno.EACCES, "leave to read and write", "give this user the rights, or name another place"),
        (errno.ENOENT, "a file or folder that is there", "check the path"),
        (errno.EIO, "a disk that works", "look into the machine's log for this disk"),
    ],
)
def test_what_the_system_refuses_names_the_file_and_what_to_do(number, expected, next_step):
    python = failure_of(OSError(number, os.strerror(number), "w/outputs/x.parquet"), "warehouse w")
    rust = failure_of(
        OSError(f'Generic LocalFileSystem error: Os {{ code: {number}, kind: Other, message: "no" }}'), "warehouse w"
    )

    for found, where in ((python, "w/outputs/x.parquet"), (rust, "warehouse w")):
        assert isinstance(found, StorageError)
        assert (found.place, found.expected, found.got) == (where, expected, os.strerror(number))
        assert found.next_step.startswith(next_step)


def test_a_full_disk_is_found_below_the_error_that_it_caused():
    outer = RuntimeError("the thread ended")
    outer.__cause__ = OSError(errno.ENOSPC, "No space left on device", "w/x")

    found = failure_of(outer, "warehouse w")

    assert found is not None
    assert found.got == "No space left on device"


def test_a_connection_that_is_refused_is_no_matter_of_files():
    found = failure_of(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "warehouse w")

    assert isinstance(found, StorageError)
    assert str(found).startswith(
        "warehouse w: expected an answer from the other side, got [Errno 111] Connection refused"
    )


def test_a_file_that_is_none_is_no_bug(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"hello, this is no file of that kind")

    found = failure_of(raised(lambda: pq.read_table(tmp_path / "x.parquet")), "warehouse w")

    assert isinstance(found, StorageError)
    assert found.expected == "a whole file"


@pytest.mark.parametrize(
    "error",
    [
        OSError(
            "When reading key 'x' in bucket 'b': AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode 7"
        ),
        DeltaError("Generic S3 error: Error performing list request: error sending request"),
    ],
)
def test_an_object_store_that_does_not_answer_says_so(error):
    found = failure_of(error, "warehouse s3://b/w")

    assert isinstance(found, StorageError)
    assert (found.place, found.expected) == ("warehouse s3://b/w", "an answer of the object store")


def test_deltas_own_errors_are_no_bugs(tmp_path):
    (tmp_path / "file").touch()

    not_a_folder = failure_of(raised(lambda: DeltaTable(str(tmp_path / "file"))), "warehouse w")
    scheme = failure_of(raised(lambda: DeltaTable("nope://b/t")), "warehouse w")

    assert isinstance(not_a_folder, StorageError)
    assert isinstance(scheme, StorageError)
    assert str(tmp_path / "file") in str(not_a_folder)


def test_a_jvm_that_is_gone_or_has_no_memory_left_says_so():
    gone = failure_of(Py4JNetworkError("Answer from Java side is empty"), "warehouse w")
    full = failure_of(Py4JNetworkError("java.lang.OutOfMemoryError: Java heap space"), "warehouse w")
    disk = failure_of(Py4JNetworkError("java.io.IOException: No space left on device"), "warehouse w")
    worker = failure_of(
        Py4JNetworkError("in a worker: OSError: [Errno 30] Read-only file system: 'w/x'"), "warehouse w"
    )

    assert isinstance(gone, MachineError)
    assert "no answer from it" in str(gone)
    assert "REPLAY_SPARK_DRIVER_MEMORY" in str(full)
    assert isinstance(disk, StorageError)
    assert "expected a disk that can be written, got Read-only file system" in str(worker)


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), KeyError("x"), pa.ArrowInvalid("Column 3 has 2 rows")])
def test_what_nobody_outside_can_mend_is_a_bug(error):
    assert failure_of(error, "warehouse w") is None
