"""A folder of this process below the machine's temporary one; what a killed process left there goes with the next.

Rule: a process holds a lock on a file in its folder, which the kernel gives back however the process ends. Only a
folder of this user, whose lock nobody holds, is deleted.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache

from .wall_clock import now_ms

_PREFIX, _LOCK = "replay-process-", "lock"
_MADE_MS = 60_000
"""A younger folder may have a lock that its process is about to take."""


def process_folder() -> str:
    """This process' folder, which is empty at first, and goes when the process ends. Raises OSError without room."""
    return _folder_of(os.getpid(), tempfile.gettempdir()).path


class _ProcessFolder:
    """``path`` as long as this object, and its process, live."""

    def __init__(self, place: str) -> None:
        self._kept = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=place)
        self.path = self._kept.name
        self._lock = os.open(f"{self.path}/{_LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)


@cache
def _folder_of(process: int, place: str) -> _ProcessFolder:
    """Of a ``process`` that is this one: a child of it has another."""
    _delete_left(place)
    return _ProcessFolder(place)


def _delete_left(place: str) -> None:
    with os.scandir(place) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    for path in left:
        with suppress(OSError):  # somebody else's, or gone meanwhile, or its process lives
            status = os.lstat(path)
            if status.st_uid == os.geteuid() and now_ms() - status.st_mtime * 1000 > _MADE_MS:
                _delete_unlocked(path)


def _delete_unlocked(path: str) -> None:
    """Raises BlockingIOError while its process lives."""
    lock = os.open(f"{path}/{_LOCK}", os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path)
    finally:
        os.close(lock)
