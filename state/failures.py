"""Errors of the machine as errors of ours: what the system, Arrow, Delta or the JVM raised, in one sentence.

Owns every such translation. Rule: what a user or an administrator can repair is a ReplayError with its place and the
next step; what is left over is a bug, and only that is called one. Libraries are known by the names of their classes,
so that this loads none of them.
"""

import errno
import os
import re
from typing import Any

from .errors import MachineError, ReplayError, StorageError
from .extras import EXTRAS, how_to_install

KEPT = "what is committed stays"
_AGAIN = f"then give the same command again; {KEPT}"
_BY_NUMBER = {
    errno.ENOENT: ("a file or folder that is there", "check the path"),
    errno.ENOTDIR: ("a folder", "check the path: a part of it is a file"),
    errno.EISDIR: ("a file", "check the path: it is a folder"),
    errno.EACCES: ("leave to read and write", "give this user the rights, or name another place"),
    errno.EPERM: ("leave to read and write", "give this user the rights, or name another place"),
    errno.EROFS: ("a disk that can be written", "mount it for writing, or name another place"),
    errno.ENOSPC: ("room on the disk", f"free some, {_AGAIN}"),
    errno.EDQUOT: ("room in the quota of this user", f"free some, {_AGAIN}"),
    errno.EFBIG: ("a file as large as needed", f"raise the limit of file sizes (ulimit -f), {_AGAIN}"),
    errno.EMFILE: ("a file handle", f"raise the limit of open files (ulimit -n), {_AGAIN}"),
    errno.ENFILE: ("a file handle", f"let the machine open more files, {_AGAIN}"),
    errno.EIO: ("a disk that works", f"look into the machine's log for this disk, {_AGAIN}"),
    errno.ESTALE: ("a mount that answers", f"mount the folder again, {_AGAIN}"),
    errno.ENAMETOOLONG: ("a path that the file system takes", "choose shorter names"),
}
"""What was expected, and the next step, by the system's number."""

_UNREADABLE = re.compile(
    r"(?i)parquet|magic bytes|footer|thrift|corrupt|truncated|not an arrow file|decompress|checksum|unexpected end"
)
"""In the words of Arrow and Delta: a file is not what it should be."""

_STORE = re.compile(r"AWS Error (?!NO_SUCH_KEY)|Generic (?:S3|GCS|MicrosoftAzure) error|Object store error")
"""In the words of Arrow, Delta and ours: an object store did not do what it was asked."""

_REFUSED = re.compile(rf"{_STORE.pattern}|error sending request|(?:os error|\[errno) (?!2\b)\d+")
"""The machine or the object store did not."""

_STATUS = re.compile(
    r"(?:non-2xx status code|status client error|status server error|HTTP status)\D{0,40}?(\d{3})[^:\n<]*"
)
_XML = re.compile(r"<Code>(.*?)</Code>(?:\s*<Message>(.*?)</Message>)?", re.DOTALL)
_JSON = re.compile(r'"message":\s*"(.*?)"')
_DEEPEST = re.compile(r'message: "(.*?)"')
_MISSING = re.compile(r"No module named '?([\w.]+)")
_RAN_ON = re.compile(r"\(TID \d+\) \((\S+) executor")
"""In Spark's words of a task that failed: the host of its worker."""
WORKER_PYTHON = (
    "install it there, set PYSPARK_PYTHON to a Python of the workers that has it, or send it with the job "
    "(docs/cluster.md, What travels with a job)"
)
_COLOURS = re.compile(r"\x1b\[\d*m")
_SENT = "<Code>NoSuchUpload</Code>"
"""Of a file in parts, where the answer that said it was whole was lost; the file is sent again as a whole."""
_MAY_PASS = ("408", "429")
"""A server's own errors do, too."""


def is_refusal(error: BaseException) -> bool:
    """Whether the machine or an object store refused to read (no access, no answer), so that nothing is known of the
    file. A file that is not there is no refusal.
    """
    number = error.errno if isinstance(error, OSError) else None
    return number not in (None, errno.ENOENT) or _REFUSED.search(str(error)) is not None


def is_passing(error: BaseException) -> bool:
    """Whether an object store failed in a way that may be over when it is asked again: no answer, half of one, or an
    error of its own. What it refuses (no rights, no bucket, another one was first) stays refused.
    """
    text = _COLOURS.sub("", str(error))
    if _SENT in text:
        return True
    if not (_STORE.search(text) or "error sending request" in text or "response body" in text):
        return False
    status = _STATUS.findall(text)
    return not status or status[-1].startswith("5") or status[-1] in _MAY_PASS


def last_cause(text: str) -> str:
    """The innermost reason in an error of an object store, in words: "503 Service Unavailable, SlowDown: Reduce your
    request rate", "Connection refused (os error 111)".
    """
    plain = _COLOURS.sub("", text)
    status = list(_STATUS.finditer(plain))
    if status:
        number = status[-1]
        said = f"{number[0][number.start(1) - number.start() :].strip()}"
        own = _XML.search(plain, number.end()) or _JSON.search(plain, number.end())
        return said if own is None else f"{said}, {': '.join(filter(None, own.groups()))}".rstrip(". ")
    deepest = _DEEPEST.findall(plain)
    if deepest:
        return str(deepest[-1]).rstrip(". ")
    return plain.partition("\n\nDebug source")[0].replace(" - ", "↳").split("↳")[-1].strip().rstrip(".")


def stop_below(error: BaseException | None) -> BaseException | None:
    """The Ctrl-C or SIGTERM that was being handled when ``error`` was raised; None where there was none. A signal that
    comes in the middle of a call to Spark's JVM makes the next call read the answer to that one.
    """
    while isinstance(error, Exception):
        error = error.__context__
    return None if isinstance(error, SystemExit | GeneratorExit) else error


def failure_of(error: BaseException, place: str) -> ReplayError | None:
    """What ``error``, or what it was raised from, means for a user; None for a bug. ``place``: where it happened, for
    an error that names no file.
    """
    seen: BaseException | None = error
    while seen is not None:
        translated = _translated(seen, place)
        if translated is not None:
            return translated
        seen = seen.__cause__
    return None


def _translated(error: BaseException, place: str) -> ReplayError | None:
    if isinstance(error, ReplayError):
        return error
    if isinstance(error, MemoryError):
        return MachineError("this process", "memory", "none left", f"cut with --max-records, or give it more, {_AGAIN}")
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return MachineError(place, f"the package {error.name}", "none", how_to_install(error.name))
    origin = {each.__module__.partition(".")[0] for each in type(error).__mro__}
    text = _first_line(error)
    if "py4j" in origin or "pyspark" in origin:
        return _of_spark(error)
    if isinstance(error, ConnectionError | TimeoutError):
        reach = f"see that it runs and that this machine reaches it, {_AGAIN}"
        return StorageError(place, "an answer from the other side", text, reach)
    if _STORE.search(str(error)):
        store = f"see that the store runs, and that its address, region and rights are right, {_AGAIN}"
        return StorageError(_path(text) or place, "an answer of the object store", _of_store(str(error)), store)
    if isinstance(error, OSError):
        number = error.errno if error.errno is not None else _number(str(error))
        return _of_system(number, _named(error.filename) or _path(str(error)) or place, error.strerror or text)
    if "deltalake" in origin or "_internal" in origin:
        number = _number(str(error))
        if number is not None:
            return _of_system(number, _path(str(error)) or place, text)
        if "Unknown scheme" in text:
            return StorageError(place, "a path, or a URI of a known scheme", text.partition(". ")[0], "correct it")
        return StorageError(_path(str(error)) or place, "a Delta table that can be read and written", text, _CHECK)
    if "pyarrow" in origin and _UNREADABLE.search(str(error)):
        return StorageError(_path(str(error)) or place, "a whole file", text, _CHECK)
    return None


_CHECK = "check the path and the file; `replay restore`, or landing it again, restores it"


def _of_store(text: str) -> str:
    """What an object store last said; of ours, which have it already, all."""
    ours = re.search(r"Object store error: (.*)", text)
    return ours[1] if ours is not None else last_cause(text)


def _of_system(number: int | None, place: str, text: str) -> StorageError:
    expected, next_step = _BY_NUMBER.get(
        number or 0, ("a file or folder that can be used", f"see what it is, {_AGAIN}")
    )
    got = os.strerror(number) if number in _BY_NUMBER else text
    return StorageError(place, expected, got, next_step)


def _of_spark(error: BaseException) -> ReplayError | None:
    """Of an error in the JVM: the system's reason where Java names one, else Java's own message."""
    said = str(error)
    if (lacking := of_worker(said)) is not None:
        return lacking
    number = errno.ENOSPC if "No space left on device" in said else _number(said)
    if number in _BY_NUMBER:
        return _of_system(number, "Spark, at work for this warehouse or in its own folders (spark.local.dir)", "")
    if "OutOfMemoryError" in said:
        memory = f"give it more (REPLAY_SPARK_DRIVER_MEMORY), {_AGAIN}"
        return MachineError("Spark's JVM", "memory", "OutOfMemoryError", memory)
    if type(error).__name__ in ("Py4JNetworkError", "Py4JError") and not hasattr(error, "java_exception"):
        return MachineError(
            "Spark's JVM", "to be there until the end", "no answer from it", f"see what ended it, {_AGAIN}"
        )
    if hasattr(error, "java_exception") or type(error).__name__.endswith("Exception"):
        lines = said.splitlines()
        reason = next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0] if lines else "")
        return MachineError(
            "Spark", "to do its work", reason, f"--traceback shows all of it; when it is repaired, {_AGAIN}"
        )
    return None


def of_worker(text: str) -> MachineError | None:
    """What Spark's error of a stage says of a worker whose Python lacks a module; None: nothing."""
    missing = _MISSING.search(text)
    if missing is None:
        return None
    ran_on = _RAN_ON.search(text)
    place = "a worker of Spark" if ran_on is None else f"the worker at {ran_on[1]}"
    return MachineError(place, f"the Python module {missing[1]}, as the driver has it", "none", WORKER_PYTHON)


def _number(text: str) -> int | None:
    """The system's error number, as Rust and Arrow write it."""
    match = re.search(r"Os \{ code: (\d+)|os error (\d+)|\[errno (\d+)", text, re.IGNORECASE)
    return None if match is None else int(next(group for group in match.groups() if group))


def _path(text: str) -> str:
    """The first path or URI in ``text``."""
    match = re.search(r"[\w+.-]*:?/?/[^\s'\",;:]+", text)
    return "" if match is None else match[0]


def _named(path: Any) -> str:
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
