"""Kills a process at its k-th call to the kernel that would change a file, whatever library makes the call.

Owns the watching of another process (Linux, seccomp's user notifications). Rule: the process stops at each such
call until its parent says "continue", so that the k-th is the same one in every run, as far as its threads allow.

    child:   hand_over(connection)                  # then do the work; the filter stays for good
    parent:  calls = supervise(connection, pid, folder, kill_at=k)
"""

import ctypes
import errno
import fcntl
import multiprocessing.connection
import os
import platform
import select
import signal
import struct
from dataclasses import dataclass
from multiprocessing import reduction

_CALLS: dict[str, dict[str, int]] = {
    "x86_64": {
        "open": 2, "creat": 85, "openat": 257, "rename": 82, "renameat": 264, "renameat2": 316, "link": 86,
        "linkat": 265, "unlink": 87, "unlinkat": 263, "mkdir": 83, "mkdirat": 258, "rmdir": 84, "ftruncate": 77,
        "write": 1, "pwrite64": 18, "writev": 20, "sendfile": 40, "copy_file_range": 326, "seccomp": 317,
    },
    "aarch64": {
        "openat": 56, "renameat": 38, "renameat2": 276, "linkat": 37, "unlinkat": 35, "mkdirat": 34, "ftruncate": 46,
        "write": 64, "pwrite64": 68, "writev": 66, "sendfile": 71, "copy_file_range": 285, "seccomp": 277,
    },
}  # fmt: skip
NUMBERS = _CALLS[platform.machine()]
_NAMES = {number: name for name, number in NUMBERS.items() if name != "seccomp"}

_FILE_TO = {"copy_file_range": 2}
"""Which argument is the file that is written, where it is not the first."""
_WRITE_CALLS = frozenset({"write", "pwrite64", "writev", "sendfile", "copy_file_range"})
_BY_NUMBER = _WRITE_CALLS | {"ftruncate"}
_PATH_AT = {"open": 0, "creat": 0, "rename": 0, "link": 0, "unlink": 0, "mkdir": 0, "rmdir": 0}
"""Which argument is the path; in the calls that end in "at" it is the second, after the folder."""
_FLAGS_AT = {"open": 1, "openat": 2}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT

_NO_NEW_PRIVILEGES, _SET_FILTER, _NEW_LISTENER = 38, 1, 1 << 3
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_GO_ON = 1
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000


def hand_over(connection: multiprocessing.connection.Connection) -> None:
    """From now on the parent, at the other end, decides over every call of this process that changes a file."""
    listener = _install_filter()
    reduction.send_handle(connection, listener, os.getppid())
    os.close(listener)


def _install_filter() -> int:
    """Returns the listener. Threads that start later are under the filter too."""
    program = [struct.pack("=HBBI", _LOAD, 0, 0, 0)]
    for left, number in zip(range(len(_NAMES) - 1, -1, -1), _NAMES, strict=True):
        program.append(struct.pack("=HBBI", _EQUAL, left + 1, 0, number))
    program += [struct.pack("=HBBI", _RETURN, 0, 0, verdict) for verdict in (_ALLOW, _NOTIFY)]
    code = ctypes.create_string_buffer(b"".join(program))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0:
        listener = libc.syscall(NUMBERS["seccomp"], _SET_FILTER, _NEW_LISTENER, ctypes.byref(head))
        if listener >= 0:
            return int(listener)
    raise OSError(ctypes.get_errno(), "the kernel gives no seccomp notifications (Linux 5.5 has them)")


@dataclass(frozen=True)
class _Call:
    """A call that waits. ``task``: the thread that makes it."""

    id: int
    task: int
    number: int
    arguments: tuple[int, ...]

    @classmethod
    def received(cls, listener: int) -> "_Call | None":
        """None: the thread is gone."""
        buffer = bytearray(80)
        try:
            fcntl.ioctl(listener, _RECEIVE, buffer, True)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return None
            raise
        id_, task, _flags, number, _arch, _at, *arguments = struct.unpack("=QIIiIQ6Q", buffer)
        return cls(id_, task, number, tuple(arguments))

    def go_on(self, listener: int) -> None:
        answer = struct.pack("=QqiI", self.id, 0, 0, _GO_ON)
        try:
            fcntl.ioctl(listener, _SEND, answer)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise

    def place(self) -> str:
        """The path that it would change; "" when it changes none, or the thread is gone."""
        name = _NAMES[self.number]
        try:
            if name in _BY_NUMBER:
                return self._open_file(self.arguments[_FILE_TO.get(name, 0)])
            if name in _FLAGS_AT and not self.arguments[_FLAGS_AT[name]] & _WRITES:
                return ""
            path = self._text(self.arguments[_PATH_AT.get(name, 1)])
            if not path.startswith("/") and name not in _PATH_AT:
                return f"{self._open_file(self.arguments[0] & 0xFFFFFFFF)}/{path}"
            return path
        except OSError:
            return ""

    def _open_file(self, number: int) -> str:
        if number == 0xFFFFFF9C:  # AT_FDCWD
            return os.readlink(f"/proc/{self.task}/cwd")
        return os.readlink(f"/proc/{self.task}/fd/{number}")

    def _text(self, address: int) -> str:
        with open(f"/proc/{self.task}/mem", "rb", buffering=0) as memory:
            found = b""
            while b"\0" not in found:  # page by page, since the next one may not be there
                memory.seek(address + len(found))
                found += memory.read(4096 - (address + len(found)) % 4096)
        return os.fsdecode(found.partition(b"\0")[0])


def supervise(
    connection: multiprocessing.connection.Connection, pid: int, folder: str, *, kill_at: int, counts_writes: bool
) -> list[str]:
    """Let the process go from call to call until it ends, or kill it before its call number ``kill_at`` (from 0).

    Returns the calls that changed something below ``folder``, the one that was never made last. ``counts_writes``
    False: writing into an open file is none of them.
    """
    listener = reduction.recv_handle(connection)
    calls: list[str] = []
    try:
        waiting = select.poll()
        waiting.register(listener, select.POLLIN)
        while waiting.poll()[0][1] & select.POLLIN:  # else nobody is left under the filter
            call = _Call.received(listener)
            if call is None:
                continue
            if counts_writes or _NAMES[call.number] not in _WRITE_CALLS:
                place = call.place()
                if place.startswith(folder):
                    calls.append(f"{_NAMES[call.number]} {place.removeprefix(folder).lstrip('/')}")
                if len(calls) > kill_at:
                    os.kill(pid, signal.SIGKILL)
                    return calls
            call.go_on(listener)
        return calls
    finally:
        os.close(listener)
