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
from kstreams_replay.state.failures import failure_of, is_passing, last_cause


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


SLOW_DOWN = (
    "Generic S3 error: Error performing PUT http://localhost/b in 2s, after 9 retries, max_retries: 10, "
    "retry_timeout: 180s  - Server returned non-2xx status code: 503 Slow Down: <Error><Code>SlowDown</Code><Message>"
    "Reduce your request rate.</Message></Error>"
)
KERNEL = (
    "Kernel error\n          \x1b[31m↳\x1b[0m Generic S3 error\n           \x1b[31m↳\x1b[0m error sending request\n"
    "            \x1b[31m↳\x1b[0m Connection refused (os error 111)\n"
)
DENIED = (
    "Generic S3 error: Error performing GET http://localhost/b - Server returned non-2xx status code: 403 Forbidden: "
    "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
)
DENIED_TO_DELTA = (
    "Kernel error -> Generic S3 error\n  \x1b[31m↳\x1b[0m Error performing GET http://localhost/b in 2s - Server "
    "returned non-2xx status code\n           \x1b[31m↳\x1b[0m 403 Forbidden\n            \x1b[31m↳\x1b[0m "
    "<Error><Code>AccessDenied</Code><Message>no</Message></Error>\n"
)
DEBUGGED = (
    'Generic GCS error: HTTP error: error sending request\n\nDebug source:\n  message: "Connection reset by peer",\n'
)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (SLOW_DOWN, "503 Slow Down, SlowDown: Reduce your request rate"),
        (KERNEL, "Connection refused (os error 111)"),
        (DENIED, "403 Forbidden, AccessDenied: no"),
        (DEBUGGED, "Connection reset by peer"),
        (DENIED_TO_DELTA, "403 Forbidden, AccessDenied: no"),
        ('non-2xx status code: 400 Bad Request: {"error":{"message":"bad type"}}', "400 Bad Request, bad type"),
    ],
)
def test_the_last_cause_of_a_stores_error_is_said_in_words(text, cause):
    assert last_cause(text) == cause


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        (SLOW_DOWN, True),
        (KERNEL, True),
        (DEBUGGED, True),
        (DENIED, False),
        (DENIED_TO_DELTA, False),
        (DENIED.replace("403 Forbidden", "429 Too Many Requests"), True),
        (DENIED.replace("403 Forbidden", "409 Conflict"), False),
        (DENIED.replace("403 Forbidden", "404 Not Found").replace("AccessDenied", "NoSuchUpload"), True),
        ("Invalid table version: 1", False),
        ("[Errno 13] Permission denied: 'w'", False),
    ],
)
def test_what_may_pass_is_known_from_what_is_refused(text, passes):
    assert is_passing(OSError(text)) is passes


def test_an_error_of_deltas_kernel_names_what_the_store_said():
    found = failure_of(DeltaError(KERNEL), "warehouse s3://b/w")

    assert isinstance(found, StorageError)
    assert found.expected == "an answer of the object store"
    assert found.got == "Connection refused (os error 111)"


def test_an_error_of_a_file_of_a_store_says_which_file_and_why():
    found = failure_of(OSError("Object store error: GET s3://b/x: 500 Internal Server Error"), "warehouse s3://b/w")

    assert isinstance(found, StorageError)
    assert found.got == "GET s3://b/x: 500 Internal Server Error"
